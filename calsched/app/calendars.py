"""Business calendars of the store: what there is, and what a change would do before it is done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from calsched.app.approvals import inside, with_approvals
from calsched.app.control import Control
from calsched.app.files import Sources
from calsched.calendars import BusinessCalendar, Resolved, runs_out
from calsched.clock import LAST_INSTANT
from calsched.declare.document import Format
from calsched.errors import InvalidInput, Refused
from calsched.model import Definition
from calsched.stores import inspect, recompute
from calsched.stores.control import Ask
from calsched.stores.views import ScheduleView
from calsched.triggers import build
from calsched.triggers.base import Trigger
from calsched.triggers.compare import Changes, compare

_DAY = 86_400_000
SHOWN = 1_000


@dataclass(frozen=True, slots=True)
class CalendarInUse:
    calendar: BusinessCalendar
    schedules: tuple[str, ...]
    runs_out: str | None  # a sentence, where it soon does


@dataclass(frozen=True, slots=True)
class CalendarEffect:
    """How the coming due instants of one schedule change."""

    namespace: str
    id: str
    calendars: tuple[str, ...]
    changes: Changes


@dataclass(frozen=True, slots=True)
class CalendarChange:
    """Calendars that would get a new version, and what that does. ``base`` says what it was computed against."""

    declared: Mapping[str, Resolved]
    versions: Mapping[str, int]  # the new ones
    effects: tuple[CalendarEffect, ...]
    days: int
    base: Mapping[str, int]


class Calendars(Control):
    def calendars(self) -> tuple[CalendarInUse, ...]:
        """The newest version of every calendar, with who uses it."""
        known, now = self.known_calendars(), self.now()
        users: dict[str, list[str]] = {name: [] for name in known}
        for view in self._views():
            for name in view.definition.calendars if view.definition is not None else ():
                users.setdefault(name, []).append(view.id)
        return tuple(CalendarInUse(one, tuple(users[name]), runs_out(one, now)) for name, one in sorted(known.items()))

    def calendar_change(self, sources: Sources, *, days: int = 365, format: Format | None = None) -> CalendarChange:
        """What the calendars of some files would change. Nothing is written. Raises InvalidInput."""
        checked = self.declarations(sources, format)
        if not checked.declared_calendars:
            raise InvalidInput("no calendars in these files; they stand under `calendars:`")
        known = self.known_calendars()
        changed = {
            name: one
            for name, one in checked.declared_calendars.items()
            if name not in known or known[name].digest != one.digest
        }
        versions = {name: known[name].version + 1 if name in known else 1 for name in changed}
        after = {**known, **{name: one.calendar(versions[name]) for name, one in changed.items()}}
        effects = tuple(self._effects(known, after, set(changed), days))
        return CalendarChange(changed, versions, effects, days, {name: one.version for name, one in known.items()})

    def set_calendars(self, change: CalendarChange, *, note: str | None = None) -> int:
        """Do what ``calendar_change`` showed; how many schedules follow. Refused where the calendars moved on since."""
        present = {name: one.version for name, one in self.known_calendars().items()}
        if present != change.base:
            raise Refused("the calendars have changed since this was shown; look again")
        store = self.store(create=True)

        def act(store: Any, conn: Any, ask: Ask) -> int:
            return recompute.set_calendars(store, conn, change.declared, **ask)

        ask = with_approvals(self, [act], self.ask(note))
        return self.write(store, lambda conn: act(store, conn, inside(store, conn, ask)))

    def _views(self) -> Iterator[ScheduleView]:
        store, page = self.store(), None
        with store.read() as conn:
            while True:
                found = inspect.list_schedules(store, conn, page=page, limit=1000)
                yield from found.schedules
                page = found.next_page
                if page is None:
                    return

    def _effects(
        self, old: Mapping[str, BusinessCalendar], new: Mapping[str, BusinessCalendar], changed: set[str], days: int
    ) -> Iterator[CalendarEffect]:
        if not changed & set(old):
            return
        now = self.now()
        last = min(now + days * _DAY, LAST_INSTANT)
        for view in self._views():
            definition = view.definition
            touched = changed.intersection(definition.calendars) if definition is not None else set()
            if definition is not None and touched and view.state not in ("ended", "cancelled"):
                found = compare(_build(definition, old), _build(definition, new), now, last, SHOWN)
                yield CalendarEffect(view.namespace, view.id, tuple(sorted(touched)), found)


def _build(definition: Definition, known: Mapping[str, BusinessCalendar]) -> Trigger:
    return build(definition.trigger, calendars=known, schedule_id=definition.id)
