"""The periods of a rule that have wall times: years to days (`DatePeriods`), hours to seconds (`TimePeriods`)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import gcd
from typing import Protocol

from calsched.recurrence.days import LAST_DAY, DaySelection, month_starts, new_year, year_of
from calsched.recurrence.parts import Rule

DAY = 86_400
#: A search passes over this many barren days: more than there are in the Gregorian cycle of 400 years.
MOST_STEPS = 150_000
#: Periods in that cycle. An interval walks through all the ways in which it can fall in `cycle / gcd` of its steps.
_CYCLES = {"YEARLY": 400, "MONTHLY": 4_800, "WEEKLY": 20_871, "DAILY": 146_097}
UNITS = {"HOURLY": 3_600, "MINUTELY": 60, "SECONDLY": 1}
_KEPT_PATTERNS = 100
_LONGEST_TURN = 2_000
LAST_WALL = LAST_DAY * DAY + DAY - 1


@dataclass(frozen=True, slots=True)
class Chunk:
    """The wall times of one period, ascending: every outer value with every inner one.

    ``first`` and ``last`` are the ordinals of the period's days.
    """

    first: int
    last: int
    base: int
    scale: int
    outer: Sequence[int]
    inner: Sequence[int]

    def __len__(self) -> int:
        return len(self.outer) * len(self.inner)

    def __getitem__(self, index: int) -> int:
        position, rest = divmod(index, len(self.inner))
        return self.base + self.outer[position] * self.scale + self.inner[rest]

    def below(self, wall: int) -> int:
        """How many of its wall times are before ``wall``."""
        position, rest = divmod(wall - self.base, self.scale)
        index = bisect_left(self.outer, position)
        inside = index < len(self.outer) and self.outer[index] == position
        return index * len(self.inner) + (bisect_left(self.inner, rest) if inside else 0)


class Periods(Protocol):
    """The periods of a rule that have wall times, each as one `Chunk`."""

    def ascending(self, wall: int, last: int = LAST_WALL) -> Iterator[Chunk]:
        """From the period of ``wall`` on, at least those up to ``last``; ends where the steps are used up."""

    def descending(self, wall: int) -> Iterator[Chunk]: ...

    def count(self, first: int, last: int) -> int: ...


class _Kind(Protocol):
    """How days are grouped into periods of a frequency."""

    def number(self, day: int) -> int: ...

    def span(self, number: int) -> tuple[int, int]:
        """The first and the last day of a period."""


class _Year:
    def __init__(self, rule: Rule) -> None: ...

    def number(self, day: int) -> int:
        return year_of(day)

    def span(self, number: int) -> tuple[int, int]:
        return new_year(number), new_year(number + 1) - 1


class _Month:
    def __init__(self, rule: Rule) -> None: ...

    def number(self, day: int) -> int:
        year = year_of(day)
        return year * 12 + bisect_right(month_starts(year), day - new_year(year)) - 1

    def span(self, number: int) -> tuple[int, int]:
        year, month = divmod(number, 12)
        start, starts = new_year(year), month_starts(year)
        return start + starts[month], start + starts[month + 1] - 1


class _Week:
    def __init__(self, rule: Rule) -> None:
        self._first = 1 + rule.wkst

    def number(self, day: int) -> int:
        return (day - self._first) // 7

    def span(self, number: int) -> tuple[int, int]:
        return number * 7 + self._first, number * 7 + self._first + 6


class _Day:
    def __init__(self, rule: Rule) -> None: ...

    def number(self, day: int) -> int:
        return day

    def span(self, number: int) -> tuple[int, int]:
        return number, number


DATE_KINDS: dict[str, type[_Year] | type[_Month] | type[_Week] | type[_Day]] = {
    "YEARLY": _Year,
    "MONTHLY": _Month,
    "WEEKLY": _Week,
    "DAILY": _Day,
}


class DatePeriods:
    """YEARLY to DAILY: the selected days of each n-th period at the same times of day."""

    def __init__(self, rule: Rule, start: int, kind: _Kind) -> None:
        self._selection = DaySelection(rule)
        self._kind, self._interval, self._positions = kind, rule.interval, rule.by_set_pos
        self._anchor, self._last_number = kind.number(start // DAY), kind.number(LAST_DAY)
        self._constant = self._selection.total or (rule.freq == "WEEKLY" and not rule.by_month)
        self._times = [
            hour * 3_600 + minute * 60 + second
            for hour in rule.by_hour
            for minute in rule.by_minute
            for second in rule.by_second
        ]
        if rule.freq == "DAILY" and rule.by_set_pos:
            self._times, self._positions = _pick(self._times, rule.by_set_pos), ()
        cycle = 1 if self._constant else _CYCLES[rule.freq]
        self._most_steps = 2 * cycle // gcd(cycle, self._interval) + 2 if self._times else 0

    def ascending(self, wall: int, last: int = LAST_WALL) -> Iterator[Chunk]:
        candidate = max(wall // DAY, 1)
        barren = 0
        while barren < self._most_steps and (day := self._selection.at_or_after(candidate, last // DAY)) is not None:
            number = self._kind.number(day)
            behind = (self._anchor - number) % self._interval
            chunk = None if behind else self._chunk(number)
            if chunk:
                yield chunk
            barren = 0 if chunk else barren + 1
            number += behind or self._interval
            if number > self._last_number:
                return
            candidate = self._kind.span(number)[0]

    def descending(self, wall: int) -> Iterator[Chunk]:
        candidate = wall // DAY
        barren = 0
        while barren < self._most_steps and (day := self._selection.at_or_before(candidate)) is not None:
            number = self._kind.number(day)
            ahead = (number - self._anchor) % self._interval
            chunk = None if ahead else self._chunk(number)
            if chunk:
                yield chunk
            barren = 0 if chunk else barren + 1
            number -= ahead or self._interval
            if number < 0:
                return
            candidate = self._kind.span(number)[1]

    def count(self, first: int, last: int) -> int:
        if self._interval == 1 and not self._positions:
            inside = self._selection.count(first // DAY, last // DAY) * len(self._times)
            return (
                inside
                - self._outside(first // DAY, first % DAY, before=True)
                - self._outside(last // DAY, last % DAY, before=False)
            )
        if self._constant:
            return self._below(last + 1) - self._below(first)
        return _count(self.ascending(first, last), first, last)

    def _below(self, wall: int) -> int:
        """How many wall times lie between the anchor's period and ``wall``, when each period has as many."""
        number = self._kind.number(wall // DAY)
        steps, off = divmod(number - self._anchor, self._interval)
        size = len(self._chunk(self._anchor))
        return (steps + 1) * size if off else steps * size + self._chunk(number).below(wall)

    def _outside(self, day: int, second: int, *, before: bool) -> int:
        """How many times of a day lie before ``second``, or after it."""
        if day not in self._selection:
            return 0
        return bisect_left(self._times, second) if before else len(self._times) - bisect_right(self._times, second)

    def _chunk(self, number: int) -> Chunk:
        first, last = self._kind.span(number)
        days = self._selection.between(first, last) if last > first else [first]
        if not self._positions:
            return Chunk(first, last, 0, DAY, days, self._times)
        whole = Chunk(first, last, 0, DAY, days, self._times)
        return Chunk(first, last, 0, 1, _pick(whole, self._positions), (0,))


class TimePeriods:
    """HOURLY, MINUTELY, SECONDLY: each n-th unit on the selected days, filtered, with the same offsets inside."""

    def __init__(self, rule: Rule, start: int) -> None:
        self._rule, self._selection = rule, DaySelection(rule)
        self._unit, self._interval = UNITS[rule.freq], rule.interval
        self._per_day, self._anchor = DAY // self._unit, start // self._unit
        minutes = rule.by_minute if rule.freq == "HOURLY" else (0,)
        seconds = rule.by_second if rule.freq != "SECONDLY" else (0,)
        inner = [minute * 60 + second for minute in minutes for second in seconds]
        self._inner = _pick(inner, rule.by_set_pos) if rule.by_set_pos else inner
        self._filter = _unit_filter(rule)
        self._allowed = frozenset(self._filter or ())
        self._patterns: dict[int, Sequence[int]] = {}
        #: After so many days the interval meets the beginning of a day as it did before.
        self._turn = self._interval // gcd(self._interval, self._per_day)
        cycle, step = _CYCLES["DAILY"] * self._per_day, gcd(self._interval, self._per_day)
        self._most_steps = min(MOST_STEPS, 2 * cycle // gcd(cycle, self._interval) + 2)
        meets = self._filter is None or any((unit - self._anchor) % step == 0 for unit in self._filter)
        if not (self._inner and meets):
            self._most_steps = 0

    def ascending(self, wall: int, last: int = LAST_WALL) -> Iterator[Chunk]:
        candidate = max(wall // DAY, 1)
        barren = 0
        while barren < self._most_steps and (day := self._selection.at_or_after(candidate, last // DAY)) is not None:
            phase = self._phase(day)
            units = self._pattern(phase)
            if units:
                yield Chunk(day, day, day * DAY, self._unit, units, self._inner)
            barren = 0 if units else barren + 1
            candidate = day + max(1, phase // self._per_day)

    def descending(self, wall: int) -> Iterator[Chunk]:
        candidate = wall // DAY
        barren = 0
        while barren < self._most_steps and (day := self._selection.at_or_before(candidate)) is not None:
            phase = self._phase(day)
            units = self._pattern(phase)
            if units:
                yield Chunk(day, day, day * DAY, self._unit, units, self._inner)
            barren = 0 if units else barren + 1
            candidate = day + (phase - self._interval) // self._per_day

    def _phase(self, day: int) -> int:
        """How many units after the beginning of a day the first aligned one comes, on that day or later."""
        return (self._anchor - day * self._per_day) % self._interval

    def count(self, first: int, last: int) -> int:
        if self._selection.total and self._filter is None:
            return self._unfiltered_below(last + 1) - self._unfiltered_below(first)
        if self._per_day % self._interval == 0:
            return self._same_each_day(first, last)
        if self._selection.total and self._turn <= _LONGEST_TURN:
            return self._turning_below(last + 1) - self._turning_below(first)
        return _count(self.ascending(first, last), first, last)

    @cached_property
    def _turn_sums(self) -> list[int]:
        """How many wall times there are in the first days of a turn: in none, in one, …, in all."""
        return [0, *accumulate(len(self._pattern(self._phase(day))) * len(self._inner) for day in range(self._turn))]

    def _turning_below(self, wall: int) -> int:
        """How many wall times lie before ``wall``, counted from day 0, when days differ only by where they begin."""
        day, second = divmod(wall, DAY)
        turns, days = divmod(day, self._turn)
        chunk = Chunk(0, 0, 0, self._unit, self._pattern(self._phase(day)), self._inner)
        return turns * self._turn_sums[-1] + self._turn_sums[days] + chunk.below(second)

    def _unfiltered_below(self, wall: int) -> int:
        """How many wall times lie between the anchor and ``wall``, when nothing but the interval chooses."""
        unit, rest = divmod(wall, self._unit)
        steps, off = divmod(unit - self._anchor, self._interval)
        return (steps + bool(off)) * len(self._inner) + (0 if off else bisect_left(self._inner, rest))

    def _same_each_day(self, first: int, last: int) -> int:
        chunk = Chunk(0, 0, 0, self._unit, self._pattern(self._phase(first // DAY)), self._inner)
        days = self._selection.count(first // DAY, last // DAY)
        starts, ends = first // DAY in self._selection, last // DAY in self._selection
        before = chunk.below(first % DAY) if starts else 0
        after = len(chunk) - chunk.below(last % DAY + 1) if ends else 0
        return days * len(chunk) - before - after

    def _pattern(self, phase: int) -> Sequence[int]:
        """The units of a day whose first aligned unit is ``phase``; none when that lies on a later day."""
        aligned = range(phase, self._per_day, self._interval)
        if self._filter is None:
            return aligned
        pattern = self._patterns.get(phase)
        if pattern is None:
            if len(self._patterns) >= _KEPT_PATTERNS:
                self._patterns.clear()
            if len(aligned) < len(self._filter):
                pattern = [unit for unit in aligned if unit in self._allowed]
            else:
                pattern = [unit for unit in self._filter if unit in aligned]
            self._patterns[phase] = pattern
        return pattern


def _unit_filter(rule: Rule) -> list[int] | None:
    """The units of a day that BYHOUR, BYMINUTE and BYSECOND let through, ascending; None when that is all of them."""
    finer = {"HOURLY": 0, "MINUTELY": 1, "SECONDLY": 2}[rule.freq]
    parts = (rule.by_hour, rule.by_minute, rule.by_second)[: finer + 1]
    if not any(parts):
        return None
    ranges = [part or range(size) for part, size in zip(parts, (24, 60, 60), strict=False)]
    units: list[int] = [0]
    for values in ranges:
        units = [unit * 60 + value for unit in units for value in values]
    return units


def _count(chunks: Iterator[Chunk], first: int, last: int) -> int:
    total = 0
    for chunk in chunks:
        inside = chunk.below(last + 1)
        total += inside - chunk.below(first)
        if inside < len(chunk) or chunk.last >= last // DAY:
            break
    return total


def _pick(values: Sequence[int] | Chunk, positions: Sequence[int]) -> list[int]:
    """BYSETPOS: the n-th values, from the end when negative, ascending, each once."""
    size = len(values)
    indexes = {position - 1 if position > 0 else size + position for position in positions}
    return [values[index] for index in sorted(indexes) if 0 <= index < size]
