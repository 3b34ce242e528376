"""Side by side with ``MemoryJobStore``: the same calls, the same answers (differences: ``docs/existing-apps.md``)."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from apscheduler.events import (
    EVENT_ALL,
    EVENT_ALL_JOBS_REMOVED,
    EVENT_JOB_ADDED,
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MODIFIED,
    EVENT_JOB_REMOVED,
    EVENT_JOB_SUBMITTED,
    EVENT_JOBSTORE_ADDED,
    EVENT_SCHEDULER_PAUSED,
    EVENT_SCHEDULER_RESUMED,
    EVENT_SCHEDULER_SHUTDOWN,
    EVENT_SCHEDULER_STARTED,
)
from apscheduler.jobstores.base import ConflictingIdError, JobLookupError
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from calsched import OccurrenceJobStore
from tests.jobstore import _jobs
from tests.jobstore._jobs import now
from tests.jobstore.conftest import WAIT, Events

FUTURE = datetime(2031, 3, 4, 5, 6, 7, tzinfo=UTC)
HOURLY: dict[str, Any] = {"trigger": "interval", "hours": 1, "start_date": FUTURE}


@pytest.fixture(params=["memory", "ours"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """A scheduler with the store under test; ``fresh`` gives stores that share nothing."""
    made: list[Any] = []

    def store() -> Any:
        if request.param == "memory":
            return MemoryJobStore()
        return OccurrenceJobStore(f"sqlite:///{tmp_path}/{len(made)}-{request.node.name[:20]}.db", poll_interval=0.2)

    def build(**options: Any) -> Any:
        scheduler = BackgroundScheduler(jobstores={"default": store()}, timezone="UTC", **options)
        scheduler.events = Events()
        scheduler.add_listener(scheduler.events)
        scheduler.another_store = store
        made.append(scheduler)
        return scheduler

    yield build
    _jobs.gate.set()
    for scheduler in made:
        if scheduler.running:
            scheduler.shutdown()


def codes(scheduler: Any, mask: int = EVENT_ALL) -> list[int]:
    return [event.code for event in scheduler.events.seen if event.code & mask]


def test_a_job_comes_back_as_it_was_added(make: Any) -> None:
    scheduler = make()
    scheduler.start(paused=True)
    scheduler.add_job(
        _jobs.tell, **HOURLY, id="a", name="An hourly job", args=[1, "two"], kwargs={"x": None}, coalesce=False,
        misfire_grace_time=7, max_instances=3,
    )  # fmt: skip
    job = scheduler.get_job("a")
    assert (job.id, job.name, job.func, job.args, job.kwargs) == (
        "a", "An hourly job", _jobs.tell, (1, "two"), {"x": None},
    )  # fmt: skip
    assert (job.coalesce, job.misfire_grace_time, job.max_instances, job.executor) == (False, 7, 3, "default")
    assert job.next_run_time == FUTURE
    assert job.pending is False
    assert job.func_ref == "tests.jobstore._jobs:tell"


def test_defaults_are_the_schedulers(make: Any) -> None:
    scheduler = make(job_defaults={"coalesce": False, "misfire_grace_time": None, "max_instances": 2})
    scheduler.add_job(_jobs.noop, **HOURLY, id="a")
    scheduler.start(paused=True)
    job = scheduler.get_job("a")
    assert (job.name, job.coalesce, job.misfire_grace_time, job.max_instances) == ("noop", False, None, 2)


@pytest.mark.parametrize(
    "trigger",
    [
        DateTrigger(FUTURE, timezone="UTC"),
        IntervalTrigger(minutes=5, start_date=FUTURE, timezone="America/Winnipeg"),
        IntervalTrigger(minutes=5, start_date=FUTURE, timezone="UTC", jitter=20),
        CronTrigger(day_of_week="mon-fri", hour="9-17/2", minute=30, timezone="America/Winnipeg"),
        CronTrigger.from_crontab("0 0 1,15 * wed", timezone="UTC"),
    ],
    ids=lambda trigger: type(trigger).__name__,
)
def test_triggers_come_back_as_they_were(make: Any, trigger: Any) -> None:
    scheduler = make()
    scheduler.start(paused=True)
    scheduler.add_job(_jobs.noop, trigger, id="a")
    found = scheduler.get_job("a").trigger
    assert type(found) is type(trigger)
    assert str(found) == str(trigger)
    assert getattr(found, "jitter", None) == getattr(trigger, "jitter", None)


def test_ids_are_made_where_none_is_given(make: Any) -> None:
    scheduler = make()
    scheduler.start(paused=True)
    first, second = (scheduler.add_job(_jobs.noop, **HOURLY) for _ in range(2))
    assert {job.id for job in scheduler.get_jobs()} == {first.id, second.id}


def test_a_taken_id_conflicts(make: Any) -> None:
    scheduler = make()
    scheduler.start(paused=True)
    scheduler.add_job(_jobs.noop, **HOURLY, id="a")
    with pytest.raises(ConflictingIdError):
        scheduler.add_job(_jobs.tell, **HOURLY, id="a")
    assert scheduler.get_job("a").func is _jobs.noop


def test_replacing_replaces_everything(make: Any) -> None:
    scheduler = make()
    scheduler.start(paused=True)
    scheduler.add_job(_jobs.noop, **HOURLY, id="a", args=[1])
    later = FUTURE + timedelta(days=1)
    scheduler.add_job(_jobs.tell, "interval", hours=2, start_date=later, id="a", args=[2], replace_existing=True)
    (job,) = scheduler.get_jobs()
    assert (job.func, job.args, job.next_run_time, job.trigger.interval) == (
        _jobs.tell, (2,), later, timedelta(hours=2),
    )  # fmt: skip


def test_jobs_are_listed_by_next_run_and_the_paused_last(make: Any) -> None:
    scheduler = make()
    scheduler.start(paused=True)
    for name, hours in (("late", 3), ("early", 1), ("middle", 2)):
        scheduler.add_job(_jobs.noop, "date", run_date=FUTURE + timedelta(hours=hours), id=name)
    scheduler.add_job(_jobs.noop, **HOURLY, id="paused", next_run_time=None)
    assert [job.id for job in scheduler.get_jobs()] == ["early", "middle", "late", "paused"]
    assert scheduler.get_job("paused").next_run_time is None


def test_pause_and_resume(make: Any) -> None:
    scheduler = make()
    scheduler.start(paused=True)
    scheduler.add_job(_jobs.noop, **HOURLY, id="a")
    assert scheduler.pause_job("a").next_run_time is None
    assert scheduler.get_job("a").next_run_time is None
    assert scheduler.resume_job("a").next_run_time == FUTURE
    assert scheduler.get_job("a").next_run_time == FUTURE
    assert codes(scheduler, EVENT_JOB_MODIFIED) == [EVENT_JOB_MODIFIED] * 2


def test_a_paused_job_does_not_run_and_what_it_missed_is_not_made_up_for(make: Any) -> None:
    scheduler = make()
    scheduler.start()
    scheduler.add_job(_jobs.tell, "interval", seconds=1, id="a", args=["a"])
    scheduler.pause_job("a")
    scheduler.add_job(_jobs.tell, "date", run_date=now() + timedelta(seconds=2.5), id="b", args=["b"])
    assert _jobs.ran.get(timeout=WAIT)[0] == ("b",)
    assert _jobs.ran.empty()
    resumed = scheduler.resume_job("a")
    assert resumed.next_run_time > now() - timedelta(seconds=1)
    assert _jobs.ran.get(timeout=WAIT)[0] == ("a",)


def test_modify_changes_what_it_names(make: Any) -> None:
    scheduler = make()
    scheduler.start(paused=True)
    scheduler.add_job(_jobs.noop, **HOURLY, id="a", args=[1])
    scheduler.modify_job("a", args=[2], name="new name", max_instances=4)
    job = scheduler.get_job("a")
    assert (tuple(job.args), job.name, job.max_instances, job.func, job.next_run_time) == (
        (2,), "new name", 4, _jobs.noop, FUTURE,
    )  # fmt: skip
    job.modify(kwargs={"k": 1})
    assert scheduler.get_job("a").kwargs == {"k": 1}


def test_modify_sets_the_next_run_time(make: Any) -> None:
    scheduler = make()
    scheduler.start(paused=True)
    scheduler.add_job(_jobs.noop, **HOURLY, id="a")
    odd = FUTURE + timedelta(minutes=17)
    scheduler.modify_job("a", next_run_time=odd)
    assert scheduler.get_job("a").next_run_time == odd
    assert scheduler.get_job("a").trigger.interval == timedelta(hours=1)


def test_reschedule_changes_trigger_and_next_run_time(make: Any) -> None:
    scheduler = make()
    scheduler.start(paused=True)
    scheduler.add_job(_jobs.noop, **HOURLY, id="a")
    later = FUTURE + timedelta(days=2)
    scheduler.reschedule_job("a", trigger="interval", minutes=5, start_date=later)
    job = scheduler.get_job("a")
    assert (job.trigger.interval, job.next_run_time) == (timedelta(minutes=5), later)
    job.reschedule("date", run_date=FUTURE)
    assert scheduler.get_job("a").next_run_time == FUTURE


def test_remove(make: Any) -> None:
    scheduler = make()
    scheduler.start(paused=True)
    scheduler.add_job(_jobs.noop, **HOURLY, id="a")
    scheduler.remove_job("a")
    assert scheduler.get_jobs() == []
    assert scheduler.get_job("a") is None
    with pytest.raises(JobLookupError):
        scheduler.remove_job("a")
    scheduler.add_job(_jobs.tell, **HOURLY, id="a")
    assert scheduler.get_job("a").func is _jobs.tell
    assert codes(scheduler, EVENT_JOB_REMOVED) == [EVENT_JOB_REMOVED]


def test_a_removed_job_can_be_added_again_as_it_was(make: Any) -> None:
    scheduler = make()
    scheduler.start(paused=True)
    scheduler.add_job(_jobs.noop, **HOURLY, id="a")
    scheduler.remove_job("a")
    scheduler.add_job(_jobs.noop, **HOURLY, id="a")
    assert scheduler.get_job("a").next_run_time == FUTURE


def test_remove_all(make: Any) -> None:
    scheduler = make()
    scheduler.start(paused=True)
    for name in "abc":
        scheduler.add_job(_jobs.noop, **HOURLY, id=name)
    scheduler.remove_all_jobs()
    assert scheduler.get_jobs() == []
    assert codes(scheduler, EVENT_ALL_JOBS_REMOVED) == [EVENT_ALL_JOBS_REMOVED]


@pytest.mark.parametrize("call", ["modify_job", "pause_job", "resume_job", "reschedule_job", "remove_job"])
def test_an_unknown_id_is_looked_up_in_vain(make: Any, call: str) -> None:
    scheduler = make()
    scheduler.start(paused=True)
    with pytest.raises(JobLookupError):
        getattr(scheduler, call)("nobody")


def test_resuming_a_job_whose_trigger_is_over_removes_it(make: Any) -> None:
    scheduler = make()
    scheduler.start(paused=True)
    ends = now() + timedelta(seconds=1)
    scheduler.add_job(_jobs.noop, "interval", seconds=10, end_date=ends, start_date=ends, id="a")
    scheduler.pause_job("a")
    while now() < ends + timedelta(milliseconds=20):
        scheduler.events.queue.empty()
    assert scheduler.resume_job("a") is None
    assert scheduler.get_job("a") is None


def test_the_decorator_schedules_and_leaves_the_function_alone(make: Any) -> None:
    scheduler = make()
    again = scheduler.scheduled_job("interval", hours=1, start_date=FUTURE, id="a")(_jobs.noop)
    assert again is _jobs.noop
    scheduler.start(paused=True)
    scheduler.scheduled_job("interval", hours=2, start_date=FUTURE, id="a")(_jobs.tell)
    (job,) = scheduler.get_jobs()
    assert (job.func, job.trigger.interval) == (_jobs.tell, timedelta(hours=2))


def test_a_paused_scheduler_runs_nothing_until_it_is_resumed(make: Any) -> None:
    scheduler = make()
    scheduler.start(paused=True)
    due = now() + timedelta(seconds=0.1)
    scheduler.add_job(_jobs.tell, "date", run_date=due, id="a", misfire_grace_time=60)
    while now() < due + timedelta(seconds=0.5):
        assert _jobs.ran.empty()
    scheduler.resume()
    assert _jobs.ran.get(timeout=WAIT) == ((), {})
    scheduler.pause()
    scheduler.add_job(_jobs.tell, "date", run_date=now(), id="b", misfire_grace_time=60)
    scheduler.events.wait(EVENT_SCHEDULER_PAUSED)
    assert _jobs.ran.empty()
    scheduler.resume()
    assert _jobs.ran.get(timeout=WAIT) == ((), {})


def test_events_and_their_order(make: Any) -> None:
    scheduler = make()
    scheduler.start()
    scheduler.add_job(_jobs.tell, "date", run_date=now() + timedelta(seconds=0.2), id="a", args=[5])
    (event,) = scheduler.events.wait(EVENT_JOB_EXECUTED)
    scheduler.add_job(_jobs.fail, "date", run_date=now() + timedelta(seconds=0.2), id="b")
    (error,) = scheduler.events.wait(EVENT_JOB_ERROR)
    scheduler.shutdown()
    assert (event.job_id, event.jobstore, event.retval, event.exception) == ("a", "default", 5, None)
    assert (error.job_id, type(error.exception), error.retval) == ("b", ValueError, None)
    assert "in fail" in error.traceback
    assert codes(scheduler, ~EVENT_JOB_REMOVED & ~EVENT_JOBSTORE_ADDED & ~(EVENT_JOB_SUBMITTED)) == [
        16,  # EVENT_EXECUTOR_ADDED: the default one, when the scheduler starts
        EVENT_SCHEDULER_STARTED, EVENT_JOB_ADDED, EVENT_JOB_EXECUTED, EVENT_JOB_ADDED, EVENT_JOB_ERROR,
        EVENT_SCHEDULER_SHUTDOWN,
    ]  # fmt: skip
    assert codes(scheduler, EVENT_JOB_SUBMITTED) == [EVENT_JOB_SUBMITTED] * 2


def test_a_listener_hears_only_what_it_asked_for_and_may_fail(make: Any, caplog: Any) -> None:
    scheduler = make()
    heard = Events()

    def bad(event: Any) -> None:
        raise RuntimeError("a listener of the app's")

    scheduler.add_listener(bad, EVENT_JOB_EXECUTED)
    scheduler.add_listener(heard, EVENT_JOB_EXECUTED)
    scheduler.start()
    for name in "ab":
        scheduler.add_job(_jobs.noop, "date", run_date=now() + timedelta(seconds=0.2), id=name)
    assert {event.job_id for event in heard.wait(EVENT_ALL, 2)} == {"a", "b"}
    assert "Error notifying listener" in caplog.text
    scheduler.remove_listener(heard)


def test_a_listener_may_work_with_the_scheduler(make: Any) -> None:
    scheduler = make()

    def chain(event: Any) -> None:
        if event.job_id == "a":
            scheduler.add_job(_jobs.tell, "date", run_date=now(), id="b", misfire_grace_time=60)

    scheduler.add_listener(chain, EVENT_JOB_EXECUTED)
    scheduler.start()
    scheduler.add_job(_jobs.noop, "date", run_date=now() + timedelta(seconds=0.2), id="a")
    assert _jobs.ran.get(timeout=WAIT) == ((), {})


def test_several_stores_in_one_scheduler(make: Any) -> None:
    scheduler = make()
    scheduler.add_jobstore(MemoryJobStore(), "memory")
    scheduler.start()
    scheduler.add_job(_jobs.tell, **HOURLY, id="a")
    scheduler.add_job(_jobs.tell, "date", run_date=now() + timedelta(seconds=0.2), id="m",
                      jobstore="memory", args=["m"])  # fmt: skip
    assert _jobs.ran.get(timeout=WAIT)[0] == ("m",)
    assert [job.id for job in scheduler.get_jobs("default")] == ["a"]
    scheduler.add_job(_jobs.tell, "date", run_date=now() + timedelta(seconds=0.2), id="d", args=["d"])
    assert _jobs.ran.get(timeout=WAIT)[0] == ("d",)
    scheduler.pause_job("a")
    scheduler.remove_job("a")
    assert scheduler.get_jobs() == []


def test_a_store_can_be_added_to_a_running_scheduler_and_removed(make: Any) -> None:
    scheduler = make()
    scheduler.start()
    scheduler.add_jobstore(scheduler.another_store(), "second")
    scheduler.add_job(_jobs.tell, "date", run_date=now() + timedelta(seconds=0.2), id="a",
                      jobstore="second", args=[2])  # fmt: skip
    (event,) = scheduler.events.wait(EVENT_JOB_EXECUTED)
    assert (event.jobstore, event.retval) == ("second", 2)
    scheduler.remove_jobstore("second")
    assert scheduler.get_jobs("second") == []
    assert [job.id for job in scheduler.get_jobs()] == []


def test_export_and_import(make: Any) -> None:
    scheduler = make()
    scheduler.start(paused=True)
    scheduler.add_job(_jobs.tell, **HOURLY, id="a", args=[1], kwargs={"x": [2]}, name="exported")
    scheduler.add_job(_jobs.noop, "cron", hour=9, timezone="America/Winnipeg", id="b", next_run_time=None)
    out = io.StringIO()
    scheduler.export_jobs(out)
    assert {job["id"] for job in json.loads(out.getvalue())["jobs"]} == {"a", "b"}
    scheduler.remove_all_jobs()
    out.seek(0)
    scheduler.import_jobs(out)
    job = scheduler.get_job("a")
    assert (job.name, tuple(job.args), job.kwargs, job.next_run_time) == ("exported", (1,), {"x": [2]}, FUTURE)
    assert scheduler.get_job("b").next_run_time is None


def test_printing(make: Any) -> None:
    scheduler = make()
    out = io.StringIO()
    scheduler.add_job(_jobs.noop, **HOURLY, id="a", name="printed")
    scheduler.print_jobs(out=out)
    assert "printed (trigger: interval[1:00:00], pending)" in out.getvalue()
    scheduler.start(paused=True)
    scheduler.pause_job("a")
    out = io.StringIO()
    scheduler.print_jobs(out=out)
    assert out.getvalue() == "Jobstore default:\n    printed (trigger: interval[1:00:00], paused)\n"


def test_pause_and_resume_of_the_scheduler_are_events(make: Any) -> None:
    scheduler = make()
    scheduler.start()
    scheduler.pause()
    scheduler.resume()
    assert codes(scheduler, EVENT_SCHEDULER_PAUSED | EVENT_SCHEDULER_RESUMED) == [
        EVENT_SCHEDULER_PAUSED, EVENT_SCHEDULER_RESUMED,
    ]  # fmt: skip
