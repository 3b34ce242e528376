"""What ``serve`` and ``tick`` share: a scheduler of our own around the job store, with the host's pools."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from apscheduler.executors.asyncio import AsyncIOExecutor
from apscheduler.executors.base import BaseExecutor, run_coroutine_job, run_job
from apscheduler.executors.pool import ProcessPoolExecutor, ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.util import iscoroutinefunction_partial

from calsched import logs
from calsched.runtime.callables import AllowList
from calsched.runtime.pump import Settings
from calsched.runtime.work import repr_of

if TYPE_CHECKING:
    from calsched.settings import Settings as HostSettings

log = logs.get("calsched.host")


class LoopExecutor(AsyncIOExecutor):  # type: ignore[misc]
    """An asyncio executor with a loop of its own, in a thread of its own, for hosts that have none."""

    def __init__(self, max_workers: int = 100) -> None:
        super().__init__()
        self.coroutines = max_workers
        self._loop_thread: threading.Thread | None = None
        self._leaving = False

    def start(self, scheduler: Any, alias: str) -> None:
        BaseExecutor.start(self, scheduler, alias)
        self._leaving = False
        self._pending_futures: set[Any] = set()
        self._eventloop = asyncio.new_event_loop()
        self._loop_thread = threading.Thread(target=self._run, name=f"calsched-loop-{alias}", daemon=True)
        self._loop_thread.start()

    def _run(self) -> None:
        """The loop runs on whatever a task's own tasks and callbacks do to it: stop it, or leave by ``sys.exit()``."""
        asyncio.set_event_loop(self._eventloop)
        while not self._leaving:
            try:
                self._eventloop.run_forever()
            except BaseException as exc:
                log.error("something that a task left on the event loop raised %s; the loop goes on", repr_of(exc))
        self._eventloop.close()

    def _do_submit_job(self, job: Any, run_times: Any) -> None:
        if iscoroutinefunction_partial(job.func):
            call = run_coroutine_job(job, job._jobstore_alias, run_times, self._logger.name)
        else:
            call = asyncio.to_thread(run_job, job, job._jobstore_alias, run_times, self._logger.name)
        future = asyncio.run_coroutine_threadsafe(call, self._eventloop)
        self._pending_futures.add(future)
        future.add_done_callback(lambda done: self._ended(job, done))

    def _ended(self, job: Any, future: Any) -> None:
        self._pending_futures.discard(future)
        try:
            events = future.result()
        except BaseException as exc:
            self._run_job_error(job.id, exc, exc.__traceback__)
        else:
            self._run_job_success(job.id, events)

    def shutdown(self, wait: bool = True) -> None:
        for future in list(self._pending_futures):
            future.cancel()
        self._leaving = True
        self._eventloop.call_soon_threadsafe(self._eventloop.stop)
        if wait and self._loop_thread is not None:
            self._loop_thread.join(10)


def pools(settings: HostSettings) -> dict[str, BaseExecutor]:
    """The host's executors, ``default`` among them."""
    made: dict[str, BaseExecutor] = {alias: _pool(s.kind, s.workers) for alias, s in settings.executors.items()}
    made.setdefault("default", ThreadPoolExecutor(settings.workers))
    return made


def _pool(kind: str, workers: int) -> BaseExecutor:
    if kind == "processes":
        return ProcessPoolExecutor(workers)
    return LoopExecutor(workers) if kind == "asyncio" else ThreadPoolExecutor(workers)


def owner_settings(settings: HostSettings, allow: AllowList, *, standby: bool = False) -> Settings:
    return Settings(
        name=settings.owner_name or "",
        poll_interval=settings.poll_interval / 1000,
        lease=settings.lease / 1000,
        standby=standby,
        schedule_batch=settings.schedule_batch,
        occurrence_batch=settings.occurrence_batch,
        allow=allow,
        workspaces=None if settings.workspaces is None else str(settings.workspaces),
        clock_tolerance=settings.clock_tolerance / 1000,
        default_zone=settings.timezone,
    )


def scheduler_for(jobstore: Any, executors: Mapping[str, BaseExecutor]) -> BackgroundScheduler:
    return BackgroundScheduler(jobstores={"default": jobstore}, executors=dict(executors), timezone="UTC", daemon=True)
