"""Wall times of any rule, less closed days or rolled to open ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Final

from calsched.policies import day_rule
from calsched.triggers.days import EPOCH_DAY, FIRST_DAY, LAST_DAY, MonthMask, month_length
from calsched.triggers.engine import DAY, WallTimes

#: A search gives up after so many days of the rule without a place, where they also span 40 years: by then each of the
#: fourteen kinds of year has come, even across a century without its leap day, and calendars repeat with these.
_MOST_STEPS: Final = 3_000
_CYCLE: Final = 14_610


class SearchedWalls(WallTimes):
    """Wall times that are not days times times of day, but answer the engine's questions all the same."""

    __slots__ = ()

    def nth(self, wall: int, n: int) -> int | None:
        """One by one: triggers find far slots by counting."""
        found = self.next(wall)
        for _ in range(n):
            found = None if found is None else self.next(found + 1)
        return found


class OpenWalls(SearchedWalls):
    """Where the wall times of ``inner`` take place, at the same time of day. Days count from 1970-01-01.

    Rolling keeps the order of days, which is what the searches rest on: the days that land on ``d`` or later are all
    those from the first that lands on ``d``.
    """

    __slots__ = ("_excluded", "_inner", "_is_open", "_nothing_from", "_roll")

    def __init__(
        self, inner: WallTimes, roll: day_rule.Roll, is_open: day_rule.IsOpen, excluded: frozenset[int]
    ) -> None:
        """``is_open`` takes ordinals; ``excluded`` days neither take place nor are rolled."""
        self._inner, self._roll, self._excluded = inner, roll, excluded
        self._is_open = is_open
        self._nothing_from = LAST_DAY + 1  # none of the nominal days from this one on has a place

    def __contains__(self, wall: int) -> bool:
        day, second = divmod(wall, DAY)
        return any(origin * DAY + second in self._inner for origin in self._origins(day))

    def next(self, wall: int) -> int | None:
        day, second = divmod(wall, DAY)
        for landed in self._from(day):
            found = self._first_on(landed, second if landed == day else 0)
            if found is not None:
                return landed * DAY + found
        return None

    def previous(self, wall: int) -> int | None:
        day, second = divmod(wall, DAY)
        for landed in self._back_from(day):
            found = self._last_on(landed, second if landed == day else DAY - 1)
            if found is not None:
                return landed * DAY + found
        return None

    def count(self, start: int, stop: int) -> int:
        if stop <= start:
            return 0
        (first, low), (last, high) = divmod(start, DAY), divmod(stop, DAY)
        total = 0
        for landed in self._from(first):
            if landed > last:
                break
            total += self._count_on(landed, low if landed == first else 0, high if landed == last else DAY)
        return total

    def _from(self, day: int) -> Iterator[int]:
        """The days from ``day`` on that have wall times, ascending."""
        day = max(day, FIRST_DAY)
        opens = day_rule.open_at_or_after(day + EPOCH_DAY, self._is_open)
        if opens is None:
            return
        begin = self._landing(opens - EPOCH_DAY)[0]
        at = self._inner.next(begin * DAY)
        since, steps, found = day, 0, False
        while at is not None and at // DAY < self._nothing_from and not _in_vain(at // DAY - since, steps):
            nominal, steps = at // DAY, steps + 1
            landed = self._land(nominal)
            if landed is not None and landed >= day and self._origins(landed):
                since, steps, found = landed, 0, True
                yield landed
            after = max(nominal, self._landing(landed)[-1] if landed is not None else nominal) + 1
            at = self._inner.next(after * DAY) if after <= LAST_DAY else None
        if not found:
            self._nothing_from = min(self._nothing_from, begin)

    def _back_from(self, day: int) -> Iterator[int]:
        day = min(day, LAST_DAY)
        opens = day_rule.open_at_or_before(day + EPOCH_DAY, self._is_open)
        last = None if opens is None else self._landing(opens - EPOCH_DAY)[-1]
        at = None if last is None else self._inner.previous(last * DAY + DAY - 1)
        since, steps = day, 0
        while at is not None and not _in_vain(since - at // DAY, steps):
            nominal, steps = at // DAY, steps + 1
            landed = self._land(nominal)
            if landed is not None and landed <= day and self._origins(landed):
                since, steps = landed, 0
                yield landed
            before = min(nominal, self._landing(landed)[0] if landed is not None else nominal)
            at = self._inner.previous(before * DAY - 1)

    def _land(self, nominal: int) -> int | None:
        landed = day_rule.land(nominal + EPOCH_DAY, self._roll, self._is_open)
        return None if landed is None else landed - EPOCH_DAY

    def _landing(self, day: int) -> list[int]:
        """The days that land on an open ``day``, whether excluded or not."""
        return [origin - EPOCH_DAY for origin in day_rule.origins(day + EPOCH_DAY, self._roll, self._is_open)]

    def _origins(self, day: int) -> list[int]:
        """The days whose wall times take place on ``day``."""
        if day in self._excluded or not FIRST_DAY <= day <= LAST_DAY:
            return []
        return [origin for origin in self._landing(day) if origin not in self._excluded]

    def _first_on(self, day: int, second: int) -> int | None:
        """The first second of the day from ``second`` on at which a wall time takes place."""
        ends = [(origin * DAY + DAY, self._inner.next(origin * DAY + second)) for origin in self._origins(day)]
        return min((found % DAY for end, found in ends if found is not None and found < end), default=None)

    def _last_on(self, day: int, second: int) -> int | None:
        starts = [(origin * DAY, self._inner.previous(origin * DAY + second)) for origin in self._origins(day)]
        return max((found % DAY for start, found in starts if found is not None and found >= start), default=None)

    def _count_on(self, day: int, low: int, high: int) -> int:
        """How many seconds of the day from ``low`` to before ``high`` have a wall time."""
        origins = self._origins(day)
        if len(origins) == 1:
            return self._inner.count(origins[0] * DAY + low, origins[0] * DAY + high)
        return len({second for second in self._of_days(origins) if low <= second < high})

    def _of_days(self, days: list[int]) -> Iterator[int]:
        for day in days:
            wall = self._inner.next(day * DAY)
            while wall is not None and wall < day * DAY + DAY:
                yield wall % DAY
                wall = self._inner.next(wall + 1)


def _in_vain(days: int, steps: int) -> bool:
    return steps > _MOST_STEPS and days > _CYCLE


def month_mask(walls: WallTimes) -> MonthMask:
    """The days of a month on which a rule has wall times."""

    def mask(year: int, month: int) -> int:
        first = date(year, month, 1).toordinal() - EPOCH_DAY
        found, day = 0, first
        while day < first + month_length(year, month):
            wall = walls.next(day * DAY)
            if wall is None or wall // DAY >= first + month_length(year, month):
                break
            found |= 1 << wall // DAY - first
            day = wall // DAY + 1
        return found

    return mask
