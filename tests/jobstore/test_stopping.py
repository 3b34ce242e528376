"""Ends in good order: of the scheduler, of the store in it, of an event loop, and of a paused scheduler's claims."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from calsched import OnceTrigger, durable
from tests.jobstore import _jobs
from tests.jobstore._jobs import now
from tests.jobstore.conftest import WAIT, Ledger, wait_until

Make = Callable[..., Any]


def once(**policies: Any) -> Any:
    return durable(OnceTrigger(now() + timedelta(milliseconds=200)), **policies)


def test_shutdown_waits_for_what_runs_and_gives_back_what_does_not(run: Make) -> None:
    scheduler = run(executors={"default": ThreadPoolExecutor(2)})
    for i in range(5):
        scheduler.add_job(_jobs.wait_for_gate, once(), id=f"job-{i}")
    scheduler.start()
    assert [_jobs.ran.get(timeout=WAIT) for _ in range(2)] == ["began", "began"]
    opener = threading.Timer(0.3, _jobs.gate.set)
    opener.start()
    scheduler.shutdown(wait=True)
    opener.join()
    assert sorted(Ledger(scheduler.ours).states()) == ["ready"] * 3 + ["succeeded"] * 2
    assert scheduler.ours.role == "stopped"


def test_what_was_given_back_runs_after_the_next_start(run: Make) -> None:
    first = run(executors={"default": ThreadPoolExecutor(1)})
    for i in range(3):
        first.add_job(_jobs.wait_for_gate, once(), id=f"job-{i}")
    first.start()
    assert _jobs.ran.get(timeout=WAIT) == "began"
    _jobs.gate.set()
    first.shutdown()
    second = run()
    second.start()
    ledger = Ledger(second.ours)
    wait_until(lambda: ledger.states() == ["succeeded"] * 3)
    assert {row.attempt for row in ledger.occurrences()} == {1}


def test_without_waiting_the_store_stays_until_the_task_has_ended(run: Make) -> None:
    scheduler = run()
    scheduler.add_job(_jobs.wait_for_gate, once(), id="a")
    scheduler.start()
    assert _jobs.ran.get(timeout=WAIT) == "began"
    scheduler.shutdown(wait=False)
    assert scheduler.ours.role in ("owner", "stopping")
    assert Ledger(scheduler.ours).states() == ["running"]
    _jobs.gate.set()
    assert scheduler.ours.pump.join(WAIT)
    assert Ledger(scheduler.ours).states() == ["succeeded"]


def test_a_task_that_outlives_its_job_store_is_recorded(run: Make) -> None:
    scheduler = run()
    scheduler.add_jobstore("memory", "other")
    scheduler.add_job(_jobs.wait_for_gate, once(), id="a")
    scheduler.start()
    assert _jobs.ran.get(timeout=WAIT) == "began"
    scheduler.remove_jobstore("default")
    _jobs.gate.set()
    scheduler.events.wait(EVENT_JOB_EXECUTED)
    assert Ledger(scheduler.ours).states() == ["succeeded"]


def test_a_scheduler_can_be_started_again(run: Make) -> None:
    scheduler = run()
    scheduler.start()
    scheduler.shutdown()
    scheduler._executors.clear()  # APScheduler's pools do not survive their shutdown
    scheduler.start()
    scheduler.add_job(_jobs.tell, once(), id="a")
    assert _jobs.ran.get(timeout=WAIT) == ((), {})


def test_a_coroutine_that_a_shutdown_cancels_is_interrupted_by_a_clean_stop(run: Make) -> None:
    async def main() -> Any:
        scheduler = run(AsyncIOScheduler)
        scheduler.add_job(_jobs.sleep_async, once(), id="a")
        scheduler.start()
        await asyncio.to_thread(_jobs.ran.get, timeout=WAIT)
        scheduler.shutdown()
        assert await asyncio.to_thread(_jobs.ran.get, timeout=WAIT) == "cancelled"
        return scheduler

    scheduler = asyncio.run(main())
    assert scheduler.ours.pump.join(WAIT)
    ledger = Ledger(scheduler.ours)
    assert ledger.states() == ["interrupted"]
    assert ledger.schedule("a").failures == 0


def test_a_thread_under_asyncio_outlives_its_loop_and_is_recorded(run: Make) -> None:
    async def main() -> Any:
        scheduler = run(AsyncIOScheduler)
        scheduler.add_job(_jobs.wait_for_gate, once(), id="a")
        scheduler.start()
        await asyncio.to_thread(_jobs.ran.get, timeout=WAIT)
        scheduler.shutdown()
        await asyncio.sleep(0.05)
        threading.Timer(0.2, _jobs.gate.set).start()
        return scheduler

    scheduler = asyncio.run(main())
    assert scheduler.ours.pump.join(WAIT)
    assert Ledger(scheduler.ours).states() == ["succeeded"]


def test_a_loop_that_closed_without_a_shutdown_runs_nothing_and_holds_nothing(run: Make) -> None:
    async def main() -> Any:
        scheduler = run(AsyncIOScheduler)
        scheduler.start()
        return scheduler

    scheduler = asyncio.run(main())
    ledger = Ledger(scheduler.ours)
    scheduler.ours.add_job(_job(scheduler))
    wait_until(lambda: scheduler.ours.pump.role == "owner")
    assert ledger.states() == []
    scheduler.state = 0  # it cannot be shut down: there is no loop to do that on


def _job(scheduler: Any) -> Any:
    from apscheduler.job import Job

    return Job(
        scheduler, id="a", func=_jobs.noop, args=(), kwargs={}, trigger=once(), executor="default", coalesce=True,
        misfire_grace_time=None, max_instances=1, next_run_time=now() + timedelta(milliseconds=100),
    )  # fmt: skip


@pytest.mark.parametrize("again", [False, True])
def test_pausing_the_scheduler_gives_back_what_has_not_begun(run: Make, again: bool) -> None:
    scheduler = run(executors={"default": ThreadPoolExecutor(1)})
    for i in range(3):
        scheduler.add_job(_jobs.wait_for_gate, once(), id=f"job-{i}")
    scheduler.start()
    assert _jobs.ran.get(timeout=WAIT) == "began"
    scheduler.pause()
    _jobs.gate.set()
    assert _jobs.ran.get(timeout=WAIT) == "ended"
    ledger = Ledger(scheduler.ours)
    wait_until(lambda: sorted(ledger.states()) == ["ready", "ready", "succeeded"])
    assert _jobs.ran.empty()
    if again:
        scheduler.resume()
        wait_until(lambda: ledger.states() == ["succeeded"] * 3)


def test_a_thread_that_never_ends_does_not_keep_a_stop_from_ending(run: Make) -> None:
    scheduler = run()
    scheduler.add_job(_jobs.wait_for_gate, once(timeout=0.2), id="a")
    scheduler.start()
    ledger = Ledger(scheduler.ours)
    wait_until(lambda: ledger.states() == ["timed_out"])
    assert scheduler.ours.stop(0.3) is False
    assert scheduler.ours.role == "stopped"
    assert scheduler.ours.pump.left_running == 1
    assert ledger.schedule("a").held_by is None


def test_who_is_in_a_hurry_is_heard_however_long_a_limit_is_set_afterwards(run: Make) -> None:
    """As a second signal is that comes while the first one's stop has still to set its limit."""
    scheduler = run()
    scheduler.add_job(_jobs.wait_for_gate, once(), id="a")
    scheduler.start()
    assert _jobs.ran.get(timeout=WAIT) == "began"
    scheduler.ours.pump.begin_stop(0)
    assert scheduler.ours.stop(60) is False
    assert Ledger(scheduler.ours).states() == ["interrupted"]


def test_a_stop_waits_in_short_parts_so_that_a_second_signal_is_handled(
    run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that comes between Python's last look for signals and a wait is handled after that wait, and not before."""
    scheduler = run()
    scheduler.add_job(_jobs.wait_for_gate, once(), id="a")
    scheduler.start()
    assert _jobs.ran.get(timeout=WAIT) == "began"
    done, waits = scheduler.ours.pump.done, list[float]()
    wait = done.wait

    def noted(timeout: float) -> bool:
        waits.append(timeout)
        return bool(wait(timeout))

    monkeypatch.setattr(done, "wait", noted)
    assert scheduler.ours.stop(0.5) is False
    assert max(waits) <= 0.25


def test_a_stop_with_a_limit_gives_back_what_waits_in_a_pools_queue(run: Make) -> None:
    scheduler = run(executors={"default": ThreadPoolExecutor(1)})
    for i in range(3):
        scheduler.add_job(_jobs.tell, once(), id=f"fast-{i}")  # short tasks: the window becomes wider than the pool
    scheduler.start()
    scheduler.events.wait(EVENT_JOB_EXECUTED, 3)
    for i in range(3):
        scheduler.add_job(_jobs.wait_for_gate, once(), id=f"slow-{i}")
    ledger = Ledger(scheduler.ours)
    wait_until(lambda: ledger.states().count("running") >= 2, "a window of two")
    assert scheduler.ours.stop(0.3) is False
    assert sorted(ledger.states()[3:]) == ["interrupted", "ready", "ready"]
    assert scheduler.ours.pump.left_running == 1
