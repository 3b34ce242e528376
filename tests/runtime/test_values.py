"""Values go into the ledger and come out the same, or are refused with their path."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calsched.errors import InvalidInput
from calsched.values import check, decode, encode

WINNIPEG = ZoneInfo("America/Winnipeg")
text = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
    | st.dates()
    | st.times()
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC) | st.just(timezone(timedelta(hours=-5, minutes=30))))
    | st.datetimes(timezones=st.just(WINNIPEG)).filter(lambda moment: 1970 <= moment.year < 2037)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.uuids()
    | st.binary(max_size=20)
)
keys = text | st.sampled_from(["$date", "$object", "$decimal", "$", "$bytes"])
trees = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=3))


def exactly(value: Any) -> Any:
    """A form in which 1, 1.0 and True differ, and so do the zones of one instant."""
    if isinstance(value, list):
        return [exactly(item) for item in value]
    if isinstance(value, dict):
        return {key: exactly(item) for key, item in value.items()}
    zone = getattr(value, "tzinfo", None)
    return type(value), repr(value), getattr(zone, "key", zone and str(zone)), getattr(value, "fold", 0)


@given(trees)
def test_what_goes_in_comes_out_through_json(value: Any) -> None:
    stored = json.loads(json.dumps(encode(value), allow_nan=False))
    assert exactly(decode(stored)) == exactly(value)


def test_the_stored_forms_are_these() -> None:
    assert encode(date(2026, 3, 8)) == {"$date": "2026-03-08"}
    assert encode(Decimal("1.50")) == {"$decimal": "1.50"}
    assert encode(b"\x00\xff") == {"$bytes": "AP8="}
    assert encode(UUID(int=1)) == {"$uuid": "00000000-0000-0000-0000-000000000001"}
    assert encode(time(9, 30)) == {"$time": "09:30:00"}
    assert encode(datetime(2026, 3, 8, 9, tzinfo=WINNIPEG)) == {
        "$datetime": "2026-03-08T09:00:00-05:00[America/Winnipeg]"
    }


def test_a_users_own_tag_is_escaped() -> None:
    mine = {"$date": "not a date"}
    assert encode(mine) == {"$object": {"$date": "not a date"}}
    assert decode(encode(mine)) == mine
    assert decode(encode({"$object": {"$date": "x"}})) == {"$object": {"$date": "x"}}


def test_the_second_of_two_equal_wall_times_keeps_its_place() -> None:
    second = datetime(2026, 11, 1, 1, 30, fold=1, tzinfo=WINNIPEG)
    assert decode(encode(second)).utcoffset() == timedelta(hours=-6)


@pytest.mark.parametrize(
    ("value", "path", "part"),
    [
        (float("nan"), "x", "finite"),
        (float("inf"), "x", "finite"),
        (Decimal("NaN"), "x", "finite"),
        ("a\x00b", "x", "NUL"),
        ("\ud800", "x", "surrogate"),
        ({1: "a"}, "x", "text as key"),
        ({"a\x00": 1}, "x.'a\\x00'", "NUL"),
        ((1, 2), "x", "write it as a list"),
        ({1, 2}, "x", "write it as a list"),
        (object(), "x", "expected a JSON value"),
        (timedelta(1), "x", "number of seconds"),
        pytest.param(10**5000, "x", "digits", id="long"),
        ([1, {"when": {2}}], "x[1].when", "write it as a list"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_path(value: Any, path: str, part: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        encode(value, "x")
    (problem,) = caught.value.problems
    assert problem.path == path
    assert part in str(problem)


def test_all_problems_come_at_once() -> None:
    problems = check({"a": float("nan"), "b": [set(), "\x00"]})
    assert [problem.path for problem in problems] == ["a", "b[0]", "b[1]"]


def test_nesting_is_bounded() -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    assert "nested deeper" in str(check(deep)[0])


@pytest.mark.parametrize("stored", [{"$date": "2026-02-30"}, {"$decimal": "x"}, {"$bytes": "%"}, {"$future": 1}])
def test_a_form_that_nobody_writes_is_refused(stored: Any) -> None:
    with pytest.raises(InvalidInput):
        decode(stored)
