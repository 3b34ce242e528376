"""Triggers: rules that yield slots. ``build`` makes one from its stored or declared form; one kind a module."""

from __future__ import annotations

import difflib
import importlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from calsched.errors import Problem, TriggerInvalid
from calsched.triggers.base import BusinessCalendar, Context, Trigger

__all__ = ["KINDS", "BusinessCalendar", "Context", "Trigger", "build"]

#: Where the class of each kind lives; a module is imported when its first trigger is built.
KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "interval": ("calsched.triggers.interval", "IntervalTrigger"),
    "calendar": ("calsched.triggers.calendar", "CalendarTrigger"),
    "cron": ("calsched.triggers.cron", "CronTrigger"),
    "rrule": ("calsched.triggers.rrule", "RRuleTrigger"),
    "once": ("calsched.triggers.once", "OnceTrigger"),
    "anyOf": ("calsched.triggers.any_of", "AnyOfTrigger"),
    "apscheduler": ("calsched.triggers.foreign", "ForeignTrigger"),
    "startingAt": ("calsched.triggers.starting_at", "StartingAtTrigger"),
}


def build(
    spec: Mapping[str, Any],
    *,
    default_zone: str | None = None,
    calendars: Mapping[str, BusinessCalendar] | None = None,
    schedule_id: str | None = None,
    zone_source: str = "package",
) -> Trigger:
    """The trigger of a stored or declared form: an object with ``kind`` and that kind's fields.

    ``default_zone`` is for rules that name no zone, ``calendars`` are the business calendars that ``calendar`` can
    name, ``schedule_id`` spreads cron's ``H`` fields. Triggers are immutable, and equal forms may give the same one.

    Raises TriggerInvalid with every problem; each path is relative to the trigger (``weekdays[0]``).
    """
    context = Context(default_zone, calendars or {}, schedule_id, zone_source)
    try:
        text = json.dumps(spec, sort_keys=True)
    except (TypeError, ValueError):  # dates and zones as Python objects, or nothing that a file can hold
        return _build(spec, context)
    except RecursionError:
        raise TriggerInvalid([Problem("it is nested too deeply")]) from None
    known = tuple(map(_identity, context.calendars.items())) if '"calendar":' in text else ()
    hash_id = schedule_id if '"cron"' in text and "H" in text else None
    return _cached(_Key(text, default_zone, known, hash_id, zone_source, context=context))


def _identity(named: tuple[str, BusinessCalendar]) -> tuple[object, ...]:
    """What a calendar says, never its address: another one may get that after it is gone."""
    name, calendar = named
    return (name, calendar.version, getattr(calendar, "digest", calendar))


class _Key:
    """What a built trigger depends on, to be hashed, with what it is built from, which is not."""

    __slots__ = ("context", "parts")

    def __init__(self, *parts: object, context: Context) -> None:
        self.parts, self.context = parts, context

    def __hash__(self) -> int:
        return hash(self.parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.parts == self.parts


@lru_cache(maxsize=4096)
def _cached(key: _Key) -> Trigger:
    trigger = _build(json.loads(str(key.parts[0])), key.context)
    key.context = Context()  # the cache need not keep every calendar alive
    return trigger


def _build(spec: Any, context: Context) -> Trigger:
    if not isinstance(spec, Mapping):
        raise TriggerInvalid([Problem(f"expected an object with 'kind', got {spec!r:.80}")])
    kind = spec.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise TriggerInvalid([_no_kind(spec, kind)])
    module, name = KINDS[kind]
    trigger: Trigger = getattr(importlib.import_module(module), name).from_spec(spec, context)
    return trigger


def _no_kind(spec: Mapping[str, Any], kind: object) -> Problem:
    names = ", ".join(KINDS)
    if "kind" not in spec:
        return Problem(f"a trigger needs its kind: one of {names}", path="kind")
    near = difflib.get_close_matches(str(kind), KINDS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else ""
    return Problem(f"expected one of {names}, got {kind!r:.80}", path="kind", hint=hint)
