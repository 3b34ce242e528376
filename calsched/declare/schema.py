"""The JSON Schema (draft 2020-12) of declaration files, for editors.

Generated from the shapes that files are checked against; the triggers, which judge themselves, have shapes of their own
here. A schema says less than ``check``: what two keys say together, zones and callables are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from calsched.declare.shapes import Body, Defaults, File, Shape

DIALECT = "https://json-schema.org/draft/2020-12/schema"
#: Where editors find it. ``calsched schema`` prints the same.
IDENTIFIER = "urn:calsched:declaration:1"

Weekday = int | str
Gap = Literal["skip", "shift", "boundary"]
Fold = Literal["first", "second", "both"]
Roll = Literal["skip", "following", "preceding", "modifiedFollowing"]
_WALL_OR_INSTANT = "an RFC 3339 time, or a wall time in the zone"


class _Bounded(Shape):
    start: str | None = Field(default=None, description=f"No slot before it; {_WALL_OR_INSTANT}")
    end: str | None = Field(default=None, description=f"No slot after it; {_WALL_OR_INSTANT}")


class _Walled(Shape):
    timezone: str | None = Field(default=None, description="IANA zone of the wall times; else the schedule's")
    gap: Gap = Field(default="skip", description="A wall time that does not exist: skip it, shift it, or its boundary")
    fold: Fold | None = Field(default="first", description="A wall time that comes twice: the first, the second, both")


class _OnOpenDays(_Walled):
    exclude: list[str] | str | None = Field(default=None, description="Days on which it is not due")
    calendar: str | None = Field(default=None, description="A business calendar whose closed days are left out")
    roll: Roll | None = Field(default=None, description="What becomes of a day that the calendar closes")


class _OnDays(_OnOpenDays, _Bounded):
    pass


class IntervalShape(Shape):
    """Every so much elapsed time, in UTC."""

    kind: Literal["interval"] = Field(description="`interval`")
    interval_ms: int | None = Field(default=None, ge=1, description="The interval in milliseconds")
    milliseconds: int | None = Field(default=None, ge=0, description="Milliseconds; lengths are added up")
    seconds: int | None = Field(default=None, ge=0, description="Seconds of the interval")
    minutes: int | None = Field(default=None, ge=0, description="Minutes of the interval")
    hours: int | None = Field(default=None, ge=0, description="Hours of the interval")
    days: int | None = Field(default=None, ge=0, description="Days of 24 hours")
    weeks: int | None = Field(default=None, ge=0, description="Weeks of 168 hours")
    first_tick: str | None = Field(
        default=None, description="Slot 0, an RFC 3339 time; without it (and start) slots are aligned to the Unix epoch"
    )
    start: str | None = Field(default=None, description="No slot before it, an RFC 3339 time")
    end: str | None = Field(default=None, description="No slot after it, an RFC 3339 time")
    timezone: str | None = Field(default=None, description="Without meaning here")


class CalendarShape(_OnDays):
    """Times of day on certain days of a zone; all conditions must hold."""

    kind: Literal["calendar"] = Field(description="`calendar`")
    at: list[str] | str | None = Field(default=None, description="Times of day in quotes: '09:00', '17:30:15'")
    hour: list[int] | int | None = Field(default=None, description="0 to 23; null is every hour")
    minute: list[int] | int | None = Field(default=None, description="0 to 59; null is every minute")
    second: list[int] | int | None = Field(default=None, description="0 to 59; null is every second")
    weekdays: list[Weekday] | Weekday | None = Field(
        default=None, description="Monday 0 to Sunday 6, or names: mon-fri, [mon, wed]"
    )
    days_of_month: list[int] | int | None = Field(default=None, description="1 to 31, or from the end: -1 is the last")
    if_day_missing: Literal["skip", "last"] | None = Field(
        default=None, description="What becomes of a day of the month that a month has not"
    )
    nth_weekdays: list[str] | str | None = Field(default=None, description="'2tue' is the second Tuesday, '-1fri' …")
    months: list[int | str] | int | str | None = Field(default=None, description="1 to 12, or names")
    every_weeks: int | None = Field(default=None, ge=1, description="Every so many weeks, counted from weekAnchor")
    week_anchor: str | None = Field(default=None, description="A day in a week that counts")
    business_days: list[int] | int | None = Field(default=None, description="n-th business day of the month; -1: last")


class CronShape(_OnDays):
    """A cron expression."""

    kind: Literal["cron"] = Field(description="`cron`")
    expression: str = Field(description="Five fields; six where `seconds` says which one is the seconds")
    seconds: Literal["first", "last"] | None = Field(default=None, description="Where the field of seconds stands")
    fold: Fold | None = Field(
        default=None,
        description="A wall time that comes twice: the first, the second, both. Without it the first, but both where"
        " the hour field covers every hour",
    )
    hash_id: str | None = Field(default=None, description="What `H` fields are hashed from; the schedule's id")


class RRuleShape(_OnOpenDays):
    """A recurrence rule of RFC 5545."""

    kind: Literal["rrule"] = Field(description="`rrule`")
    rrule: str = Field(description="FREQ=…")
    dtstart: str = Field(description="Wall time from which the rule counts")
    exdate: list[str] | str | None = Field(default=None, description="Wall times that are left out")
    rdate: list[str] | str | None = Field(default=None, description="Wall times that are added")


class OnceShape(Shape):
    """One instant."""

    kind: Literal["once"] = Field(description="`once`")
    at: str = Field(description=f"When: {_WALL_OR_INSTANT}")
    timezone: str | None = Field(default=None, description="IANA zone of a wall time")
    gap: Gap | None = Field(default=None, description="Where the wall time does not exist; refused without")
    fold: Fold | None = Field(default=None, description="Where the wall time comes twice")


class AnyOfShape(Shape):
    """Several triggers; instants that they share are one slot."""

    kind: Literal["anyOf"] = Field(description="`anyOf`")
    triggers: list[dict[str, Any]] = Field(min_length=1, description="Triggers of any kind")


TRIGGERS: Mapping[str, type[Shape]] = {
    "interval": IntervalShape,
    "calendar": CalendarShape,
    "cron": CronShape,
    "rrule": RRuleShape,
    "once": OnceShape,
    "anyOf": AnyOfShape,
}


def json_schema() -> dict[str, Any]:
    """The schema of a declaration file: several schedules, a list of them, or one."""
    definitions: dict[str, Any] = {}
    shapes: dict[str, type[Shape]] = {"schedule": Body, "defaults": Defaults, "file": File, **TRIGGERS}
    for name, shape in shapes.items():
        _add(definitions, name, shape)
    definitions["trigger"] = {
        "description": "When a schedule is due",
        "anyOf": [*[{"$ref": f"#/$defs/{kind}"} for kind in TRIGGERS], _foreign()],
    }
    _refer(definitions)
    one = definitions["schedule"]
    return {
        "$schema": DIALECT,
        "$id": IDENTIFIER,
        "title": "calsched declaration",
        "anyOf": [
            {"$ref": "#/$defs/file"},
            {"$ref": "#/$defs/one"},
            {"type": "array", "items": {"$ref": "#/$defs/schedule"}},
        ],
        "$defs": {**definitions, "one": _one(one, definitions["file"])},
    }


def _add(definitions: dict[str, Any], name: str, shape: type[Shape]) -> None:
    schema = shape.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
    definitions.update(_clean(schema.pop("$defs", {})))
    definitions[name] = _clean(schema)


def _clean(node: Any) -> Any:
    """Without pydantic's titles and without our own notes."""
    if isinstance(node, list):
        return [_clean(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {name: _clean(inner) for name, inner in value.items()} if key == "properties" else _clean(value)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str)) and not key.startswith("x-") and key != "discriminator"
    }


def _foreign() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "A form that another part of an app wrote; check judges it",
        "properties": {"kind": {"enum": ["apscheduler", "startingAt"]}},
        "required": ["kind"],
    }


def _refer(definitions: dict[str, Any]) -> None:
    """Connect what the shapes leave to others: triggers, schedules, defaults, calendars."""
    trigger = {"$ref": "#/$defs/trigger"}
    for name in ("schedule", "RecurringBlackout"):
        definitions[name]["properties"]["trigger"] = {**trigger, "description": "When it is due"}
    definitions["anyOf"]["properties"]["triggers"]["items"] = trigger
    for kind in TRIGGERS:
        _lists(definitions[kind])
    body, file = {"$ref": "#/$defs/schedule"}, definitions["file"]["properties"]
    file["schedules"] |= {
        "anyOf": [{"type": "array", "items": body}, {"type": "object", "additionalProperties": body}]
    }
    file["defaults"] |= {"$ref": "#/$defs/defaults"}
    file["calendars"] |= {"type": "object", "additionalProperties": {"type": "object"}}
    _lists(definitions["file"])



def _lists(schema: dict[str, Any]) -> None:
    """Editors offer more with the empty default left out."""
    for prop in schema["properties"].values():
        if prop.get("default", 0) is None:
            del prop["default"]


def _one(body: Mapping[str, Any], file: Mapping[str, Any]) -> dict[str, Any]:
    """A file with one schedule, which may carry calendars and defaults beside it."""
    beside = {key: file["properties"][key] for key in ("$schema", "calendars", "defaults")}
    return {**body, "properties": {**body["properties"], **beside}, "required": ["task"]}
