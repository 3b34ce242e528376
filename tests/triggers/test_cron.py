"""Cron expressions: what each means, what is refused, and that ours and croniter's values agree where croniter is right."""
# ruff: noqa: E501 (a table has one line a case)

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from calsched.errors import TriggerInvalid
from calsched.triggers import build
from calsched.triggers.cron import CronTrigger
from calsched.triggers.cron_fields import parse
from calsched.triggers.fields import parse_rfc3339 as at
from tests.triggers._vectors import firings

NEW_YEAR = "2026-01-01T00:00:00Z"


def cron(expression: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "cron", "expression": expression, "timezone": "UTC"} | fields


LINES = [
    ("30-30 * * * *", ["2026-01-01T00:30:00Z", "2026-01-01T01:30:00Z"]),
    ("59/15 * * * *", ["2026-01-01T00:59:00Z", "2026-01-01T01:59:00Z"]),
    ("7/20 0 * * *", ["2026-01-01T00:07:00Z", "2026-01-01T00:27:00Z", "2026-01-01T00:47:00Z"]),
    ("*/60 * * * *", ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"]),
    ("0 9 * * mon-mon", ["2026-01-05T09:00:00Z", "2026-01-12T09:00:00Z"]),
    ("0 9 * jan-jan mon", ["2026-01-05T09:00:00Z", "2026-01-12T09:00:00Z"]),
    ("0 0 * * 7", ["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"]),
    ("0 0 * * 0", ["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"]),
    ("0 0 * * 6-7", ["2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z", "2026-01-10T00:00:00Z"]),
    (
        "0 0 * * SAT-MON",
        ["2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z", "2026-01-05T00:00:00Z", "2026-01-10T00:00:00Z"],
    ),
    ("0 22-1 2 * *", ["2026-01-02T00:00:00Z", "2026-01-02T01:00:00Z", "2026-01-02T22:00:00Z", "2026-01-02T23:00:00Z"]),
    ("0 0 30-2 * *", ["2026-01-02T00:00:00Z", "2026-01-30T00:00:00Z", "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"]),
    ("0 0 1 nov-feb *", ["2026-02-01T00:00:00Z", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"]),
    ("0 0 L * *", ["2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z"]),
    (
        "0 0 30-L 1,2,3 *",
        ["2026-01-30T00:00:00Z", "2026-01-31T00:00:00Z", "2026-03-30T00:00:00Z", "2026-03-31T00:00:00Z"],
    ),
    ("0 0 L-2 * *", ["2026-01-29T00:00:00Z", "2026-02-26T00:00:00Z"]),
    ("0 0 LW * *", ["2026-01-30T00:00:00Z", "2026-02-27T00:00:00Z"]),
    (
        "0 0 1W * *",
        ["2026-02-02T00:00:00Z", "2026-03-02T00:00:00Z", "2026-04-01T00:00:00Z"],
    ),  # Sundays, not before the 1st
    ("0 0 15W * *", ["2026-01-15T00:00:00Z", "2026-02-16T00:00:00Z", "2026-03-16T00:00:00Z"]),
    ("0 0 1W,15W * *", ["2026-01-15T00:00:00Z", "2026-02-02T00:00:00Z", "2026-02-16T00:00:00Z"]),
    ("0 0 31W * *", ["2026-01-30T00:00:00Z", "2026-03-31T00:00:00Z", "2026-05-29T00:00:00Z"]),
    ("0 0 * * 5L", ["2026-01-30T00:00:00Z", "2026-02-27T00:00:00Z"]),
    ("0 0 * * friL", ["2026-01-30T00:00:00Z", "2026-02-27T00:00:00Z"]),
    ("0 0 * * MON#2", ["2026-01-12T00:00:00Z", "2026-02-09T00:00:00Z"]),
    ("0 0 * * 7#1", ["2026-01-04T00:00:00Z", "2026-02-01T00:00:00Z"]),
    ("0 0 13 * 5", ["2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z"]),  # or
    ("0 0 */2 * 5", ["2026-01-09T00:00:00Z", "2026-01-23T00:00:00Z"]),  # and: it begins with *
    ("0 0 13 * */2", ["2026-01-13T00:00:00Z", "2026-06-13T00:00:00Z"]),  # and: Sunday, Tuesday, Thursday, Saturday
    ("0 0 *,13 * 1", ["2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z"]),  # and
    ("0 0 13,* * 1", ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"]),  # or: every day
    ("0 0 ? * 1", ["2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z"]),
    ("0 0 1 * ?", ["2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"]),
    ("0\t9  * * *", ["2026-01-01T09:00:00Z", "2026-01-02T09:00:00Z"]),
    ("00 09 * * *\n", ["2026-01-01T09:00:00Z", "2026-01-02T09:00:00Z"]),
    ("@yearly", ["2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"]),
    ("@Annually", ["2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"]),
    ("@monthly", ["2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"]),
    ("@weekly", ["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"]),
    ("@daily", ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"]),
    ("@midnight", ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"]),
    ("@hourly", ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"]),
]


@pytest.mark.parametrize(("expression", "expected"), LINES, ids=[line[0] for line in LINES])
def test_an_expression_has_these_slots(expression: str, expected: list[str]) -> None:
    assert firings(build(cron(expression)), NEW_YEAR, len(expected)) == expected


def test_seconds_stand_where_they_are_said_to_stand() -> None:
    expected = ["2026-01-01T12:00:30Z", "2026-01-02T12:00:30Z"]
    assert firings(build(cron("30 0 12 * * *", seconds="first")), NEW_YEAR, 2) == expected
    assert firings(build(cron("0 12 * * * 30", seconds="last")), NEW_YEAR, 2) == expected


REFUSED = [
    ("", "expression: expected five fields, minute hour day-of-month month day-of-week, got none"),
    ("* * * *", "expression: expected 5 fields, minute hour day-of-month month day-of-week, got 4"),
    ("* * * * * *", "expression: expected 5 fields, minute hour day-of-month month day-of-week, got 6 (for six, say where the seconds stand: seconds: first, or seconds: last)"),
    ("0 9 * * 1-5 2026", "expression: expected 5 fields, minute hour day-of-month month day-of-week, got 6 (there is no field for the year)"),
    ("60 * * * *", "expression: minute: expected 0 to 59, got '60'"),
    ("* 24 * * *", "expression: hour: expected 0 to 23, got '24'"),
    ("* * 0 * *", "expression: day of month: expected 1 to 31, got '0'"),
    ("* * * 13 *", "expression: month: expected 1 to 12 or jan to dec, got '13'"),
    ("* * * * 8", "expression: day of week: expected 0 to 7 or sun to sat, got '8'"),
    ("5-1 * * * *", "expression: minute: the range '5-1' runs backwards (write 5-59,0-1)"),
    ("*/0 * * * *", "expression: minute: expected a step from 1 to 60, got '/0' in '*/0'"),
    ("*/90 * * * *", "expression: minute: expected a step from 1 to 60, got '/90' in '*/90' (a longer step is an interval: a trigger of kind interval)"),
    ("1,,2 * * * *", "expression: minute: there is an empty part in '1,,2'"),
    ("0 9 * * 1-5,", "expression: day of week: there is an empty part in '1-5,'"),
    ("0 9 * * Monday", "expression: day of week: expected 0 to 7 or sun to sat, got 'monday' in 'Monday' (names have three letters: mon)"),
    ("0 9 * January *", "expression: month: expected 1 to 12 or jan to dec, got 'january' in 'January' (names have three letters: jan)"),
    ("0 9 * * MON#6", "expression: day of week: expected #1 to #5, got '#6' in 'MON#6' (no month has six of a weekday)"),
    ("0 9 * * L", "expression: day of week: expected 0 to 7 or sun to sat, got 'l' in 'L' (5L is the last Friday of the month)"),
    ("0 9 1-15W * *", "expression: day of month: expected 1 to 31, a range, a step or '*', got '1-15W'"),
    ("0 9 L-31 * *", "expression: day of month: expected L-1 to L-30, got 'L-31'"),
    ("R 9 * * *", "expression: minute: expected 0 to 59, got 'r' in 'R' (random fields would differ at every start; H spreads schedules by their ids)"),
    ("R(0-5) 9 * * *", "expression: minute: expected 0 to 59, a range, a step or '*', got 'R(0-5)' (random fields would differ at every start; H spreads schedules by their ids)"),
    ("-5 9 * * *", "expression: minute: expected 0 to 59, a range, a step or '*', got '-5'"),
    ("5/ 9 * * *", "expression: minute: expected 0 to 59, a range, a step or '*', got '5/'"),
    ("*-5 9 * * *", "expression: minute: expected 0 to 59, a range, a step or '*', got '*-5'"),
    ("1-5-9 9 * * *", "expression: minute: expected 0 to 59, a range, a step or '*', got '1-5-9'"),
    ("*/5/2 9 * * *", "expression: minute: expected 0 to 59, a range, a step or '*', got '*/5/2'"),
    ("jan 9 * * *", "expression: minute: expected 0 to 59, got 'jan' (names have three letters: jan)"),
    ("0\u00a09 * * *", "expression: minute: expected ASCII characters with spaces or tabs between the fields, got '\\xa0' (U+00A0)"),
    ("0 9 * *\u30001", "expression: month: expected ASCII characters with spaces or tabs between the fields, got '\\u3000' (U+3000)"),
    ("0 \u0669 * * *", "expression: hour: expected ASCII characters with spaces or tabs between the fields, got '\u0669' (U+0669)"),
    ("0 9 * *\n1", "expression: expected one line"),
    ("0 0 31 4,6,9,11 *", "expression: day of month: there is no 31 in month 4,6,9,11: the rule can never fire"),
    ("0 0 30,31 2 *", "expression: day of month: there is no 30,31 in month 2: the rule can never fire"),
    ("0 0 L-29 2 *", "expression: no day ever matches: the rule can never fire"),
    ("@reboot", "expression: there is no '@reboot' (a start of the machine is no instant that a calendar knows)"),
    ("@every 5m", "expression: there is no '@every 5m' (a fixed interval is a trigger of kind interval)"),
    ("@fortnightly", "expression: there is no '@fortnightly' (known: @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly)"),
    ("1" * 2000, "expression: expected at most 1000 characters, got 2000"),
    (5, "expression: expected text, got 5"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "message"), REFUSED, ids=[repr(line[0])[:24] for line in REFUSED])
def test_an_expression_that_would_be_misread_is_refused_with_the_field_named(expression: Any, message: str) -> None:
    with pytest.raises(TriggerInvalid) as caught:
        build(cron(expression))
    assert str(caught.value) == message


def test_every_bad_field_is_told_at_once() -> None:
    with pytest.raises(TriggerInvalid) as caught:
        build(cron("60 24 0 13 8,mo", timezone="utc"))
    assert [problem.message.split(":")[0] for problem in caught.value.problems] == [
        "there is no zone 'utc'",
        "minute",
        "hour",
        "day of month",
        "month",
        "day of week",  # 8
        "day of week",  # mo
    ]


# --- H -----------------------------------------------------------------------------------------------------------------


def test_h_is_the_same_for_one_id_and_spread_over_many() -> None:
    def drawn(name: str) -> tuple[int, int]:
        found = parse("H H * * *", seconds=None, hash_id=name)
        return found.minutes[0], found.hours[0]

    assert drawn("report") == drawn("report")
    minutes = {drawn(f"schedule-{number}")[0] for number in range(600)}
    hours = {drawn(f"schedule-{number}")[1] for number in range(600)}
    assert len(minutes) == 60 and len(hours) == 24


def test_h_keeps_to_its_range_and_step() -> None:
    for number in range(50):
        found = parse("H(10-19)/3 H/8 H * H", seconds=None, hash_id=f"s{number}")
        assert all(10 <= minute <= 19 for minute in found.minutes) and len(found.minutes) in (3, 4)
        assert len(found.hours) == 3 and found.hours[0] < 8 and found.hours[1] - found.hours[0] == 8
        assert found.days[0] <= 28 and found.weekdays[0] <= 6


def test_h_needs_an_id_and_keeps_it() -> None:
    with pytest.raises(TriggerInvalid, match="minute: 'H' is spread by the schedule's id, and there is none here"):
        build(cron("H 9 * * *"))
    trigger = build(cron("H 9 * * *"), schedule_id="report")
    assert trigger.spec()["hashId"] == "report"
    assert build(trigger.spec()) == trigger == CronTrigger("H 9 * * *", timezone="UTC", schedule_id="report")
    assert build(cron("H 9 * * *"), schedule_id="other") != trigger


def test_an_id_does_not_tell_rules_without_h_apart() -> None:
    assert build(cron("0 9 * * THU"), schedule_id="a") == build(cron("0 9 * * THU"), schedule_id="b")


# --- clock changes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "fold"),
    [
        ("*/30 * * * *", "both"),
        ("0 0-23 * * *", "both"),
        ("0 */1 * * *", "both"),
        ("@hourly", "both"),
        ("30 1 * * *", "first"),
        ("0 */2 * * *", "first"),
    ],
)
def test_a_cadence_keeps_both_passes_of_a_repeated_hour_unless_told_otherwise(expression: str, fold: str) -> None:
    assert build(cron(expression)).spec()["fold"] == fold
    assert build(cron(expression, fold="second")).spec()["fold"] == "second"


def test_a_half_hourly_job_does_not_fall_silent_in_autumn() -> None:
    trigger = build(cron("*/30 * * * *", timezone="America/New_York"))
    expected = [f"2026-11-01T{clock}:00Z" for clock in ("05:00", "05:30", "06:00", "06:30", "07:00")]
    assert firings(trigger, "2026-11-01T04:30:00Z", 5) == expected


def test_an_instant_that_an_expression_does_not_name_is_explained() -> None:
    trigger = build(cron("*/5 9-17 13 2 1-5"))
    assert trigger.explain(at("2026-01-13T09:00:00Z")) == "2026-01-13 does not match month '2'"
    assert (
        trigger.explain(at("2026-02-14T09:00:00Z"))
        == "2026-02-14, a Saturday, does not match day of month '13' or day of week '1-5'"
    )
    assert trigger.explain(at("2026-02-13T08:03:00Z")) == "08:03 does not match hour '9-17', minute '*/5'"


# --- croniter where it is right ----------------------------------------------------------------------------------------


def _part(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    ranges = st.tuples(number, number).map(sorted).filter(lambda pair: pair[0] < pair[1])
    step = st.integers(1, (high - low) // 2)
    return st.one_of(
        st.just("*"),
        number.map(str),
        step.map(lambda n: f"*/{n}"),
        ranges.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.tuples(ranges, step).map(lambda both: f"{both[0][0]}-{both[0][1]}/{both[1]}"),
        st.lists(number, min_size=2, max_size=4, unique=True).map(lambda found: ",".join(map(str, found))),
    )


@settings(max_examples=60, deadline=None)
@given(st.tuples(_part(0, 59), _part(0, 23), _part(1, 28), _part(1, 12), _part(0, 6)), st.integers(0, 3000))
def test_croniter_agrees_in_utc(parts: tuple[str, ...], day: int) -> None:
    expression = " ".join(parts)
    start = datetime.fromtimestamp(1_700_000_000 + day * 86_413, tz=UTC)
    either = not (parts[2].startswith("*") or parts[4].startswith("*"))
    theirs = croniter(expression, start, ret_type=datetime, day_or=either)
    trigger = build(cron(expression))
    slot = int(start.timestamp()) * 1000
    for _ in range(5):
        expected = theirs.get_next()
        slot = trigger.next_after(slot) or 0
        assert slot == int(expected.timestamp()) * 1000
