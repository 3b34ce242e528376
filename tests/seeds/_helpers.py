"""A desk: an app on a SQLite file, its clock, and the verbs of an owner one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from calsched.app import App
from calsched.runtime.callables import AllowList
from calsched.runtime.inline import InlineOwner
from calsched.runtime.pump import Settings as OwnerSettings
from calsched.settings import Settings
from calsched.stores import recover
from calsched.stores.ready import ReadyTask
from calsched.stores.views import OccurrenceView, ScheduleView
from tests.stores._helpers import T0, Ledger, SteppedClock


class Desk(Ledger):
    """Declarations go in as files say them; ``now`` is the clock of the app and of every verb."""

    def __init__(self, folder: Path, now: int = T0, *, settings: Settings | None = None, **options: Any) -> None:
        self.clock = SteppedClock(now)
        self.url = f"sqlite:///{folder / 'ledger.db'}"
        self.app = App(self.url, clock=self.clock, principal="operator", settings=settings, **options)
        super().__init__(self.app.store(create=True), now)

    @property
    def now(self) -> int:
        return self.clock.at

    @now.setter
    def now(self, instant: int) -> None:
        self.clock.at = instant

    def declare(self, said: dict[str, Any], **more: Any) -> ScheduleView:
        """Register one declaration, as ``calsched create`` does."""
        return self.app.create(json.dumps(said).encode(), format="json", **more).schedules[0]

    def take(self, limit: int = 100, **more: Any) -> list[ReadyTask]:
        """What a host of ready tasks gets."""
        return self.app.ready_claim(limit=limit, **more)

    def own_again(self) -> None:
        """The process that owned the ledger is gone, and another one has come."""
        with self.store.write() as conn:
            self.epoch = recover.register_owner(self.store, conn, "next", "host", 2, self.now, 30_000)

    def observe_clock(self, now: int) -> str | None:
        """The wall clock shows ``now``; the hold that follows."""
        self.now = now
        with self.store.write() as conn:
            return recover.observe_clock(self.store, conn, now, None, None, 5_000).hold

    def work(self) -> list[tuple[str, int]]:
        """An owner comes, runs what may run now, and leaves; (schedule, ordinal) of what ran."""
        known = self.app.settings
        allow = AllowList(known.allow or ("tests.seeds._tasks:*",))
        folder = None if known.workspaces is None else str(known.workspaces)
        owner = InlineOwner(self.store, OwnerSettings(name="desk", allow=allow, workspaces=folder))
        owner.open()
        ran = [(work.claimed.schedule_id, work.claimed.ordinal) for work in owner.drain()]
        owner.close()
        self.own_again()
        return ran

    def one(self, schedule_id: str = "a") -> OccurrenceView:
        (found,) = self.occurrences(schedule_id)
        return found

    def rows(self) -> dict[str, list[Any]]:
        """Every row of every table, to see that nothing was written."""
        with self.store.read() as conn:
            return {
                table.name: [tuple(row) for row in conn.execute(table.select())] for table in self.store.tables.all()
            }

    def close(self) -> None:
        self.app.close()
