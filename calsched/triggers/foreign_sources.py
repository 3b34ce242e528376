"""How slots are found for APScheduler's own triggers: by asking their classes a bounded number of times."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import datetime
from typing import Final, Protocol

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.cron import CronTrigger

from calsched.clock import LAST_INSTANT, to_datetime, to_millis
from calsched.triggers.base import Trigger

#: How often APScheduler's class is asked for one answer of ours.
_PATIENCE: Final = 20_000
_EARLIEST: Final = 0  # APScheduler's cron knows no year before 1970
_STEP: Final = 3_600_000


class Source(Protocol):
    """What this module needs of what it wraps."""

    def first_at_or_after(self, instant: int) -> int | None: ...
    def last_at_or_before(self, instant: int) -> int | None: ...
    def count(self, first: int, last: int) -> int: ...
    def nth_after(self, instant: int, n: int) -> int | None: ...


def _answer(native: BaseTrigger, previous: datetime | None, now: datetime) -> int | None:
    """APScheduler's answer as an instant; None also where it would be past the year 9999."""
    try:
        found = native.get_next_fire_time(previous, now)
    except OverflowError:
        return None
    if found is None:
        return None
    aware: datetime = found
    return to_millis(aware) + (aware.microsecond % 1000 > 0)


class Asked:
    """APScheduler's cron, asked for the first time at or after an instant."""

    def __init__(self, native: CronTrigger, start: int | None) -> None:
        self._native, self._start = native, _EARLIEST if start is None else max(start, _EARLIEST)

    def first_at_or_after(self, instant: int) -> int | None:
        asked = max(instant, self._start)
        for _ in range(3):  # where the clock changes it can answer a time before the one asked for
            found = _answer(self._native, None, to_datetime(asked)) if asked <= LAST_INSTANT else None
            if found is None or found >= instant:
                return found
            asked += _STEP
        return None

    def last_at_or_before(self, instant: int) -> int | None:
        """By bisection: the latest instant from which the first slot is not after ``instant``."""
        high, step = instant, _STEP
        low = max(self._start, high - step)
        while not self._reaches(low, instant):
            if low == self._start:
                return None
            high, step = low, step * 4
            low = max(self._start, high - step)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._reaches(middle, instant) else (low, middle)
        return self.first_at_or_after(high) if self._reaches(high, instant) else self.first_at_or_after(low)

    def _reaches(self, asked: int, instant: int) -> bool:
        found = self.first_at_or_after(asked)
        return found is not None and found <= instant

    def count(self, first: int, last: int) -> int:
        total, slot = 0, self.first_at_or_after(first)
        while slot is not None and slot <= last:
            total += 1
            if total == _PATIENCE:
                return total + (last - slot) * total // (slot - first + 1)
            slot = self.first_at_or_after(slot + 1)
        return total

    def nth_after(self, instant: int, n: int) -> int | None:
        slot = self.first_at_or_after(instant)
        for _ in range(n):
            if slot is None:
                return None
            slot = self.first_at_or_after(slot + 1)
        return slot


class Chain:
    """APScheduler's calendarinterval: every answer follows from the one before, so they are kept from the first on."""

    def __init__(self, native: CalendarIntervalTrigger) -> None:
        self._native = native
        self._known: list[int] = []
        self._last: datetime | None = None
        self._ended = False

    def first_at_or_after(self, instant: int) -> int | None:
        self._extend(instant)
        place = bisect_left(self._known, instant)
        return self._known[place] if place < len(self._known) else None

    def last_at_or_before(self, instant: int) -> int | None:
        self._extend(instant)
        place = bisect_right(self._known, instant)
        return self._known[place - 1] if place else None

    def count(self, first: int, last: int) -> int:
        self._extend(last)
        return max(0, bisect_right(self._known, last) - bisect_left(self._known, first))

    def nth_after(self, instant: int, n: int) -> int | None:
        self._extend(instant)
        place = bisect_left(self._known, instant) + n
        while place >= len(self._known) and not self._ended:
            self._one_more()
        return self._known[place] if place < len(self._known) else None

    def _extend(self, instant: int) -> None:
        """Up to the first slot after ``instant``."""
        while not self._ended and (not self._known or self._known[-1] <= min(instant, LAST_INSTANT)):
            self._one_more()

    def _one_more(self) -> None:
        try:
            found = self._native.get_next_fire_time(self._last, to_datetime(0))
        except (OverflowError, ValueError):  # past the year 9999
            found = None
        if found is None or to_millis(found) > LAST_INSTANT:
            self._ended = True
            return
        self._last = found
        if not self._known or to_millis(found) > self._known[-1]:
            self._known.append(to_millis(found))


class AllOf:
    """The instants at which every member has a slot, found by letting the members overtake each other."""

    def __init__(self, members: tuple[Trigger, ...]) -> None:
        self._members = members

    def first_at_or_after(self, instant: int) -> int | None:
        for _ in range(_PATIENCE):
            found = [member.first_at_or_after(instant) for member in self._members]
            latest = max((slot for slot in found if slot is not None), default=None)
            if latest is None or None in found:
                return None
            if latest == instant or found.count(latest) == len(found):
                return latest
            instant = latest
        return None

    def last_at_or_before(self, instant: int) -> int | None:
        for _ in range(_PATIENCE):
            found = [member.last_at_or_before(instant) for member in self._members]
            earliest = min((slot for slot in found if slot is not None), default=None)
            if earliest is None or None in found:
                return None
            if found.count(earliest) == len(found):
                return earliest
            instant = earliest
        return None

    def count(self, first: int, last: int) -> int:
        total, slot = 0, self.first_at_or_after(first)
        while slot is not None and slot <= last:
            total, slot = total + 1, self.first_at_or_after(slot + 1)
        return total

    def nth_after(self, instant: int, n: int) -> int | None:
        slot = self.first_at_or_after(instant)
        for _ in range(n):
            if slot is None:
                return None
            slot = self.first_at_or_after(slot + 1)
        return slot
