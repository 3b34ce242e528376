"""Recurrence rules with excluded days and business calendars: the same answers as a calendar trigger, and by hand."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calsched.calendars import BusinessCalendar, resolve
from calsched.errors import TriggerInvalid
from calsched.policies.day_rule import ROLLS
from calsched.triggers import Trigger, build
from calsched.triggers.rrule import RRuleTrigger

NOW = 1_780_315_200_000  # 2026-06-01T12:00:00Z


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def calendar(**definition: Any) -> BusinessCalendar:
    return resolve({"it": definition}, now=NOW)["it"].calendar()


def rule(rrule: str, closed: BusinessCalendar | None = None, **more: Any) -> Trigger:
    form = {"kind": "rrule", "rrule": rrule, "dtstart": "2026-01-01T09:00:00", "timezone": "UTC", **more}
    return build(form if closed is None else {**form, "calendar": "it"}, calendars={"it": closed} if closed else {})


def days(trigger: Trigger, first: str, last: str) -> list[str]:
    return [datetime.fromtimestamp(slot / 1000, UTC).isoformat()[:16] for slot in trigger.between(at(first), at(last))]


# 2026-08-15 and 2026-11-15 are on a weekend, so is 2026-10-31 (a Saturday).
BY_HAND = [
    ("closed days are skipped", rule("FREQ=MONTHLY;BYMONTHDAY=15", calendar()),
     ["2026-09-15T09:00", "2026-10-15T09:00"]),
    ("or rolled on", rule("FREQ=MONTHLY;BYMONTHDAY=15", calendar(), roll="following"),
     ["2026-08-17T09:00", "2026-09-15T09:00", "2026-10-15T09:00", "2026-11-16T09:00"]),
    ("or back", rule("FREQ=MONTHLY;BYMONTHDAY=15", calendar(), roll="preceding"),
     ["2026-08-14T09:00", "2026-09-15T09:00", "2026-10-15T09:00", "2026-11-13T09:00"]),
    ("within the month", rule("FREQ=MONTHLY;BYMONTHDAY=-1", calendar(), roll="modifiedFollowing"),
     ["2026-08-31T09:00", "2026-09-30T09:00", "2026-10-30T09:00"]),
    ("a roll alone means weekends", rule("FREQ=MONTHLY;BYMONTHDAY=15", roll="following"),
     ["2026-08-17T09:00", "2026-09-15T09:00", "2026-10-15T09:00", "2026-11-16T09:00"]),
    ("excluded days are neither kept nor rolled", rule("FREQ=MONTHLY;BYMONTHDAY=15", calendar(), roll="following",
     exclude=["2026-08-15", "2026-10-15"]), ["2026-09-15T09:00", "2026-11-16T09:00"]),
    ("nor landed on", rule("FREQ=MONTHLY;BYMONTHDAY=15", calendar(), roll="following", exclude=["2026-08-17"]),
     ["2026-09-15T09:00", "2026-10-15T09:00", "2026-11-16T09:00"]),
    ("count counts before days are closed", rule("FREQ=MONTHLY;BYMONTHDAY=15;COUNT=9", calendar()),
     ["2026-09-15T09:00"]),
    ("what lands on one instant fires once", rule("FREQ=DAILY;BYHOUR=9,17;UNTIL=20260810", calendar(), roll="following",
     exclude=["2026-08-03", "2026-08-04", "2026-08-05", "2026-08-06", "2026-08-07"]),
     ["2026-08-10T09:00", "2026-08-10T17:00"]),
]  # fmt: skip


@pytest.mark.parametrize(("trigger", "expected"), [case[1:] for case in BY_HAND], ids=[case[0] for case in BY_HAND])
def test_a_rule_meets_closed_days(trigger: Trigger, expected: list[str]) -> None:
    first, last = "2026-08-02", "2026-11-20"
    assert days(trigger, first, last) == expected
    slots = [at(text) for text in expected]
    assert trigger.count(at(first), at(last)) == len(slots)
    assert [trigger.last_at_or_before(slot + 5) for slot in slots] == slots
    assert [trigger.nth_after(at(first), number) for number in range(len(slots))] == slots
    assert build(trigger.spec(), calendars={"it": calendar()}) == trigger


def test_marks_and_reasons_name_the_closed_day() -> None:
    closed = calendar(dates={"2026-09-15": "Fair"})
    rolling = rule("FREQ=MONTHLY;BYMONTHDAY=15", closed, roll="following")
    assert rolling.marks(at("2026-08-17T09:00")) == ("rolled from 2026-08-15",)
    assert rolling.local(at("2026-08-17T09:00")) == "2026-08-17T09:00:00"
    assert rolling.explain(at("2026-08-15T09:00")) == (
        "2026-08-15, Saturday, is closed in calendar 'it'; roll: following"
    )
    assert rule("FREQ=MONTHLY;BYMONTHDAY=15", closed).explain(at("2026-09-15T09:00")) == (
        "2026-09-15, Tuesday, is closed in calendar 'it'; roll: skip"
    )


@pytest.mark.parametrize(
    ("trigger", "field"),
    [
        ({"rrule": "FREQ=WEEKLY;BYDAY=SA,SU", "calendar": "it"}, "calendar"),
        ({"rrule": "FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25", "calendar": "it"}, "calendar"),
        ({"rrule": "FREQ=WEEKLY;BYDAY=SA", "roll": "skip"}, "roll"),
        ({"rrule": "FREQ=DAILY;COUNT=2", "exclude": ["2026-01-01", "2026-01-02"]}, "exclude"),
        ({"rrule": "FREQ=DAILY", "calendar": "other", "roll": "up"}, "calendar"),
    ],
)
def test_a_rule_whose_days_are_all_closed_is_refused_soon(trigger: dict[str, Any], field: str) -> None:
    form = {"kind": "rrule", "dtstart": "2026-01-01T09:00:00", "timezone": "Europe/Berlin", **trigger}
    begin = time.process_time()
    with pytest.raises(TriggerInvalid) as refused:
        build(form, calendars={"it": calendar(yearly=["12-25"])})
    assert time.process_time() - begin < 2
    assert refused.value.problems[0].path == field


def test_the_python_form_takes_a_calendar() -> None:
    made = RRuleTrigger(
        "FREQ=MONTHLY;BYMONTHDAY=15",
        dtstart="2026-01-01T09:00:00",
        timezone="UTC",
        calendar=calendar(),
        roll="following",
    )
    assert made == rule("FREQ=MONTHLY;BYMONTHDAY=15", calendar(), roll="following")


@given(
    weekdays=st.sets(st.integers(0, 6), min_size=1, max_size=5),
    weekend=st.sets(st.integers(0, 6), max_size=4),
    closed=st.sets(st.integers(1, 28), max_size=20),
    excluded=st.sets(st.integers(1, 28), max_size=4),
    roll=st.sampled_from(ROLLS),
)
@settings(max_examples=50, deadline=None)
def test_it_agrees_with_a_calendar_trigger_of_the_same_days(
    weekdays: set[int], weekend: set[int], closed: set[int], excluded: set[int], roll: str
) -> None:
    business = calendar(weekend=sorted(weekend), dates=[f"2026-09-{day:02d}" for day in sorted(closed)])
    names = ",".join(["MO", "TU", "WE", "TH", "FR", "SA", "SU"][day] for day in sorted(weekdays))
    more: dict[str, Any] = {"timezone": "America/New_York", "roll": roll}
    more["exclude"] = [f"2026-09-{day:02d}" for day in sorted(excluded)]
    form = {"kind": "calendar", "at": ["09:00", "17:30"], "weekdays": sorted(weekdays), "calendar": "it", **more}
    try:
        theirs = build({**form, "start": "2026-01-01T00:00:00"}, calendars={"it": business})
    except TriggerInvalid:
        return
    ours = rule(
        f"FREQ=WEEKLY;BYDAY={names};BYHOUR=9,17;BYMINUTE=0,30;BYSETPOS={_positions(len(weekdays))}", business, **more
    )
    first, last = at("2026-08-20"), at("2026-10-20")
    slots = list(theirs.between(first, last))
    assert list(ours.between(first, last)) == slots
    assert ours.count(first, last) == len(slots)
    assert [ours.last_at_or_before(slot - 1) for slot in slots[1:]] == slots[:-1]


def _positions(weekdays: int) -> str:
    """Of 09:00, 09:30, 17:00, 17:30 on each day the first and the last."""
    return ",".join(f"{4 * day + 1},{4 * day + 4}" for day in range(weekdays))
