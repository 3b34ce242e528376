"""Times of day on days that meet every condition: weekdays, days of the month, months, weeks, business days."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, tzinfo
from typing import Any, ClassVar, Final, NamedTuple, Self

from calsched.policies.clock_change import FOLD_RULES, GAP_RULES, FoldRule, GapRule
from calsched.triggers.base import BusinessCalendar, Context
from calsched.triggers.days import (
    EPOCH_DAY,
    OpenDays,
    WeekendsClosed,
    business_days_mask,
    days_of_month_mask,
    month_length,
    nth_weekday_mask,
    weekday_mask,
    whole_month,
)
from calsched.triggers.engine import DAY
from calsched.triggers.fields import Bad, Fields, as_date, as_list, each, expected, joined, one_of, shown, whole
from calsched.triggers.wallclock import WEEKDAYS, WallClockTrigger, clock_text, times_of_day
from calsched.zones import Zone

_DAY_NAMES: Final = {name.lower(): number for number, name in enumerate(WEEKDAYS)}
_DAYS: Final = _DAY_NAMES | {name[:3]: number for name, number in _DAY_NAMES.items()}
_SHORT_DAYS: Final = tuple(name[:3].lower() for name in WEEKDAYS)
_MONTH_NAMES: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTHS: Final = {name: number for number, long in enumerate(_MONTH_NAMES, start=1) for name in (long, long[:3])}
#: The Monday of the week of 1970-01-01: where every n-th week is counted from if nothing else is said.
_EPOCH_WEEK: Final = date(1969, 12, 29)
_MOST_TIMES_LISTED: Final = 24

_FIELDS: Final = WallClockTrigger.COMMON | {
    "at",
    "hour",
    "minute",
    "second",
    "weekdays",
    "daysOfMonth",
    "ifDayMissing",
    "nthWeekdays",
    "months",
    "everyWeeks",
    "weekAnchor",
    "businessDays",
}


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


#: The default of ``hour``: not given. (None means every hour.)
UNSET: Final = _Unset()


class Conditions(NamedTuple):
    """What a day must meet, all of it; None: no condition."""

    weekdays: tuple[int, ...] | None
    days: tuple[int, ...] | None
    clip: bool
    nth: tuple[tuple[int, int], ...] | None
    months: tuple[int, ...] | None
    weeks: int
    anchor: date
    business: tuple[int, ...] | None
    open_days: OpenDays | None

    def mask(self, year: int, month: int) -> int:
        if self.months is not None and month not in self.months:
            return 0
        mask = whole_month(year, month)
        if self.weekdays is not None:
            mask &= weekday_mask(year, month, self.weekdays)
        if self.days is not None:
            mask &= days_of_month_mask(year, month, self.days, clip=self.clip)
        if self.nth is not None and mask:
            mask &= self.nth_mask(year, month)
        if self.weeks > 1 and mask:
            mask &= self.weeks_mask(year, month)
        if self.business is not None and self.open_days is not None and mask:
            mask &= business_days_mask(year, month, self.business, self.open_days)
        return mask

    def nth_mask(self, year: int, month: int) -> int:
        mask = 0
        for n, weekday in self.nth or ():
            mask |= nth_weekday_mask(year, month, n, weekday)
        return mask

    def weeks_mask(self, year: int, month: int) -> int:
        """The days whose week, from Monday on, is one of every n-th from the anchor's."""
        first = date(year, month, 1).toordinal() - 1  # so that Mondays are multiples of 7
        anchor, mask = (self.anchor.toordinal() - 1) // 7, 0
        for monday in range(first - first % 7, first + 31, 7):
            if (monday // 7 - anchor) % self.weeks == 0:
                mask |= 127 << monday - first if monday >= first else 127 >> first - monday
        return mask

    def pure(self) -> bool:
        """Whether only a year's length and first weekday decide about its days."""
        return self.weeks == 1 and self.business is None


class CalendarTrigger(WallClockTrigger):
    """Times of day in a zone, on the days that meet every condition given; without conditions every day.

    The times are ``at`` (one or more of ``"09:00"``), or every combination of ``hour``, ``minute`` and ``second``, each
    a number, a list, or None for every value. Weekdays are Monday = 0 … Sunday = 6, or names, or a range ``"mon-fri"``;
    days of the month count from its end when negative; ``nth_weekdays`` are such as ``"2tue"`` and ``"-1fri"``;
    ``business_days`` such as 1 and -1 count the open days of ``calendar`` (without one, Monday to Friday).
    """

    __slots__ = ("_conditions", "_parts", "_times")
    kind: ClassVar[str] = "calendar"

    _conditions: Conditions
    _parts: tuple[tuple[int, ...] | None, ...]  # hours, minutes, seconds; None: every one
    _times: Sequence[int]

    def __init__(
        self,
        *,
        at: Any = None,
        hour: Any = UNSET,
        minute: Any = UNSET,
        second: Any = UNSET,
        weekdays: Any = None,
        days_of_month: Any = None,
        if_day_missing: str | None = None,
        nth_weekdays: Any = None,
        months: Any = None,
        every_weeks: int = 1,
        week_anchor: date | str | None = None,
        business_days: Any = None,
        exclude: Any = (),
        calendar: BusinessCalendar | str | None = None,
        calendars: Mapping[str, BusinessCalendar] | None = None,
        roll: str | None = None,
        gap: GapRule = "skip",
        fold: FoldRule = "first",
        start: datetime | date | str | None = None,
        end: datetime | date | str | None = None,
        timezone: str | tzinfo | None = None,
    ) -> None:
        given = {
            "timezone": timezone,
            "at": at,
            "weekdays": weekdays,
            "daysOfMonth": days_of_month,
            "ifDayMissing": if_day_missing,
            "nthWeekdays": nth_weekdays,
            "months": months,
            "everyWeeks": every_weeks,
            "weekAnchor": week_anchor,
            "businessDays": business_days,
            "exclude": exclude,
            "calendar": calendar,
            "roll": roll,
            "gap": gap,
            "fold": fold,
            "start": start,
            "end": end,
        }
        given = {name: value for name, value in given.items() if value is not None}
        parts = {"hour": hour, "minute": minute, "second": second}
        given |= {name: value for name, value in parts.items() if value is not UNSET}
        self._load(Fields(given, _FIELDS, Context(calendars=calendars or {})))

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], context: Context) -> Self:
        made = cls.__new__(cls)
        parts = ("hour", "minute", "second")
        given = {name: value for name, value in spec.items() if value is not None or name in parts}
        made._load(Fields(given, _FIELDS, context))
        return made

    def _load(self, fields: Fields) -> None:
        zone = self._read_common(fields)
        gap: GapRule = fields.read("gap", one_of(*GAP_RULES), "skip")
        fold: FoldRule = fields.read("fold", one_of(*FOLD_RULES), "first")
        self._read_times(fields)
        self._conditions = self._read_conditions(fields, zone)
        fields.check()
        assert zone is not None
        self._begin(zone, self._conditions.mask, self._times, gap, fold)
        name = _impossible(self._conditions, fields)
        if not fields.problems:
            self._prove(fields, name, self._conditions.weeks, pure=self._conditions.pure())
        fields.check()

    def _read_times(self, fields: Fields) -> None:
        self._parts, self._times = (None, None, None), ()
        if fields.has("at"):
            for name in ("hour", "minute", "second"):
                if fields.has(name):
                    fields.fail(name, f"there is {name!r} besides 'at'; give one of them")
            self._times = fields.read("at", _times, ())
        elif not fields.has("hour"):
            hint = "at: '09:00', or hour: 9; hour: null is every hour"
            fields.fail("at", "a calendar rule needs its times of day", hint)
        else:
            self._parts = (
                fields.read("hour", _values(23), None),
                fields.read("minute", _values(59), (0,)),
                fields.read("second", _values(59), (0,)),
            )
            hours, minutes, seconds = self._parts
            self._times = times_of_day(hours or _ALL[24], minutes or _ALL[60], seconds or _ALL[60])

    def _read_conditions(self, fields: Fields, zone: Zone | None) -> Conditions:
        weekdays = fields.read("weekdays", _weekdays, None)
        business = fields.read("businessDays", _numbers(-23, 23, "business days"), None)
        weeks = fields.read("everyWeeks", lambda value: whole(value, 1, 10_000), 1)
        anchor = fields.read("weekAnchor", as_date, None)
        if fields.has("weekAnchor") and weeks == 1 and not fields.problems:
            fields.fail("weekAnchor", "it says from which week to count, and there is no everyWeeks to count by")
        clip = fields.read("ifDayMissing", one_of("skip", "last"), "skip") == "last"
        if clip and not fields.has("daysOfMonth"):
            fields.fail("ifDayMissing", "it says what becomes of daysOfMonth, and there are none")
        return Conditions(
            None if weekdays is not None and len(weekdays) == 7 else weekdays,
            fields.read("daysOfMonth", _numbers(-31, 31, "days of the month"), None),
            clip,
            fields.read("nthWeekdays", _nth_weekdays, None),
            fields.read("months", _months, None),
            weeks,
            anchor or self._default_anchor(zone),
            business,
            None if business is None else self._open or OpenDays(WeekendsClosed()),
        )

    def _default_anchor(self, zone: Zone | None) -> date:
        if self._start is None or zone is None:
            return _EPOCH_WEEK
        second = self._start.instant // 1000
        return date.fromordinal((second + zone.offset_at(second)) // DAY + EPOCH_DAY)

    def spec(self) -> dict[str, Any]:
        out: dict[str, Any] = {"kind": self.kind, "timezone": self._engine.zone.name}
        if len(self._times) <= _MOST_TIMES_LISTED:
            out["at"] = [_time_text(second) for second in self._times]
        else:
            for name, part in zip(("hour", "minute", "second"), self._parts, strict=True):
                out[name] = None if part is None else list(part)
        return out | self._conditions_spec() | self._common_spec()

    def _conditions_spec(self) -> dict[str, Any]:
        rule, out = self._conditions, dict[str, Any]()
        if rule.weekdays is not None:
            out["weekdays"] = list(rule.weekdays)
        if rule.days is not None:
            out["daysOfMonth"] = list(rule.days)
            if rule.clip:
                out["ifDayMissing"] = "last"
        if rule.nth is not None:
            out["nthWeekdays"] = [f"{n}{_SHORT_DAYS[weekday]}" for n, weekday in rule.nth]
        if rule.months is not None:
            out["months"] = list(rule.months)
        if rule.weeks > 1:
            out |= {"everyWeeks": rule.weeks, "weekAnchor": rule.anchor.isoformat()}
        if rule.business is not None:
            out["businessDays"] = list(rule.business)
        return out

    def _why_not_day(self, day: date) -> str | None:
        rule, bit = self._conditions, 1 << day.day - 1
        year, month = day.year, day.month
        weekday = f"{day} is a {WEEKDAYS[day.weekday()]}"
        if rule.months is not None and month not in rule.months:
            return f"{day} is in {_MONTH_NAMES[month - 1].title()}; months: {joined(rule.months)}"
        if rule.weekdays is not None and day.weekday() not in rule.weekdays:
            return f"{weekday}; weekdays: {_weekdays_text(rule.weekdays)}"
        if rule.days is not None and not days_of_month_mask(year, month, rule.days, clip=rule.clip) & bit:
            return f"{day} is not one of daysOfMonth: {joined(rule.days)}"
        if rule.nth is not None and not rule.nth_mask(year, month) & bit:
            return f"{weekday}; nthWeekdays: {joined(self._conditions_spec()['nthWeekdays'])}"
        if rule.weeks > 1 and not rule.weeks_mask(year, month) & bit:
            return f"{day} is not in every {rule.weeks} weeks from {rule.anchor}"
        if rule.business is not None:
            return f"{day} is not one of businessDays: {joined(rule.business)}"
        return None

    def _why_not_time(self, second: int) -> str:
        if len(self._times) <= _MOST_TIMES_LISTED:
            return f"{clock_text(second)} is not one of its times: {joined(clock_text(time) for time in self._times)}"
        parts = zip(("hour", "minute", "second"), self._parts, strict=True)
        said = "; ".join(f"{name}: {'every' if part is None else joined(part)}" for name, part in parts)
        return f"{clock_text(second)} is not one of its times; {said}"


_ALL: Final = {count: tuple(range(count)) for count in (24, 60)}


def _impossible(rule: Conditions, fields: Fields) -> str:
    """The field to name where the rule has no day; notes the problem where no month has any of the days."""
    if rule.days is not None and not rule.clip and rule.months is not None:
        longest = max(month_length(2000, month) for month in rule.months)
        if all(abs(day) > longest for day in rule.days):
            months = joined(_MONTH_NAMES[month - 1].title() for month in rule.months)
            fields.fail("daysOfMonth", f"there is no {joined(rule.days)} in {months}: the rule can never fire")
    for name in ("businessDays", "nthWeekdays", "daysOfMonth", "months", "weekdays", "exclude"):
        if fields.has(name):
            return name
    return "at" if fields.has("at") else "hour"


def _time_text(second: int) -> str:
    return f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


_TIME: Final = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?", re.ASCII)


def _times(value: Any) -> tuple[int, ...]:
    return tuple(sorted(each(value, _time, "times of day")))


def _time(value: Any, at: str) -> int:
    what = "a time of day such as '09:00' or '09:00:30'"
    if isinstance(value, time) and value.tzinfo is None and value.microsecond == 0:
        return value.hour * 3600 + value.minute * 60 + value.second
    if isinstance(value, int) and not isinstance(value, bool):
        # YAML 1.1 reads 9:30 as 9 * 60 + 30
        hint = (
            f"write it in quotes: '{value // 60:02d}:{value % 60:02d}'" if 0 <= value < 1440 else "write it in quotes"
        )
        expected(what, value, at, hint)
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        expected(what, value, at)
    hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        hint = "the end of a day is '00:00' of the next" if (hour, minute, second) == (24, 0, 0) else ""
        expected("a time of day from '00:00' to '23:59:59'", value, at, hint)
    return hour * 3600 + minute * 60 + second


def _values(high: int) -> Any:
    """A parser of one number, a list of them, or None or ``"*"`` for every one; the result is ascending."""

    def parse(value: Any) -> tuple[int, ...] | None:
        if value is None or value == "*":
            return None
        found = each(value, lambda member, at: whole(member, 0, high, at), f"0 to {high}")
        return None if len(found) == high + 1 else tuple(sorted(found))

    return parse


def _numbers(low: int, high: int, what: str) -> Any:
    """A parser of numbers that count from 1, or from -1 backwards; ``"last"`` is -1."""

    def number(value: Any, at: str) -> int:
        if value == "last":
            return -1
        hint = "they count from 1, or from -1 backwards" if value == 0 and value is not False else ""
        found = whole(value, low, high, at) if value != 0 else expected(f"1 to {high} or {low} to -1", value, at, hint)
        return found

    def parse(value: Any) -> tuple[int, ...]:
        return tuple(sorted(each(value, number, what), key=lambda found: (found < 0, found)))

    return parse


def _weekday(value: Any, at: str) -> int:
    if isinstance(value, str) and value.strip().lower() in _DAYS:
        return _DAYS[value.strip().lower()]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 6:
        return value
    expected("0 to 6 or a day name", value, at, "Sunday is 6" if value == 7 else "")


def _weekdays(value: Any) -> tuple[int, ...]:
    """Numbers and names, as a list, or as text with commas and ranges (``mon-fri``)."""
    if isinstance(value, str):
        value = value.split(",")
        members = [day for part in value for day in _weekday_range(part, "")]
        if len(set(members)) < len(members):
            raise Bad(f"{shown(','.join(value))} has a day twice")
        return tuple(sorted(members))
    found: list[int] = []
    for place, member in enumerate(as_list(value)):
        at = f"[{place}]" if isinstance(value, (list, tuple)) else ""
        days = _weekday_range(member, at) if isinstance(member, str) else [_weekday(member, at)]
        if set(days) & set(found):
            raise Bad(f"{shown(member)} is there twice", at)
        found += days
    if not found:
        expected("at least one weekday", value)
    return tuple(sorted(found))


def _weekday_range(text: str, at: str) -> list[int]:
    first, dash, last = text.partition("-")
    if not dash:
        return [_weekday(text, at)]
    low, high = _weekday(first, at), _weekday(last, at)
    return [(low + step) % 7 for step in range((high - low) % 7 + 1)]


def _weekdays_text(weekdays: tuple[int, ...]) -> str:
    if len(weekdays) > 2 and weekdays[-1] - weekdays[0] == len(weekdays) - 1:
        return f"{_SHORT_DAYS[weekdays[0]]}-{_SHORT_DAYS[weekdays[-1]]}"
    return joined(_SHORT_DAYS[day] for day in weekdays)


def _months(value: Any) -> tuple[int, ...] | None:
    def month(member: Any, at: str) -> int:
        if isinstance(member, str) and member.strip().lower() in _MONTHS:
            return _MONTHS[member.strip().lower()]
        if isinstance(member, int) and not isinstance(member, bool) and 1 <= member <= 12:
            return member
        expected("1 to 12 or a month's name", member, at)

    found = each(value.split(",") if isinstance(value, str) else value, month, "months")
    return None if len(found) == 12 else tuple(sorted(found))


_NTH: Final = re.compile(r"(-?[1-5]) ?([a-z]+)", re.ASCII)


def _nth_weekdays(value: Any) -> tuple[tuple[int, int], ...]:
    def nth(member: Any, at: str) -> tuple[int, int]:
        found = _NTH.fullmatch(member.strip().lower().replace("last", "-1")) if isinstance(member, str) else None
        if found is None or found[2] not in _DAYS:
            expected("the n-th weekday of a month such as '2tue', or '-1fri' from its end", member, at)
        return int(found[1]), _DAYS[found[2]]

    found = each(value.split(",") if isinstance(value, str) else value, nth, "weekdays of the month")
    return tuple(sorted(found, key=lambda one: (one[0] < 0, *one)))
