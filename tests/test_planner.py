"""The planner on one tick: the design's vectors, then each rule that it adds to the policies."""

from __future__ import annotations

import time
from typing import Any

import pytest

from calsched.model import Cursor, FoldTarget, Pending
from calsched.planner import LastRange, PlanInput, first_cursor, held_until, key_for, pass_over, plan, run_at
from tests._ticks import TENS, Every, after, definition, given, seed_form, tell

# --- the vectors of the design, section 4 -----------------------------------------------------------------------------

VECTORS: list[tuple[dict[str, Any], int, list[str]]] = [
    ({"misfire": "runOnce"}, 145, ["0-3 by 4", "4 ready, represents 0-4", "next 5 at 150"]),
    ({"misfire": "runOnce"}, 150, ["0-4 by 5", "5 ready, represents 0-5", "next 6 at 160"]),
    ({"misfire": "skip"}, 145, ["0-4 skipped: misfire", "next 5 at 150"]),
    ({"misfire": "skip"}, 150, ["0-4 skipped: misfire", "5 ready", "next 6 at 160"]),
    (
        {"misfire": "boundedReplay", "replay_limit": 2},
        145,
        ["0 ready", "1 ready", "2-4 skipped: replayLimit", "next 5 at 150"],
    ),
    (
        {"misfire": "boundedReplay", "replay_limit": 2},
        150,
        ["0 ready", "1 ready", "2-5 skipped: replayLimit", "next 6 at 160"],
    ),
    ({"misfire": "catchUp", "max_catch_up": 2}, 145, ["0 ready", "1 ready", "next 2 at 120", "more"]),
]
ALL_FIVE = ["0 ready", "1 ready", "2 ready", "3 ready", "4 ready", "next 5 at 150"]


@pytest.mark.parametrize(("options", "now", "expected"), VECTORS)
def test_a_vector_of_the_design(options: dict[str, Any], now: int, expected: list[str]) -> None:
    assert tell(plan(seed_form(**options), now)) == expected


@pytest.mark.parametrize(("options", "now", "expected"), VECTORS)
def test_observed_again_at_the_same_time_nothing_is_replayed(
    options: dict[str, Any], now: int, expected: list[str]
) -> None:
    inp = seed_form(**options)
    again = plan(after(inp, plan(inp, now)), now, occurrence_batch=10_000)
    if options["misfire"] == "catchUp":
        assert tell(again) == ["2 ready", "3 ready", "next 4 at 140", "more"]
    else:
        assert tell(again) == []


def test_catch_up_takes_two_a_tick_until_it_is_up_to_date() -> None:
    inp = seed_form(misfire="catchUp", max_catch_up=2)
    taken = []
    for _ in range(3):
        made = plan(inp, 145)
        taken.append([row.ordinal for row in made.occurrences])
        inp = after(inp, made)
    assert taken == [[0, 1], [2, 3], [4]]
    assert inp.cursor.next_due == 150


@pytest.mark.parametrize("options", [options for options, now, _ in VECTORS if now == 145])
def test_with_the_default_grace_every_slot_is_emitted(options: dict[str, Any]) -> None:
    assert tell(plan(seed_form(**{"grace": 60_000, **options}), 145)) == ALL_FIVE


def test_bounded_replay_emits_no_more_than_the_batch_and_skips_the_rest() -> None:
    inp = seed_form(misfire="boundedReplay", replay_limit=4)
    made = plan(inp, 145, occurrence_batch=3)
    assert tell(made) == ["0 ready", "1 ready", "2 ready", "3-4 skipped: replayLimit", "next 5 at 150"]
    assert tell(plan(after(inp, made), 145, occurrence_batch=100)) == []


def test_a_later_tick_begins_a_new_range() -> None:
    inp = seed_form(misfire="boundedReplay", replay_limit=2)
    made = plan(after(inp, plan(inp, 145)), 179)
    assert tell(made) == ["5 ready", "6 ready", "7-7 skipped: replayLimit", "next 8 at 180"]


# --- how much is written ----------------------------------------------------------------------------------------------

YEAR = 365 * 86_400_000


def test_a_year_of_missed_milliseconds_is_two_rows_and_quick() -> None:
    inp = given(Every(1), misfire="runOnce")
    began = time.perf_counter()
    made = plan(inp, YEAR)
    elapsed = time.perf_counter() - began
    assert len(made.occurrences) + len(made.ranges) == 2
    assert tell(made) == [
        f"0-{YEAR - 1} by {YEAR}",
        f"{YEAR} ready, represents 0-{YEAR}",
        f"next {YEAR + 1} at {YEAR + 1}",
    ]
    assert elapsed < 0.020


@pytest.mark.parametrize("misfire", ["skip", "boundedReplay"])
def test_a_year_of_skipped_milliseconds_is_a_few_rows(misfire: str) -> None:
    made = plan(given(Every(1), misfire=misfire, replay_limit=2, grace=0), YEAR)
    assert len(made.occurrences) + len(made.ranges) <= 3
    assert made.cursor is not None and made.cursor.next_ordinal == YEAR + 1


@pytest.mark.parametrize(
    ("options", "rows", "ranges"),
    [
        ({"overlap": "coalesce"}, 1, ["1-59000 by 0"]),
        ({"overlap": "skip"}, 1, ["1-59000 skipped: overlap"]),
        ({"overlap": "queue", "max_queued": 9}, 10, ["10-59000 skipped: queueFull"]),
    ],
)
def test_an_outage_within_the_grace_of_a_fast_rule_writes_ranges_not_rows(
    options: dict[str, Any], rows: int, ranges: list[str]
) -> None:
    made = plan(given(Every(1), **options), 59_000)
    assert len(made.occurrences) == rows
    assert [line for line in tell(made) if "-" in line and "ready" not in line] == ranges
    assert not made.more


def test_what_exceeds_the_batch_stays_due() -> None:
    inp = given(overlap="queue")
    made = plan(inp, 145, occurrence_batch=2)
    assert tell(made) == ["0 ready", "1 waiting", "next 2 at 120", "more"]
    inp = after(inp, made)._replace(pending=Pending(ready=1, waiting=1, free_slots=()))
    assert tell(plan(inp, 145, occurrence_batch=2)) == ["2 waiting", "3 waiting", "next 4 at 140", "more"]


# --- overlap ----------------------------------------------------------------------------------------------------------

RUNNING = Pending(active=1, free_slots=())
BEHIND = Pending(
    active=1, waiting=1, free_slots=(), fold_into=FoldTarget(pk=7, ordinal=4, represents_last=4, range_pk=None)
)


def at(inp: PlanInput, ordinal: int, **changes: Any) -> PlanInput:
    return inp._replace(cursor=Cursor(ordinal, 100 + 10 * ordinal), **changes)


def test_nothing_pending_and_on_time_is_one_ready_occurrence() -> None:
    made = plan(given(), 100)
    assert tell(made) == ["0 ready", "next 1 at 110"]
    assert made.occurrences[0].active_slot == 0
    assert (made.used, made.cursor) == (1, Cursor(1, 110, last_due=100))


def test_behind_running_work_it_waits_without_an_active_slot() -> None:
    made = plan(given(overlap="queue")._replace(pending=RUNNING), 100)
    assert tell(made) == ["0 waiting", "next 1 at 110"]
    assert made.occurrences[0].active_slot is None


def test_only_the_head_of_a_queue_is_ready_even_where_more_slots_are_free() -> None:
    inp = given(overlap="queue")._replace(pending=Pending(free_slots=(0, 1, 2)))
    assert tell(plan(inp, 125)) == ["0 ready", "1 waiting", "2 waiting", "next 3 at 130"]


def test_allow_starts_as_many_as_may_run_and_the_others_wait() -> None:
    made = plan(given(overlap="allow", max_concurrent=2), 125)
    assert tell(made) == ["0 ready", "1 ready", "2 waiting", "next 3 at 130"]
    assert [row.active_slot for row in made.occurrences] == [0, 1, None]


def test_a_free_slot_is_left_to_what_waits_already() -> None:
    inp = given(overlap="allow", max_concurrent=3)._replace(pending=Pending(active=1, waiting=1, free_slots=(1, 2)))
    made = plan(inp, 115)
    assert tell(made) == ["0 ready", "1 waiting", "next 2 at 120"]


def test_a_fold_grows_the_waiting_one_and_then_extends_its_range() -> None:
    inp = at(given(), 5, pending=BEHIND)
    assert tell(plan(inp, 155)) == ["5-5 folded into #7", "next 6 at 160"]
    grown = BEHIND._replace(fold_into=FoldTarget(7, 4, represents_last=5, range_pk=31))
    made = plan(at(inp, 6, pending=grown), 175)
    assert tell(made) == ["6-7 folded into #7, extends #31", "next 8 at 180"]
    assert made.used == 0


def test_a_fold_after_a_gap_begins_a_range_of_its_own() -> None:
    stale = BEHIND._replace(fold_into=FoldTarget(7, 4, represents_last=5, range_pk=31))
    assert tell(plan(at(given(), 7, pending=stale), 175)) == ["7-7 folded into #7", "next 8 at 180"]


def test_a_missed_run_that_folds_is_one_range_with_all_it_stands_for() -> None:
    inp = given(grace=0)._replace(pending=BEHIND)
    assert tell(plan(inp, 145)) == ["0-4 folded into #7", "next 5 at 150"]


def test_a_missed_run_that_overlaps_is_one_range_with_all_it_stands_for() -> None:
    made = plan(given(grace=0, overlap="skip")._replace(pending=RUNNING), 145)
    assert tell(made) == ["0-4 skipped: overlap", "next 5 at 150"]
    assert made.used == 1


def test_a_missed_run_may_wait_behind_running_work() -> None:
    made = plan(given(grace=0)._replace(pending=RUNNING), 145)
    assert tell(made) == ["0-3 by 4", "4 waiting, represents 0-4", "next 5 at 150"]


def test_bounded_replay_that_coalesces_folds_what_it_replays() -> None:
    made = plan(given(grace=0, misfire="boundedReplay", replay_limit=3), 145)
    assert tell(made) == ["0 ready, represents 0-2", "1-2 by 0", "3-4 skipped: replayLimit", "next 5 at 150"]


@pytest.mark.parametrize(("first", "extends"), [(5, 31), (6, None)])
def test_a_skip_extends_the_newest_range_only_where_it_follows_at_once(first: int, extends: int | None) -> None:
    inp = at(given(overlap="skip"), first, pending=RUNNING, last_range=LastRange(31, 4, "overlap"))
    made = plan(inp, 100 + 10 * first)
    assert made.ranges[0].extends == extends
    assert made.used == (0 if extends else 1)


def test_a_skip_with_another_reason_extends_nothing() -> None:
    inp = at(given(overlap="skip"), 5, pending=RUNNING, last_range=LastRange(31, 4, "misfire"))
    assert plan(inp, 150).ranges[0].extends is None


# --- APScheduler's own semantics --------------------------------------------------------------------------------------


def apscheduler(coalesce: bool, grace: int | None, free: tuple[int, ...] = (0,)) -> PlanInput:
    options = {"coalesce": coalesce, "misfire_grace_time": grace, "max_instances": 1}
    inp = given(misfire="apscheduler", overlap="apscheduler", apscheduler=options)
    return inp._replace(pending=Pending(active=1 - len(free), free_slots=free))


@pytest.mark.parametrize(
    ("coalesce", "grace", "free", "expected"),
    [
        (True, 25, (0,), ["0-3 by 4", "4 ready, represents 0-4"]),
        (True, 4, (0,), ["0-4 skipped: misfire"]),
        (True, 5, (0,), ["0-3 by 4", "4 ready, represents 0-4"]),  # equal is on time
        (True, None, (0,), ["0-3 by 4", "4 ready, represents 0-4"]),
        (False, 25, (0,), ["0-1 skipped: misfire", "2 ready", "3 waiting", "4 waiting"]),
        (False, 4, (0,), ["0-4 skipped: misfire"]),
        (False, None, (0,), ["0 ready", "1 waiting", "2 waiting", "3 waiting", "4 waiting"]),
        (False, 25, (), ["0-4 skipped: maxInstances"]),  # before the grace is looked at
        (True, 4, (), ["0-4 skipped: maxInstances"]),
    ],
)
def test_apscheduler_keeps_its_own_meaning_and_every_dropped_run_is_a_range(
    coalesce: bool, grace: int | None, free: tuple[int, ...], expected: list[str]
) -> None:
    assert tell(plan(apscheduler(coalesce, grace, free), 145)) == [*expected, "next 5 at 150"]


def test_a_single_late_run_of_apscheduler_is_dropped() -> None:
    assert tell(plan(apscheduler(True, 4), 105)) == ["0-0 skipped: misfire", "next 1 at 110"]
    assert tell(plan(apscheduler(True, 5), 105)) == ["0 ready", "next 1 at 110"]


# --- slots that are set aside -----------------------------------------------------------------------------------------


def test_what_an_operator_skips_is_a_range_and_its_neighbours_are_judged_as_usual() -> None:
    inp = seed_form(grace=60_000)._replace(skips=frozenset({120}))
    made = plan(inp, 145)
    assert tell(made) == [
        "0 ready", "1 ready", "2-2 skipped: operator, uncounted", "3 ready", "4 ready", "next 5 at 150",
    ]  # fmt: skip
    assert made.used == 4


def test_a_run_once_stands_for_the_neighbours_of_a_skipped_slot() -> None:
    inp = seed_form()._replace(skips=frozenset({120}))
    assert tell(plan(inp, 145)) == [
        "0-1 by 4", "2-2 skipped: operator, uncounted", "3-3 by 4", "4 ready, represents 0-4", "next 5 at 150",
    ]  # fmt: skip


def test_the_last_due_slot_may_be_the_skipped_one() -> None:
    inp = seed_form()._replace(skips=frozenset({140}))
    assert tell(plan(inp, 145)) == [
        "0-2 by 3", "3 ready, represents 0-3", "4-4 skipped: operator, uncounted", "next 5 at 150",
    ]  # fmt: skip


def test_neighbours_that_are_both_skipped_are_one_range() -> None:
    inp = seed_form(grace=60_000)._replace(skips=frozenset({120, 130}))
    assert "2-3 skipped: operator, uncounted" in tell(plan(inp, 145))


def test_a_wish_that_meets_no_slot_changes_nothing() -> None:
    inp = seed_form(grace=60_000)._replace(skips=frozenset({121, 9_999}))
    assert tell(plan(inp, 145)) == ALL_FIVE


def test_only_skipped_slots_make_no_occurrence() -> None:
    inp = seed_form()._replace(skips=frozenset({100}))
    assert tell(plan(inp, 100)) == ["0-0 skipped: operator, uncounted", "next 1 at 110"]


def test_slots_inside_a_blackout_are_one_range() -> None:
    inp = seed_form(grace=60_000, blackouts=({"from": 110, "to": 130, "whenDue": "skip", "note": "release"},))
    assert tell(plan(inp, 145)) == [
        "0 ready", "1-2 skipped: blackout, uncounted", "3 ready", "4 ready", "next 5 at 150",
    ]  # fmt: skip


def test_a_recurring_blackout_takes_its_slots_each_time() -> None:
    window = {
        "trigger": {"kind": "interval", "intervalMs": 50, "firstTick": "1970-01-01T00:00:00.110Z"},
        "durationSeconds": 0.015,
    }
    inp = seed_form(grace=60_000, blackouts=({**window, "whenDue": "skip"},))
    assert tell(plan(inp, 185)) == [
        "0 ready", "1-2 skipped: blackout, uncounted", "3 ready", "4 ready", "5 ready",
        "6-7 skipped: blackout, uncounted", "8 ready", "next 9 at 190",
    ]  # fmt: skip


def test_one_tick_looks_at_a_thousand_windows_and_leaves_the_rest_due() -> None:
    window = {
        "trigger": {"kind": "interval", "intervalMs": 20, "firstTick": "1970-01-01T00:00:00.100Z"},
        "durationSeconds": 0.001,
    }
    inp = given(grace=0, blackouts=({**window, "whenDue": "skip"},))
    made = plan(inp, 100 + 20 * 5_000)
    assert made.cursor is not None and made.more
    assert made.cursor.next_ordinal == 2_000
    assert len([part for part in made.ranges if part.reason == "blackout"]) == 1_000


def test_a_blackout_that_holds_emits_and_moves_the_run_to_its_end() -> None:
    inp = given(blackouts=({"from": 95, "to": 130},))
    assert tell(plan(inp, 100)) == ["0 ready", "next 1 at 110"]
    assert run_at(inp.definition, "key", 100, 110) == 130
    assert run_at(inp.definition, "key", 130, 140) == 130


def test_a_blackout_that_skips_moves_nothing() -> None:
    assert held_until(definition(blackouts=({"from": 100, "to": 130, "whenDue": "skip"},)), 110) == 110


def test_held_work_waits_through_windows_that_touch() -> None:
    d = definition(blackouts=({"from": 100, "to": 130}, {"from": "1970-01-01T00:00:00.130Z", "to": 150}))
    assert held_until(d, 100) == 150
    assert held_until(d, 99) == 99


# --- budgets and limits -----------------------------------------------------------------------------------------------


def test_when_the_budget_is_used_up_the_rest_is_one_uncounted_range_and_the_revision_ends() -> None:
    made = plan(seed_form(grace=60_000, max_occurrences=2), 145)
    assert tell(made) == [
        "0 ready", "1 ready", "2-4 skipped: maxOccurrences, uncounted", "next 5 at None", "ended: maxOccurrences",
    ]  # fmt: skip
    assert made.used == 2


def test_the_last_of_a_budget_ends_the_revision_at_once() -> None:
    made = plan(given(max_occurrences=1), 100)
    assert tell(made) == ["0 ready", "next 1 at None", "ended: maxOccurrences"]


def test_a_skipped_range_uses_one_and_represented_slots_none() -> None:
    assert plan(seed_form(misfire="skip", max_occurrences=9), 150).used == 2
    assert plan(seed_form(misfire="runOnce", max_occurrences=9), 150).used == 1


def test_what_a_catch_up_left_due_goes_with_the_budget() -> None:
    made = plan(seed_form(misfire="catchUp", max_catch_up=2, max_occurrences=2), 145)
    assert tell(made)[2:] == ["2-4 skipped: maxOccurrences, uncounted", "next 5 at None", "ended: maxOccurrences"]
    assert not made.more


def test_extending_a_range_uses_nothing() -> None:
    inp = at(given(overlap="skip", max_occurrences=3), 5, pending=RUNNING, last_range=LastRange(31, 4, "overlap"))
    made = plan(inp._replace(used=2), 150)
    assert (made.used, made.ended) == (0, None)


def test_due_exactly_at_the_expiry_is_still_emitted_and_nothing_after_it() -> None:
    made = plan(given(expires_at=110)._replace(cursor=Cursor(1, 110)), 110)
    assert tell(made) == ["1 ready", "next 2 at None", "ended: expired"]


def test_past_the_expiry_what_was_due_before_it_is_skipped() -> None:
    made = plan(given(expires_at=125), 145)
    assert tell(made) == ["0-2 skipped: expired", "next 3 at None", "ended: expired"]


def test_the_last_slot_of_a_rule_expires_like_any_other() -> None:
    made = plan(given(Every(10, 100, end=105), expires_at=120), 145)
    assert tell(made) == ["0-0 skipped: expired", "next 1 at None", "ended: exhausted"]


def test_a_cursor_past_the_expiry_ends_with_nothing_judged() -> None:
    made = plan(given(expires_at=95)._replace(cursor=Cursor(0, 100)), 145)
    assert tell(made) == ["next 0 at None", "ended: expired"]


def test_a_rule_that_stops_ends_its_revision() -> None:
    assert tell(plan(given(Every(10, 100, end=105)), 100)) == ["0 ready", "next 1 at None", "ended: exhausted"]
    assert tell(plan(given(Every(10, 100, end=125), grace=0), 145)) == [
        "0-1 by 2", "2 ready, represents 0-2", "next 3 at None", "ended: exhausted",
    ]  # fmt: skip


def test_an_occurrence_that_is_later_than_allowed_is_skipped() -> None:
    made = plan(seed_form(grace=60_000, max_lateness=20), 145)
    assert tell(made) == ["0-2 skipped: maxLateness", "3 ready", "4 ready", "next 5 at 150"]


def test_a_missed_run_is_as_late_as_the_slot_that_it_runs_for() -> None:
    assert tell(plan(seed_form(max_lateness=5), 145))[1] == "4 ready, represents 0-4"
    assert tell(plan(seed_form(max_lateness=4), 145)) == ["0-4 skipped: maxLateness", "next 5 at 150"]


def test_catching_up_leaves_all_that_is_too_late_behind_at_once() -> None:
    made = plan(seed_form(Every(1), misfire="catchUp", max_catch_up=2, max_lateness=50), YEAR)
    stale = YEAR - 51
    assert tell(made) == [
        f"0-{stale} skipped: maxLateness", f"{stale + 1} ready", f"{stale + 2} ready",
        f"next {stale + 3} at {stale + 3}", "more",
    ]  # fmt: skip


def test_a_limit_of_zero_lateness_at_the_epoch_is_a_limit() -> None:
    assert tell(plan(seed_form(Every(1), grace=60_000, max_lateness=0), 1)) == [
        "0-0 skipped: maxLateness", "1 ready", "next 2 at 2",
    ]  # fmt: skip


def test_beyond_the_rate_limit_the_newest_are_skipped() -> None:
    inp = seed_form(grace=60_000, rate_limit=3, rate_window=100)._replace(admitted=(40, 60))
    made = plan(inp, 145)
    assert tell(made) == ["0 ready", "1 ready", "2-4 skipped: rateLimit", "next 5 at 150"]


def test_nothing_folds_into_an_occurrence_that_the_rate_limit_refused() -> None:
    inp = given(rate_limit=1, rate_window=100)._replace(admitted=(99,))
    assert tell(plan(inp, 145)) == ["0-4 skipped: rateLimit", "next 5 at 150"]


def test_a_fold_is_no_new_occurrence_for_the_rate_limit() -> None:
    inp = given(rate_limit=1, rate_window=100)._replace(admitted=(99,), pending=BEHIND)
    assert tell(plan(inp, 145)) == ["0-4 folded into #7", "next 5 at 150"]


@pytest.mark.parametrize(
    ("options", "admitted", "word"),
    [
        ({"max_lateness": 20}, (), "maxLatenessSeconds 0.02"),
        ({"rate_limit": 3, "rate_window": 100}, (99,), "rateLimit 3"),
        ({"max_concurrent": 4}, (), "maxConcurrent"),
    ],
)
def test_strict_admission_refuses_the_whole_batch_and_repeating_it_changes_nothing(
    options: dict[str, Any], admitted: tuple[int, ...], word: str
) -> None:
    inp = seed_form(**{"grace": 60_000, "admission": "strict", **options})._replace(admitted=admitted)
    made = plan(inp, 145)
    assert made.refused is not None and word in made.refused
    assert (made.occurrences, made.ranges, made.cursor, made.used) == ((), (), None, 0)
    assert plan(inp, 145) == made


def test_strict_admission_lets_a_batch_within_its_limits_pass() -> None:
    inp = seed_form(grace=60_000, admission="strict", max_lateness=45, rate_limit=5, rate_window=100)
    assert tell(plan(inp, 145)) == ALL_FIVE


# --- where revisions start and stop -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("created_at", "first"), [(0, 100), (100, 100), (101, 110), (145, 150)])
def test_a_revision_starts_at_its_first_slot_from_its_creation_on(created_at: int, first: int) -> None:
    assert first_cursor(definition(), TENS, created_at) == Cursor(0, first)


def test_a_revision_that_replaces_another_starts_after_what_that_one_judged() -> None:
    assert first_cursor(definition(), TENS, 145, after=150) == Cursor(0, 160)
    assert first_cursor(definition(), TENS, 145, after=140) == Cursor(0, 150)


def test_a_backlog_from_the_start_begins_at_the_first_tick_however_long_ago() -> None:
    d = definition(backlog="fromStart", trigger={"kind": "interval", "firstTick": 100, "intervalMs": 10})
    assert first_cursor(d, TENS, YEAR) == Cursor(0, 100)
    assert first_cursor(d, TENS, YEAR, after=140) == Cursor(0, 150)


def test_a_rule_without_a_beginning_has_no_backlog() -> None:
    d = definition(backlog="fromStart", trigger={"kind": "interval", "intervalMs": 10})
    assert first_cursor(d, TENS, 145) == Cursor(0, 150)


def test_a_revision_whose_slots_are_over_has_no_next_due_instant() -> None:
    assert first_cursor(definition(), Every(10, 100, end=120), 121) == Cursor(0, None)
    assert first_cursor(definition(expires_at=149), TENS, 141) == Cursor(0, None)


def test_what_is_passed_over_is_one_uncounted_range() -> None:
    part, cursor = pass_over(definition(), TENS, Cursor(3, 130, 120), 155, "revised")
    assert part is not None
    assert (part.first, part.last, part.first_due, part.last_due) == (3, 5, 130, 150)
    assert (part.reason, part.counted) == ("revised", False)
    assert cursor == Cursor(6, 160, 150)


def test_passing_over_begins_after_the_last_judged_slot_where_collecting_had_stopped() -> None:
    part, cursor = pass_over(definition(), TENS, Cursor(3, None, 120), 155, "disabled")
    assert part is not None and (part.first, part.last) == (3, 5)
    assert cursor == Cursor(6, 160, 150)


@pytest.mark.parametrize("cursor", [Cursor(3, 160, 150), Cursor(3, None, 150), Cursor(0, None)])
def test_where_nothing_is_due_nothing_is_passed_over(cursor: Cursor) -> None:
    part, moved = pass_over(definition(), TENS, cursor, 155, "disabled")
    assert part is None
    assert moved == cursor._replace(next_due=160)


def test_nothing_past_the_expiry_is_passed_over() -> None:
    part, cursor = pass_over(definition(expires_at=135), TENS, Cursor(0, 100), 155, "cancelled")
    assert part is not None and part.last_due == 130
    assert cursor.next_due is None


# --- when it runs, what it is called ----------------------------------------------------------------------------------


def test_jitter_is_a_hash_of_the_key_below_its_bound_and_before_the_next_slot() -> None:
    d = definition(jitter=1_000)
    spread = {run_at(d, f"key {n}", 100, 10_000) for n in range(300)}
    assert len(spread) > 200
    assert min(spread) >= 100 and max(spread) < 1_100
    assert run_at(d, "key 1", 100, 10_000) == run_at(d, "key 1", 100, 10_000)
    assert all(run_at(d, f"key {n}", 100, 110) < 110 for n in range(300))


def test_without_jitter_it_runs_when_it_is_due() -> None:
    assert run_at(definition(), "key", 100, None) == 100


def test_the_key_names_installation_namespace_schedule_revision_and_ordinal() -> None:
    assert str(key_for("inst", definition(namespace="ops"), 3, 2**60)) == f'["inst","ops","job",3,"{2**60}"]'
    assert str(key_for("inst", definition(), 1, 0, "manual")) == '["inst","default","job",1,"0","manual"]'
