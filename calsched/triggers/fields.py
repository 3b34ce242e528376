"""Reading the fields of a declared trigger: one value at a time, every problem kept, each with its path."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, NoReturn, TypeVar

from calsched import zones
from calsched.clock import LAST_INSTANT, to_millis, to_rfc3339
from calsched.errors import Problem, TriggerInvalid
from calsched.triggers.base import BusinessCalendar, Context
from calsched.zones import Zone, ZoneInvalid

T = TypeVar("T")
_EPOCH_DAY = date(1970, 1, 1).toordinal()

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_WALL = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d))?)?", re.ASCII)


class Bad(Exception):
    """A value that a field cannot have; ``at`` goes on from the field's name, as in ``[2]``."""

    def __init__(self, message: str, at: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message, self.at, self.hint = message, at, hint


class Fields:
    """The given fields of one trigger, and what is wrong with them."""

    def __init__(self, given: Mapping[str, Any], known: Collection[str], context: Context) -> None:
        self.given, self.context = given, context
        self.problems: list[Problem] = []
        for name in given:
            if name != "kind" and name not in known:
                self._unknown(name, known)

    def _unknown(self, name: Any, known: Collection[str]) -> None:
        near = difflib.get_close_matches(str(name), known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(sorted(known))}"
        self.fail(str(name), f"{shown(name)} is no field of this trigger", hint)

    def has(self, *names: str) -> bool:
        return any(name in self.given for name in names)

    def fail(self, path: str, message: str, hint: str = "") -> None:
        self.problems.append(Problem(message, path=path, hint=hint))

    def read(self, name: str, parse: Callable[[Any], T], default: T) -> T:
        """The parsed field, ``default`` where it is absent; a bad value is noted and read as the default."""
        if name not in self.given:
            return default
        try:
            return parse(self.given[name])
        except Bad as bad:
            self.fail(name + bad.at, bad.message, bad.hint)
        except TriggerInvalid as invalid:
            for problem in invalid.problems:
                self.fail(problem.path or name, problem.message, problem.hint)
        return default

    def zone(self) -> Zone | None:
        """The zone of ``timezone``, else the default zone; None, and a problem, where there is none."""
        name = zone_name(self.given.get("timezone"))
        if name is None:
            name = self.context.default_zone
        if name is None:
            self.fail("timezone", "a wall-clock rule needs a zone", "for example timezone: Europe/Berlin")
            return None
        try:
            return zones.load(name, self.context.zone_source)
        except ZoneInvalid as invalid:
            self.problems += invalid.problems
            return None

    def calendar(self) -> BusinessCalendar | None:
        """The business calendar that ``calendar`` names, or is."""
        value = self.given.get("calendar")
        if value is None or (not isinstance(value, str) and isinstance(value, BusinessCalendar)):
            return value
        known = self.context.calendars
        if isinstance(value, str) and value in known:
            return known[value]
        names = ", ".join(sorted(known)) or "none"
        self.fail("calendar", f"there is no business calendar {shown(value)}", f"declared: {names}")
        return None

    def check(self) -> None:
        """Raises TriggerInvalid with every problem found so far."""
        if self.problems:
            raise TriggerInvalid(self.problems)


def shown(value: Any) -> str:
    """A value as it can stand in a message."""
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


def expected(what: str, value: Any, at: str = "", hint: str = "") -> NoReturn:
    raise Bad(f"expected {what}, got {shown(value)}", at, hint)


def zone_name(value: Any) -> Any:
    """The name of a zone given as a string or as one of the usual zone objects; other values as they are."""
    if isinstance(value, tzinfo):
        if value is UTC:
            return "UTC"
        return getattr(value, "key", None) or getattr(value, "zone", None) or value
    return value


def as_list(value: Any) -> list[Any]:
    """A list as it is, a single value as a list of one."""
    if isinstance(value, (list, tuple, set, frozenset, range)):
        return list(value)
    return [value]


def whole(value: Any, low: int, high: int, at: str = "", hint: str = "") -> int:
    """A whole number within bounds."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        expected(f"a whole number from {low} to {high}", value, at, hint)
    return value


def one_of(*allowed: str) -> Callable[[Any], Any]:
    def parse(value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            near = difflib.get_close_matches(str(value), allowed, n=1)
            expected(f"one of {', '.join(allowed)}", value, hint=f"did you mean {near[0]!r}?" if near else "")
        return value

    return parse


def each(value: Any, parse: Callable[[Any, str], T], what: str) -> list[T]:
    """A list, not empty, each member parsed with its place (``[0]``), none twice."""
    members = as_list(value)
    if not members:
        expected(f"at least one of {what}", value)
    out: list[T] = []
    for place, member in enumerate(members):
        at = f"[{place}]" if isinstance(value, (list, tuple)) else ""
        parsed = parse(member, at)
        if parsed in out:
            raise Bad(f"{shown(member)} is there twice", at)
        out.append(parsed)
    return out


# --- times ----------------------------------------------------------------------------------------------------------


def parse_rfc3339(text: str) -> int:
    """The instant of an RFC 3339 time, parts of a millisecond dropped; ValueError for all else, naive times too."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError(f"not an RFC 3339 time: {text!r}")
    year, month, day, hour, minute = (int(part) for part in found.groups()[:5])
    offset = found[8]
    east = 0
    if offset not in "Zz":
        hours, minutes = int(offset[1:3]), int(offset[4:6])
        if hours > 23 or minutes > 59:
            raise ValueError(f"no such offset: {offset}")
        east = (hours * 60 + minutes) * (-60 if offset[0] == "-" else 60)
    wall = wall_seconds(datetime(year, month, day, hour, minute, int(found[6] or 0)))  # noqa: DTZ001
    return (wall - east) * 1000 + int((found[7] or "").ljust(3, "0")[:3])


def as_instant(value: Any) -> int:
    """An instant given as an RFC 3339 string or an aware datetime."""
    try:
        if isinstance(value, datetime) and value.tzinfo is not None:
            return _bounded(to_millis(value), value)
        if isinstance(value, str) and _RFC3339.fullmatch(value):
            return _bounded(parse_rfc3339(value), value)
    except (ValueError, OverflowError) as error:
        raise Bad(f"there is no time {shown(value)}: {error}") from None
    naive = isinstance(value, datetime) or (isinstance(value, str) and _WALL.fullmatch(value))
    hint = "a time without Z or an offset names no instant" if naive else ""
    expected("an RFC 3339 time such as '2026-10-12T09:00:00Z'", value, hint=hint)


def _bounded(instant: int, value: Any) -> int:
    if instant > LAST_INSTANT:
        raise Bad(f"{shown(value)} is past the year 9999")
    return instant


def wall_seconds(moment: datetime) -> int:
    """A naive datetime as seconds since 1970-01-01T00:00:00 on the same wall clock."""
    return (moment.toordinal() - _EPOCH_DAY) * 86_400 + moment.hour * 3600 + moment.minute * 60 + moment.second


def wall_datetime(wall: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(seconds=wall)  # noqa: DTZ001 (a wall time has no zone)


def wall_text(wall: int) -> str:
    """``2026-03-08T09:00:00``"""
    return wall_datetime(wall).isoformat()


def as_wall(value: Any, *, end_of_day: bool = False) -> int:
    """A wall time in seconds: a naive datetime, a date, or ``2026-10-12T09:00[:00]`` or ``2026-10-12`` as text."""
    if isinstance(value, str) and (found := _WALL.fullmatch(value)):
        year, month, day, hour, minute, second = (None if part is None else int(part) for part in found.groups())
        try:
            assert year is not None and month is not None and day is not None
            if hour is None or minute is None:
                value = date(year, month, day)
            else:
                value = datetime(year, month, day, hour, minute, second or 0)  # noqa: DTZ001
        except ValueError as error:
            raise Bad(f"there is no time {shown(value)}: {error}") from None
    if isinstance(value, datetime) and value.tzinfo is None:
        return wall_seconds(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return wall_seconds(datetime.combine(value, time())) + (86_399 if end_of_day else 0)
    expected("a time such as '2026-10-12T09:00:00-05:00', or a local one such as '2026-10-12T09:00:00'", value)


def is_wall(value: Any) -> bool:
    """Whether the value looks like a wall time, that is like a time without an offset."""
    if isinstance(value, str):
        return _WALL.fullmatch(value) is not None
    return isinstance(value, date) and not (isinstance(value, datetime) and value.tzinfo is not None)


def as_date(value: Any, at: str = "") -> date:
    """A day, as a date or as ``2026-07-03``."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value, re.ASCII):
        try:
            return date.fromisoformat(value)
        except ValueError as error:
            raise Bad(f"there is no day {shown(value)}: {error}", at) from None
    expected("a day such as '2026-07-03'", value, at)


def instant_text(instant: int) -> str:
    return to_rfc3339(instant)


def joined(values: Iterable[Any]) -> str:
    return ", ".join(str(value) for value in values)
