"""The next instant in New York, ours against croniter, APScheduler's CronTrigger and cronsim; counting; building.

    python tests/benchmarks/bench_triggers.py

Every figure is taken warm, in one run, over the same instants one after the other. ``anew`` asks ours for the slot
after instants that jump about, so that nothing is there from the question before; ``as APS`` asks ours as APScheduler
does, with datetimes.
"""

from __future__ import annotations

import random
import timeit
from collections.abc import Callable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from _report import Scale, Section, printed, times
from apscheduler.triggers.cron import CronTrigger as NativeCron
from croniter import croniter
from cronsim import CronSim

from calsched import triggers, zones
from calsched.clock import to_millis
from calsched.triggers import build

ZONE = "America/New_York"
INFO = ZoneInfo(ZONE)
START = datetime(2026, 1, 1, tzinfo=INFO)
MILLIS = to_millis(START)
TEN_YEARS = 3652 * 86_400_000
CRON = ("*/5 * * * *", "30 9 * * 1-5", "0 0 1 * *", "0 0 29 2 *")
CALENDAR: dict[str, tuple[dict[str, Any], str]] = {
    "calendar, daily at 09:30": ({"at": "09:30"}, "30 9 * * *"),
    "calendar, Mondays at 09:30": ({"at": "09:30", "weekdays": "mon"}, "30 9 * * mon"),
}


def micros(ask: Callable[[], object], number: int) -> float:
    """Microseconds for one of ``number`` answers that one call of ``ask`` gives; the best of five."""
    return min(timeit.repeat(ask, number=1, repeat=5)) / number * 1e6


def ours(spec: dict[str, Any], number: int) -> Callable[[], object]:
    trigger = build(spec)

    def ask() -> None:
        slot = MILLIS
        for _ in range(number):
            slot = trigger.next_after(slot) or MILLIS

    return ask


def ours_anew(spec: dict[str, Any], number: int) -> Callable[[], object]:
    trigger = build(spec)
    draw = random.Random(1)
    places = [MILLIS + draw.randrange(20 * 365 * 86_400_000) for _ in range(number)]

    def ask() -> None:
        for place in places:
            trigger.next_after(place)

    return ask


def ours_as_apscheduler_asks(spec: dict[str, Any], number: int) -> Callable[[], object]:
    trigger = build(spec)

    def ask() -> None:
        previous = START
        for _ in range(number):
            previous = trigger.get_next_fire_time(previous, previous) or START

    return ask


def by_croniter(expression: str, number: int) -> Callable[[], object]:
    def ask() -> None:
        iterator = croniter(expression, START, ret_type=datetime)
        for _ in range(number):
            iterator.get_next()

    return ask


def by_apscheduler(expression: str, number: int) -> Callable[[], object]:
    numbered = expression.replace("1-5", "mon-fri")  # its Monday is 0
    trigger = NativeCron.from_crontab(numbered, timezone=INFO)

    def ask() -> None:
        previous = START
        for _ in range(number):
            previous = trigger.get_next_fire_time(previous, previous)

    return ask


def by_cronsim(expression: str, number: int) -> Callable[[], object]:
    def ask() -> None:
        iterator = CronSim(expression, START)
        for _ in range(number):
            next(iterator)

    return ask


def compare(name: str, spec: dict[str, Any], expression: str) -> None:
    few, many = (20, 40) if " 29 2 " in expression else (200, 2000)
    own = micros(ours(spec, many), many)
    anew = micros(ours_anew(spec, many), many)
    asked = micros(ours_as_apscheduler_asks(spec, many), many)
    line = f"{name:<28}{own:8.2f}{anew:8.2f}{asked:8.2f}"
    for theirs in (by_croniter, by_apscheduler, by_cronsim):
        taken = micros(theirs(expression, few), few)
        line += f"{taken:10.1f} ({taken / own:6.0f}x)"
    print(line)


def building() -> None:
    specs = [{"kind": "cron", "timezone": ZONE, "expression": expression} for expression in CRON]
    specs += [{"kind": "calendar", "timezone": ZONE} | spec for spec, _ in CALENDAR.values()]

    def cold(spec: dict[str, Any]) -> float:
        """Without the cache of triggers and without the zone."""
        triggers._cached.cache_clear()
        zones._load.cache_clear()
        return timeit.timeit(lambda: build(spec), number=1) * 1e6

    for spec in specs:
        build(spec)
        warm = micros(lambda spec=spec: [build(spec) for _ in range(1000)], 1000)  # type: ignore[misc]
        name = spec.get("expression") or ", ".join(str(value) for value in list(spec.values())[2:])
        print(f"{'build ' + name:<40}{warm:8.1f} µs cached{min(cold(spec) for _ in range(20)):10.1f} µs cold")


def measure(scale: Scale) -> Section:
    section = Section("Triggers", "Next instants in New York, warm, on the same rules; and counting without walking.")
    for name, (spec, expression) in CALENDAR.items():
        own = micros(ours({"kind": "calendar", "timezone": ZONE} | spec, 2000), 2000)
        theirs = micros(by_apscheduler(expression, 200), 200)
        section.add(f"{name}: APScheduler's `CronTrigger`", f"{theirs:.1f} µs")
        section.add(f"{name}: ours", f"{own:.2f} µs ({times(theirs / own)})", "at least 10×", theirs >= 10 * own)
    minutely = build({"kind": "cron", "timezone": ZONE, "expression": "* * * * *"})
    taken = micros(lambda: minutely.count(MILLIS, MILLIS + TEN_YEARS), 1) / 1000
    section.add("counting ten years of minutes", f"{taken:.3f} ms", "under 100 ms", taken < 100)
    if not scale.quick:
        section.raw = printed(main)
    return section


def main() -> None:
    print(
        f"{'next instant, µs':<28}{'ours':>8}{'anew':>8}{'as APS':>8}{'croniter':>19}{'CronTrigger':>19}{'cronsim':>19}"
    )
    for expression in CRON:
        compare(f"cron {expression}", {"kind": "cron", "timezone": ZONE, "expression": expression}, expression)
    for name, (spec, expression) in CALENDAR.items():
        compare(name, {"kind": "calendar", "timezone": ZONE} | spec, expression)
    minutely = build({"kind": "cron", "timezone": ZONE, "expression": "* * * * *"})
    found = minutely.count(MILLIS, MILLIS + TEN_YEARS)
    taken = micros(lambda: minutely.count(MILLIS, MILLIS + TEN_YEARS), 1)
    print(f"counting {found:,} slots of ten years, minutely: {taken / 1000:.3f} ms")
    building()


if __name__ == "__main__":
    main()
