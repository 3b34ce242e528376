"""A trigger cursor as a pure reducer: ``reduce(state, command, now)`` gives the next state, or refuses.

It is the interval cursor of a host that keeps its own state and calls ``tickTrigger`` when it likes, on the same
planner and policies as the rest. State and commands are plain JSON values; every number is a canonical decimal string
(``"0"``, ``"42"``: no sign, no leading zero), so that nothing is lost past 2**53. Time is milliseconds since the Unix
epoch, UTC.

Commands::

    {"type": "registerTrigger", "trigger": {…}, "replaces": ID?}    a trigger, with its schedule and limits
    {"type": "tickTrigger", "triggerId": ID, "depth": N?}           admit what is due
    {"type": "finishRun", "triggerId": ID, "slot": N}               a run has ended: it no longer counts as concurrent
    {"type": "enableTrigger" | "disableTrigger", "triggerId": ID}

A tick admits a whole batch or none of it. One occurrence that is older than ``maxAgeMs``, or one more than
``maxConcurrent`` or ``rateLimit`` per ``rateWindowMs`` allow, refuses the batch; the cursor stays, and the same tick is
refused again. Then let runs finish, or register another trigger (``replaces``): its id is a new identity, whose slots
are other slots, so account for what the old one has run already.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from typing import Any

from calsched.clock import LAST_INSTANT, to_rfc3339
from calsched.errors import InvalidInput, Problem, Refused
from calsched.model import Cursor, Definition, Misfire, Pending, Task, TickPlan
from calsched.planner import PlanInput, SlotSource, plan

State = Mapping[str, Any]
Command = Mapping[str, Any]

#: The largest batch that one tick may admit.
MAX_CATCH_UP = 10_000
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,30}")
_CRON = re.compile(r"\s*\S+(\s+\S+){4,5}\s*")
_CATCH_UP: Mapping[str, Misfire] = {"SKIP": "skip", "LATEST": "runOnce", "ALL": "catchUp"}
_LIMITS = ("notBefore", "expiresAt", "maxAgeMs", "maxConcurrent", "rateLimit", "rateWindowMs", "maxDepth")
_SCHEDULE = ("startMs", "intervalMs", "catchUp", "maxCatchUp")
_TEXTS = ("id", "revision", "kind", "source", "eventType", "contractId", "action")
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "registerTrigger": ("trigger", "replaces"),
    "tickTrigger": ("triggerId", "depth"),
    "finishRun": ("triggerId", "slot"),
    "enableTrigger": ("triggerId",),
    "disableTrigger": ("triggerId",),
}


class CommandRefused(Refused):
    """The state does not allow the command. ``reason`` is one word: age, concurrency, rate, depth, disabled …"""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


def initial() -> State:
    return {"now": "0", "triggers": {}}


def parse_command(text: str) -> Command:
    """A command from JSON text. Raises InvalidInput with everything that is wrong with it."""
    try:
        command = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"a command is a JSON object, and this is not JSON: {error}") from None
    return check(command)


def reduce(state: State, command: Command, now: str) -> State:
    """The state after a command at ``now``. The same arguments always give the same answer; none of them is changed.

    Raises InvalidInput for a command that is malformed, CommandRefused for one that the state does not allow.
    """
    check(command)
    instant = _instant("now", now)
    if instant < int(state["now"]):
        raise CommandRefused("clock", f"now is {now}, but {state['now']} was seen already; time does not run back here")
    step = _STEPS[command["type"]]
    return {**state, "now": now, "triggers": step(state["triggers"], command, instant)}


# --- what a command must look like ------------------------------------------------------------------------------------


def check(command: Any) -> Command:
    """The command itself; raises InvalidInput with every problem."""
    if not isinstance(command, Mapping):
        raise InvalidInput("a command is a JSON object with a type")
    kind = command.get("type")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise InvalidInput([Problem(f"expected one of {', '.join(_FIELDS)}, got {kind!r}", "type")])
    problems = _unknown(command, ("type", *_FIELDS[kind]), "")
    if kind == "registerTrigger":
        problems += _trigger_problems(command.get("trigger"))
    else:
        problems += _text_problems(command, ("triggerId",), "")
        problems += _decimal_problems(command, ("slot",) if kind == "finishRun" else (), "")
        problems += _decimal_problems(command, ("depth",) if "depth" in command else (), "")
    if problems:
        raise InvalidInput(problems)
    return command


def _trigger_problems(trigger: Any) -> list[Problem]:
    if not isinstance(trigger, Mapping):
        return [Problem("expected an object", "trigger")]
    at = "trigger."
    problems = _unknown(trigger, (*_TEXTS, "enabled", *_LIMITS, "schedule"), at)
    problems += _text_problems(trigger, _TEXTS, at) + _decimal_problems(trigger, ("revision", *_LIMITS), at)
    if trigger.get("kind") != "SCHEDULED":
        problems.append(Problem(f"expected 'SCHEDULED', got {trigger.get('kind')!r}", at + "kind"))
    if not isinstance(trigger.get("enabled"), bool):
        problems.append(Problem(f"expected true or false, got {trigger.get('enabled')!r}", at + "enabled"))
    return problems + _schedule_problems(trigger.get("schedule"), at + "schedule") or _order_problems(trigger)


def _schedule_problems(schedule: Any, path: str) -> list[Problem]:
    if not isinstance(schedule, Mapping):
        return [Problem("expected an object", path)]
    at = path + "."
    problems = _unknown(schedule, _SCHEDULE, at) + _decimal_problems(schedule, ("startMs", "maxCatchUp"), at)
    interval = schedule.get("intervalMs")
    if isinstance(interval, str) and _CRON.fullmatch(interval):
        what = f"expected milliseconds as a decimal string, got the cron expression {interval!r}"
        problems.append(Problem(what, at + "intervalMs", hint="this cursor knows fixed intervals only"))
    else:
        problems += _decimal_problems(schedule, ("intervalMs",), at)
    if schedule.get("catchUp") not in _CATCH_UP:
        what = f"expected one of {', '.join(_CATCH_UP)}, got {schedule.get('catchUp')!r}"
        problems.append(Problem(what, at + "catchUp"))
    return problems


def _order_problems(trigger: Mapping[str, Any]) -> list[Problem]:
    """What can be said once all fields are well formed."""
    problems = []
    schedule = trigger["schedule"]
    for path, value, most in (
        ("trigger.rateWindowMs", trigger["rateWindowMs"], LAST_INSTANT),
        ("trigger.schedule.intervalMs", schedule["intervalMs"], LAST_INSTANT),
        ("trigger.schedule.maxCatchUp", schedule["maxCatchUp"], MAX_CATCH_UP),
    ):
        if not 1 <= int(value) <= most:
            problems.append(Problem(f"expected '1' to '{most}', got {value!r}", path))
    for path, value in (
        ("trigger.notBefore", trigger["notBefore"]),
        ("trigger.expiresAt", trigger["expiresAt"]),
        ("trigger.schedule.startMs", schedule["startMs"]),
    ):
        if int(value) > LAST_INSTANT:
            problems.append(Problem("expected an instant before the year 10000", path))
    if int(trigger["expiresAt"]) < int(trigger["notBefore"]):
        problems.append(Problem("expected an instant at or after notBefore", "trigger.expiresAt"))
    return problems


def _unknown(given: Mapping[str, Any], known: tuple[str, ...], at: str) -> list[Problem]:
    what = f"unknown field; known are {', '.join(known)}"
    return [Problem(what, f"{at}{name}") for name in given if name not in known]


def _text_problems(given: Mapping[str, Any], names: tuple[str, ...], at: str) -> list[Problem]:
    wrong = [name for name in names if not isinstance(given.get(name), str) or not given[name]]
    return [Problem(f"expected a text, got {given.get(name)!r}", f"{at}{name}") for name in wrong]


def _decimal_problems(given: Mapping[str, Any], names: tuple[str, ...], at: str) -> list[Problem]:
    wrong = [name for name in names if not _is_decimal(given.get(name))]
    return [Problem(f"expected a canonical decimal string, got {given.get(name)!r}", f"{at}{name}") for name in wrong]


def _is_decimal(value: Any) -> bool:
    return isinstance(value, str) and _DECIMAL.fullmatch(value) is not None


def _instant(name: str, value: Any) -> int:
    if not _is_decimal(value) or int(value) > LAST_INSTANT:
        raise InvalidInput([Problem(f"expected milliseconds as a canonical decimal string, got {value!r}", name)])
    return int(value)


# --- what commands do -------------------------------------------------------------------------------------------------

Triggers = Mapping[str, Any]

#: A word of the planner's refusal, the reason it stands for, and the field that it is about here.
_LIMIT_WORDS = {
    "maxLateness": ("age", "maxAgeMs"),
    "rateLimit": ("rate", "rateLimit"),
    "maxConcurrent": ("concurrency", "maxConcurrent"),
}


def _register(triggers: Triggers, command: Command, now: int) -> Triggers:
    trigger, replaces = command["trigger"], command.get("replaces")
    known = triggers.get(trigger["id"])
    if known is not None:
        if known["trigger"] == trigger:
            return triggers
        raise CommandRefused(
            "exists",
            f"trigger {trigger['id']!r} is registered with other material;"
            " register what replaces it under an id of its own",
        )
    if replaces is not None:
        triggers = _disable(triggers, {"triggerId": replaces}, now)
    return {**triggers, trigger["id"]: _fresh(copy.deepcopy(trigger))}


def _fresh(trigger: Mapping[str, Any]) -> dict[str, Any]:
    schedule = trigger["schedule"]
    start, interval, not_before = int(schedule["startMs"]), int(schedule["intervalMs"]), int(trigger["notBefore"])
    slot = max(0, -((start - not_before) // interval))
    due = start + slot * interval
    over = due > min(int(trigger["expiresAt"]), LAST_INSTANT)
    return {
        "trigger": trigger,
        "enabled": trigger["enabled"],
        "count": "0",
        "nextSlot": str(slot),
        "nextDueMs": None if over else str(due),
        "ended": "expired" if over else None,
        "runs": [],
        "skipped": [],
    }


def _tick(triggers: Triggers, command: Command, now: int) -> Triggers:
    record = _find(triggers, command["triggerId"])
    if not record["enabled"]:
        raise CommandRefused("disabled", f"trigger {command['triggerId']!r} is disabled; enable it first")
    depth, deepest = command.get("depth", "0"), record["trigger"]["maxDepth"]
    if int(depth) > int(deepest):
        raise CommandRefused("depth", f"depth {depth} is more than maxDepth {deepest} allows")
    if record["nextDueMs"] is None:
        return triggers
    made = plan(_input(record), now, occurrence_batch=int(record["trigger"]["schedule"]["maxCatchUp"]))
    if made.refused is not None:
        raise _not_admitted(record["trigger"], made.refused)
    return triggers if made.cursor is None else {**triggers, command["triggerId"]: _advanced(record, made, depth, now)}


def _input(record: Mapping[str, Any]) -> PlanInput:
    trigger, schedule = record["trigger"], record["trigger"]["schedule"]
    running = sum(run["state"] == "RUNNING" for run in record["runs"])
    rule = {
        "kind": "interval",
        "intervalMs": int(schedule["intervalMs"]),
        "firstTick": to_rfc3339(int(schedule["startMs"])),
    }
    limit = int(trigger["maxConcurrent"])
    d = Definition(
        id=trigger["id"],
        trigger=rule,
        task=Task("ready"),
        misfire=_CATCH_UP[schedule["catchUp"]],
        grace=0,
        max_catch_up=int(schedule["maxCatchUp"]),
        overlap="allow",
        max_concurrent=limit,
        expires_at=int(trigger["expiresAt"]),
        max_lateness=int(trigger["maxAgeMs"]),
        rate_limit=int(trigger["rateLimit"]),
        rate_window=int(trigger["rateWindowMs"]),
        admission="strict",
        backlog="fromStart",
    )
    return PlanInput(
        d,
        _rule(rule),
        Cursor(int(record["nextSlot"]), int(record["nextDueMs"])),
        0,
        Pending(active=running, free_slots=tuple(range(running, min(limit, running + MAX_CATCH_UP)))),
        admitted=tuple(int(run["admittedAtMs"]) for run in record["runs"]),
    )


def _rule(spec: Mapping[str, Any]) -> SlotSource:
    from calsched.triggers import build

    return build(spec)


def _advanced(record: Mapping[str, Any], made: TickPlan, depth: str, now: int) -> dict[str, Any]:
    assert made.cursor is not None
    runs = [
        {
            "slot": str(row.ordinal),
            "occurredAtMs": str(row.due),
            "admittedAtMs": str(now),
            "representsFirst": str(row.represents_first),
            "depth": depth,
            "state": "RUNNING",
        }
        for row in made.occurrences
    ]
    skipped = [
        {"first": str(part.first), "last": str(part.last), "reason": part.reason} for part in made.ranges if part.reason
    ]
    due = made.cursor.next_due
    return {
        **record,
        "count": str(int(record["count"]) + len(runs)),
        "nextSlot": str(made.cursor.next_ordinal),
        "nextDueMs": None if due is None else str(due),
        "ended": made.ended,
        "runs": [*record["runs"], *runs],
        "skipped": [*record["skipped"], *skipped],
    }


def _finish(triggers: Triggers, command: Command, now: int) -> Triggers:
    record = _find(triggers, command["triggerId"])
    if not any(run["slot"] == command["slot"] and run["state"] == "RUNNING" for run in record["runs"]):
        raise CommandRefused("unknown", f"no run of slot {command['slot']} is running")
    runs = [{**run, "state": "FINISHED"} if run["slot"] == command["slot"] else run for run in record["runs"]]
    return {**triggers, command["triggerId"]: {**record, "runs": runs}}


def _enable(triggers: Triggers, command: Command, now: int) -> Triggers:
    return {**triggers, command["triggerId"]: {**_find(triggers, command["triggerId"]), "enabled": True}}


def _disable(triggers: Triggers, command: Command, now: int) -> Triggers:
    return {**triggers, command["triggerId"]: {**_find(triggers, command["triggerId"]), "enabled": False}}


def _find(triggers: Triggers, trigger_id: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] | None = triggers.get(trigger_id)
    if found is None:
        raise CommandRefused("unknown", f"no trigger {trigger_id!r} is registered")
    return found


def _not_admitted(trigger: Mapping[str, Any], refusal: str) -> CommandRefused:
    reason, limit = next((known for word, known in _LIMIT_WORDS.items() if word in refusal))
    what = f"an occurrence of the batch exceeds {limit} {trigger[limit]}"
    return CommandRefused(reason, f"{what}; none was admitted, and the cursor stays at the same slot")


_STEPS = {
    "registerTrigger": _register,
    "tickTrigger": _tick,
    "finishRun": _finish,
    "enableTrigger": _enable,
    "disableTrigger": _disable,
}
