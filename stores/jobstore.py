"""``OccurrenceJobStore``: what APScheduler sees of the ledger.

APScheduler is the timer and the pools; the row is the truth. The core loop of a scheduler calls ``get_due_jobs``,
``get_next_run_time`` and (with hand-outs) ``update_job``: those look at memory only, and none of them raises, because
an exception out of them would kill the scheduler's thread for good. Everything an app calls (``add_job`` and the like)
goes straight to the store, in the caller's thread, and says what is wrong.
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from apscheduler.job import Job
from apscheduler.jobstores.base import BaseJobStore, ConflictingIdError, JobLookupError
from sqlalchemy import Connection, Engine

from calsched.clock import Clock, SystemClock
from calsched.errors import CalschedError, InvalidInput, Problem
from calsched.model import Definition
from calsched.runtime.callables import AllowList
from calsched.runtime.durable import carried_calendars
from calsched.runtime.executors import HandOut
from calsched.runtime.jobs import (
    definition_of_job,
    instant_of,
    is_own_slot,
    job_of,
    just_passed,
    keep_cadence,
    says_the_same,
    starting_at,
)
from calsched.runtime.port import SchedulerPort, renew_locks
from calsched.runtime.pump import Observer, Pump, Settings
from calsched.runtime.trouble import Health
from calsched.stores import conflicts, control, recompute
from calsched.stores.compiled import CompiledRevision
from calsched.stores.engine import Store
from calsched.stores.tables import jobs

if TYPE_CHECKING:
    from calsched.triggers.base import Trigger

PRINCIPAL = "apscheduler"


class OccurrenceJobStore(BaseJobStore):  # type: ignore[misc]
    """A job store that keeps one recorded verdict for every due time.

    ``url`` or ``engine`` name the database; ``standby`` waits where another process owns a SQLite file, instead of
    raising OwnedElsewhere in ``start``; ``allow`` lists what may be called (``module:name``, ``module:*``; None: every
    function that a module defines); ``workspaces`` is a folder below which each occurrence may have one of its own.
    Times in seconds. Plugin alias: ``calsched``. The last four arguments are for ``serve`` and ``tick``, which bring a
    store and settings of their own.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        engine: Engine | None = None,
        prefix: str = "calsched_",
        schema: str | None = None,
        namespace: str = "default",
        standby: bool = False,
        poll_interval: float = 1.0,
        lease: float = 30.0,
        clock: Clock | None = None,
        default_timezone: str | None = None,
        allow: Sequence[str] | None = None,
        workspaces: str | os.PathLike[str] | None = None,
        schedule_batch: int = 100,
        occurrence_batch: int = 100,
        name: str | None = None,
        store: Store | None = None,
        settings: Settings | None = None,
        pump_class: type[Pump] = Pump,
        observers: Sequence[Observer] = (),
    ) -> None:
        super().__init__()
        self.store = store or Store(
            url,
            engine=engine,
            prefix=prefix,
            schema=schema,
            clock=clock or SystemClock(),
            default_zone=default_timezone,
        )
        self.namespace = namespace
        self.allow = AllowList(allow) if settings is None else settings.allow
        self._pump_class, self._observers = pump_class, list(observers)
        self._settings = settings or Settings(
            name=name or "",
            poll_interval=float(poll_interval),
            lease=float(lease),
            standby=bool(standby),
            schedule_batch=int(schedule_batch),
            occurrence_batch=int(occurrence_batch),
            allow=self.allow,
            workspaces=None if workspaces is None else os.path.abspath(workspaces),
            default_zone=default_timezone,
        )
        self._pump: Pump | None = None
        self._port: SchedulerPort | None = None
        self._pid = os.getpid()
        _all.add(self)

    # --- start and end ------------------------------------------------------------------------------------------------

    def start(self, scheduler: Any, alias: str) -> None:
        """Validates the scheduler's pending jobs before anything is written; then owns the store, or stands by.

        Raises InvalidInput (every bad job at once), ConflictingIdError, OwnedElsewhere, StoreUnusable.
        """
        super().start(scheduler, alias)
        if self._pump is not None and not self._pump.stopping:
            return
        _validate_pending(scheduler)
        if self._pump is not None and not self._pump.join(10):
            raise CalschedError(
                f"{self.store.url_shown}: tasks of the last run have not ended yet; wait, then start again"
            )
        self.store.open()
        self._refuse_conflicts(scheduler, alias)
        port = SchedulerPort(scheduler, alias, self.namespace, self.allow.patterns)
        pump = self._pump_class(self.store, port, self._settings)
        pump.observers = self._observers
        port.pump = pump
        pump.start()
        self._port, self._pump = port, pump

    def _refuse_conflicts(self, scheduler: Any, alias: str) -> None:
        """An id that is taken raises what APScheduler raises, before a part of the pending jobs is written."""
        new = [job.id for job, target, replace in scheduler._pending_jobs if target == alias and not replace]
        if not new:
            return
        with self.store.read() as conn:
            taken = {row.id for row in jobs.of_namespace(conn, self.store, self.namespace) if jobs.is_visible(row)}
        for job_id in new:
            if job_id in taken:
                raise ConflictingIdError(job_id)

    def shutdown(self) -> None:
        """Start nothing more; what runs is recorded when it ends, by a thread that lives as long as that takes."""
        pump = self._pump
        if pump is None or self._pid != os.getpid():
            return
        pump.begin_stop()
        if not pump.busy():
            pump.join(10)

    def stop(self, limit: float) -> bool:
        """A clean stop: ask running tasks to stop, give back what has not started, and wait at most ``limit`` seconds.

        What has not ended then is recorded as interrupted by a clean stop. True where everything had ended.
        """
        pump = self._pump
        if pump is None:
            return True
        pump.begin_stop(limit)
        pump.join(limit + 10)
        return not pump.left_running

    @property
    def pump(self) -> Pump | None:
        """The owner's (or standby's) thread; None in a client."""
        return self._pump

    def health(self) -> Health:
        """Whether the store answers, and since when; which role this process has."""
        if self._pump is None:
            return Health(True, "client", self.store.clock.now())
        return self._pump.health()

    @property
    def role(self) -> str:
        """owner, standby, client (a forked child, or never started), stopping or stopped."""
        return "client" if self._pump is None else self._pump.role

    def _at_exit(self) -> None:
        """The interpreter ends, perhaps without ``shutdown``: record what can be, give back the rest."""
        pump = self._pump
        if pump is not None and self._pid == os.getpid() and not pump.done.is_set():
            pump.begin_stop(0)
            pump.join(5)

    def _after_fork(self) -> None:
        """In a forked child: no thread of ours lives here, so it only controls."""
        if self._pump is not None:
            self._pump.verbs.forget_lock()
            renew_locks(self._scheduler)
        self._pump = self._port = None
        self._pid = os.getpid()

    # --- the core loop's side: memory only, never raises --------------------------------------------------------------

    def get_due_jobs(self, now: datetime) -> list[Job]:
        return [] if self._port is None else self._port.take()

    def get_next_run_time(self) -> datetime | None:
        """The core sleeps until then at most; the pump wakes it whenever there is something to hand out."""
        return None if self._port is None else self._port.next_look()

    # --- the app's side -----------------------------------------------------------------------------------------------

    def lookup_job(self, job_id: str) -> Job | None:
        if getattr(job_id, "work", None) is not None:
            return None
        found = self._jobs(job_id)
        return found[0] if found else None

    def get_all_jobs(self) -> list[Job]:
        found = self._jobs()
        found.sort(key=lambda job: (job.next_run_time is None, job.next_run_time or 0, job.id))
        return found

    def add_job(self, job: Job) -> None:
        """Raises ConflictingIdError, and InvalidInput where the job cannot be stored."""
        definition = self._definition(job)

        def add(conn: Connection, now: int) -> None:
            row = self._row(conn, job.id)
            if row is not None and jobs.is_visible(row):
                raise ConflictingIdError(job.id)
            self._create(conn, now, job, self._resolved(conn, now, job, definition), row)

        self._write(add)

    def update_job(self, job: Job) -> None:
        """A hand-out that was submitted; a replacement; or a change. Raises JobLookupError for an unknown id."""
        if isinstance(job, HandOut):
            if self._port is not None:
                self._port.submitted(job)
            return
        definition = self._definition(job)

        def change(conn: Connection, now: int) -> None:
            row = self._visible(conn, job.id)
            self._change(conn, now, row, job, self._resolved(conn, now, job, definition))

        self._write(change)

    def remove_job(self, job_id: str) -> None:
        """What waits is cancelled, what runs may finish, history stays. Raises JobLookupError for an unknown id."""
        work = getattr(job_id, "work", None)
        if work is not None:  # the core could not find the hand-out's executor
            if self._pump is not None:
                self._pump.submission_failed(work)
            return
        self._write(lambda conn, now: self._remove(conn, now, self._visible(conn, job_id).id))

    def remove_all_jobs(self) -> None:
        def remove(conn: Connection, now: int) -> None:
            found = jobs.of_namespace(conn, self.store, self.namespace)
            for row in sorted(found, key=lambda row: row.pk):  # as everybody locks them
                if jobs.is_visible(row):
                    self._remove(conn, now, row.id)

        self._write(remove)

    def __repr__(self) -> str:
        return f"<OccurrenceJobStore (url={self.store.url_shown})>"

    # --- what is written ----------------------------------------------------------------------------------------------

    def _write(self, work: Callable[[Connection, int], None]) -> None:
        self.store.open()
        conflicts.write(self.store, lambda conn: work(conn, self.store.now(conn)))
        if self._pump is not None:
            self._pump.kick()

    def _row(self, conn: Connection, job_id: str) -> Any:
        found = jobs.of_namespace(conn, self.store, self.namespace, str(job_id))
        return found[0] if found else None

    def _visible(self, conn: Connection, job_id: str) -> Any:
        row = self._row(conn, job_id)
        if row is None or not jobs.is_visible(row):
            raise JobLookupError(job_id)
        return row

    def _jobs(self, job_id: str | None = None) -> list[Job]:
        self.store.open()
        with self.store.read() as conn:
            listed = jobs.of_namespace(conn, self.store, self.namespace, job_id)
            rows = [row for row in listed if jobs.is_visible(row)]
            compiled = self.store.compiled.get_many(conn, [row.revision_pk for row in rows])
        out = []
        for row in rows:
            found = compiled.get(row.revision_pk)
            if isinstance(found, CompiledRevision) and found.definition.task.kind == "python":
                due = row.next_due if row.state == "enabled" else None
                out.append(
                    job_of(found.definition, found.trigger, due, self._scheduler, self._alias, self.allow)
                )
        return out

    def _definition(self, job: Job) -> Definition:
        """Raises InvalidInput with everything that keeps the job from being stored."""
        scheduler = self._scheduler or job._scheduler
        return definition_of_job(job, self.namespace, self.allow, getattr(scheduler, "_executors", None))

    def _resolved(self, conn: Connection, now: int, job: Job, definition: Definition) -> Definition:
        """With the versions of the business calendars that its trigger brings along."""
        carried = carried_calendars(job.trigger)
        return recompute.carry_calendars(self.store, conn, definition, carried, now=now, principal=PRINCIPAL)

    def _create(self, conn: Connection, now: int, job: Job, definition: Definition, row: Any) -> None:
        source = self.store.compiled.build(definition, self._calendars(conn, definition))
        at, start_at = instant_of(job.next_run_time), None
        if at is not None and source.first_at_or_after(at) == at:
            start_at = at
        elif at is not None and not is_own_slot(job.trigger, source, at, self.store.clock.now()):
            definition = starting_at(definition, source, at)
            start_at = at
        elif at is None:
            start_at = just_passed(definition, source, now)
        paused = at is None and start_at is None and source.first_at_or_after(now) is not None
        by: Any = {"now": now, "principal": PRINCIPAL}
        if row is None:
            control.create(self.store, conn, definition, paused=paused, start_at=start_at, **by)
        else:
            self._revive(conn, row, definition, paused, start_at, by)

    def _revive(
        self, conn: Connection, row: Any, definition: Definition, paused: bool, at: int | None, by: Any
    ) -> None:
        """A schedule that is over, or was removed, is added again: its history goes on under a new revision."""
        before = self.store.compiled.get_many(conn, (row.revision_pk,))[row.revision_pk]
        same = isinstance(before, CompiledRevision) and says_the_same(definition, before.definition)
        if same and row.state in ("ended", "cancelled"):
            self._logger.info("%s is %s, and its definition is the same: it stays so", row.id, row.state)
            return
        if not same:
            control.update(self.store, conn, definition, mode="carry", start_at=at, **by)
        if row.state == "disabled":
            control.enable(self.store, conn, self.namespace, row.id, **by)
        if paused:
            control.pause(self.store, conn, self.namespace, row.id, **by)

    def _change(self, conn: Connection, now: int, row: Any, job: Job, definition: Definition) -> None:
        """A replacement or a change. What says the same changes nothing: paused stays paused, overdue stays due."""
        before = self.store.compiled.get_many(conn, (row.revision_pk,))[row.revision_pk]
        replacing = job._jobstore_alias is None
        at, shown = instant_of(job.next_run_time), row.next_due if row.state == "enabled" else None
        source = self.store.compiled.build(definition, self._calendars(conn, definition))
        by_hand = at is not None and not self._is_as_told(job, source, at, shown, replacing)
        same = False
        if isinstance(before, CompiledRevision):
            if replacing and not by_hand:
                made_by = self.store.clock.now()
                definition = keep_cadence(definition, before.definition, job.trigger, made_by)
            same = says_the_same(definition, before.definition)
        by: Any = {"now": now, "principal": PRINCIPAL}
        if by_hand:
            assert at is not None
            definition = starting_at(definition, source, at)
        if not same or by_hand:
            start_at = at if by_hand else None
            control.update(self.store, conn, definition, mode="carry", start_at=start_at, **by)
        self._pause_or_resume(conn, row, at, source.first_at_or_after(now), definition, replacing, by)

    def _is_as_told(self, job: Job, source: Trigger, at: int, shown: int | None, replacing: bool) -> bool:
        """Whether nobody set the next run time: it is what was shown, or what the trigger itself gives from now on."""
        if not replacing and at == shown:
            return True
        return is_own_slot(job.trigger, source, at, self.store.clock.now())

    def _pause_or_resume(
        self,
        conn: Connection,
        row: Any,
        at: int | None,
        following: int | None,
        definition: Definition,
        replacing: bool,
        by: Any,
    ) -> None:
        args = (self.store, conn, self.namespace, row.id)
        if at is None:
            if row.state == "enabled" and following is not None:
                control.pause(*args, **by)
        elif row.state != "enabled" and not replacing:
            if row.state == "paused" and row.reason in ("operator", "restored"):
                # APScheduler's resume starts from now; the misfire policy is what `durable` adds
                control.resume(*args, replay=definition.misfire != "apscheduler", **by)
            else:
                control.enable(*args, **by)

    def _remove(self, conn: Connection, now: int, job_id: str) -> None:
        control.remove(self.store, conn, self.namespace, job_id, now=now, principal=PRINCIPAL)

    def _calendars(self, conn: Connection, definition: Definition) -> Any:
        return self.store.compiled.calendars(conn, definition.calendars) if definition.calendars else None


def _validate_pending(scheduler: Any) -> None:
    """All jobs that wait for the scheduler's start, in all stores of ours; nothing has been written yet."""
    problems: list[Problem] = []
    for job, alias, _ in scheduler._pending_jobs:
        store = scheduler._jobstores.get(alias)
        if not isinstance(store, OccurrenceJobStore):
            continue
        try:
            definition_of_job(job, store.namespace, store.allow, scheduler._executors)
        except InvalidInput as exc:
            problems += [Problem(p.message, f"job {job.id!r}: {p.path}", hint=p.hint) for p in exc.problems]
    if problems:
        raise InvalidInput(problems)


_all: weakref.WeakSet[OccurrenceJobStore] = weakref.WeakSet()


def _in_child() -> None:
    for store in list(_all):
        store._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


@atexit.register
def _at_exit() -> None:
    for store in list(_all):
        store._at_exit()
