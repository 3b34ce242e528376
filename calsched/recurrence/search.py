"""First, last and how many: searches over the wall times of a rule, in a bounded number of steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Protocol

from calsched.recurrence.parts import FREQUENCIES, Rule
from calsched.recurrence.periods import DATE_KINDS, DAY, LAST_WALL, UNITS, DatePeriods, Periods, TimePeriods


def to_wall(moment: datetime) -> int:
    """A naive datetime as seconds of wall time; parts of a second are dropped."""
    return moment.toordinal() * DAY + moment.hour * 3_600 + moment.minute * 60 + moment.second


def from_wall(wall: int) -> datetime:
    day, second = divmod(wall, DAY)
    return datetime.fromordinal(day) + timedelta(seconds=second)


class WallSet(Protocol):
    """A set of wall times that can be searched."""

    def first_at_or_after(self, wall: int) -> int | None: ...

    def last_at_or_before(self, wall: int) -> int | None: ...

    def count(self, first: int, last: int) -> int:
        """How many lie from ``first`` to ``last``, both included."""


class Recurrence:
    """The wall times of a rule from ``start`` on, which itself counts only where it matches the rule."""

    def __init__(self, rule: Rule, start: datetime, end: int | None = None) -> None:
        """``end`` is the last wall time allowed, besides the rule's own UNTIL where that is local."""
        self.start = to_wall(start)
        self._count = rule.count
        until = to_wall(rule.until) if rule.until and not rule.until_utc else LAST_WALL
        self._until = min(until, LAST_WALL if end is None else end)
        filled = _filled(rule, start)
        self._periods: Periods = (
            TimePeriods(filled, self.start)
            if rule.freq in UNITS
            else DatePeriods(filled, self.start, DATE_KINDS[rule.freq](filled))
        )

    @cached_property
    def end(self) -> int:
        """No wall time of the rule is later: its UNTIL, or the last one that COUNT allows."""
        if self._count is None:
            return self._until
        left = self._count
        for chunk in self._periods.ascending(self.start):
            skipped = chunk.below(self.start)
            if len(chunk) - skipped >= left:
                return min(self._until, chunk[skipped + left - 1])
            left -= len(chunk) - skipped
            if chunk.last * DAY > self._until:
                break
        return self._until

    def first_at_or_after(self, wall: int) -> int | None:
        wall = max(wall, self.start)
        if wall > self._until:
            return None
        found = next(self._values_from(wall), None)
        return found if found is not None and found <= self.end else None

    def last_at_or_before(self, wall: int) -> int | None:
        wall = min(wall, self.end)
        if wall < self.start:
            return None
        for chunk in self._periods.descending(wall):
            index = chunk.below(wall + 1)
            if index:
                return chunk[index - 1] if chunk[index - 1] >= self.start else None
        return None

    def count(self, first: int, last: int) -> int:
        first, last = max(first, self.start), min(last, self.end)
        return self._periods.count(first, last) if first <= last else 0

    def _values_from(self, wall: int) -> Iterator[int]:
        for chunk in self._periods.ascending(wall):
            for index in range(chunk.below(wall), len(chunk)):
                yield chunk[index]


def _filled(rule: Rule, start: datetime) -> Rule:
    """The rule with what DTSTART says where its parts do not (RFC 5545, 3.3.10: information not in the rule)."""
    level = FREQUENCIES.index(rule.freq)
    dated = rule.by_week_no or rule.by_year_day or rule.by_month_day or rule.by_day
    if not dated and level == 0:
        rule = replace(rule, by_month=rule.by_month or (start.month,), by_month_day=(start.day,))
    elif not dated and level == 1:
        rule = replace(rule, by_month_day=(start.day,))
    elif not dated and level == 2:
        rule = replace(rule, by_day=((0, start.weekday()),))
    return replace(
        rule,
        by_hour=rule.by_hour or ((start.hour,) if level < 4 else ()),
        by_minute=rule.by_minute or ((start.minute,) if level < 5 else ()),
        by_second=rule.by_second or ((start.second,) if level < 6 else ()),
    )
