"""Calendar rules: one line each, with the instants expected."""
# ruff: noqa: E501 (a table has one line a case)

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from calsched.errors import TriggerInvalid
from calsched.triggers import build
from calsched.triggers.calendar import CalendarTrigger
from calsched.triggers.fields import parse_rfc3339 as at
from tests.triggers._vectors import firings

NEW_YEAR = "2026-01-01T00:00:00Z"


class Holidays:
    """Weekends, 2026-07-03 and the whole of August 2026 are closed."""

    name = "us"
    version = 3

    def is_open(self, day: date) -> bool:
        return day.weekday() < 5 and day != date(2026, 7, 3) and (day.year, day.month) != (2026, 8)


CALENDARS = {"us": Holidays()}


def rule(**fields: Any) -> dict[str, Any]:
    return {"kind": "calendar", "timezone": "UTC", "at": "09:00"} | fields


def days(*texts: str) -> list[str]:
    return [f"2026-{text}T09:00:00Z" for text in texts]


LINES = [
    ("every day", rule(), days("01-01", "01-02", "01-03")),
    ("weekdays by number", rule(weekdays=[0, 4]), days("01-02", "01-05", "01-09")),
    ("weekdays by name", rule(weekdays=["Mon", "friday"]), days("01-02", "01-05", "01-09")),
    ("weekdays by range", rule(weekdays="thu-sat"), days("01-01", "01-02", "01-03", "01-08")),
    ("weekdays over the weekend", rule(weekdays=["sat-mon"]), days("01-03", "01-04", "01-05", "01-10")),
    ("a single weekday", rule(weekdays="tue"), days("01-06", "01-13")),
    ("a day of the month", rule(daysOfMonth=31), days("01-31", "03-31", "05-31")),
    ("the last day of the month", rule(daysOfMonth="last"), days("01-31", "02-28", "03-31")),
    ("days from the month's end", rule(daysOfMonth=[-1, -3]), days("01-29", "01-31", "02-26", "02-28")),
    ("the 30th, or else the last", rule(daysOfMonth=30, ifDayMissing="last"), days("01-30", "02-28", "03-30")),
    ("the second Tuesday", rule(nthWeekdays=["2tue"]), days("01-13", "02-10", "03-10")),
    ("the last Friday", rule(nthWeekdays="-1fri"), days("01-30", "02-27", "03-27")),
    ("the last Friday, in words", rule(nthWeekdays=["last fri"]), days("01-30", "02-27")),
    ("a fifth Sunday", rule(nthWeekdays=["5sun"]), days("03-29", "05-31")),
    ("months", rule(daysOfMonth=1, months=["mar", 10]), days("03-01", "10-01")),
    ("Friday the 13th", rule(daysOfMonth=13, weekdays="fri"), days("02-13", "03-13", "11-13")),
    ("every other week", rule(weekdays="mon", everyWeeks=2, weekAnchor="2026-01-07"), days("01-05", "01-19", "02-02")),
    ("every other week from its start", rule(weekdays="mon", everyWeeks=2, start="2026-01-12"), days("01-12", "01-26")),
    # 1970-01-01 was a Thursday, 2,922 weeks before 2026-01-01
    ("every other week from 1970", rule(weekdays="thu", everyWeeks=2), days("01-01", "01-15")),
    ("every single week", rule(weekdays="mon", everyWeeks=1, weekAnchor="2026-01-07"), days("01-05", "01-12")),
    ("excluded days", rule(exclude=["2026-01-02", date(2026, 1, 3)]), days("01-01", "01-04")),
    ("from a start on", rule(start="2026-01-05T09:00:00Z"), days("01-05", "01-06")),
    ("up to an end", rule(end="2026-01-02T09:00:00Z"), days("01-01", "01-02")),
    ("up to a last day", rule(end="2026-01-02"), days("01-01", "01-02")),
    ("business days without a calendar", rule(businessDays=[1, -1]), days("01-01", "01-30", "02-02", "02-27")),
    ("the second last business day", rule(businessDays=-2, months=7, calendar="us"), days("07-30")),
    ("open days only", rule(calendar="us", daysOfMonth=[3, 4, 6], months=7), days("07-06")),
    ("rolled on", rule(calendar="us", roll="following", daysOfMonth=4, months=7), days("07-06")),
    ("rolled back", rule(calendar="us", roll="preceding", daysOfMonth=4, months=7), days("07-02")),
    ("two days rolled onto one", rule(calendar="us", roll="following", daysOfMonth=[4, 5, 6], months=7), days("07-06")),
    ("rolled out of a closed month", rule(calendar="us", roll="following", daysOfMonth=20, months=8), days("09-01")),
    ("rolled within the month", rule(roll="modifiedFollowing", daysOfMonth=31, months=[1, 5]), days("01-30", "05-29")),
    ("not rolled onto an excluded day", rule(calendar="us", roll="preceding", daysOfMonth=4, months=[7, 11], exclude="2026-07-02"), days("11-04")),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), [line[1:] for line in LINES], ids=[line[0] for line in LINES])
def test_a_rule_has_these_slots(spec: dict[str, Any], expected: list[str]) -> None:
    trigger = build(spec, calendars=CALENDARS)
    assert firings(trigger, NEW_YEAR, len(expected)) == expected


TIMES = [
    ({"at": ["9:30", "17:00:15"]}, ["09:30:00", "17:00:15"]),
    ({"at": time(9, 30)}, ["09:30:00"]),
    ({"hour": 9}, ["09:00:00"]),
    ({"hour": [9, 10], "minute": [0, 30]}, ["09:00:00", "09:30:00", "10:00:00", "10:30:00"]),
    ({"hour": 9, "minute": 5, "second": 7}, ["09:05:07"]),
]


@pytest.mark.parametrize(("given", "expected"), TIMES)
def test_times_of_day_have_one_canonical_form(given: dict[str, Any], expected: list[str]) -> None:
    trigger = build({"kind": "calendar", "timezone": "UTC"} | given)
    assert trigger.spec()["at"] == expected


def test_every_value_is_null_in_the_stored_form() -> None:
    spec = {"kind": "calendar", "timezone": "UTC", "hour": None, "minute": [0, 30]}
    stored = build(spec).spec()
    assert (stored["hour"], stored["minute"], stored["second"]) == (None, [0, 30], [0])
    assert build(stored) == build(spec | {"hour": "*"})


def test_the_form_of_seed_003_loads_as_it_stands() -> None:
    trigger = build(
        {
            "kind": "calendar",
            "start": "2026-10-12T00:00:00-05:00",
            "timezone": "America/Winnipeg",
            "hour": 9,
            "minute": 0,
            "weekdays": [0, 1, 2, 3, 4],
        }
    )
    assert firings(trigger, NEW_YEAR, 2) == ["2026-10-12T14:00:00Z", "2026-10-13T14:00:00Z"]


def test_python_and_stored_forms_make_equal_triggers() -> None:
    made = CalendarTrigger(
        hour=9, weekdays="mon-fri", start=datetime(2026, 1, 1, tzinfo=UTC), timezone=ZoneInfo("Europe/Berlin")
    )
    spec = {"kind": "calendar", "at": "09:00", "weekdays": [0, 1, 2, 3, 4], "start": "2026-01-01T00:00:00Z"}
    assert made == build(spec, default_zone="Europe/Berlin")
    assert made.zone == "Europe/Berlin"


def test_none_is_every_hour_and_no_hour_is_refused() -> None:
    hourly = CalendarTrigger(hour=None, minute=30, timezone="UTC")
    assert firings(hourly, NEW_YEAR, 2) == ["2026-01-01T00:30:00Z", "2026-01-01T01:30:00Z"]
    with pytest.raises(TriggerInvalid, match="a calendar rule needs its times of day"):
        CalendarTrigger(minute=30, timezone="UTC")


def test_a_local_start_and_end_are_of_the_zone_and_included() -> None:
    spec = {"kind": "calendar", "timezone": "America/New_York", "at": "09:00"}
    bounded = build(spec | {"start": "2026-03-07T09:00", "end": "2026-03-08T09:00:00"})
    assert firings(bounded, NEW_YEAR, 9) == ["2026-03-07T14:00:00Z", "2026-03-08T13:00:00Z"]


def test_an_end_in_a_gap_is_before_the_gap_ends() -> None:
    spec = {"kind": "calendar", "timezone": "America/New_York", "hour": [1, 3], "start": "2026-03-08"}
    assert firings(build(spec | {"end": "2026-03-08T02:30:00"}), NEW_YEAR, 9) == ["2026-03-08T06:00:00Z"]
    spec |= {"start": "2026-03-08T02:30:00", "end": "2026-03-08"}
    assert firings(build(spec), NEW_YEAR, 9) == ["2026-03-08T07:00:00Z"]


REFUSED = [
    ("weekdays 7", rule(weekdays=[0, 7]), "weekdays[1]: expected 0 to 6 or a day name, got 7 (Sunday is 6)"),
    ("weekdays mo", rule(weekdays=["mo"]), "weekdays[0]: expected 0 to 6 or a day name, got 'mo'"),
    ("weekdays text", rule(weekdays="mo-fr"), "weekdays: expected 0 to 6 or a day name, got 'mo'"),
    ("weekdays true", rule(weekdays=[True]), "weekdays[0]: expected 0 to 6 or a day name, got True"),
    ("weekdays twice", rule(weekdays=["mon", 0]), "weekdays[1]: 0 is there twice"),
    ("no weekdays", rule(weekdays=[]), "weekdays: expected at least one weekday, got []"),
    ("no times", rule(at=[]), "at: expected at least one of times of day, got []"),
    ("570", rule(at=[570]), "at[0]: expected a time of day such as '09:00' or '09:00:30', got 570 (write it in quotes: '09:30')"),
    ("one 570", rule(at=570), "at: expected a time of day such as '09:00' or '09:00:30', got 570 (write it in quotes: '09:30')"),
    ("24:00", rule(at="24:00"), "at: expected a time of day from '00:00' to '23:59:59', got '24:00' (the end of a day is '00:00' of the next)"),
    ("9 o'clock", rule(at="9am"), "at: expected a time of day such as '09:00' or '09:00:30', got '9am'"),
    ("the same time twice", rule(at=["09:00", "9:00:00"]), "at[1]: '9:00:00' is there twice"),
    ("at and hour", rule(hour=9), "hour: there is 'hour' besides 'at'; give one of them"),
    ("hour 24", {"kind": "calendar", "timezone": "UTC", "hour": 24}, "hour: expected a whole number from 0 to 23, got 24"),
    ("minute text", {"kind": "calendar", "timezone": "UTC", "hour": 9, "minute": ["0"]}, "minute[0]: expected a whole number from 0 to 59, got '0'"),
    ("day 0", rule(daysOfMonth=[0]), "daysOfMonth[0]: expected 1 to 31 or -31 to -1, got 0 (they count from 1, or from -1 backwards)"),
    ("day 32", rule(daysOfMonth=32), "daysOfMonth: expected a whole number from -31 to 31, got 32"),
    ("month 13", rule(months=[13]), "months[0]: expected 1 to 12 or a month's name, got 13"),
    ("sixth Monday", rule(nthWeekdays=["6mon"]), "nthWeekdays[0]: expected the n-th weekday of a month such as '2tue', or '-1fri' from its end, got '6mon'"),
    ("no weeks", rule(everyWeeks=0), "everyWeeks: expected a whole number from 1 to 10000, got 0"),
    ("an anchor for nothing", rule(weekAnchor="2026-01-05"), "weekAnchor: it says from which week to count, and there is no everyWeeks to count by"),
    ("a missing day for nothing", rule(ifDayMissing="last"), "ifDayMissing: it says what becomes of daysOfMonth, and there are none"),
    ("no such day", rule(exclude=["2026-02-30"]), "exclude[0]: there is no day '2026-02-30': day is out of range for month"),
    ("end before start", rule(start="2026-02-01T00:00:00Z", end="2026-01-01T00:00:00Z"), "end: 2026-01-01T00:00:00Z is before the start, 2026-02-01T00:00:00Z"),
    ("nothing in between", rule(weekdays="mon", start="2026-01-06", end="2026-01-08"), "weekdays: the rule has no slot from 2026-01-06T00:00:00 up to 2026-01-08T23:59:59"),
    ("30 February", rule(daysOfMonth=30, months=2), "daysOfMonth: there is no 30 in February: the rule can never fire"),
    ("the sixth Monday by days", rule(daysOfMonth=[1, 2], nthWeekdays=["2mon"]), "nthWeekdays: no day ever matches: the rule can never fire"),
    ("an unknown calendar", rule(calendar="uk"), "calendar: there is no business calendar 'uk' (declared: us)"),
    ("an unknown roll", rule(roll="forward"), "roll: expected one of skip, following, preceding, modifiedFollowing, got 'forward'"),
    ("an unknown gap", rule(gap="shfit"), "gap: expected one of skip, shift, boundary, got 'shfit' (did you mean 'shift'?)"),
    ("an unknown field", rule(weekday=[1]), "weekday: 'weekday' is no field of this trigger (did you mean 'weekdays'?)"),
    ("always closed", rule(weekdays="sun", calendar="us"), "weekdays: no day that matches is open in the next 60 years"),
    ("always in a gap", rule(timezone="America/New_York", at="02:30", months=3, nthWeekdays="2sun"), "nthWeekdays: every wall time of the rule falls into a gap in America/New_York: it can never fire (gap: shift or gap: boundary would give it a place)"),
    ("a naive start that is none", rule(start="soon"), "start: expected an RFC 3339 time such as '2026-10-12T09:00:00Z', got 'soon'"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "message"), [line[1:] for line in REFUSED], ids=[line[0] for line in REFUSED])
def test_a_rule_that_makes_no_sense_is_refused(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(TriggerInvalid) as caught:
        build(spec, calendars=CALENDARS)
    assert str(caught.value) == message


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(TriggerInvalid) as caught:
        build({"kind": "calendar", "at": "25:00", "weekdays": ["mo", 8], "gap": 1, "fodl": "first"})
    assert [problem.path for problem in caught.value.problems] == ["fodl", "timezone", "gap", "at", "weekdays[0]"]


def test_a_rule_without_a_zone_is_refused_unless_there_is_a_default() -> None:
    with pytest.raises(TriggerInvalid, match="timezone: a wall-clock rule needs a zone"):
        build({"kind": "calendar", "at": "09:00"})
    assert build({"kind": "calendar", "at": "09:00"}, default_zone="Europe/Berlin").zone == "Europe/Berlin"


EXPLAINED = [
    (rule(weekdays="mon-fri"), "2026-03-07T09:00:00Z", "2026-03-07 is a Saturday; weekdays: mon-fri"),
    (rule(), "2026-03-07T09:30:00Z", "09:30 is not one of its times: 09:00"),
    (rule(), "2026-03-07T09:00:00.500Z", "it has a part of a second, and wall times are whole seconds"),
    (rule(months=[1, 2]), "2026-03-07T09:00:00Z", "2026-03-07 is in March; months: 1, 2"),
    (rule(daysOfMonth=[1, -1]), "2026-03-07T09:00:00Z", "2026-03-07 is not one of daysOfMonth: 1, -1"),
    (rule(nthWeekdays=["2tue"]), "2026-03-07T09:00:00Z", "2026-03-07 is a Saturday; nthWeekdays: 2tue"),
    (rule(exclude="2026-03-07"), "2026-03-07T09:00:00Z", "2026-03-07 is excluded"),
    (rule(start="2026-04-01"), "2026-03-07T09:00:00Z", "it is before the start, 2026-04-01T00:00:00"),
    (rule(end="2026-03-01T00:00:00Z"), "2026-03-07T09:00:00Z", "it is after the end, 2026-03-01T00:00:00Z"),
    (rule(calendar="us"), "2026-07-03T09:00:00Z", "2026-07-03, Friday, is closed in calendar 'us'; roll: skip"),
    (rule(businessDays=1), "2026-03-05T09:00:00Z", "2026-03-05 is not one of businessDays: 1"),
    (
        rule(weekdays="mon", everyWeeks=2, weekAnchor="2026-01-05"),
        "2026-01-12T09:00:00Z",
        "2026-01-12 is not in every 2 weeks from 2026-01-05",
    ),
    (
        rule(timezone="America/New_York", at="02:30"),
        "2026-03-08T02:30:00-05:00",
        "02:30 does not exist on 2026-03-08 in America/New_York; gap: skip",
    ),
    (
        rule(timezone="America/New_York", at="02:30", gap="boundary"),
        "2026-03-08T02:30:00-05:00",
        "02:30 does not exist on 2026-03-08 in America/New_York; gap: boundary puts it at 03:00",
    ),
    (
        rule(timezone="America/New_York", at="01:30"),
        "2026-11-01T06:30:00Z",
        "01:30 happens twice on 2026-11-01 in America/New_York, and this is the second; fold: first",
    ),
]


@pytest.mark.parametrize(("spec", "instant", "reason"), EXPLAINED, ids=[line[2][:40] for line in EXPLAINED])
def test_an_instant_that_is_no_slot_is_explained(spec: dict[str, Any], instant: str, reason: str) -> None:
    assert build(spec, calendars=CALENDARS).explain(at(instant)) == reason


NEW_YORK = {"timezone": "America/New_York"}
MARKED = [
    (rule(at="02:30", gap="shift", **NEW_YORK), "2026-03-08T07:30:00Z", ("shifted from 02:30: gap",)),
    (rule(at="02:30", gap="boundary", **NEW_YORK), "2026-03-08T07:00:00Z", ("moved to the end of the gap from 02:30: gap",)),
    (rule(at="01:30", **NEW_YORK), "2026-11-01T05:30:00Z", ("fold: first of two 01:30",)),
    (rule(at="01:30", fold="both", **NEW_YORK), "2026-11-01T06:30:00Z", ("fold: second of two 01:30",)),
    (rule(daysOfMonth=[4, 5], roll="following", calendar="us"), "2026-07-06T09:00:00Z", ("rolled from 2026-07-04", "rolled from 2026-07-05")),
    (rule(), "2026-07-06T09:00:00Z", ()),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "instant", "marks"), MARKED)
def test_what_is_remarkable_about_a_slot_is_marked(spec: dict[str, Any], instant: str, marks: tuple[str, ...]) -> None:
    assert build(spec, calendars=CALENDARS).marks(at(instant)) == marks


def test_the_nominal_wall_time_of_a_shifted_slot_is_the_one_that_does_not_exist() -> None:
    trigger = build(rule(at="02:30", gap="shift", **NEW_YORK))
    assert trigger.local(at("2026-03-08T07:30:00Z")) == "2026-03-08T02:30:00"
    assert trigger.local(at("2026-03-08T07:00:00Z")) is None


def test_a_wall_time_that_has_run_is_not_due_again_when_its_instant_moves() -> None:
    trigger = build(rule(timezone="America/Vancouver"))
    moved = at("2026-12-01T16:00:00Z")  # 09:00 there, by data in which the zone stays seven hours behind
    assert trigger.resume_after(moved, "2026-12-01T09:00:00") == at("2026-12-02T09:00:00-07:00")
    other = build(rule(timezone="America/Los_Angeles"))
    assert other.next_after(moved) == at("2026-12-01T09:00:00-08:00")
    assert other.resume_after(moved, "2026-12-01T09:00:00") == at("2026-12-02T09:00:00-08:00")


def test_an_instant_that_was_judged_is_not_due_again_when_its_wall_time_moves() -> None:
    trigger = build({"kind": "cron", "expression": "* * * * *", "timezone": "America/Vancouver"})
    judged = at("2026-12-01T02:35:00Z")  # 19:35 there; 18:35 by data in which the zone was an hour further west
    assert trigger.resume_after(judged, "2026-11-30T18:35:00") == at("2026-12-01T02:36:00Z")
    assert trigger.resume_after(judged, "2026-11-30T20:35:00") == at("2026-12-01T03:36:00Z")


def test_a_calendar_travels_with_a_pickled_trigger() -> None:
    trigger = build(rule(calendar="us", roll="following", daysOfMonth=4, months=7), calendars=CALENDARS)
    assert firings(pickle.loads(pickle.dumps(trigger)), NEW_YEAR, 1) == days("07-06")
