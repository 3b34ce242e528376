"""Hands for tests: a ledger that is driven verb by verb."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calsched.clock import to_millis
from calsched.model import Claimed, Definition, Failure, Outcome, Task
from calsched.stores import backfill, control, extra, inspect, recover
from calsched.stores.advance import AdvanceReport, advance
from calsched.stores.claim import claim, start
from calsched.stores.engine import Store
from calsched.stores.finish import FinishReport, finish
from calsched.stores.tables import reading
from calsched.stores.views import OccurrenceView, ScheduleView

#: 2027-01-15T08:00:00Z, a whole number of minutes.
T0 = 1_800_000_000_000
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


class SteppedClock:
    """A clock that moves when it is told to."""

    def __init__(self, now: int) -> None:
        self.at = now

    def now(self) -> int:
        return self.at

    def monotonic(self) -> int:
        return self.at

    def boot_time(self) -> int | None:
        return None


def every(interval: int = MINUTE, schedule_id: str = "a", **policies: Any) -> Definition:
    """A schedule that is due at T0, T0 + interval, …"""
    task = policies.pop("task", Task(callable="jobs:run"))
    return Definition(id=schedule_id, trigger={"kind": "interval", "intervalMs": interval}, task=task, **policies)


def failed(claimed: Claimed, now: int, message: str = "no", **more: Any) -> Outcome:
    return Outcome(claimed.occurrence, claimed.attempt, "failed", now, 5, failure=Failure("Error", message), **more)


def succeeded(claimed: Claimed, now: int) -> Outcome:
    return Outcome(claimed.occurrence, claimed.attempt, "succeeded", now, 5)


class Ledger:
    """A store, one owner of it, and the verbs, each in a transaction of its own. Its ``now`` is the store's clock."""

    def __init__(self, store: Store, now: int = T0) -> None:
        self.store = store
        self.ask: dict[str, Any] = {"principal": "tester"}
        self.now = now
        with store.write() as conn:
            self.epoch = recover.register_owner(store, conn, "owner", "host", 1, now, 30_000)

    @property
    def now(self) -> int:
        return self._now

    @now.setter
    def now(self, value: int) -> None:
        self._now = value
        if isinstance(self.store.clock, SteppedClock):
            self.store.clock.at = value

    def create(self, definition: Definition, **more: Any) -> ScheduleView:
        with self.store.write() as conn:
            return control.create(self.store, conn, definition, now=self.now, **self.ask, **more)

    def update(self, definition: Definition, **more: Any) -> ScheduleView:
        with self.store.write() as conn:
            return control.update(self.store, conn, definition, now=self.now, **self.ask, **more)

    def control(self, action: str, schedule_id: str = "a", **more: Any) -> Any:
        with self.store.write() as conn:
            verb = getattr(control, action, None) or getattr(extra, action, None) or getattr(backfill, action)
            return verb(self.store, conn, "default", schedule_id, now=self.now, **self.ask, **more)

    def tick(self, now: int | None = None, **more: Any) -> AdvanceReport:
        self.now = self.now if now is None else now
        with self.store.write() as conn:
            return advance(self.store, conn, self.now, **more)

    def claim(self, limit: int = 100, **more: Any) -> list[Claimed]:
        with self.store.write() as conn:
            return claim(self.store, conn, epoch=more.pop("epoch", self.epoch), now=self.now, limit=limit, **more)

    def start(self, claimed: Sequence[Claimed], **more: Any) -> set[int]:
        with self.store.write() as conn:
            pks = [one.occurrence for one in claimed]
            return start(self.store, conn, epoch=more.pop("epoch", self.epoch), now=self.now, pks=pks)

    def finish(self, *outcomes: Outcome, **more: Any) -> FinishReport:
        with self.store.write() as conn:
            epoch = more.pop("epoch", self.epoch)
            return finish(self.store, conn, epoch=epoch, now=self.now, outcomes=outcomes, **more)

    def begin(self, limit: int = 100) -> list[Claimed]:
        """Claim and start."""
        taken = self.claim(limit)
        assert self.start(taken) == {one.occurrence for one in taken}
        return taken

    def run(self, *, fail: bool = False) -> list[Claimed]:
        """Claim, start and finish what may run now."""
        taken = self.begin()
        self.finish(*(failed(one, self.now) if fail else succeeded(one, self.now) for one in taken))
        return taken

    def view(self, schedule_id: str = "a") -> ScheduleView:
        with self.store.read() as conn:
            return inspect.get(self.store, conn, "default", schedule_id)

    def history(self, schedule_id: str = "a", **more: Any) -> Any:
        with self.store.read() as conn:
            return inspect.history(self.store, conn, "default", schedule_id, **more).entries

    def occurrences(self, schedule_id: str = "a") -> list[OccurrenceView]:
        """Oldest first."""
        found = [one for one in self.history(schedule_id, limit=1000) if isinstance(one, OccurrenceView)]
        return sorted(found, key=lambda one: one.pk)

    def states(self, schedule_id: str = "a") -> list[tuple[int, str, str | None]]:
        return [(one.ordinal, one.state, one.reason) for one in self.occurrences(schedule_id)]

    def ranges(self, schedule_id: str = "a") -> list[tuple[int, int, str]]:
        """(first, last, reason or represented), oldest first."""
        found = [one for one in self.history(schedule_id, limit=1000) if not isinstance(one, OccurrenceView)]
        return sorted((one.first, one.last, one.reason or one.verdict) for one in found)

    def decisions(self, schedule_id: str = "a") -> list[str]:
        """Actions, oldest first."""
        with self.store.read() as conn:
            found = inspect.decisions_of(self.store, conn, "default", schedule_id)
        return [one.action for one in reversed(found)]

    def check(self) -> None:
        """The invariant and the kept counts hold."""
        with self.store.read() as conn:
            assert inspect.tiling(self.store, conn) == []
            assert reading.wrong_counts(conn, self.store.tables, 10) == []
            assert reading.orphans(conn, self.store.tables, 10) == []
            assert reading.double_runs(conn, self.store.tables, 10) == []


def instant(text: str) -> int:
    from datetime import datetime

    return to_millis(datetime.fromisoformat(text))
