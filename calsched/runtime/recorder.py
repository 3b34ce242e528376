"""What an owner knows, and the side of it that workers and executors call: the recorder of outcomes."""

from __future__ import annotations

import asyncio
import os
import queue
import socket
import threading
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from calsched.clock import Clock
from calsched.model import Outcome
from calsched.runtime.flights import Flights
from calsched.runtime.narrate import Narrator
from calsched.runtime.parts import Observer, Port, Settings
from calsched.runtime.problems import Problems
from calsched.runtime.runner import Report, end, tell
from calsched.runtime.trouble import Trouble
from calsched.runtime.unusable import Unusable
from calsched.runtime.work import Prepared, Work, describe

if TYPE_CHECKING:
    from calsched.stores.engine import Store

ENDED, BACK, REFUSED = "ended", "back", "refused"


class Recorder:
    """The state of one owner, or standby. Workers report here through a queue; the pump's thread changes all else."""

    def __init__(self, store: Store, port: Port, settings: Settings) -> None:
        from calsched.runtime.verbs import Verbs

        self.store = store
        self.port = port
        self.settings = settings
        self.clock: Clock = store.clock
        self.name = settings.name or f"{socket.gethostname()}:{os.getpid()}"
        self.verbs = Verbs(store, settings, self.name)
        self.workspaces = settings.workspaces
        self.installation = ""
        self.role = "new"  # standby, owner, stopping, stopped
        self.stopping = False
        self.left_running = 0  # tasks that had not ended when the limit of a stop was over
        self.stops: list[int] = []  # monotonic: when running work is given up; the earliest counts
        self.flights = Flights(ahead=False)  # a start needs a commit anyway, which may as well claim
        self.problems = Problems()
        self.unusable = Unusable(self.verbs, self.problems, self._grace())
        self.trouble = Trouble(self.clock, store.url_shown)
        self.inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.done = threading.Event()
        self.owned = threading.Event()
        # A clock of the machine that is set must not move what the database's clock decides.
        self._ticks = self.clock.now if store.own_clock else self.clock.monotonic
        self._offset = 0
        self._lease_until = 1 << 62
        self._outcomes: list[Work] = []
        self._returns: list[Work] = []
        self._prepared: dict[int, Prepared] = {}
        self._loaded: dict[str, Any] = {}
        self._detached: dict[int, Work] = {}
        self._free: set[int] = set()  # schedules whose timed-out thread has ended
        self._limited: dict[int, Work] = {}
        self._next_due: int | None = 0
        self._next_run: int | None = None
        self._next_limit: int | None = None  # when a deadline or an expiry of work that waits has passed
        self._limits_known = False  # whether nothing has changed since that was read
        self._dry: set[str] = set()  # executors for which the last claim found nothing more
        self.hold: str | None = None  # why nothing is dispatched
        self._clock_at = 0
        self._stage = ""
        self._advance_at = 0  # monotonic: after a tick that failed
        self._claim_at = 0
        self._poll_at = 0
        self._beat_at = 0
        self._change: int | None = None
        self._asked_at: int | None = None  # monotonic: since when a round is under way
        self._uncertain = False
        self._flags: str | None = None
        self._narrator = Narrator()
        self.observers: list[Observer] = []  # told what has committed, in the pump's thread
        self._thread: threading.Thread | None = None
        self._listener: Any = None

    def _grace(self) -> float:
        """For how long what nobody can load waits for an owner that can; seconds."""
        return self.settings.lease

    def wall(self) -> int:
        return self._ticks() + self._offset

    def _may_dispatch(self, hold: str | None) -> bool:
        """The clock was observed; a hold is told when it begins and when it ends."""
        if hold != self.hold:
            self.hold = hold
            self._narrator.hold(hold)
        return hold is None

    def admits(self, work: Work) -> bool:
        if self.stopping or work.given_back or work.outcome is not None:
            return False
        return self.clock.monotonic() < self._lease_until and self.port.open() and work.take()

    def record(self, work: Work, outcome: Outcome) -> None:
        with self.lock:
            if work.outcome is None:
                work.outcome = outcome
                message: Any = work
            else:  # the pump has recorded a timeout or a stop already
                message = (ENDED, work)
        self.inbox.put(message)

    def give_back(self, work: Work) -> None:
        if work.given_back:  # the pump has withdrawn it, and told the store
            return
        work.given_back = True
        self.inbox.put((BACK, work))

    def executor_reports(self, work: Work, events: list[Any]) -> None:
        if work.given_back or work.detached:
            return
        if events and isinstance(events[0].retval, Report):
            if not events[0].retval.begun:
                self.give_back(work)
                return
            events = self._bring_home(work, events)
        elif work.outcome is None and events:
            self._record_from_event(work, events[0])
        with self.lock:
            work.events = events
            settled = work.settled
        if settled:
            self.port.settled([work])

    def _bring_home(self, work: Work, events: list[Any]) -> list[Any]:
        from calsched.runtime.executors import event_for

        report: Report = events[0].retval
        c = work.claimed
        self.record(
            work,
            Outcome(
                c.occurrence, c.attempt, report.state, self.wall(), report.elapsed, report.result, report.failure,
                clean_stop=report.clean_stop,
            ),
        )  # fmt: skip
        old = events[0]
        return [event_for(report, str(old.job_id), old.jobstore, old.scheduled_run_time)]

    def _record_from_event(self, work: Work, event: Any) -> None:
        """The worker's form did not report (a child that could not even load the hand-out)."""
        exc = event.exception
        if exc is None:
            tell(work, end(work, "succeeded"))
        elif isinstance(exc, asyncio.CancelledError | CancelledError | GeneratorExit):
            self.executor_fails(work, exc)
        else:
            tell(work, end(work, "failed", None, describe(exc, event.traceback or "")))

    def executor_fails(self, work: Work, exc: BaseException) -> None:
        if work.given_back or work.outcome is not None:
            return
        cancelled = isinstance(exc, asyncio.CancelledError | CancelledError)
        if work.began is None and (work.seat.kind != "process" or cancelled) and work.take():
            self.give_back(work)
        elif not cancelled:  # else its thread goes on, and reports when it ends
            tell(work, end(work, "interrupted", None, describe(exc)))

    def submission_failed(self, work: Work) -> None:
        """The core could not hand it to its executor."""
        work.given_back = True
        self.inbox.put((REFUSED, work))
