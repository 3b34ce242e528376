"""What calendar and cron triggers share: wall times of a zone, with their bounds and closed days, as a trigger."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from datetime import date
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple

from calsched.policies import day_rule
from calsched.policies.clock_change import Fold, FoldRule, Gap, GapRule, Unambiguous, resolve
from calsched.triggers.base import BusinessCalendar, Trigger
from calsched.triggers.days import (
    EPOCH_DAY,
    FIRST_DAY,
    LAST_DAY,
    Days,
    MonthMask,
    OpenDays,
    WeekendsClosed,
    rolled,
    without,
)
from calsched.triggers.engine import DAY, Engine, WallTimes
from calsched.triggers.fields import (
    Fields,
    as_date,
    as_instant,
    as_list,
    as_wall,
    instant_text,
    is_wall,
    one_of,
    wall_text,
)
from calsched.zones import Zone, version


def resolve_local(zone: Zone, wall: int, gap: GapRule, fold: FoldRule) -> tuple[int, ...]:
    """The instants (UTC milliseconds, in order) of a wall time in seconds since 1970-01-01T00:00:00 local."""
    return tuple(second * 1000 for second in resolve(zone.local(wall), gap=gap, fold=fold))


_GREGORIAN_CYCLE: Final = 146_097  # days in 400 years
_SIXTY_YEARS: Final = 21_915
_NEVER: Final = "no day ever matches: the rule can never fire"


class Bound(NamedTuple):
    """A ``start`` or ``end``: as declared, and as the instant it means."""

    text: str
    instant: int


class WallClockTrigger(Trigger):
    """What calendar and cron rules share: zone, gap, fold, start, end, closed days, and every search."""

    __slots__ = ("_base", "_calendar", "_end", "_engine", "_excluded", "_open", "_roll", "_rule_days", "_start")

    COMMON: ClassVar[frozenset[str]] = frozenset(
        ("timezone", "gap", "fold", "start", "end", "exclude", "calendar", "roll")
    )

    _base: MonthMask  # the rule's own days but the excluded ones, before closed ones are dropped or rolled
    _calendar: BusinessCalendar | None
    _end: Bound | None
    _engine: Engine
    _excluded: frozenset[date]
    _rule_days: MonthMask  # the rule's own days
    _open: OpenDays | None
    _roll: day_rule.Roll | None
    _start: Bound | None

    def _read_common(self, fields: Fields) -> Zone | None:
        """Everything but gap and fold, whose defaults differ by kind."""
        zone = fields.zone()
        self._calendar = fields.calendar()
        self._roll = fields.read("roll", one_of(*day_rule.ROLLS), None)
        self._open = None
        if self._calendar is not None or self._roll is not None:
            self._open = OpenDays(self._calendar or WeekendsClosed())
        self._excluded = fields.read("exclude", _days, frozenset())
        self._start = self._end = None
        if zone is not None:
            self._start = fields.read("start", lambda value: _bound(value, zone, late=False), None)
            self._end = fields.read("end", lambda value: _bound(value, zone, late=True), None)
        if self._start and self._end and self._end.instant < self._start.instant:
            fields.fail("end", f"{self._end.text} is before the start, {self._start.text}")
        self._calendars = {self._calendar.name: self._calendar} if self._calendar is not None else {}
        self._zone_source = fields.context.zone_source
        return zone

    def _begin(self, zone: Zone, base: MonthMask, times: Sequence[int], gap: GapRule, fold: FoldRule) -> None:
        self._rule_days = base
        self._base = mask = without(base, self._excluded)
        if self._open is not None:
            mask = without(rolled(mask, self._roll or "skip", self._open), self._excluded)
        low = None if self._start is None else -(-self._start.instant // 1000)
        high = None if self._end is None else self._end.instant // 1000
        self._engine = Engine(zone, WallTimes(Days(mask), times), gap, fold, low, high)

    def _prove(self, fields: Fields, name: str, cycles: int = 1, *, pure: bool) -> None:
        """Notes a problem with the field ``name`` where the rule has no slot that can still come.

        Without an end, slots must go on in the era that the zone data describes: a rule whose wall times lay in no gap
        only under rules long repealed never fires again. Days repeat after ``cycles`` times 400 years; of a ``pure``
        rule they depend on a year's length and first weekday alone, which 28 years show. Where a business calendar
        decides, a rule that has no open day in 60 years counts as one that never fires.
        """
        if pure and not any(self._rule_days(year, month) for year in range(2001, 2029) for month in range(1, 13)):
            fields.fail(name, _NEVER)
            return
        engine, days = self._engine, self._engine.walls.days
        since = engine.low if self._end is not None else max(engine.low, era(self._zone_source))
        reach = _SIXTY_YEARS if self._open is not None else _GREGORIAN_CYCLE * cycles
        days.last = min(days.last, max(since // DAY, FIRST_DAY) + reach)
        found, named = engine.first(since), engine.walls.next(since)
        days.last = LAST_DAY
        if found is not None:
            return
        if self._end is not None:
            fields.fail(name, f"the rule has no slot {self._between()}")
        elif named is None:
            fields.fail(name, _NEVER if self._open is None else "no day that matches is open in the next 60 years")
        else:
            fields.fail(
                name,
                f"every wall time of the rule falls into a gap in {engine.zone.name}: it can never fire",
                "gap: shift or gap: boundary would give it a place",
            )

    def _between(self) -> str:
        parts = [f"from {self._start.text}"] if self._start else []
        return " ".join([*parts, *([f"up to {self._end.text}"] if self._end else [])])

    # searches

    def first_at_or_after(self, instant: int) -> int | None:
        found = self._engine.first(-(-instant // 1000))
        return None if found is None else found * 1000

    def next_after(self, instant: int) -> int | None:
        found = self._engine.first(instant // 1000 + 1)
        return None if found is None else found * 1000

    def last_at_or_before(self, instant: int) -> int | None:
        found = self._engine.last(instant // 1000)
        return None if found is None else found * 1000

    def count(self, first: int, last: int) -> int:
        return self._engine.count(-(-first // 1000), last // 1000)

    def nth_after(self, instant: int, n: int) -> int | None:
        found = self._engine.nth(-(-instant // 1000), n)
        return None if found is None else found * 1000

    # wall times

    @property
    def zone(self) -> str:
        return self._engine.zone.name

    @property
    def calendar(self) -> BusinessCalendar | None:
        """The business calendar that the rule asks, if any."""
        return self._calendar

    def local(self, instant: int) -> str | None:
        wall = self._engine.nominal(instant // 1000)
        return None if wall is None or instant % 1000 else wall_text(wall)

    def first_after_local(self, local: str) -> int | None:
        found = self._engine.after_wall(as_wall(local))
        return None if found is None else found * 1000

    def explain(self, instant: int) -> str | None:
        if self.first_at_or_after(instant) == instant:
            return None
        if self._start is not None and instant < self._start.instant:
            return f"it is before the start, {self._start.text}"
        if self._end is not None and instant > self._end.instant:
            return f"it is after the end, {self._end.text}"
        second, rest = divmod(instant, 1000)
        if rest:
            return "it has a part of a second, and wall times are whole seconds"
        return self._why_gap(second) or self._why_fold(second) or self._why_not(second)

    def _why_gap(self, second: int) -> str | None:
        engine = self._engine
        gap = engine.gap_at(second)
        if gap is None or second + gap[1] not in engine.walls:
            return None
        place = "; gap: skip"
        if engine.gap == "boundary":
            place = f"; gap: boundary puts it at {clock_text(gap[0] + engine.zone.offset_at(gap[0]))}"
        wall = second + gap[1]
        return f"{clock_text(wall)} does not exist on {day_text(wall)} in {engine.zone.name}{place}"

    def _why_fold(self, second: int) -> str | None:
        engine = self._engine
        wall = second + engine.zone.offset_at(second)
        local = engine.zone.local(wall)
        if wall not in engine.walls or not isinstance(local, Fold):
            return None
        which = "first" if second == local.first else "second"
        where = f"on {day_text(wall)} in {engine.zone.name}"
        return f"{clock_text(wall)} happens twice {where}, and this is the {which}; fold: {engine.fold}"

    def _why_not(self, second: int) -> str:
        wall = second + self._engine.zone.offset_at(second)
        day, time = divmod(wall, DAY)
        date_ = date.fromordinal(day + EPOCH_DAY)
        if day not in self._engine.walls.days:
            return self._why_closed(date_) or self._why_not_day(date_) or f"{date_} is not a day of the rule"
        return self._why_not_time(time)

    def _why_closed(self, day: date) -> str | None:
        if day in self._excluded:
            return f"{day} is excluded"
        if self._open is not None and not self._open(day.toordinal()):
            name = f"calendar {self._calendar.name!r}" if self._calendar else "the weekend"
            if self._base(day.year, day.month) >> day.day - 1 & 1:
                return f"{day}, {WEEKDAYS[day.weekday()]}, is closed in {name}; roll: {self._roll or 'skip'}"
        return None

    @abstractmethod
    def _why_not_day(self, day: date) -> str | None:
        """Which condition of the rule the day does not meet."""

    @abstractmethod
    def _why_not_time(self, second: int) -> str:
        """Why a second of the day is none of the rule's times."""

    def marks(self, instant: int) -> tuple[str, ...]:
        second = instant // 1000
        nominal = self._engine.nominal(second)
        if nominal is None or instant % 1000:
            return ()
        return (*self._clock_marks(second, nominal), *self._roll_marks(nominal))

    def _clock_marks(self, second: int, nominal: int) -> Iterator[str]:
        engine = self._engine
        wall = second + engine.zone.offset_at(second)
        if nominal != wall:
            how = "shifted" if engine.gap == "shift" else "moved to the end of the gap"
            yield f"{how} from {clock_text(nominal)}: gap"
        local = engine.zone.local(wall)
        if isinstance(local, Fold):
            yield f"fold: {'first' if second == local.first else 'second'} of two {clock_text(wall)}"

    def _roll_marks(self, nominal: int) -> Iterator[str]:
        if self._open is None or self._roll in (None, "skip"):
            return
        landed = nominal // DAY + EPOCH_DAY
        for origin in day_rule.origins(landed, self._roll, self._open):
            day = date.fromordinal(origin)
            if origin != landed and self._base(day.year, day.month) >> day.day - 1 & 1:
                yield f"rolled from {day}"

    def _common_spec(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        if self._excluded:
            out["exclude"] = [day.isoformat() for day in sorted(self._excluded)]
        if self._calendar is not None:
            out["calendar"] = self._calendar.name
        if self._roll is not None:
            out["roll"] = self._roll
        out["gap"], out["fold"] = self._engine.gap, self._engine.fold
        if self._start is not None:
            out["start"] = self._start.text
        if self._end is not None:
            out["end"] = self._end.text
        return out


WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def clock_text(wall: int) -> str:
    """``02:30``, with seconds only where it has some."""
    hour, rest = divmod(wall % DAY, 3600)
    minute, second = divmod(rest, 60)
    return f"{hour:02d}:{minute:02d}:{second:02d}" if second else f"{hour:02d}:{minute:02d}"


def day_text(wall: int) -> str:
    return date.fromordinal(wall // DAY + EPOCH_DAY).isoformat()


def _days(value: Any) -> frozenset[date]:
    return frozenset(
        as_date(day, f"[{place}]" if isinstance(value, (list, tuple)) else "")
        for place, day in enumerate(as_list(value))
    )


def _bound(value: Any, zone: Zone, *, late: bool) -> Bound:
    """An instant as it is; a wall time as the first instant (``late``: the last) at which the zone's clock shows it."""
    if not is_wall(value):
        instant = as_instant(value)
        return Bound(instant_text(instant), instant)
    wall = as_wall(value, end_of_day=late)
    match zone.local(wall):
        case Fold(first, second):
            return Bound(wall_text(wall), (second if late else first) * 1000)
        case Gap(_, boundary):
            return Bound(wall_text(wall), boundary * 1000 - late)
        case Unambiguous(second):
            return Bound(wall_text(wall), second * 1000)


@lru_cache(maxsize=8)
def era(source: str) -> int:
    """The UTC second at which the year of the zone data begins."""
    year = re.match(r"\d{4}", version(source))
    return (date(int(year[0]) if year else 2025, 1, 1).toordinal() - EPOCH_DAY) * DAY


@lru_cache(maxsize=256)
def times_of_day(hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...]) -> tuple[int, ...]:
    """Every hour with every minute with every second, as ascending seconds of the day. Shared, for they may be many."""
    return tuple(
        sorted(hour * 3600 + minute * 60 + second for hour in hours for minute in minutes for second in seconds)
    )
