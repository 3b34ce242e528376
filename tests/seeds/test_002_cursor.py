"""Seed 002, the interval cursor and the rules of time: one test a statement (docs/seeds.md says which).

The reducer's own tests are in tests/test_simulate_cursor.py; here are the example of the text, and what its statements
mean for schedules in a ledger.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calsched.clock import to_rfc3339
from calsched.errors import ApprovalDenied, InvalidInput
from calsched.model import Task
from calsched.runtime.inline import InlineOwner
from calsched.simulate import CommandRefused, initial, parse_command, reduce
from calsched.stores.views import OccurrenceView
from tests.seeds import _tasks
from tests.seeds._helpers import Desk
from tests.seeds.test_000_recurring import Approving
from tests.stores._helpers import HOUR, MINUTE, SECOND, T0, every, failed, instant, succeeded

#: The commands of the text, as they stand there.
REGISTER = """
{
  "type": "registerTrigger",
  "trigger": {
    "id": "t",
    "revision": "1",
    "kind": "SCHEDULED",
    "source": "trusted",
    "eventType": "doc.changed",
    "contractId": "c",
    "action": "START_RUN",
    "enabled": true,
    "notBefore": "0",
    "expiresAt": "10000",
    "maxAgeMs": "100",
    "maxConcurrent": "10",
    "rateLimit": "10",
    "rateWindowMs": "100",
    "maxDepth": "3",
    "schedule": {
      "startMs": "0",
      "intervalMs": "10",
      "catchUp": "ALL",
      "maxCatchUp": "2"
    }
  }
}
"""
TICK = '{"type": "tickTrigger", "triggerId": "t"}'


def seconds(interval: int, **more: Any) -> dict[str, Any]:
    """A rule in a file: slot 0 at T0."""
    rule = {"kind": "interval", "intervalMs": interval, "firstTick": to_rfc3339(T0)}
    return {"id": "a", "trigger": rule, "task": "jobs:run", **more}


# --- fixed intervals --------------------------------------------------------------------------------------------------


def test_the_example_of_the_text_ends_as_the_text_says() -> None:
    state = reduce(initial(), parse_command(REGISTER), "10")
    state = reduce(state, parse_command(TICK), "10")
    state = reduce(state, parse_command(TICK), "10")
    assert state["triggers"]["t"]["count"] == "2"
    assert state["triggers"]["t"]["nextSlot"] == "2"


WATCHED = """
import json, sys
from calsched.simulate import initial, parse_command, reduce

register, tick = sys.argv[1:]
state = reduce(reduce(initial(), parse_command(register), "10"), parse_command(tick), "10")  # imports are done
before, touched = json.dumps(state), []
sys.addaudithook(lambda event, arguments: touched.append(event))
later, again = (reduce(state, parse_command(tick), "35") for _ in range(2))
seen = list(touched)
assert [event for event in seen if event.split(".")[0] in ("open", "socket", "subprocess", "sqlite3", "os")] == [], seen
assert json.dumps(state) == before, "the state that went in is as it was"
assert later == again
assert (state["triggers"]["t"]["nextSlot"], later["triggers"]["t"]["nextSlot"]) == ("2", "4")
"""


def test_the_cursor_is_a_calculator_without_input_and_output_that_moves_only_when_it_is_called() -> None:
    ran = subprocess.run([sys.executable, "-c", WATCHED, REGISTER, TICK], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr


def test_a_tick_that_is_refused_moves_neither_the_cursor_nor_the_receipts() -> None:
    state = reduce(initial(), parse_command(REGISTER), "0")
    record = state["triggers"]["t"]
    with pytest.raises(CommandRefused, match="maxAgeMs"):
        reduce(state, parse_command(TICK), "500")
    assert state["triggers"]["t"] == record
    moved = reduce(state, parse_command(TICK), "10")["triggers"]["t"]
    assert (moved["nextSlot"], [run["slot"] for run in moved["runs"]]) == ("2", ["0", "1"])


def test_a_ledgers_cursor_is_rolled_back_together_with_the_occurrences_that_were_admitted(desk: Desk) -> None:
    desk.declare(seconds(10, catchUp="ALL", maxCatchUp=2))
    before = desk.rows()
    with pytest.raises(ZeroDivisionError), desk.store.write() as conn:
        from calsched.stores.advance import advance

        assert advance(desk.store, conn, T0 + 10).schedules
        raise ZeroDivisionError
    assert desk.rows() == before
    desk.tick(T0 + 10)
    assert ([one.ordinal for one in desk.occurrences()], desk.view().next_ordinal) == ([0, 1], 2)


@pytest.mark.parametrize(
    ("catch_up", "most", "late", "expected"),
    [
        ("SKIP", None, 20, [2]),
        ("SKIP", None, 21, []),
        ("LATEST", None, 25, [2]),
        ("ALL", 2, 25, [0, 1]),
    ],
)
def test_the_names_of_the_text_mean_the_same_in_a_file(
    desk: Desk, catch_up: str, most: int | None, late: int, expected: list[int]
) -> None:
    desk.declare(seconds(10, catchUp=catch_up, **({} if most is None else {"maxCatchUp": most})))
    desk.tick(T0 + late)
    assert [one.ordinal for one in desk.occurrences()] == expected


def test_all_goes_on_tick_by_tick_until_it_has_caught_up(desk: Desk) -> None:
    desk.declare(seconds(10, catchUp="ALL", maxCatchUp=2))
    for expected in (2, 4, 5, 5):
        desk.tick(T0 + 45)
        assert desk.view().next_ordinal == expected
    assert [one.ordinal for one in desk.occurrences()] == [0, 1, 2, 3, 4]


def test_the_word_skip_of_the_text_has_no_tolerance_and_misfire_skip_has_a_minute(desk: Desk) -> None:
    desk.declare(seconds(HOUR, catchUp="SKIP"))
    desk.declare(seconds(HOUR, misfire="skip") | {"id": "b"})
    desk.tick(T0 + 1)
    assert desk.ranges("a") == [(0, 0, "misfire")]
    assert desk.states("b") == [(0, "ready", None)]


def test_a_late_occurrence_keeps_the_time_at_which_it_was_due(desk: Desk) -> None:
    desk.declare(seconds(HOUR))
    desk.tick(T0 + 25 * MINUTE)
    desk.run()
    (one,) = desk.occurrences()
    assert (one.due, one.started_at) == (T0, T0 + 25 * MINUTE)


def test_a_slot_older_than_its_age_limit_is_rejected(desk: Desk) -> None:
    desk.declare(seconds(MINUTE, misfire="catchUp", overlap="queue", maxLatenessSeconds=90))
    desk.tick(T0 + 3 * MINUTE)
    assert desk.ranges() == [(0, 1, "maxLateness")]
    assert [one.ordinal for one in desk.occurrences()] == [2, 3]


# --- admission --------------------------------------------------------------------------------------------------------

STRICT: dict[str, dict[str, Any]] = {
    "age": {"maxLatenessSeconds": 0.025},
    "concurrency": {"maxConcurrent": 2, "overlap": "allow"},
    "rate": {"rateLimit": {"count": 2, "windowSeconds": 1}},
}


@pytest.mark.parametrize("limit", sorted(STRICT))
def test_one_occurrence_over_a_limit_refuses_the_whole_batch_and_repeating_makes_no_progress(
    desk: Desk, limit: str
) -> None:
    desk.declare(seconds(10, catchUp="ALL", maxCatchUp=3, admission="strict", **STRICT[limit]))
    for again in range(3):
        desk.tick(T0 + 35 + again * 5_000)
    assert desk.occurrences() == []
    assert (desk.view().next_ordinal, desk.view().next_due) == (0, T0)


def test_a_refused_schedule_is_shown_to_people(desk: Desk) -> None:
    desk.declare(seconds(10, catchUp="ALL", maxCatchUp=3, admission="strict", **STRICT["rate"]))
    assert desk.app.list(attention=True).schedules == ()
    desk.tick(T0 + 35)
    (view,) = desk.app.list(attention=True).schedules
    assert view.attention is not None and "rateLimit 2" in view.attention
    assert not desk.app.doctor().ok


@pytest.mark.parametrize("limit", sorted(STRICT))
def test_a_catch_up_batch_that_its_limits_will_never_admit_is_warned_of(desk: Desk, limit: str) -> None:
    said = seconds(10, catchUp="ALL", maxCatchUp=20, admission="strict", **STRICT[limit])
    (warning,) = desk.app.check(json.dumps(said).encode(), "json").warnings
    assert "refused again and again" in str(warning)
    fits = seconds(10, catchUp="ALL", maxCatchUp=2, admission="strict", **STRICT[limit])
    assert desk.app.check(json.dumps(fits).encode(), "json").warnings == []


def test_an_update_of_the_limits_lets_the_batch_through_and_is_a_decision(desk: Desk) -> None:
    desk.declare(seconds(10, catchUp="ALL", maxCatchUp=3, admission="strict", **STRICT["rate"]))
    desk.tick(T0 + 35)
    desk.app.update("a", json.dumps({"rateLimit": {"count": 3, "windowSeconds": 1}}).encode(), format="json")
    desk.tick(T0 + 60)
    assert [(one.revision, one.ordinal) for one in desk.occurrences()] == [(2, 0), (2, 1), (2, 2)]
    assert desk.decisions() == ["create", "revise"]
    desk.check()


def test_another_id_is_another_identity_whose_occurrences_are_others(desk: Desk) -> None:
    desk.declare(seconds(HOUR))
    desk.declare(seconds(HOUR) | {"id": "b"})
    desk.tick(T0)
    (a,), (b,) = desk.occurrences("a"), desk.occurrences("b")
    assert (a.due, a.ordinal) == (b.due, b.ordinal)
    assert a.key != b.key


# --- the model of time ------------------------------------------------------------------------------------------------


def pause(desk: Desk) -> None:
    desk.app.pause("a")


def nobody_is_there(desk: Desk) -> None:
    """An outage: no owner lives."""


GAPS = [pytest.param(pause, id="pause"), pytest.param(nobody_is_there, id="outage")]


def end_of(gap: Any, desk: Desk, now: int) -> None:
    desk.now = now
    if gap is pause:
        desk.app.resume("a")
    else:
        desk.own_again()
    desk.tick(now)


@pytest.mark.parametrize("gap", GAPS)
def test_a_deadline_runs_on(desk: Desk, gap: Any) -> None:
    desk.declare(seconds(24 * HOUR, deadlineSeconds=600))
    desk.tick(T0)
    gap(desk)
    end_of(gap, desk, T0 + 600 * SECOND + 1)
    assert desk.states() == [(0, "skipped", "deadline")]


@pytest.mark.parametrize("gap", GAPS)
def test_a_lifetime_runs_on(desk: Desk, gap: Any) -> None:
    desk.declare(seconds(40 * MINUTE, expiresAt=to_rfc3339(T0 + HOUR)))
    desk.tick(T0)
    gap(desk)
    end_of(gap, desk, T0 + HOUR + 1)
    assert desk.states() == [(0, "skipped", "expired")]
    assert desk.ranges() == [(1, 1, "expired")]
    assert (desk.view().state, desk.view().reason) == ("ended", "expired")


def test_an_approvals_expiry_runs_on(tmp_path: Path) -> None:
    desk = Approving(tmp_path)

    def outage() -> None:
        desk.now += HOUR

    desk.adapter.before = lambda: None
    desk.declare(seconds(HOUR))
    made = desk.adapter.answer
    desk.adapter.answer = lambda approval: (outage(), made(approval))[1]  # type: ignore[func-returns-value]
    with pytest.raises(ApprovalDenied, match="expired"):
        desk.app.cancel("a")
    desk.close()


def attempts(one: OccurrenceView) -> list[tuple[str, int]]:
    return [(attempt.state, attempt.elapsed) for attempt in one.attempts]


def test_execution_time_counts_attempts_and_not_the_delays_and_pauses_between_them(desk: Desk) -> None:
    desk.declare(seconds(24 * HOUR, maxRetries=2, retry={"delaySeconds": 3600, "backoff": 1}, maxElapsedSeconds=1))
    desk.tick(T0)
    (first,) = desk.begin()
    desk.finish(failed(first, desk.now))  # each attempt takes 5 ms
    pause(desk)
    end_of(pause, desk, T0 + 5 * HOUR)
    (second,) = desk.begin()
    desk.finish(succeeded(second, desk.now))
    one = desk.one()
    assert (one.state, one.elapsed, attempts(one)) == ("succeeded", 10, [("failed", 5), ("succeeded", 5)])


def test_an_attempt_that_nobody_saw_end_is_charged_its_longest_possible_time(desk: Desk) -> None:
    desk.declare(seconds(24 * HOUR))
    desk.tick(T0)
    desk.begin()
    desk.now = T0 + 3 * HOUR
    desk.own_again()
    (attempt,) = desk.one().attempts
    assert (attempt.state, attempt.elapsed, attempt.uncertain) == ("interrupted", 3 * HOUR, True)


def test_a_retry_keeps_the_time_and_the_count_of_earlier_attempts(desk: Desk) -> None:
    desk.declare(
        seconds(24 * HOUR, maxRetries=9, onInterrupted="retry", retry={"delaySeconds": 1}, maxElapsedSeconds=7200)
    )
    desk.tick(T0)
    desk.begin()
    desk.now = T0 + HOUR
    desk.own_again()  # one attempt of up to an hour is lost, and will be made again
    desk.now += SECOND
    (again,) = desk.begin()
    assert (again.attempt, again.elapsed) == (2, HOUR)
    desk.now += HOUR
    desk.own_again()
    one = desk.one()
    assert (one.state, one.reason, one.attempt, one.elapsed) == ("interrupted", "elapsed", 2, 2 * HOUR)


@pytest.mark.parametrize("gap", GAPS)
def test_a_retry_delay_passes_during_a_gap(desk: Desk, gap: Any) -> None:
    desk.declare(seconds(24 * HOUR, maxRetries=1, retry={"delaySeconds": 600}))
    desk.tick(T0)
    desk.run(fail=True)
    gap(desk)
    end_of(gap, desk, T0 + 600 * SECOND)
    assert [one.attempt for one in desk.begin()] == [2]


def test_a_retry_whose_time_has_come_still_obeys_pause_disabling_and_limits(desk: Desk) -> None:
    for name, more in (("a", {}), ("b", {}), ("c", {"expiresAt": to_rfc3339(T0 + 15 * MINUTE)})):
        desk.declare(seconds(24 * HOUR, maxRetries=1, retry={"delaySeconds": 600}, **more) | {"id": name})
    desk.tick(T0)
    desk.run(fail=True)
    desk.app.pause("a")
    desk.app.disable("b")
    desk.tick(T0 + 20 * MINUTE)
    assert desk.claim() == []
    assert desk.states("a") == [(0, "retrying", None)]
    assert desk.states("b") == [(0, "failed", "disabled")]
    assert desk.states("c") == [(0, "failed", "expired")]


class TwoClocks:
    """A wall clock that is set, and a monotonic one that nobody sets."""

    def __init__(self) -> None:
        self.wall, self.mono = T0, 0

    def now(self) -> int:
        return self.wall

    def monotonic(self) -> int:
        return self.mono

    def boot_time(self) -> int | None:
        return None


@pytest.fixture
def stepped(desk: Desk) -> Iterator[tuple[Desk, TwoClocks, InlineOwner]]:
    desk.create(every(HOUR, task=Task(callable="tests.seeds._tasks:run")))
    clock = TwoClocks()
    desk.store.clock = clock
    owner = InlineOwner(desk.store)
    owner.open()
    yield desk, clock, owner
    owner.verbs.release()
    _tasks.act.clear()


@pytest.mark.parametrize("step", [-HOUR, 10 * MINUTE])
def test_a_duration_is_measured_by_the_monotonic_clock_whatever_the_wall_clock_is_set_to(
    stepped: tuple[Desk, TwoClocks, InlineOwner], step: int
) -> None:
    desk, clock, owner = stepped

    def work() -> None:
        clock.wall += step
        clock.mono += 7

    _tasks.act["run"] = work
    owner.drain()
    owner.turn()
    one = desk.one()
    assert (one.state, one.elapsed, one.attempts[0].elapsed) == ("succeeded", 7, 7)


def test_a_clock_correction_makes_no_recorded_use_negative_or_nothing(desk: Desk) -> None:
    desk.declare(seconds(24 * HOUR))
    desk.declare(seconds(24 * HOUR) | {"id": "b"})
    desk.observe_clock(T0 + MINUTE)
    desk.tick(T0 + MINUTE)
    first, second = desk.begin()
    desk.finish(succeeded(first, desk.now)._replace(elapsed=-5))  # what a broken executor might report
    desk.observe_clock(T0 + 2 * MINUTE)
    desk.observe_clock(T0 - HOUR)
    desk.own_again()  # the wall clock is an hour behind the start of what was lost
    a, b = desk.one(first.schedule_id), desk.one(second.schedule_id)
    assert (a.elapsed, b.elapsed) == (0, MINUTE), "at most from its start to the latest time that was ever seen"
    assert b.attempts[0].uncertain


def test_an_interval_that_is_uncertain_after_a_restart_is_settled_and_later_news_is_kept_as_evidence(
    desk: Desk,
) -> None:
    desk.declare(seconds(24 * HOUR))
    desk.tick(T0)
    (taken,) = desk.begin()
    before = desk.epoch
    desk.now = T0 + MINUTE
    desk.own_again()
    desk.finish(succeeded(taken, desk.now), epoch=before)  # the lost worker was alive after all
    one = desk.one()
    assert (one.state, one.elapsed) == ("interrupted", MINUTE)
    assert [(attempt.state, attempt.uncertain, attempt.late) for attempt in one.attempts] == [
        ("interrupted", True, False),
        ("succeeded", False, True),
    ]


# --- calendar schedules -----------------------------------------------------------------------------------------------

CALENDAR = {"id": "a", "trigger": {"kind": "calendar", "at": "09:00"}, "task": "jobs:run"}


def test_a_wall_clock_rule_without_a_zone_is_refused(desk: Desk) -> None:
    with pytest.raises(InvalidInput, match="needs a zone"):
        desk.declare(CALENDAR)
    assert desk.declare(CALENDAR | {"timezone": "America/Winnipeg"}).state == "enabled"


def test_a_schedule_does_not_overlap_itself_unless_it_says_so(desk: Desk) -> None:
    desk.declare(seconds(MINUTE))
    desk.tick(T0)
    desk.begin()
    desk.tick(T0 + MINUTE)
    assert desk.claim() == []
    assert desk.states() == [(0, "running", None), (1, "waiting", None)]


def test_missed_occurrences_are_skipped_where_the_schedule_says_so(desk: Desk) -> None:
    desk.declare(seconds(HOUR, misfire="skip"))
    desk.tick(T0 + 2 * HOUR)
    assert (desk.ranges(), [one.ordinal for one in desk.occurrences()]) == ([(0, 1, "misfire")], [2])


@pytest.mark.parametrize(
    ("more", "due"),
    [
        ({}, "2027-03-15T06:30:00Z"),  # New York has no 02:30 on 2027-03-14: that day is left out
        ({"gap": "shift"}, "2027-03-14T07:30:00Z"),
        ({"gap": "boundary"}, "2027-03-14T07:00:00Z"),
    ],
)
def test_a_missing_wall_time_is_treated_as_the_schedule_declares(desk: Desk, more: dict[str, str], due: str) -> None:
    rule = {"kind": "calendar", "at": "02:30", "timezone": "America/New_York", **more}
    desk.now = instant("2027-03-13T12:00:00Z")
    view = desk.declare({"id": "a", "trigger": rule, "task": "jobs:run"})
    assert view.next_due == instant(due)


@pytest.mark.parametrize(
    ("more", "dues"),
    [
        ({}, ["2027-11-07T05:30:00Z"]),  # New York has 01:30 twice on 2027-11-07
        ({"fold": "second"}, ["2027-11-07T06:30:00Z"]),
        ({"fold": "both"}, ["2027-11-07T05:30:00Z", "2027-11-07T06:30:00Z"]),
    ],
)
def test_a_repeated_wall_time_is_treated_as_the_schedule_declares(
    desk: Desk, more: dict[str, str], dues: list[str]
) -> None:
    rule = {"kind": "calendar", "at": "01:30", "timezone": "America/New_York", **more}
    desk.now = instant("2027-11-07T00:00:00Z")
    desk.declare({"id": "a", "trigger": rule, "task": "jobs:run", "overlap": "queue", "graceSeconds": 86_400})
    desk.tick(instant("2027-11-07T12:00:00Z"))
    assert [one.due for one in desk.occurrences()] == [instant(due) for due in dues]


def test_the_age_the_count_and_the_lateness_of_catching_up_are_declared(desk: Desk) -> None:
    desk.declare(seconds(MINUTE, misfire="catchUp", maxCatchUp=2, maxLatenessSeconds=180, overlap="queue"))
    desk.tick(T0 + 5 * MINUTE)
    assert desk.ranges() == [(0, 1, "maxLateness")]
    assert [one.ordinal for one in desk.occurrences()] == [2, 3]
    desk.tick(T0 + 5 * MINUTE)
    assert [one.ordinal for one in desk.occurrences()] == [2, 3, 4, 5]


def test_a_cron_expression_is_no_interval(desk: Desk) -> None:
    rule = {"kind": "interval", "intervalMs": "0 9 * * 1-5"}
    with pytest.raises(InvalidInput, match="a cron expression is no interval"):
        desk.declare({"id": "a", "trigger": rule, "task": "jobs:run"})


def test_suspending_a_schedule_leaves_a_running_job_alone_and_a_missed_start_has_a_deadline(desk: Desk) -> None:
    desk.declare(seconds(HOUR, deadlineSeconds=60))
    desk.tick(T0)
    (running,) = desk.begin()
    desk.app.pause("a")
    desk.finish(succeeded(running, desk.now))
    assert desk.states() == [(0, "succeeded", None)]
    desk.app.resume("a")
    desk.tick(T0 + HOUR)
    desk.tick(T0 + HOUR + MINUTE + 1)
    assert desk.states()[1:] == [(1, "skipped", "deadline")]
