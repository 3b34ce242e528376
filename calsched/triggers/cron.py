"""Cron: five fields, or six with seconds where asked; searched by the wall-clock engine, like every rule in a zone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, tzinfo
from typing import Any, ClassVar, Final, NamedTuple, Self

from calsched.policies.clock_change import FOLD_RULES, GAP_RULES, FoldRule, GapRule
from calsched.triggers.base import BusinessCalendar, Context
from calsched.triggers.cron_fields import Cron, CronInvalid, parse
from calsched.triggers.days import (
    month_length,
    nearest_weekday_mask,
    nth_weekday_mask,
    weekday_mask,
    whole_month,
)
from calsched.triggers.fields import Bad, Fields, expected, joined, one_of
from calsched.triggers.wallclock import WEEKDAYS, WallClockTrigger, clock_text, times_of_day

_FIELDS: Final = WallClockTrigger.COMMON | {"expression", "seconds", "hashId"}


class CronDays(NamedTuple):
    """The days of an expression: Monday = 0, as everywhere but in cron."""

    days: int  # bits of the plain days of the month
    from_end: tuple[int, ...]
    nearest: tuple[int, ...]
    nearest_from_end: tuple[int, ...]
    weekdays: tuple[int, ...]
    nth: tuple[tuple[int, int], ...]
    months: frozenset[int]
    both: bool

    @classmethod
    def of(cls, cron: Cron) -> CronDays:
        return cls(
            sum(1 << day - 1 for day in cron.days),
            cron.from_end,
            cron.nearest,
            cron.nearest_from_end,
            tuple((day - 1) % 7 for day in cron.weekdays),
            tuple((n, (day - 1) % 7) for n, day in cron.nth),
            frozenset(cron.months),
            cron.both,
        )

    def mask(self, year: int, month: int) -> int:
        if month not in self.months:
            return 0
        by_day, by_weekday = self.by_day(year, month), self.by_weekday(year, month)
        return (by_day & by_weekday if self.both else by_day | by_weekday) & whole_month(year, month)

    def by_day(self, year: int, month: int) -> int:
        mask = self.days
        if self.from_end or self.nearest or self.nearest_from_end:
            length = month_length(year, month)
            for back in self.from_end:
                mask |= 1 << length - back - 1 if back < length else 0
            for day in self.nearest:
                mask |= nearest_weekday_mask(year, month, day)
            for back in self.nearest_from_end:
                mask |= nearest_weekday_mask(year, month, length - back) if back < length else 0
        return mask

    def by_weekday(self, year: int, month: int) -> int:
        if len(self.weekdays) == 7:
            return whole_month(year, month)
        mask = weekday_mask(year, month, self.weekdays)
        for n, weekday in self.nth:
            mask |= nth_weekday_mask(year, month, n, weekday)
        return mask


class CronTrigger(WallClockTrigger):
    """A cron expression in a zone.

    A day field that begins with ``*`` (also ``*/2``) means that a day must match day of month and day of week, as in
    Linux cron; otherwise one of them is enough. ``seconds`` (``"first"`` or ``"last"``) says that there are six fields.
    ``H`` fields are spread by a hash of ``schedule_id``. Where ``fold`` is not given, an hour field that covers every
    hour keeps both passes of a repeated hour, for it is a cadence; otherwise the first pass counts.
    """

    __slots__ = ("_cron", "_days", "_expression", "_hash_id", "_seconds")
    kind: ClassVar[str] = "cron"

    _cron: Cron
    _days: CronDays
    _expression: str
    _hash_id: str | None
    _seconds: str | None

    def __init__(
        self,
        expression: str,
        *,
        seconds: str | None = None,
        timezone: str | tzinfo | None = None,
        gap: GapRule | None = None,
        fold: FoldRule | None = None,
        start: datetime | date | str | None = None,
        end: datetime | date | str | None = None,
        exclude: Any = (),
        calendar: BusinessCalendar | str | None = None,
        calendars: Mapping[str, BusinessCalendar] | None = None,
        roll: str | None = None,
        schedule_id: str | None = None,
    ) -> None:
        given = {
            "expression": expression,
            "seconds": seconds,
            "timezone": timezone,
            "gap": gap,
            "fold": fold,
            "start": start,
            "end": end,
            "exclude": exclude,
            "calendar": calendar,
            "roll": roll,
        }
        context = Context(calendars=calendars or {}, schedule_id=schedule_id)
        self._load(Fields({name: value for name, value in given.items() if value is not None}, _FIELDS, context))

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], context: Context) -> Self:
        made = cls.__new__(cls)
        made._load(Fields({name: value for name, value in spec.items() if value is not None}, _FIELDS, context))
        return made

    def _load(self, fields: Fields) -> None:
        zone = self._read_common(fields)
        gap: GapRule = fields.read("gap", one_of(*GAP_RULES), "skip")
        fold: FoldRule | None = fields.read("fold", one_of(*FOLD_RULES), None)
        self._seconds = fields.read("seconds", one_of("first", "last"), None)
        self._hash_id = fields.read("hashId", _text, fields.context.schedule_id)
        cron = self._read_expression(fields)
        fields.check()
        assert zone is not None and cron is not None
        if not re.search(r"(?:^|[ ,])H", self._expression):
            self._hash_id = None
        self._cron, self._days = cron, CronDays.of(cron)
        times = times_of_day(cron.hours, cron.minutes, cron.seconds)
        cadence: FoldRule = "both" if len(cron.hours) == 24 else "first"
        self._begin(zone, self._days.mask, times, gap, fold or cadence)
        self._refuse_impossible(fields)
        if not fields.problems:
            self._prove(fields, "expression", pure=True)
        fields.check()

    def _read_expression(self, fields: Fields) -> Cron | None:
        self._expression = re.sub("[ \t]+", " ", fields.read("expression", _text, ""))
        if not fields.has("expression"):
            fields.fail("expression", "a cron rule needs its expression", "for example expression: '0 9 * * 1-5'")
            return None
        if any(problem.path in ("expression", "seconds", "hashId") for problem in fields.problems):
            return None
        try:
            return parse(self._expression, seconds=self._seconds, hash_id=self._hash_id)
        except CronInvalid as invalid:
            for message, hint in invalid.problems:
                fields.fail("expression", message, hint)
            return None

    def _refuse_impossible(self, fields: Fields) -> None:
        cron = self._cron
        special = cron.from_end or cron.nearest or cron.nearest_from_end
        longest = max(month_length(2000, month) for month in cron.months)
        if cron.both and not special and cron.days and min(cron.days) > longest:
            days, months = cron.texts["day of month"], cron.texts["month"]
            fields.fail(
                "expression",
                f"day of month: there is no {days} in month {months}: the rule can never fire",
            )

    def spec(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "kind": self.kind,
            "expression": self._expression,
            "timezone": self._engine.zone.name,
        }
        if self._seconds is not None:
            out["seconds"] = self._seconds
        if self._hash_id is not None:
            out["hashId"] = self._hash_id
        return out | self._common_spec()

    def _why_not_day(self, day: date) -> str | None:
        texts = self._cron.texts
        if day.month not in self._days.months:
            return f"{day} does not match month {texts['month']!r}"
        word = "and" if self._days.both else "or"
        fields = f"day of month {texts['day of month']!r} {word} day of week {texts['day of week']!r}"
        return f"{day}, a {WEEKDAYS[day.weekday()]}, does not match {fields}"

    def _why_not_time(self, second: int) -> str:
        cron = self._cron
        parts = {"hour": second // 3600, "minute": second // 60 % 60, "second": second % 60}
        named = {"hour": cron.hours, "minute": cron.minutes, "second": cron.seconds}
        wrong = [f"{name} {cron.texts[name]!r}" for name, value in parts.items() if value not in named[name]]
        return f"{clock_text(second)} does not match {joined(wrong)}"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        expected("text", value)
    if "\n" in value.strip() or len(value) > 10_000:
        raise Bad("expected one line")
    return value.strip(" \t\r\n")
