"""Intervals, single instants, several rules as one, and how stored forms are read."""
# ruff: noqa: E501 (a table has one line a case)

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from calsched.clock import LAST_INSTANT
from calsched.errors import TriggerInvalid
from calsched.triggers import build
from calsched.triggers.any_of import AnyOfTrigger
from calsched.triggers.calendar import CalendarTrigger
from calsched.triggers.fields import parse_rfc3339 as at
from calsched.triggers.interval import IntervalTrigger
from calsched.triggers.once import OnceTrigger
from tests.triggers._vectors import firings

NEW_YEAR = "2026-01-01T00:00:00Z"
YEAR = 365 * 86_400_000


def interval(**fields: Any) -> dict[str, Any]:
    return {"kind": "interval"} | fields


INTERVALS = [
    # 2026 began 490,896 hours after the epoch: 98,179 times five, and one
    ("aligned to the epoch", interval(hours=5), ["2026-01-01T04:00:00Z", "2026-01-01T09:00:00Z"]),
    ("from a first tick", interval(minutes=10, firstTick="2026-01-01T00:03:00Z"), ["2026-01-01T00:03:00Z", "2026-01-01T00:13:00Z"]),
    ("from a start", interval(minutes=10, start="2026-01-01T00:03:00Z"), ["2026-01-01T00:03:00Z", "2026-01-01T00:13:00Z"]),
    ("not before a start", interval(minutes=10, firstTick="2025-01-01T00:03:00Z", start="2026-01-01T00:10:00Z"), ["2026-01-01T00:13:00Z"]),
    ("up to an end", interval(minutes=10, end="2026-01-01T00:20:00Z"), ["2026-01-01T00:10:00Z", "2026-01-01T00:20:00Z"]),
    ("units add up", interval(days=1, hours=12, firstTick="2026-01-01T00:00:00Z"), ["2026-01-02T12:00:00Z", "2026-01-04T00:00:00Z"]),
    ("milliseconds", interval(intervalMs=1500), ["2026-01-01T00:00:01.500Z", "2026-01-01T00:00:03Z"]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), [line[1:] for line in INTERVALS], ids=[line[0] for line in INTERVALS])
def test_an_interval_has_these_slots(spec: dict[str, Any], expected: list[str]) -> None:
    assert firings(build(spec), NEW_YEAR, len(expected)) == expected


def test_a_year_of_milliseconds_is_counted_by_arithmetic() -> None:
    every = IntervalTrigger(milliseconds=1)
    now = at(NEW_YEAR)
    assert every.count(now + 1, now + YEAR) == YEAR
    assert every.nth_after(now, YEAR) == now + YEAR


def test_an_interval_ends_with_the_year_9999() -> None:
    daily = IntervalTrigger(days=1)
    last = daily.last_at_or_before(LAST_INSTANT)
    assert last == at("9999-12-31T00:00:00Z")
    assert daily.next_after(last) is None
    assert daily.nth_after(last, 1) is None


def test_ticks_aligned_to_the_epoch_go_back_before_it() -> None:
    assert IntervalTrigger(hours=1).last_at_or_before(-1) == -3_600_000
    assert IntervalTrigger(hours=1, first_tick="1970-01-01T00:00:00Z").last_at_or_before(-1) is None


INTERVALS_REFUSED = [
    (interval(), "intervalMs: an interval needs its length (intervalMs, or any of weeks, days, hours, minutes, seconds, milliseconds)"),
    (interval(seconds=0), "seconds: expected a whole number of seconds above zero, got 0"),
    (interval(seconds=-60), "seconds: expected a whole number of seconds above zero, got -60"),
    (interval(seconds="60"), "seconds: expected a whole number of seconds, got '60' (without quotes)"),
    (interval(seconds=1.5), "seconds: expected a whole number of seconds, got 1.5"),
    (interval(seconds=True), "seconds: expected a whole number of seconds, got True"),
    (interval(seconds=None), "seconds: expected a whole number of seconds, got None"),
    (interval(intervalMs=10**30), "intervalMs: expected a whole number of milliseconds up to 253402300799999, got 1000000000000000000000000000000"),
    (interval(weeks=10**14), "weeks: expected an interval of 1 ms up to 253402300799999 ms in all, got 60480000000000000000000 ms"),
    (interval(intervalMs=5, seconds=1), "seconds: there is 'seconds' besides intervalMs; give one of them"),
    (interval(seconds=1, firstTick="2026-01-01T00:00:00"), "firstTick: expected an RFC 3339 time such as '2026-10-12T09:00:00Z', got '2026-01-01T00:00:00' (a time without Z or an offset names no instant)"),
    (interval(seconds=1, firstTick=1735689600000), "firstTick: expected an RFC 3339 time such as '2026-10-12T09:00:00Z', got 1735689600000"),
    (interval(seconds=1, firstTick="2026-02-30T00:00:00Z"), "firstTick: there is no time '2026-02-30T00:00:00Z': day is out of range for month"),
    (interval(seconds=1, firstTick="2026-01-01T24:00:00Z"), "firstTick: there is no time '2026-01-01T24:00:00Z': hour must be in 0..23"),
    (interval(hours=2, firstTick="2026-01-01T01:00:00Z", end="2026-01-01T00:00:00Z"), "end: there is no tick up to 2026-01-01T00:00:00Z; the first is 2026-01-01T01:00:00Z"),
    (interval(hours=1, every=5), "every: 'every' is no field of this trigger (known here: days, end, firstTick, hours, intervalMs, milliseconds, minutes, seconds, start, weeks)"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "message"), INTERVALS_REFUSED, ids=[line[1][:40] for line in INTERVALS_REFUSED])
def test_an_interval_that_makes_no_sense_is_refused(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(TriggerInvalid) as caught:
        build(spec)
    assert str(caught.value) == message


def test_an_interval_explains_itself() -> None:
    trigger = build(interval(hours=2, firstTick="2026-01-01T01:00:00Z", end="2026-01-02T00:00:00Z"))
    assert (
        trigger.explain(at("2026-01-01T02:00:00Z"))
        == "it lies between two ticks, 2026-01-01T01:00:00Z and 2026-01-01T03:00:00Z"
    )
    assert trigger.explain(at("2026-01-01T00:00:00Z")) == "the first tick is at 2026-01-01T01:00:00Z"
    assert trigger.explain(at("2026-01-02T01:00:00Z")) == "the last tick is at 2026-01-01T23:00:00Z"
    assert trigger.explain(at("2026-01-01T03:00:00Z")) is None


def test_python_and_stored_intervals_are_equal() -> None:
    assert IntervalTrigger(minutes=5, timezone="Europe/Berlin") == build(interval(intervalMs=300_000))
    first = datetime(2026, 1, 1, tzinfo=UTC)
    assert IntervalTrigger(minutes=5, first_tick=first) == build(interval(minutes=5, firstTick=NEW_YEAR))
    with pytest.raises(TriggerInvalid, match="an interval needs its length"):
        IntervalTrigger()


# --- once --------------------------------------------------------------------------------------------------------------


def once(at: Any, **fields: Any) -> dict[str, Any]:
    return {"kind": "once", "at": at} | fields


NEW_YORK = {"timezone": "America/New_York"}
ONCE = [
    (once("2026-06-01T09:00:00+02:00"), ["2026-06-01T07:00:00Z"]),
    (once("2026-06-01T09:00:00.250Z"), ["2026-06-01T09:00:00.250Z"]),
    (once("2026-06-01T09:00", **NEW_YORK), ["2026-06-01T13:00:00Z"]),
    (once("2026-06-01", **NEW_YORK), ["2026-06-01T04:00:00Z"]),
    (once("2026-03-08T02:30:00", gap="shift", **NEW_YORK), ["2026-03-08T07:30:00Z"]),
    (once("2026-03-08T02:30:00", gap="boundary", **NEW_YORK), ["2026-03-08T07:00:00Z"]),
    (once("2026-11-01T01:30:00", **NEW_YORK), ["2026-11-01T05:30:00Z"]),
    (once("2026-11-01T01:30:00", fold="both", **NEW_YORK), ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"]),
]


@pytest.mark.parametrize(("spec", "expected"), ONCE)
def test_a_single_time_is_a_slot_once(spec: dict[str, Any], expected: list[str]) -> None:
    trigger = build(spec)
    assert firings(trigger, NEW_YEAR, 5) == expected
    assert trigger.count(0, LAST_INSTANT) == len(expected)
    assert trigger.last_at_or_before(LAST_INSTANT) == at(expected[-1])
    assert build(trigger.spec()) == trigger == pickle.loads(pickle.dumps(trigger))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "once"}, "at: a trigger of kind once needs its time"),
        (once("2026-06-01T09:00:00"), "timezone: a wall-clock rule needs a zone"),
        (once("2026-03-08T02:30:00", **NEW_YORK), "at: 02:30 does not exist on 2026-03-08 in America/New_York"),
        (once("tomorrow"), "at: expected an RFC 3339 time"),
        (once(1735689600000), "at: expected an RFC 3339 time"),
        (once("2026-02-29", **NEW_YORK), "at: there is no time '2026-02-29'"),
    ],
)
def test_a_single_time_that_is_none_is_refused(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(TriggerInvalid) as caught:
        build(spec)
    assert str(caught.value).startswith(message)


def test_a_single_wall_time_that_has_run_is_not_due_again() -> None:
    trigger = OnceTrigger("2026-06-01T09:00:00", timezone="America/New_York")
    assert trigger.local(at("2026-06-01T13:00:00Z")) == "2026-06-01T09:00:00"
    assert trigger.first_after_local("2026-06-01T08:59:59") == at("2026-06-01T13:00:00Z")
    assert trigger.first_after_local("2026-06-01T09:00:00") is None
    assert trigger.explain(0) == "the only slot is 2026-06-01T13:00:00Z"


# --- any of ------------------------------------------------------------------------------------------------------------


def test_any_of_several_rules_fires_once_where_they_agree() -> None:
    trigger = build(
        {
            "kind": "anyOf",
            "triggers": [
                {"kind": "interval", "hours": 6},
                {"kind": "calendar", "at": ["06:00", "07:00"], "timezone": "UTC"},
                {"kind": "once", "at": "2026-01-01T12:00:00Z"},
            ],
        }
    )
    expected = [f"2026-01-01T{hour}:00:00Z" for hour in ("06", "07", "12", "18")]
    assert firings(trigger, NEW_YEAR, 4) == expected
    assert trigger.count(at(NEW_YEAR) + 1, at("2026-01-01T18:00:00Z")) == 4
    assert trigger.last_at_or_before(at("2026-01-01T11:59:59Z")) == at("2026-01-01T07:00:00Z")
    assert trigger.nth_after(at(NEW_YEAR), 4) == at("2026-01-01T18:00:00Z")
    assert build(trigger.spec()) == trigger


def test_a_far_slot_of_any_of_is_found_by_counting() -> None:
    trigger = AnyOfTrigger([IntervalTrigger(hours=6), CalendarTrigger(at="07:00", timezone="UTC")])
    assert trigger.nth_after(at(NEW_YEAR), 5 * 365) == at("2027-01-01T00:00:00Z")


def test_any_of_has_the_zone_of_its_first_member_in_one() -> None:
    berlin = CalendarTrigger(at="09:00", timezone="Europe/Berlin")
    tokyo = CalendarTrigger(at="09:00", timezone="Asia/Tokyo")
    trigger = AnyOfTrigger([IntervalTrigger(days=1), berlin, tokyo])
    slot = at("2026-01-02T08:00:00Z")
    assert trigger.zone == "Europe/Berlin"
    assert trigger.local(slot) == "2026-01-02T09:00:00"
    assert trigger.first_after_local("2026-01-02T09:00:00") == at("2026-01-03T00:00:00Z")
    reasons = trigger.explain(at("2026-01-02T10:00:00Z")) or ""
    assert reasons.count("(1)") == reasons.count("(3)") == 1
    assert trigger.explain(slot) is None


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ({"kind": "anyOf", "triggers": []}, ["triggers"]),
        ({"kind": "anyOf"}, ["triggers"]),
        ({"kind": "anyOf", "triggers": [{"kind": "interval"}, 5]}, ["triggers[0].intervalMs", "triggers[1]"]),
        (
            {"kind": "anyOf", "triggers": [{"kind": "anyOf", "triggers": [{"kind": "cron"}]}]},
            ["triggers[0].triggers[0].timezone", "triggers[0].triggers[0].expression"],
        ),
    ],
)
def test_problems_of_members_are_told_with_their_places(spec: dict[str, Any], paths: list[str]) -> None:
    with pytest.raises(TriggerInvalid) as caught:
        build(spec)
    assert [problem.path for problem in caught.value.problems] == paths


def test_deep_and_endless_nesting_is_refused() -> None:
    spec: dict[str, Any] = {"kind": "interval", "hours": 1}
    for _ in range(20):
        spec = {"kind": "anyOf", "triggers": [spec]}
    with pytest.raises(TriggerInvalid, match="at most 8 levels"):
        build(spec)
    for _ in range(20_000):
        spec = {"kind": "anyOf", "triggers": [spec]}
    with pytest.raises(TriggerInvalid, match=r"nested too deeply|at most 8 levels"):
        build(spec)


# --- build -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "kind: a trigger needs its kind: one of interval, calendar, cron"),
        ({"kind": "crn"}, "(did you mean 'cron'?)"),
        ({"kind": 5}, "kind: expected one of"),
        ({"kind": ["cron"]}, "kind: expected one of"),
        ([], "expected an object with 'kind', got []"),
        (None, "expected an object with 'kind', got None"),
        ("cron", "expected an object with 'kind', got 'cron'"),
    ],
)
def test_what_is_no_trigger_is_refused(spec: Any, message: str) -> None:
    with pytest.raises(TriggerInvalid) as caught:
        build(spec)
    assert message in str(caught.value)


def test_equal_forms_give_one_trigger() -> None:
    one = build({"kind": "calendar", "at": "09:00", "timezone": "UTC"})
    assert build({"timezone": "UTC", "kind": "calendar", "at": "09:00"}) is one
    assert build({"kind": "calendar", "at": "09:00"}, default_zone="UTC") == one
    assert build({"kind": "calendar", "at": "09:00"}, default_zone="Europe/Berlin") != one


def test_a_calendar_that_changes_is_asked_anew() -> None:
    class Closed:
        version = 1

        def __init__(self, name: str, weekday: int) -> None:
            self.name, self.weekday = name, weekday

        def is_open(self, day: Any) -> bool:
            return bool(day.weekday() != self.weekday)

    spec = {"kind": "calendar", "at": "09:00", "timezone": "UTC", "calendar": "us"}
    thursday = build(spec, calendars={"us": Closed("us", 3)})
    friday = build(spec, calendars={"us": Closed("us", 4)})
    assert firings(thursday, NEW_YEAR, 1) == ["2026-01-02T09:00:00Z"]
    assert firings(friday, NEW_YEAR, 1) == ["2026-01-01T09:00:00Z"]


def test_triggers_copy_and_compare_by_value() -> None:
    trigger = CalendarTrigger(at="09:00", timezone="UTC")
    assert copy.copy(trigger) == copy.deepcopy(trigger) == trigger
    assert trigger != CalendarTrigger(at="09:01", timezone="UTC")
    assert trigger != IntervalTrigger(days=1)
    assert len({trigger, copy.copy(trigger)}) == 1
    assert "at=['09:00:00']" in repr(trigger)


def test_a_pickle_of_a_later_release_is_refused_with_what_to_do() -> None:
    trigger = IntervalTrigger(days=1)
    state = trigger.__getstate__() | {"version": 2}
    with pytest.raises(ValueError, match="upgrade calsched"):
        trigger.__setstate__(state)


def test_an_aware_time_is_required_of_apscheduler() -> None:
    with pytest.raises(ValueError, match="a time without a zone is no instant"):
        IntervalTrigger(days=1).get_next_fire_time(None, datetime(2026, 1, 1))  # noqa: DTZ001


def test_answers_to_apscheduler_are_utc_and_after_the_time_before() -> None:
    trigger = CalendarTrigger(at="01:30", fold="both", timezone="America/New_York")
    first = trigger.get_next_fire_time(None, datetime(2026, 11, 1, 5, tzinfo=UTC))
    assert first == datetime(2026, 11, 1, 5, 30, tzinfo=UTC) and first.utcoffset() == timedelta(0)
    assert trigger.get_next_fire_time(first, first) == datetime(2026, 11, 1, 6, 30, tzinfo=UTC)
