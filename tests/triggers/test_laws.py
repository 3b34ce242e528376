"""Laws that hold for every rule: of order, of counting, and of being read back."""

from __future__ import annotations

import json
import pickle
from datetime import date
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from calsched.clock import LAST_INSTANT, to_rfc3339
from calsched.errors import TriggerInvalid
from calsched.triggers import Trigger, build

ZONES = (
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Europe/Dublin",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "America/Nuuk",
    "Africa/Cairo",
    "Antarctica/Troll",
    "Asia/Kathmandu",
    "Pacific/Kwajalein",
)
SPAN = 400 * 86_400_000


def _some(low: int, high: int, most: int = 5) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), min_size=1, max_size=most, unique=True)


class Even:
    """A business calendar that is closed on odd days and on Sundays."""

    name = "even"
    version = 1

    def is_open(self, day: date) -> bool:
        return day.day % 2 == 0 and day.weekday() != 6


CALENDARS = {"even": Even()}

clock_rules = st.fixed_dictionaries(
    {"timezone": st.sampled_from(ZONES)},
    optional={
        "gap": st.sampled_from(("skip", "shift", "boundary")),
        "fold": st.sampled_from(("first", "second", "both")),
        "exclude": st.lists(st.dates(date(2020, 1, 1), date(2030, 1, 1)).map(date.isoformat), min_size=1, max_size=4),
        "calendar": st.just("even"),
        "start": st.integers(0, 2 * 10**12).map(to_rfc3339),
        "end": st.dates(date(2050, 1, 1), date(2090, 1, 1)).map(date.isoformat),
        "roll": st.sampled_from(("skip", "following", "preceding", "modifiedFollowing")),
    },
)
times = st.one_of(
    st.fixed_dictionaries(
        {"at": st.lists(st.times().map(lambda t: f"{t:%H:%M:%S}"), min_size=1, max_size=4, unique=True)}
    ),
    st.fixed_dictionaries(
        {"hour": st.one_of(st.none(), _some(0, 23))},
        optional={"minute": st.one_of(st.none(), _some(0, 59)), "second": _some(0, 59, 2)},
    ),
)
conditions = st.fixed_dictionaries(
    {},
    optional={
        "weekdays": _some(0, 6),
        "daysOfMonth": _some(1, 31).map(lambda days: [day if day % 3 else -day for day in days]),
        "months": _some(1, 12, 11),
        "everyWeeks": st.integers(2, 6),
        "nthWeekdays": st.lists(st.sampled_from(("1mon", "2tue", "5sun", "-1fri", "-2sat")), min_size=1, unique=True),
        "businessDays": _some(1, 8).map(lambda days: [day if day % 2 else -day for day in days]),
    },
)
calendars = st.builds(
    lambda *parts: {"kind": "calendar"} | parts[0] | parts[1] | parts[2], clock_rules, times, conditions
)

_minute = st.sampled_from(("*", "0", "*/7", "5,35", "10-50/13", "59"))
_hour = st.sampled_from(("*", "2", "*/5", "0,23", "1-3", "22-2"))
_day = st.sampled_from(("*", "1", "*/2", "L", "15W", "LW", "L-2", "1,31", "28-3", "13,*"))
_month = st.sampled_from(("*", "3,10,11", "jan-apr", "2", "nov-feb"))
_weekday = st.sampled_from(("*", "1-5", "sun", "5L", "1#1,3#3", "fri-tue/2", "*/3", "7"))
crons = st.builds(
    lambda base, *fields: {"kind": "cron", "expression": " ".join(fields)} | base,
    clock_rules,
    *(_minute, _hour, _day, _month, _weekday),
)
intervals = st.fixed_dictionaries(
    {"kind": st.just("interval"), "intervalMs": st.integers(60_000, 10**10)},
    optional={"firstTick": st.integers(0, 2 * 10**12).map(to_rfc3339)},
)
single = st.one_of(calendars, crons, intervals)
rules = st.one_of(
    single, st.lists(single, min_size=1, max_size=3).map(lambda members: {"kind": "anyOf", "triggers": members})
)
instants = st.integers(0, 2 * 10**12)

quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def _built(spec: dict[str, Any]) -> Trigger:
    try:
        return build(spec, calendars=CALENDARS)
    except TriggerInvalid as invalid:
        assume(not any(reason in str(invalid) for reason in ("never fire", "is open in the next", "has no slot")))
        raise


def _slots(trigger: Trigger, instant: int, most: int = 40) -> list[int]:
    out: list[int] = []
    slot = trigger.first_at_or_after(instant)
    while slot is not None and len(out) < most:
        out.append(slot)
        slot = trigger.next_after(slot)
    return out


@quick
@given(rules, instants)
def test_slots_are_strictly_increasing_and_never_before_the_instant_asked(spec: dict[str, Any], instant: int) -> None:
    slots = _slots(_built(spec), instant)
    assert all(slot >= instant for slot in slots)
    assert all(earlier < later for earlier, later in pairwise(slots))


@quick
@given(rules, instants, st.data())
def test_every_search_agrees_with_enumeration(spec: dict[str, Any], instant: int, data: st.DataObject) -> None:
    trigger = _built(spec)
    slots = _slots(trigger, instant)
    assume(slots)
    place = data.draw(st.integers(0, len(slots) - 1))
    slot = slots[place]
    assert trigger.first_at_or_after(slot) == trigger.last_at_or_before(slot) == slot
    assert trigger.explain(slot) is None
    assert trigger.count(instant, slot) == place + 1
    assert trigger.count(instant, slot - 1) == place
    assert trigger.nth_after(instant, place) == slot
    if place:
        between = data.draw(st.integers(slots[place - 1], slot - 1))
        assert trigger.next_after(between) == slot
        assert trigger.last_at_or_before(between) == slots[place - 1]
        assert trigger.count(slots[place - 1] + 1, between) == 0


@quick
@given(rules, instants)
def test_a_rule_read_back_from_its_stored_form_is_the_same_rule(spec: dict[str, Any], instant: int) -> None:
    trigger = _built(spec)
    stored = json.loads(json.dumps(trigger.spec()))
    again = build(stored, calendars=CALENDARS)
    assert again == trigger and hash(again) == hash(trigger)
    assert again.spec() == stored == trigger.spec()
    assert _slots(again, instant, 10) == _slots(trigger, instant, 10)
    unpickled = pickle.loads(pickle.dumps(trigger))
    assert unpickled == trigger
    assert _slots(unpickled, instant, 10) == _slots(trigger, instant, 10)


@quick
@given(rules, instants, st.integers(0, SPAN))
def test_counts_of_two_parts_add_up_to_the_count_of_the_whole(spec: dict[str, Any], start: int, length: int) -> None:
    trigger = _built(spec if spec["kind"] != "anyOf" else spec["triggers"][0])
    middle, end = start + length // 3, start + length
    assert trigger.count(start, middle) + trigger.count(middle + 1, end) == trigger.count(start, end)
    assert trigger.count(end, start - 1) == 0


@quick
@given(rules, instants)
def test_a_slot_has_a_wall_time_after_which_the_rule_goes_on(spec: dict[str, Any], instant: int) -> None:
    trigger = _built(spec)
    slot = trigger.first_at_or_after(instant)
    assume(slot is not None and trigger.zone is not None and spec["kind"] != "anyOf")
    assert slot is not None
    local = trigger.local(slot)
    assert local is not None
    following = trigger.first_after_local(local)
    assert following is None or (trigger.local(following) or "") > local
    assert trigger.resume_after(slot, local) == trigger.next_after(slot)


@quick
@given(rules, instants)
def test_an_instant_between_slots_is_explained(spec: dict[str, Any], instant: int) -> None:
    trigger = _built(spec)
    if trigger.first_at_or_after(instant) == instant:
        return
    reason = trigger.explain(instant)
    assert reason and "\n" not in reason
    assert trigger.marks(instant) == ()


@quick
@given(rules)
def test_searches_end_at_the_end_of_the_year_9999(spec: dict[str, Any]) -> None:
    trigger = _built(spec)
    last = trigger.last_at_or_before(LAST_INSTANT)
    assert last is not None and trigger.next_after(last) is None
    assert trigger.first_at_or_after(LAST_INSTANT + 1) is None
