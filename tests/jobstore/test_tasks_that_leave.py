"""A task may end what it runs in, or make a second one of it: its owner goes on, and so do the tasks beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED
from apscheduler.executors.pool import ProcessPoolExecutor, ThreadPoolExecutor
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from calsched import OnceTrigger, durable
from calsched.runtime.host import LoopExecutor
from tests.jobstore import _jobs
from tests.jobstore._jobs import now
from tests.jobstore.conftest import WAIT, Ledger

Make = Callable[..., Any]
OUTCOME = EVENT_JOB_EXECUTED | EVENT_JOB_ERROR
#: The reader of a fork's warning is whoever forks: here that is the test.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def once(milliseconds: int = 200) -> Any:
    return durable(OnceTrigger(now() + timedelta(milliseconds=milliseconds)))


def test_a_coroutine_that_exits_has_failed_and_does_not_end_the_apps_loop(run: Make) -> None:
    async def main() -> Any:
        scheduler = run(AsyncIOScheduler)
        heard: asyncio.Queue[Any] = asyncio.Queue()
        scheduler.add_listener(heard.put_nowait, OUTCOME)
        scheduler.add_job(_jobs.leave, once(), id="leaves")
        scheduler.start()
        await asyncio.wait_for(heard.get(), WAIT)
        scheduler.add_job(_jobs.tell_async, once(), id="next")
        await asyncio.wait_for(heard.get(), WAIT)
        scheduler.shutdown()
        return scheduler

    ledger = Ledger(asyncio.run(main()).ours)
    (row,) = ledger.occurrences("leaves")
    assert (row.state, row.error_type, row.error) == ("failed", "SystemExit", "3")
    assert ledger.states("next") == ["succeeded"]


@pytest.mark.parametrize(
    ("task", "state"),
    [(_jobs.leave, "failed"), (_jobs.leave_later, "succeeded"), (_jobs.stop_the_loop, "succeeded")],
)
def test_nothing_that_a_coroutine_does_ends_the_loop_of_serve(run: Make, task: Any, state: str) -> None:
    scheduler = run(executors={"default": LoopExecutor()})
    scheduler.add_job(task, once(), id="a")
    scheduler.start()
    scheduler.events.wait(OUTCOME)
    scheduler.add_job(_jobs.tell_async, once(), id="next")
    scheduler.events.wait(OUTCOME)
    ledger = Ledger(scheduler.ours)
    assert (ledger.states("a"), ledger.states("next")) == ([state], ["succeeded"])


@pytest.mark.parametrize("code", [None, 3])
@pytest.mark.parametrize(
    ("pool", "task"),
    [
        (ThreadPoolExecutor, _jobs.fork),
        (ProcessPoolExecutor, _jobs.fork),
        (LoopExecutor, _jobs.fork),
        (LoopExecutor, _jobs.fork_async),
    ],
)
def test_a_child_that_comes_to_the_end_of_the_task_that_forked_it_is_no_second_worker(
    run: Make, pool: Any, task: Any, code: int | None
) -> None:
    scheduler = run(executors={"default": pool(1)})
    scheduler.add_job(task, once(), id="a", args=[code])
    scheduler.start()
    (event,) = scheduler.events.wait(OUTCOME)
    assert event.retval == (code or 0)
    assert Ledger(scheduler.ours).states("a") == ["succeeded"]
