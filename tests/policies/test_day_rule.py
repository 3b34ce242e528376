"""Rolling closed days, and business days of a month: tables with days worked out by hand from a wall calendar."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calsched.policies.day_rule import (
    REACH,
    ROLLS,
    Roll,
    business_day,
    business_days,
    is_business_day,
    land,
    open_at_or_after,
    open_at_or_before,
    origins,
)


def day(text: str) -> int:
    return date.fromisoformat(text).toordinal()


def closed(*extra: str) -> Callable[[int], bool]:
    """A calendar that is closed at weekends and on ``extra``."""
    days = {day(text) for text in extra}
    return lambda ordinal: ordinal % 7 not in (6, 0) and ordinal not in days


weekends = closed()

# 2026-07-04 and 2026-10-31 are Saturdays, 2026-08-30 and 2026-11-01 Sundays.
LANDINGS = [
    ("2026-07-06", "skip", weekends, "2026-07-06"),
    ("2026-07-04", "skip", weekends, None),
    ("2026-07-04", "following", weekends, "2026-07-06"),
    ("2026-07-04", "preceding", weekends, "2026-07-03"),
    ("2026-07-04", "modifiedFollowing", weekends, "2026-07-06"),
    ("2026-07-04", "preceding", closed("2026-07-03"), "2026-07-02"),
    ("2026-10-31", "following", weekends, "2026-11-02"),
    ("2026-10-31", "modifiedFollowing", weekends, "2026-10-30"),
    ("2026-08-30", "modifiedFollowing", weekends, "2026-08-31"),
    ("2026-08-30", "modifiedFollowing", closed("2026-08-31"), "2026-08-28"),
    ("2026-11-01", "preceding", weekends, "2026-10-30"),
    ("2026-11-01", "modifiedFollowing", weekends, "2026-11-02"),
    ("2026-12-31", "modifiedFollowing", closed("2026-12-31"), "2026-12-30"),
    ("2026-12-31", "following", closed("2026-12-31", "2027-01-01"), "2027-01-04"),
]


@pytest.mark.parametrize(("nominal", "roll", "is_open", "expected"), LANDINGS)
def test_a_closed_day_lands_where_its_convention_says(
    nominal: str, roll: Roll, is_open: Callable[[int], bool], expected: str | None
) -> None:
    landed = land(day(nominal), roll, is_open)
    assert (None if landed is None else date.fromordinal(landed).isoformat()) == expected


@pytest.mark.parametrize(
    ("landing", "roll", "expected"),
    [
        ("2026-11-02", "skip", ["2026-11-02"]),
        ("2026-11-02", "following", ["2026-10-31", "2026-11-01", "2026-11-02"]),
        ("2026-11-02", "modifiedFollowing", ["2026-11-01", "2026-11-02"]),
        ("2026-10-30", "modifiedFollowing", ["2026-10-30", "2026-10-31"]),
        ("2026-10-30", "preceding", ["2026-10-30", "2026-10-31", "2026-11-01"]),
        ("2026-10-31", "preceding", []),
    ],
)
def test_the_origins_of_a_day_are_those_that_land_on_it(landing: str, roll: Roll, expected: list[str]) -> None:
    assert [date.fromordinal(origin).isoformat() for origin in origins(day(landing), roll, weekends)] == expected


@given(st.sets(st.integers(0, 80), max_size=60), st.sampled_from(ROLLS))
@settings(max_examples=60, deadline=None)
def test_origins_are_the_inverse_of_landing(closed_days: set[int], roll: Roll) -> None:
    start = day("2026-11-20")

    def is_open(ordinal: int) -> bool:
        return ordinal - start not in closed_days

    span = range(start - 100, start + 181)
    landings: dict[int, list[int]] = {}
    for nominal in span:
        landed = land(nominal, roll, is_open)
        if landed is not None:
            landings.setdefault(landed, []).append(nominal)
    for landing in range(start, start + 81):
        assert list(origins(landing, roll, is_open)) == landings.get(landing, [])


@pytest.mark.parametrize("roll", ["following", "preceding", "modifiedFollowing"])
def test_a_calendar_that_is_closed_for_more_than_a_leap_year_has_no_landing(roll: Roll) -> None:
    asked: list[int] = []

    def never(ordinal: int) -> bool:
        asked.append(ordinal)
        return False

    assert land(day("2026-07-04"), roll, never) is None
    assert len(asked) <= 2 * (REACH + 2)


def test_an_open_day_at_the_edge_of_the_reach_is_found_and_one_past_it_is_not() -> None:
    start = day("2026-07-04")
    assert open_at_or_after(start, lambda ordinal: ordinal == start + REACH) == start + REACH
    assert open_at_or_after(start, lambda ordinal: ordinal == start + REACH + 1) is None
    assert open_at_or_before(start, lambda ordinal: ordinal == start - REACH) == start - REACH
    assert open_at_or_before(start, lambda ordinal: ordinal == start - REACH - 1) is None


def test_searches_stop_at_the_ends_of_the_calendar() -> None:
    assert open_at_or_after(date.max.toordinal() - 3, lambda _: False) is None
    assert open_at_or_before(4, lambda _: False) is None
    assert origins(date.max.toordinal(), "preceding", lambda _: True) == (date.max.toordinal(),)


@pytest.mark.parametrize(
    ("year", "month", "number", "is_open", "expected"),
    [
        (2026, 8, 1, weekends, "2026-08-03"),  # the 1st is a Saturday
        (2026, 8, 5, weekends, "2026-08-07"),
        (2026, 8, -1, weekends, "2026-08-31"),
        (2026, 5, -1, weekends, "2026-05-29"),  # the 31st is a Sunday
        (2026, 2, 20, weekends, "2026-02-27"),
        (2026, 2, 21, weekends, None),
        (2026, 1, 1, closed("2026-01-01", "2026-01-02"), "2026-01-05"),
        (2026, 2, 1, lambda _: False, None),
    ],
)
def test_the_nth_business_day_of_a_month(
    year: int, month: int, number: int, is_open: Callable[[int], bool], expected: str | None
) -> None:
    found = business_day(year, month, number, is_open)
    assert (None if found is None else date.fromordinal(found).isoformat()) == expected


def test_several_business_days_come_in_order_and_once() -> None:
    days = business_days(2026, 2, [1, 5, -1, 20], weekends)
    assert [date.fromordinal(found).day for found in days] == [2, 6, 27]
    assert [is_business_day(day(f"2026-02-{number:02d}"), [1, -1], weekends) for number in (1, 2, 3, 27, 28)] == [
        False,
        True,
        False,
        True,
        False,
    ]


def test_there_is_no_zeroth_business_day() -> None:
    with pytest.raises(ValueError, match="0 is neither"):
        business_day(2026, 2, 0, weekends)
