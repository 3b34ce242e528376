"""The layout of a file: several schedules, or one, and what the file says for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from calsched.declare.paths import shown
from calsched.declare.place import Place
from calsched.declare.shapes import Body, Defaults, File, Shape
from calsched.declare.validate import validated
from calsched.declare.wording import known_keys, unknown_key

#: Keys of the file that a file with one schedule may have as well.
_BESIDE_ONE = ("$schema", "calendars", "defaults")
_FILE_KEYS = frozenset(known_keys(File, ()))
_BODY_KEYS = frozenset(known_keys(Body, ()))
#: Any of these at the top makes a file one schedule.
_ONE = frozenset(
    {"trigger", "task", "cron", "every", "at", "firstTick", "intervalMs", "scheduleId", "document", "objective"}
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One schedule of a file, before it is checked. ``id`` is the one that its place gives it, if any."""

    place: Place
    plain: Mapping[str, Any]
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """What one file declares. ``defaults`` were validated; its keys are in ``defaults_place``."""

    entries: tuple[Entry, ...] = ()
    defaults: Shape | None = None
    defaults_place: Place | None = None
    calendars: Mapping[str, Any] = field(default_factory=dict)
    calendars_place: Place | None = None
    file: Mapping[str, Any] = field(default_factory=dict)  # timezone, namespace, owner
    place: Place | None = None


def laid_out(place: Place) -> Layout:
    """The layout of a readable document; problems go to the place."""
    plain = place.document.plain
    if plain is None:
        place.problem("the file is empty", hint="a file without schedules is `schedules: []`")
        return Layout()
    if place.document.single and isinstance(plain, dict):
        return Layout((Entry(place, plain),))
    if isinstance(plain, list):
        return Layout(tuple(_listed(place, plain)))
    if not isinstance(plain, dict):
        place.problem(f"expected `schedules:`, or one schedule with its trigger and task, got {shown(plain)}")
        return Layout()
    if "schedules" not in plain and _ONE & set(plain):
        return alone(place, plain)
    return _several(place, plain)


def alone(place: Place, plain: dict[str, Any]) -> Layout:
    """The layout of a file that is one schedule, whole or in part."""
    body = {key: value for key, value in plain.items() if key not in _BESIDE_ONE}
    return _with_file(place, plain, (Entry(place, body, place.document.stem or None),), {})


def _several(place: Place, plain: dict[str, Any]) -> Layout:
    known = {key: value for key, value in plain.items() if key in _FILE_KEYS}
    for key in plain:
        if key not in _FILE_KEYS:
            _misplaced(place, key)
    shape = validated(File, known, place)
    given: dict[str, Any] = {
        name: getattr(shape, name) for name in ("timezone", "namespace", "owner") if name in shape.model_fields_set
    }
    if not {"schedules", "calendars"} & set(known):
        place.problem("expected `schedules:`, or one schedule with its trigger and task")
    return _with_file(place, plain, tuple(_entries(place.at("schedules"), plain.get("schedules", []))), given)


def _misplaced(place: Place, key: str) -> None:
    said = unknown_key((key,), _FILE_KEYS)
    hint = said.hint
    if key in _BODY_KEYS:
        hint = "this key belongs to a schedule, or under `defaults`"
    place.problem(said.message, key, hint=hint)


def _entries(place: Place, schedules: Any) -> Iterator[Entry]:
    if isinstance(schedules, list):
        yield from _listed(place, schedules)
    elif isinstance(schedules, dict):
        for key, body in schedules.items():
            if isinstance(body, dict):
                yield Entry(place.at(key), body, key)
            else:
                place.problem(f"expected a schedule (a mapping), got {shown(body)}", key)
    else:
        place.problem(f"expected a list of schedules, or a mapping from id to schedule, got {shown(schedules)}")


def _listed(place: Place, schedules: list[Any]) -> Iterator[Entry]:
    for i, body in enumerate(schedules):
        if isinstance(body, dict):
            yield Entry(place.at(i), body)
        else:
            place.problem(f"expected a schedule (a mapping), got {shown(body)}", i)


def _with_file(place: Place, plain: dict[str, Any], entries: tuple[Entry, ...], file: Mapping[str, Any]) -> Layout:
    defaults = _mapping(place, plain, "defaults")
    calendars = _mapping(place, plain, "calendars")
    where = place.at("defaults")
    return Layout(
        entries,
        validated(Defaults, defaults, where) if defaults else None,
        where,
        calendars,
        place.at("calendars"),
        file,
        place,
    )


def _mapping(place: Place, plain: dict[str, Any], key: str) -> dict[str, Any]:
    value = plain.get(key)
    if value is not None and not isinstance(value, dict):
        place.problem(f"expected a mapping, got {shown(value)}", key)
        return {}
    return value or {}
