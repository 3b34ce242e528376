"""Simulated ledgers: what becomes of every slot when owners are down, clocks are set, tasks are slow or fail."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calsched.errors import InvalidInput
from calsched.model import Definition, Task
from calsched.planner import SlotSource
from calsched.simulate import Hold, Ledger, Row, compare, simulate
from tests._ticks import Every

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
MONDAY = 1_772_409_600_000  # 2026-03-02T00:00:00Z


def every(interval: int, id: str = "job", **options: Any) -> Definition:
    return Definition(id, {"kind": "interval", "intervalMs": interval}, Task(callable="jobs:run"), **options)


def told(ledger: Ledger, schedule: str = "job") -> list[str]:
    """Rows in words, hours counted from Monday."""
    return [_tell(row) for row in ledger.of(schedule)]


def _tell(row: Row) -> str:
    ordinals = f"{row.first}" if row.first == row.last else f"{row.first}-{row.last}"
    text = f"{ordinals} {row.verdict}"
    if row.reason:
        text += f": {row.reason}"
    if row.represented_by is not None:
        text += f" by {row.represented_by}"
    if row.started is not None:
        text += f" at {(row.started - MONDAY) / HOUR:g}h"
    return text


def test_with_nothing_in_the_way_every_slot_runs_when_it_is_due() -> None:
    ledger = simulate([every(HOUR)], MONDAY, MONDAY + 3 * HOUR)
    assert told(ledger) == ["0 succeeded at 0h", "1 succeeded at 1h", "2 succeeded at 2h"]
    assert ledger.counts() == {"job": {"succeeded": 3}}
    assert (ledger.paused, ledger.ended, ledger.holds) == ({}, {}, ())


def test_weekdays_at_nine_in_winnipeg_run_five_times_a_week() -> None:
    trigger = {"kind": "calendar", "timezone": "America/Winnipeg", "hour": 9, "minute": 0, "weekdays": [0, 1, 2, 3, 4]}
    ledger = simulate([Definition("report", trigger, Task())], MONDAY, MONDAY + 14 * DAY)
    # 15:00 UTC before the clocks go forward on 8 March, 14:00 after
    assert [(row.due - MONDAY) / HOUR for row in ledger.rows] == [
        15, 39, 63, 87, 111, 182, 206, 230, 254, 278,
    ]  # fmt: skip


OUTAGE = (MONDAY + HOUR // 2, MONDAY + 5 * HOUR + 1)  # slots 1 to 5 come due in it


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["0 succeeded at 0h", "1-4 represented by 5", "5 succeeded at 5h", "6 succeeded at 6h"]),
        ({"misfire": "skip"}, ["0 succeeded at 0h", "1-4 skipped: misfire", "5 succeeded at 5h", "6 succeeded at 6h"]),
        (
            {"misfire": "boundedReplay", "replay_limit": 2, "overlap": "queue"},
            [
                "0 succeeded at 0h", "1 succeeded at 5h", "2 succeeded at 5h", "3-5 skipped: replayLimit",
                "6 succeeded at 6h",
            ],
        ),
        (
            {"misfire": "catchUp", "max_catch_up": 2, "overlap": "queue"},
            [
                "0 succeeded at 0h", "1 succeeded at 5h", "2 succeeded at 5h", "3 succeeded at 5h",
                "4 succeeded at 5h", "5 succeeded at 5h", "6 succeeded at 6h",
            ],
        ),
    ],
)  # fmt: skip
def test_after_an_outage_the_misfire_policy_decides(options: dict[str, Any], expected: list[str]) -> None:
    assert told(simulate([every(HOUR, **options)], MONDAY, MONDAY + 7 * HOUR, downs=[OUTAGE])) == expected


def test_comparing_puts_the_misfire_policies_side_by_side() -> None:
    ledgers = compare([every(HOUR, overlap="queue", max_catch_up=3)], MONDAY, MONDAY + 7 * HOUR, downs=[OUTAGE])
    assert {policy: ledger.counts()["job"] for policy, ledger in ledgers.items()} == {
        "runOnce": {"succeeded": 3, "represented": 4},
        "skip": {"succeeded": 3, "skipped: misfire": 4},
        "boundedReplay": {"succeeded": 5, "skipped: replayLimit": 2},
        "catchUp": {"succeeded": 7},
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"overlap": "skip"}, ["0 succeeded at 0h", "1-2 skipped: overlap", "3 running at 3h", "4 skipped: overlap"]),
        (
            {"overlap": "queue"},
            ["0 succeeded at 0h", "1 running at 2.5h", "2 waiting", "3 waiting", "4 waiting"],
        ),
        (
            {"overlap": "queue", "max_queued": 1},
            ["0 succeeded at 0h", "1 running at 2.5h", "2 skipped: queueFull", "3 waiting", "4 skipped: queueFull"],
        ),
        ({}, ["0 succeeded at 0h", "1 running at 2.5h", "2 represented by 1", "3 waiting", "4 represented by 3"]),
        (
            {"overlap": "allow", "max_concurrent": 2},
            ["0 succeeded at 0h", "1 succeeded at 1h", "2 running at 2.5h", "3 running at 3.5h", "4 waiting"],
        ),
    ],
)
def test_a_task_slower_than_its_interval_meets_the_overlap_policy(options: dict[str, Any], expected: list[str]) -> None:
    ledger = simulate([every(HOUR, **options)], MONDAY, MONDAY + 4 * HOUR + 1_000, durations={"job": 5 * HOUR // 2})
    assert told(ledger) == expected


def test_five_failures_in_a_row_pause_and_what_follows_is_not_judged() -> None:
    ledger = simulate([every(HOUR)], MONDAY, MONDAY + 8 * HOUR, fails={"job": 99})
    assert told(ledger) == [
        "0 failed at 0h", "1 failed at 1h", "2 failed at 2h", "3 failed at 3h", "4 failed at 4h",
        "5-7 unjudged: paused by failures",
    ]  # fmt: skip
    assert ledger.paused == {"job": MONDAY + 4 * HOUR}


def test_a_success_in_between_starts_the_count_anew() -> None:
    ledger = simulate([every(HOUR)], MONDAY, MONDAY + 8 * HOUR, fails={"job": 4})
    assert ledger.counts() == {"job": {"failed": 4, "succeeded": 4}}
    assert ledger.paused == {}


def test_a_failed_attempt_is_tried_again_after_its_delay() -> None:
    job = every(HOUR, max_retries=2, retry_delay=MINUTE, retry_backoff=2.0)
    row = simulate([job], MONDAY, MONDAY + HOUR, durations={"job": 10 * SECOND}, fails={"job": 2}).rows[0]
    assert (row.verdict, row.attempts) == ("succeeded", 3)
    # 10 s, one minute, 10 s, two minutes, 10 s
    assert (row.started, row.ended) == (MONDAY + 200 * SECOND, MONDAY + 210 * SECOND)


def test_when_the_retries_are_used_up_the_failure_is_final() -> None:
    job = every(HOUR, max_retries=1, retry_delay=MINUTE)
    row = simulate([job], MONDAY, MONDAY + HOUR, fails={"job": 9}).rows[0]
    assert (row.verdict, row.reason, row.attempts) == ("failed", "retries", 2)


def test_an_attempt_ends_at_its_timeout() -> None:
    row = simulate([every(HOUR, timeout=MINUTE)], MONDAY, MONDAY + HOUR, durations={"job": 2 * MINUTE}).rows[0]
    assert (row.verdict, row.ended) == ("timed_out", MONDAY + MINUTE)


def test_a_deadline_counts_from_the_due_instant_and_runs_on_through_an_outage() -> None:
    job = every(6 * HOUR, deadline=HOUR)
    down = (MONDAY + 5 * HOUR, MONDAY + 8 * HOUR)
    ledger = simulate([job], MONDAY + 1, MONDAY + 10 * HOUR, downs=[down])
    assert told(ledger) == ["0 skipped: deadline"]


def test_nothing_is_dispatched_past_the_expiry() -> None:
    job = every(HOUR, overlap="queue", expires_at=MONDAY + 2 * HOUR)
    ledger = simulate([job], MONDAY, MONDAY + 9 * HOUR, durations={"job": 3 * HOUR})
    assert told(ledger) == ["0 succeeded at 0h", "1 skipped: expired", "2 skipped: expired"]
    assert ledger.ended == {"job": "expired"}


def test_a_used_up_budget_ends_the_schedule() -> None:
    ledger = simulate([every(HOUR, max_occurrences=2)], MONDAY, MONDAY + 9 * HOUR)
    assert told(ledger) == ["0 succeeded at 0h", "1 succeeded at 1h"]
    assert ledger.ended == {"job": "maxOccurrences"}


CRASH = (MONDAY + HOUR + MINUTE, MONDAY + HOUR + 10 * MINUTE)


def test_what_runs_when_the_owner_dies_is_interrupted_and_never_run_again() -> None:
    ledger = simulate([every(HOUR)], MONDAY, MONDAY + 3 * HOUR, downs=[CRASH], durations={"job": 2 * MINUTE})
    assert [(row.verdict, row.attempts) for row in ledger.rows] == [
        ("succeeded", 1), ("interrupted", 1), ("succeeded", 1),
    ]  # fmt: skip
    assert ledger.rows[1].ended == CRASH[0]


def test_a_task_that_ends_just_when_its_owner_dies_has_ended() -> None:
    ledger = simulate([every(HOUR)], MONDAY, MONDAY + 2 * HOUR, downs=[CRASH], durations={"job": MINUTE})
    assert [row.verdict for row in ledger.rows] == ["succeeded", "succeeded"]


def test_unless_the_schedule_says_so() -> None:
    job = every(HOUR, on_interrupted="retry", max_retries=1)
    ledger = simulate([job], MONDAY, MONDAY + 3 * HOUR, downs=[CRASH], durations={"job": 2 * MINUTE})
    assert [(row.verdict, row.attempts) for row in ledger.rows] == [
        ("succeeded", 1), ("succeeded", 2), ("succeeded", 1),
    ]  # fmt: skip
    assert ledger.rows[1].started == CRASH[1]


def test_slots_that_come_due_in_an_outage_without_end_are_unjudged() -> None:
    ledger = simulate([every(HOUR)], MONDAY, MONDAY + 4 * HOUR, downs=[(MONDAY + 1, MONDAY + DAY)])
    assert told(ledger) == ["0 succeeded at 0h", "1-3 unjudged: nobody looked"]


def test_a_clock_set_back_dispatches_nothing_until_it_has_caught_up_and_runs_no_slot_twice() -> None:
    at = MONDAY + 2 * HOUR + MINUTE
    ledger = simulate([every(HOUR)], MONDAY, MONDAY + 6 * HOUR, clock_steps=[(at, -HOUR)], tolerance=1)
    assert [row.first for row in ledger.rows] == [0, 1, 2, 3, 4]
    assert ledger.counts() == {"job": {"succeeded": 5}}  # true time went on for 6 h, the clock for 5
    assert [(hold.kind, hold.start) for hold in ledger.holds] == [("backward", at)]
    assert ledger.holds[0].end is not None


def test_a_clock_set_forward_holds_until_someone_accepts_it() -> None:
    at, accepted = MONDAY + 2 * HOUR + MINUTE, MONDAY + 4 * HOUR
    held = simulate([every(HOUR)], MONDAY, MONDAY + 6 * HOUR, clock_steps=[(at, 10 * HOUR)])
    assert held.holds == (Hold("forward", at),)
    assert told(held) == [
        "0 succeeded at 0h", "1 succeeded at 1h", "2 succeeded at 2h", "3 ready", "4-5 represented by 3",
    ]  # fmt: skip
    released = simulate(
        [every(HOUR)], MONDAY, MONDAY + 6 * HOUR, clock_steps=[(at, 10 * HOUR)], clock_accepts=[accepted]
    )
    assert released.holds[0].end is not None
    assert max(row.due for row in released.rows) == MONDAY + 15 * HOUR


def test_a_clock_that_is_set_right_again_holds_no_longer() -> None:
    steps = [(MONDAY + HOUR + MINUTE, 10 * HOUR), (MONDAY + HOUR + 2 * MINUTE, -10 * HOUR)]
    ledger = simulate([every(HOUR)], MONDAY, MONDAY + 4 * HOUR, clock_steps=steps)
    assert ledger.counts() == {"job": {"succeeded": 4}}
    assert ledger.holds == (Hold("forward", steps[0][0], steps[1][0]),)


def test_a_blackout_holds_work_until_it_ends_or_skips_it() -> None:
    window = {"from": MONDAY + HOUR, "to": MONDAY + HOUR + MINUTE, "note": "release"}
    held = simulate([every(HOUR, blackouts=(window,))], MONDAY, MONDAY + 3 * HOUR)
    assert [row.started for row in held.rows] == [MONDAY, MONDAY + HOUR + MINUTE, MONDAY + 2 * HOUR]
    skipped = simulate([every(HOUR, blackouts=({**window, "whenDue": "skip"},))], MONDAY, MONDAY + 3 * HOUR)
    assert told(skipped) == ["0 succeeded at 0h", "1 skipped: blackout", "2 succeeded at 2h"]


def test_work_that_waited_into_a_blackout_does_not_start_in_it() -> None:
    window = {"from": MONDAY + 90 * MINUTE, "to": MONDAY + 110 * MINUTE}
    job = every(HOUR, overlap="queue", blackouts=(window,))
    ledger = simulate([job], MONDAY, MONDAY + 119 * MINUTE, durations={"job": 100 * MINUTE})
    assert ledger.rows[1].started == MONDAY + 110 * MINUTE


def test_a_strict_refusal_shows_and_nothing_is_admitted() -> None:
    job = every(MINUTE, grace=0, misfire="catchUp", max_lateness=90 * SECOND, admission="strict")
    ledger = simulate([job], MONDAY, MONDAY + 10 * MINUTE, downs=[(MONDAY + 1, MONDAY + 5 * MINUTE + 1)])
    assert "maxLatenessSeconds" in ledger.refused["job"]
    assert ledger.counts()["job"] == {"succeeded": 1, "unjudged": 9}


def test_the_rate_limit_lets_so_many_through_in_its_window() -> None:
    job = every(MINUTE, rate_limit=2, rate_window=5 * MINUTE, overlap="allow")
    ledger = simulate([job], MONDAY, MONDAY + 10 * MINUTE)
    assert [row.first for row in ledger.rows if row.verdict == "succeeded"] == [0, 1, 5, 6]


def test_a_long_queue_that_empties_at_once_is_no_deep_recursion() -> None:
    job = every(SECOND, overlap="queue", grace=DAY, max_queued=5_000)
    ledger = simulate([job], MONDAY, MONDAY + HOUR + SECOND, downs=[(MONDAY + 1, MONDAY + HOUR)])
    assert ledger.counts() == {"job": {"succeeded": 3_601}}


def test_a_year_of_fifty_schedules_is_played_whole() -> None:
    trigger = {"kind": "calendar", "timezone": "America/New_York", "hour": 9, "minute": 0, "weekdays": [0, 1, 2, 3, 4]}
    weekday = [Definition(f"weekday-{n}", trigger, Task()) for n in range(45)]
    hourly = [every(HOUR, f"hourly-{n}") for n in range(5)]
    ledger = simulate([*weekday, *hourly], MONDAY, MONDAY + 364 * DAY, downs=[(MONDAY + DAY, MONDAY + 9 * DAY)])
    assert sum(ledger.counts()["hourly-0"].values()) == 364 * 24
    assert sum(ledger.counts()["weekday-0"].values()) == 260


def test_a_simulation_stops_at_its_bound_of_rows_and_says_so() -> None:
    ledger = simulate([every(SECOND)], MONDAY, MONDAY + DAY, max_rows=100)
    assert ledger.truncated
    assert ledger.counts()["job"]["succeeded"] == 100


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"end": MONDAY}, "end"),
        ({"downs": [(5, 5)]}, "downs"),
        ({"downs": [(5, 9), (7, 11)]}, "downs"),
        ({"durations": {"nobody": 1}}, "durations"),
        ({"durations": {"job": -1}}, "durations"),
        ({"fails": {"nobody": 1}}, "fails"),
        ({"definitions": [every(HOUR), every(DAY)]}, "definitions"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(change: dict[str, Any], path: str) -> None:
    given: dict[str, Any] = {"definitions": [every(HOUR)], "start": MONDAY, "end": MONDAY + DAY, **change}
    with pytest.raises(InvalidInput) as wrong:
        simulate(given.pop("definitions"), given.pop("start"), given.pop("end"), **given)
    assert [problem.path for problem in wrong.value.problems] == [path]


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, Any]:
    job = Definition(
        "job",
        {"kind": "interval", "firstTick": 0},
        Task(),
        misfire=draw(st.sampled_from(["runOnce", "skip", "boundedReplay", "catchUp"])),
        replay_limit=draw(st.integers(1, 4)),
        max_catch_up=draw(st.integers(1, 4)),
        grace=draw(st.sampled_from([0, 15, 10**6])),
        overlap=draw(st.sampled_from(["queue", "skip", "coalesce", "allow"])),
        max_queued=draw(st.integers(0, 3)),
        max_concurrent=draw(st.integers(1, 3)),
        max_occurrences=draw(st.none() | st.integers(1, 20)),
        expires_at=draw(st.none() | st.integers(0, 600)),
        max_retries=draw(st.integers(0, 2)),
        retry_delay=draw(st.integers(0, 40)),
        on_interrupted=draw(st.sampled_from(["never", "retry"])),
        timeout=draw(st.none() | st.integers(1, 30)),
        deadline=draw(st.none() | st.integers(1, 60)),
    )
    bounds = sorted(draw(st.lists(st.integers(1, 590), max_size=6, unique=True)))
    return {
        "definitions": [job],
        "start": 0,
        "end": 600,
        "downs": list(zip(bounds[::2], bounds[1::2], strict=False)),
        "clock_steps": draw(st.lists(st.tuples(st.integers(0, 590), st.integers(-80, 80)), max_size=2)),
        "clock_accepts": draw(st.lists(st.integers(0, 590), max_size=1)),
        "durations": {"job": draw(st.integers(0, 45))},
        "fails": {"job": draw(st.integers(0, 12))},
        "tolerance": 2,
        "interval": draw(st.integers(3, 40)),
    }


@settings(max_examples=250, deadline=None)
@given(worlds())
def test_whatever_happens_every_slot_gets_exactly_one_verdict(world: dict[str, Any]) -> None:
    interval = world.pop("interval")

    def rule(_: Definition) -> SlotSource:
        return Every(interval)

    ledger = simulate(**world, build=rule)
    assert simulate(**world, build=rule) == ledger
    judged = [ordinal for row in ledger.rows for ordinal in range(row.first, row.last + 1)]
    assert sorted(judged) == list(range(len(judged)))
    for row in ledger.rows:
        assert row.due == row.first * interval and row.last_due == row.last * interval
        if row.started is not None and not world["clock_steps"]:  # a clock that is set back shows earlier times
            assert row.started >= row.due
    if not world["clock_steps"] and not ledger.ended:
        expires = world["definitions"][0].expires_at
        assert len(judged) == len(range(0, 600 if expires is None else min(600, expires + 1), interval))


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_no_more_attempts_run_at_once_than_the_overlap_policy_allows(world: dict[str, Any]) -> None:
    interval = world.pop("interval")
    world |= {"clock_steps": [], "clock_accepts": []}
    d = world["definitions"][0]
    ledger = simulate(**world, build=lambda _: Every(interval))
    moves = []
    for row in ledger.rows:
        if row.started is not None and row.attempts == 1 and row.verdict in ("succeeded", "failed", "timed_out"):
            moves += [(row.started, 1), (row.ended or 600, -1)]
    running = most = 0
    for _, change in sorted(moves):
        running += change
        most = max(most, running)
    assert most <= (d.max_concurrent if d.overlap == "allow" else 1)
