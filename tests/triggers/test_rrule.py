"""RRULE on a zone's wall clock: vectors from outside, cases by hand, and the law against dateutil and zoneinfo."""

from __future__ import annotations

import importlib.resources
import json
import pickle
import time
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st

from calsched.errors import TriggerInvalid
from calsched.triggers import Trigger, build
from calsched.triggers.rrule import RRuleTrigger

VECTORS = Path(__file__).parents[1] / "vectors"


def instant(text: str) -> int:
    return round(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


def utc(slot: int | None) -> str | None:
    return None if slot is None else datetime.fromtimestamp(slot / 1000, UTC).isoformat().replace("+00:00", "Z")


def rule(rrule: str, dtstart: str = "2026-01-01T09:00:00", timezone: str = "UTC", **more: Any) -> Trigger:
    return build({"kind": "rrule", "rrule": rrule, "dtstart": dtstart, "timezone": timezone, **more})


def following(trigger: Trigger, after: str, most: int) -> list[str | None]:
    found: list[int] = []
    slot = trigger.next_after(instant(after))
    while slot is not None and len(found) < most:
        found.append(slot)
        slot = trigger.next_after(slot)
    return [utc(one) for one in found]


def problems(**fields: Any) -> list[str]:
    with pytest.raises(TriggerInvalid) as refused:
        build({"kind": "rrule", **fields})
    return [str(problem) for problem in refused.value.problems]


def vectors(name: str) -> list[dict[str, Any]]:
    lines = (VECTORS / name).read_text(encoding="utf-8").splitlines()
    return [case for case in map(json.loads, lines) if "rrule" in (case["kind"], case.get("trigger", {}).get("type"))]


@pytest.mark.parametrize("case", vectors("triggers.jsonl"), ids=lambda case: case["id"])
def test_the_vectors_hold(case: dict[str, Any]) -> None:
    options = [dict(pair.split("=") for pair in case["semantics"].split())] if case["semantics"] != "any" else []
    for option in options or [{"gap": gap, "fold": "first"} for gap in ("skip", "shift", "boundary")]:
        trigger = rule(case["spec"]["rrule"], case["spec"]["dtstart"], case["zone"], **option)
        assert following(trigger, case["after"], len(case["expect"])) == case["expect"]


@pytest.mark.parametrize("case", vectors("reported.jsonl"), ids=lambda case: case["id"])
def test_what_users_reported_about_schedulers_is_right_here(case: dict[str, Any]) -> None:
    fields = {"timezone" if key == "tz" else key: value for key, value in case["trigger"].items() if key != "type"}
    if case["expect"] == "error":
        assert problems(**fields)
    else:
        found = following(build({"kind": "rrule", **fields}), case["after"], case["count"])
        assert found == case["expect"]


ONE_LINE = [
    ("exdate is taken out after count",
     rule("FREQ=DAILY;COUNT=4", "2026-03-02T09:00:00", exdate=["2026-03-03T09:00:00"]),
     ["2026-03-02T09:00:00Z", "2026-03-04T09:00:00Z", "2026-03-05T09:00:00Z"]),
    ("an exdate without time takes its whole day", rule("FREQ=HOURLY;INTERVAL=12;COUNT=4", exdate=["2026-01-01"]),
     ["2026-01-02T09:00:00Z", "2026-01-02T21:00:00Z"]),
    ("rdate is added, once where the rule names it too, and not where exdate does",
     rule("FREQ=DAILY;COUNT=2", rdate=["2026-01-02T09:00:00", "2026-01-01T12:00:00", "20260105", "2026-01-06"],
          exdate=["20260106T090000"]),
     ["2026-01-01T09:00:00Z", "2026-01-01T12:00:00Z", "2026-01-02T09:00:00Z", "2026-01-05T09:00:00Z"]),
    ("until in UTC is an instant", rule("FREQ=DAILY;UNTIL=20260103T080000Z", timezone="Europe/Berlin"),
     ["2026-01-01T08:00:00Z", "2026-01-02T08:00:00Z", "2026-01-03T08:00:00Z"]),
    ("until in UTC just before the last one leaves it out", rule("FREQ=DAILY;UNTIL=20260103T075959Z",
     timezone="Europe/Berlin"), ["2026-01-01T08:00:00Z", "2026-01-02T08:00:00Z"]),
    ("a gap is skipped", rule("FREQ=DAILY;COUNT=3", "2026-03-28T02:30:00", "Europe/Berlin"),
     ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"]),
    ("or shifted", rule("FREQ=DAILY;COUNT=3", "2026-03-28T02:30:00", "Europe/Berlin", gap="shift"),
     ["2026-03-28T01:30:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"]),
    ("or moved to its end", rule("FREQ=DAILY;COUNT=3", "2026-03-28T02:30:00", "Europe/Berlin", gap="boundary"),
     ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
    ("a fold fires in its first pass", rule("FREQ=DAILY;COUNT=2", "2026-10-25T02:30:00", "Europe/Berlin"),
     ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
    ("or its second", rule("FREQ=DAILY;COUNT=2", "2026-10-25T02:30:00", "Europe/Berlin", fold="second"),
     ["2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"]),
    ("or both, which count as one of count", rule("FREQ=DAILY;COUNT=2", "2026-10-25T02:30:00", "Europe/Berlin",
     fold="both"), ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"]),
]  # fmt: skip


@pytest.mark.parametrize(("trigger", "expected"), [case[1:] for case in ONE_LINE], ids=[case[0] for case in ONE_LINE])
def test_a_rule_fires_when_it_should(trigger: Trigger, expected: list[str]) -> None:
    assert following(trigger, "2025-01-01T00:00:00Z", 10) == expected
    slots = [instant(text) for text in expected]
    assert trigger.count(slots[0], slots[-1]) == len(slots)
    assert [trigger.last_at_or_before(slot) for slot in slots] == slots
    assert [trigger.nth_after(0, number) for number in range(len(slots) + 1)] == [*slots, None]
    assert trigger.last_at_or_before(slots[0] - 1) is None
    again = build(trigger.spec())
    assert again == trigger and following(again, "2025-01-01T00:00:00Z", 10) == expected
    assert pickle.loads(pickle.dumps(trigger)) == trigger


REFUSED = [
    ({"rrule": "FREQ=DAILY", "timezone": "UTC"}, ["dtstart: a recurrence rule needs its start"]),
    ({"dtstart": "2026-01-01T09:00:00", "timezone": "UTC"}, ["rrule: expected a rule like"]),
    ({"rrule": "FREQ=DAILY", "dtstart": "2026-01-01T09:00:00"}, ["timezone: a wall-clock rule needs a zone"]),
    ({"rrule": "FREQ=DAILY", "dtstart": "2026-01-01T09:00:00", "timezone": "Nowhere/Land"},
     ["timezone: there is no zone 'Nowhere/Land'"]),
    ({"rrule": "FREQ=DAILY", "dtstart": "2026-02-30T09:00:00", "timezone": "UTC"}, ["dtstart: there is no time"]),
    ({"rrule": "FREQ=DAILY", "dtstart": "2026-01-01T09:00:00+01:00", "timezone": "Europe/Berlin"},
     ["dtstart: expected a local time"]),
    ({"rrule": "FREQ=NEVER", "dtstart": 5, "timezone": "utc", "exrule": "x", "gap": "jump"},
     ["exrule: 'exrule' is no field", "timezone: there is no zone 'utc'", "gap: expected one of", "rrule: FREQ"]),
    ({"rrule": "FREQ=DAILY", "dtstart": "2026-01-01T09:00:00", "timezone": "UTC", "exdate": ["2026-01-02", "soon"],
      "rdate": [7]}, ["exdate[1]: expected", "rdate[0]: expected"]),
    ({"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "dtstart": "2026-01-01T09:00:00", "timezone": "UTC"},
     ["rrule: BYMONTH=2;BYMONTHDAY=30: no date ever matches"]),
    ({"rrule": "FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU", "dtstart": "2026-01-01T02:30:00", "timezone": "Europe/Berlin"},
     ["rrule: every wall time of the rule falls into a gap in Europe/Berlin"]),
    ({"rrule": "FREQ=DAILY;UNTIL=20251231T000000Z", "dtstart": "2026-01-01T09:00:00", "timezone": "UTC"},
     ["rrule: UNTIL: no occurrence of the rule comes before it"]),
    ({"rrule": "FREQ=DAILY;UNTIL=20251231", "dtstart": "2026-01-01T09:00:00", "timezone": "UTC"},
     ["rrule: UNTIL: no date of the rule lies between dtstart and 20251231T235959"]),
    ({"rrule": "FREQ=DAILY;COUNT=1", "dtstart": "2026-01-01T09:00:00", "timezone": "UTC", "exdate": "2026-01-01"},
     ["exdate: every occurrence of the rule is excluded"]),
    ({"rrule": "FREQ=DAILY", "dtstart": "2026-10-25T02:30:00", "timezone": "Europe/Berlin",
      "rdate": ["2026-10-25T01:30:00Z"]}, ["rdate[0]: '2026-10-25T01:30:00Z' is not what 2026-10-25T02:30:00 means"]),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "messages"), REFUSED)
def test_a_rule_that_cannot_be_used_is_refused_with_every_field_named(
    fields: dict[str, Any], messages: list[str]
) -> None:
    begin = time.process_time()
    found = problems(**fields)
    assert time.process_time() - begin < 0.5
    assert len(found) == len(messages)
    for message in messages:
        assert any(problem.startswith(message) for problem in found), (message, found)


def test_a_rule_that_only_fired_in_the_past_and_is_bounded_is_accepted_as_ended() -> None:
    trigger = rule("FREQ=DAILY;COUNT=10", "1997-09-02T09:00:00", "America/New_York")
    assert trigger.next_after(instant("2026-01-01T00:00:00Z")) is None
    assert utc(trigger.last_at_or_before(instant("2026-01-01T00:00:00Z"))) == "1997-09-11T13:00:00Z"


@pytest.mark.parametrize(
    ("at", "why"),
    [
        ("2026-03-02T08:00:00Z", None),
        ("2026-03-01T08:00:00Z", "09:00 on 2026-03-01 is before dtstart, 2026-03-02T09:00:00"),
        ("2026-03-03T08:00:00Z", "09:00 on 2026-03-03 is excluded by exdate"),
        ("2026-03-04T08:30:00Z", "FREQ=DAILY;COUNT=40 does not name 09:30 on 2026-03-04"),
        ("2026-04-20T07:00:00Z", "09:00 on 2026-04-20 is after the end of FREQ=DAILY;COUNT=40"),
    ],
)
def test_it_says_why_an_instant_is_no_slot(at: str, why: str | None) -> None:
    trigger = rule("FREQ=DAILY;COUNT=40", "2026-03-02T09:00:00", "Europe/Berlin", exdate=["2026-03-03T09:00:00"])
    assert trigger.explain(instant(at)) == why


def test_it_says_why_a_time_in_a_gap_is_no_slot_and_marks_a_shifted_one() -> None:
    skipping = rule("FREQ=DAILY", "2026-03-01T02:30:00", "Europe/Berlin")
    assert skipping.explain(instant("2026-03-29T01:30:00Z")) == (
        "02:30 does not exist on 2026-03-29 in Europe/Berlin; gap: skip"
    )
    shifting = rule("FREQ=DAILY", "2026-03-01T02:30:00", "Europe/Berlin", gap="shift")
    assert shifting.marks(instant("2026-03-29T01:30:00Z")) == ("shifted from 02:30: gap",)
    assert shifting.local(instant("2026-03-29T01:30:00Z")) == "2026-03-29T02:30:00"
    assert utc(shifting.first_after_local("2026-03-29T02:30:00")) == "2026-03-30T00:30:00Z"


def test_the_python_form_equals_the_stored_one() -> None:
    made = RRuleTrigger("FREQ=WEEKLY;BYDAY=MO", dtstart=datetime(2026, 1, 5, 9), timezone="Europe/Berlin")  # noqa: DTZ001
    assert made == rule("BYDAY=MO;FREQ=WEEKLY", "2026-01-05T09:00", "Europe/Berlin")
    fired = made.get_next_fire_time(None, datetime(2026, 1, 1, tzinfo=UTC))
    assert fired == datetime(2026, 1, 5, 8, tzinfo=UTC)


def test_thirty_years_behind_is_answered_at_once() -> None:
    trigger = rule("FREQ=SECONDLY", "1995-01-01T00:00:00", "America/New_York")
    first, last = instant("1996-01-01T00:00:00Z"), instant("2026-01-01T00:00:00Z")
    begin = time.process_time()
    counted = trigger.count(first, last)
    assert trigger.nth_after(first, counted - 1) == last == trigger.last_at_or_before(last)
    assert time.process_time() - begin < 0.1
    # every second but the second passes of thirty repeated hours
    assert counted == (last - first) // 1000 + 1 - 30 * 3600


ZONES = ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo"]
RULES = [
    "FREQ=DAILY",
    "FREQ=DAILY;INTERVAL=3;COUNT=200",
    "FREQ=HOURLY;INTERVAL=5",
    "FREQ=MINUTELY;INTERVAL=45;BYHOUR=0,1,2,3",
    "FREQ=WEEKLY;BYDAY=SA,SU;BYHOUR=1,2",
    "FREQ=MONTHLY;BYDAY=-1SU,1SU,2SU",
    "FREQ=MONTHLY;BYDAY=SU;BYSETPOS=2,-1;BYMINUTE=0,30",
]


def resolved(wall: datetime, zone: ZoneInfo, fold: str) -> set[datetime]:
    """With gap: skip, by what the standard library says of the wall time."""
    passes = {one: wall.replace(tzinfo=zone, fold=one).astimezone(UTC) for one in (0, 1)}
    real = {one: at for one, at in passes.items() if at.astimezone(zone).replace(tzinfo=None) == wall}
    wanted = {"first": (0,), "second": (1,), "both": (0, 1)}[fold]
    return {real[one] for one in wanted if one in real}


@given(
    text=st.sampled_from(RULES),
    name=st.sampled_from(ZONES),
    fold=st.sampled_from(["first", "second", "both"]),
    start=st.datetimes(datetime(2015, 1, 1), datetime(2019, 1, 1)),  # noqa: DTZ001
)
@settings(max_examples=40, deadline=None)
def test_slots_are_the_wall_times_of_dateutil_resolved_by_zoneinfo(
    text: str, name: str, fold: str, start: datetime
) -> None:
    start = start.replace(microsecond=0, hour=start.hour % 4)
    with importlib.resources.files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as file:
        zone = ZoneInfo.from_file(file)
    walls = islice(rrulestr(text, dtstart=start), 400)
    expected = sorted(set().union(*(resolved(wall, zone, fold) for wall in walls)))
    trigger = rule(text, start.isoformat(), name, fold=fold)
    slots = list(islice(trigger.between(0, instant("2100-01-01T00:00:00Z")), len(expected)))
    assert slots == [round(at.timestamp() * 1000) for at in expected]
    assert trigger.count(slots[0], slots[-1]) == len(slots)
    assert [trigger.last_at_or_before(slot - 1) for slot in slots[1:]] == slots[:-1]
