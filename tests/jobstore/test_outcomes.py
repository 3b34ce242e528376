"""How runs end, and what listeners hear of it, on every kind of executor."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from apscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
    EVENT_JOB_SUBMITTED,
)
from apscheduler.executors.pool import ProcessPoolExecutor, ThreadPoolExecutor
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from calsched import IntervalTrigger, OnceTrigger, durable
from calsched.runtime.runner import NotVerified, TaskTimedOut
from calsched.runtime.work import Work
from calsched.stores import control
from tests.jobstore import _jobs
from tests.jobstore._jobs import now
from tests.jobstore.conftest import WAIT, Ledger, wait_until

Make = Callable[..., Any]
OUTCOME = EVENT_JOB_EXECUTED | EVENT_JOB_ERROR


def once(**policies: Any) -> Any:
    return durable(OnceTrigger(now() + timedelta(milliseconds=200)), **policies)


def children(workers: int = 1) -> dict[str, Any]:
    return {"default": ThreadPoolExecutor(2), "children": ProcessPoolExecutor(workers)}


def test_a_failure_is_recorded_with_its_traceback_and_told(run: Make) -> None:
    scheduler = run()
    scheduler.add_job(_jobs.fail, once(), id="a", args=["no paper"])
    scheduler.start()
    (event,) = scheduler.events.wait(OUTCOME)
    assert (event.code, str(event.exception)) == (EVENT_JOB_ERROR, "no paper")
    ledger = Ledger(scheduler.ours)
    (row,) = ledger.occurrences("a")
    assert (row.state, row.error_type, row.error) == ("failed", "ValueError", "no paper")
    (attempt,) = ledger.attempts("a")
    assert "in fail\n" in attempt.traceback


def five_end(scheduler: Any, hear: Callable[[Any], None]) -> threading.Event:
    """Five jobs are due soon; set when ``hear`` has had the event of each."""
    left, done = list(range(5)), threading.Event()

    def listen(event: Any) -> None:
        hear(event)
        left.pop()
        if not left:
            done.set()

    scheduler.add_listener(listen, EVENT_JOB_EXECUTED)
    for i in range(5):
        scheduler.add_job(_jobs.noop, once(), id=f"job-{i}")
    return done


def test_an_outcome_has_committed_before_its_event_goes_out(run: Make) -> None:
    scheduler = run()
    ledger = Ledger(scheduler.ours)
    heard: list[Any] = []
    done = five_end(scheduler, lambda event: heard.append(ledger.states(str(event.job_id))))
    scheduler.start()
    assert done.wait(WAIT)
    assert heard == [["succeeded"]] * 5


def test_what_has_ended_is_let_go_without_the_garbage_collector(run: Make) -> None:
    scheduler = run()
    heard: list[Any] = []
    done = five_end(scheduler, heard.append)
    gc.disable()
    try:
        scheduler.start()
        assert done.wait(WAIT)
        scheduler.shutdown()
        left = [one for one in gc.get_objects() if isinstance(one, Work) and one.recorder is scheduler.ours._pump]
    finally:
        gc.enable()
    assert left == []


def test_retries_come_after_their_delay_and_the_key_stays(run: Make) -> None:
    scheduler = run()
    scheduler.add_job(_jobs.fail_until, once(max_retries=3, retry_delay=0.1), id="a", args=[3])
    scheduler.start()
    events = scheduler.events.wait(OUTCOME, 3)
    assert [event.code for event in events] == [EVENT_JOB_ERROR, EVENT_JOB_ERROR, EVENT_JOB_EXECUTED]
    ledger = Ledger(scheduler.ours)
    (row,) = ledger.occurrences("a")
    assert (row.state, row.attempt, row.result) == ("succeeded", 3, '"at last"')
    assert [attempt.state for attempt in ledger.attempts("a")] == ["failed", "failed", "succeeded"]
    assert [_jobs.ran.get(timeout=WAIT) for _ in range(3)] == [1, 2, 3]


def test_a_result_that_is_not_verified_is_a_failure(run: Make) -> None:
    scheduler = run()
    scheduler.add_job(_jobs.tell, once(verify=_jobs.is_even), id="odd", args=[3])
    scheduler.add_job(_jobs.tell, once(verify=_jobs.is_even), id="even", args=[4])
    scheduler.start()
    events = {str(event.job_id): event for event in scheduler.events.wait(OUTCOME, 2)}
    assert isinstance(events["odd"].exception, NotVerified)
    assert events["even"].retval == 4
    assert Ledger(scheduler.ours).states("odd") == ["failed"]


def test_a_coroutine_function_on_a_thread_pool_is_a_failure(run: Make) -> None:
    scheduler = run()
    scheduler.add_job(_jobs.tell_async, once(), id="a")
    scheduler.start()
    (event,) = scheduler.events.wait(OUTCOME)
    assert "asyncio executor" in str(event.exception)
    assert Ledger(scheduler.ours).states("a") == ["failed"]


# --- timeouts ---------------------------------------------------------------------------------------------------------


def test_a_thread_that_timed_out_keeps_its_schedule_from_starting_until_it_has_ended(run: Make) -> None:
    scheduler = run()
    scheduler.add_job(_jobs.wait_for_gate, durable(IntervalTrigger(seconds=1), timeout=0.3, overlap="queue"), id="a")
    scheduler.start()
    ledger = Ledger(scheduler.ours)
    (event,) = scheduler.events.wait(OUTCOME)
    assert isinstance(event.exception, TaskTimedOut)
    assert ledger.states("a")[0] == "timed_out"
    assert _jobs.ran.get(timeout=WAIT) == "began"
    wait_until(lambda: len(ledger.states("a")) >= 3, "two more slots")
    assert _jobs.ran.empty()
    assert set(ledger.states("a")[1:]) <= {"ready", "waiting"}
    _jobs.gate.set()
    assert _jobs.ran.get(timeout=WAIT) == "ended"
    assert _jobs.ran.get(timeout=WAIT) == "began"
    assert ledger.attempts("a")[0].state == "timed_out"


def test_a_task_in_a_thread_is_asked_to_stop_when_its_time_is_up(run: Make) -> None:
    scheduler = run()
    scheduler.add_job(_jobs.until_cancelled, once(timeout=0.2), id="a")
    scheduler.start()
    scheduler.events.wait(EVENT_JOB_ERROR)
    assert [_jobs.ran.get(timeout=WAIT) for _ in range(2)] == ["began", "asked to stop: timeout"]
    assert Ledger(scheduler.ours).states("a") == ["timed_out"]


def test_a_deadline_counts_from_the_due_instant(run: Make) -> None:
    scheduler = run()
    scheduler.add_job(_jobs.until_cancelled, once(deadline=0.5), id="a")
    scheduler.start()
    scheduler.events.wait(EVENT_JOB_ERROR)
    (row,) = Ledger(scheduler.ours).occurrences("a")
    assert row.state == "timed_out"
    assert 400 <= row.finished_at - row.due <= 5_000


def test_a_child_process_is_interrupted_when_its_time_is_up(run: Make) -> None:
    scheduler = run(executors=children())
    scheduler.add_job(_jobs.child_sleeps, once(timeout=0.3), id="a", executor="children")
    scheduler.start()
    (event,) = scheduler.events.wait(OUTCOME)
    assert isinstance(event.exception, TaskTimedOut)
    (row,) = Ledger(scheduler.ours).occurrences("a")
    assert row.state == "timed_out"
    assert 250 <= row.elapsed < 5_000


def test_a_coroutine_is_cancelled_when_its_time_is_up(run: Make) -> None:
    async def main() -> Any:
        scheduler = run(AsyncIOScheduler)
        done = asyncio.Event()
        scheduler.add_listener(lambda event: done.set(), OUTCOME)
        scheduler.add_job(_jobs.sleep_async, once(timeout=0.2), id="a")
        scheduler.start()
        await asyncio.wait_for(done.wait(), WAIT)
        scheduler.shutdown()
        return scheduler

    scheduler = asyncio.run(main())
    assert [_jobs.ran.get(timeout=WAIT) for _ in range(2)] == ["began", "cancelled"]
    assert Ledger(scheduler.ours).states("a") == ["timed_out"]


# --- process pools ----------------------------------------------------------------------------------------------------


def test_a_child_that_dies_interrupts_its_run_and_the_pool_goes_on(run: Make, tmp_path: Path) -> None:
    scheduler = run(executors=children())
    scheduler.add_job(_jobs.child_dies, once(), id="dies", executor="children")
    scheduler.start()
    ledger = Ledger(scheduler.ours)
    wait_until(lambda: ledger.states("dies") == ["interrupted"], "the dead child")
    scheduler.add_job(_jobs.child_key, once(), id="next", executor="children", args=[str(tmp_path)])
    scheduler.events.wait(EVENT_JOB_EXECUTED)
    assert ledger.states("next") == ["succeeded"]


def test_what_cannot_be_pickled_does_not_break_the_pool(run: Make) -> None:
    scheduler = run(executors=children())
    scheduler.add_job(_jobs.child_bad, once(), id="bad", executor="children")
    scheduler.add_job(_jobs.child_lock, once(), id="lock", executor="children")
    scheduler.start()
    events = {str(event.job_id): event for event in scheduler.events.wait(OUTCOME, 2)}
    assert "Bad: 12" in str(events["bad"].exception)
    assert "lock" in events["lock"].retval
    ledger = Ledger(scheduler.ours)
    assert (ledger.states("bad"), ledger.states("lock")) == (["failed"], ["succeeded"])


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_broken_log_handler_in_a_child_changes_no_verdict(run: Make, tmp_path: Path, start: str) -> None:
    pool = ProcessPoolExecutor(1, pool_kwargs={"mp_context": multiprocessing.get_context(start)})
    scheduler = run(executors={"default": ThreadPoolExecutor(1), "children": pool})
    for name in ("a", "b"):
        scheduler.add_job(_jobs.child_breaks_logging, once(), id=name, executor="children", args=[str(tmp_path)])
    scheduler.start()
    scheduler.events.wait(OUTCOME, 2)
    ledger = Ledger(scheduler.ours)
    assert (ledger.states("a"), ledger.states("b")) == (["succeeded"], ["succeeded"])
    (first, second) = (tmp_path / "runs").read_text().split()
    assert first == second, "one child, which logged before and after each"


def test_a_child_process_sees_its_cancel_flag(run: Make, tmp_path: Path) -> None:
    scheduler = run(executors=children())
    scheduler.add_job(_jobs.child_until_cancelled, once(), id="a", executor="children", args=[str(tmp_path)])
    scheduler.start()
    wait_until((tmp_path / "began").exists, "the child's start")
    cancel(scheduler, "a")
    scheduler.events.wait(OUTCOME)
    assert Ledger(scheduler.ours).states("a") == ["cancelled"]


def test_a_submission_that_fails_gives_the_claim_back(run: Make) -> None:
    scheduler = run(executors={"default": ThreadPoolExecutor(2), "other": ThreadPoolExecutor(1)})
    scheduler.start()
    scheduler._executors["other"]._pool.shutdown()
    scheduler.add_job(_jobs.tell, once(), id="a", executor="other")
    ledger = Ledger(scheduler.ours)
    wait_until(lambda: ledger.states("a") == ["ready"], "the claim to come back")
    scheduler.remove_executor("other")
    scheduler.add_executor(ThreadPoolExecutor(1), "other")
    scheduler.events.wait(EVENT_JOB_EXECUTED)
    (row,) = ledger.occurrences("a")
    assert (row.state, row.attempt) == ("succeeded", 1)


# --- cancel -----------------------------------------------------------------------------------------------------------


def cancel(scheduler: Any, schedule_id: str) -> None:
    """As another process would: through the store."""
    store = scheduler.ours.store
    with store.write() as conn:
        control.cancel(store, conn, "default", schedule_id, now=store.now(conn), principal="test")


def test_a_running_task_that_sees_its_cancel_flag_is_cancelled(run: Make) -> None:
    scheduler = run()
    scheduler.add_job(_jobs.until_cancelled, once(), id="a")
    scheduler.start()
    assert _jobs.ran.get(timeout=WAIT) == "began"
    cancel(scheduler, "a")
    assert _jobs.ran.get(timeout=WAIT) == "asked to stop: cancelled"
    wait_until(lambda: Ledger(scheduler.ours).states("a") == ["cancelled"])


def test_a_running_coroutine_is_cancelled(run: Make) -> None:
    async def main() -> Any:
        scheduler = run(AsyncIOScheduler)
        scheduler.add_job(_jobs.sleep_async, once(), id="a")
        scheduler.start()
        await asyncio.to_thread(_jobs.ran.get, timeout=WAIT)
        cancel(scheduler, "a")
        assert await asyncio.to_thread(_jobs.ran.get, timeout=WAIT) == "cancelled"
        ledger = Ledger(scheduler.ours)
        await asyncio.to_thread(wait_until, lambda: ledger.states("a") == ["cancelled"])
        scheduler.shutdown()

    asyncio.run(main())


def test_a_task_that_takes_no_notice_of_its_flag_ends_as_it_ends(run: Make) -> None:
    scheduler = run()
    scheduler.add_job(_jobs.wait_for_gate, once(), id="a")
    scheduler.start()
    assert _jobs.ran.get(timeout=WAIT) == "began"
    cancel(scheduler, "a")
    wait_until(lambda: any(work.flag is not None for work in scheduler.ours._pump.flights.works.values()))
    _jobs.gate.set()
    scheduler.events.wait(EVENT_JOB_EXECUTED)
    assert Ledger(scheduler.ours).states("a") == ["succeeded"]


# --- APScheduler's own policies ---------------------------------------------------------------------------------------


def test_a_missed_run_is_a_range_and_one_event(run: Make) -> None:
    scheduler = run()
    missed = now() - timedelta(hours=2)
    scheduler.add_job(
        _jobs.tell, "interval", minutes=10, next_run_time=missed, misfire_grace_time=60, coalesce=False, id="a"
    )
    scheduler.start()
    (event,) = scheduler.events.wait(EVENT_JOB_MISSED)
    assert str(event.job_id) == "a"
    wait_until(lambda: Ledger(scheduler.ours).ranges("a"))
    (skipped,) = Ledger(scheduler.ours).ranges("a")
    assert (skipped.first, skipped.reason) == (0, "misfire")
    assert len([e for e in scheduler.events.seen if e.code == EVENT_JOB_MISSED]) == 1


def test_coalesce_runs_the_last_of_the_missed_runs(run: Make) -> None:
    scheduler = run()
    missed = now() - timedelta(minutes=35)
    scheduler.add_job(
        _jobs.tell_key, "interval", minutes=10, start_date=missed, next_run_time=missed, misfire_grace_time=None,
        coalesce=True, id="a",
    )  # fmt: skip
    scheduler.start()
    occurrence = _jobs.ran.get(timeout=WAIT)
    assert (occurrence.represents_first, occurrence.represents_last) == (0, 3)
    scheduler.events.wait(EVENT_JOB_EXECUTED)
    (represented,) = Ledger(scheduler.ours).ranges("a")
    assert (represented.first, represented.last, represented.verdict) == (0, 2, "represented")


def test_max_instances_drops_a_run_as_a_range_and_an_event(run: Make) -> None:
    scheduler = run()
    scheduler.add_job(_jobs.wait_for_gate, "interval", seconds=1, max_instances=1, id="a")
    scheduler.start()
    (event,) = scheduler.events.wait(EVENT_JOB_MAX_INSTANCES)
    assert len(event.scheduled_run_times) == 1
    (dropped, *_) = Ledger(scheduler.ours).ranges("a")
    assert dropped.reason == "maxInstances"
    _jobs.gate.set()
    scheduler.events.wait(EVENT_JOB_EXECUTED)


def test_two_instances_may_run_at_once(run: Make) -> None:
    scheduler = run()
    scheduler.add_job(_jobs.wait_for_gate, "interval", seconds=1, max_instances=2, id="a")
    scheduler.start()
    assert [_jobs.ran.get(timeout=WAIT) for _ in range(2)] == ["began", "began"]
    scheduler.events.wait(EVENT_JOB_SUBMITTED, 2)
    scheduler.events.wait(EVENT_JOB_MAX_INSTANCES)
    assert Ledger(scheduler.ours).states("a") == ["running", "running"]
    _jobs.gate.set()


def test_overlapping_work_of_a_durable_schedule_is_folded(run: Make) -> None:
    scheduler = run()
    scheduler.add_job(_jobs.wait_for_gate, durable(IntervalTrigger(seconds=1), overlap="coalesce"), id="a")
    scheduler.start()
    ledger = Ledger(scheduler.ours)
    wait_until(lambda: ledger.ranges("a"), "a fold")
    assert ledger.states("a") == ["running", "waiting"]
    assert ledger.untiled() == []
    _jobs.gate.set()


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_a_busy_pool_holds_no_more_than_it_has_workers(run: Make, kind: str, tmp_path: Path) -> None:
    pools = {"thread": ThreadPoolExecutor(4), "process": ProcessPoolExecutor(2)}
    workers = {"thread": 4, "process": 2}[kind]
    scheduler = run(executors={"default": ThreadPoolExecutor(1), "busy": pools[kind]})
    gate = tmp_path / "gate"
    func, args = (_jobs.wait_for_gate, []) if kind == "thread" else (_jobs.child_waits_for, [str(gate)])
    for i in range(12):
        scheduler.add_job(func, once(), id=f"job-{i}", args=args, executor="busy")
    scheduler.start()
    ledger = Ledger(scheduler.ours)
    wait_until(lambda: ledger.states().count("running") == workers, "a full pool")
    assert sorted(set(ledger.states())) == ["ready", "running"]
    assert ledger.states().count("running") == workers
    _jobs.gate.set()
    gate.touch()
    scheduler.events.wait(EVENT_JOB_EXECUTED, 12)
    assert ledger.states() == ["succeeded"] * 12
