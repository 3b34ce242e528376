"""Between an app's ``Job`` and our ``Definition``: what a job says, what a stored schedule looks like as a job."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apscheduler.job import Job
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.interval import IntervalTrigger

from calsched import values
from calsched.clock import to_datetime, to_millis
from calsched.errors import CalschedError, InvalidInput, Problem
from calsched.model import Definition
from calsched.runtime.callables import AllowList, load
from calsched.runtime.durable import DurableTrigger, definition_of, from_definition
from calsched.triggers.base import Trigger
from calsched.triggers.starting_at import StartingAtTrigger

_OPTIONS = ("coalesce", "misfire_grace_time", "max_instances")
#: A next run time that lies no further back than this may still be the one that the trigger itself gave a moment ago.
A_MOMENT = 60_000


class Unloadable:
    """Stands for a callable that this process cannot load: its job can be seen, and is not lost."""

    def __init__(self, ref: str) -> None:
        self.ref = ref
        self.__name__ = self.__qualname__ = ref.rpartition(":")[2]
        self.__module__ = ref.partition(":")[0]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return load(self.ref)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self.ref}, which cannot be loaded here>"


def definition_of_job(
    job: Job, namespace: str, allow: AllowList, executors: Mapping[str, Any] | None = None
) -> Definition:
    """An APScheduler job as a definition. Raises InvalidInput with every problem at once."""
    problems: list[Problem] = []
    if executors is not None and job.executor not in executors:
        known = ", ".join(sorted(executors))
        problems.append(Problem(f"there is no executor {job.executor!r}; this scheduler has {known}", "executor"))
    func = job.func.ref if isinstance(job.func, Unloadable) else job.func
    try:
        definition = definition_of(
            schedule_id=str(job.id),
            namespace=namespace,
            trigger=job.trigger,
            func=func,
            args=job.args,
            kwargs=job.kwargs,
            executor=job.executor,
            options={"name": job.name, **_options(job)},
        )
        if not isinstance(job.func, Unloadable):
            load(definition.task.callable, allow, "func")
    except InvalidInput as exc:
        raise InvalidInput([*exc.problems, *problems]) from None
    if problems:
        raise InvalidInput(problems)
    return definition


def _options(job: Job) -> dict[str, Any]:
    """A pending job has no value yet for what the scheduler's defaults will fill in."""
    defaults = getattr(job._scheduler, "_job_defaults", {})
    return {name: getattr(job, name) if hasattr(job, name) else defaults.get(name) for name in _OPTIONS}


def job_of(
    definition: Definition, trigger: Trigger, next_due: int | None, scheduler: Any, alias: str, allow: AllowList
) -> Job:
    """A stored schedule as APScheduler lists it; ``next_due`` is None where it is paused."""
    task = definition.task
    job: Job = Job.__new__(Job)
    job._scheduler, job._jobstore_alias = scheduler, alias
    job.id = definition.id
    job.func_ref = task.callable
    try:
        job.func = load(task.callable, allow)
    except CalschedError:
        job.func = Unloadable(task.callable)
    job.args = tuple(values.decode(list(task.args)))
    job.kwargs = dict(values.decode(dict(task.kwargs)))
    job.executor = task.executor
    job.trigger = from_definition(definition, trigger)
    job.next_run_time = None if next_due is None else _local(next_due, scheduler)
    kept = definition.apscheduler or {}
    job.name = kept.get("name") or definition.description or definition.id
    grace = kept.get("misfire_grace_time")
    job.misfire_grace_time = None if grace is None else grace // 1000
    job.coalesce = bool(kept.get("coalesce", True))
    job.max_instances = int(kept.get("max_instances", definition.max_concurrent))
    return job


def _local(instant: int, scheduler: Any) -> datetime:
    zone = getattr(scheduler, "timezone", None)
    moment = to_datetime(instant)
    return moment if zone is None else moment.astimezone(zone)


# --- what a job's next run time means ---------------------------------------------------------------------------------


def instant_of(moment: datetime | None) -> int | None:
    return None if moment is None else to_millis(moment)


def is_own_slot(trigger: BaseTrigger, source: Trigger, at: int, now: int) -> bool:
    """Whether ``at`` is the next run time that the trigger gives by itself, rather than one that was set by hand."""
    jitter = int(1000 * (getattr(_inner(trigger), "jitter", None) or 0))
    first = source.first_at_or_after(now)
    # APScheduler's clock has microseconds: within the millisecond of a slot it has passed that slot, and ours has not
    following = source.next_after(now) if first == now else None
    if any(slot is not None and 0 <= at - slot <= jitter for slot in (first, following)):
        return True
    return now - A_MOMENT <= at < now and source.first_at_or_after(at) == at


def just_passed(definition: Definition, source: Trigger, now: int) -> int | None:
    """The last slot of a rule that is over, if it is on time still: an app may take a moment from add_job to start."""
    if source.first_at_or_after(now) is not None:
        return None
    last = source.last_at_or_before(now)
    return last if last is not None and now - last <= definition.grace else None


def _inner(trigger: BaseTrigger) -> BaseTrigger:
    return trigger.trigger if isinstance(trigger, DurableTrigger) else trigger


def has_implied_start(trigger: BaseTrigger, now: int) -> bool:
    """Whether an interval begins an interval after it was made, because nobody said when.

    Its microseconds tell. One start in a thousand falls on a whole millisecond: then it is implied where it lies one
    interval after a moment that has just been, and on no whole second.
    """
    inner = _inner(trigger)
    if type(inner) is not IntervalTrigger:
        return False
    if inner.start_date.microsecond % 1000:
        return True
    made = to_millis(inner.start_date - inner.interval)
    return inner.start_date.microsecond != 0 and now - A_MOMENT <= made <= now


def keep_cadence(new: Definition, old: Definition, trigger: BaseTrigger, now: int) -> Definition:
    """An interval without a start of its own goes on as it was: registering it again must not put it off."""
    spec, before = new.trigger, _unwrapped(old.trigger)
    if not has_implied_start(trigger, now) or before.get("class") != "interval":
        return new
    if any(spec.get(key) != before.get(key) for key in ("kind", "intervalMs", "end", "timezone")):
        return new
    return dataclasses.replace(new, trigger=before)


def _unwrapped(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return spec["then"] if spec.get("kind") == StartingAtTrigger.kind else spec


def says_the_same(new: Definition, old: Definition) -> bool:
    """Apart from a first run that was set by hand."""
    return dataclasses.replace(old, trigger=_unwrapped(old.trigger)).material() == new.material()


def starting_at(definition: Definition, source: Trigger, first: int) -> Definition:
    return dataclasses.replace(definition, trigger=StartingAtTrigger(first, source).spec())
