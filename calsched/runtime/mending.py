"""When something is wrong, or over: commits of unknown end, outcomes that a store refuses, time limits, and stops."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from calsched import logs
from calsched.model import Failure
from calsched.runtime.rounds import Rounds
from calsched.runtime.runner import end, receipt, timeout_failure
from calsched.runtime.work import Work

log = logs.get("calsched.pump")


class Committed(NamedTuple):
    """Stands for the report that was lost with the connection."""

    final: Mapping[int, str] = MappingProxyType({})
    retrying: Mapping[int, int] = MappingProxyType({})
    late: frozenset[int] = frozenset()
    paused: tuple[int, ...] = ()
    promoted: int = 1  # somebody may have been


class Mending(Rounds):
    """What an owner does besides its rounds. Its thread only."""

    def _reconcile(self) -> None:
        """After a transaction whose end is unknown: what does the store say that we hold?"""
        with self.store.read() as conn:
            held = self.verbs.held(conn)
        self._settle_committed(held)
        known = self.flights.works
        waiting = {work.claimed.occurrence for work in self.flights.stock()}
        lost = [work for work in self.flights.stock() if work.claimed.occurrence not in held]
        self.flights.drop(lost)
        started = [w for w in self.flights.stock() if held.get(w.claimed.occurrence) == "running"]
        unknown = [pk for pk in held if pk not in known]
        if unknown or started:
            with self.store.write() as conn:
                now = self.store.now(conn)
                self.verbs.give_back(conn, now, [*unknown, *(w.claimed.occurrence for w in started)])
            self.flights.drop(started)
        self._uncertain = False
        self._next_due = 0
        self._dry.clear()
        if lost or started or unknown:
            log.info("%s: after the outage %d of %d claims were put right", self.name,
                     len(lost) + len(started) + len(unknown), len(waiting))  # fmt: skip

    def _settle_committed(self, held: dict[int, str]) -> None:
        """Outcomes whose commit did succeed, although nobody could say so."""
        done = [work for work in self._outcomes if work.claimed.occurrence not in held]
        if done:
            self._outcomes = [work for work in self._outcomes if work.claimed.occurrence in held]
            self._settle(done, Committed())

    def _sift_outcomes(self) -> None:
        """An outcome that the store refuses must not hold up the others: find it, and record it without its text."""
        for work in list(self._outcomes):
            if self._finish_alone(work) or self._finish_alone(work, bare=True):
                self._outcomes.remove(work)

    def _finish_alone(self, work: Work, *, bare: bool = False) -> bool:
        assert work.outcome is not None
        outcome = work.outcome
        if bare:
            failure = outcome.failure and Failure(outcome.failure.type[:100], "its message could not be stored")
            outcome = outcome._replace(result=None, failure=failure)
        try:
            with self.store.write() as conn:
                report = self.verbs.finish(conn, self.store.now(conn), [work], outcome)
        except Exception:
            log.debug("an outcome was refused by the store", exc_info=True)
            return False
        self._settle([work], report)
        return True

    def _check_limits(self, mono: int) -> None:
        for work in list(self._limited.values()):
            if work.limit_at is None or mono < work.limit_at + self._patience(work) or work.outcome is not None:
                continue
            outcome = end(work, "timed_out", None, timeout_failure(work))
            with self.lock:
                if work.outcome is not None:
                    continue
                work.outcome = outcome
                work.detached = True
            work.ask_to_stop("timeout")
            receipt(work, outcome)
            self._limited.pop(work.claimed.occurrence, None)
            self._detached[work.claimed.occurrence] = work
            self._outcomes.append(work)
            self.port.timed_out(work)

    @staticmethod
    def _patience(work: Work) -> int:
        """Children and coroutines stop themselves; only when they do not, the pump says so."""
        return {"process": 5_000, "asyncio": 5_000 if work.prepared.is_async else 0}.get(work.seat.kind, 0)

    def _wind_down(self, mono: int) -> None:
        running = self.flights.running()
        for work in running:
            if work.flag is None or work.flag.reason is None:
                work.ask_to_stop("stopping")
        if not self.stops or mono < min(self.stops):
            return
        for work in running:
            if work.detached:
                self._give_up(work)
            elif work.began is None and work.seat.kind != "process":
                self._withhold(work)
            else:
                self._interrupt(work)

    def _withhold(self, work: Work) -> None:
        """A worker has it in its queue, and will find that it may not begin."""
        if not work.given_back and work.take():
            work.given_back = True
            self._returns.append(work)

    def _give_up(self, work: Work) -> None:
        """A thread that timed out long ago and never ended."""
        if work.settled:
            self._detached.pop(work.claimed.occurrence, None)
            self._forget([work])
            self.left_running += 1

    def _interrupt(self, work: Work) -> None:
        with self.lock:
            if work.outcome is not None:
                return
            failure = Failure("calsched.OwnerStopped", "the owner stopped in good order while the task ran")
            work.outcome = end(work, "interrupted", None, failure, clean_stop=True)
        receipt(work, work.outcome)
        self.left_running += 1
        self._outcomes.append(work)
