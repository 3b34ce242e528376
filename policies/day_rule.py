"""A nominal day that falls on a closed day: drop it, or roll it to an open one. And the n-th business day of a month.

Days are proleptic Gregorian ordinals (``date.toordinal()``: 1 is 0001-01-01). ``is_open`` answers for one of them. The
roll conventions are those of the trade: ISDA 2006 Definitions, section 4.12 (following, modified following, preceding).

No search goes further than ``REACH`` days from where it began: a calendar that is closed for longer than that has no
open day as far as these functions are concerned, and the answer is None.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from typing import Literal, get_args

Roll = Literal["skip", "following", "preceding", "modifiedFollowing"]
IsOpen = Callable[[int], bool]

ROLLS: tuple[str, ...] = get_args(Roll)
#: How many days away an open day may be: one leap year.
REACH = 366
_FIRST_DAY, _LAST_DAY = date.min.toordinal(), date.max.toordinal()


def land(day: int, roll: Roll, is_open: IsOpen) -> int | None:
    """The day on which a nominal ``day`` takes place; None when it is dropped or no open day is within reach.

    ``modifiedFollowing`` is the next open day unless that lies in another month than ``day``; then the last one before.
    """
    if is_open(day):
        return day
    if roll == "skip":
        return None
    if roll == "preceding":
        return open_at_or_before(day, is_open)
    later = open_at_or_after(day, is_open)
    if roll == "following" or (later is not None and same_month(day, later)):
        return later
    return open_at_or_before(day, is_open)


def origins(day: int, roll: Roll, is_open: IsOpen) -> tuple[int, ...]:
    """Every nominal day that lands on ``day``, ascending: the inverse of ``land``, so that searches can ask day by day.

    Only closed days that adjoin ``day`` can land there, so the work is the length of those closed runs.
    """
    if not is_open(day):
        return ()
    if roll == "skip":
        return (day,)
    before = _closed_run(day, -1, is_open) if roll != "preceding" else ()
    after = _closed_run(day, 1, is_open) if roll != "following" else ()
    if roll == "modifiedFollowing":
        before = tuple(origin for origin in before if same_month(origin, day))
        after = tuple(origin for origin in after if land(origin, roll, is_open) == day)
    return (*reversed(before), day, *after)


def open_at_or_after(day: int, is_open: IsOpen) -> int | None:
    """The first open day from ``day`` on; None when there is none within reach."""
    return next((other for other in range(day, min(day + REACH, _LAST_DAY) + 1) if is_open(other)), None)


def open_at_or_before(day: int, is_open: IsOpen) -> int | None:
    """The last open day up to ``day``; None when there is none within reach."""
    return next((other for other in range(day, max(day - REACH, _FIRST_DAY) - 1, -1) if is_open(other)), None)


def business_day(year: int, month: int, number: int, is_open: IsOpen) -> int | None:
    """The ``number``-th open day of a month, from its end when negative; None when the month has fewer."""
    if number == 0:
        raise ValueError("business days count from 1, or from -1 backwards; 0 is neither")
    first = date(year, month, 1).toordinal()
    length = monthrange(year, month)[1]
    days: Iterable[int] = range(first, first + length) if number > 0 else range(first + length - 1, first - 1, -1)
    return _nth((day for day in days if is_open(day)), abs(number))


def business_days(year: int, month: int, numbers: Iterable[int], is_open: IsOpen) -> tuple[int, ...]:
    """The open days of a month that ``numbers`` name (1 the first, -1 the last), ascending, each once."""
    found = (business_day(year, month, number, is_open) for number in numbers)
    return tuple(sorted({day for day in found if day is not None}))


def is_business_day(day: int, numbers: Iterable[int], is_open: IsOpen) -> bool:
    """Whether ``day`` is one of the ``numbers``-th open days of its month."""
    moment = date.fromordinal(day)
    return is_open(day) and any(business_day(moment.year, moment.month, number, is_open) == day for number in numbers)


def same_month(one: int, other: int) -> bool:
    first, second = date.fromordinal(one), date.fromordinal(other)
    return (first.year, first.month) == (second.year, second.month)


def _closed_run(day: int, step: Literal[1, -1], is_open: IsOpen) -> tuple[int, ...]:
    """The closed days that adjoin ``day`` on one side, nearest first, at most ``REACH`` of them."""
    return tuple(_while_closed(day, step, is_open))


def _while_closed(day: int, step: int, is_open: IsOpen) -> Iterator[int]:
    for distance in range(1, REACH + 1):
        other = day + step * distance
        if not _FIRST_DAY <= other <= _LAST_DAY or is_open(other):
            return
        yield other


def _nth(days: Iterator[int], number: int) -> int | None:
    for position, day in enumerate(days, start=1):
        if position == number:
            return day
    return None
