"""An app that uses APScheduler already: it swaps the store, and keeps its calls."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED
from apscheduler.executors.pool import ProcessPoolExecutor, ThreadPoolExecutor
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.blocking import BlockingScheduler

from calsched import CalendarTrigger, IntervalTrigger, OccurrenceJobStore, durable
from tests.jobstore import _jobs
from tests.jobstore._jobs import now
from tests.jobstore.conftest import WAIT, Ledger

Make = Callable[..., Any]
SOON = timedelta(milliseconds=200)


def soon() -> datetime:
    return now() + SOON


def send_report() -> None: ...


def poll() -> None: ...


def test_the_block_of_the_readme(tmp_path: Path) -> None:
    scheduler = BackgroundScheduler(jobstores={"default": OccurrenceJobStore(f"sqlite:///{tmp_path}/app.db")})
    scheduler.add_job(
        send_report,
        durable(
            CalendarTrigger(hour=9, weekdays="mon-fri", timezone="America/Winnipeg"),
            overlap="coalesce",
            misfire="runOnce",
        ),
        id="weekday-report",
        replace_existing=True,
    )
    # APScheduler's own triggers too
    scheduler.add_job(poll, "interval", seconds=30, id="poll", replace_existing=True)
    scheduler.start()
    try:
        jobs = {job.id: job for job in scheduler.get_jobs()}
        assert set(jobs) == {"weekday-report", "poll"}
        due = jobs["weekday-report"].next_run_time.astimezone(UTC)
        assert due > now()
        assert jobs["weekday-report"].func is send_report
        assert jobs["poll"].trigger.interval == timedelta(seconds=30)
        out = io.StringIO()
        scheduler.print_jobs(out=out)
        assert "send_report" in out.getvalue()
    finally:
        scheduler.shutdown()


def test_background_scheduler_with_a_thread_pool(run: Make) -> None:
    scheduler = run()
    scheduler.add_job(_jobs.tell, "interval", hours=1, next_run_time=soon(), id="a", args=[1], kwargs={"x": "y"})
    scheduler.start()
    (event,) = scheduler.events.wait(EVENT_JOB_EXECUTED)
    assert (event.job_id, event.retval, event.jobstore) == ("a", 1, "default")
    assert _jobs.ran.get(timeout=WAIT) == ((1,), {"x": "y"})
    (row,) = Ledger(scheduler.ours).occurrences("a")
    assert (row.state, row.result, row.ordinal) == ("succeeded", "1", 0)


def test_blocking_scheduler(run: Make) -> None:
    scheduler = run(BlockingScheduler)
    scheduler.add_job(_jobs.tell, "interval", hours=1, next_run_time=soon(), id="a")
    scheduler.add_listener(lambda event: scheduler.shutdown(wait=False), EVENT_JOB_EXECUTED)
    scheduler.start()  # returns because the listener shut it down
    assert Ledger(scheduler.ours).states("a") == ["succeeded"]


def test_asyncio_scheduler_runs_coroutines_and_functions(run: Make) -> None:
    async def main() -> Any:
        scheduler = run(AsyncIOScheduler)
        done = asyncio.Event()
        here = threading.get_ident()
        heard: list[Any] = []

        def listen(event: Any) -> None:
            assert threading.get_ident() == here
            heard.append((str(event.job_id), event.retval))
            if len(heard) == 2:
                done.set()

        scheduler.add_listener(listen, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
        scheduler.add_job(_jobs.tell_async, "interval", hours=1, next_run_time=soon(), id="co", args=["v"])
        scheduler.add_job(_jobs.tell, "interval", hours=1, next_run_time=soon(), id="plain", args=["w"])
        scheduler.start()
        await asyncio.wait_for(done.wait(), WAIT)
        scheduler.shutdown()
        await asyncio.sleep(0.05)
        return scheduler, heard

    scheduler, heard = asyncio.run(main())
    assert sorted(heard) == [("co", "v"), ("plain", "w")]
    assert Ledger(scheduler.ours).states() == ["succeeded", "succeeded"]


def test_a_process_pool_knows_its_occurrence(run: Make, tmp_path: Path) -> None:
    scheduler = run(executors={"default": ThreadPoolExecutor(2), "children": ProcessPoolExecutor(1)})
    scheduler.add_job(
        _jobs.child_key, "interval", hours=1, next_run_time=soon(), id="a", args=[str(tmp_path)], executor="children"
    )
    scheduler.start()
    (event,) = scheduler.events.wait(EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
    assert event.exception is None
    installation = scheduler.ours.store.installation
    assert event.retval == f'["{installation}","default","a",1,"0"]'
    assert (tmp_path / "0").read_text().isdigit()
    assert Ledger(scheduler.ours).states("a") == ["succeeded"]


def test_a_task_can_ask_which_occurrence_it_is(run: Make) -> None:
    scheduler = run()
    due = soon()
    scheduler.add_job(_jobs.tell_key, durable(IntervalTrigger(hours=1)), next_run_time=due, id="a")
    scheduler.start()
    occurrence = _jobs.ran.get(timeout=WAIT)
    assert abs(occurrence.due - due) < timedelta(milliseconds=2)
    assert (occurrence.attempt, occurrence.represented, occurrence.deadline) == (1, 1, None)
    assert not occurrence.cancelled.is_set()
    assert occurrence.workspace is None


def test_outside_of_a_task_there_is_no_occurrence() -> None:
    from calsched import current_occurrence

    assert current_occurrence() is None


def test_a_task_that_spoils_its_arguments_does_not_spoil_the_next_ones(run: Make) -> None:
    scheduler = run()
    scheduler.add_job(
        _jobs.spoil, durable(IntervalTrigger(seconds=1), overlap="queue"), id="a", args=[[7]]
    )
    scheduler.start()
    assert [_jobs.ran.get(timeout=WAIT) for _ in range(2)] == [[7, 1], [7, 1]]


def test_a_job_added_while_the_scheduler_runs_is_run(run: Make) -> None:
    scheduler = run()
    scheduler.start()
    scheduler.add_job(_jobs.tell, "date", run_date=soon(), id="once")
    scheduler.events.wait(EVENT_JOB_EXECUTED)
    assert scheduler.get_job("once") is None
    assert Ledger(scheduler.ours).schedule("once").state == "ended"


@pytest.mark.parametrize(
    ("alias", "given"),
    [("utc-interval", {"seconds": 30}), ("business-calendar", {"hour": 9, "weekdays": "mon-fri"})],
)
def test_our_triggers_have_aliases_and_take_the_timezone_that_apscheduler_passes(
    run: Make, alias: str, given: dict[str, Any]
) -> None:
    scheduler = run()
    scheduler.add_job(_jobs.noop, alias, id="a", **given)
    scheduler.start()
    assert scheduler.get_job("a").next_run_time > now()


def test_the_store_has_an_alias(tmp_path: Path) -> None:
    scheduler = BackgroundScheduler(
        {"apscheduler.jobstores.default": {"type": "calsched", "url": f"sqlite:///{tmp_path}/app.db"}}, timezone="UTC"
    )
    scheduler.start(paused=True)
    try:
        assert isinstance(scheduler._jobstores["default"], OccurrenceJobStore)
    finally:
        scheduler.shutdown()
