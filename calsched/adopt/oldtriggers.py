"""The triggers of APScheduler, read from their pickled state, as triggers of ours that have the same slots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

from calsched.adopt import cronfields
from calsched.adopt.known import NotKnown, day, duration, moment, pairs, sequence, text, whole, within, zone_of
from calsched.adopt.pickles import Name, Pairs, describe
from calsched.clock import to_rfc3339
from calsched.words import WEEKDAYS

KINDS: Final = ("date", "interval", "cron", "calendarinterval", "and", "or")
_CLASSES: Final = {
    Name("apscheduler.triggers.date", "DateTrigger"): "date",
    Name("apscheduler.triggers.interval", "IntervalTrigger"): "interval",
    Name("apscheduler.triggers.cron", "CronTrigger"): "cron",
    Name("apscheduler.triggers.calendarinterval", "CalendarIntervalTrigger"): "calendarinterval",
    Name("apscheduler.triggers.combining", "AndTrigger"): "and",
    Name("apscheduler.triggers.combining", "OrTrigger"): "or",
}
TRIGGER_NAMES: Final = frozenset(_CLASSES)
#: Combined triggers nest; nobody nests them deeper.
_MAX_DEPTH: Final = 8
_MAX_MEMBERS: Final = 100
_DAY_NAMES: Final = WEEKDAYS


@dataclass(frozen=True, slots=True)
class Converted:
    """A trigger of ours, how APScheduler spells the old one, its jitter in seconds, and what differs."""

    spec: dict[str, Any]
    text: str
    jitter: int | float | None = None
    notes: tuple[str, ...] = ()


def convert(name: Name, state: Any, next_run: int | None, depth: int = 0) -> Converted:
    """The equal trigger. ``next_run`` is when the job would run next. Raises NotKnown."""
    if isinstance(state, tuple) and len(state) == 2:  # of APScheduler 3.0
        state = state[1]
    if depth > _MAX_DEPTH:
        raise NotKnown(f"triggers combined more than {_MAX_DEPTH} deep")
    kind = _CLASSES[name]
    found = pairs(state)
    if kind in ("and", "or"):
        return _combined(kind, found, depth)
    jitter = _jitter(found.get("jitter"))
    converted = _READERS[kind](found, None if jitter else next_run)
    if jitter is None:
        return converted
    note = f"jitter of {jitter} s: taken from the slot's key instead of chance, so that it is the same everywhere"
    return Converted(converted.spec, converted.text, jitter, (*converted.notes, note))


def _jitter(value: Any) -> int | float | None:
    if value is None or value == 0:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 86_400:
        raise NotKnown(f"expected up to 86400 seconds, got {describe(value)}", "jitter")
    millis = round(value * 1000)
    return millis // 1000 if millis % 1000 == 0 else millis / 1000


def _date(state: Pairs, next_run: int | None) -> Converted:
    with within("run_date"):
        at = moment(state.get("run_date")).instant()
    shown = f"date[{to_rfc3339(at)}]"
    if next_run is None or next_run == at:
        return Converted({"kind": "once", "at": to_rfc3339(at)}, shown)
    note = f"its next run was moved from {to_rfc3339(at)} to {to_rfc3339(next_run)}"
    return Converted({"kind": "once", "at": to_rfc3339(next_run)}, shown, notes=(note,))


def _interval(state: Pairs, next_run: int | None) -> Converted:
    with within("interval"):
        length = duration(state.get("interval"))
        if length < timedelta(milliseconds=1) or length % timedelta(milliseconds=1):
            raise NotKnown(f"expected whole milliseconds, got {length}")
    millis = length // timedelta(milliseconds=1)
    with within("start_date"):
        start = moment(state.get("start_date"))
        first = start.instant()
    notes = ["parts of a millisecond of its start are dropped"] if start.wall.microsecond % 1000 else []
    if next_run is not None and _off_grid(next_run - first, millis):
        notes = [f"its runs do not follow its start_date; they are counted from the next one, {to_rfc3339(next_run)}"]
        first = next_run
    spec = {"kind": "interval", "intervalMs": millis, "firstTick": to_rfc3339(first), **_end(state)}
    return Converted(spec, f"interval[{length}]", notes=tuple(notes))


def _off_grid(distance: int, millis: int) -> bool:
    return distance < 0 or min(distance % millis, -distance % millis) > 1  # floats of seconds round


def _end(state: Pairs) -> dict[str, str]:
    with within("end_date"):
        return {} if state.get("end_date") is None else {"end": to_rfc3339(moment(state.get("end_date")).instant())}


def _start(state: Pairs) -> dict[str, str]:
    """Up to a whole millisecond: an earlier slot must not slip in."""
    with within("start_date"):
        if state.get("start_date") is None:
            return {}
        start = moment(state.get("start_date"))
        return {"start": to_rfc3339(start.instant() + (start.wall.microsecond % 1000 > 0))}


def _zone(state: Pairs) -> tuple[str | None, str]:
    """The IANA zone, None where there is none; and what a trigger of APScheduler's own is given."""
    with within("timezone"):
        zone = zone_of(state.get("timezone"))
        return zone.spelt, zone.spelt or zone.offset_text()


def _cron(state: Pairs, _: int | None) -> Converted:
    fields = cronfields.read_fields(state.get("fields"))
    (zone, their_zone), bounds = _zone(state), {**_start(state), **_end(state)}
    shown = cronfields.as_text(fields)
    spec = None if zone is None else cronfields.convert(fields, zone)
    if spec is not None:
        return Converted({**spec, **bounds}, shown)
    texts = {name: found.text for name, found in fields.items() if not found.is_default}
    spec = {"kind": "apscheduler", "class": "cron", **texts, "timezone": their_zone, **bounds}
    why = _FIXED if zone is None else "ISO weeks, years or weekday positions beside days"
    return Converted(spec, shown, notes=(_KEPT.format(why),))


_FIXED: Final = "wall times of a fixed offset"
_KEPT: Final = "{}: no trigger of ours says that; APScheduler's own computes it, with its faults where clocks change"


def _calendar_interval(state: Pairs, _: int | None) -> Converted:
    with within("interval"):
        years, months, weeks, days = (whole(part) for part in _four(state.get("interval")))
    with within("time"):
        hour, minute, second = (whole(part) for part in sequence(state.get("time")))
        if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
            raise NotKnown(f"no time of day: {hour}:{minute}:{second}")
    with within("start_date"):
        start = day(state.get("start_date"))
    with within("end_date"):
        end = None if state.get("end_date") is None else day(state.get("end_date"))
    at = f"{hour:02d}:{minute:02d}:{second:02d}"
    steps = _Steps(12 * years + months, 7 * weeks + days, start, end, at, *_zone(state))
    shown = f"calendarinterval[years={years}, months={months}, weeks={weeks}, days={days}, at {at}, from {start}]"
    return steps.converted(shown)


def _four(value: Any) -> list[Any]:
    found = sequence(value)
    if len(found) != 4:
        raise NotKnown(f"expected years, months, weeks and days, got {len(found)} values")
    return found


@dataclass(frozen=True, slots=True)
class _Steps:
    """From a first day by so many months, or so many days, always at one wall time."""

    months: int
    days: int
    first: date
    end: date | None
    at: str
    zone: str | None
    their_zone: str

    def converted(self, shown: str) -> Converted:
        if not 0 < self.months + self.days < 1_000_000 or min(self.months, self.days) < 0:
            raise NotKnown(f"no interval: {self.months} months and {self.days} days", "interval")
        if self.zone is None or (self.months and self.days):
            why = _FIXED if self.zone is None else "months and days in one interval"
            return Converted(self._foreign(), shown, notes=(_KEPT.format(why),))
        if self.days in (1, 7):
            return Converted(self._calendar(), shown)
        return Converted(self._rrule(), shown)

    def _calendar(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"kind": "calendar", "timezone": self.zone, "at": [self.at]}
        if self.days == 7:
            spec["weekdays"] = [_DAY_NAMES[self.first.weekday()]]
        spec["start"] = f"{self.first}T00:00:00"
        if self.end is not None:
            spec["end"] = f"{self.end}T23:59:59"
        return spec

    def _rrule(self) -> dict[str, Any]:
        rule = f"FREQ=MONTHLY;INTERVAL={self.months}" if self.months else f"FREQ=DAILY;INTERVAL={self.days}"
        if self.end is not None:
            rule += f";UNTIL={self.end:%Y%m%d}T235959"
        return {"kind": "rrule", "rrule": rule, "dtstart": f"{self.first}T{self.at}", "timezone": self.zone}

    def _foreign(self) -> dict[str, Any]:
        hour, minute, second = (int(part) for part in self.at.split(":"))
        spec: dict[str, Any] = {"kind": "apscheduler", "class": "calendarinterval"}
        spec |= {"months": self.months, "days": self.days, "hour": hour, "minute": minute, "second": second}
        spec |= {"startDate": str(self.first), "timezone": self.their_zone}
        return spec if self.end is None else {**spec, "endDate": str(self.end)}


def _combined(kind: str, state: Pairs, depth: int) -> Converted:
    members: list[Converted] = []
    found = sequence(state.get("triggers"))
    if not 0 < len(found) <= _MAX_MEMBERS:
        raise NotKnown(f"expected 1 to {_MAX_MEMBERS} triggers, got {len(found)}", "triggers")
    for index, member in enumerate(found):
        with within(f"triggers[{index}]"):
            members.append(_member(member, depth))
    specs = [member.spec for member in members]
    shown = f"{kind}[{', '.join(member.text for member in members)}]"
    notes = [note for member in members for note in member.notes]
    jitter = _jitter(state.get("jitter")) or max((member.jitter or 0 for member in members), default=0) or None
    if kind == "or":
        return Converted({"kind": "anyOf", "triggers": specs}, shown, jitter, tuple(notes))
    notes.append("several rules must agree: consider one calendar rule, which says the same and can be read")
    return Converted({"kind": "apscheduler", "class": "and", "triggers": specs}, shown, jitter, tuple(notes))


def _member(value: Any, depth: int) -> Converted:
    """A member is (class reference, state), not a pickled object."""
    parts = sequence(value)
    if len(parts) != 2:
        raise NotKnown(f"expected a class and a state, got {len(parts)} values")
    module, _, cls = text(parts[0]).partition(":")
    name = Name(module, cls)
    if name not in TRIGGER_NAMES:
        raise NotKnown(f"a trigger of class {name}; expected one of {', '.join(KINDS)}")
    return convert(name, parts[1], None, depth + 1)


_READERS: Final[dict[str, Callable[[Pairs, int | None], Converted]]] = {
    "date": _date,
    "interval": _interval,
    "cron": _cron,
    "calendarinterval": _calendar_interval,
}
