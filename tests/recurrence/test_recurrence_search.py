"""The wall times of a rule: against dateutil where dateutil is right, by hand where it is not, and always in time."""

from __future__ import annotations

import time
from datetime import datetime
from itertools import islice

import pytest
from dateutil.rrule import rrulestr
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calsched.recurrence import Recurrence, from_wall, parse, to_wall

WEEKDAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]


def recurrence(text: str, start: str) -> Recurrence:
    rule, problems = parse(text)
    assert rule is not None, problems
    return Recurrence(rule, datetime.fromisoformat(start))


def walk(found: Recurrence, most: int, after: int | None = None) -> list[int]:
    walls: list[int] = []
    wall = found.first_at_or_after(found.start if after is None else after)
    while wall is not None and len(walls) < most:
        walls.append(wall)
        wall = found.first_at_or_after(wall + 1)
    return walls


def shown(walls: list[int]) -> list[str]:
    return [from_wall(wall).isoformat() for wall in walls]


def numbers(least: int, most: int, *, signed: bool = False) -> st.SearchStrategy[str]:
    one = st.integers(least, most)
    one = one | one.map(lambda number: -number) if signed else one
    return st.lists(one, min_size=1, max_size=3).map(lambda values: ",".join(map(str, values)))


@st.composite
def rules(draw: st.DrawFn) -> str:
    """Rules without what dateutil reads wrongly: BYSETPOS in the first, cut week; plain and numbered weekdays mixed."""
    freq = draw(st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY"]))
    weekday = st.sampled_from(WEEKDAYS)
    if freq in ("YEARLY", "MONTHLY"):
        numbered = st.builds(lambda n, day: f"{n}{day}", st.sampled_from([1, 2, 4, 5, -1, -2]), weekday)
        days = st.lists(weekday, min_size=1, max_size=3) | st.lists(numbered, min_size=1, max_size=3)
    else:
        days = st.lists(weekday, min_size=1, max_size=3)
    parts = {
        "INTERVAL": st.integers(1, 9).map(str),
        "WKST": weekday,
        "BYMONTH": numbers(1, 12),
        "BYDAY": days.map(",".join),
        "BYHOUR": numbers(0, 23),
        "BYMINUTE": numbers(0, 59),
        "COUNT": st.integers(1, 25).map(str),
    }
    if freq != "WEEKLY":
        parts["BYMONTHDAY"] = numbers(1, 28, signed=True)
    if freq == "YEARLY":
        parts["BYYEARDAY"] = numbers(1, 366, signed=True)
        parts["BYWEEKNO"] = numbers(1, 52, signed=True)
    chosen = draw(st.sets(st.sampled_from(sorted(parts)), max_size=4))
    text = [f"FREQ={freq}"] + [f"{name}={draw(parts[name])}" for name in sorted(chosen)]
    if freq != "WEEKLY" and chosen & {"BYMONTH", "BYDAY", "BYHOUR", "BYMONTHDAY"} and draw(st.booleans()):
        text.append(f"BYSETPOS={draw(st.sampled_from(['1', '-1', '2,-2']))}")
    return ";".join(text)


moments = st.datetimes(datetime(1995, 1, 1), datetime(2035, 12, 28)).map(lambda moment: moment.replace(microsecond=0))  # noqa: DTZ001


@given(rules(), moments)
@example("FREQ=YEARLY;BYWEEKNO=53,1;BYDAY=MO,SU", datetime(2000, 1, 1, 9))  # noqa: DTZ001
@example("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1,1", datetime(2026, 1, 30, 17))  # noqa: DTZ001
@settings(max_examples=120, deadline=None)
def test_every_search_agrees_with_an_enumeration_by_dateutil(text: str, start: datetime) -> None:
    rule, problems = parse(text)
    if rule is None:  # the strategy mixes numbered weekdays with BYWEEKNO now and then, which RFC 5545 forbids
        assert problems
        return
    found = Recurrence(rule, start)
    if found.first_at_or_after(found.start) is None:
        return  # dateutil would look until the year 9999
    horizon = to_wall(start.replace(year=start.year + 30, day=28))
    expected = [wall for wall in map(to_wall, islice(rrulestr(text, dtstart=start), 15)) if wall <= horizon]
    assert walk(found, len(expected)) == expected
    for index, wall in enumerate(expected):
        assert found.first_at_or_after(wall) == wall == found.last_at_or_before(wall)
        assert found.last_at_or_before(wall - 1) == (expected[index - 1] if index else None)
        assert found.count(expected[0], wall) == index + 1
        assert found.count(wall, expected[-1]) == len(expected) - index
        assert found.count(expected[0] + 1, wall - 1) == max(index - 1, 0)


BY_HAND = [
    ("plain and numbered weekdays are alternatives", "FREQ=MONTHLY;BYDAY=MO,1FR", "2026-06-01T09:00:00", 3,
     ["2026-06-01T09:00:00", "2026-06-05T09:00:00", "2026-06-08T09:00:00"]),
    ("a position counts from the beginning of the week of DTSTART", "FREQ=WEEKLY;BYDAY=MO,WE,SU;BYSETPOS=1",
     "2026-06-03T09:00:00", 2, ["2026-06-08T09:00:00", "2026-06-15T09:00:00"]),
    ("a DTSTART that does not match is no occurrence", "FREQ=MONTHLY;BYDAY=5MO", "2024-01-01T09:00:00", 2,
     ["2024-01-29T09:00:00", "2024-04-29T09:00:00"]),
    ("the 29th of February waits for leap years", "FREQ=YEARLY", "2096-02-29T00:00:00", 2,
     ["2096-02-29T00:00:00", "2104-02-29T00:00:00"]),
    ("a local UNTIL is the last one", "FREQ=DAILY;UNTIL=20260603T090000", "2026-06-01T09:00:00", 9,
     ["2026-06-01T09:00:00", "2026-06-02T09:00:00", "2026-06-03T09:00:00"]),
    ("an UNTIL without time includes its day", "FREQ=DAILY;UNTIL=20260602", "2026-06-01T09:00:00", 9,
     ["2026-06-01T09:00:00", "2026-06-02T09:00:00"]),
    ("an interval of weeks begins with WKST", "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU",
     "1997-08-05T09:00:00", 9, ["1997-08-05T09:00:00", "1997-08-17T09:00:00", "1997-08-19T09:00:00",
                                "1997-08-31T09:00:00"]),
    ("hours that do not divide the day go on from midnight", "FREQ=HOURLY;INTERVAL=7", "2026-06-01T20:00:00", 4,
     ["2026-06-01T20:00:00", "2026-06-02T03:00:00", "2026-06-02T10:00:00", "2026-06-02T17:00:00"]),
    ("the calendar ends with the year 9999", "FREQ=YEARLY;INTERVAL=5000", "2000-01-01T00:00:00", 9,
     ["2000-01-01T00:00:00", "7000-01-01T00:00:00"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "start", "most", "expected"), [case[1:] for case in BY_HAND], ids=[c[0] for c in BY_HAND]
)
def test_a_rule_yields_the_times_worked_out_by_hand(text: str, start: str, most: int, expected: list[str]) -> None:
    assert shown(walk(recurrence(text, start), most)) == expected


HARD = [
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29",
    "FREQ=MONTHLY;INTERVAL=12;BYMONTH=3",
    "FREQ=MONTHLY;INTERVAL=2;BYMONTH=1,3,5,7,9,11",
    "FREQ=MONTHLY;BYMONTHDAY=1;BYSETPOS=2",
    "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=366",
    "FREQ=DAILY;INTERVAL=7;BYDAY=TU,WE,TH,FR,SA,SU",
    "FREQ=DAILY;INTERVAL=146097;BYMONTH=3",
    "FREQ=HOURLY;INTERVAL=24;BYHOUR=3",
    "FREQ=MINUTELY;INTERVAL=60;BYMINUTE=7",
    "FREQ=SECONDLY;INTERVAL=86400;BYHOUR=3;BYMONTH=2;BYMONTHDAY=29",
    "FREQ=SECONDLY;INTERVAL=999999999;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=SECONDLY;INTERVAL=604800;BYDAY=TU",
]


@pytest.mark.parametrize("text", HARD)
def test_a_rule_that_never_fires_says_so_within_half_a_second(text: str) -> None:
    found = recurrence(text, "2026-06-01T09:00:00")  # a Monday
    begin = time.process_time()
    assert found.first_at_or_after(found.start) is None
    assert time.process_time() - begin < 0.5


SPARSE = [
    ("FREQ=SECONDLY;BYHOUR=3;BYMINUTE=0;BYSECOND=0;BYMONTH=2;BYMONTHDAY=29", "2028-02-29T03:00:00"),
    ("FREQ=SECONDLY;BYSECOND=59;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO", "2044-02-29T00:00:59"),
    ("FREQ=MINUTELY;INTERVAL=1439;BYHOUR=8;BYMINUTE=59", "2026-06-02T08:59:00"),
    ("FREQ=YEARLY;BYYEARDAY=-366;BYDAY=SA", "2028-01-01T09:00:00"),
    ("FREQ=DAILY;INTERVAL=999;BYMONTH=2;BYMONTHDAY=29", "5024-02-29T09:00:00"),
]


@pytest.mark.parametrize(("text", "expected"), SPARSE)
def test_a_sparse_rule_is_found_within_a_fifth_of_a_second(text: str, expected: str) -> None:
    found = recurrence(text, "2026-06-01T09:00:00")
    begin = time.process_time()
    first = found.first_at_or_after(found.start)
    assert time.process_time() - begin < 0.2
    assert first is not None and from_wall(first).isoformat() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FREQ=SECONDLY", "2999-01-01T00:00:00"),
        ("FREQ=MINUTELY;INTERVAL=7", "2999-01-01T00:03:00"),
        ("FREQ=DAILY;INTERVAL=2", "2999-01-01T09:00:00"),
        ("FREQ=WEEKLY;BYDAY=MO,FR", "2999-01-04T09:00:00"),
    ],
)
def test_a_search_a_thousand_years_on_does_not_start_at_the_beginning(text: str, expected: str) -> None:
    found = recurrence(text, "2026-06-01T09:00:00")
    target = to_wall(datetime(2999, 1, 1))  # noqa: DTZ001
    begin = time.process_time()
    first, last = found.first_at_or_after(target), found.last_at_or_before(target)
    assert time.process_time() - begin < 0.01
    assert first is not None and last is not None and from_wall(first).isoformat() == expected
    begin = time.process_time()
    counted = found.count(last, first)
    found.count(found.start, target)
    assert time.process_time() - begin < 0.05
    assert counted == (1 if first == last else 2)


def test_count_holds_for_searches_that_begin_in_the_middle() -> None:
    found = recurrence("FREQ=DAILY;INTERVAL=3;COUNT=1000", "2026-06-01T09:00:00")
    assert from_wall(found.end).isoformat() == "2034-08-15T09:00:00"  # 999 * 3 days later
    assert found.first_at_or_after(found.end) == found.end
    assert found.first_at_or_after(found.end + 1) is None
    assert found.count(0, found.end + 10**9) == 1000


def test_the_most_instances_are_counted_at_once() -> None:
    found = recurrence("FREQ=DAILY;BYHOUR=9,17;COUNT=100000", "2026-06-01T09:00:00")
    begin = time.process_time()
    assert found.count(0, found.end) == 100_000
    assert time.process_time() - begin < 1


@pytest.mark.parametrize("week", [1, 52, 53, -1])
def test_week_numbers_are_those_of_iso_8601(week: int) -> None:
    found = recurrence(f"FREQ=YEARLY;BYWEEKNO={week};BYDAY=MO,TU,WE,TH,FR,SA,SU", "1999-01-01T00:00:00")
    last = to_wall(datetime(2102, 1, 31))  # noqa: DTZ001
    walls = [wall for wall in walk(found, 1_000) if wall <= last]
    days = (from_wall(found.start + number * 86_400) for number in range(103 * 366))

    def matches(day: datetime) -> bool:
        year, number, _ = day.isocalendar()
        weeks = datetime(year, 12, 28).isocalendar().week  # noqa: DTZ001 - the 28th is always in the last week
        return week in (number, number - weeks - 1)

    assert walls == [to_wall(day) for day in days if to_wall(day) <= last and matches(day)]


@pytest.mark.parametrize(
    "text", ["FREQ=MINUTELY;INTERVAL=7;BYHOUR=1,2,3", "FREQ=HOURLY;INTERVAL=5;BYMINUTE=0,30;BYHOUR=3,9"]
)
def test_an_interval_that_does_not_divide_the_day_is_counted_by_its_turns(text: str) -> None:
    found = recurrence(text, "2026-06-01T01:00:00")
    walls = walk(found, 400)
    assert [found.count(walls[0], wall) for wall in walls] == list(range(1, 401))
    assert [found.count(wall, walls[-1]) for wall in walls] == list(range(400, 0, -1))
    begin = time.process_time()
    century = found.count(found.start, found.start + 100 * 365 * 86_400)
    assert time.process_time() - begin < 0.05
    per_turn = found.count(walls[0] + 86_400, walls[0] + 36 * 86_400 - 1)  # 35 days: a turn of 7, and of 5
    assert abs(century - per_turn * 36_500 / 35) < 100
