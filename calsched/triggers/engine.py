"""The wall-clock engine: days times times of day, in a zone, under a gap rule and a fold rule.

A rule names wall times: every one of its times of day on every one of its days. Its slots are the instants of those
wall times (``policies.clock_change`` says which, where the clock jumps), each once, in the order of time. Within a
segment of constant offset searching and counting are arithmetic; around a jump a handful of wall times is looked at
one by one.

Times are whole seconds: UTC seconds since the epoch, or wall seconds since 1970-01-01T00:00:00 local.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from calsched.policies.clock_change import FoldRule, GapRule
from calsched.triggers.base import FIRST_INSTANT
from calsched.triggers.days import Days
from calsched.triggers.timeline import Timeline, timeline
from calsched.zones import END_OF_TIME, WIDEST_OFFSET, Zone

DAY: Final = 86_400
_KEEP_SPECIALS: Final = 256


class WallTimes:
    """Wall times: every one of ``times`` (seconds of a day, ascending) on every one of ``days``."""

    __slots__ = ("days", "times")

    def __init__(self, days: Days, times: Sequence[int]) -> None:
        self.days, self.times = days, times

    def __contains__(self, wall: int) -> bool:
        day, second = divmod(wall, DAY)
        place = bisect_left(self.times, second)
        return place < len(self.times) and self.times[place] == second and day in self.days

    def next(self, wall: int) -> int | None:
        """The first at or after ``wall``."""
        day, second = divmod(wall, DAY)
        place = bisect_left(self.times, second)
        if place < len(self.times):
            found = self.days.next(day)
            if found == day:
                return day * DAY + self.times[place]
        else:
            found = self.days.next(day + 1)
        return None if found is None else found * DAY + self.times[0]

    def previous(self, wall: int) -> int | None:
        """The last at or before ``wall``."""
        day, second = divmod(wall, DAY)
        place = bisect_right(self.times, second)
        if place and day in self.days:
            return day * DAY + self.times[place - 1]
        found = self.days.previous(day - 1)
        return None if found is None else found * DAY + self.times[-1]

    def count(self, start: int, stop: int) -> int:
        """How many lie in ``start`` … ``stop``, the latter not included."""
        if stop <= start:
            return 0
        first, first_second = divmod(start, DAY)
        last, last_second = divmod(stop, DAY)
        total = self.days.count(first, last) * len(self.times)
        if first_second and first in self.days:
            total -= bisect_left(self.times, first_second)
        if last_second and last in self.days:
            total += bisect_left(self.times, last_second)
        return total

    def nth(self, wall: int, n: int) -> int | None:
        """The one with ``n`` before it at or after ``wall``."""
        day, second = divmod(wall, DAY)
        if day in self.days:
            n += bisect_left(self.times, second)
        days, place = divmod(n, len(self.times))
        found = self.days.nth(day, days)
        return None if found is None else found * DAY + self.times[place]


#: Seconds that are counted at once when the n-th slot is looked for; doubled from span to span.
_FIRST_SPAN = 400 * DAY


class Engine:
    """Searches in UTC seconds for the slots of wall times in a zone, from ``low`` to ``high``, both included."""

    __slots__ = ("_special", "_timeline", "fold", "gap", "high", "low", "walls", "zone")

    def __init__(
        self, zone: Zone, walls: WallTimes, gap: GapRule, fold: FoldRule, low: int | None, high: int | None
    ) -> None:
        self.zone, self.walls, self.gap, self.fold = zone, walls, gap, fold
        self.low = max(low, FIRST_INSTANT // 1000) if low is not None else FIRST_INSTANT // 1000
        self.high = min(high, END_OF_TIME - 1) if high is not None else END_OF_TIME - 1
        self._timeline: Timeline = timeline(zone, gap, fold)
        self._special: dict[int, tuple[int, ...]] = {}

    def first(self, second: int) -> int | None:
        """The first slot at or after a UTC second."""
        if second < self.low:
            second = self.low
        line, walls = self._timeline, self.walls
        index = bisect_right(line.starts, second) - 1
        entered = False  # whether the search has left the segment that it began in
        while second <= self.high:
            if second >= line.until:
                line = self._timeline = timeline(self.zone, self.gap, self.fold, second + 1)
                index = bisect_right(line.starts, second) - 1
            offset, end = line.offsets[index], line.starts[index + 1]
            if offset is None:
                found = _at_or_after(self._slots(line, index), second)
                if found is not None:
                    return self._upper(found)
            else:
                wall = walls.next(second + offset)
                if wall is None:
                    wall = (END_OF_TIME + DAY) * 2
                if wall < end + offset:
                    return self._upper(wall - offset)
                # Nothing is named from here to ``wall``, so that no segment before it can hold a slot, except the one
                # in which the clock runs over this segment's last wall times again.
                if entered and wall - WIDEST_OFFSET > end:
                    second = wall - WIDEST_OFFSET
                    index = bisect_right(line.starts, second) - 1
                    continue
            entered = True
            second, index = end, index + 1
        return None

    def last(self, second: int) -> int | None:
        """The last slot at or before a UTC second."""
        if second > self.high:
            second = self.high
        line = self._timeline = timeline(self.zone, self.gap, self.fold, second + 1)
        index = bisect_right(line.starts, second) - 1
        entered = False
        while second >= self.low:
            offset, start = line.offsets[index], line.starts[index]
            if offset is None:
                found = _at_or_before(self._slots(line, index), second)
                if found is not None:
                    return found if found >= self.low else None
            else:
                wall = self.walls.previous(second + offset)
                if wall is None:
                    wall = FIRST_INSTANT
                if wall >= start + offset:
                    return wall - offset if wall - offset >= self.low else None
                if entered and wall + WIDEST_OFFSET < start - 1:
                    second = wall + WIDEST_OFFSET
                    index = bisect_right(line.starts, second) - 1
                    continue
            entered = True
            second, index = start - 1, index - 1
        return None

    def count(self, first: int, last: int) -> int:
        """How many slots lie in ``first`` … ``last``, both included."""
        first, last = max(first, self.low), min(last, self.high)
        if last < first:
            return 0
        line = self._timeline = timeline(self.zone, self.gap, self.fold, last + 1)
        total = 0
        for index in range(bisect_right(line.starts, first) - 1, bisect_right(line.starts, last)):
            offset = line.offsets[index]
            start, stop = max(first, line.starts[index]), min(last + 1, line.starts[index + 1])
            if offset is None:
                slots = self._slots(line, index)
                total += bisect_left(slots, stop) - bisect_left(slots, start)
            else:
                total += self.walls.count(start + offset, stop + offset)
        return total

    def nth(self, second: int, n: int) -> int | None:
        """The slot with ``n`` slots before it at or after a UTC second.

        Stretches are counted in spans that double: the last one reaches to the end of time, and nobody asks that far.
        """
        second = max(second, self.low)
        line, span = self._timeline, _FIRST_SPAN
        index = bisect_right(line.starts, second) - 1
        while second <= self.high:
            if second >= line.until:
                line = self._timeline = timeline(self.zone, self.gap, self.fold, second + 1)
                index = bisect_right(line.starts, second) - 1
            offset, end = line.offsets[index], line.starts[index + 1]
            if offset is None:
                slots = self._slots(line, index)
                place = bisect_left(slots, second)
                if place + n < len(slots):
                    return self._upper(slots[place + n])
                n -= len(slots) - place
                second, index = end, index + 1
                continue
            stop = min(end, second + span)
            here = self.walls.count(second + offset, stop + offset)
            if n < here:
                wall = self.walls.nth(second + offset, n)
                assert wall is not None
                return self._upper(wall - offset)
            n -= here
            second, span, index = stop, span * 2, index + (stop == end)
        return None

    def nominal(self, slot: int) -> int | None:
        """The wall time that the rule names for a slot, the latest where several fall on it; None if it is none."""
        line = self._timeline = timeline(self.zone, self.gap, self.fold, slot + 1)
        index = bisect_right(line.starts, slot) - 1
        offset = line.offsets[index]
        if offset is not None:
            return slot + offset if slot + offset in self.walls else None
        special = line.specials[index]
        named = [slot + offset for offset in special.offsets if slot + offset in self.walls]
        if not named and special.gap_window is not None:
            wall = self.walls.previous(special.gap_window[1] - 1)
            named = [wall] if wall is not None and wall >= special.gap_window[0] else []
        return max(named, default=None)

    def after_wall(self, wall: int) -> int | None:
        """The first slot whose nominal wall time is after ``wall``."""
        slot = self.first(wall - WIDEST_OFFSET)
        best = slot
        while slot is not None and (best := self.nominal(slot)) is not None and best <= wall:
            slot = self.first(self._skip(slot, wall))
        return slot

    def _skip(self, slot: int, wall: int) -> int:
        """Where to look on after a slot that is too early: where the clock passes ``wall``, or its segment ends."""
        index = bisect_right(self._timeline.starts, slot) - 1
        offset = self._timeline.offsets[index]
        if offset is None:
            return slot + 1
        return min(wall + 1 - offset, self._timeline.starts[index + 1])

    def gap_at(self, second: int) -> tuple[int, int] | None:
        """The jump out of whose gap wall times could be shifted to ``second``: its instant, and the offset before."""
        spans = self.zone.spans(second + 1)
        index = bisect_right(spans.starts, second) - 1
        if index == 0:
            return None
        before, after, start = spans.offsets[index - 1], spans.offsets[index], spans.starts[index]
        return (start, before) if second < start + after - before else None

    def _upper(self, slot: int) -> int | None:
        return slot if slot <= self.high else None

    def _slots(self, line: Timeline, index: int) -> tuple[int, ...]:
        """The slots of a special segment."""
        known = self._special.get(index)
        if known is not None:
            return known
        start, end, special = line.starts[index], line.starts[index + 1], line.specials[index]
        found: set[int] = set()
        for offset in special.offsets:
            wall = self.walls.next(start + offset)
            while wall is not None and wall < end + offset:
                found.add(wall - offset)
                wall = self.walls.next(wall + 1)
        if special.gap_window is not None:
            wall = self.walls.next(special.gap_window[0])
            if wall is not None and wall < special.gap_window[1]:
                found.add(start)
        if len(self._special) >= _KEEP_SPECIALS:
            self._special.clear()
        self._special[index] = slots = tuple(sorted(found))
        return slots


def _at_or_after(slots: tuple[int, ...], second: int) -> int | None:
    place = bisect_left(slots, second)
    return slots[place] if place < len(slots) else None


def _at_or_before(slots: tuple[int, ...], second: int) -> int | None:
    place = bisect_right(slots, second)
    return slots[place - 1] if place else None
