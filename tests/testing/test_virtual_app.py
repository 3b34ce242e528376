"""Time passes in a virtual app as it would for an owner, and only when it is told to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from unittest.mock import AsyncMock, Mock

import pytest
from freezegun import freeze_time

from calsched import CalendarTrigger, CronTrigger, IntervalTrigger, OnceTrigger
from calsched.errors import InvalidInput, UnknownSchedule
from calsched.stores import inspect
from calsched.testing import SettableClock, VirtualApp
from tests.testing import _jobs

HOURLY = CalendarTrigger(hour="*", timezone="UTC")
DAILY = CalendarTrigger(at="06:00", timezone="UTC")


@pytest.fixture
def app() -> Iterator[VirtualApp]:
    _jobs.calls.clear()
    with VirtualApp() as made:
        yield made
        with made.store().read() as conn:
            assert inspect.tiling(made.store(), conn) == []


def times(app: VirtualApp, id: str) -> list[str]:
    """When the runs of a schedule began, on its wall clock."""
    zone = app._zone(app._live(id))
    return [f"{app._shown(one.started_at or 0, zone):%d %H:%M:%S}" for one in app.runs(id, state=None)]


# --- time -------------------------------------------------------------------------------------------------------------


def test_each_due_instant_is_ticked_in_its_turn_and_at_its_time(app: VirtualApp) -> None:
    seen: list[tuple[str, str]] = []
    clock = app.clock
    app.add(lambda: seen.append(("a", f"{clock.now() // 60_000 % 1440}")), IntervalTrigger(minutes=20), id="a")
    app.add(lambda: seen.append(("b", f"{clock.now() // 60_000 % 1440}")), IntervalTrigger(minutes=30), id="b")
    ran = app.advance(hours=1)
    assert seen == [("a", "0"), ("b", "0"), ("a", "20"), ("b", "30"), ("a", "40"), ("a", "60"), ("b", "60")]
    assert [one.id for one in ran] == [name for name, _ in seen]
    assert all(one.due == one.at for one in ran)


def test_nothing_runs_between_two_advances_and_an_instant_runs_once(app: VirtualApp) -> None:
    app.add(_jobs.note, HOURLY)
    assert len(app.advance("2026-01-01T03:00:00Z")) == 4
    assert app.run_due() == app.advance(seconds=0) == app.advance(minutes=59) == ()
    assert len(app.advance(minutes=1)) == 1


@pytest.mark.parametrize(
    ("gap", "expected"),
    [("skip", ["27 02:30", "29 02:30"]), ("shift", ["27 02:30", "28 03:30", "29 02:30"])],
)
def test_a_wall_time_that_does_not_exist_is_treated_as_declared(gap: str, expected: list[str]) -> None:
    with VirtualApp("2027-03-27", timezone="Europe/Berlin") as app:
        app.add(_jobs.note, CalendarTrigger(at="02:30", timezone="Europe/Berlin", gap=gap), id="nightly")  # type: ignore[arg-type]
        ran = app.advance("2027-03-30")
    assert [f"{one.at:%d %H:%M}" for one in ran] == expected


def test_a_repeated_wall_time_runs_as_often_as_declared_and_both_can_be_named() -> None:
    with VirtualApp("2027-10-30", timezone="Europe/Berlin") as app:
        app.add(_jobs.note, CalendarTrigger(at="02:30", timezone="Europe/Berlin", fold="both"), id="nightly")
        ran = app.advance("2027-11-01")
        assert [one.at.isoformat() for one in ran] == [
            "2027-10-30T02:30:00+02:00",
            "2027-10-31T02:30:00+02:00",
            "2027-10-31T02:30:00+01:00",
        ]
        app.assert_ran("nightly", at="2027-10-31T02:30", times=1)
        app.assert_ran("nightly", at=datetime(2027, 10, 31, 2, 30, fold=1), times=1)  # noqa: DTZ001
        assert ran[2].due == datetime(2027, 10, 31, 1, 30, tzinfo=UTC)  # unequal if it were a zone's


def test_a_year_of_wall_clock_days_has_as_many_runs_as_days() -> None:
    with VirtualApp("2027-01-01", timezone="America/New_York") as app:
        app.add(_jobs.note, CalendarTrigger(at="02:30", timezone="America/New_York", gap="boundary"), id="nightly")
        assert len(app.advance("2028-01-01")) == 365


@pytest.mark.parametrize(
    ("misfire", "missed", "last"),
    [("runOnce", "represented", "succeeded"), ("skip", "misfire", "misfire"), ("catchUp", "succeeded", "succeeded")],
)
def test_an_outage_is_a_clock_that_moved_while_nobody_ticked(
    app: VirtualApp, misfire: str, missed: str, last: str
) -> None:
    app.add(_jobs.note, DAILY, id="daily", misfire=misfire, overlap="queue")
    app.advance("2026-01-02")
    app.clock.set("2026-01-05T00:00:00Z")
    app.run_due()
    app.assert_verdict("daily", "2026-01-02T06:00", missed)
    app.assert_verdict("daily", "2026-01-04T06:00", last)


def test_an_advance_that_would_never_end_says_so(app: VirtualApp) -> None:
    app.add(_jobs.note, IntervalTrigger(milliseconds=1))
    with pytest.raises(RuntimeError, match=r"steps, and time has only come to 2026-01-01T00:00:00\.\d+Z"):
        app.advance(days=1, most=50)


def test_time_does_not_go_back(app: VirtualApp) -> None:
    app.advance(hours=1)
    with pytest.raises(ValueError, match="cannot go back from 2026-01-01T01:00:00Z to 2026-01-01T00:00:00Z"):
        app.advance("2026-01-01")
    with pytest.raises(ValueError, match=r"step\(\) sets the wall clock alone"):
        app.clock.set("2025-12-31T00:00:00Z")
    with pytest.raises(TypeError, match="and not both"):
        app.advance("2026-02-01", days=1)


def test_a_wall_clock_that_was_set_back_holds_dispatch_until_it_is_right_again(app: VirtualApp) -> None:
    app.add(_jobs.note, HOURLY, id="hourly")
    app.advance("2026-01-01T03:30:00Z")
    app.clock.step(minutes=-90)
    app.run("hourly")
    assert app.run_due() == ()
    (extra,) = app.advance(minutes=91)
    assert extra.series == "manual"
    assert f"{extra.at:%H:%M}" == "03:29"  # within the tolerance of a second
    assert len(app.runs("hourly")) == 5


# --- failures, retries, limits ----------------------------------------------------------------------------------------


def test_retries_come_after_their_delays_and_end_with_the_last(app: VirtualApp) -> None:
    app.add(_jobs.fail, DAILY, id="daily", max_retries=3, retry_delay=10, retry_backoff=3)
    ran = app.advance(days=1)
    assert [f"{one.at:%H:%M:%S}" for one in ran] == ["06:00:00", "06:00:10", "06:00:40", "06:02:10"]
    assert [one.attempt for one in ran] == [1, 2, 3, 4]
    app.assert_verdict("daily", "2026-01-01T06:00", "retries")
    app.assert_ran("daily", times=1, state="failed")


def test_a_retry_past_the_deadline_is_not_made(app: VirtualApp) -> None:
    app.add(_jobs.fail, DAILY, id="daily", max_retries=9, retry_delay=60, retry_backoff=1, deadline=150)
    assert [f"{one.at:%H:%M:%S}" for one in app.advance(days=1)] == ["06:00:00", "06:01:00", "06:02:00"]
    app.assert_verdict("daily", "2026-01-01T06:00", "deadline")


def test_failures_in_a_row_pause_a_schedule_and_enabling_it_replays_nothing(app: VirtualApp) -> None:
    app.add(_jobs.fail, DAILY, id="daily", pause_after_failures=3)
    app.advance(days=10)
    assert len(app.runs("daily", state="failed")) == 3
    assert (app.get("daily").state, app.get("daily").reason) == ("paused", "failures")
    app.enable("daily")
    app.assert_verdict("daily", "2026-01-05T06:00", "disabled")
    assert len(app.advance(days=1)) == 1


def test_a_success_resets_the_count(app: VirtualApp) -> None:
    endings = iter([1, 1, 0, 1, 1, 0])
    app.add(lambda: 1 // (1 - next(endings)), DAILY, id="daily", pause_after_failures=3)
    app.advance(days=6)
    assert [one.state for one in app.runs("daily", state=None)] == [
        "failed", "failed", "succeeded", "failed", "failed", "succeeded",
    ]  # fmt: skip
    assert app.get("daily").state == "enabled"


def test_pause_until_ends_by_itself(app: VirtualApp) -> None:
    app.add(_jobs.note, DAILY, id="daily")
    app.advance(days=1)
    app.pause("daily", until=app.now() + 2 * 86_400_000 + 3_600_000)
    ran = app.advance(days=4)
    assert [f"{one.at:%d %H:%M}" for one in ran] == ["04 01:00", "04 06:00", "05 06:00"]
    app.assert_verdict("daily", "2026-01-02T06:00", "represented")


def test_a_run_that_takes_time_ends_when_it_is_over(app: VirtualApp) -> None:
    app.add(_jobs.note, DAILY, id="daily", takes=timedelta(minutes=10))
    (began,) = app.advance("2026-01-01T06:09:59Z")
    assert began.state == "running"
    app.assert_verdict("daily", "2026-01-01T06:00", "running")
    app.advance(seconds=1)
    (ended,) = app.runs("daily")
    assert (ended.elapsed, ended.finished_at) == (600_000, app.now())


@pytest.mark.parametrize(
    ("overlap", "verdicts"),
    [
        ("queue", ["succeeded", "running", "waiting", "waiting"]),
        ("skip", ["succeeded", "overlap", "overlap", "running"]),
        ("coalesce", ["succeeded", "running", "represented", "waiting"]),
        ("allow", ["succeeded", "running", "running", "running"]),
    ],
)
def test_runs_that_take_longer_than_their_interval_meet_the_overlap_policy(
    app: VirtualApp, overlap: str, verdicts: list[str]
) -> None:
    app.add(_jobs.note, HOURLY, id="hourly", overlap=overlap, takes=9_000)
    app.advance("2026-01-01T03:00:00Z")
    for hour, verdict in enumerate(verdicts):
        app.assert_verdict("hourly", f"2026-01-01T{hour:02d}:00", verdict)


def test_a_run_over_its_timeout_has_timed_out_and_its_schedule_waits_for_its_end(app: VirtualApp) -> None:
    app.add(_jobs.note, HOURLY, id="hourly", timeout=60, takes=5_400)
    app.advance("2026-01-01T00:01:00Z")
    app.assert_verdict("hourly", "2026-01-01T00:00", "timed_out")
    assert app.runs("hourly", state="timed_out")[0].elapsed == 60_000
    app.advance("2026-01-01T01:29:00Z")
    app.assert_verdict("hourly", "2026-01-01T01:00", "ready")
    (second,) = app.advance(minutes=1)
    assert f"{second.due:%H:%M} {second.at:%H:%M}" == "01:00 01:30"


def test_a_task_that_moves_the_clock_itself_has_taken_that_time(app: VirtualApp) -> None:
    app.add(lambda: app.clock.advance(minutes=3), DAILY, id="daily", timeout=120)
    app.advance(days=1)
    assert [one.elapsed for one in app.runs("daily", state="timed_out")] == [180_000]


@pytest.mark.parametrize(("again", "verdict"), [("never", "interrupted"), ("retry", "succeeded")])
def test_what_runs_when_the_owner_crashes_is_interrupted(app: VirtualApp, again: str, verdict: str) -> None:
    app.add(_jobs.note, DAILY, id="daily", takes=3_600, on_interrupted=again, max_retries=1)
    app.advance("2026-01-01T06:30:00Z")
    app.crash()
    app.advance("2026-01-01T09:00:00Z")
    app.assert_verdict("daily", "2026-01-01T06:00", verdict)


# --- what is called ---------------------------------------------------------------------------------------------------


def test_any_callable_will_do_and_has_an_id_of_its_own(app: VirtualApp) -> None:
    once = OnceTrigger("2026-01-01T01:00:00Z")
    mock, seen = Mock(), []

    def nested() -> None:
        seen.append("nested")

    added = [app.add(func, once).id for func in (_jobs.note, mock, seen.clear, nested)]
    added.append(app.add(lambda: seen.append("lambda"), once).id)
    app.advance(hours=1)
    assert added == ["note", "Mock", "clear", "nested", "lambda"]
    assert seen == ["nested", "lambda"]
    assert (mock.call_count, len(_jobs.calls)) == (1, 1)


def test_the_same_callable_twice_is_one_callable(app: VirtualApp) -> None:
    task = Mock()
    first, second = app.add(task, DAILY, id="a"), app.add(task, DAILY, id="b")
    assert first.definition is not None and second.definition is not None
    assert first.definition.task.callable == second.definition.task.callable == "here:Mock"


def test_arguments_arrive_as_they_would_from_a_ledger(app: VirtualApp) -> None:
    app.add(_jobs.report, OnceTrigger("2026-01-01T01:00:00Z"), args=[date(2026, 1, 1)])
    app.advance(hours=1)
    assert _jobs.calls == [date(2026, 1, 1)]


def test_a_coroutine_runs_on_a_loop_of_its_own_also_inside_of_one(app: VirtualApp) -> None:
    app.add(_jobs.nap, HOURLY, id="nap")
    app.add(AsyncMock(), HOURLY, id="mock")

    async def inside() -> None:
        app.advance(hours=1)

    app.advance(minutes=1)
    asyncio.run(inside())
    app.assert_ran("nap", times=2)
    app.assert_ran("mock", times=2)
    assert app.runs("nap")[0].result == '"rested"'


def test_a_task_knows_which_occurrence_it_serves_and_its_key_is_the_same_every_time(app: VirtualApp) -> None:
    app.add(_jobs.which, DAILY, id="daily")
    app.advance(days=2)
    assert str(_jobs.calls[1].key) == '["00000000-0000-4000-8000-000000000000","default","daily",1,"1"]'
    assert _jobs.calls[1].due == datetime(2026, 1, 2, 6, tzinfo=UTC)


def test_jitter_is_the_same_in_every_run() -> None:
    found = []
    for _ in range(2):
        with VirtualApp() as app:
            app.add(_jobs.note, DAILY, id="daily", jitter=3_600)
            found.append([one.at for one in app.advance(days=5)])
    assert found[0] == found[1]
    assert len({one.timetz() for one in found[0]}) == 5


def test_a_stop_of_the_test_itself_is_not_swallowed_and_the_outcome_is_kept(app: VirtualApp) -> None:
    app.add(lambda: pytest.fail("seen"), DAILY, id="daily")
    with pytest.raises(pytest.fail.Exception, match="seen"):
        app.advance(days=1)
    app.run_due()
    app.assert_ran("daily", state="failed")


def test_what_cannot_be_called_or_found_is_refused_where_it_is_added(app: VirtualApp) -> None:
    with pytest.raises(InvalidInput, match="has no 'nothing'"):
        app.add("tests.testing._jobs:nothing", DAILY)
    with pytest.raises(TypeError, match="expected a callable"):
        app.add(3, DAILY)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="did you mean 'overlap'"):
        app.add(_jobs.note, DAILY, overlop="skip")
    assert app.list().schedules == ()


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_file_is_loaded_whole_and_its_callables_must_be_there(app: VirtualApp) -> None:
    text = b"schedules:\n  a: {every: 1h, task: tests.testing._jobs:note}\n  b: {every: 1h, task: nowhere:note}\n"
    with pytest.raises(InvalidInput, match=r"schedules\.b\.task.*cannot import module 'nowhere'"):
        app.load(text)
    stand_in = Mock()
    app.stand_in("nowhere:note", stand_in)
    assert app.load(text).created == {"a", "b"}
    app.advance(hours=1)
    assert (stand_in.call_count, len(_jobs.calls)) == (2, 2)


def test_a_stand_in_takes_over_at_once(app: VirtualApp) -> None:
    app.load({"schedules": {"a": {"every": "1h", "task": "tests.testing._jobs:note"}}})
    app.run_due()
    stand_in = Mock()
    app.stand_in("tests.testing._jobs:note", stand_in)
    app.advance(hours=2)
    assert (len(_jobs.calls), stand_in.call_count) == (1, 2)


# --- questions and messages -------------------------------------------------------------------------------------------


def test_due_instants_are_those_of_the_rule_whatever_the_clock_says(app: VirtualApp) -> None:
    rule = CalendarTrigger(at="09:00", weekdays="mon-fri", timezone="America/New_York")
    app.add(_jobs.note, rule, id="report")
    found = app.due_instants("report", date(2030, 3, 8), date(2030, 3, 11))
    assert [at.isoformat() for at in found] == ["2030-03-08T09:00:00-05:00", "2030-03-11T09:00:00-04:00"]
    assert app.due_instants("report", "1999-12-31T09:00", "1999-12-31T09:00") == [
        datetime(1999, 12, 31, 14, tzinfo=UTC)
    ]
    with pytest.raises(UnknownSchedule):
        app.due_instants("reports", date(2030, 1, 1), date(2030, 1, 2))


def test_more_due_instants_than_anybody_can_look_at_are_refused(app: VirtualApp) -> None:
    app.add(_jobs.note, IntervalTrigger(seconds=1), id="poll")
    with pytest.raises(ValueError, match="more than 100,000 times"):
        app.due_instants("poll", date(2030, 1, 1), date(2030, 1, 3))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("2027-3-1", "expected a time such as"),
        ("2027-03-28T02:30", "does not exist in Europe/Berlin"),
        (10**18, "no instant"),
    ],
)
def test_a_time_that_is_none_is_refused(written: str | int, message: str) -> None:
    with VirtualApp(timezone="Europe/Berlin") as app, pytest.raises(ValueError, match=message):
        app.advance(written)


def test_assert_ran_counts_what_ended_so(app: VirtualApp) -> None:
    app.add(_jobs.note, DAILY, id="daily")
    app.add(_jobs.fail, DAILY, id="broken")
    app.assert_ran("daily", times=0)
    app.advance(days=3)
    app.assert_ran("daily")
    app.assert_ran("daily", times=3)
    app.assert_ran("daily", at=datetime(2026, 1, 2, 6, tzinfo=UTC), times=1)
    app.assert_ran("broken", times=0)
    app.assert_ran("broken", state=None, times=3)


def test_a_failed_assertion_says_why_and_shows_the_ledger_around_it(app: VirtualApp) -> None:
    app.add(_jobs.fail, DAILY, id="daily", pause_after_failures=0)
    app.advance(days=30)
    with pytest.raises(AssertionError) as caught:
        app.assert_ran("daily", at="2026-01-10T06:00")
    lines = str(caught.value).splitlines()
    assert lines[0] == "'daily' did not run and end succeeded for Sat 2026-01-10 06:00:00 +00:00"
    assert "ConnectionError: no answer" in lines[2]
    shown = [line for line in lines if "  #" in line]
    assert [line.split("#")[1].split()[0] for line in shown] == [str(n) for n in range(5, 14)]
    assert [line.startswith("  ▸") for line in shown] == [n == 9 for n in range(5, 14)]
    assert lines[-1].endswith("the schedule is enabled, next due Sat 2026-01-31 06:00:00 +00:00")


def test_an_empty_ledger_and_a_range_are_shown_too(app: VirtualApp) -> None:
    app.add(_jobs.note, DAILY, id="daily", misfire="skip")
    with pytest.raises(AssertionError, match=r"(?s)did not run and end succeeded.*\(empty\)"):
        app.assert_ran("daily")
    app.clock.advance(days=3)
    app.run_due()
    with pytest.raises(AssertionError, match=r"#0–2  skipped: misfire"):
        app.assert_ran("daily", times=2)


def test_a_verdict_is_compared_word_by_word(app: VirtualApp) -> None:
    app.add(_jobs.note, DAILY, id="daily")
    app.skip("daily", [app.now() + 6 * 3_600_000])
    app.advance(days=2)
    app.assert_verdict("daily", "2026-01-01T06:00", "skipped")
    app.assert_verdict("daily", "2026-01-01T06:00", "operator")
    app.assert_verdict("daily", "2026-01-09T06:00", "future")
    app.assert_verdict("daily", "2026-01-01T07:00", "notASlot")
    app.assert_verdict("daily", "2025-12-01T06:00", "none")
    with pytest.raises(AssertionError, match=r"expected misfire at .*, got skipped \(operator\)"):
        app.assert_verdict("daily", "2026-01-01T06:00", "misfire")


# --- freezegun --------------------------------------------------------------------------------------------------------


def wall() -> datetime:
    """What code that reads the clock itself sees."""
    return datetime.now(UTC)  # noqa: TID251


def test_freezegun_follows_the_virtual_clock_and_lets_go_at_the_end() -> None:
    seen: list[tuple[datetime, float]] = []
    with VirtualApp("2030-05-01", freeze=True) as app:
        app.add(lambda: seen.append((wall(), time.time())), HOURLY, id="hourly")  # noqa: TID251
        app.advance(hours=2)
        app.clock.step(minutes=1)
        assert wall() == datetime(2030, 5, 1, 2, 1, tzinfo=UTC)
    assert [at for at, _ in seen] == [datetime(2030, 5, 1, hour, tzinfo=UTC) for hour in range(3)]
    assert [at.timestamp() for at, _ in seen] == [second for _, second in seen]
    assert wall().year < 2030


def test_a_coroutine_that_sleeps_wakes_up_while_time_is_frozen() -> None:
    async def sleeps() -> str:
        await asyncio.sleep(0.001)
        return wall().isoformat()

    with VirtualApp("2030-05-01", freeze=True) as app:
        app.add(sleeps, OnceTrigger("2030-05-01T01:00:00Z"), id="once")
        app.advance(hours=1)
        assert app.runs("once")[0].result == '"2030-05-01T01:00:00+00:00"'


def test_time_that_is_frozen_already_is_taken_along() -> None:
    with freeze_time("2031-01-01") as frozen, VirtualApp("2031-02-01", freeze=frozen) as app:
        app.advance(days=1)
        app.close()
        assert wall() == datetime(2031, 2, 2, tzinfo=UTC)


# --- the clock --------------------------------------------------------------------------------------------------------


def test_all_three_clocks_move_together_and_a_step_moves_the_wall_clock_alone() -> None:
    clock = SettableClock("2026-01-01T00:00:00Z")
    moved: list[int] = []
    wall, mono, boot = clock.now(), clock.monotonic(), clock.boot_time()
    assert boot is not None
    clock.watch(moved.append)
    clock.advance(minutes=2)
    clock.set("2026-01-01T01:00:00Z")
    assert (clock.now() - wall, clock.monotonic() - mono) == (3_600_000, 3_600_000)
    clock.step(seconds=-5)
    assert (clock.now() - wall, clock.monotonic() - mono) == (3_595_000, 3_600_000)
    assert clock.boot_time() == boot + 3_600_000
    assert moved == [wall + 120_000, wall + 3_600_000, wall + 3_595_000]


def test_cron_and_apscheduler_triggers_can_be_added_as_they_are(app: VirtualApp) -> None:
    from apscheduler.triggers.cron import CronTrigger as Theirs

    app.add(_jobs.note, CronTrigger("30 4 * * *", timezone="UTC"), id="ours")
    app.add(_jobs.note, Theirs(hour=4, minute=30, timezone="UTC"), id="theirs")
    ran = app.advance(days=1)
    assert [(one.id, f"{one.due:%H:%M}") for one in ran] == [("ours", "04:30"), ("theirs", "04:30")]
