"""The values that the rooms hand to each other. Frozen, without behaviour beyond reading themselves.

Every instant is an ``int`` of milliseconds since the Unix epoch (UTC); every duration an ``int`` of milliseconds.
Words are those of ``docs/glossary.md``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Misfire = Literal["runOnce", "skip", "boundedReplay", "catchUp", "apscheduler"]
Overlap = Literal["queue", "skip", "coalesce", "allow", "apscheduler"]
ScheduleState = Literal["enabled", "disabled", "paused", "ended", "cancelled"]
OccurrenceState = Literal[
    "waiting",
    "ready",
    "claimed",
    "running",
    "retrying",
    "succeeded",
    "failed",
    "timed_out",
    "interrupted",
    "cancelled",
    "skipped",
]
Series = Literal["slot", "manual", "backfill"]

#: States in which an occurrence still is work; the others are final.
OPEN_STATES: tuple[OccurrenceState, ...] = ("waiting", "ready", "claimed", "running", "retrying")
FINAL_STATES: tuple[OccurrenceState, ...] = (
    "succeeded",
    "failed",
    "timed_out",
    "interrupted",
    "cancelled",
    "skipped",
)

#: Why a slot has no occurrence of its own, or why an occurrence was skipped.
SkipReason = Literal[
    "misfire",  # late, and the misfire policy drops late slots
    "replayLimit",  # beyond what boundedReplay replays
    "overlap",  # the schedule had pending work
    "queueFull",  # maxQueued waits already
    "maxOccurrences",  # the budget is used up (uncounted)
    "expired",  # past expiresAt
    "maxLateness",  # admission limit
    "rateLimit",  # admission limit
    "operator",  # skip-next, skip ID INSTANT
    "blackout",  # a declared window in which nothing is dispatched
    "disabled",  # passed over while disabled or paused by failures (uncounted)
    "revised",  # due but unjudged when the revision was replaced (uncounted)
    "cancelled",  # due but unjudged when the revision was cancelled (uncounted)
    "backlog",  # dropped by `backlog drop | latest` after a restore (uncounted)
    "maxInstances",  # APScheduler's max_instances
]


def canonical_json(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no white space, UTF-8 characters as they are (no NaN)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON, as ``sha256:`` and 64 hex digits."""
    return "sha256:" + hashlib.sha256(canonical_json(value).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Task:
    """What a schedule does. Kind ``python`` calls ``callable``; kind ``ready`` is left to a host (seed 000)."""

    kind: Literal["python", "ready"] = "python"
    callable: str = ""  # exactly "module:name"
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    executor: str = "default"
    verify: str | None = None  # "module:name" that accepts or refuses the result
    input: Any = None  # ready: the template payload
    work_order_id: str | None = None
    run_id: str | None = None
    task_class: str | None = None

    def material(self) -> dict[str, Any]:
        if self.kind == "ready":
            return {
                "kind": "ready",
                "workOrderId": self.work_order_id,
                "runId": self.run_id,
                "taskClass": self.task_class,
                "payload": self.input,
            }
        out: dict[str, Any] = {
            "kind": "python",
            "callable": self.callable,
            "args": list(self.args),
            "kwargs": dict(self.kwargs),
            "executor": self.executor,
        }
        if self.verify is not None:
            out["verify"] = self.verify
        return out

    @classmethod
    def from_material(cls, plain: Mapping[str, Any]) -> Task:
        if plain["kind"] == "ready":
            return cls(
                kind="ready",
                work_order_id=plain["workOrderId"],
                run_id=plain["runId"],
                task_class=plain["taskClass"],
                input=plain["payload"],
            )
        return cls(
            callable=plain["callable"],
            args=tuple(plain["args"]),
            kwargs=plain["kwargs"],
            executor=plain["executor"],
            verify=plain.get("verify"),
        )


@dataclass(frozen=True, slots=True)
class Definition:
    """The resolved material of one revision: every default filled in, every duration in milliseconds.

    ``args`` and ``kwargs`` of the task are in the stored, tagged form (``calsched.values``).
    ``trigger`` is the canonical stored form (``calsched.triggers.build`` reads it).
    """

    id: str
    trigger: Mapping[str, Any]
    task: Task
    namespace: str = "default"
    description: str = ""
    owner: str | None = None  # who declared it; `apply --prune` retires its own only
    misfire: Misfire = "runOnce"
    grace: int = 60_000
    replay_limit: int | None = None
    max_catch_up: int = 10
    overlap: Overlap = "coalesce"
    max_queued: int = 1000
    max_concurrent: int = 1
    max_occurrences: int | None = None
    expires_at: int | None = None
    max_lateness: int | None = None
    rate_limit: int | None = None
    rate_window: int | None = None
    admission: Literal["each", "strict"] = "each"
    max_retries: int = 0
    max_attempts: int = 20
    max_repeated_failures: int | None = None
    retry_delay: int = 10_000
    retry_backoff: float = 2.0
    retry_max_delay: int = 3_600_000
    timeout: int | None = None
    max_elapsed: int | None = None
    deadline: int | None = None
    on_interrupted: Literal["never", "retry"] = "never"
    pause_after_failures: int = 5  # 0: never
    backlog: Literal["fromNow", "fromStart"] = "fromNow"
    jitter: int = 0
    blackouts: tuple[Mapping[str, Any], ...] = ()
    calendars: Mapping[str, int] = field(default_factory=dict)  # name -> version that the material was resolved with
    apscheduler: Mapping[str, Any] | None = None  # coalesce, misfire_grace_time (ms or None), max_instances, name

    def material(self) -> dict[str, Any]:
        """Plain JSON values, in the words of the declaration files; the digest is taken over this."""
        out: dict[str, Any] = {name: getattr(self, attribute) for attribute, name in _KEYS.items()}
        for attribute, name in _SECONDS.items():
            value = getattr(self, attribute)
            out[name] = None if value is None else _seconds(value)
        out["trigger"] = dict(self.trigger)
        out["task"] = self.task.material()
        out["blackouts"] = [dict(window) for window in self.blackouts]
        out["calendars"] = dict(self.calendars)
        out["apscheduler"] = None if self.apscheduler is None else dict(self.apscheduler)
        return {"format": 1, **{name: value for name, value in out.items() if value is not None}}

    @classmethod
    def from_material(cls, plain: Mapping[str, Any]) -> Definition:
        values: dict[str, Any] = {a: plain[name] for a, name in _KEYS.items() if name in plain}
        values.update({a: _millis(plain[name]) for a, name in _SECONDS.items() if name in plain})
        values["trigger"] = plain["trigger"]
        values["task"] = Task.from_material(plain["task"])
        values["blackouts"] = tuple(plain.get("blackouts", ()))
        values["calendars"] = plain.get("calendars", {})
        values["apscheduler"] = plain.get("apscheduler")
        return cls(**values)

    def digest(self) -> str:
        """Over all that decides what happens; a description or a declaring owner may change without a new revision."""
        return digest_of_material(self.material())


def digest_of_material(material: Mapping[str, Any]) -> str:
    """The digest of a definition, from its material as it is or as it was stored."""
    return digest({name: value for name, value in material.items() if name not in ("description", "owner")})


_KEYS = {
    "id": "id",
    "namespace": "namespace",
    "description": "description",
    "owner": "owner",
    "misfire": "misfire",
    "replay_limit": "replayLimit",
    "max_catch_up": "maxCatchUp",
    "overlap": "overlap",
    "max_queued": "maxQueued",
    "max_concurrent": "maxConcurrent",
    "max_occurrences": "maxOccurrences",
    "expires_at": "expiresAtMs",
    "rate_limit": "rateLimit",
    "admission": "admission",
    "max_retries": "maxRetries",
    "max_attempts": "maxAttempts",
    "max_repeated_failures": "maxRepeatedFailures",
    "retry_backoff": "retryBackoff",
    "on_interrupted": "onInterrupted",
    "pause_after_failures": "pauseAfterFailures",
    "backlog": "backlog",
}
_SECONDS = {
    "grace": "graceSeconds",
    "max_lateness": "maxLatenessSeconds",
    "rate_window": "rateWindowSeconds",
    "retry_delay": "retryDelaySeconds",
    "retry_max_delay": "retryMaxDelaySeconds",
    "timeout": "timeoutSeconds",
    "max_elapsed": "maxElapsedSeconds",
    "deadline": "deadlineSeconds",
    "jitter": "jitterSeconds",
}


def _seconds(millis: int) -> int | float:
    return millis // 1000 if millis % 1000 == 0 else millis / 1000


def _millis(seconds: int | float) -> int:
    return round(seconds * 1000)


class Cursor(NamedTuple):
    """Where a revision stands: the next slot, and the last one that was judged."""

    next_ordinal: int
    next_due: int | None  # None: no further slot, or not collecting (disabled, paused by failures)
    last_due: int | None = None
    last_local: str | None = None  # nominal local time of the last judged slot, "2026-03-08T09:00:00"


class Pending(NamedTuple):
    """A schedule's open work of the slot and manual series, over all revisions and owners."""

    waiting: int = 0  # behind the head(s)
    ready: int = 0  # heads that nobody has claimed
    active: int = 0  # claimed or running
    retrying: int = 0  # heads between attempts
    fold_into: FoldTarget | None = None  # the newest unclaimed occurrence of the same revision (slot series)
    free_slots: tuple[int, ...] = (0,)  # active slots not taken, ascending

    @property
    def total(self) -> int:
        return self.waiting + self.ready + self.active + self.retrying


class FoldTarget(NamedTuple):
    pk: int
    ordinal: int
    represents_last: int
    range_pk: int | None  # the range row that the last fold wrote, if it ends at represents_last


class PlannedOccurrence(NamedTuple):
    """A row to be written. ``represents`` covers its own ordinal."""

    ordinal: int
    due: int
    state: Literal["ready", "waiting"]
    active_slot: int | None  # set where state is ready
    represents_first: int
    represents_last: int
    represents_first_due: int


class PlannedRange(NamedTuple):
    """Consecutive slots that share a verdict. Exactly one of reason and occurrence is set."""

    first: int
    last: int
    first_due: int
    last_due: int
    reason: SkipReason | None = None  # skipped
    represented_by: int | None = None  # ordinal of an occurrence planned in the same tick
    folded_into: int | None = None  # pk of an occurrence that waits already
    extends: int | None = None  # pk of the range row that this one extends (then first… are the added part)
    counted: bool = True  # uses 1 of maxOccurrences


class TickPlan(NamedTuple):
    """What one tick decided for one schedule. Stores commit it whole or not at all."""

    occurrences: Sequence[PlannedOccurrence] = ()
    ranges: Sequence[PlannedRange] = ()
    cursor: Cursor | None = None  # None: the cursor stays (nothing due, or a strict refusal)
    used: int = 0  # added to the budget's use
    ended: str | None = None  # "exhausted", "maxOccurrences", "expired": the move to ended
    refused: str | None = None  # admission strict: why the whole batch was refused
    more: bool = False  # slots that are due stay due for the next tick


class Failure(NamedTuple):
    """What went wrong in an attempt, for people."""

    type: str
    message: str
    traceback: str = ""


class Outcome(NamedTuple):
    """How an attempt ended, as its runner reports it."""

    occurrence: int  # pk
    attempt: int
    state: Literal["succeeded", "failed", "timed_out", "interrupted", "cancelled"]
    ended_at: int
    elapsed: int  # execution time of this attempt, by the monotonic clock
    result: str | None = None  # JSON text
    failure: Failure | None = None
    clean_stop: bool = False  # the owner stopped in good order: not counted as a failure
    started_at: int | None = None


class Claimed(NamedTuple):
    """A claim: all that a runner needs, and nothing that it has to look up."""

    occurrence: int  # pk
    schedule: int  # pk
    namespace: str
    schedule_id: str
    revision: int
    revision_pk: int
    series: Series
    ordinal: int
    due: int
    run_at: int
    attempt: int  # number of the attempt that this claim starts, from 1
    represents_first: int
    represents_last: int
    represents_first_due: int
    deadline: int | None  # instant
    active_slot: int
    epoch: int
    elapsed: int  # execution time of earlier attempts
    expires_at: int | None


class Unread(NamedTuple):
    """A schedule with work that may start, of which this process cannot read the definition."""

    schedule_pk: int
    namespace: str
    schedule_id: str
    problem: str


@dataclass(frozen=True, slots=True)
class OccurrenceKey:
    """Identity of an occurrence; computed, never drawn (seed 000: an unambiguous JSON tuple)."""

    installation: str
    namespace: str
    schedule_id: str
    revision: int
    ordinal: int
    series: Series = "slot"

    def __str__(self) -> str:
        parts: list[Any] = [self.installation, self.namespace, self.schedule_id, self.revision, str(self.ordinal)]
        if self.series != "slot":
            parts.append(self.series)
        return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
