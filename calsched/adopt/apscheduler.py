"""The jobs of an APScheduler ``SQLAlchemyJobStore``, as declarations. Nothing of a job's pickle is ever executed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from calsched import triggers, values
from calsched.adopt import cronfields, known, pickles
from calsched.adopt.known import NotKnown, within
from calsched.adopt.oldpolicies import policies_of
from calsched.adopt.oldtriggers import KINDS, TRIGGER_NAMES, Converted, convert
from calsched.adopt.pickles import Name, Pairs, Thing, describe, shorten
from calsched.adopt.result import Adopted, Adoption, in_order
from calsched.clock import to_rfc3339
from calsched.errors import InvalidInput, Problem

#: id, next_run_time (seconds since the epoch), job_state, size of job_state in bytes.
Row = tuple[str, float | None, bytes | None, int]

NOT_STORED: Final = (
    "listeners, schedulers, executors and their sizes are not in a job store: set them up where the schedules will run"
)
MAX_ID: Final = 200
_CALLABLE: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")

#: What a stored job may name. Every other name is reported; none is ever looked up.
_KNOWN: Final = (
    TRIGGER_NAMES
    | cronfields.FIELD_NAMES
    | cronfields.EXPRESSION_NAMES
    | known.KNOWN_NAMES
    | {Name("builtins", "getattr"), Name("builtins", "object"), Name("_codecs", "encode")}
    | {Name("builtins", "bytes")}
    | {Name("copyreg", "_reconstructor"), Name("zoneinfo", "ZoneInfo"), Name("backports.zoneinfo", "ZoneInfo")}
)
#: Modules whose functions make a pickle an attack; their presence is said in plain words.
_ATTACKS: Final = frozenset(
    {"os", "posix", "nt", "subprocess", "builtins", "sys", "shutil", "importlib", "runpy", "ctypes", "socket", "pty"}
    | {"code", "codecs", "_codecs", "commands", "operator", "functools", "types", "marshal", "pickle", "webbrowser"}
    | {"multiprocessing", "asyncio", "urllib", "http", "ftplib", "timeit", "pdb", "cProfile", "profile", "imp", "pip"}
)
#: Of ``builtins``, what is only a container or a number.
_HARMLESS: Final = frozenset({"set", "frozenset", "bytearray", "complex", "range", "slice", "object"})


@dataclass(slots=True)
class _Job:
    """What was found of one job so far."""

    id: str
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def refuse(self, path: str, message: str, hint: str = "") -> None:
        where = f"jobs[{shorten(self.id, 60)}].{path}"
        self.problems.append(Problem(message, where, hint=hint))


def adopt_apscheduler(
    rows: Iterable[Row], *, executors: Collection[str] = ("default",), now: int | None = None
) -> Adoption:
    """What each stored job becomes.

    ``executors`` are the aliases that the host will have; ``now``, an instant, tells overdue jobs. A job is carried
    over whole or refused with every reason; the others do not suffer from it.
    """
    adoption = Adoption(notes=[NOT_STORED])
    for job_id, next_run, state, size in rows:
        job = _Job(str(job_id))
        adopted = _adopt(job, next_run, state, size, executors, now)
        if adopted is not None and not job.problems:
            adoption.schedules.append(adopted)
        adoption.refused.extend(job.problems)
    return _once(adoption)


def _once(adoption: Adoption) -> Adoption:
    """What is true of many jobs is said once, above them all."""
    count = Counter(note for adopted in adoption.schedules for note in adopted.notes)
    many = {note: number for note, number in count.items() if number > 2}
    schedules = [replace(a, notes=tuple(note for note in a.notes if note not in many)) for a in adoption.schedules]
    notes = [*adoption.notes, *(f"{number} jobs: {note}" for note, number in many.items())]
    return replace(adoption, schedules=schedules, notes=notes)


def _adopt(
    job: _Job, next_run: float | None, data: bytes | None, size: int, executors: Collection[str], now: int | None
) -> Adopted | None:
    if not job.id.isprintable() or job.id != job.id.strip() or not 0 < len(job.id) <= MAX_ID:
        job.refuse("id", f"expected 1 to {MAX_ID} printable characters", "give the job another id before it is adopted")
    state = _state(job, data, size)
    if state is None:
        return None
    converted = _trigger(job, state, next_run)
    task = _task(job, state, executors)
    policies = _policies(job, state)
    if converted is None or task is None or policies is None or job.problems:
        return None
    body: dict[str, Any] = {**_description(state, task), "trigger": converted.spec, "task": task, **policies}
    if converted.jitter:
        body["jitterSeconds"] = converted.jitter
    _next_run(job, converted, body, next_run, now)
    return Adopted(job.id, converted.text, body, notes=in_order(converted.notes, job.notes))


# --- the pickle --------------------------------------------------------------------------------------------


def _state(job: _Job, data: bytes | None, size: int) -> Pairs | None:
    if not isinstance(data, bytes):
        much = f"{size} bytes; at most {pickles.MAX_BYTES} are read" if size > pickles.MAX_BYTES else "no bytes"
        job.refuse("job_state", f"expected a pickled job, got {much}")
        return None
    try:
        found = pickles.read(data)
    except pickles.Unreadable as unreadable:
        job.refuse("job_state", f"not a job that APScheduler stored: {unreadable}; nothing of it was executed")
        return None
    if not isinstance(found.value, Pairs):
        job.refuse("job_state", f"expected the state of a job, got {describe(found.value)}; nothing was executed")
        _strangers(job, found.names, found.value)
        return None
    _strangers(job, found.names, found.value.get("trigger"))
    return _checked_version(job, found.value)


def _checked_version(job: _Job, state: Pairs) -> Pairs | None:
    version = state.get("version", 1)
    if version != 1:
        shown = version if isinstance(version, int) else describe(version)
        job.refuse("version", f"expected a job of version 1 (APScheduler 3), got {shown}")
        return None
    return state


def _strangers(job: _Job, names: Iterable[Name], trigger: Any) -> None:
    """Report every name that no stored job needs."""
    own_trigger = trigger.name if isinstance(trigger, Thing) else None
    for name in names:
        if name in _KNOWN:
            continue
        if _attacks(name) and name != own_trigger:
            job.refuse(
                "job_state",
                f"the pickle would call {name} when it is loaded; it was not loaded, and nothing was called",
                "no job of APScheduler does that: find out who wrote this row, and delete it",
            )
        elif name == own_trigger:
            job.refuse("trigger", f"a trigger of class {name}; expected one of {', '.join(KINDS)}", "declare it anew")
        else:
            job.refuse("job_state", f"an object of {name}, which cannot be a JSON value", "pass its parts instead")


def _attacks(name: Name) -> bool:
    if name.module == "builtins" and name.name in _HARMLESS:
        return False
    return name.module.partition(".")[0] in _ATTACKS


# --- the parts of a job ------------------------------------------------------------------------------------


def _trigger(job: _Job, state: Pairs, next_run: float | None) -> Converted | None:
    thing = state.get("trigger")
    if not isinstance(thing, Thing):
        job.refuse("trigger", f"expected a trigger, got {describe(thing)}")
        return None
    if thing.name not in TRIGGER_NAMES:
        return None  # reported as a stranger
    try:
        converted = convert(thing.name, thing.state, _millis(next_run))
        triggers.build(converted.spec)
    except NotKnown as unknown:
        job.refuse(f"trigger.{unknown.path}".rstrip("."), unknown.message)
        return None
    except InvalidInput as invalid:
        for problem in invalid.problems:
            job.refuse(f"trigger.{problem.path}".rstrip("."), problem.message, problem.hint)
        return None
    return converted


def _task(job: _Job, state: Pairs, executors: Collection[str]) -> Any:
    before = len(job.problems)
    callable_ = _callable(job, state.get("func"))
    arguments = known.Arguments()
    args = _listed(job, state.get("args"), arguments)
    kwargs = _mapped(job, state.get("kwargs"), arguments)
    for path, message in arguments.problems:
        job.refuse(path, message)
    job.notes += arguments.changed
    executor = _executor(job, state.get("executor"), executors)
    if len(job.problems) > before:
        return None
    try:
        args, kwargs = values.encode(args, "args"), values.encode(kwargs, "kwargs")
    except InvalidInput as invalid:
        for problem in invalid.problems:
            job.refuse(problem.path, problem.message, problem.hint)
        return None
    parts = {"args": args, "kwargs": kwargs, "executor": executor if executor != "default" else None}
    given = {name: value for name, value in parts.items() if value}
    return {"callable": callable_, **given} if given else callable_


def _callable(job: _Job, value: Any) -> str:
    if not isinstance(value, str):
        job.refuse("func", f"expected a reference module:name, got {describe(value)}")
        return ""
    if value.startswith("__main__:"):
        job.refuse("func", f"{shorten(value)} is in the script that was started", "move the function into a module")
    elif "<" in value or not _CALLABLE.fullmatch(value):
        job.refuse(
            "func",
            f"expected module:name of a plain function or class, got {shorten(value)!r}",
            "lambdas, methods and nested functions cannot be found again by name; give it a function of its own",
        )
    return value


def _listed(job: _Job, value: Any, arguments: known.Arguments) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        job.refuse("args", f"expected a list, got {describe(value)}")
        return []
    return [arguments.value(item, f"args[{index}]") for index, item in enumerate(value)]


def _mapped(job: _Job, value: Any, arguments: known.Arguments) -> Any:
    if not isinstance(value, Pairs):
        job.refuse("kwargs", f"expected a dictionary, got {describe(value)}")
        return {}
    return arguments.value(value, "kwargs")


def _executor(job: _Job, value: Any, executors: Collection[str]) -> str:
    if not isinstance(value, str):
        job.refuse("executor", f"expected an alias, got {describe(value)}")
        return "default"
    if value not in executors:
        job.notes.append(
            f"executor {shorten(value, 60)!r} must exist where the schedule runs (known here: {', '.join(executors)});"
            " a job of an unknown executor waits"
        )
    return value


def _policies(job: _Job, state: Pairs) -> dict[str, Any] | None:
    coalesce, grace, instances = (state.get(key) for key in ("coalesce", "misfire_grace_time", "max_instances"))
    try:
        with within("misfire_grace_time"):
            grace = None if grace is None else known.whole(grace)
        with within("max_instances"):
            instances = known.whole(instances)
    except NotKnown as unknown:
        job.refuse(unknown.path, unknown.message)
        return None
    if (grace is not None and grace <= 0) or not 1 <= instances <= 10_000:
        job.refuse("max_instances", f"expected positive numbers, got {instances} and a grace of {grace} s")
        return None
    policies, notes = policies_of(coalesce is not False, grace, instances)
    job.notes += notes
    return policies


def _description(state: Pairs, task: Any) -> dict[str, str]:
    """APScheduler names a job after its function where nobody names it."""
    name = state.get("name")
    function = (task if isinstance(task, str) else task["callable"]).partition(":")[2]
    if not isinstance(name, str) or name == function or not name.isprintable():
        return {}
    return {"description": name[:500]}


def _next_run(job: _Job, converted: Converted, body: dict[str, Any], next_run: float | None, now: int | None) -> None:
    due = _millis(next_run)
    if due is None:
        body["enabled"] = False
        job.notes.append("it was paused; here it is disabled until you enable it")
        return
    if now is not None and due < now:
        job.notes.append(f"it was due at {to_rfc3339(due)} and had not run; here it starts with the next due time")
    if converted.jitter is None and converted.spec["kind"] != "apscheduler":
        ours = triggers.build(converted.spec).first_at_or_after(due)
        if ours != due:
            shown = "never" if ours is None else f"at {to_rfc3339(ours)}"
            job.notes.append(f"APScheduler would run it next at {to_rfc3339(due)}; by its rule it is due {shown}")


def _millis(seconds: float | None) -> int | None:
    """The column is a float of seconds; what it says is good to the microsecond."""
    return None if seconds is None else round(seconds * 1_000_000) // 1000
