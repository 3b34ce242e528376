"""``durable(trigger, **policies)``: an APScheduler trigger that carries the policies of a schedule.

APScheduler has no place for them in ``add_job``, so they travel with the trigger. Without ``durable`` a job keeps
APScheduler's own ``coalesce``, ``misfire_grace_time`` and ``max_instances``, with their documented meaning.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from apscheduler.triggers.base import BaseTrigger

from calsched import values
from calsched.clock import LAST_INSTANT, to_millis, to_rfc3339
from calsched.errors import InvalidInput, Problem
from calsched.model import Definition, Task
from calsched.runtime.callables import name_of

if TYPE_CHECKING:
    from calsched.calendars import BusinessCalendar

#: Policy in a declaration file -> attribute of the Definition. Seconds there, milliseconds here.
_SECONDS = {
    "graceSeconds": "grace",
    "maxLatenessSeconds": "max_lateness",
    "rateWindowSeconds": "rate_window",
    "retryDelaySeconds": "retry_delay",
    "retryMaxDelaySeconds": "retry_max_delay",
    "timeoutSeconds": "timeout",
    "maxElapsedSeconds": "max_elapsed",
    "deadlineSeconds": "deadline",
    "jitterSeconds": "jitter",
}
_PLAIN = {
    "description": "description",
    "owner": "owner",
    "misfire": "misfire",
    "replayLimit": "replay_limit",
    "maxCatchUp": "max_catch_up",
    "overlap": "overlap",
    "maxQueued": "max_queued",
    "maxConcurrent": "max_concurrent",
    "maxOccurrences": "max_occurrences",
    "expiresAt": "expires_at",
    "rateLimit": "rate_limit",
    "admission": "admission",
    "maxRetries": "max_retries",
    "maxAttempts": "max_attempts",
    "maxRepeatedFailures": "max_repeated_failures",
    "retryBackoff": "retry_backoff",
    "onInterrupted": "on_interrupted",
    "pauseAfterFailures": "pause_after_failures",
    "backlog": "backlog",
    "blackouts": "blackouts",
    "verify": "verify",
}
_BY_ATTRIBUTE = {attribute: word for word, attribute in (*_SECONDS.items(), *_PLAIN.items())}
_WORDS = {*_SECONDS, *_PLAIN}


def durable(trigger: BaseTrigger, **policies: Any) -> DurableTrigger:
    """A trigger with policies, in the words of the declaration files or in Python's (``maxCatchUp``, ``max_catch_up``).

    Lengths of time are seconds or a ``timedelta``, with or without the word at the end (``grace=30``,
    ``graceSeconds=30``); instants are aware datetimes or RFC 3339. Raises InvalidInput with every problem at once.
    """
    if not isinstance(trigger, BaseTrigger):
        raise InvalidInput([Problem(f"expected a trigger, got {type(trigger).__name__}", "trigger")])
    if isinstance(trigger, DurableTrigger):
        policies = {**trigger.policies, **_in_words(policies)}
        trigger = trigger.trigger
    made = DurableTrigger(trigger, _in_words(policies))
    made.attributes()
    return made


class DurableTrigger(BaseTrigger):  # type: ignore[misc]
    """What ``durable`` makes: ``trigger``, and ``policies`` in the words of the declaration files."""

    __slots__ = ("policies", "trigger")

    def __init__(self, trigger: BaseTrigger, policies: Mapping[str, Any]) -> None:
        self.trigger = trigger
        self.policies = dict(policies)

    def attributes(self) -> dict[str, Any]:
        """The policies as attributes of a Definition. Raises InvalidInput with every problem."""
        return checked(self.policies)

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        found: datetime | None = self.trigger.get_next_fire_time(previous_fire_time, now)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {"version": 1, "trigger": self.trigger, "policies": self.policies}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.trigger, self.policies = state["trigger"], dict(state["policies"])

    def __str__(self) -> str:
        return str(self.trigger)

    def __repr__(self) -> str:
        return f"durable({self.trigger!r}{''.join(f', {k}={v!r}' for k, v in self.policies.items())})"


# --- the words --------------------------------------------------------------------------------------------------------


def _in_words(policies: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    problems: list[Problem] = []
    for key, value in policies.items():
        word = _word(key)
        if word is None:
            problems.append(Problem(f"unknown policy {key!r}", key, hint=_nearest(key)))
        elif word in out:
            problems.append(Problem(f"given twice, as {word!r} too", key))
        else:
            out[word] = _plain(word, value, problems)
    if problems:
        raise InvalidInput(problems)
    return {word: value for word, value in out.items() if value is not None}


def _word(key: str) -> str | None:
    if key in _WORDS:
        return key
    camel = "".join(part if i == 0 else part.capitalize() for i, part in enumerate(key.split("_")))
    for candidate in (camel, camel + "Seconds", _BY_ATTRIBUTE.get(key, "")):
        if candidate in _WORDS:
            return candidate
    return None


def _nearest(key: str) -> str:
    known = [*_BY_ATTRIBUTE, *_WORDS]
    near = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {near[0]!r}?" if near else "see the declaration reference for all of them"


def _plain(word: str, value: Any, problems: list[Problem]) -> Any:
    if isinstance(value, timedelta):
        value = value / timedelta(seconds=1)
        return int(value) if value == int(value) else value
    if isinstance(value, datetime):
        if value.tzinfo is None:
            problems.append(Problem("expected a time with a zone", word, hint="naive times name no instant"))
            return None
        return to_rfc3339(to_millis(value))
    if word == "verify" and value is not None:
        try:
            return name_of(value, word)
        except InvalidInput as exc:
            problems.extend(exc.problems)
            return None
    return value


# --- to a definition --------------------------------------------------------------------------------------------------


def checked(policies: Mapping[str, Any]) -> dict[str, Any]:
    """Policies in the file's words as attributes of a Definition (and ``verify``)."""
    given = dict(policies)
    verify = given.pop("verify", None)
    from calsched.declare import from_keywords

    out = dict(from_keywords(given))
    if verify is not None:
        out["verify"] = verify
    return out


def definition_of(
    *,
    schedule_id: str,
    namespace: str,
    trigger: BaseTrigger,
    func: Any,
    args: Any,
    kwargs: Any,
    executor: str,
    options: Mapping[str, Any],
) -> Definition:
    """The definition of an APScheduler job. Raises InvalidInput with every problem at once.

    ``options`` are APScheduler's: name, coalesce, misfire_grace_time (seconds or None), max_instances.
    """
    problems: list[Problem] = []
    ref = _collect(problems, lambda: name_of(func, "func"), "")
    plain_args = _collect(problems, lambda: [values.encode(v, f"args[{i}]") for i, v in enumerate(args)], [])
    plain_kwargs = _collect(problems, lambda: {k: values.encode(v, f"kwargs.{k}") for k, v in kwargs.items()}, {})
    policies: dict[str, Any] = {}
    inner = trigger
    if isinstance(trigger, DurableTrigger):
        inner = trigger.trigger
        policies = _collect(problems, trigger.attributes, {})
    spec, jitter = _collect(problems, lambda: to_spec(inner), ({}, 0))
    if schedule_id == "" or len(schedule_id) > 255:
        problems.append(Problem("expected 1 to 255 characters", "id"))
    if problems:
        raise InvalidInput(problems)
    verify = policies.pop("verify", None)
    if jitter:
        policies.setdefault("jitter", jitter)
    if not isinstance(trigger, DurableTrigger):
        policies |= {"misfire": "apscheduler", "overlap": "apscheduler", "pause_after_failures": 0}
    task = Task(callable=ref, args=tuple(plain_args), kwargs=plain_kwargs, executor=executor, verify=verify)
    kept = options if not isinstance(trigger, DurableTrigger) else {"name": options["name"]}
    return Definition(
        id=schedule_id, namespace=namespace, trigger=spec, task=task, apscheduler=_stored_options(kept), **policies
    )


def carried_calendars(trigger: BaseTrigger) -> dict[str, BusinessCalendar]:
    """The business calendars that a trigger brings along, by name. Raises InvalidInput for those of other classes."""
    from calsched.calendars import BusinessCalendar
    from calsched.triggers.foreign import calendars_in

    carried: dict[str, BusinessCalendar] = {}
    for name, found in calendars_in(trigger.trigger if isinstance(trigger, DurableTrigger) else trigger).items():
        if not isinstance(found, BusinessCalendar):
            kind = f"{type(found).__module__}.{type(found).__qualname__}"
            hint = "make it with calsched.calendars.define(name, …)"
            raise InvalidInput([Problem(f"calendar {name!r} of class {kind} cannot be stored", "trigger", hint=hint)])
        carried[name] = found
    return carried


def _collect(problems: list[Problem], make: Any, otherwise: Any) -> Any:
    try:
        return make()
    except InvalidInput as exc:
        problems.extend(exc.problems)
        return otherwise


def _stored_options(options: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(options)
    grace = out.get("misfire_grace_time")
    if grace is not None:
        out["misfire_grace_time"] = grace * 1000
    return out


def to_spec(trigger: BaseTrigger) -> tuple[dict[str, Any], int]:
    """The stored form of a trigger, and its jitter in milliseconds. Raises InvalidInput where it has no such form."""
    from calsched.triggers.base import Trigger

    if isinstance(trigger, Trigger):
        return trigger.spec(), 0
    from calsched.triggers.foreign import ForeignTrigger

    jitter = getattr(trigger, "jitter", None) or 0
    return ForeignTrigger(trigger).spec(), int(jitter * 1000)


def from_definition(definition: Definition, trigger: BaseTrigger) -> BaseTrigger:
    """The trigger as the app gave it: APScheduler's own unwrapped, policies around it where it had some."""
    from calsched.triggers.starting_at import StartingAtTrigger

    if isinstance(trigger, StartingAtTrigger):
        trigger = trigger.then
    inner = _native(trigger, definition.jitter)
    if definition.misfire == "apscheduler":
        return inner
    return DurableTrigger(inner, policies_of(definition))


def _native(trigger: BaseTrigger, jitter: int) -> BaseTrigger:
    native = getattr(trigger, "native", None)
    if native is None:
        return trigger
    if jitter and hasattr(native, "jitter"):
        native = copy.copy(native)  # shared by all who built the same trigger
        native.jitter = jitter // 1000 if jitter % 1000 == 0 else jitter / 1000
    return native


def policies_of(definition: Definition) -> dict[str, Any]:
    """The policies of a definition that are not the defaults, in the file's words."""
    bare = Definition(id="", trigger={}, task=definition.task)
    out: dict[str, Any] = {}
    for attribute, word in _BY_ATTRIBUTE.items():
        if attribute == "verify":
            value, default = definition.task.verify, None
        else:
            value, default = getattr(definition, attribute), getattr(bare, attribute)
        if value == default:
            continue
        out[word] = _as_written(word, value)
    return out


def _as_written(word: str, value: Any) -> Any:
    if word in _SECONDS:
        return value // 1000 if value % 1000 == 0 else value / 1000
    if word == "expiresAt":
        return to_rfc3339(min(value, LAST_INSTANT))
    return [dict(window) for window in value] if word == "blackouts" else value
