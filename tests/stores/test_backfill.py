"""Backfills on every database: which due instants, in which order, and never in the slots' way."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from calsched.errors import InvalidInput, MoveNotAllowed, PendingWork, Refused, UnknownSchedule
from calsched.stores import backfill as verbs
from calsched.stores.backfill import Begun, Candidates, Only
from calsched.stores.engine import Store
from tests.stores._helpers import DAY, HOUR, MINUTE, SECOND, T0, Ledger, every, failed, succeeded

ALL: tuple[Only, ...] = ("all", "missing", "failed")


@pytest.fixture
def ledger(store: Store, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    made = Ledger(store)
    monkeypatch.setattr(store, "now", lambda conn: made.now)
    return made


def look(ledger: Ledger, first: int = T0, last: int = T0 + DAY, **more: Any) -> Candidates:
    with ledger.store.read() as conn:
        return verbs.candidates(ledger.store, conn, "default", "a", first, last, **more)


def minutes(ledger: Ledger, only: Only) -> list[int]:
    return [(one.due - T0) // MINUTE for one in look(ledger, only=only).found]


def go_on(ledger: Ledger, begun: Begun, dues: list[int]) -> Begun:
    with ledger.store.write() as conn:
        return verbs.more(ledger.store, conn, begun, dues, ledger.now)


def backfills(ledger: Ledger) -> list[tuple[int, str]]:
    """(minute, state) of the backfill series, in the order in which they were made."""
    return [((one.due - T0) // MINUTE, one.state) for one in ledger.occurrences() if one.series == "backfill"]


def past(count: int, step: int = MINUTE) -> list[int]:
    return [T0 + n * step for n in range(count)]


# --- which due instants -----------------------------------------------------------------------------------------------


def test_candidates_know_what_became_of_each_due_instant(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, misfire="skip", grace=0, overlap="queue", pause_after_failures=0))
    for tick, fail in enumerate((True, False)):
        ledger.tick(T0 + tick * MINUTE)
        ledger.run(fail=fail)
    ledger.tick(T0 + 2 * MINUTE + 1)
    ledger.tick(T0 + 3 * MINUTE)  # still ready
    assert [one.verdict for one in look(ledger).found] == ["failed", "succeeded", "skipped", "ready"]
    assert {only: minutes(ledger, only) for only in ALL} == {"all": [0, 1, 2, 3], "missing": [2], "failed": [0]}
    assert look(ledger, only="missing").left_out == {"failed": 1, "succeeded": 1, "ready": 1}


def test_what_another_occurrence_stood_for_is_not_missing(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0 + 3 * MINUTE)
    ledger.run()
    verdicts = [one.verdict for one in look(ledger).found]
    assert verdicts == ["represented", "represented", "represented", "succeeded"]
    assert minutes(ledger, "missing") == []


def test_what_stood_for_others_and_was_skipped_itself_leaves_them_missing(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0 + 2 * MINUTE)
    ledger.control("disable")
    assert [one.verdict for one in look(ledger).found] == ["skipped", "skipped", "skipped"]
    assert minutes(ledger, "missing") == [0, 1, 2]


def test_the_past_before_the_schedule_was_made_is_missing(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    found = look(ledger, T0 - 5 * MINUTE, T0 - 1).found
    assert [(one.due - T0) // MINUTE for one in found] == [-5, -4, -3, -2, -1]
    assert {one.verdict for one in found} == {"none"}


def test_what_the_schedule_will_judge_itself_is_left_to_it(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    ledger.now = T0 + 2 * MINUTE
    assert look(ledger).found[0].verdict == "ready"
    assert (len(look(ledger).found), look(ledger).left_out) == (1, {"unjudged": 2})


def test_other_revisions_count_for_what_ran(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    ledger.run()
    ledger.now = T0 + SECOND
    ledger.update(every(2 * MINUTE))
    ledger.tick(T0 + 2 * MINUTE)
    ledger.run()
    assert [((one.due - T0) // MINUTE, one.verdict) for one in look(ledger).found] == [
        (0, "succeeded"), (2, "succeeded"),
    ]  # fmt: skip


def test_an_earlier_backfill_counts_for_what_ran_and_is_not_repeated_while_it_is_under_way(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, misfire="skip", grace=0))
    ledger.tick(T0 + 3 * MINUTE + 1)
    assert minutes(ledger, "missing") == [0, 1, 2, 3]
    ledger.control("backfill", dues=past(3), max_concurrent=3)
    one, two, _ = ledger.begin()
    ledger.finish(succeeded(one, ledger.now), failed(two, ledger.now))
    assert look(ledger, only="all").left_out == {"underway": 1}
    assert {only: minutes(ledger, only) for only in ALL} == {"all": [0, 1, 3], "missing": [3], "failed": [1]}


def test_a_span_with_too_many_due_instants_is_refused(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.now = T0 + DAY
    with pytest.raises(InvalidInput, match="more than 100 due instants lie in this span"):
        look(ledger, T0 - 100 * MINUTE, T0, limit=100)
    assert len(look(ledger, T0 - 100 * MINUTE, T0 - 1, limit=100).found) == 100


def test_below_the_watermark_of_pruned_history_nothing_is_filled(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    for tick in range(4):
        ledger.tick(T0 + tick * MINUTE)
        ledger.run()
    t = ledger.store.tables
    with ledger.store.write() as conn:
        conn.execute(update(t.revisions).values(pruned_before=2))
        conn.execute(t.occurrences.delete().where(t.occurrences.c.ordinal < 2))
    with pytest.raises(Refused, match="before 2027-01-15T08:02:00Z has been pruned"):
        look(ledger, T0, T0 + DAY)
    assert len(look(ledger, T0 + 2 * MINUTE, T0 + DAY).found) == 2
    assert len(look(ledger, T0 - 9 * MINUTE, T0 - MINUTE).found) == 9  # before there was anything to prune
    with ledger.store.write() as conn:
        conn.execute(update(t.revisions).values(pruned_before=4))
        conn.execute(t.occurrences.delete())
    with pytest.raises(Refused, match=r"before 2027-01-15T08:03:00\.001Z has been pruned"):
        look(ledger, T0 + 3 * MINUTE, T0 + DAY)


def test_candidates_of_an_unknown_schedule_are_refused(ledger: Ledger) -> None:
    with pytest.raises(UnknownSchedule):
        look(ledger)


# --- running them -----------------------------------------------------------------------------------------------------


def test_a_backfill_runs_so_many_at_once_oldest_first_and_leaves_the_slots_alone(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, overlap="skip", max_occurrences=2))
    ledger.now = T0 - 1
    ledger.control("backfill", dues=past(5, -MINUTE)[1:], max_concurrent=2)
    ledger.tick(T0)
    taken = ledger.begin()
    assert [(one.series, one.due) for one in taken] == [
        ("backfill", T0 - 4 * MINUTE), ("backfill", T0 - 3 * MINUTE), ("slot", T0),
    ]  # fmt: skip
    assert len({one.active_slot for one in taken}) == 3
    ledger.tick(T0 + MINUTE)
    assert ledger.ranges() == [(1, 1, "overlap")]  # because of its own running slot, not of the backfill
    assert ledger.view().used == 2
    ledger.finish(*(succeeded(one, ledger.now) for one in taken))
    assert [one.due for one in ledger.begin()] == [T0 - 2 * MINUTE, T0 - MINUTE]
    ledger.check()


def test_the_newest_may_come_first(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.now = T0 + HOUR
    ledger.control("backfill", dues=past(3), newest_first=True)
    assert [ledger.run()[0].due for _ in range(3)] == [T0 + 2 * MINUTE, T0 + MINUTE, T0]


def test_a_failed_backfill_is_retried_but_never_pauses_its_schedule(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, max_retries=1, retry_delay=SECOND, pause_after_failures=1))
    ledger.now = T0 + HOUR
    ledger.control("backfill", dues=[T0])
    ledger.run(fail=True)
    assert backfills(ledger) == [(0, "retrying")]
    ledger.now += SECOND
    ledger.run(fail=True)
    assert backfills(ledger) == [(0, "failed")]
    assert (ledger.view().state, ledger.view().failures) == ("enabled", 0)


def test_a_deadline_from_the_due_instant_does_not_end_a_backfill(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, deadline=MINUTE))
    ledger.now = T0 + DAY
    ledger.control("backfill", dues=[T0])
    assert [one.deadline for one in ledger.run()] == [None]


def test_another_backfill_waits_behind_the_first_and_together_they_run_no_more_than_asked(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.now = T0 + HOUR
    ledger.control("backfill", dues=past(2), max_concurrent=2)
    ledger.control("backfill", dues=past(4)[2:], max_concurrent=2)
    assert [state for _, state in backfills(ledger)] == ["ready", "ready", "waiting", "waiting"]
    ledger.run()
    ledger.run()
    ledger.control("backfill", dues=past(9)[4:], max_concurrent=3)
    assert [state for _, state in backfills(ledger)[4:]] == ["ready", "ready", "ready", "waiting", "waiting"]
    ledger.check()


def test_what_is_no_slot_or_not_past_is_refused_whole(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    with pytest.raises(InvalidInput) as caught:
        ledger.control("backfill", dues=[T0 - 1, T0, T0 + MINUTE], max_concurrent=0)
    assert [problem.path for problem in caught.value.problems] == ["maxConcurrent", "dues[0]", "dues[2]"]
    with pytest.raises(InvalidInput, match="expected 1 to 10,000 due instants, got 10,001"):
        ledger.control("backfill", dues=past(10_001, -MINUTE), most=1)
    with pytest.raises(InvalidInput, match="expected 1 to 10,000 due instants, got 0"):
        ledger.control("backfill", dues=[])
    assert ledger.occurrences() == []


@pytest.mark.parametrize("action", ["pause", "disable", "cancel"])
def test_nothing_is_filled_where_nothing_would_start(ledger: Ledger, action: str) -> None:
    ledger.create(every(MINUTE))
    ledger.control(action)
    with pytest.raises(MoveNotAllowed, match="backfill is not possible: nothing of it would start"):
        ledger.control("backfill", dues=[T0])


def test_an_expired_schedule_starts_nothing_and_is_not_filled(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, expires_at=T0 + MINUTE))
    ledger.now = T0 + MINUTE
    ledger.control("backfill", dues=[T0])
    assert len(ledger.run()) == 1
    ledger.now += 1
    with pytest.raises(MoveNotAllowed, match="it expired at 2027-01-15T08:01:00Z"):
        ledger.control("backfill", dues=[T0 + MINUTE])


def test_a_revision_waits_for_its_backfills_unless_they_are_cancelled(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.now = T0 + HOUR
    ledger.control("backfill", dues=past(3))
    with pytest.raises(PendingWork):
        ledger.update(every(2 * MINUTE))
    ledger.control("cancel_backfill")
    ledger.update(every(2 * MINUTE))
    ledger.check()


def test_one_decision_tells_of_it_all(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.now = T0 + HOUR
    begun = ledger.control("backfill", dues=past(6), max_concurrent=2, most=2)
    go_on(ledger, begun, past(6)[2:])
    assert ledger.decisions() == ["create", "backfill"]
    with ledger.store.read() as conn:
        from calsched.stores import inspect

        (newest, _) = inspect.decisions_of(ledger.store, conn, "default", "a")
    assert newest.evidence == {
        "series": "backfill", "count": 6, "maxConcurrent": 2, "first": "2027-01-15T08:00:00Z",
        "last": "2027-01-15T08:05:00Z",
    }  # fmt: skip


# --- in pages ---------------------------------------------------------------------------------------------------------


def test_pages_go_on_where_the_one_before_ended_also_when_its_part_has_run_already(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.now = T0 + HOUR
    begun = ledger.control("backfill", dues=past(6), max_concurrent=2, most=2)
    assert begun.made == 2
    ledger.run()
    begun = go_on(ledger, begun, past(6)[2:4])
    begun = go_on(ledger, begun, past(6)[4:])
    assert begun.made == 6
    assert [state for _, state in backfills(ledger)[2:]] == ["ready", "ready", "waiting", "waiting"]
    while ledger.run():
        ledger.check()
    assert backfills(ledger) == [(n, "succeeded") for n in range(6)]


def test_a_backfill_that_is_cancelled_between_two_pages_gets_no_further_one(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.now = T0 + HOUR
    begun = ledger.control("backfill", dues=past(4), most=2)
    ledger.control("cancel_backfill")
    with pytest.raises(Refused, match=r"ended after 2 occurrences: it was cancelled"):
        go_on(ledger, begun, past(4)[2:])
    assert backfills(ledger) == [(0, "cancelled"), (1, "cancelled")]


def test_a_schedule_that_is_stopped_or_revised_between_two_pages_gets_no_further_one(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.now = T0 + HOUR
    begun = ledger.control("backfill", dues=past(4), most=2)
    ledger.control("pause")
    with pytest.raises(Refused, match=r"ended after 2 occurrences: 'a' is paused"):
        go_on(ledger, begun, past(4)[2:])
    ledger.control("resume")
    ledger.update(every(2 * MINUTE), mode="carry")
    with pytest.raises(Refused, match="another revision now"):
        go_on(ledger, begun, past(4)[2:])
    ledger.check()


# --- held, let go, cancelled ------------------------------------------------------------------------------------------


def test_a_backfill_can_be_held_let_go_and_cancelled(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, overlap="queue"))
    ledger.now = T0 + 10 * MINUTE
    ledger.control("backfill", dues=past(4), newest_first=True)
    assert ledger.control("hold_backfill", hold=True) == 4
    assert ledger.claim() == []
    assert ledger.control("hold_backfill", hold=False) == 4
    (first,) = ledger.begin()
    assert first.due == T0 + 3 * MINUTE
    assert ledger.control("cancel_backfill") == 3
    ledger.finish(succeeded(first, ledger.now))
    assert ledger.view().open_count == 0
    assert ledger.decisions() == ["create", "backfill", "holdBackfill", "goOnBackfill", "cancelBackfill"]
    ledger.check()


def test_a_hold_is_of_backfills_only_and_what_is_added_meanwhile_is_held_too(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.now = T0 - 1
    ledger.control("backfill", dues=[T0 - MINUTE])
    ledger.control("hold_backfill", hold=True)
    ledger.control("backfill", dues=[T0 - 2 * MINUTE], max_concurrent=5)
    ledger.tick(T0)
    assert [one.series for one in ledger.run()] == ["slot"]
    assert ledger.control("hold_backfill", hold=False) == 2
    assert [one.due for one in ledger.run()] == [T0 - MINUTE, T0 - 2 * MINUTE]


def test_cancelling_asks_what_runs_to_stop_and_touches_no_slot(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, overlap="queue"))
    ledger.now = T0 - 1
    ledger.control("backfill", dues=past(4, -MINUTE)[1:], max_concurrent=2)
    ledger.begin()
    ledger.tick(T0)
    assert ledger.control("cancel_backfill") == 1
    asked = [(one.series, one.state, one.cancel) for one in ledger.occurrences()]
    assert asked == [
        ("backfill", "running", True), ("backfill", "running", True), ("backfill", "cancelled", False),
        ("slot", "ready", False),
    ]  # fmt: skip
    ledger.check()
