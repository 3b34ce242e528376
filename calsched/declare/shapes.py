"""The shape of a declaration: every key with its type, bounds, default and meaning. The reference and the JSON Schema
are generated from here.

A shape judges one key at a time; what two keys say together is judged in ``resolve``. Defaults stand here for people
and editors; code asks ``model_fields_set`` which keys were given. Where the design leaves a bound open (seed 003 names
the budgets, but its table is lost), it is set here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from calsched.declare.lengths import Length

DAY = 86_400
_ID_LENGTH, _NAME_LENGTH = 200, 100
MAX_CONCURRENT = 1_000


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, frozen=True)


def _bad(message: str, hint: str = "") -> PydanticCustomError:
    return PydanticCustomError("said", "{said}", {"said": message, "hint": hint})


def _printable(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise PydanticCustomError("expected", "printable")
    return text


def _words(longest: int) -> Any:
    what = f"1 to {longest} printable characters without space at the ends"
    return Field(min_length=1, max_length=longest, json_schema_extra={"x-expected": what})


def _instant(value: Any) -> int:
    from calsched.triggers.fields import Bad, as_instant

    try:
        return as_instant(value)
    except Bad as bad:
        raise _bad(bad.message, bad.hint) from None


Seconds = Annotated[float, Field(json_schema_extra={"x-unit": "seconds"})]
Instant = Annotated[
    Any,
    BeforeValidator(_instant),
    WithJsonSchema(
        {"type": "string", "format": "date-time", "x-expected": "an RFC 3339 time such as '2026-10-12T09:00:00Z'"}
    ),
]
Id = Annotated[str, _words(_ID_LENGTH), AfterValidator(_printable)]
Name = Annotated[str, _words(_NAME_LENGTH), AfterValidator(_printable)]
CallableRef = Annotated[
    str,
    Field(
        pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*$",
        max_length=300,
        json_schema_extra={"x-expected": "'module:name', the name without dots"},
    ),
]
Provider = Annotated[
    str,
    Field(
        pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)*(:([^\W\d]\w*|\*))?$",
        max_length=300,
        json_schema_extra={"x-expected": "a module, 'module:name' or 'module:*'"},
    ),
]
Misfire = Literal[
    "runOnce",
    "skip",
    "boundedReplay",
    "catchUp",
    "COALESCE_ONE",
    "SKIP",
    "BOUNDED_REPLAY",
    "LATEST",
    "ALL",
    "apscheduler",
]
CatchUp = Literal["COALESCE_ONE", "SKIP", "BOUNDED_REPLAY", "LATEST", "ALL"]
Overlap = Literal["queue", "skip", "coalesce", "allow", "apscheduler"]


class PythonTask(Shape):
    """A task that calsched runs: a callable with its arguments."""

    kind: Literal["python"] = Field(default="python", json_schema_extra={"x-expected": "python or ready"})
    callable: CallableRef = Field(description="What is called, as `module:name`: a function or class of that module")
    args: list[Any] = Field(default=[], description="Positional arguments: JSON values, and tagged ones (see below)")
    kwargs: dict[str, Any] = Field(default={}, description="Named arguments")
    executor: Name = Field(default="default", description="Alias of the pool of workers that runs it")
    verify: CallableRef | None = Field(
        default=None, description="A callable that is given the result; what it refuses is a failed attempt"
    )


class ReadyTask(Shape):
    """A task that calsched does not run: each occurrence is made ready for a host to claim."""

    kind: Literal["ready"] = Field(default="ready", json_schema_extra={"x-expected": "python or ready"})
    work_order_id: Name | None = Field(default=None, description="The host's work order")
    run_id: Name | None = Field(default=None, description="The host's run")
    task_class: Name = Field(description="What the host does with it")
    payload: Any = Field(
        default=None,
        description="Each occurrence carries it as its input",
        json_schema_extra={"x-expected": "any JSON value"},
    )


def _task_tag(value: Any) -> str | None:
    if isinstance(value, str):
        return "‹text›"
    if not isinstance(value, dict):
        return None
    if value.get("kind") == "ready":
        return "‹ready›"
    looks_ready = "kind" not in value and "callable" not in value and {"taskClass", "workOrderId", "runId"} & set(value)
    return "‹ready›" if looks_ready else "‹python›"


TaskShape = Annotated[
    Annotated[CallableRef, Tag("‹text›")]
    | Annotated[PythonTask, Tag("‹python›")]
    | Annotated[ReadyTask, Tag("‹ready›")],
    Discriminator(_task_tag),
]


class RateShape(Shape):
    """At most so many occurrences within a window of time."""

    count: int = Field(ge=1, le=100_000, description="Occurrences")
    window_seconds: Seconds = Field(ge=0.001, le=366 * DAY, description="Length of the window")


class RetryShape(Shape):
    """The delays between attempts."""

    delay_seconds: Seconds = Field(ge=0, le=DAY, default=10, description="Before the first retry")
    backoff: float = Field(ge=1, le=100, default=2, description="Each delay times this is the next")
    max_delay_seconds: Seconds = Field(ge=0, le=7 * DAY, default=3600, description="No delay is longer")


class OnceBlackout(Shape):
    """A window in which nothing is dispatched."""

    from_: Instant = Field(alias="from", description="Its first instant")
    to: Instant = Field(description="Its end; work may start exactly then")
    when_due: Literal["hold", "skip"] = Field(default="hold", description="Keep what falls due for the end, or skip it")
    note: str = Field(default="", max_length=2000, description="Why, for people")


class RecurringBlackout(Shape):
    """Windows that begin at each instant of a trigger."""

    trigger: dict[str, Any] = Field(description="When each window begins; any trigger without a business calendar")
    duration_seconds: Seconds = Field(ge=0.001, le=366 * DAY, description="How long it lasts")
    when_due: Literal["hold", "skip"] = Field(default="hold", description="Keep what falls due for the end, or skip it")
    note: str = Field(default="", max_length=2000, description="Why, for people")


def _blackout_tag(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    return "‹recurring›" if "trigger" in value or "durationSeconds" in value else "‹once›"


BlackoutShape = Annotated[
    Annotated[OnceBlackout, Tag("‹once›")] | Annotated[RecurringBlackout, Tag("‹recurring›")],
    Discriminator(_blackout_tag),
]


def _rate_tag(value: Any) -> str | None:
    if isinstance(value, dict):
        return "‹mapping›"
    return "‹whole›" if isinstance(value, int) else None


RateLimitShape = Annotated[
    Annotated[int, Field(ge=1, le=100_000), Tag("‹whole›")] | Annotated[RateShape, Tag("‹mapping›")],
    Discriminator(_rate_tag),
]


class Policies(Shape):
    """What may stand in a schedule and in ``defaults`` alike."""

    namespace: Name = Field(
        default="default", description="Schedules are named within a namespace; the host's by default"
    )
    owner: Name | None = Field(
        default=None, description="Who declares it; `apply --prune` retires schedules of the same owner only"
    )
    enabled: bool = Field(default=True, description="`false` creates it disabled")
    timezone: str | None = Field(
        default=None, description="IANA zone for a trigger that names none; else the file's, else the host's"
    )

    misfire: Misfire = Field(
        default="runOnce",
        description="What happens when a due slot is late",
        json_schema_extra={"x-expected": "one of runOnce, skip, boundedReplay, catchUp"},
    )
    grace_seconds: Seconds = Field(
        ge=0, le=DAY, default=60, description="A slot is late when now − due is more than this"
    )
    replay_limit: int | None = Field(
        ge=1,
        le=100_000,
        default=None,
        description="Slots that `boundedReplay` replays; required with it, refused without it",
    )
    max_catch_up: int = Field(ge=1, le=100, default=10, description="Slots a tick with `catchUp`")
    overlap: Overlap = Field(
        default="coalesce",
        description="What happens to an occurrence while work is pending",
        json_schema_extra={"x-expected": "one of queue, skip, coalesce, allow"},
    )
    max_queued: int = Field(ge=1, le=100_000, default=1000, description="Occurrences that may wait with `queue`")
    max_concurrent: int = Field(
        ge=1,
        le=MAX_CONCURRENT,
        default=1,
        description="Occurrences that run at once with `allow` (there the default is 10)",
    )
    max_occurrences: int | None = Field(
        ge=1, le=100_000, default=None, description="Budget of a revision; then it has ended. No limit by default"
    )
    expires_at: Instant | None = Field(default=None, description="Nothing is dispatched after this instant")
    max_lateness_seconds: Seconds | None = Field(
        ge=0, le=366 * DAY, default=None, description="Admission limit: an occurrence that is later is skipped"
    )
    rate_limit: RateLimitShape | None = Field(
        default=None, description="Admission limit: occurrences a window, a number or `{count, windowSeconds}`"
    )
    rate_window_seconds: Seconds | None = Field(
        ge=0.001, le=366 * DAY, default=None, description="The window of `rateLimit`, where that is a number"
    )
    admission: Literal["each", "strict"] = Field(
        default="each",
        description="`strict`: one occurrence over a limit refuses the whole batch, and the cursor stays",
    )

    max_retries: int = Field(ge=0, le=99, default=0, description="Retries of an occurrence; less than `maxAttempts`")
    max_attempts: int = Field(ge=1, le=100, default=20, description="Attempts of an occurrence, whatever the reason")
    max_repeated_failures: int | None = Field(
        ge=1, le=100, default=None, description="Attempts in a row that may fail with the same error"
    )
    retry: RetryShape | None = Field(default=None, description="Delays between attempts, as one mapping")
    retry_delay_seconds: Seconds = Field(ge=0, le=DAY, default=10, description="Before the first retry")
    retry_backoff: float = Field(ge=1, le=100, default=2, description="Growth of the delay")
    retry_max_delay_seconds: Seconds = Field(
        ge=0, le=7 * DAY, default=3600, description="No delay is longer (at least `retryDelaySeconds`)"
    )
    timeout_seconds: Seconds | None = Field(ge=0.001, le=7 * DAY, default=None, description="Time of one attempt")
    timeout_per_stage_seconds: Seconds | None = Field(
        ge=0.001, le=7 * DAY, default=None, description="The same as `timeoutSeconds`, as long as tasks have no stages"
    )
    max_elapsed_seconds: Seconds | None = Field(
        ge=0.001, le=31 * DAY, default=None, description="Execution time of all attempts, delays not counted"
    )
    deadline_seconds: Seconds | None = Field(
        ge=0.001, le=366 * DAY, default=None, description="From the due instant; runs on through pauses and outages"
    )
    on_interrupted: Literal["never", "retry"] = Field(
        default="never", description="Whether an attempt that a crash cut off is retried"
    )
    pause_after_failures: int = Field(
        ge=0, le=1000, default=5, description="Failures in a row that pause the schedule; 0: never"
    )
    backlog: Literal["fromNow", "fromStart"] = Field(
        default="fromNow", description="Begin at the first slot from now on, or at the rule's first, however long ago"
    )
    jitter_seconds: Seconds = Field(
        ge=0, le=DAY, default=0, description="Run up to this much later, by a hash of the slot, never past the next one"
    )
    blackouts: list[BlackoutShape] = Field(
        default=[], max_length=100, description="Windows in which nothing is dispatched"
    )


class Body(Policies):
    """One schedule."""

    id: Id = Field(default="", description="Its name; of a file with one schedule, the file's name by default")
    was: Id | None = Field(default=None, description="Its former id: history is carried over from there")
    description: str = Field(default="", max_length=4000, description="For people")
    trigger: dict[str, Any] = Field(default={}, description="When it is due (see Triggers)")
    cron: str = Field(default="", description="Short for a `cron` trigger with this expression")
    every: Length = Field(default="", description="Short for an `interval` trigger: `15m`, `1h 30m`, `500ms`")
    at: str = Field(
        default="",
        description="Short for a `once` trigger at this instant",
        json_schema_extra={"x-expected": "an RFC 3339 time, or a wall time in `timezone`"},
    )
    task: TaskShape = Field(
        default="",
        description="What it does: `module:name`, or a mapping (see Tasks)",
        json_schema_extra={"x-expected": "'module:name' (the name without dots) or a mapping"},
    )
    allowed_providers: list[Provider] = Field(
        default=[], description="Narrows the host's allow list for this schedule: modules, `module:name`, `module:*`"
    )
    objective: str = Field(default="", max_length=4000, description="Seed 003's word for `description`")
    schedule_id: Id = Field(default="", description="Seed 000's word for `id`")
    revision: int | None = Field(ge=1, le=2**53 - 1, default=None, description="Seed 000: the number of this revision")
    first_tick: Any = Field(
        default=None,
        description="Seed 000: first slot of an interval; implies `backlog: fromStart`",
        json_schema_extra={"x-expected": "an RFC 3339 time"},
    )
    interval_ms: Any = Field(
        default=None,
        description="Seed 000: the interval in milliseconds",
        json_schema_extra={"x-expected": "a whole number from 1"},
    )
    catch_up: CatchUp | None = Field(default=None, description="Seeds 000 and 002: their name for the misfire policy")
    apscheduler: dict[str, Any] | None = Field(
        default=None, description="What a job of an APScheduler app was added with; not for writing by hand"
    )


class Defaults(Policies):
    """What holds for each schedule of the file that does not say otherwise."""


class File(Shape):
    """A file with several schedules."""

    schema_: str = Field(default="", alias="$schema", description="The JSON Schema, for editors; not read")
    schedules: Any = Field(
        default=None,
        description="The schedules; in a mapping the key is the id",
        json_schema_extra={"x-expected": "a list, or a mapping"},
    )
    defaults: Any = Field(
        default=None,
        description="Keys for each schedule of this file that does not say otherwise",
        json_schema_extra={"x-expected": "a mapping"},
    )
    calendars: Any = Field(
        default=None,
        description="Business calendars by name (see Business calendars)",
        json_schema_extra={"x-expected": "a mapping"},
    )
    timezone: str | None = Field(default=None, description="Zone of triggers that name none")
    namespace: Name | None = Field(default=None, description="Namespace of schedules that name none")
    owner: Name | None = Field(default=None, description="Owner of schedules that name none")


#: Not written by hand; left out of the reference.
UNDOCUMENTED = frozenset({"apscheduler"})
#: What people write who come from elsewhere, and the key that they look for.
ELSEWHERE = {
    "document": "calsched runs a task: write `task: module:name` in its place",
    "name": "the name of a schedule is its `id`",
    "schedule": "when it is due is its `trigger`",
    "interval": "write `every: 15m`, or a trigger of kind interval",
    "tz": "write `timezone`",
    "zone": "write `timezone`",
    "func": "write `task: module:name`",
    "function": "write `task: module:name`",
    "callable": "write `task: module:name`, or `task: {callable: …}`",
    "command": "calsched runs callables: write `task: module:name`",
    "args": "arguments belong to the task: `task: {callable: …, args: […]}`",
    "kwargs": "arguments belong to the task: `task: {callable: …, kwargs: {…}}`",
    "executor": "the executor belongs to the task: `task: {callable: …, executor: …}`",
    "grace": "write `graceSeconds`",
    "timeout": "write `timeoutSeconds`",
    "deadline": "write `deadlineSeconds`",
    "jitter": "write `jitterSeconds`",
    "retries": "write `maxRetries`",
    "coalesce": "write `misfire: runOnce` (late slots) or `overlap: coalesce` (pending work)",
    "concurrencyPolicy": "write `overlap`",
    "concurrency": "write `maxConcurrent`",
    "startingDeadlineSeconds": "write `graceSeconds`",
    "max_instances": "write `maxConcurrent`",
    "misfire_grace_time": "write `graceSeconds`",
    "suspend": "write `enabled: false`",
    "disabled": "write `enabled: false`",
    "tags": "calsched has no tags; `owner` and `namespace` group schedules",
}
