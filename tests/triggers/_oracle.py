"""What the wall clocks of a zone show, second by second, by the standard library alone.

An oracle for rules around a change of the clock: it walks UTC, reads ``zoneinfo`` over the ``tzdata`` package, and
asks a predicate about every wall time that it meets or that the clock leaves out. It shares no code with calsched.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from math import gcd
from zoneinfo import ZoneInfo

Predicate = Callable[[datetime], bool]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def _bytes(name: str) -> bytes:
    return importlib.resources.files("tzdata.zoneinfo").joinpath(*name.split("/")).read_bytes()


@lru_cache(maxsize=1)
def groups() -> list[list[str]]:
    """Every zone name; names whose data are the same bytes stand together."""
    listed = importlib.resources.files("tzdata").joinpath("zones").read_text(encoding="utf-8").split()
    by_data: dict[bytes, list[str]] = {}
    for name in sorted(set(listed) - {"Factory", "localtime"}):
        by_data.setdefault(_bytes(name), []).append(name)
    return list(by_data.values())


@cache
def zone_info(name: str) -> ZoneInfo:
    with importlib.resources.files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def offset(zone: ZoneInfo, second: int) -> int:
    """Seconds east of UTC."""
    found = (EPOCH + second * SECOND).astimezone(zone).utcoffset()
    assert found is not None
    return found // SECOND


def transitions(name: str, first_year: int, last_year: int) -> Iterator[int]:
    """The UTC seconds at which the zone's offset changes, found by comparing half days and halving."""
    zone = zone_info(name)
    low = (datetime(first_year, 1, 1, tzinfo=UTC) - EPOCH) // SECOND
    end = (datetime(last_year + 1, 1, 1, tzinfo=UTC) - EPOCH) // SECOND
    before = offset(zone, low)
    while low < end:
        high = min(low + 43_200, end)
        after = offset(zone, high)
        if after != before:
            yield _change(zone, low, high, before)
        low, before = high, after


def _change(zone: ZoneInfo, low: int, high: int, before: int) -> int:
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset(zone, middle) == before else (low, middle)
    return high


@dataclass(frozen=True)
class Shown:
    """A UTC second, what the wall clock shows then, and which pass it is of a wall time that it shows twice."""

    second: int
    wall: datetime
    passes: int  # 0: shown once; 1: the first of two; 2: the second


@dataclass(frozen=True)
class Missing:
    """A wall time that the clock leaves out: the second at which it is shifted to, and at which the gap ends."""

    wall: datetime
    shifted: int
    boundary: int


@dataclass(frozen=True)
class Around:
    """The wall clock around one change: all that it shows from ``start`` to ``stop``, and what it leaves out."""

    name: str
    start: int
    stop: int
    change: int
    before: int
    after: int
    shown: tuple[Shown, ...]
    missing: tuple[Missing, ...]

    def edges(self) -> tuple[datetime, datetime]:
        """The first wall time that is left out or repeated, and the first that is not any more."""
        walls = sorted(datetime(1970, 1, 1) + (self.change + east) * SECOND for east in (self.before, self.after))  # noqa: DTZ001
        return walls[0], walls[1]

    def named_by(self, named: Predicate) -> Named:
        """What a rule names of all that, whatever becomes of it."""
        return Named(
            tuple(shown for shown in self.shown if named(shown.wall)),
            tuple(missing for missing in self.missing if named(missing.wall)),
        )


@dataclass(frozen=True)
class Named:
    """The wall times around a change that one rule names."""

    shown: tuple[Shown, ...]
    missing: tuple[Missing, ...]

    def slots(self, gap: str, fold: str) -> dict[int, datetime]:
        """The seconds at which the rule has a slot, each with the latest wall time that falls on it."""
        passes = {"first": (0, 1), "second": (0, 2), "both": (0, 1, 2)}[fold]
        out = {shown.second: shown.wall for shown in self.shown if shown.passes in passes}
        for missing in self.missing if gap != "skip" else ():
            second = missing.shifted if gap == "shift" else missing.boundary
            out[second] = max(out.get(second, missing.wall), missing.wall)
        return dict(sorted(out.items()))


def around(name: str, change: int, *, margin: int = 7200, grain: int = 60) -> Around:
    """The wall clock around a change, for rules whose wall times are multiples of ``grain`` seconds."""
    zone = zone_info(name)
    before, after = offset(zone, change - 1), offset(zone, change)
    reach = abs(after - before) + margin
    step = gcd(grain, before, after)
    start, stop = (change - reach) // step * step, (change + reach) // step * step
    shown = tuple(_look(zone, second) for second in range(start, stop + 1, step))
    missing = tuple(_missing(change, before, after, grain)) if after > before else ()
    return Around(name, start, stop, change, before, after, shown, missing)


def _look(zone: ZoneInfo, second: int) -> Shown:
    moment = (EPOCH + second * SECOND).astimezone(zone)
    twice = moment.replace(fold=0).utcoffset() != moment.replace(fold=1).utcoffset()
    return Shown(second, moment.replace(tzinfo=None, fold=0), moment.fold + 1 if twice else 0)


def _missing(change: int, before: int, after: int, grain: int) -> Iterator[Missing]:
    wall = -(-(change + before) // grain) * grain
    while wall < change + after:
        yield Missing(datetime(1970, 1, 1) + wall * SECOND, wall - before, change)  # noqa: DTZ001
        wall += grain


# --- cron, read anew: numbers, lists, ranges and steps ---------------------------------------------------------------


def _numbers(text: str, low: int, high: int) -> set[int]:
    out: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        if span == "*":
            first, last = str(low), str(high)
        elif not dash:
            last = str(high) if step else first
        out |= set(range(int(first), int(last) + 1, int(step or 1)))
    return out


def cron_predicate(expression: str) -> Predicate:
    minute, hour, day, month, weekday = expression.split()
    minutes, hours, months = _numbers(minute, 0, 59), _numbers(hour, 0, 23), _numbers(month, 1, 12)
    days, weekdays = _numbers(day, 1, 31), {number % 7 for number in _numbers(weekday, 0, 6)}
    both = day.startswith("*") or weekday.startswith("*")

    def named(wall: datetime) -> bool:
        if wall.second or wall.minute not in minutes or wall.hour not in hours or wall.month not in months:
            return False
        by_day, by_weekday = wall.day in days, wall.isoweekday() % 7 in weekdays
        return (by_day and by_weekday) if both else (by_day or by_weekday)

    return named
