"""Outcomes on every database: the failure policy's decisions, committed once."""

from __future__ import annotations

from typing import Any

import pytest

from calsched.model import Failure
from calsched.stores import inspect
from calsched.stores.engine import Store
from tests.stores._helpers import HOUR, MINUTE, SECOND, T0, Ledger, every, failed, succeeded


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger(store)


def fail_once(ledger: Ledger, tick: int) -> None:
    ledger.tick(T0 + tick * MINUTE)
    ledger.run(fail=True)


def test_a_success_is_final_and_frees_its_slot(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    (taken,) = ledger.begin()
    ledger.now = T0 + 5
    report = ledger.finish(succeeded(taken, ledger.now)._replace(result='{"rows":3}', elapsed=4))
    assert report == ({taken.occurrence: "succeeded"}, {}, set(), (), 0)
    (one,) = ledger.occurrences()
    assert (one.state, one.finished_at, one.elapsed, one.result) == ("succeeded", T0 + 5, 4, '{"rows":3}')
    (attempt,) = one.attempts
    assert (attempt.number, attempt.state, attempt.started_at, attempt.elapsed) == (1, "succeeded", T0, 4)
    assert ledger.view().open_count == 0
    ledger.check()


def test_an_error_is_kept_with_its_traceback(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    (taken,) = ledger.begin()
    odd = Failure("ValueError", "bad \N{SNOWMAN} row\0\ud800", "Traceback…")
    ledger.finish(failed(taken, T0)._replace(failure=odd))
    (one,) = ledger.occurrences()
    assert (one.state, one.error_type, one.error) == ("failed", "ValueError", "bad \N{SNOWMAN} row\ufffd\ufffd")
    assert one.attempts[0].traceback == "Traceback…"


def test_a_failure_with_retries_left_waits_and_keeps_its_slot(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, max_retries=2, retry_delay=10 * SECOND, retry_backoff=2.0, overlap="queue"))
    ledger.tick(T0)
    delays = []
    for _ in range(2):
        (taken,) = ledger.begin()
        report = ledger.finish(failed(taken, ledger.now))
        delays.append(report.retrying[taken.occurrence] - ledger.now)
        assert ledger.view().failures == 0
        ledger.tick(report.retrying[taken.occurrence])
    assert delays == [10 * SECOND, 20 * SECOND]
    (taken,) = ledger.begin()
    assert taken.attempt == 3
    assert ledger.finish(failed(taken, ledger.now)).final == {taken.occurrence: "failed"}
    (first, *_) = ledger.occurrences()
    assert (first.state, first.reason, first.attempt, first.elapsed) == ("failed", "retries", 3, 15)
    assert ledger.view().failures == 1
    ledger.check()


def test_the_fifth_failure_in_a_row_pauses_the_schedule(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    for tick in range(4):
        fail_once(ledger, tick)
    assert (ledger.view().state, ledger.view().failures) == ("enabled", 4)
    ledger.tick(T0 + 4 * MINUTE)
    (taken,) = ledger.begin()
    report = ledger.finish(failed(taken, ledger.now, "the last straw"))
    view = ledger.view()
    assert report.paused == (view.pk,)
    assert (view.state, view.reason, view.next_due, view.failures) == ("paused", "failures", None, 5)
    assert view.last_failure == "Error: the last straw"
    assert view.attention == "paused after 5 failures in a row"
    assert ledger.decisions() == ["create", "fail"]
    ledger.check()


def test_a_success_starts_the_count_anew(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    for tick in range(4):
        fail_once(ledger, tick)
    ledger.tick(T0 + 4 * MINUTE)
    ledger.run()
    assert ledger.view().failures == 0
    fail_once(ledger, 5)
    assert (ledger.view().state, ledger.view().failures) == ("enabled", 1)


def test_outcomes_count_in_the_order_in_which_they_are_reported(ledger: Ledger) -> None:
    ledger.create(every(SECOND, overlap="allow", max_concurrent=3))
    ledger.tick(T0 + 2 * SECOND)
    a, b, c = ledger.begin()
    ledger.finish(failed(a, ledger.now), succeeded(b, ledger.now), failed(c, ledger.now))
    assert ledger.view().failures == 1


def test_extra_runs_do_not_touch_the_count(ledger: Ledger) -> None:
    ledger.create(every(HOUR))
    ledger.control("run_extra")
    ledger.run(fail=True)
    assert ledger.view().failures == 0


def test_a_schedule_that_never_pauses_goes_on_failing(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, pause_after_failures=0))
    for tick in range(7):
        fail_once(ledger, tick)
    assert (ledger.view().state, ledger.view().failures) == ("enabled", 7)


def test_what_waits_is_held_when_failures_pause_the_schedule(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, overlap="queue", pause_after_failures=1))
    ledger.tick(T0 + MINUTE)
    (taken, *_) = ledger.begin()
    ledger.tick(T0 + 2 * MINUTE)
    ledger.finish(failed(taken, ledger.now))
    assert [state for _, state, _ in ledger.states()] == ["failed", "ready", "waiting"]
    assert ledger.claim() == []
    ledger.control("enable")
    assert [one.ordinal for one in ledger.claim()] == [1]
    ledger.check()


def test_the_failed_attempt_of_a_disabled_schedule_is_not_retried(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, max_retries=3))
    ledger.tick(T0)
    (taken,) = ledger.begin()
    ledger.control("disable")
    assert ledger.finish(failed(taken, ledger.now)).final == {taken.occurrence: "failed"}
    assert ledger.states() == [(0, "failed", "disabled")]
    assert ledger.view().state == "disabled"


def test_a_retry_that_would_come_after_the_deadline_is_the_outcome(ledger: Ledger) -> None:
    ledger.create(every(HOUR, max_retries=3, retry_delay=10 * SECOND, deadline=15 * SECOND))
    ledger.tick(T0)
    ledger.run(fail=True)
    ledger.tick(T0 + 10 * SECOND)
    ledger.run(fail=True)
    assert ledger.states() == [(0, "failed", "deadline")]


def test_a_retry_held_past_its_deadline_fails(ledger: Ledger) -> None:
    ledger.create(every(HOUR, max_retries=3, retry_delay=SECOND, deadline=MINUTE))
    ledger.tick(T0)
    ledger.run(fail=True)
    ledger.control("pause")
    assert list(ledger.tick(T0 + MINUTE + 1).ended.values()) == ["deadline"]
    assert ledger.states() == [(0, "failed", "deadline")]
    assert ledger.view().failures == 1
    ledger.check()


def test_the_same_error_again_and_again_ends_the_retries(ledger: Ledger) -> None:
    ledger.create(every(HOUR, max_retries=9, max_repeated_failures=2, retry_delay=SECOND))
    ledger.tick(T0)
    for message in ("one", "two", "two"):
        (taken,) = ledger.begin()
        ledger.finish(failed(taken, ledger.now, message))
        ledger.now += MINUTE
    assert ledger.states() == [(0, "failed", "repeated")]


def test_a_clean_stop_is_recorded_and_not_counted(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    (taken,) = ledger.begin()
    ledger.finish(succeeded(taken, T0)._replace(state="interrupted", clean_stop=True))
    assert ledger.states() == [(0, "interrupted", None)]
    assert ledger.view().failures == 0


def test_a_second_report_of_the_same_attempt_changes_nothing(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    (taken,) = ledger.begin()
    ledger.finish(succeeded(taken, T0))
    report = ledger.finish(failed(taken, T0 + 1))
    assert report.late == {taken.occurrence}
    (one,) = ledger.occurrences()
    assert one.state == "succeeded"
    assert [(attempt.state, attempt.late) for attempt in one.attempts] == [("succeeded", False), ("failed", True)]
    ledger.check()


def test_a_report_for_an_occurrence_that_is_gone_is_late(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    (taken,) = ledger.begin()
    ledger.finish(succeeded(taken, T0))
    ledger.control("delete")
    assert ledger.finish(succeeded(taken, T0)).late == {taken.occurrence}


def test_a_report_of_an_attempt_that_never_started_is_late(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    (taken,) = ledger.claim()
    assert ledger.finish(succeeded(taken, T0)).late == {taken.occurrence}
    assert ledger.states() == [(0, "claimed", None)]


def test_a_long_error_does_not_lose_the_outcome(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    (taken,) = ledger.begin()
    ledger.finish(failed(taken, T0)._replace(failure=Failure("E" * 900, "m" * 200_000, "t" * 200_000)))
    assert ledger.states() == [(0, "failed", None)]


def test_the_slot_that_frees_goes_to_the_oldest_that_waits_over_all_revisions(ledger: Ledger) -> None:
    ledger.create(every(SECOND, overlap="queue"))
    ledger.tick(T0 + SECOND)
    (first,) = ledger.begin()
    ledger.now += 10
    ledger.update(every(2 * SECOND, overlap="queue"), mode="carry")
    ledger.tick(T0 + 2 * SECOND)
    order = [(first.revision, first.ordinal)]
    ledger.finish(succeeded(first, ledger.now))
    for _ in range(2):
        (taken,) = ledger.run()
        order.append((taken.revision, taken.ordinal))
    assert order == [(1, 0), (1, 1), (2, 0)]
    ledger.check()


def test_a_narrower_revision_gives_no_slot_away_that_it_does_not_have(ledger: Ledger) -> None:
    ledger.create(every(SECOND, overlap="allow", max_concurrent=3))
    ledger.tick(T0 + 5 * SECOND)
    running = ledger.begin()
    assert len(running) == 3
    ledger.update(every(SECOND, overlap="allow", max_concurrent=1), mode="carry")
    ledger.finish(*(succeeded(one, ledger.now) for one in running))
    assert len(ledger.claim()) == 1
    ledger.check()


def test_a_wider_revision_lets_more_of_what_waits_run(ledger: Ledger) -> None:
    ledger.create(every(SECOND, overlap="allow", max_concurrent=1))
    ledger.tick(T0 + 5 * SECOND)
    ledger.begin()
    ledger.update(every(SECOND, overlap="allow", max_concurrent=4), mode="carry")
    assert len(ledger.claim()) == 3
    ledger.check()


def test_a_backfill_and_the_slots_do_not_block_each_other(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, overlap="queue"))
    for tick in range(3):
        ledger.tick(T0 + tick * MINUTE)
        ledger.run()
    dues = [T0, T0 + MINUTE, T0 + 2 * MINUTE]
    ledger.control("backfill", dues=dues, max_concurrent=2)
    ledger.tick(T0 + 3 * MINUTE)
    taken = ledger.begin()
    assert sorted((one.series, one.active_slot) for one in taken) == [("backfill", -2), ("backfill", -1), ("slot", 0)]
    ledger.finish(*(succeeded(one, ledger.now) for one in taken))
    (last,) = ledger.begin()
    assert (last.series, last.due) == ("backfill", T0 + 2 * MINUTE)
    ledger.check()


def test_history_is_paged_newest_first_without_gap_or_repeat(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, misfire="runOnce", grace=0))
    for tick in range(0, 40, 4):
        ledger.tick(T0 + tick * MINUTE + 1)
        ledger.run()
    whole = ledger.history(limit=1000)
    pages: list[Any] = []
    page = None
    while True:
        with ledger.store.read() as conn:
            found = inspect.history(ledger.store, conn, "default", "a", page=page, limit=3)
        pages += found.entries
        page = found.next_page
        if page is None:
            break
    assert pages == list(whole)
    assert len(whole) == 19
