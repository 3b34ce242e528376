"""The table of moves, against seed 004, the design, and the database's CHECK constraints."""

from __future__ import annotations

from typing import get_args

import pytest
from sqlalchemy import CheckConstraint

from calsched import model
from calsched.policies.lifecycle import (
    FINAL,
    HEADS,
    MOVES,
    OCCURRENCE_MOVES,
    OPEN,
    Action,
    Move,
    OccurrenceMove,
    OccurrenceState,
    Refusal,
    State,
    move,
    occurrence_diagram,
    occurrence_move,
    schedule_diagram,
)
from calsched.stores.schema import SCHEDULE_STATES, tables


def checks() -> dict[str, str]:
    found = {}
    for table in tables().all():
        for constraint in table.constraints:
            if isinstance(constraint, CheckConstraint):
                found[str(constraint.name).removeprefix("calsched_")] = str(constraint.sqltext)
    return found


@pytest.mark.parametrize(
    ("state", "action", "reason", "target"),
    [
        # seed 004's table
        ("absent", "create", None, "enabled"),
        ("absent", "createDisabled", None, "disabled"),
        ("enabled", "advance", None, "enabled"),
        ("enabled", "revise", None, "enabled"),
        ("enabled", "fail", None, "paused"),
        ("enabled", "disable", None, "disabled"),
        ("disabled", "enable", "operator", "enabled"),
        ("paused", "enable", "failures", "enabled"),
        ("paused", "enable", "invalid", "enabled"),
        ("enabled", "end", None, "ended"),
        ("enabled", "delete", None, "absent"),
        ("paused", "delete", "failures", "absent"),
        ("disabled", "delete", "operator", "absent"),
        ("ended", "delete", None, "absent"),
        ("enabled", "invalidate", None, "paused"),
        # the design's own
        ("enabled", "pause", None, "paused"),
        ("paused", "resume", "operator", "enabled"),
        ("paused", "resume", "restored", "enabled"),
        ("paused", "disable", "failures", "disabled"),
        ("enabled", "restore", None, "paused"),
        ("enabled", "cancel", None, "cancelled"),
        ("paused", "cancel", "operator", "cancelled"),
        ("ended", "cancel", None, "cancelled"),
        ("cancelled", "revise", None, "enabled"),
        ("ended", "revise", None, "enabled"),
        ("paused", "replace", "operator", "paused"),
        ("disabled", "replace", "operator", "disabled"),
        ("enabled", "retire", None, "disabled"),
        ("enabled", "remove", None, "disabled"),
        ("disabled", "enable", "retired", "enabled"),
    ],
)
def test_a_move_of_the_table_is_made(state: State, action: Action, reason: str | None, target: State) -> None:
    made = move(state, action, reason)
    assert isinstance(made, Move) and made.target == target


@pytest.mark.parametrize(
    ("state", "action", "reason", "why"),
    [
        # seed 004, under `invalid`
        ("disabled", "fail", "operator", "pauses nothing"),
        ("absent", "enable", None, "there is no such schedule"),
        ("disabled", "pause", "operator", "it is disabled"),
        # and what follows from the design
        ("paused", "resume", "failures", "enable it"),
        ("paused", "resume", "invalid", "enable it"),
        ("disabled", "resume", "operator", "not paused"),
        ("paused", "fail", "operator", "only what is enabled"),
        ("disabled", "advance", "operator", "nothing is collected"),
        ("paused", "advance", "operator", "nothing is collected"),
        ("ended", "resume", None, "no further slot"),
        ("ended", "enable", None, "no further slot"),
        ("cancelled", "enable", None, "stays cancelled"),
        ("cancelled", "resume", None, "stays cancelled"),
        ("cancelled", "pause", None, "enabled"),
        ("enabled", "create", None, "exists already"),
        ("paused", "createDisabled", "operator", "exists already"),
    ],
)
def test_a_move_that_is_not_in_the_table_is_refused_in_words(
    state: State, action: Action, reason: str | None, why: str
) -> None:
    refused = move(state, action, reason)
    assert isinstance(refused, Refusal)
    assert why in refused.why


@pytest.mark.parametrize("state", get_args(State))
@pytest.mark.parametrize("action", get_args(Action))
def test_every_pair_of_state_and_action_has_an_answer(state: State, action: Action) -> None:
    answer = move(state, action, "operator")
    assert isinstance(answer, Move) or answer.why


def test_what_stops_or_replaces_a_revision_leaves_no_due_slot_without_a_verdict() -> None:
    for action in ("disable", "cancel", "retire", "remove", "revise"):
        assert all(made.due == "passOver" for made in MOVES if made.action == action)
    assert all(made.due == "keep" for made in MOVES if made.action == "pause")


def test_a_state_carries_a_reason_exactly_where_the_database_wants_one() -> None:
    for made in MOVES:
        if made.target in ("paused", "disabled") and made.action != "replace":
            assert made.reason, made
        else:
            assert made.reason is None, made


def test_only_pauses_keep_the_cursor_aside() -> None:
    assert {made.action for made in MOVES if made.cursor == "hold"} == {"pause", "restore", "replace"}


def test_enabling_starts_from_now_and_clears_the_failures() -> None:
    for state, reason in (("disabled", "operator"), ("paused", "failures"), ("paused", "invalid")):
        made = move(state, "enable", reason)  # type: ignore[arg-type]
        assert isinstance(made, Move)
        assert (made.cursor, made.clears_failures, made.reason) == ("fromNow", True, None)


def test_whoever_disables_or_cancels_has_dealt_with_what_asked_for_attention() -> None:
    assert {made.action for made in MOVES if made.clears_attention} == {"disable", "retire", "remove", "cancel"}
    assert not any(made.clears_attention and made.clears_failures for made in MOVES)


def test_resuming_keeps_cursor_and_failures() -> None:
    made = move("paused", "resume", "operator")
    assert isinstance(made, Move)
    assert (made.cursor, made.due, made.clears_failures) == ("keep", "keep", False)


def test_the_states_are_those_of_the_model_and_of_the_database() -> None:
    assert {*get_args(State)} - {"absent"} == {*SCHEDULE_STATES} == {*get_args(model.ScheduleState)}
    assert OPEN == model.OPEN_STATES and FINAL == model.FINAL_STATES
    assert {*get_args(OccurrenceState)} == {*OPEN, *FINAL}


def test_the_checks_of_the_database_repeat_the_states() -> None:
    found = checks()
    assert all(f"'{state}'" in found["ck_schedule_state"] for state in SCHEDULE_STATES)
    assert all(f"'{state}'" in found["ck_occurrence_state"] for state in (*OPEN, *FINAL))
    assert all(f"'{state}'" in found["ck_occurrence_final"] for state in FINAL)
    assert not any(f"'{state}'" in found["ck_occurrence_final"] for state in OPEN)
    assert all(f"'{state}'" in found["ck_occurrence_slot"] for state in HEADS)
    assert "'waiting'" not in found["ck_occurrence_slot"]


@pytest.mark.parametrize(
    ("state", "action", "target"),
    [
        ("waiting", "promote", "ready"),
        ("ready", "claim", "claimed"),
        ("retrying", "claim", "claimed"),
        ("claimed", "start", "running"),
        ("claimed", "giveBack", "ready"),
        ("running", "finish", "succeeded"),
        ("running", "finish", "timed_out"),
        ("running", "interrupt", "interrupted"),
        ("running", "retry", "retrying"),
        ("retrying", "giveUp", "failed"),
        ("waiting", "skip", "skipped"),
        ("retrying", "cancel", "cancelled"),
    ],
)
def test_an_occurrence_moves_as_the_table_says(state: OccurrenceState, action: str, target: OccurrenceState) -> None:
    made = occurrence_move(state, action, target)
    assert isinstance(made, OccurrenceMove) and made.target == target


@pytest.mark.parametrize("state", FINAL)
def test_final_states_are_final(state: OccurrenceState) -> None:
    assert not [made for made in OCCURRENCE_MOVES if made.source == state]
    refused = occurrence_move(state, "claim")
    assert isinstance(refused, Refusal) and refused.why == "its outcome is final"


@pytest.mark.parametrize(
    ("state", "action"), [("waiting", "claim"), ("ready", "start"), ("running", "skip"), ("running", "cancel")]
)
def test_an_occurrence_makes_no_other_move(state: OccurrenceState, action: str) -> None:
    assert isinstance(occurrence_move(state, action), Refusal)


def test_every_open_state_can_end() -> None:
    reach = {made.source: {m.target for m in OCCURRENCE_MOVES if m.source == made.source} for made in OCCURRENCE_MOVES}
    assert set(reach) == set(OPEN)


def test_the_diagrams_draw_every_move() -> None:
    drawn, occurrence = schedule_diagram(), occurrence_diagram()
    assert drawn.startswith("stateDiagram-v2\n") and occurrence.startswith("stateDiagram-v2\n")
    for made in MOVES:
        line = next(ln for ln in drawn.splitlines() if f"    {made.source} --> {made.target}:" in ln)
        assert made.action in line
    assert "    enabled --> ended: end\n" in drawn
    assert "    waiting --> ready: promote\n" in occurrence
