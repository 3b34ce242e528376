"""Sets of days: months as bit masks (bit 0 is the 1st), and days since 1970 in blocks that a search can bisect."""

from __future__ import annotations

from calendar import isleap
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from typing import Final

from calsched.policies import day_rule
from calsched.triggers.base import BusinessCalendar

#: A month's days as bits; asked with year 1 … 9999 and month 1 … 12.
MonthMask = Callable[[int, int], int]

EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
FIRST_DAY: Final = 1 - EPOCH_DAY
LAST_DAY: Final = date.max.toordinal() - EPOCH_DAY

_BITS: Final = 9  # 512 days a block: a year and a half
_SIZE: Final = 1 << _BITS
_FULL: Final = (1 << _SIZE) - 1
_LENGTHS: Final = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
#: Bits of the days 1 … 31 that are the k-th, (k+7)-th … of a month.
_EVERY_SEVENTH: Final = tuple(sum(1 << day for day in range(k, 31, 7)) for k in range(7))


class Days:
    """The days that a month mask names, as days since 1970-01-01. Blocks are computed when first asked for."""

    __slots__ = ("_blocks", "_month_mask", "last")

    def __init__(self, month_mask: MonthMask, last: int = LAST_DAY) -> None:
        """Searches give up after ``last``, in whole blocks."""
        self._month_mask = month_mask
        self.last = min(last, LAST_DAY)
        self._blocks: dict[int, int] = {}

    def __contains__(self, day: int) -> bool:
        block = self._blocks.get(day >> _BITS)
        if block is None:
            block = self._load(day >> _BITS)
        return block >> (day & (_SIZE - 1)) & 1 == 1

    def next(self, day: int) -> int | None:
        """The first of these days at or after ``day``."""
        index = day >> _BITS
        block = self._blocks.get(index)
        if block is None:
            block = self._load(index)
        block >>= day & (_SIZE - 1)
        if block & 1:
            return day
        while not block:
            index += 1
            day = index << _BITS
            if day > self.last:
                return None
            loaded = self._blocks.get(index)
            block = self._load(index) if loaded is None else loaded
        return day + (block & -block).bit_length() - 1

    def previous(self, day: int) -> int | None:
        """The last of these days at or before ``day``."""
        index = day >> _BITS
        block = self._block(index) & ((2 << (day & (_SIZE - 1))) - 1)
        while not block:
            index -= 1
            if ((index + 1) << _BITS) <= FIRST_DAY:
                return None
            block = self._block(index)
        return (index << _BITS) + block.bit_length() - 1

    def count(self, start: int, stop: int) -> int:
        """How many of these days lie in ``start`` … ``stop``, the latter not included."""
        if stop <= start:
            return 0
        first, last = start >> _BITS, stop >> _BITS
        below_stop = (1 << (stop & (_SIZE - 1))) - 1
        if first == last:
            return ((self._block(first) & below_stop) >> (start & (_SIZE - 1))).bit_count()
        total = (self._block(first) >> (start & (_SIZE - 1))).bit_count()
        for index in range(first + 1, last):
            total += self._block(index).bit_count()
        return total + ((self._block(last) & below_stop).bit_count() if below_stop else 0)

    def nth(self, day: int, n: int) -> int | None:
        """The day with ``n`` of these days before it at or after ``day``."""
        index = day >> _BITS
        block = self._block(index) >> (day & (_SIZE - 1)) << (day & (_SIZE - 1))
        while (here := block.bit_count()) <= n:
            n -= here
            index += 1
            if index << _BITS > self.last:
                return None
            block = self._block(index)
        for _ in range(n):
            block &= block - 1
        return (index << _BITS) + (block & -block).bit_length() - 1

    def _block(self, index: int) -> int:
        block = self._blocks.get(index)
        return self._load(index) if block is None else block

    def _load(self, index: int) -> int:
        start = index << _BITS
        if start > LAST_DAY or start + _SIZE <= FIRST_DAY:
            return 0
        first = date.fromordinal(max(start, FIRST_DAY) + EPOCH_DAY)
        year, month, at, block = first.year, first.month, max(start, FIRST_DAY) - first.day + 1 - start, 0
        while at < _SIZE and year <= 9999:
            mask = self._month_mask(year, month)
            block |= mask << at if at >= 0 else mask >> -at
            at += month_length(year, month)
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        self._blocks[index] = block = block & _FULL
        return block


def month_length(year: int, month: int) -> int:
    return 29 if month == 2 and isleap(year) else _LENGTHS[month]


def whole_month(year: int, month: int) -> int:
    return (1 << month_length(year, month)) - 1


def first_weekday(year: int, month: int) -> int:
    """Monday = 0."""
    return (date(year, month, 1).toordinal() - 1) % 7


def weekday_mask(year: int, month: int, weekdays: Iterable[int]) -> int:
    """The days that are one of ``weekdays``, over 31 days: to be cut to the month's length."""
    first, mask = first_weekday(year, month), 0
    for weekday in weekdays:
        mask |= _EVERY_SEVENTH[(weekday - first) % 7]
    return mask


def nth_weekday_mask(year: int, month: int, n: int, weekday: int) -> int:
    """The ``n``-th such weekday of the month, from its end when negative; 0 where the month has none."""
    days = _EVERY_SEVENTH[(weekday - first_weekday(year, month)) % 7] & whole_month(year, month)
    if n > 0:
        for _ in range(n - 1):
            days &= days - 1
        return days & -days
    for _ in range(-1 - n):
        days ^= top(days)
    return top(days)


def top(mask: int) -> int:
    """The highest bit alone."""
    return 1 << mask.bit_length() - 1 if mask else 0


def nearest_weekday_mask(year: int, month: int, day: int) -> int:
    """The Monday to Friday nearest to the ``day``-th, within the month; 0 where the month has no such day."""
    length = month_length(year, month)
    if day > length:
        return 0
    weekday = (first_weekday(year, month) + day - 1) % 7
    if weekday == 5:
        day += -1 if day > 1 else 2
    elif weekday == 6:
        day += 1 if day < length else -2
    return 1 << day - 1


def days_of_month_mask(year: int, month: int, days: Iterable[int], *, clip: bool = False) -> int:
    """The days of those numbers, negative ones from the end; with ``clip`` those past the end are the last day."""
    length, mask = month_length(year, month), 0
    for day in days:
        if clip:
            day = max(-length, min(length, day))
        if 0 < day <= length:
            mask |= 1 << day - 1
        elif -length <= day < 0:
            mask |= 1 << length + day
    return mask


class WeekendsClosed:
    """The business calendar where none is named: Monday to Friday are open."""

    name = "weekends"
    version = 1

    def is_open(self, day: date) -> bool:
        return day.weekday() < 5


class OpenDays:
    """A business calendar's open days by ordinal, each asked once."""

    __slots__ = ("_calendar", "_known")

    def __init__(self, calendar: BusinessCalendar) -> None:
        self._calendar = calendar
        self._known: dict[int, bool] = {}

    def __call__(self, ordinal: int) -> bool:
        known = self._known.get(ordinal)
        if known is None:
            known = self._known[ordinal] = self._calendar.is_open(date.fromordinal(ordinal))
        return known


def without(base: MonthMask, excluded: frozenset[date]) -> MonthMask:
    """``base`` less the excluded days."""
    by_month: dict[tuple[int, int], int] = {}
    for day in excluded:
        by_month[day.year, day.month] = by_month.get((day.year, day.month), 0) | 1 << day.day - 1

    def mask(year: int, month: int) -> int:
        return base(year, month) & ~by_month.get((year, month), 0)

    return mask if by_month else base


def rolled(base: MonthMask, roll: day_rule.Roll, is_open: day_rule.IsOpen) -> MonthMask:
    """Where the days of ``base`` take place: the open ones, and with a roll those that closed ones land on."""

    def mask(year: int, month: int) -> int:
        first, length, out = date(year, month, 1).toordinal(), month_length(year, month), 0
        own = base(year, month)
        for nominal in (*_ordinals(own, first), *_from_outside(base, roll, is_open, first, length)):
            landed = day_rule.land(nominal, roll, is_open)
            if landed is not None and first <= landed < first + length:
                out |= 1 << landed - first
        return out

    return mask


def _ordinals(mask: int, first: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield first + low.bit_length() - 1
        mask ^= low


def _from_outside(
    base: MonthMask, roll: day_rule.Roll, is_open: day_rule.IsOpen, first: int, length: int
) -> Iterator[int]:
    """The days of ``base`` in the closed runs that adjoin a month: only those can land in it from outside."""
    if roll == "skip":
        return
    for start, step in ((first - 1, -1), (first + length, 1)):
        for distance in range(day_rule.REACH):
            ordinal = start + step * distance
            if not 1 <= ordinal <= date.max.toordinal() or is_open(ordinal):
                break
            day = date.fromordinal(ordinal)
            if base(day.year, day.month) >> day.day - 1 & 1:
                yield ordinal


def business_days_mask(year: int, month: int, numbers: Iterable[int], is_open: day_rule.IsOpen) -> int:
    first = date(year, month, 1).toordinal()
    return sum(1 << day - first for day in day_rule.business_days(year, month, numbers, is_open))
