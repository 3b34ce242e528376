"""A user's own APScheduler trigger as a source of slots, kept as JSON: no pickle is written or read.

Intervals and dates are arithmetic. For the others APScheduler's own class is asked, so that its answers are its own,
with its faults where clocks change; it is asked a bounded number of times. Jitter is not part of it (the caller keeps
it as ``jitterSeconds``): it would make every answer another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, timedelta, tzinfo
from datetime import timezone as fixed_zone
from typing import Any, ClassVar, Final, Self

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from calsched import zones
from calsched.clock import to_datetime, to_millis
from calsched.errors import Problem, TriggerInvalid
from calsched.triggers.any_of import AnyOfTrigger, read_members
from calsched.triggers.base import BusinessCalendar, Context, Trigger
from calsched.triggers.fields import (
    Fields,
    as_date,
    as_instant,
    expected,
    instant_text,
    shown,
    whole,
    zone_name,
)
from calsched.triggers.foreign_sources import AllOf, Asked, Chain, Source
from calsched.triggers.interval import IntervalTrigger as OurInterval
from calsched.triggers.once import OnceTrigger

CLASSES: Final = ("interval", "date", "cron", "calendarinterval", "and", "or")


class ForeignTrigger(Trigger):
    """An APScheduler trigger of a class that calsched can keep. ``native`` is such a trigger, without jitter."""

    __slots__ = ("_source", "_spec", "native")
    kind: ClassVar[str] = "apscheduler"

    native: BaseTrigger
    _source: Source
    _spec: dict[str, Any]

    def __init__(self, trigger: BaseTrigger) -> None:
        self._adopt(type(self).from_spec(_describe(trigger), Context(calendars=calendars_in(trigger))))

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], context: Context) -> Self:
        made = cls.__new__(cls)
        made._calendars, made._zone_source = {}, context.zone_source
        read = _READERS.get(str(spec.get("class")))
        if read is None:
            what = f"expected one of {', '.join(CLASSES)}, got {shown(spec.get('class'))}"
            raise TriggerInvalid([Problem(what, path="class")])
        made._spec, made._source, made.native = read(
            {name: value for name, value in spec.items() if value is not None}, context
        )
        made._spec = {"kind": cls.kind, "class": spec["class"], **made._spec}
        return made

    def first_at_or_after(self, instant: int) -> int | None:
        return self._source.first_at_or_after(instant)

    def last_at_or_before(self, instant: int) -> int | None:
        return self._source.last_at_or_before(instant)

    def count(self, first: int, last: int) -> int:
        """Exact, but for cron over more than 20 000 slots: there the rest is estimated from those."""
        return self._source.count(first, last) if first <= last else 0

    def nth_after(self, instant: int, n: int) -> int | None:
        return self._source.nth_after(instant, n)

    def spec(self) -> dict[str, Any]:
        return dict(self._spec)

    def __str__(self) -> str:
        return str(self.native)


def wrap(trigger: BaseTrigger) -> Trigger:
    """A trigger of ours as it is; one of APScheduler's as a ForeignTrigger. TriggerInvalid for classes nobody knows."""
    return trigger if isinstance(trigger, Trigger) else ForeignTrigger(trigger)


# --- from objects to plain values ------------------------------------------------------------------------------------


def _describe(trigger: BaseTrigger) -> dict[str, Any]:
    describe = _DESCRIBERS.get(type(trigger))
    if describe is None:
        name = f"{type(trigger).__module__}.{type(trigger).__qualname__}"
        what = f"a trigger of class {name} cannot be kept as data; expected one of calsched's, or APScheduler's"
        raise TriggerInvalid([Problem(f"{what} {', '.join(CLASSES)}", path="trigger")])
    return {"kind": "apscheduler"} | {key: value for key, value in describe(trigger).items() if value is not None}


def calendars_in(trigger: BaseTrigger) -> dict[str, BusinessCalendar]:
    """The business calendars of one of our own triggers, or of those within APScheduler's combining ones, by name."""
    if isinstance(trigger, Trigger):
        return dict(trigger._calendars)
    members = getattr(trigger, "triggers", ())
    return {name: found for member in members for name, found in calendars_in(member).items()}


def _describe_interval(trigger: Any) -> dict[str, Any]:
    length = trigger.interval
    if length % timedelta(milliseconds=1) or length < timedelta(milliseconds=1):
        raise TriggerInvalid([Problem(f"expected an interval of whole milliseconds, got {length}", path="interval")])
    return {
        "class": "interval",
        "intervalMs": length // timedelta(milliseconds=1),
        "start": instant_text(to_millis(trigger.start_date)),
        "end": None if trigger.end_date is None else instant_text(to_millis(trigger.end_date)),
        "timezone": _zone_text(trigger.timezone),
    }


def _describe_date(trigger: Any) -> dict[str, Any]:
    return {
        "class": "date",
        "at": instant_text(to_millis(trigger.run_date)),
        "timezone": _zone_text(trigger.run_date.tzinfo),
    }


def _describe_cron(trigger: Any) -> dict[str, Any]:
    start = trigger.start_date
    return {
        "class": "cron",
        **{field.name: str(field) for field in trigger.fields if not field.is_default},
        # up to a whole millisecond, so that no earlier slot slips in
        "start": None if start is None else instant_text(to_millis(start) + (start.microsecond % 1000 > 0)),
        "end": None if trigger.end_date is None else instant_text(to_millis(trigger.end_date)),
        "timezone": _zone_text(trigger.timezone),
    }


def _describe_calendar_interval(trigger: Any) -> dict[str, Any]:
    steps = {name: getattr(trigger, name) or None for name in ("years", "months", "weeks", "days")}
    return {
        "class": "calendarinterval",
        **steps,
        **{name: getattr(trigger._time, name) for name in ("hour", "minute", "second")},
        "startDate": trigger.start_date.isoformat(),
        "endDate": None if trigger.end_date is None else trigger.end_date.isoformat(),
        "timezone": _zone_text(trigger.timezone),
    }


def _describe_combined(name: str) -> Callable[[Any], dict[str, Any]]:
    return lambda trigger: {"class": name, "triggers": [wrap(member).spec() for member in trigger.triggers]}


def _zone_text(zone: tzinfo) -> str:
    name = zone_name(zone)
    if isinstance(name, str):
        return name
    offset = zone.utcoffset(None) if isinstance(zone, fixed_zone) else None
    if offset is None:
        raise TriggerInvalid(
            [Problem(f"the zone {zone!r} has no name", path="timezone", hint="give an IANA zone name")]
        )
    minutes = offset // timedelta(minutes=1)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


_DESCRIBERS: Final[dict[type, Callable[[Any], dict[str, Any]]]] = {
    IntervalTrigger: _describe_interval,
    DateTrigger: _describe_date,
    CronTrigger: _describe_cron,
    CalendarIntervalTrigger: _describe_calendar_interval,
    AndTrigger: _describe_combined("and"),
    OrTrigger: _describe_combined("or"),
}


# --- from plain values to objects ------------------------------------------------------------------------------------

_Read = tuple[dict[str, Any], Source, BaseTrigger]
_CRON_FIELDS: Final = CronTrigger.FIELD_NAMES
_UTC: tzinfo = UTC


def _fields(spec: Mapping[str, Any], context: Context, *known: str) -> Fields:
    return Fields({name: value for name, value in spec.items() if name != "class"}, known, context)


def _read_interval(spec: Mapping[str, Any], context: Context) -> _Read:
    fields = _fields(spec, context, "intervalMs", "start", "end", "timezone")
    zone = fields.read("timezone", _zone, _UTC)
    given = {
        "kind": "interval",
        "intervalMs": spec.get("intervalMs"),
        "firstTick": spec.get("start"),
        "end": spec.get("end"),
    }
    fields.check()
    source = OurInterval.from_spec({name: value for name, value in given.items() if value is not None}, context)
    plain = source.spec()
    out = {"intervalMs": plain["intervalMs"]} | {
        name: spec[name] for name in ("start", "end", "timezone") if name in spec
    }
    start, end = (as_instant(spec[name]) if name in spec else None for name in ("start", "end"))
    native = IntervalTrigger(
        start_date=to_datetime(0 if start is None else start),
        end_date=None if end is None else to_datetime(end),
        timezone=zone,
    )
    native.interval = timedelta(milliseconds=plain["intervalMs"])
    native.interval_length = native.interval.total_seconds()
    native.start_date = native.start_date.astimezone(zone)
    return out, source, native


def _read_date(spec: Mapping[str, Any], context: Context) -> _Read:
    fields = _fields(spec, context, "at", "timezone")
    zone = fields.read("timezone", _zone, _UTC)
    at = fields.read("at", as_instant, None)
    if at is None and not fields.problems:
        fields.fail("at", "a date trigger needs its time")
    fields.check()
    assert at is not None
    out = {"at": instant_text(at)} | ({"timezone": spec["timezone"]} if "timezone" in spec else {})
    return out, OnceTrigger(to_datetime(at)), DateTrigger(to_datetime(at).astimezone(zone), zone)


def _read_cron(spec: Mapping[str, Any], context: Context) -> _Read:
    fields = _fields(spec, context, *_CRON_FIELDS, "start", "end", "timezone")
    zone = fields.read("timezone", _zone, None)
    if zone is None and not fields.problems:
        fields.fail("timezone", "a cron trigger needs its zone")
    start, end = fields.read("start", as_instant, None), fields.read("end", as_instant, None)
    texts = {name: fields.read(name, _cron_text, "") for name in _CRON_FIELDS if name in spec}
    fields.check()
    try:
        native = CronTrigger(
            **texts,
            timezone=zone,
            start_date=None if start is None else to_datetime(start),
            end_date=None if end is None else to_datetime(end),
        )
    except (ValueError, TypeError) as error:
        raise TriggerInvalid([Problem(f"APScheduler refuses it: {error}", path="class")]) from None
    times = {name: instant_text(at) for name, at in (("start", start), ("end", end)) if at is not None}
    return {**texts, "timezone": spec["timezone"], **times}, Asked(native, start), native


def _read_calendar_interval(spec: Mapping[str, Any], context: Context) -> _Read:
    steps, clock = ("years", "months", "weeks", "days"), ("hour", "minute", "second")
    fields = _fields(spec, context, *steps, *clock, "startDate", "endDate", "timezone")
    zone = fields.read("timezone", _zone, None)
    if zone is None and not fields.problems:
        fields.fail("timezone", "a calendarinterval trigger needs its zone")
    start, end = fields.read("startDate", as_date, None), fields.read("endDate", as_date, None)
    if start is None and not fields.problems:
        fields.fail("startDate", "a calendarinterval trigger needs its first day")
    numbers = {name: fields.read(name, lambda value: whole(value, 0, 1_000_000), 0) for name in steps}
    highest = {"hour": 23, "minute": 59, "second": 59}
    times = {name: fields.read(name, _up_to(highest[name]), 0) for name in clock}
    if not any(numbers.values()) and not fields.problems:
        fields.fail("days", "expected a step of at least one day")
    fields.check()
    assert start is not None
    native = CalendarIntervalTrigger(**numbers, **times, start_date=start, end_date=end, timezone=zone)
    dates: dict[str, date | None] = {"startDate": start, "endDate": end}
    out: dict[str, Any] = {name: value for name, value in numbers.items() if value} | times
    out |= {name: day.isoformat() for name, day in dates.items() if day is not None}
    return out | {"timezone": spec["timezone"]}, Chain(native), native


def _read_combined(name: str) -> Callable[[Mapping[str, Any], Context], _Read]:
    def read(spec: Mapping[str, Any], context: Context) -> _Read:
        fields = _fields(spec, context, "triggers")
        members = read_members(fields)
        fields.check()
        natives = [getattr(member, "native", member) for member in members]
        out = {"triggers": [member.spec() for member in members]}
        if name == "or":
            return out, AnyOfTrigger(members), OrTrigger(natives)
        return out, AllOf(members), AndTrigger(natives)

    return read


def _up_to(high: int) -> Callable[[Any], int]:
    return lambda value: whole(value, 0, high)


def _cron_text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)) or len(str(value)) > 1000:
        expected("a field of APScheduler's cron trigger", value)
    return str(value)


def _zone(value: Any) -> tzinfo:
    """The zone object that APScheduler works with; an offset such as ``+03:00`` is one too."""
    if isinstance(value, str) and value[:1] in "+-" and len(value) == 6 and value[3] == ":":
        hours, minutes = value[1:3], value[4:]
        if (hours + minutes).isdigit() and int(hours) < 24 and int(minutes) < 60:
            east = timedelta(hours=int(hours), minutes=int(minutes))
            return fixed_zone(-east if value[0] == "-" else east)
    zones.load(value)
    return UTC if value == "UTC" else _ZoneInfo(value)


def _ZoneInfo(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


_READERS: Final[dict[str, Callable[[Mapping[str, Any], Context], _Read]]] = {
    "interval": _read_interval,
    "date": _read_date,
    "cron": _read_cron,
    "calendarinterval": _read_calendar_interval,
    "and": _read_combined("and"),
    "or": _read_combined("or"),
}
