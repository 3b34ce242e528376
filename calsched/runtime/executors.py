"""APScheduler's executors: how many workers they have, what they are handed, and what they report.

A hand-out is a ``Job`` whose id carries the claim. The core submits it like any other job; the hooks on the executor
*instance* see its end, and its events are held until the outcome has committed. The stock pool stays in charge of
threads and processes; only its news go another way. (Relied upon: ``executors/base.py`` and ``pool.py`` of 3.11.)
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, Literal

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, JobExecutionEvent
from apscheduler.executors.base import BaseExecutor
from apscheduler.executors.debug import DebugExecutor
from apscheduler.executors.pool import ProcessPoolExecutor
from apscheduler.job import Job
from apscheduler.triggers.base import BaseTrigger

from calsched import logs
from calsched.clock import LAST_INSTANT, to_datetime
from calsched.runtime.runner import Payload, Report, run_coroutine, run_in_child, run_in_thread
from calsched.runtime.work import Work

Kind = Literal["thread", "process", "asyncio", "debug"]
#: An asyncio loop has no workers; this many coroutines run at once.
COROUTINES = 500
FAR = to_datetime(LAST_INSTANT)


class Never(BaseTrigger):  # type: ignore[misc]
    """The trigger of a hand-out. It never ends, because the core removes a job whose trigger does."""

    __slots__ = ()

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        return FAR

    def __str__(self) -> str:
        return "calsched"


class OccurrenceId(str):
    """The id of a hand-out: equal to its schedule's id, and it carries the claim through the executor."""

    __slots__ = ("work",)
    work: Work | None

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str.__str__(self),)


class HandOut(Job):  # type: ignore[misc]
    """One claim as APScheduler sees it. Class attributes stand in for what is the same for all of them."""

    __slots__ = ("due", "work")
    due: datetime
    work: Work

    trigger = Never()
    args = ()
    kwargs: Any = {}  # noqa: RUF012  # never changed; Job's slots hold the instance's own
    coalesce = False
    misfire_grace_time = None  # the store has judged lateness
    max_instances = 1_000_000_000  # the store has judged overlap
    next_run_time = FAR
    func_ref = None

    def _get_run_times(self, now: datetime) -> list[datetime]:
        return [self.due]

    def _modify(self, **changes: Any) -> None:
        pass

    def __str__(self) -> str:
        return str(self.name)  # APScheduler's log lines; when it runs next is the schedule's business

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (str.__str__(self.id), self.name, payload_of(self.work), self.work.seat.executor._logger.name)


class _Bare:
    """What a child sees of a hand-out; ``run_job`` asks for nothing more."""

    misfire_grace_time = None
    args = ()
    kwargs: Any = {}  # noqa: RUF012
    id: str
    name: str
    func: Callable[[], Report]

    def __str__(self) -> str:
        return self.name


def _rebuild(job_id: str, name: str, payload: Payload, logger: str) -> _Bare:
    logs.get(logger)  # in the child, where `run_job` logs; a spawned one has the guards of nobody
    bare = _Bare()
    bare.id, bare.name = job_id, name
    bare.func = partial(run_in_child, payload)
    return bare


def payload_of(work: Work) -> Payload:
    p, r = work.prepared, work.recorder
    task, claimed = p.definition.task, work.claimed
    limit = p.limit(claimed, r.wall())
    return Payload(
        ref=p.ref,
        verify=task.verify,
        args=p.args,
        kwargs=p.kwargs,
        allow=work.seat.allow,
        installation=r.installation,
        claimed=tuple(claimed),
        flag_path=work.flag_path or os.devnull + ".no",
        limit=limit,
        deadline=claimed.deadline,
        workspaces=r.workspaces,
    )


class Seat:
    """One executor, as the pump counts it.

    ``workers`` run at once; ``threads`` of an asyncio executor are for its plain functions.
    """

    __slots__ = ("alias", "allow", "executor", "kind", "threads", "workers")

    def __init__(self, alias: str, executor: BaseExecutor, allow: tuple[str, ...] | None) -> None:
        self.alias, self.executor, self.allow = alias, executor, allow
        self.kind: Kind = kind_of(executor)
        self.workers = workers_of(executor, self.kind)
        self.threads = loop_threads(executor) if self.kind == "asyncio" else 0


def kind_of(executor: BaseExecutor) -> Kind:
    if isinstance(executor, ProcessPoolExecutor):
        return "process"
    if isinstance(executor, DebugExecutor):
        return "debug"
    return "asyncio" if any(c.__name__ == "AsyncIOExecutor" for c in type(executor).__mro__) else "thread"


def workers_of(executor: BaseExecutor, kind: Kind) -> int:
    if kind == "asyncio":
        return int(getattr(executor, "coroutines", COROUTINES))
    if kind == "debug":
        return 1
    pool = getattr(executor, "_pool", None) or getattr(executor, "executor", None)
    return int(getattr(pool, "_max_workers", 10))


def loop_threads(executor: BaseExecutor) -> int:
    """How many plain functions an asyncio executor runs at once: what its loop's default pool has."""
    pool = getattr(getattr(executor, "_eventloop", None), "_default_executor", None)
    return int(getattr(pool, "_max_workers", min(32, (os.cpu_count() or 1) + 4)))


def hand_out(work: Work, scheduler: Any, alias: str, job_id: str) -> HandOut:
    job: HandOut = HandOut.__new__(HandOut)
    ident = OccurrenceId(job_id)
    ident.work = work
    job.id = ident
    job.work = work
    job.name = job_id
    job.due = to_datetime(work.claimed.due)
    job.executor = work.prepared.executor
    job._scheduler = scheduler
    job._jobstore_alias = alias
    if work.seat.kind == "asyncio" and work.prepared.is_async:
        job.func = partial(run_coroutine, work)
    else:
        job.func = partial(run_in_thread, work)
    return job


# --- hooks ------------------------------------------------------------------------------------------------------------


def hook(executor: BaseExecutor) -> None:
    """Take over the ends of our hand-outs on this executor instance, once. All other jobs go their usual way."""
    if "_calsched_hooked" in executor.__dict__:
        return
    executor._calsched_hooked = True
    logs.guard(executor._logger)  # `run_job` logs before and after the task, in the worker
    success, error, submit = executor._run_job_success, executor._run_job_error, executor._do_submit_job

    @functools.wraps(submit)
    def do_submit_job(job: Job, run_times: list[datetime]) -> None:
        submit(job, run_times)
        if type(job) is HandOut:
            job.work.submitted = True

    @functools.wraps(success)
    def run_job_success(job_id: str, events: list[Any]) -> None:
        work = _taken_from(job_id)
        if work is None:
            success(job_id, events)
            return
        _release(executor, job_id)
        work.recorder.executor_reports(work, events)

    @functools.wraps(error)
    def run_job_error(job_id: str, exc: BaseException, tb: Any = None) -> None:
        work = _taken_from(job_id)
        if work is None:
            error(job_id, exc, tb)
            return
        _release(executor, job_id)
        work.recorder.executor_fails(work, exc)

    executor._do_submit_job = do_submit_job
    executor._run_job_success = run_job_success
    executor._run_job_error = run_job_error


def _taken_from(job_id: str) -> Any:
    """The work of a hand-out, which the executor reports once. Its id lives on in events, and must not keep it."""
    work = getattr(job_id, "work", None)
    if work is not None:
        job_id.work = None  # type: ignore[attr-defined]
    return work


def _release(executor: BaseExecutor, job_id: str) -> None:
    with executor._lock:
        left = executor._instances[job_id] - 1
        if left == 0:
            del executor._instances[job_id]
        else:  # -1 where it ended while it was submitted: the executor counts it after that
            executor._instances[job_id] = left


def event_for(report: Report, job_id: str, alias: str, due: datetime) -> JobExecutionEvent:
    """The event of a child's run, as a thread's run would have made it."""
    if report.failure is None:
        return JobExecutionEvent(EVENT_JOB_EXECUTED, job_id, alias, due, retval=report.value)
    return JobExecutionEvent(
        EVENT_JOB_ERROR, job_id, alias, due, exception=report.exception, traceback=report.failure.traceback
    )
