"""What a rule will do: its coming slots with what is remarkable about each, and the instants that it leaves out.

Nothing here reads a store or a clock. Every listing is bounded and says when it stopped early.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from calsched.clock import to_datetime
from calsched.errors import InvalidInput
from calsched.model import Definition
from calsched.triggers import build
from calsched.triggers.base import Trigger

MAX_SLOTS = 100_000
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

#: Keys of a stored form that take instants away, and the values under which nothing is taken.
_TAKES_AWAY: Mapping[str, Any] = {"exclude": None, "exdate": None, "calendar": None, "roll": None}


@dataclass(frozen=True, slots=True)
class PreviewSlot:
    """One instant of a preview. ``left_out`` says why the rule does not yield it; None for a slot."""

    due: int
    local: str | None
    weekday: str
    marks: tuple[str, ...] = ()
    left_out: str | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """The coming slots of one definition. ``more``: there are further ones that the bounds of the question cut off."""

    namespace: str
    id: str
    description: str
    digest: str
    zone: str | None
    enabled: bool
    slots: tuple[PreviewSlot, ...]
    more: bool


def preview_slots(trigger: Trigger, start: int, end: int | None, count: int | None) -> tuple[list[PreviewSlot], bool]:
    """Slots in ``start`` … ``end`` (both included), at most ``count``, and what falls out of the rule among them.

    Raises InvalidInput where a span holds more than ``MAX_SLOTS``.
    """
    most = MAX_SLOTS if count is None else count
    slots = list(islice(_from(trigger, start, end), most + 1))
    more = len(slots) > most
    if more and count is None:
        raise InvalidInput(f"more than {MAX_SLOTS:,} slots in that span; ask for a shorter one, or use --count")
    slots = slots[:most]
    last = end if end is not None and not more else (slots[-1] if slots else None)
    gone = _left_out(trigger, start, last, set(slots), most) if last is not None else []
    shown = [_slot(trigger, due) for due in slots] + [_slot(trigger, due, why) for due, why in gone]
    return sorted(shown, key=lambda slot: slot.due), more


def _from(trigger: Trigger, start: int, end: int | None) -> Iterator[int]:
    due = trigger.first_at_or_after(start)
    while due is not None and (end is None or due <= end):
        yield due
        due = trigger.next_after(due)


def _slot(trigger: Trigger, due: int, left_out: str | None = None) -> PreviewSlot:
    local = trigger.local(due) if left_out is None else None
    day = to_datetime(due).date() if local is None else to_datetime(0).fromisoformat(local).date()
    marks = trigger.marks(due) if left_out is None else ()
    return PreviewSlot(due, local, _DAYS[day.weekday()], marks, left_out)


def _left_out(trigger: Trigger, start: int, end: int, kept: set[int], most: int) -> list[tuple[int, str]]:
    """Instants that the same rule would have without its exclusions, its calendar and its gaps."""
    candidates = heapq.merge(*(_from(wider, start, end) for wider in _wider(trigger)))
    gone: dict[int, str] = {}
    for due in islice(candidates, 4 * most + 100):
        if due not in kept and due not in gone:
            why = trigger.explain(due)
            if why is not None:
                gone[due] = why
    return sorted(gone.items())[:most]


def _wider(trigger: Trigger) -> Iterator[Trigger]:
    spec = trigger.spec()
    if any(spec.get(key) for key in _TAKES_AWAY):
        yield build({key: value for key, value in spec.items() if key not in _TAKES_AWAY})
    if spec.get("gap") == "skip":
        yield build({**spec, "gap": "shift"}, calendars=_calendars(trigger))


def _calendars(trigger: Trigger) -> Any:
    return getattr(trigger, "_calendars", None)


def preview_of(definition: Definition, trigger: Trigger, enabled: bool, slots: list[PreviewSlot], more: bool) -> Preview:
    return Preview(
        definition.namespace,
        definition.id,
        definition.description,
        definition.digest(),
        trigger.zone,
        enabled,
        tuple(slots),
        more,
    )
