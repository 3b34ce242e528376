"""Proof by brute force: calendar, cron and interval rules around every change of every clock, 1970 to 2037.

A sample runs with the other tests; ``make prove`` runs all of it. The oracle is in ``_oracle.py``.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import product
from random import Random
from typing import Any, NamedTuple

import pytest

from calsched.triggers import Trigger, build
from tests.triggers._oracle import Around, Predicate, around, cron_predicate, groups, transitions

GAPS = ("skip", "shift", "boundary")
FOLDS = ("first", "second", "both")

#: Changes that a sample must not miss: (zone, a day shortly before).
NOTABLE = [
    ("Pacific/Apia", 2011),  # a whole day left out
    ("Pacific/Kwajalein", 1993),  # another
    ("Pacific/Kiritimati", 1994),
    ("Australia/Lord_Howe", 2026),  # half an hour
    ("Antarctica/Troll", 2026),  # two hours
    ("Antarctica/Casey", 2020),  # three hours, for good
    ("America/Nuuk", 2026),  # before midnight, over it
    ("America/Havana", 2026),  # at midnight
    ("Africa/Cairo", 2026),
    ("Europe/Dublin", 2026),  # winter time is the exception there
    ("Africa/Casablanca", 2026),
    ("Africa/Monrovia", 1972),  # 44 minutes and 30 seconds
    ("Asia/Gaza", 2023),
    ("America/St_Johns", 1988),  # two hours, at 00:01
    ("America/Caracas", 2016),
    ("Asia/Pyongyang", 2015),
    ("America/New_York", 2026),
    ("Europe/Berlin", 2026),
]


class Case(NamedTuple):
    spec: dict[str, Any]
    named: Predicate
    backwards: bool = True


def _calendar_cases(place: Around) -> Iterator[Case]:
    start, end = place.edges()
    middle = (start + (end - start) / 2).replace(second=0, microsecond=0)
    base = {"kind": "calendar", "timezone": place.name}
    yield Case(base | {"hour": None, "minute": None}, lambda wall: wall.second == 0, backwards=False)
    quarters = (0, 15, 30, 45)
    yield Case(
        base | {"hour": None, "minute": list(quarters)}, lambda wall: wall.second == 0 and wall.minute in quarters
    )
    yield Case(
        base | {"at": middle.strftime("%H:%M"), "weekdays": [middle.weekday()], "months": [middle.month]},
        lambda wall: wall.time() == middle.time() and wall.weekday() == middle.weekday() and wall.month == middle.month,
    )
    yield _edges_case(base, start, end)
    yield _days_case(base, middle)


def _edges_case(base: dict[str, Any], start: datetime, end: datetime) -> Case:
    """The first and last minute on either side, every second week."""
    minute = timedelta(minutes=1)
    start = start.replace(second=0)
    times = {
        (edge + shift).time() for edge in (start, end.replace(second=0)) for shift in (-minute, 0 * minute, minute)
    }
    monday = start.date() - timedelta(days=start.weekday())

    def named(wall: datetime) -> bool:
        own = wall.date() - timedelta(days=wall.weekday())
        return wall.time() in times and (own - monday).days % 14 == 0

    at = sorted(time.strftime("%H:%M") for time in times)
    return Case(base | {"at": at, "everyWeeks": 2, "weekAnchor": start.date().isoformat()}, named)


def _days_case(base: dict[str, Any], middle: datetime) -> Case:
    hours = sorted({(middle.hour + shift) % 24 for shift in (-1, 0, 1)})
    minutes = (1, 30, 59)

    def named(wall: datetime) -> bool:
        last = calendar.monthrange(wall.year, wall.month)[1]
        return (
            wall.second == 0
            and wall.minute in minutes
            and wall.hour in hours
            and wall.day in (middle.day, last, last - 6)
        )

    days = {"daysOfMonth": sorted({middle.day, -1, -7})}
    return Case(base | {"hour": hours, "minute": list(minutes)} | days, named)


CRON = ("*/20 * * * *", "7,37 */2 * * *", "0,30 0-3,22-23 1-7 * 0", "*/45 0-5 */2 * 1-6", "59 23 * 3,4,9-11 *")


def _cron_cases(place: Around) -> Iterator[Case]:
    for expression in CRON:
        spec = {"kind": "cron", "timezone": place.name, "expression": expression}
        yield Case(spec, cron_predicate(expression))


def _walked(trigger: Trigger, place: Around) -> list[int]:
    """Every slot that the trigger has in the window, asked one after the other."""
    out: list[int] = []
    slot = trigger.first_at_or_after(place.start * 1000)
    while slot is not None and slot <= place.stop * 1000:
        out.append(slot)
        slot = trigger.next_after(slot)
    return out


def _walked_back(trigger: Trigger, place: Around) -> list[int]:
    out: list[int] = []
    slot = trigger.last_at_or_before(place.stop * 1000)
    while slot is not None and slot >= place.start * 1000:
        out.append(slot)
        slot = trigger.last_at_or_before(slot - 1)
    return out[::-1]


def _compare(trigger: Trigger, place: Around, slots: dict[int, datetime], backwards: bool) -> None:
    expected = [second * 1000 for second in slots]
    about = f"{trigger} around {place.change}"
    assert _walked(trigger, place) == expected, about
    assert trigger.count(place.start * 1000, place.stop * 1000) == len(expected), about
    if not backwards:
        return
    assert _walked_back(trigger, place) == expected, about
    assert [trigger.local(slot) for slot in expected] == [wall.isoformat() for wall in slots.values()], about
    for n in {0, len(expected) // 2, len(expected) - 1} if expected else ():
        assert trigger.nth_after(place.start * 1000, n) == expected[n], about


def _prove(place: Around) -> int:
    """Compares every rule under every gap and fold rule; how many comparisons there were."""
    done = 0
    for case in (*_calendar_cases(place), *_cron_cases(place)):
        named = place.named_by(case.named)
        for gap, fold in product(GAPS, FOLDS):
            trigger = build(case.spec | {"gap": gap, "fold": fold})
            _compare(trigger, place, named.slots(gap, fold), case.backwards)
            done += 1
    return done + _prove_cadence(place) + _prove_interval(place)


def _prove_cadence(place: Around) -> int:
    """Where no fold is declared, an hour field that covers every hour keeps both passes."""
    for expression, fold in (("*/30 * * * *", "both"), ("*/30 0-22 * * *", "first")):
        trigger = build({"kind": "cron", "timezone": place.name, "expression": expression})
        _compare(trigger, place, place.named_by(cron_predicate(expression)).slots("skip", fold), backwards=False)
    return 2


def _prove_interval(place: Around) -> int:
    """Elapsed time goes on, whatever the wall clock does."""
    ticks = [second * 1000 for second in range(place.start, place.stop + 1) if second % 420 == 0]
    trigger = build({"kind": "interval", "minutes": 7})
    assert _walked(trigger, place) == _walked_back(trigger, place) == ticks
    assert trigger.count(place.start * 1000, place.stop * 1000) == len(ticks)
    return 1


def _prove_seconds(zone: str, change: int) -> None:
    """Rules with seconds, on a walk by the second, but for changes by half a day and more, where that is too long."""
    place = around(zone, change, margin=600, grain=60)
    if abs(place.after - place.before) > 10_800:
        return
    place = around(zone, change, margin=600, grain=1)
    spec = {"kind": "calendar", "timezone": place.name, "hour": None, "minute": [0, 29, 30, 59], "second": [0, 17, 59]}

    def named(wall: datetime) -> bool:
        return wall.minute in (0, 29, 30, 59) and wall.second in (0, 17, 59)

    for gap, fold in product(GAPS, FOLDS):
        trigger = build(spec | {"gap": gap, "fold": fold})
        _compare(trigger, place, place.named_by(named).slots(gap, fold), backwards=True)


@pytest.mark.parametrize(("zone", "year"), NOTABLE, ids=lambda value: str(value))
def test_rules_are_right_around_notable_changes(zone: str, year: int) -> None:
    changes = list(transitions(zone, year, year))
    assert changes
    for change in changes:
        assert _prove(around(zone, change)) == 93
    _prove_seconds(zone, changes[0])


def test_rules_are_right_around_a_sample_of_all_changes() -> None:
    random = Random(20261130)
    done = 0
    while done < 40:
        names, year = random.choice(groups()), random.randrange(1970, 2036)
        for change in transitions(names[0], year, year + 2):
            _prove(around(random.choice(names), change))
            done += 1


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.parametrize("names", groups(), ids=lambda names: names[0])
def test_rules_are_right_around_every_change_of_every_zone(names: list[str]) -> None:
    """1970 to 2037 with every rule; names with the same data as the first are proved by their first and last change."""
    changes = list(transitions(names[0], 1970, 2037))
    for change in changes:
        _prove(around(names[0], change))
    for change in changes[::20]:
        _prove_seconds(names[0], change)
    for name in names[1:]:
        for change in changes[:1] + changes[-1:]:
            _prove(around(name, change))


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.parametrize("names", groups(), ids=lambda names: names[0])
def test_quarter_hours_are_right_around_older_and_later_changes(names: list[str]) -> None:
    """From local mean time up to 1969, and under the rules for ever after: 2038 to 2044, and towards the year 9999."""
    spans = ((1840, 1969), (2038, 2041), (2399, 2400), (9997, 9998))
    for change in (change for first, last in spans for change in transitions(names[0], first, last)):
        place = around(names[0], change)
        named = place.named_by(lambda wall: wall.second == 0 and wall.minute % 15 == 0)
        spec = {"kind": "calendar", "timezone": place.name, "hour": None, "minute": [0, 15, 30, 45]}
        for gap, fold in product(GAPS, FOLDS):
            _compare(build(spec | {"gap": gap, "fold": fold}), place, named.slots(gap, fold), backwards=True)
