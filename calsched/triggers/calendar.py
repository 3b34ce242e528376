"""Times of day on days that meet every condition: weekdays, days of the month, months, weeks, business days."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, tzinfo
from typing import Any, ClassVar, Final, NamedTuple, Self

from calsched.policies.clock_change import FOLD_RULES, GAP_RULES, FoldRule, GapRule
from calsched.triggers.base import BusinessCalendar, Context
from calsched.triggers.calendar_fields import (
    MONTH_NAMES,
    SHORT_DAYS,
    numbers,
    parse_months,
    parse_nth_weekdays,
    parse_times,
    parse_weekdays,
    time_text,
    values_up_to,
    weekdays_text,
)
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
from calsched.triggers.fields import Fields, as_date, joined, one_of, whole
from calsched.triggers.wallclock import WEEKDAYS, WallClockTrigger, clock_text, times_of_day
from calsched.zones import Zone

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
            self._times = fields.read("at", parse_times, ())
        elif not fields.has("hour"):
            hint = "at: '09:00', or hour: 9; hour: null is every hour"
            fields.fail("at", "a calendar rule needs its times of day", hint)
        else:
            self._parts = (
                fields.read("hour", values_up_to(23), None),
                fields.read("minute", values_up_to(59), (0,)),
                fields.read("second", values_up_to(59), (0,)),
            )
            hours, minutes, seconds = self._parts
            self._times = times_of_day(hours or _ALL[24], minutes or _ALL[60], seconds or _ALL[60])

    def _read_conditions(self, fields: Fields, zone: Zone | None) -> Conditions:
        weekdays = fields.read("weekdays", parse_weekdays, None)
        business = fields.read("businessDays", numbers(-23, 23, "business days"), None)
        weeks = fields.read("everyWeeks", lambda value: whole(value, 1, 10_000), 1)
        anchor = fields.read("weekAnchor", as_date, None)
        if fields.has("weekAnchor") and not fields.has("everyWeeks"):
            fields.fail("weekAnchor", "it says from which week to count, and there is no everyWeeks to count by")
        clip = fields.read("ifDayMissing", one_of("skip", "last"), "skip") == "last"
        if clip and not fields.has("daysOfMonth"):
            fields.fail("ifDayMissing", "it says what becomes of daysOfMonth, and there are none")
        return Conditions(
            None if weekdays is not None and len(weekdays) == 7 else weekdays,
            fields.read("daysOfMonth", numbers(-31, 31, "days of the month"), None),
            clip,
            fields.read("nthWeekdays", parse_nth_weekdays, None),
            fields.read("months", parse_months, None),
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
            out["at"] = [time_text(second) for second in self._times]
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
            out["nthWeekdays"] = [f"{n}{SHORT_DAYS[weekday]}" for n, weekday in rule.nth]
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
            return f"{day} is in {MONTH_NAMES[month - 1].title()}; months: {joined(rule.months)}"
        if rule.weekdays is not None and day.weekday() not in rule.weekdays:
            return f"{weekday}; weekdays: {weekdays_text(rule.weekdays)}"
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
            months = joined(MONTH_NAMES[month - 1].title() for month in rule.months)
            fields.fail("daysOfMonth", f"there is no {joined(rule.days)} in {months}: the rule can never fire")
    for name in ("businessDays", "nthWeekdays", "daysOfMonth", "months", "weekdays", "exclude"):
        if fields.has(name):
            return name
    return "at" if fields.has("at") else "hour"
