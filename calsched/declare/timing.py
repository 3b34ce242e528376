"""When a schedule is due: its trigger, or one of the short forms, as the form that triggers are built from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from calsched.declare.lengths import millis_of
from calsched.declare.place import Place
from calsched.declare.shapes import Body

#: Keys that say when, and the fields of the shape.
_FORMS = {"trigger": "trigger", "cron": "cron", "every": "every", "at": "at", "firstTick": "first_tick"}


#: Keys any of which says when a schedule is due.
WHEN = (*_FORMS, "intervalMs")


@dataclass(frozen=True, slots=True)
class Timing:
    """A trigger's form, and where in the declaration a path within it stands."""

    spec: Mapping[str, Any]
    path_of: Callable[[str], str]


def timing_of(body: Body, plain: Mapping[str, Any], place: Place) -> Timing | None:
    """The form of the trigger; None, and a problem, where there is not exactly one (or it was refused already)."""
    keys = [key for key in _FORMS if key in plain]
    if "intervalMs" in plain and "firstTick" not in plain:
        keys.append("intervalMs")
    if len(keys) > 1:
        place.problem(f"{keys[0]} says when already; keep one of them", keys[1])
        return None
    if not keys:
        place.problem("a trigger is required", hint="for example trigger: {kind: calendar, hour: 9, weekdays: mon-fri}")
        return None
    if keys[0] != "intervalMs" and _FORMS[keys[0]] not in body.model_fields_set:
        return None
    return _FORM_OF[keys[0]](body)


def _trigger(body: Body) -> Timing:
    return Timing(body.trigger, lambda path: f"trigger.{path}" if path else "trigger")


def _cron(body: Body) -> Timing:
    return Timing({"kind": "cron", "expression": body.cron}, _timezone_or("cron"))


def _every(body: Body) -> Timing:
    return Timing({"kind": "interval", "intervalMs": millis_of(body.every)}, _timezone_or("every"))


def _at(body: Body) -> Timing:
    return Timing({"kind": "once", "at": body.at}, _timezone_or("at"))


def _interval(body: Body) -> Timing:
    fields = {"firstTick": body.first_tick, "intervalMs": body.interval_ms}
    spec = {key: value for key, value in fields.items() if value is not None}
    return Timing({"kind": "interval", **spec}, lambda path: path if path in fields else "intervalMs")


def _timezone_or(key: str) -> Callable[[str], str]:
    return lambda path: "timezone" if path == "timezone" else key


_FORM_OF: Mapping[str, Callable[[Body], Timing]] = {
    "trigger": _trigger,
    "cron": _cron,
    "every": _every,
    "at": _at,
    "firstTick": _interval,
    "intervalMs": _interval,
}


def is_once(spec: Mapping[str, Any]) -> bool:
    """Whether a stored form is due one time, or at several single times."""
    if spec.get("kind") == "anyOf":
        return all(is_once(inner) for inner in spec.get("triggers", ()))
    if spec.get("kind") == "apscheduler":
        return spec.get("class") == "date"
    if spec.get("kind") == "startingAt":
        return is_once(spec.get("then", {}))
    return spec.get("kind") == "once"
