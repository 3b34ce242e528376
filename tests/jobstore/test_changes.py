"""Registering again, changing, pausing: what says the same changes nothing, and policies come along."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_MISSED
from apscheduler.triggers.interval import IntervalTrigger as PlainInterval

from calsched import CalendarTrigger, IntervalTrigger, OnceTrigger, durable
from calsched.calendars import define
from calsched.clock import to_datetime, to_millis
from calsched.errors import InvalidInput
from calsched.runtime.jobs import has_implied_start, is_own_slot
from calsched.stores import inspect
from tests.jobstore import _jobs
from tests.jobstore._jobs import now
from tests.jobstore.conftest import WAIT, Ledger, wait_until

Make = Callable[..., Any]
DAILY = CalendarTrigger(hour=9, timezone="America/Winnipeg")
FUTURE = datetime(2031, 3, 4, 5, 6, 7, tzinfo=UTC)


def restarted(run: Make, register: Callable[[Any], None]) -> Any:
    """A scheduler that registered its jobs, was shut down, and is the next process now."""
    first = run()
    register(first)
    first.start(paused=True)
    first.shutdown()
    second = run()
    register(second)
    return second


def on_open_days(*closed: str) -> Any:
    calendar = define("ours", dates=list(closed), through=2040)
    return durable(CalendarTrigger(hour=9, calendar=calendar, timezone="Europe/Berlin"))


def versions(scheduler: Any) -> list[Any]:
    """Of the calendars that each schedule uses."""
    store = scheduler.ours.store
    with store.read() as conn:
        found = [inspect.get(store, conn, "default", name).definition for name in ("a", "b")]
    return [dict(one.calendars) for one in found if one is not None]


def test_the_business_calendar_of_a_trigger_is_kept_in_its_version(run: Make) -> None:
    scheduler = run()
    scheduler.start(paused=True)
    job = scheduler.add_job(_jobs.tell, on_open_days("2031-03-05"), id="a", next_run_time=None)
    other = scheduler.add_job(_jobs.tell, on_open_days("2031-03-05"), id="b", next_run_time=None)
    assert versions(scheduler) == [{"ours": 1}, {"ours": 1}]
    scheduler.reschedule_job(other.id, trigger=on_open_days("2031-03-05", "2031-03-06"))
    assert versions(scheduler) == [{"ours": 2}, {"ours": 2}]
    later = FUTURE.replace(day=4, hour=12)
    for name in (job.id, other.id):  # the 5th and the 6th are closed now for both
        found = scheduler.get_job(name).trigger.get_next_fire_time(None, later)
        assert found == datetime(2031, 3, 7, 8, tzinfo=UTC)


def test_a_calendar_of_a_class_of_the_users_own_is_refused_with_what_to_do(run: Make) -> None:
    class Mine:
        name, version = "mine", 1

        def is_open(self, day: Any) -> bool:
            return True

    scheduler = run()
    scheduler.start(paused=True)
    with pytest.raises(InvalidInput, match=r"calendar 'mine' of class .*Mine cannot be stored.*define"):
        scheduler.add_job(_jobs.tell, CalendarTrigger(hour=9, calendar=Mine(), timezone="UTC"), id="a")
    assert scheduler.get_jobs() == []


def test_registering_the_same_again_writes_nothing(run: Make) -> None:
    def register(scheduler: Any) -> None:
        scheduler.add_job(
            _jobs.tell, durable(DAILY, max_retries=2), args=[1], id="durable", replace_existing=True
        )
        scheduler.add_job(_jobs.tell, "cron", hour=9, id="plain", replace_existing=True)

    scheduler = restarted(run, register)
    ledger = Ledger(scheduler.ours)
    before = [ledger.schedule(name) for name in ("durable", "plain")]
    scheduler.start(paused=True)
    assert [ledger.schedule(name) for name in ("durable", "plain")] == before
    assert [ledger.revisions(name) for name in ("durable", "plain")] == [1, 1]


def test_an_interval_that_is_registered_again_keeps_its_cadence(run: Make) -> None:
    def register(scheduler: Any) -> None:
        scheduler.add_job(_jobs.tell, "interval", hours=1, id="a", replace_existing=True)

    scheduler = restarted(run, register)
    due = Ledger(scheduler.ours).schedule("a").next_due
    scheduler.start(paused=True)
    assert Ledger(scheduler.ours).schedule("a").next_due == due
    assert Ledger(scheduler.ours).revisions("a") == 1


def test_an_interval_with_a_start_of_its_own_is_replaced(run: Make) -> None:
    scheduler = run()
    scheduler.start(paused=True)
    for hours in (1, 2):
        scheduler.add_job(
            _jobs.tell, "interval", hours=1, start_date=FUTURE + timedelta(hours=hours), id="a", replace_existing=True
        )
    assert Ledger(scheduler.ours).revisions("a") == 2
    assert scheduler.get_job("a").next_run_time == FUTURE + timedelta(hours=2)


def test_a_deploy_does_not_set_going_what_an_operator_has_paused(run: Make) -> None:
    scheduler = run()
    scheduler.start(paused=True)
    scheduler.add_job(_jobs.tell, durable(DAILY), id="a", args=[1])
    scheduler.pause_job("a")
    for args in ([1], [2]):  # the same, and then another definition
        scheduler.add_job(_jobs.tell, durable(DAILY), id="a", args=args, replace_existing=True)
        assert scheduler.get_job("a").next_run_time is None
    assert scheduler.get_job("a").args == (2,)
    scheduler.resume_job("a")
    assert scheduler.get_job("a").next_run_time is not None


def test_what_is_overdue_stays_due_when_it_is_registered_again(run: Make) -> None:
    scheduler = run()
    scheduler.start(paused=True)
    trigger = durable(OnceTrigger(now() + timedelta(milliseconds=100)))
    scheduler.add_job(_jobs.tell, trigger, id="a")
    wait_until(lambda: now() > trigger.trigger.get_next_fire_time(None, now() - timedelta(days=1)))
    scheduler.add_job(_jobs.tell, trigger, id="a", replace_existing=True)
    scheduler.resume()
    assert _jobs.ran.get(timeout=WAIT) == ((), {})


def test_policies_survive_a_change_of_something_else(run: Make) -> None:
    scheduler = run()
    scheduler.start(paused=True)
    scheduler.add_job(
        _jobs.tell, durable(DAILY, overlap="queue", grace=5, max_retries=3, timeout=1.5, verify=_jobs.is_even), id="a"
    )
    scheduler.modify_job("a", args=[1])
    trigger = scheduler.get_job("a").trigger
    assert trigger.policies == {
        "overlap": "queue", "graceSeconds": 5, "maxRetries": 3, "timeoutSeconds": 1.5,
        "verify": "tests.jobstore._jobs:is_even",
    }  # fmt: skip
    assert trigger.trigger == DAILY
    assert Ledger(scheduler.ours).revisions("a") == 2


def test_a_durable_job_is_exported_and_imported_whole(run: Make) -> None:
    scheduler = run()
    scheduler.start(paused=True)
    scheduler.add_job(_jobs.tell, durable(DAILY, overlap="queue", max_occurrences=7), id="a", name="daily")
    before = Ledger(scheduler.ours).schedule("a")
    out = io.StringIO()
    scheduler.export_jobs(out)
    scheduler.remove_all_jobs()
    out.seek(0)
    scheduler.import_jobs(out)
    job = scheduler.get_job("a")
    assert (job.name, job.trigger.trigger, job.trigger.policies) == (
        "daily", DAILY, {"overlap": "queue", "maxOccurrences": 7},
    )  # fmt: skip
    assert Ledger(scheduler.ours).schedule("a").next_due == before.next_due


def test_a_first_run_set_by_hand_is_followed_by_the_rule(run: Make) -> None:
    scheduler = run()
    scheduler.start(paused=True)
    odd = FUTURE + timedelta(minutes=17)
    scheduler.add_job(_jobs.tell, durable(IntervalTrigger(hours=1)), id="a", next_run_time=odd)
    job = scheduler.get_job("a")
    assert job.next_run_time == odd
    assert job.trigger.trigger == IntervalTrigger(hours=1)
    with scheduler.ours.store.read() as conn:
        found = scheduler.ours.store.compiled.get(conn, Ledger(scheduler.ours).schedule("a").revision_pk)
    trigger, first = found.trigger, to_millis(odd)
    following = to_millis(FUTURE.replace(minute=0, second=0) + timedelta(hours=1))
    assert (trigger.first_at_or_after(0), trigger.next_after(first)) == (first, following)
    assert (trigger.count(0, following), trigger.nth_after(0, 1)) == (2, following)
    assert trigger.last_at_or_before(following - 1) == first
    assert trigger.last_at_or_before(first - 1) is None
    assert "set to" in (trigger.explain(first - 1) or "")


def test_resuming_a_durable_schedule_judges_what_was_missed(run: Make) -> None:
    scheduler = run()
    scheduler.start()
    scheduler.add_job(_jobs.tell_key, durable(IntervalTrigger(milliseconds=200), misfire="runOnce", grace=0), id="a")
    first = _jobs.ran.get(timeout=WAIT).key.ordinal
    scheduler.pause_job("a")
    pause = now()
    wait_until(lambda: now() > pause + timedelta(seconds=1))
    while not _jobs.ran.empty():
        first = _jobs.ran.get().key.ordinal
    scheduler.resume_job("a")
    occurrence = _jobs.ran.get(timeout=WAIT)
    assert occurrence.represents_first == first + 1
    assert occurrence.represented >= 4
    scheduler.pause_job("a")
    assert Ledger(scheduler.ours).untiled() == []


def test_a_late_date_is_missed_as_apscheduler_says(run: Make) -> None:
    scheduler = run()
    scheduler.add_job(_jobs.tell, "date", run_date=now() - timedelta(minutes=5), id="a")
    scheduler.start()
    (event,) = scheduler.events.wait(EVENT_JOB_MISSED)
    assert event.job_id == "a"
    ledger = Ledger(scheduler.ours)
    assert [(r.first, r.last, r.reason) for r in ledger.ranges("a")] == [(0, 0, "misfire")]
    assert scheduler.get_job("a") is None


def test_a_schedule_that_failures_have_paused_is_set_going_from_now(run: Make) -> None:
    scheduler = run()
    scheduler.start()
    scheduler.add_job(
        _jobs.fail, durable(IntervalTrigger(milliseconds=100), pause_after_failures=2, overlap="queue"), id="a"
    )
    wait_until(lambda: scheduler.get_job("a").next_run_time is None, "the pause")
    row = Ledger(scheduler.ours).schedule("a")
    assert (row.state, row.reason, row.failures) == ("paused", "failures", 2)
    scheduler.modify_job("a", func=_jobs.noop)
    scheduler.resume_job("a")
    wait_until(lambda: "succeeded" in Ledger(scheduler.ours).states("a"))
    assert Ledger(scheduler.ours).schedule("a").failures == 0


@pytest.mark.parametrize("workers", [4])
def test_four_processes_that_register_the_same_at_once_have_one_schedule(run: Make, workers: int) -> None:
    """As gunicorn's workers do: one owner, the others stand by."""
    import threading

    schedulers = [run(store={"standby": True}) for _ in range(workers)]
    for scheduler in schedulers:
        scheduler.add_job(_jobs.tell, durable(DAILY), id="a", replace_existing=True)
    threads = [threading.Thread(target=scheduler.start) for scheduler in schedulers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert sorted(scheduler.ours.role for scheduler in schedulers) == ["owner", "standby", "standby", "standby"]
    assert Ledger(schedulers[0].ours).revisions("a") == 1


def test_a_slot_that_only_apschedulers_finer_clock_has_passed_sets_nothing_by_hand() -> None:
    trigger = IntervalTrigger(milliseconds=54)
    slot = trigger.first_at_or_after(1_000_000)
    assert slot is not None
    shown = trigger.get_next_fire_time(None, to_datetime(slot) + timedelta(microseconds=400))
    assert shown == to_datetime(slot + 54)
    assert is_own_slot(trigger, trigger, to_millis(shown), slot)
    assert not is_own_slot(trigger, trigger, slot + 108, slot)


@pytest.mark.parametrize(
    ("microsecond", "seconds_ago", "implied"),
    [(123_456, 0, True), (123_000, 1, True), (123_000, 3_600, False), (0, 1, False)],
)
def test_an_implied_start_on_a_whole_millisecond_is_known_by_the_moment_that_it_was_made(
    microsecond: int, seconds_ago: int, implied: bool
) -> None:
    made = FUTURE.replace(microsecond=microsecond)
    trigger = PlainInterval(hours=1, start_date=made + timedelta(hours=1), timezone=UTC)
    assert has_implied_start(trigger, to_millis(made) + 1000 * seconds_ago) is implied
