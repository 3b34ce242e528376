"""From definitions to resolved calendars: holidays and files looked up, names followed, every problem at once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from calsched.calendars import holidays, ics
from calsched.calendars.calendar import Resolved
from calsched.calendars.definition import CalendarDefinition, read_definition, valid_name
from calsched.clock import to_datetime
from calsched.errors import InvalidInput, Problem

_MOST_CALENDARS = 500
#: How many materials one calendar may be made of, repetitions counted, so that small files cannot make huge ones.
_MOST_PARTS = 200
_LONGEST_CLOSURE = 366


Materials = Mapping[str, Mapping[str, Any]]


def resolve(
    definitions: Mapping[str, Any],
    *,
    now: int,
    base: Path | None = None,
    path: str = "calendars",
    known: Materials | None = None,
) -> dict[str, Resolved]:
    """`check`, but raises InvalidInput with every problem."""
    resolved, problems = check(definitions, now=now, base=base, path=path, known=known)
    if problems:
        raise InvalidInput(problems)
    return resolved


def check(
    definitions: Mapping[str, Any],
    *,
    now: int,
    base: Path | None = None,
    path: str = "calendars",
    known: Materials | None = None,
) -> tuple[dict[str, Resolved], list[Problem]]:
    """Resolves the definitions under ``calendars:``.

    ``base`` is the directory against which ``ics`` files are found; without it they are refused. ``known`` holds the
    materials of calendars that exist already, for ``union`` and ``difference`` to name. ``now`` gives the years where
    ``holidays`` does not say any.
    """
    problems: list[Problem] = []
    if not isinstance(definitions, Mapping) or len(definitions) > _MOST_CALENDARS:
        problems.append(Problem(f"expected a mapping of at most {_MOST_CALENDARS} names to calendars", path))
        return {}, problems
    read: dict[str, CalendarDefinition] = {}
    for name, value in definitions.items():
        place = f"{path}.{name}"
        if not valid_name(name):
            problems.append(Problem("expected a name of letters, digits, '.', '_' and '-', at most 64", place))
        definition = read_definition(value, place, problems)
        if definition is not None and valid_name(name):
            read[name] = definition
    work = _Work(read, set(definitions), known or {}, to_datetime(now).date(), base, path, problems)
    resolved = {name: Resolved(name, material) for name in read if (material := work.material(name)) is not None}
    for name, calendar in resolved.items():
        _refuse_always_closed(calendar, work.today, f"{path}.{name}", problems)
    return resolved, problems


class _Work:
    """Resolves definitions once each, in the order in which they name each other."""

    def __init__(
        self,
        read: Mapping[str, CalendarDefinition],
        declared: set[str],
        known: Materials,
        today: date,
        base: Path | None,
        path: str,
        problems: list[Problem],
    ) -> None:
        self.read, self.declared, self.known = read, declared, known
        self.today, self.base, self.path, self.problems = today, base, path, problems
        self._done: dict[str, dict[str, Any] | None] = {}
        self._parts: dict[str, int] = {}
        self._open: list[str] = []

    def material(self, name: str) -> dict[str, Any] | None:
        """The resolved form; None where this calendar, or one that it names, has a problem (which is then noted)."""
        if name not in self._done:
            self._open.append(name)
            self._done[name] = self._resolve(name, self.read[name])
            self._open.pop()
        return self._done[name]

    def _resolve(self, name: str, definition: CalendarDefinition) -> dict[str, Any] | None:
        before, place = len(self.problems), f"{self.path}.{name}"
        dates, ends = dict(definition.dates), []
        if definition.holidays is not None:
            days, years = holidays.look_up(definition.holidays, self.today.year, f"{place}.holidays", self.problems)
            dates = {**days, **dates}
            ends.append(years[1])
        if definition.ics is not None:
            days = ics.read_file(definition.ics, self.base, self.today.year, f"{place}.ics", self.problems)
            dates = {**days, **dates}
            ends += [int(day[:4]) for day in list(days)[-1:]]
        members = self._members(name, definition, place)
        if len(self.problems) > before or None in members:
            return None
        listed = max((int(day[:4]) for day in definition.dates), default=None)
        return _material(definition, dates, members, definition.through or min(ends, default=listed))

    def _members(self, name: str, definition: CalendarDefinition, place: str) -> list[Mapping[str, Any] | None]:
        key = "union" if definition.union else "difference"
        found = [self._member(other, f"{place}.{key}[{index}]") for index, other in enumerate(definition.members)]
        self._parts[name] = 1 + sum(self._parts.get(other, 1) for other in definition.members)
        if self._parts[name] > _MOST_PARTS:
            self.problems.append(Problem(f"made of more than {_MOST_PARTS} calendars, repetitions counted", place))
        return found

    def _member(self, name: str, place: str) -> Mapping[str, Any] | None:
        if name in self._open:
            way = " → ".join([*self._open[self._open.index(name) :], name])
            self.problems.append(Problem(f"calendars that contain themselves: {way}", place))
            return None
        if name in self.read:
            return self.material(name)
        if name in self.known and name not in self.declared:
            return self.known[name]
        if name not in self.declared:
            names = ", ".join(sorted(self.declared | set(self.known)))
            self.problems.append(Problem(f"there is no calendar {name!r}", place, hint=f"there are {names}"))
        return None


def _material(
    definition: CalendarDefinition,
    dates: dict[str, str],
    members: list[Mapping[str, Any] | None],
    through: int | None,
) -> dict[str, Any]:
    material: dict[str, Any] = {
        "weekend": list(definition.weekend),
        "yearly": dict(sorted(definition.yearly.items())),
        "dates": dict(sorted(dates.items())),
        "open": list(definition.open),
        "through": through,
    }
    if members:
        material["union" if definition.union else "difference"] = members
    return material


def _refuse_always_closed(calendar: Resolved, today: date, path: str, problems: list[Problem]) -> None:
    runtime, first = calendar.calendar(), today.toordinal()
    if not any(runtime.is_open(date.fromordinal(first + number)) for number in range(_LONGEST_CLOSURE + 1)):
        until = today + timedelta(days=_LONGEST_CLOSURE)
        problems.append(Problem(f"closed on every day from {today} to {until}; nothing could ever run", path))
