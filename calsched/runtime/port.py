"""The scheduler's side of the pump: hand-outs on their way to the core loop, events on their way to listeners."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from apscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
    JobExecutionEvent,
    JobSubmissionEvent,
)
from apscheduler.schedulers.base import STATE_RUNNING

from calsched import logs
from calsched.clock import SystemClock, to_datetime
from calsched.model import PlannedRange
from calsched.runtime.executors import HandOut, Seat, hand_out, hook
from calsched.runtime.runner import TaskTimedOut, timeout_failure
from calsched.runtime.work import Work

if TYPE_CHECKING:
    from calsched.runtime.pump import Pump

log = logs.get("calsched.jobstore")

#: The core asks at least this often, should a wake-up have been lost.
LOOK = timedelta(seconds=30)
_OUTCOMES = EVENT_JOB_EXECUTED | EVENT_JOB_ERROR
#: Which APScheduler event a range is told as; the other reasons have none.
_RANGE_EVENTS = {
    "misfire": EVENT_JOB_MISSED,
    "maxLateness": EVENT_JOB_MISSED,
    "maxInstances": EVENT_JOB_MAX_INSTANCES,
    "overlap": EVENT_JOB_MAX_INSTANCES,
    "queueFull": EVENT_JOB_MAX_INSTANCES,
}


class SchedulerPort:
    """One scheduler with our job store under one alias. Its methods neither block nor raise."""

    def __init__(self, scheduler: Any, alias: str, namespace: str, allow: tuple[str, ...] | None) -> None:
        self.scheduler, self.alias, self.namespace, self.allow = scheduler, alias, namespace, allow
        logs.guard(scheduler._logger)  # its loop logs, and tells of listeners that raise, in our thread
        self.pump: Pump | None = None
        self._handed: deque[HandOut] = deque()
        self._seats: dict[str, Seat] = {}
        self._was_open = False
        self._events = Events(scheduler)
        self._clock = SystemClock()  # the core loop sleeps by the machine's clock, whatever the store goes by

    # --- for the pump -------------------------------------------------------------------------------------------------

    def open(self) -> bool:
        if self.scheduler.state != STATE_RUNNING:
            return False
        loop = getattr(self.scheduler, "_eventloop", None)
        return loop is None or not loop.is_closed()

    def seats(self) -> Mapping[str, Seat]:
        executors = self.scheduler._executors
        seats = self._seats
        if len(seats) != len(executors) or any(
            alias not in seats or seats[alias].executor is not executor for alias, executor in list(executors.items())
        ):
            self._seats = seats = {alias: self._seat(alias, executor) for alias, executor in list(executors.items())}
        return seats

    def _seat(self, alias: str, executor: Any) -> Seat:
        known = self._seats.get(alias)
        if known is not None and known.executor is executor:
            return known
        hook(executor)
        return Seat(alias, executor, self.allow)

    def deliver(self, works: list[Work]) -> None:
        scheduler, alias = self.scheduler, self.alias
        self._handed.extend([hand_out(work, scheduler, alias, self.job_id(work)) for work in works])
        self.wake()

    def wake(self) -> None:
        """A scheduler that was shut down, or whose loop has closed, cannot be woken; the pump finds out by itself."""
        try:
            self.scheduler.wakeup()
        except Exception:
            log.debug("the scheduler could not be woken", exc_info=True)

    def job_id(self, work: Work) -> str:
        return self._id(work.claimed.namespace, work.claimed.schedule_id)

    def _id(self, namespace: str, schedule_id: str) -> str:
        return schedule_id if namespace == self.namespace else f"{namespace}/{schedule_id}"

    def settled(self, works: list[Work]) -> None:
        if self._events.wanted(_OUTCOMES):
            self._events.send([event for work in works for event in work.events or ()])

    def timed_out(self, work: Work) -> None:
        """Its own event would come when the thread ends at last; tell now."""
        failure = TaskTimedOut(timeout_failure(work).message)
        due = to_datetime(work.claimed.due)
        work.events = [JobExecutionEvent(EVENT_JOB_ERROR, self.job_id(work), self.alias, due, exception=failure)]

    def advanced(self, schedules: Sequence[Any]) -> None:
        if not self._events.wanted(EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES):
            return
        events = []
        for one in schedules:
            if one.plan.ranges:
                job_id = self._id(one.namespace, one.id)
                events += [event for r in one.plan.ranges if (event := self._range_event(job_id, r)) is not None]
        if events:
            self._events.send(events)

    def _range_event(self, job_id: str, r: PlannedRange) -> Any:
        """One event a range; its times are the range's ends."""
        code = _RANGE_EVENTS.get(r.reason or "")
        if code is None:
            return None
        if code == EVENT_JOB_MISSED:
            return JobExecutionEvent(code, job_id, self.alias, to_datetime(r.last_due))
        ends = [r.first_due] if r.first == r.last else [r.first_due, r.last_due]
        return JobSubmissionEvent(code, job_id, self.alias, [to_datetime(due) for due in ends])

    # --- for the core loop --------------------------------------------------------------------------------------------

    def take(self) -> list[HandOut]:
        """Everything that has been started. The first call after the scheduler was resumed sets the pump going."""
        if not self._was_open:
            self._was_open = True
            if self.pump is not None:
                self.pump.kick()
        out: list[HandOut] = []
        handed = self._handed
        while handed:
            out.append(handed.popleft())
        return out

    def paused(self) -> None:
        self._was_open = False

    def next_look(self) -> datetime:
        return to_datetime(self._clock.now()) + LOOK

    def submitted(self, job: HandOut) -> None:
        work = job.work
        if not work.submitted and work.outcome is None and not work.given_back and self.pump is not None:
            self.pump.submission_failed(work)

    def withdraw(self) -> list[Work]:
        """What the core has not fetched, when everything ends."""
        return [job.work for job in self._take_all()]

    def _take_all(self) -> list[HandOut]:
        out = list(self._handed)
        self._handed.clear()
        return out

    def close(self) -> None:
        self._events.close()


def renew_locks(scheduler: Any) -> None:
    """In a forked child: what another thread held at that moment would never be released here."""
    executors = list(scheduler._executors.values())
    for holder in (scheduler, *executors, *(getattr(executor, "_pool", None) for executor in executors)):
        for name in ("_executors_lock", "_jobstores_lock", "_listeners_lock", "_lock", "_shutdown_lock"):
            if hasattr(holder, name):
                setattr(holder, name, scheduler._create_lock())
    if getattr(scheduler, "_event", None) is not None:
        scheduler._event = threading.Event()


class Events:
    """Events go out where listeners expect them: on the loop of an asyncio scheduler, else on a thread of their own.

    Never on the pump's: a listener may take its time, or shut the scheduler down.
    """

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._queue: queue.SimpleQueue[list[Any] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def wanted(self, mask: int) -> bool:
        return any(wanted & mask for _, wanted in self._scheduler._listeners)

    def send(self, events: list[Any]) -> None:
        loop = getattr(self._scheduler, "_eventloop", None)
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._dispatch, events)
                return
            except RuntimeError:  # the loop has closed
                pass
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="calsched-events", daemon=True)
            self._thread.start()
        self._queue.put(events)

    def close(self) -> None:
        self._queue.put(None)

    def _run(self) -> None:
        while (events := self._queue.get()) is not None:
            self._dispatch(events)

    def _dispatch(self, events: list[Any]) -> None:
        for event in events:
            self._scheduler._dispatch_event(event)
