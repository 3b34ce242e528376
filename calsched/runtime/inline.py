"""An owner without threads: it ticks when it is told to, and runs tasks in the thread that tells it.

For hosts that are woken from outside, and for tests in virtual time. It speaks the verbs that the pump speaks and runs
claims through the same runner; what it leaves out is doing anything by itself, or two things at once::

    turn ── finish ─► advance ─► claim one ─► start ──► committed        one transaction
    run  ── the task, here; its outcome waits for the next turn
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from calsched.clock import Clock
from calsched.errors import CalschedError, Fenced, OwnedElsewhere
from calsched.model import Claimed, Outcome, Unread
from calsched.runtime.callables import load
from calsched.runtime.problems import Problems
from calsched.runtime.pump import Settings
from calsched.runtime.runner import end, run_coroutine, run_in_thread, timeout_failure
from calsched.runtime.unusable import Unusable
from calsched.runtime.verbs import Verbs
from calsched.runtime.work import Prepared, Work
from calsched.stores.claim import claim
from calsched.stores.engine import Store
from calsched.stores.inspect import clock_of
from calsched.stores.sweep import next_event


class InlineOwner:
    """One owner of one store. It is the recorder of its own tasks; nothing here is for two threads at once."""

    def __init__(self, store: Store, settings: Settings | None = None) -> None:
        self.store, self.settings = store, settings or Settings()
        self.clock: Clock = store.clock
        self.name = self.settings.name or f"{socket.gethostname()}:{os.getpid()}"
        self.verbs = Verbs(store, self.settings, self.name)
        self.installation = ""
        self.workspaces = self.settings.workspaces
        self.on_hold = False
        self._offset = 0
        self._beat_at = 0
        self._ended: list[Work] = []  # outcomes that the next turn commits
        self._prepared: dict[int, Prepared] = {}
        self.problems = Problems()
        self.unusable = Unusable(self.verbs, self.problems, grace=0.0)

    # --- coming and going ---------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Become an owner. Raises OwnedElsewhere, and StoreUnusable errors."""
        self.store.open()
        if not self.verbs.acquire():
            raise OwnedElsewhere(*self.verbs.owner(), self.store.url_shown)
        self.installation = self.store.installation
        with self.store.write() as conn:
            now = self._now(conn)
            self.verbs.register(conn, now)
        self._beat_later()

    def close(self) -> None:
        """Commit what has ended, and leave in good order."""
        try:
            with self._transaction() as (conn, now):
                self.verbs.stop(conn, now)
        finally:
            self.verbs.release()

    def _beat_later(self) -> None:
        self._beat_at = self.clock.monotonic() + int(self.settings.lease * 1000 / 3)

    # --- work ---------------------------------------------------------------------------------------------------------

    def drain(self) -> list[Work]:
        """Run everything that may run at this instant, oldest first; what ran, in order."""
        ran = []
        while (work := self.turn()) is not None:
            ran.append(work)
            self.run(work)
        return ran

    def turn(self) -> Work | None:
        """Commit outcomes, tick, and start the occurrence that is next; None where nothing may start now.

        Raises Fenced when another owner has taken over.
        """
        while True:
            with self._transaction() as (conn, now):
                hold, effective = self.verbs.observe_clock(conn, now)
                self.on_hold = hold is not None
                report = self.verbs.advance(conn, effective)
                self._judge_failed(conn, now, report)
                claimed = None if self.on_hold else self._claim(conn, now)
                work = None if claimed is None else self._start(conn, now, claimed)
            if work is not None or (claimed is None and not report.more):
                return work

    def run(self, work: Work) -> None:
        """Run a started occurrence here. What it raises is in its outcome; only a stop of the whole program goes on."""
        with contextlib.suppress(Exception, SystemExit, asyncio.CancelledError):
            if work.prepared.is_async:
                _on_a_loop(lambda: run_coroutine(work))
            else:
                run_in_thread(work)

    def next_event(self) -> int | None:
        """The next instant, after now, at which something becomes due, or work may start, or a limit passes."""
        with self.store.read() as conn:
            now = self.store.now(conn)
            found = next_event(self.store, conn, now)
            if not self.on_hold:
                return found
            ends = (clock_of(self.store, conn).high_water or 0) - int(self.settings.clock_tolerance * 1000)
        return found if ends <= now else ends if found is None else min(found, ends)

    # --- the parts of a turn ------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[tuple[Any, int]]:
        """One that begins with what has ended; an outcome is forgotten only when it has committed."""
        ended = len(self._ended)
        with self.store.write() as conn:
            now = self._now(conn)
            self._stay_alive(conn, now)
            self._commit(conn, now)
            yield conn, now
        del self._ended[:ended]

    def _now(self, conn: Any) -> int:
        now = self.store.now(conn)
        self._offset = now - self.clock.now()
        return now

    def _stay_alive(self, conn: Any, now: int) -> None:
        if self.clock.monotonic() < self._beat_at:
            return
        if not self.verbs.heartbeat(conn, now):
            raise Fenced(f"{self.name}: this owner's lease was lost, and another has taken its work over")
        self.verbs.bury_the_dead(conn, now)
        self._beat_later()

    def _commit(self, conn: Any, now: int) -> None:
        if self._ended:
            self.verbs.finish(conn, now, self._ended)

    def _claim(self, conn: Any, now: int) -> Claimed | None:
        while True:
            broken: list[Unread] = []
            over = self.unusable.passed_over(now)
            found = claim(self.store, conn, epoch=self.verbs.epoch, now=now, limit=1, exclude=over, unread=broken)
            for one in broken:
                self.unusable.met(conn, now, one.schedule_pk, one.namespace, one.schedule_id, "definition", one.problem)
            if found or not broken:
                return found[0] if found else None

    def _start(self, conn: Any, now: int, claimed: Claimed) -> Work | None:
        try:
            prepared = self._prepare(conn, claimed)
        except CalschedError as error:
            self.verbs.give_back(conn, now, [claimed.occurrence])
            self.unusable.met(conn, now, claimed.schedule, claimed.namespace, claimed.schedule_id, "task", str(error))
            return None
        if not self.verbs.start(conn, now, [claimed.occurrence]):
            return None
        self.unusable.over([(claimed.schedule, claimed.namespace, claimed.schedule_id)])
        return Work(claimed, prepared, self)

    def _prepare(self, conn: Any, claimed: Claimed) -> Prepared:
        found = self._prepared.get(claimed.revision_pk)
        if found is None:
            definition = self.verbs.definition(conn, claimed)
            found = self._prepared[claimed.revision_pk] = Prepared(definition, self.settings.allow, self._load)
        return found

    def _load(self, ref: str, *rest: Any) -> Callable[..., Any]:
        return load(ref, *rest)

    def _judge_failed(self, conn: Any, now: int, report: Any) -> None:
        self.problems.over("failed", ((one.namespace, one.id) for one in report.schedules))
        for one in report.failed:
            self.unusable.failed(conn, now, one)

    # --- the recorder: called by the runner ---------------------------------------------------------------------------

    def wall(self) -> int:
        return self.clock.now() + self._offset

    def admits(self, work: Work) -> bool:
        return True

    def record(self, work: Work, outcome: Outcome) -> None:
        """A task in this thread cannot be stopped; one that took too long has timed out all the same."""
        over = work.limit_at is not None and self.clock.monotonic() > work.limit_at
        if over and outcome.state in ("succeeded", "failed"):
            outcome = end(work, "timed_out", None, timeout_failure(work))
        work.outcome = outcome
        self._ended.append(work)

    def give_back(self, work: Work) -> None:
        raise AssertionError("every work is admitted")

    def executor_reports(self, work: Work, events: list[Any]) -> None:
        """There is no executor."""

    def executor_fails(self, work: Work, exc: BaseException) -> None:
        """There is no executor."""


def _on_a_loop(make: Callable[[], Any]) -> None:
    """On an event loop of its own; in a thread of its own where this one has a loop that runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(make())
        return
    raised: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(make())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="calsched-inline")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
