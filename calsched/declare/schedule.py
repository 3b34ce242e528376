"""One schedule on its way from plain values to a declaration, and what several of them say together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from calsched.declare.callable_ref import Callables
from calsched.declare.declaration import Declaration, Host
from calsched.declare.document import Document
from calsched.declare.layout import Entry, Layout
from calsched.declare.paths import shown
from calsched.declare.place import Found, Place
from calsched.declare.resolve import Flat, blackouts, flat, settled
from calsched.declare.shapes import Body, Defaults, PythonTask, ReadyTask
from calsched.declare.task import task_of
from calsched.declare.timing import WHEN, is_once, timing_of
from calsched.declare.validate import validated
from calsched.declare.warn import warn_of
from calsched.errors import TriggerInvalid
from calsched.model import Definition, Task
from calsched.triggers import Trigger, build
from calsched.zones import ZoneInvalid, load

#: Slots that are looked at for the least distance of two (seed 004's minimum interval).
_SLOTS_COMPARED = 1_000
_SURELY_SHORT = 100
#: Stands for a default zone that was refused, so that the triggers under it are judged in all else.
_ANY_ZONE = "UTC"


class Checker:
    """Judges the schedules of several files, and what they say together."""

    def __init__(self, host: Host, found: Found) -> None:
        self.host, self.found = host, found
        self.callables = Callables(host.allow, host.load)
        self.ids: dict[tuple[str, str], Place] = {}
        self.renames: dict[tuple[str, str], Place] = {}
        document = Document(None, "")
        self.host_defaults = validated(Defaults, host.defaults, Place(document, ("defaults",), found))

    def layout(self, layout: Layout) -> list[Declaration]:
        under = flat(self.host_defaults, Place(Document(None, ""), ("defaults",), self.found))
        shapes: list[Defaults] = [self.host_defaults]
        if isinstance(layout.defaults, Defaults) and layout.defaults_place is not None:
            shapes.append(layout.defaults)
            given = flat(layout.defaults, layout.defaults_place)
            under = Flat({**under.values, **given.values}, {}, given.aliased or under.aliased)
        layout = self._with_zone(layout)
        out: list[Declaration] = []
        for entry in layout.entries:
            if self.found.full:
                break
            one = _Schedule(self, entry, layout, under, shapes)
            declaration = one.declaration()
            if declaration is not None:
                out.append(declaration)
        return out

    def _with_zone(self, layout: Layout) -> Layout:
        """The file's zone is judged once, where it stands, and not again in each schedule that it holds for."""
        zone = layout.file.get("timezone")
        if zone is None or layout.place is None or self.is_zone(zone, layout.place):
            return layout
        return replace(layout, file={**layout.file, "timezone": _ANY_ZONE})

    def is_zone(self, name: str, place: Place) -> bool:
        """Whether a ``timezone`` of this place names a zone; else that is a problem there."""
        try:
            load(name, self.host.zone_source)
        except ZoneInvalid as invalid:
            place.take(replace(problem, path="timezone") for problem in invalid.problems)
            return False
        return True

    def note(self, namespace: str, id: str, was: str | None, place: Place) -> None:
        first = self.ids.setdefault((namespace, id), place)
        if first is not place:
            place.problem(f"the id {shown(id)} is declared at {first.text} already")
        if was is not None:
            first = self.renames.setdefault((namespace, was), place)
            if first is not place:
                place.problem(f"{shown(was)} became another schedule already, at {first.text}", "was")

    def together(self) -> None:
        """What only shows once every file is known."""
        for (namespace, was), place in self.renames.items():
            if (namespace, was) in self.ids:
                other = self.ids[namespace, was].text
                place.problem(f"{shown(was)} is still declared, at {other}, so that it was not renamed", "was")


class _Schedule:
    """One schedule on its way from plain values to a declaration."""

    def __init__(
        self, checker: Checker, entry: Entry, layout: Layout, under: Flat, defaults: list[Defaults]
    ) -> None:
        self.checker, self.entry, self.layout, self.under, self.defaults = checker, entry, layout, under, defaults
        self.host, self.place, self.plain = checker.host, entry.place, entry.plain
        self.before = len(entry.place.found.problems)
        self.body = validated(Body, entry.plain, entry.place)
        self.given = self.body.model_fields_set

    def declaration(self) -> Declaration | None:
        id, namespace = self._id(), self._said("namespace") or self.host.namespace
        trigger = self._trigger(id)
        task = self._task()
        own = flat(self.body, self.place)
        spec = {} if trigger is None else trigger.spec()
        values = settled(own, self.under, self.body, self.place, once=is_once(spec))
        windows = self._blackouts(own)
        self._misplaced_apscheduler()
        if id is None:
            return None
        self.checker.note(namespace, id, self.body.was if self.body.was != id else None, self.place)
        if trigger is None or task is None:
            return None
        self._bounds(trigger, values, own, namespace)
        definition = Definition(
            id=id,
            namespace=namespace,
            description=self._description(),
            trigger=spec,
            task=task,
            blackouts=windows,
            calendars=self._versions([spec, *windows]),
            apscheduler=self.body.apscheduler,
            **{"owner": self._said("owner"), **values},
        )
        if len(self.place.found.problems) > self.before:
            return None
        warn_of(definition, trigger, own, self.place, self.host.now, self.host.calendars)
        return Declaration(
            definition,
            trigger,
            bool(self._said("enabled", True)),
            self.body.was,
            self.body.revision,
            self.place.document.file,
            self.place.line,
        )

    def _said(self, name: str, default: Any = None) -> Any:
        """What the schedule says, else the file, else the defaults."""
        if name in self.given:
            return getattr(self.body, name)
        if self.layout.file.get(name) is not None:
            return self.layout.file[name]
        for shape in reversed(self.defaults):
            if name in shape.model_fields_set:
                return getattr(shape, name)
        return default

    def _id(self) -> str | None:
        own = [name for name in ("id", "schedule_id") if name in self.given]
        if len(own) == 2:
            self.place.problem("id says the same; keep one of them", "scheduleId")
        declared: str | None = getattr(self.body, own[0]) if own else None
        if declared is None and {"id", "scheduleId"} & set(self.plain):
            return None  # it is there and was refused
        if declared is None and self.entry.id is None:
            self.place.problem("id is required", hint="a file with one schedule may leave it to the file's name")
        keyed = self.entry.id if self.place.path[:1] == ("schedules",) else None
        if keyed is not None and declared not in (None, keyed):
            self.place.problem(f"expected {shown(keyed)}, as its key says, got {shown(declared)}", "id")
        id = declared if declared is not None else self.entry.id
        if declared is None and id is not None and not _is_id(id, self.place):
            return None
        if id is not None and self.body.was == id:
            self.place.problem("this is its present id", "was")
        return id

    def _description(self) -> str:
        if {"description", "objective"} <= self.given:
            self.place.problem("description says the same; keep one of them", "objective")
        return self.body.description if "description" in self.given else self.body.objective

    def _trigger(self, id: str | None) -> Trigger | None:
        timing = timing_of(self.body, self.plain, self.place)
        if timing is None:
            return None
        return self._build(timing.spec, self.place, timing.path_of, id)

    def _build(
        self, spec: Mapping[str, Any], place: Place, path_of: Callable[[str], str], id: str | None
    ) -> Trigger | None:
        try:
            return build(
                spec,
                default_zone=self._zone(),
                calendars=self.host.calendars,
                schedule_id=id,
                zone_source=self.host.zone_source,
            )
        except TriggerInvalid as invalid:
            place.take(replace(problem, path=path_of(problem.path)) for problem in invalid.problems)
        return None

    def _zone(self) -> str | None:
        own = self.body.timezone if "timezone" in self.given else None
        if own is not None and not self.checker.is_zone(own, self.place):
            return _ANY_ZONE
        return self._said("timezone") or self.host.default_zone

    def _task(self) -> Task | None:
        if "task" not in self.given:
            if "task" not in self.plain:
                self.place.problem("task is required", hint="for example task: jobs:write_report")
            return None
        shape: str | PythonTask | ReadyTask = self.body.task
        return task_of(shape, self.body, self.place, self.checker.callables)

    def _blackouts(self, own: Flat) -> tuple[Mapping[str, Any], ...]:
        where = self.place.at("blackouts")
        above = self.layout.defaults_place
        if "blackouts" not in own.values and "blackouts" in self.under.values and above is not None:
            where = above.at("blackouts")
        shapes = own.values.get("blackouts", self.under.values.get("blackouts", []))
        return blackouts(shapes, where, self._window_trigger)

    def _window_trigger(self, spec: Mapping[str, Any], place: Place) -> Trigger | None:
        """A blackout's trigger. It is looked up without calendars, so that one which names any would fail when due."""
        names = sorted(set(_calendar_names(spec)))
        if names:
            place.problem(
                f"a blackout cannot use business calendars, and this one names {', '.join(map(repr, names))}",
                hint="write its days as cron or rrule, or as windows from … to …",
            )
            return None
        return self._build(spec, place, str, None)

    def _misplaced_apscheduler(self) -> None:
        if self.body.apscheduler is None:
            for key in ("misfire", "overlap"):
                if getattr(self.body, key) == "apscheduler" and key in self.given:
                    self.place.problem("this policy belongs to jobs that an APScheduler app added", key)

    def _versions(self, specs: list[Mapping[str, Any]]) -> dict[str, int]:
        names = sorted({name for spec in specs for name in _calendar_names(spec)})
        return {name: self.host.calendars[name].version for name in names if name in self.host.calendars}

    def _bounds(self, trigger: Trigger, values: Mapping[str, Any], own: Flat, namespace: str) -> None:
        expires = values.get("expires_at")
        bounded = expires is not None and trigger.kind != "apscheduler"
        first = trigger.first_at_or_after(0) if bounded else None
        if expires is not None and first is not None and expires < first:
            message = "nothing would ever run: this is before the first due time"
            self.place.problem(message, *own.keys.get("expires_at", ()))
        least = self.host.minimum_interval.get(namespace, self.host.minimum_interval.get("*", 0))
        distance = least_distance(trigger, self.host.now, least) if least else None
        if distance is not None and distance < least:
            apart, allowed = f"{distance / 1000:g} s", f"{least / 1000:g} s"
            message = f"two due times are {apart} apart, and this namespace allows no less than {allowed}"
            self.place.problem(message, next(key for key in WHEN if key in self.plain))


def least_distance(trigger: Trigger, now: int, enough: int) -> int | None:
    """The least distance of two among the next 1 000 slots; the first one below ``enough`` ends the search."""
    slot, least = trigger.first_at_or_after(now), None
    for _ in range(_SLOTS_COMPARED):
        following = None if slot is None else trigger.next_after(slot)
        if slot is None or following is None:
            break
        least = following - slot if least is None else min(least, following - slot)
        slot = following
        if least < enough or trigger.kind == "interval":
            break
    return least


def _is_id(id: str, place: Place) -> bool:
    """Whether an id that its place gives (a key, a file's name) is one; reports where it is not."""
    before = len(place.found.problems)
    if not (0 < len(id) <= _SURELY_SHORT and id.isalnum()):
        validated(Body, {"id": id}, place)
    return len(place.found.problems) == before


def _calendar_names(spec: Any) -> Iterable[str]:
    """The business calendars that a stored form names, at any depth."""
    if isinstance(spec, Mapping):
        name = spec.get("calendar")
        if isinstance(name, str):
            yield name
    for inner in spec.values() if isinstance(spec, Mapping) else spec:
        if isinstance(inner, Mapping | list | tuple):
            yield from _calendar_names(inner)
