"""Which days of a year a rule's BY parts select.

What a year looks like depends only on its length, the weekday on which it begins and the lengths of its neighbours (for
week numbers). So the selection is made once for each of those few shapes, and a search over centuries is a search over
small tables.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import isleap
from collections.abc import Callable
from datetime import date

from calsched.recurrence.parts import Rule

LAST_DAY = date.max.toordinal()
#: The Gregorian calendar repeats after this many years; what does not occur within them never does.
CYCLE_YEARS = 400
_MONTH_STARTS = (
    (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365),
    (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335, 366),
)
_Shape = tuple[bool, bool, bool, int]


def new_year(year: int) -> int:
    """The ordinal of the first of January, also of the year after the last."""
    before = year - 1
    return 365 * before + before // 4 - before // 100 + before // 400 + 1


def year_of(day: int) -> int:
    return date.fromordinal(day).year


def month_starts(year: int) -> tuple[int, ...]:
    """Days of the year (from 0) on which its months begin, and its length."""
    return _MONTH_STARTS[isleap(year)]


class DaySelection:
    """The days that a rule's BY parts (and what DTSTART fills in) select, whatever its interval."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._tables: dict[_Shape, tuple[int, ...]] = {}
        self.total = not (rule.by_month or rule.by_week_no or rule.by_year_day or rule.by_month_day or rule.by_day)

    def of_year(self, year: int) -> tuple[int, ...]:
        """Selected days of a year, counted from 0 for the first of January, ascending."""
        shape = (isleap(year - 1), isleap(year), isleap(year + 1), new_year(year) % 7)
        table = self._tables.get(shape)
        if table is None:
            table = self._tables[shape] = _select(self._rule, year)
        return table

    def __contains__(self, day: int) -> bool:
        if self.total or not 1 <= day <= LAST_DAY:
            return self.total
        year = year_of(day)
        table, number = self.of_year(year), day - new_year(year)
        index = bisect_left(table, number)
        return index < len(table) and table[index] == number

    def at_or_after(self, day: int, limit: int = LAST_DAY) -> int | None:
        """The first selected day from ``day`` on, as an ordinal; None when there is none up to ``limit``'s year."""
        if day > limit:
            return None
        day = max(day, 1)
        if self.total:
            return day
        first = year_of(day)
        for year in range(first, min(first + CYCLE_YEARS, year_of(min(limit, LAST_DAY))) + 1):
            start, table = new_year(year), self.of_year(year)
            index = bisect_left(table, day - start) if year == first else 0
            if index < len(table):
                return start + table[index]
        return None

    def at_or_before(self, day: int) -> int | None:
        """The last selected day up to ``day``, as an ordinal; None when there is none since the year 1."""
        if day < 1:
            return None
        day = min(day, LAST_DAY)
        if self.total:
            return day
        last = year_of(day)
        for year in range(last, max(last - CYCLE_YEARS, 1) - 1, -1):
            start, table = new_year(year), self.of_year(year)
            index = bisect_right(table, day - start) if year == last else len(table)
            if index:
                return start + table[index - 1]
        return None

    def between(self, first: int, last: int) -> list[int]:
        """Selected days from ``first`` to ``last``, both included. Meant for spans of at most some years."""
        days: list[int] = []
        for year in range(year_of(max(first, 1)), year_of(min(last, LAST_DAY)) + 1):
            start, table = new_year(year), self.of_year(year)
            inside = table[bisect_left(table, first - start) : bisect_right(table, last - start)]
            days += [start + day for day in inside]
        return days

    def count(self, first: int, last: int) -> int:
        """How many days are selected from ``first`` to ``last``, both included."""
        first, last = max(first, 1), min(last, LAST_DAY)
        if first > last:
            return 0
        if self.total:
            return last - first + 1
        years = range(year_of(first), year_of(last) + 1)
        whole = sum(len(self.of_year(year)) for year in years)
        before = bisect_left(self.of_year(years[0]), first - new_year(years[0]))
        after = self.of_year(years[-1])
        return whole - before - (len(after) - bisect_right(after, last - new_year(years[-1])))


def _select(rule: Rule, year: int) -> tuple[int, ...]:
    days = _of_months(rule, year)
    for made in (_week_numbers, _year_days, _weekdays):
        test = made(rule, year)
        if test is not None:
            days = [day for day in days if test(day)]
    return tuple(days)


def _of_months(rule: Rule, year: int) -> list[int]:
    """The days of the selected months or, with BYMONTHDAY, those of their days that it names."""
    starts = month_starts(year)
    days: list[int] = []
    for month in rule.by_month or range(1, 13):
        start, end = starts[month - 1], starts[month]
        if rule.by_month_day:
            named = {start + number - 1 if number > 0 else end + number for number in rule.by_month_day}
            days += sorted(day for day in named if start <= day < end)
        else:
            days += range(start, end)
    return days


_Test = Callable[[int], bool] | None


def _year_days(rule: Rule, year: int) -> _Test:
    if not rule.by_year_day:
        return None
    length = 365 + isleap(year)
    return lambda day: day + 1 in rule.by_year_day or day - length in rule.by_year_day


def _week_numbers(rule: Rule, year: int) -> _Test:
    """Week 1 is the first with four or more days in its year; days around New Year belong to the week's own year."""
    if not rule.by_week_no:
        return None
    firsts = [_first_week(other, rule.wkst) - new_year(year) for other in (year - 1, year, year + 1, year + 2)]

    def test(day: int) -> bool:
        own = bisect_right(firsts, day) - 1
        number, weeks = (day - firsts[own]) // 7 + 1, (firsts[own + 1] - firsts[own]) // 7
        return number in rule.by_week_no or number - weeks - 1 in rule.by_week_no

    return test


def _first_week(year: int, wkst: int) -> int:
    """The ordinal of the day on which the first week of a year begins."""
    start = new_year(year)
    into_week = (start - 1 - wkst) % 7
    return start - into_week if into_week <= 3 else start - into_week + 7


def _weekdays(rule: Rule, year: int) -> _Test:
    """Plain weekdays, and numbered ones within the month or, for yearly rules without BYMONTH, within the year."""
    if not rule.by_day:
        return None
    start, starts = new_year(year), month_starts(year)
    if not any(number for number, _ in rule.by_day):
        wanted = frozenset(weekday for _, weekday in rule.by_day)
        return lambda day: (start + day - 1) % 7 in wanted
    by_month = rule.freq == "MONTHLY" or bool(rule.by_month)

    def test(day: int) -> bool:
        weekday = (start + day - 1) % 7
        month = bisect_right(starts, day)
        first, end = (starts[month - 1], starts[month]) if by_month else (0, starts[12])
        numbers = (0, (day - first) // 7 + 1, -((end - 1 - day) // 7 + 1))
        return any(named == weekday and number in numbers for number, named in rule.by_day)

    return test
