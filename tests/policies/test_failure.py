"""What follows an attempt; when a schedule pauses."""

from __future__ import annotations

import pytest

from calsched.policies.failure import (
    Attempts,
    Count,
    Ending,
    Final,
    Hold,
    Limits,
    Retry,
    Rules,
    ScheduleState,
    Start,
    after_attempt,
    at_retry,
    count,
    delay,
)

NOW = 1_000_000
THREE = Rules(max_retries=3, delay=1_000)


@pytest.mark.parametrize(
    ("made", "expected"), [(1, 1_000), (2, 2_000), (3, 4_000), (4, 5_000), (2_000, 5_000), (10**6, 5_000)]
)
def test_the_delay_grows_by_the_backoff_up_to_its_cap(made: int, expected: int) -> None:
    assert delay(Rules(delay=1_000, backoff=2.0, max_delay=5_000), made) == expected


def test_a_backoff_of_one_keeps_the_delay() -> None:
    assert delay(Rules(delay=700, backoff=1.0), 9) == 700


@pytest.mark.parametrize("ending", ["failed", "timed_out"])
def test_a_failed_or_timed_out_attempt_is_tried_again(ending: Ending) -> None:
    assert after_attempt(THREE, ending, Attempts(1), NOW, Limits()) == Retry(NOW + 1_000)


@pytest.mark.parametrize("ending", ["succeeded", "cancelled", "interrupted"])
def test_other_endings_are_final(ending: Ending) -> None:
    assert after_attempt(THREE, ending, Attempts(1), NOW, Limits()) == Final(ending)


def test_an_interrupted_attempt_is_tried_again_only_where_declared() -> None:
    rules = THREE._replace(retry_interrupted=True)
    assert after_attempt(rules, "interrupted", Attempts(1), NOW, Limits()) == Retry(NOW + 1_000)
    assert after_attempt(rules, "interrupted", Attempts(4), NOW, Limits()) == Final("interrupted", "retries")


@pytest.mark.parametrize(
    ("rules", "attempts", "limits", "reason"),
    [
        (THREE, Attempts(4), Limits(), "retries"),
        (THREE._replace(max_attempts=2), Attempts(2), Limits(), "attempts"),
        (THREE._replace(max_repeated_failures=2), Attempts(2, repeated=2), Limits(), "repeated"),
        (THREE._replace(max_elapsed=500), Attempts(1, elapsed=500), Limits(), "elapsed"),
        (THREE, Attempts(1), Limits(deadline=NOW + 999), "deadline"),
        (THREE, Attempts(1), Limits(expires_at=NOW + 999), "expired"),
        (THREE, Attempts(1), Limits(schedule="disabled"), "disabled"),
        (THREE, Attempts(1), Limits(schedule="cancelled"), "cancelled"),
    ],
)
def test_each_limit_ends_the_retries_and_says_which(
    rules: Rules, attempts: Attempts, limits: Limits, reason: str
) -> None:
    assert after_attempt(rules, "failed", attempts, NOW, limits) == Final("failed", reason)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rules", "attempts", "limits"),
    [
        (THREE, Attempts(3), Limits()),
        (THREE._replace(max_attempts=3), Attempts(2), Limits()),
        (THREE._replace(max_repeated_failures=2), Attempts(2, repeated=1), Limits()),
        (THREE._replace(max_elapsed=500), Attempts(1, elapsed=499), Limits()),
        (THREE, Attempts(1), Limits(deadline=NOW + 1_000, expires_at=NOW + 1_000)),
        (THREE, Attempts(1), Limits(schedule="paused")),
        (THREE, Attempts(1), Limits(schedule="ended")),
    ],
)
def test_just_inside_a_limit_there_is_another_attempt(rules: Rules, attempts: Attempts, limits: Limits) -> None:
    assert isinstance(after_attempt(rules, "failed", attempts, NOW, limits), Retry)


def test_without_retries_a_failure_needs_no_reason() -> None:
    assert after_attempt(Rules(), "failed", Attempts(1), NOW, Limits()) == Final("failed")


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(), Start()),
        (Limits(schedule="ended"), Start()),
        (Limits(deadline=NOW, expires_at=NOW), Start()),
        (Limits(schedule="paused"), Hold()),
        (Limits(schedule="paused", deadline=NOW - 1), Final("failed", "deadline")),
        (Limits(expires_at=NOW - 1), Final("failed", "expired")),
        (Limits(schedule="disabled"), Final("failed", "disabled")),
        (Limits(schedule="cancelled"), Final("cancelled", "cancelled")),
    ],
)
def test_a_due_retry_is_judged_again(limits: Limits, expected: Start | Hold | Final) -> None:
    answer = at_retry(NOW, limits)
    assert answer == expected and type(answer) is type(expected)


@pytest.mark.parametrize(
    ("ending", "failures", "expected"),
    [
        ("failed", 0, Count(1)),
        ("timed_out", 1, Count(2)),
        ("interrupted", 1, Count(2)),
        ("failed", 3, Count(4)),
        ("failed", 4, Count(5, pause=True)),
        ("failed", 7, Count(8, pause=True)),
        ("succeeded", 4, Count(0)),
        ("skipped", 4, Count(4)),
        ("cancelled", 4, Count(4)),
    ],
)
def test_the_fifth_failure_in_a_row_pauses(ending: Ending, failures: int, expected: Count) -> None:
    assert count(failures, ending, threshold=5) == expected


@pytest.mark.parametrize("schedule", ["disabled", "paused", "ended", "cancelled"])
def test_only_an_enabled_schedule_is_paused_though_the_failure_counts(schedule: ScheduleState) -> None:
    assert count(4, "failed", threshold=5, schedule=schedule) == Count(5)


def test_a_clean_stop_counts_for_nothing_and_a_crash_counts() -> None:
    assert count(4, "interrupted", threshold=5, clean_stop=True) == Count(4)
    assert count(4, "interrupted", threshold=5) == Count(5, pause=True)


@pytest.mark.parametrize("ending", ["failed", "succeeded"])
def test_extra_runs_never_touch_the_count(ending: Ending) -> None:
    assert count(4, ending, threshold=5, series="manual") == Count(4)
    assert count(4, ending, threshold=5, series="backfill") == Count(4)


def test_a_threshold_of_zero_never_pauses() -> None:
    assert count(99, "failed", threshold=0) == Count(100)
