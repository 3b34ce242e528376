"""One round of the pump: a transaction of verbs, and what it did taken into memory after its commit.

::

    outcomes ──► finish ─┐
                advance ─┤ one transaction a round
                  claim ─┤
                  start ─┘──► committed ──► hand-outs to the executors, held events to the listeners
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from calsched import logs
from calsched.errors import CalschedError, Fenced, StoreUnusable
from calsched.model import Claimed, Unread
from calsched.runtime.callables import AllowList, load
from calsched.runtime.parts import Observer, Round
from calsched.runtime.recorder import Recorder
from calsched.runtime.work import Prepared, Work, forget_flag

log = logs.get("calsched.pump")


class Rounds(Recorder):
    """The transactions of an owner. Its thread only."""

    def _rooms(self, mono: int) -> dict[str, int]:
        """Room by executor."""
        return {} if mono < self._claim_at else self.flights.wanted(mono)

    def _wanted(self, mono: int) -> dict[str, int]:
        """Room by executor, where a claim may find something."""
        return self._not_dry(self._rooms(mono))

    def _not_dry(self, rooms: dict[str, int]) -> dict[str, int]:
        return {alias: n for alias, n in rooms.items() if n > 0 and alias not in self._dry}

    def _transact(self, mono: int) -> None:
        open_ = self.port.open() and not self.stopping
        if not open_:
            self._hold_still()
        wall = self.wall()
        if self._next_run is not None and self._next_run <= wall:
            self._next_run = None
            self._dry.clear()
        if open_ and self._next_limit is not None and self._next_limit <= wall:
            self._next_due, self._next_limit, self._limits_known = 0, None, False
        surplus = self.flights.excess(mono) if open_ else []
        if surplus:  # there will be something to claim again
            self._dry.clear()
        rooms = self._rooms(mono) if open_ else {}
        wanted = self._not_dry(rooms)
        due = open_ and self._next_due is not None and self._next_due <= wall and mono >= self._advance_at
        ready = open_ and bool(self.flights.next_to_start(mono))
        due = due and (bool(rooms) or not self.flights.is_flowing(mono))
        for work in self.flights.withdraw(mono):
            work.given_back = True
            self._returns.append(work)
        if not (self._outcomes or self._returns or self._free or due or wanted or ready or surplus):
            return
        try:
            done = self._one_transaction(mono, rooms, due, surplus, open_)
        except Fenced:
            raise
        except Exception as exc:
            if not self._after_a_fault(exc, mono):
                raise
            self._uncertain = True
            return
        self._take_in(done, mono)

    def _hold_still(self) -> None:
        """The scheduler is paused, stopped, or its loop has closed: what has not begun is given back."""
        self.port.paused()
        idle = [work for work in self.flights.stock() + self.port.withdraw() if not work.given_back]
        for work in idle:
            work.given_back = True
        self._returns += idle

    def _one_transaction(self, mono: int, rooms: dict[str, int], due: bool, surplus: list[Work], open_: bool) -> Round:
        verbs, flights = self.verbs, self.flights
        finished, returned = self._outcomes, self._returns + surplus
        advanced = report = None
        begun: list[Work] = []
        fresh: list[Work] = []
        with self.store.write() as conn:
            now = self.store.now(conn)
            if finished:
                self._stage = "finish"
                report = verbs.finish(conn, now, finished)
                if report.promoted or report.retrying:
                    self._dry.clear()
            if returned:
                # a claim of an epoch that is over was taken over; this owner may hold its row anew
                own = [work.claimed.occurrence for work in returned if work.claimed.epoch == verbs.epoch]
                verbs.give_back(conn, now, own)
            if self._free:
                verbs.let_go(conn, self._free)
            may_dispatch = True
            if due or self._not_dry(rooms):
                effective = now
                # on servers at each poll: the clock's row would make owners queue up
                if self.store.dialect == "sqlite" and (due or mono >= self._clock_at):
                    hold, effective = verbs.observe_clock(conn, now)
                    may_dispatch = self._may_dispatch(hold)
                    self._clock_at = mono + 250
                else:
                    may_dispatch = self.hold is None
                may_dispatch = may_dispatch and (not rooms or verbs.gate(conn))
                self._take(conn, now, rooms, may_dispatch, begun, fresh)  # what is ready is older than what is due
                if due:
                    self._stage = "advance"
                    advanced = self._advance(conn, effective, rooms if may_dispatch else {})
                    for failed in advanced.failed:
                        self.unusable.failed(conn, now, failed)
                    for work in self._works(conn, advanced.begun, now):
                        rooms[work.prepared.executor] -= 1
                        begun.append(work)
                    self._take(conn, now, rooms, may_dispatch, begun, fresh)
            self._stage = "start"
            strays = flights.add(fresh)
            if strays:
                verbs.give_back(conn, now, [work.claimed.occurrence for work in strays])
            chosen = flights.next_to_start(mono) if open_ and may_dispatch else []
            moved: set[int] = set()
            if chosen:
                moved = verbs.start(conn, now, [work.claimed.occurrence for work in chosen])
        return Round(finished, returned, advanced, begun, chosen, moved, report, now)

    def _advance(self, conn: Any, now: int, rooms: Mapping[str, int]) -> Any:
        """Executors that are known to have nothing older take what is due at once."""
        express = None
        taking = {alias: n for alias, n in rooms.items() if alias in self._dry and self.flights.is_direct(alias)}
        if taking:
            express = self.verbs.express(taking, self.unusable.passed_over(now))
        report = self.verbs.advance(conn, now, express, sum(rooms.values()))
        if express is None or express.left or report.resumed or report.ended:
            self._dry.clear()
        return report

    def _take(
        self, conn: Any, now: int, rooms: dict[str, int], may_dispatch: bool, begun: list[Work], fresh: list[Work]
    ) -> None:
        """Claim what is ready, as far as there is room for it."""
        wanted = self._not_dry(rooms)
        if not wanted:
            return
        if not may_dispatch:
            self._dry.update(wanted)
            return
        self._stage = "claim"
        direct, ahead = self.flights.split(wanted)
        for part, into, starting in ((direct, begun, True), (ahead, fresh, False)):
            works = self._claim(conn, now, part, starting=starting) if part else []
            for work in works:
                rooms[work.prepared.executor] -= 1
            into += works

    def _works(self, conn: Any, claimed: Sequence[Claimed], now: int) -> list[Work]:
        works = []
        for one in claimed:
            prepared = self._prepared.get(one.revision_pk)
            if prepared is None:
                prepared = self._prepare(conn, one, now)
            if prepared is not None:
                works.append(Work(one, prepared, self))
        return works

    def _claim(self, conn: Any, now: int, wanted: Mapping[str, int], *, starting: bool) -> list[Work]:
        broken: list[Unread] = []
        claimed = self.verbs.claim(conn, now, wanted, self.unusable.passed_over(now), starting=starting, unread=broken)
        for one in broken:
            self.unusable.met(conn, now, one.schedule_pk, one.namespace, one.schedule_id, "definition", one.problem)
        works = self._works(conn, claimed, now)
        if broken or len(works) < len(claimed):
            return works  # there may be more behind those that are passed over from now on
        found = Counter(work.prepared.executor for work in works)
        self._dry.update(alias for alias, room in wanted.items() if found[alias] < room)
        if len(claimed) < sum(wanted.values()):
            self._next_run = self.unusable.sooner(self.verbs.next_run_at(conn, now))
        return works

    def _prepare(self, conn: Any, claimed: Claimed, now: int) -> Prepared | None:
        try:
            prepared = Prepared(self.verbs.definition(conn, claimed), self.settings.allow, self._load)
        except CalschedError as exc:
            self.verbs.give_back(conn, now, [claimed.occurrence])
            self.unusable.met(conn, now, claimed.schedule, claimed.namespace, claimed.schedule_id, "task", str(exc))
            return None
        if len(self._prepared) > 20_000:
            self._prepared.clear()
        self._prepared[claimed.revision_pk] = prepared
        return prepared

    def _load(self, ref: str, allow: AllowList, path: str = "callable") -> Any:
        """Many schedules call one function: it is looked up once."""
        found = self._loaded.get(ref)
        if found is None:
            found = self._loaded[ref] = load(ref, allow, path)
        return found

    def _after_a_fault(self, exc: Exception, mono: int) -> bool:
        """A verb that fails while the store answers must not keep the others from their work. False: an outage."""
        if isinstance(exc, StoreUnusable) or not self._store_answers():
            return False
        pause = int(1000 * self.trouble.fault(self._stage, exc))
        if self._stage == "advance":
            self._advance_at = mono + pause
        elif self._stage in ("claim", "start"):
            self._claim_at = mono + pause
        self._sift_outcomes()
        return True

    def _store_answers(self) -> bool:
        """Whether it takes a write: one that can only be read (a full disk, a server's standby) is away, too."""
        try:
            with self.store.write() as conn:
                self.verbs.heartbeat(conn, self.store.now(conn))
        except Exception:
            return False
        return True

    def _look_for_strays(self, conn: Any, now: int) -> None:
        """Work that is ready for an executor which nobody here has would wait in silence."""
        if not self.verbs.is_only_owner(conn, now):
            return
        seats = self.port.seats()
        found = self.verbs.unserved(conn, now, list(seats))
        for namespace, id, executor in found:
            why = (
                f"its work waits for the executor {executor!r}, which this owner does not have"
                f" (it has {', '.join(sorted(seats)) or 'none'}); name it in `executors` of the settings, or in the"
                " schedule one that there is"
            )
            self.problems.met("executor", namespace, id, why)
        self.problems.only("executor", [(namespace, id) for namespace, id, _ in found])

    def _take_in(self, done: Round, mono: int) -> None:
        self._outcomes = []
        self._returns = []
        if self._free:
            self._free.clear()
            self._dry.clear()
        if done.returned:
            self.flights.ended(done.returned, mono)
            self.flights.drop(done.returned)
        if done.advanced is not None:
            self._next_due = 0 if done.advanced.more else done.advanced.next_due
            if done.advanced.limited or done.advanced.ended:
                self._limits_known = False
            self._narrator.cut_off(done.advanced.interrupted)
            if done.advanced.schedules:
                self.problems.over("failed", ((one.namespace, one.id) for one in done.advanced.schedules))
                self.port.advanced(done.advanced.schedules)
                for observer in self._observing():
                    observer.advanced(done.advanced.schedules)
        self.flights.begun(done.begun, mono)
        go = done.begun + self.flights.started(done.chosen, done.moved, mono)
        if go:
            self.unusable.over((w.claimed.schedule, w.claimed.namespace, w.claimed.schedule_id) for w in go)
            self._hand_over(go)
        if done.finished:
            self._settle(done.finished, done.report)

    def _hand_over(self, works: list[Work]) -> None:
        for work in works:
            if work.prepared.limited or work.claimed.deadline is not None:
                self._limited[work.claimed.occurrence] = work
            if work.seat.kind == "process":
                work.flag_path = self._flag_path(work)
        self.port.deliver(works)
        for observer in self._observing():
            observer.started(works)

    def _observing(self) -> list[Observer]:
        return [*self.observers, self._narrator] if self._narrator.listens else self.observers

    def _flag_path(self, work: Work) -> str:
        if self._flags is None:
            self._flags = tempfile.mkdtemp(prefix="calsched-")
        return os.path.join(self._flags, f"{work.claimed.occurrence}-{work.claimed.attempt}")

    def _settle(self, works: list[Work], report: Any) -> None:
        with self.lock:
            for work in works:
                work.settled = True
            told = [work for work in works if work.events is not None]
        self._forget([work for work in works if not work.detached])
        if report.retrying:
            self._limits_known = False
            soonest = min(report.retrying.values())
            self._next_run = soonest if self._next_run is None else min(self._next_run, soonest)
        if told:
            self.port.settled(told)
        for observer in self._observing():
            observer.ended(works, report)

    def _forget(self, works: list[Work]) -> None:
        self.flights.forget(works)
        for work in works:
            if self._limited:
                self._limited.pop(work.claimed.occurrence, None)
            if work.flag_path is not None:
                forget_flag(work)
        self.flights.ended(works, self.clock.monotonic())

    def _sift_outcomes(self) -> None:
        """One outcome may be to blame: ``Mending`` finds it."""
        raise NotImplementedError
