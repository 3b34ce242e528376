"""Seed 002: the interval cursor with SKIP, LATEST and ALL, as a pure reducer."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calsched.errors import InvalidInput
from calsched.simulate import CommandRefused, State, initial, parse_command, reduce

#: The seed's trigger, as it stands there.
TRIGGER: dict[str, Any] = {
    "id": "t",
    "revision": "1",
    "kind": "SCHEDULED",
    "source": "trusted",
    "eventType": "doc.changed",
    "contractId": "c",
    "action": "START_RUN",
    "enabled": True,
    "notBefore": "0",
    "expiresAt": "10000",
    "maxAgeMs": "100",
    "maxConcurrent": "10",
    "rateLimit": "10",
    "rateWindowMs": "100",
    "maxDepth": "3",
    "schedule": {"startMs": "0", "intervalMs": "10", "catchUp": "ALL", "maxCatchUp": "2"},
}
TICK = {"type": "tickTrigger", "triggerId": "t"}


def register(schedule: dict[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    trigger = {**TRIGGER, **changes, "schedule": {**TRIGGER["schedule"], **(schedule or {})}}
    return {"type": "registerTrigger", "trigger": trigger}


def registered(schedule: dict[str, str] | None = None, **changes: Any) -> State:
    return reduce(initial(), register(schedule, **changes), "0")


def slots(state: State, trigger: str = "t") -> list[str]:
    return [run["slot"] for run in state["triggers"][trigger]["runs"]]


def test_the_seeds_example_ends_with_its_count_and_its_next_slot() -> None:
    state = reduce(initial(), parse_command(json.dumps(register())), "10")
    state = reduce(state, parse_command(json.dumps(TICK)), "10")
    state = reduce(state, parse_command(json.dumps(TICK)), "10")
    assert state["triggers"]["t"]["count"] == "2"
    assert state["triggers"]["t"]["nextSlot"] == "2"


@pytest.mark.parametrize(
    ("catch_up", "now", "expected"),
    [
        ("SKIP", "20", ["2"]),  # exactly at the slot's own time
        ("SKIP", "21", []),  # a moment later it is skipped
        ("LATEST", "25", ["2"]),
        ("LATEST", "20", ["2"]),
        ("ALL", "25", ["0", "1"]),
    ],
)
def test_a_late_tick_admits_what_its_catch_up_says(catch_up: str, now: str, expected: list[str]) -> None:
    state = reduce(registered({"catchUp": catch_up}), TICK, now)
    assert slots(state) == expected


def test_all_admits_at_most_its_batch_a_tick_until_it_has_caught_up() -> None:
    state, seen = registered(), []
    for _ in range(4):
        state = reduce(state, TICK, "35")
        seen.append(state["triggers"]["t"]["nextSlot"])
    assert seen == ["2", "4", "4", "4"]
    assert slots(state) == ["0", "1", "2", "3"]


def test_what_skip_passes_over_is_recorded() -> None:
    state = reduce(registered({"catchUp": "SKIP"}), TICK, "25")
    assert state["triggers"]["t"]["skipped"] == [{"first": "0", "last": "2", "reason": "misfire"}]
    assert state["triggers"]["t"]["nextSlot"] == "3"


def test_a_late_run_keeps_the_time_at_which_it_was_due() -> None:
    run = reduce(registered({"catchUp": "LATEST"}), TICK, "25")["triggers"]["t"]["runs"][0]
    assert (run["occurredAtMs"], run["admittedAtMs"], run["representsFirst"]) == ("20", "25", "0")


def test_slots_before_not_before_are_never_due() -> None:
    state = registered({"maxCatchUp": "9"}, notBefore="15")
    assert state["triggers"]["t"]["nextSlot"] == "2"
    assert slots(reduce(state, TICK, "30")) == ["2", "3"]
    assert slots(reduce(state, TICK, "14")) == []


def test_due_exactly_at_the_expiry_is_admitted_and_nothing_after_it() -> None:
    state = reduce(registered({"maxCatchUp": "9"}, expiresAt="20"), TICK, "20")
    assert slots(state) == ["0", "1", "2"]
    assert (state["triggers"]["t"]["nextDueMs"], state["triggers"]["t"]["ended"]) == (None, "expired")
    assert reduce(state, TICK, "99")["triggers"] == state["triggers"]


@pytest.mark.parametrize(
    ("changes", "now", "reason"),
    [
        ({"maxAgeMs": "24"}, "25", "age"),
        ({"maxConcurrent": "1"}, "25", "concurrency"),
        ({"rateLimit": "1"}, "25", "rate"),
    ],
)
def test_one_occurrence_over_a_limit_refuses_the_whole_batch_and_repeating_makes_no_progress(
    changes: dict[str, Any], now: str, reason: str
) -> None:
    state = registered(**changes)
    for _ in range(2):
        before = copy.deepcopy(state)
        with pytest.raises(CommandRefused) as refused:
            reduce(state, TICK, now)
        assert refused.value.reason == reason
        assert state == before


@pytest.mark.parametrize(("changes", "now"), [({"maxAgeMs": "25"}, "25"), ({"rateLimit": "2"}, "25")])
def test_exactly_at_a_limit_the_batch_is_admitted(changes: dict[str, Any], now: str) -> None:
    assert slots(reduce(registered(**changes), TICK, now)) == ["0", "1"]


def test_runs_that_finished_no_longer_count_as_concurrent() -> None:
    state = reduce(registered(maxConcurrent="2"), TICK, "10")
    with pytest.raises(CommandRefused):
        reduce(state, TICK, "20")
    state = reduce(state, {"type": "finishRun", "triggerId": "t", "slot": "0"}, "20")
    assert slots(reduce(state, TICK, "20")) == ["0", "1", "2"]


def test_admissions_leave_the_rate_window_after_its_length() -> None:
    state = reduce(registered(rateLimit="2"), TICK, "10")
    with pytest.raises(CommandRefused):
        reduce(state, TICK, "109")
    assert slots(reduce(state, TICK, "110")) == ["0", "1", "2", "3"]


def test_a_deeper_tick_than_max_depth_is_refused() -> None:
    state = registered()
    assert slots(reduce(state, {**TICK, "depth": "3"}, "0")) == ["0"]
    with pytest.raises(CommandRefused, match="depth 4 is more than maxDepth 3"):
        reduce(state, {**TICK, "depth": "4"}, "0")


def test_a_replacement_has_an_identity_of_its_own_and_stops_the_old_one() -> None:
    state = reduce(registered(maxAgeMs="5"), TICK, "0")
    state = reduce(state, {**register(id="t2", maxAgeMs="99"), "replaces": "t"}, "25")
    with pytest.raises(CommandRefused, match="disabled"):
        reduce(state, TICK, "25")
    assert slots(reduce(state, {**TICK, "triggerId": "t2"}, "25"), "t2") == ["0", "1"]
    assert slots(state) == ["0"]


def test_registering_the_same_material_again_changes_nothing_and_other_material_is_refused() -> None:
    state = reduce(registered(), TICK, "10")
    assert reduce(state, register(), "10") == state
    with pytest.raises(CommandRefused, match="an id of its own"):
        reduce(state, register(maxAgeMs="7"), "10")


def test_what_the_caller_does_to_a_command_later_does_not_reach_the_state() -> None:
    command = register()
    state = reduce(initial(), command, "0")
    command["trigger"]["schedule"]["maxCatchUp"] = "9"
    assert state["triggers"]["t"]["trigger"]["schedule"]["maxCatchUp"] == "2"


def test_a_disabled_trigger_does_not_tick_until_it_is_enabled() -> None:
    state = registered(enabled=False)
    with pytest.raises(CommandRefused):
        reduce(state, TICK, "0")
    state = reduce(state, {"type": "enableTrigger", "triggerId": "t"}, "0")
    assert slots(reduce(state, TICK, "0")) == ["0"]


def test_time_does_not_run_back() -> None:
    with pytest.raises(CommandRefused, match="time does not run back"):
        reduce(reduce(registered(), TICK, "10"), TICK, "9")


def test_slots_are_exact_far_beyond_what_a_float_can_hold() -> None:
    state = registered({"intervalMs": "1", "catchUp": "LATEST"}, expiresAt="253402300799999", maxAgeMs="0")
    state = reduce(state, TICK, "253402300799998")
    assert state["triggers"]["t"]["nextSlot"] == "253402300799999"
    state = reduce(state, TICK, "253402300799999")
    assert state["triggers"]["t"]["ended"] == "exhausted"


@pytest.mark.parametrize(
    ("command", "path", "words"),
    [
        (register({"intervalMs": "*/5 * * * *"}), "trigger.schedule.intervalMs", "the cron expression '*/5 * * * *'"),
        (register({"intervalMs": "0"}), "trigger.schedule.intervalMs", "expected '1'"),
        (register({"intervalMs": "010"}), "trigger.schedule.intervalMs", "canonical decimal string"),
        (register({"intervalMs": 10}), "trigger.schedule.intervalMs", "canonical decimal string"),  # type: ignore[dict-item]
        (register({"startMs": "-1"}), "trigger.schedule.startMs", "canonical decimal string"),
        (register({"startMs": "9" * 5000}), "trigger.schedule.startMs", "canonical decimal string"),
        (register({"startMs": "9" * 20}), "trigger.schedule.startMs", "before the year 10000"),
        (register({"catchUp": "SOME"}), "trigger.schedule.catchUp", "SKIP, LATEST, ALL"),
        (register({"cron": "x"}), "trigger.schedule.cron", "unknown field"),
        (register(kind="EVENT"), "trigger.kind", "expected 'SCHEDULED'"),
        (register(expiresAt="5", notBefore="6"), "trigger.expiresAt", "at or after notBefore"),
        (register(enabled="yes"), "trigger.enabled", "true or false"),
        ({"type": "registerTrigger"}, "trigger", "expected an object"),
        ({"type": "launch"}, "type", "tickTrigger"),
        ({"type": "tickTrigger"}, "triggerId", "expected a text"),
        ({**TICK, "depth": "x"}, "depth", "canonical decimal string"),
    ],
)
def test_a_malformed_command_is_refused_with_path_and_reason(command: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(InvalidInput) as wrong:
        parse_command(json.dumps(command))
    assert [problem for problem in wrong.value.problems if problem.path == path and words in problem.message]


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(InvalidInput) as wrong:
        parse_command(json.dumps(register({"intervalMs": "x", "maxCatchUp": "y"}, maxAgeMs=3, id="")))
    assert {problem.path for problem in wrong.value.problems} == {
        "trigger.schedule.intervalMs", "trigger.schedule.maxCatchUp", "trigger.maxAgeMs", "trigger.id",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "[]", "nonsense", "[" * 100_000])
def test_what_is_no_command_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_command(text)


def test_an_instant_that_is_no_canonical_decimal_is_refused() -> None:
    for now in ("1.5", "01", "-1", "9" * 20):
        with pytest.raises(InvalidInput):
            reduce(initial(), register(), now)


def test_an_unknown_trigger_is_refused() -> None:
    with pytest.raises(CommandRefused, match="no trigger 't'"):
        reduce(initial(), TICK, "0")


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["SKIP", "LATEST", "ALL"]),
    st.lists(st.integers(0, 60), min_size=1, max_size=8),
    st.integers(1, 4),
)
def test_the_reducer_is_pure_and_every_slot_gets_one_verdict(catch_up: str, waits: list[int], batch: int) -> None:
    limits = {"maxAgeMs": "9999", "maxConcurrent": "999", "rateLimit": "999"}
    state, now = registered({"catchUp": catch_up, "maxCatchUp": str(batch)}, **limits), 0
    for wait in waits:
        now += wait
        before = copy.deepcopy(state)
        after = reduce(state, TICK, str(now))
        assert reduce(state, TICK, str(now)) == after
        assert state == before
        state = after
    record = state["triggers"]["t"]
    judged = [s for run in record["runs"] for s in range(int(run["representsFirst"]), int(run["slot"]) + 1)]
    judged += [s for part in record["skipped"] for s in range(int(part["first"]), int(part["last"]) + 1)]
    assert sorted(judged) == list(range(int(record["nextSlot"])))
    assert record["count"] == str(len(record["runs"]))
    assert json.loads(json.dumps(state)) == state
