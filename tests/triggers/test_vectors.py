"""Right answers from outside: several independent programs agreed on each (tests/vectors/)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from calsched.errors import TriggerInvalid
from calsched.triggers import build
from calsched.triggers.fields import parse_rfc3339
from tests.triggers._vectors import firings, lines, reported_spec, spec_of


def _id(case: dict[str, Any]) -> str:
    return str(case["id"])


OURS = lines("triggers.jsonl", "calendar", "cron", "interval")
REPORTED = lines("reported.jsonl", "calendar", "cron", "interval")
REFUSED = [case for case in lines("reported.jsonl", "invalid") if case["trigger"]["type"] != "rrule"]


@pytest.mark.parametrize("case", OURS, ids=_id)
def test_the_next_firings_are_those_that_independent_programs_agree_on(case: dict[str, Any]) -> None:
    if "impossible" in case["tags"]:
        with pytest.raises(TriggerInvalid, match="can never fire"):
            build(spec_of(case))
        return
    trigger = build(spec_of(case))
    assert firings(trigger, case["after"], len(case["expect"])) == case["expect"]


@pytest.mark.parametrize("case", OURS, ids=_id)
def test_counting_and_looking_back_agree_with_the_firings(case: dict[str, Any]) -> None:
    if "impossible" in case["tags"]:
        return
    trigger = build(spec_of(case))
    after, slots = parse_rfc3339(case["after"]), [parse_rfc3339(text) for text in case["expect"]]
    assert trigger.count(after + 1, slots[-1]) == len(slots)
    assert [trigger.nth_after(after + 1, n) for n in range(len(slots))] == slots
    for earlier, later in pairwise(slots):
        assert trigger.last_at_or_before(later - 1) == earlier


SIX = [case for case in OURS if "cron_seconds_last" in case["spec"]]


@pytest.mark.parametrize("case", SIX, ids=_id)
def test_seconds_may_stand_last(case: dict[str, Any]) -> None:
    spec = spec_of(case) | {"expression": case["spec"]["cron_seconds_last"], "seconds": "last"}
    assert firings(build(spec), case["after"], len(case["expect"])) == case["expect"]


@pytest.mark.parametrize("case", REPORTED, ids=_id)
def test_what_users_reported_of_other_schedulers_is_right_here(case: dict[str, Any]) -> None:
    trigger = build(reported_spec(case["trigger"]))
    assert firings(trigger, case["after"], case["count"]) == case["expect"]


FIELDS_NAMED = {
    "X01": "expression",
    "X05": "day of month",
    "X07": "month",
    "X11": "minute",
    "X12": "day of week",
    "X14": "day of month",
    "X18": "minute",
    "X19": "day of week",
    "X24": "minute",
    "X26": "minute",
    "X30": "day of week",
    "X33": "timezone",
    "X38": "timezone",
    "X42": "timezone",
    "X43": "timezone",
    "X45": "timezone",
    "X46": "seconds",
    "X49": "seconds",
    "X54": "firstTick",
    "X55": "firstTick",
    "X59": "at[0]",
    "X61": "at[0]",
    "X64": "at[1]",
}


@pytest.mark.parametrize("case", REFUSED, ids=_id)
def test_what_cannot_be_meant_is_refused_with_the_field_named(case: dict[str, Any]) -> None:
    with pytest.raises(TriggerInvalid) as caught:
        build(reported_spec(case["trigger"]))
    assert any(FIELDS_NAMED[case["id"]] in str(problem) for problem in caught.value.problems)
    assert all(problem.path and problem.message for problem in caught.value.problems)
