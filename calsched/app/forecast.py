"""How many occurrences will start when, over many schedules: by hour, by minute, and the worst minutes by name."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from calsched.clock import to_datetime
from calsched.errors import InvalidInput
from calsched.triggers.base import Trigger

HOUR, MINUTE = 3_600_000, 60_000
MAX_SLOTS = 3_000_000  # looked at one by one; denser rules are counted a minute at a time
MAX_DAYS = 92
_WORST = 10
_NAMED = 5


@dataclass(frozen=True, slots=True)
class WorstMinute:
    start: int
    starts: int
    schedules: tuple[str, ...]  # some of those that start then
    others: int  # how many more there are


@dataclass(frozen=True, slots=True)
class Forecast:
    """``hours``: starts in each hour of the span (an entry an hour, from ``start`` on). Jitter is not regarded."""

    start: int
    end: int
    schedules: int
    total: int
    hours: tuple[int, ...]
    minutes_of_hour: tuple[int, ...]  # 60 entries: starts at minute 0 … 59 of any hour
    worst: tuple[WorstMinute, ...]


def forecast(
    rules: Iterable[tuple[str, Trigger]], start: int, days: int, skipped: Iterable[int] = ()
) -> Forecast:
    """What the rules will start in so many days from the hour of ``start`` on.

    ``skipped``: due instants of these rules that an operator has asked to skip, one for each schedule that skips it.

    Raises InvalidInput where the span is too long, or the rules are too dense for it.
    """
    if not 1 <= days <= MAX_DAYS:
        raise InvalidInput(f"expected 1 to {MAX_DAYS} days, got {days}")
    begin = start - start % HOUR
    end = begin + days * 24 * HOUR
    groups: dict[Trigger, list[str]] = defaultdict(list)
    for name, trigger in rules:
        groups[trigger].append(name)
    by_minute, names = _count(groups, begin, end)
    by_minute.subtract((due - begin) // MINUTE for due in skipped if begin <= due < end)
    by_minute = +by_minute  # minutes without a start are left out
    return Forecast(
        begin,
        end,
        sum(len(members) for members in groups.values()),
        sum(by_minute.values()),
        _hours(by_minute, days),
        _minutes_of_hour(by_minute, begin),
        tuple(_worst(minute, number, groups, names, begin) for minute, number in _top(by_minute)),
    )


def _count(groups: dict[Trigger, list[str]], begin: int, end: int) -> tuple[Counter[int], dict[Trigger, int]]:
    """Starts by minute of the span."""
    by_minute: Counter[int] = Counter()
    density: dict[Trigger, int] = {}
    looked_at = 0
    minutes = (end - begin) // MINUTE
    for trigger, members in groups.items():
        slots = density[trigger] = trigger.count(begin, end - 1)
        looked_at += min(slots, minutes)
        if looked_at > MAX_SLOTS:
            raise InvalidInput("too many due instants to count in that span; ask for fewer --days")
        for minute, number in _minutes(trigger, begin, end, slots > minutes):
            by_minute[minute] += number * len(members)
    return by_minute, density


def _minutes(trigger: Trigger, begin: int, end: int, dense: bool) -> Iterable[tuple[int, int]]:
    if dense:
        for minute, first in enumerate(range(begin, end, MINUTE)):
            yield minute, trigger.count(first, first + MINUTE - 1)
        return
    slot = trigger.first_at_or_after(begin)
    while slot is not None and slot < end:
        yield (slot - begin) // MINUTE, 1
        slot = trigger.next_after(slot)


def _hours(by_minute: Counter[int], days: int) -> tuple[int, ...]:
    hours = [0] * (days * 24)
    for minute, number in by_minute.items():
        hours[minute // 60] += number
    return tuple(hours)


def _minutes_of_hour(by_minute: Counter[int], begin: int) -> tuple[int, ...]:
    minutes = [0] * 60
    offset = to_datetime(begin).minute
    for minute, number in by_minute.items():
        minutes[(offset + minute) % 60] += number
    return tuple(minutes)


def _top(by_minute: Counter[int]) -> list[tuple[int, int]]:
    return sorted(by_minute.items(), key=lambda item: (-item[1], item[0]))[:_WORST]


def _worst(
    minute: int, number: int, groups: dict[Trigger, list[str]], density: dict[Trigger, int], begin: int
) -> WorstMinute:
    first = begin + minute * MINUTE
    there = [
        name
        for trigger, members in groups.items()
        if density[trigger] and trigger.count(first, first + MINUTE - 1)
        for name in members
    ]
    there.sort()
    return WorstMinute(first, number, tuple(there[:_NAMED]), max(len(there) - _NAMED, 0))
