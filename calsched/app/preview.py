"""What a rule will do: its coming slots with what is remarkable about each, and the instants that it leaves out.

Nothing here reads a store or a clock. Every listing is bounded and says when it stopped early.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice

from calsched.clock import to_millis, to_rfc3339
from calsched.errors import InvalidInput, Problem
from calsched.model import Definition
from calsched.triggers import build
from calsched.triggers.base import Trigger
from calsched.triggers.describe import describe

MAX_SLOTS = 100_000
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

#: Keys of a stored form that take instants away.
_TAKES_AWAY = ("exclude", "exdate", "calendar", "roll")


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
    total: int | None = None  # where the span holds too many slots to list: how many; ``slots`` is empty then
    rule: str = ""  # the trigger in words, for people


class TooManySlots(InvalidInput):
    """A span holds more slots than one listing may have."""


@dataclass(frozen=True, slots=True)
class PreviewReport:
    """The previews of a set of declarations; ``digest`` is what ``create --expect`` compares."""

    previews: tuple[Preview, ...]
    digest: str
    warnings: tuple[Problem, ...] = ()


def preview_slots(trigger: Trigger, start: int, end: int | None, count: int | None) -> tuple[list[PreviewSlot], bool]:
    """Slots in ``start`` … ``end`` (both included), at most ``count``, and what falls out of the rule among them.

    Raises TooManySlots where a span holds more than ``MAX_SLOTS``.
    """
    most = MAX_SLOTS if count is None else count
    slots = list(islice(_from(trigger, start, end), most + 1))
    more = len(slots) > most
    if more and count is None:
        raise TooManySlots(f"more than {MAX_SLOTS:,} slots in that span; ask for a shorter one, or use --count")
    slots = slots[:most]
    last = end if end is not None and not more else (slots[-1] if slots else None)
    gone = _left_out(trigger, start, last, set(slots), most) if last is not None else []
    shown = [slot_of(trigger, due) for due in slots]
    return sorted(shown + gone, key=lambda slot: slot.due), more


def of_month(slots: list[PreviewSlot], month: str) -> list[PreviewSlot]:
    """Those whose wall time (UTC where the rule has no zone) lies in a month such as ``2026-11``."""
    return [slot for slot in slots if day_of(slot).startswith(month)]


def count_of_month(trigger: Trigger, month: str, spread: int) -> int:
    """How many slots have their wall time in a month; no zone is further than ``spread`` from UTC (milliseconds)."""
    start, end = month_bounds(month)
    following = to_rfc3339(end + 1)[:10]
    first = _first_on(trigger, f"{month}-01", start - spread, start + spread)
    return trigger.count(first, _first_on(trigger, following, end + 1 - spread, end + 1 + spread) - 1)


def _first_on(trigger: Trigger, day: str, low: int, high: int) -> int:
    """The instant from which on slots lie on a day (``2026-11-01``) or later, within ``low`` … ``high``."""
    while low < high:
        middle = (low + high) // 2
        slot = trigger.first_at_or_after(middle)
        if slot is None or (trigger.local(slot) or to_rfc3339(slot))[:10] >= day:
            high = middle
        else:
            low = middle + 1
    return low


def day_of(slot: PreviewSlot) -> str:
    return (slot.local or to_rfc3339(slot.due))[:10]


def month_bounds(month: str) -> tuple[int, int]:
    """First and last millisecond of a month such as ``2026-11``, as if in UTC."""
    try:
        first = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
        following = (first + timedelta(days=32)).replace(day=1)
    except (ValueError, OverflowError):
        raise InvalidInput([Problem(f"expected a month such as 2026-11, got {month[:40]!r}", "--month")]) from None
    return to_millis(first), to_millis(following) - 1


def _from(trigger: Trigger, start: int, end: int | None) -> Iterator[int]:
    due = trigger.first_at_or_after(start)
    while due is not None and (end is None or due <= end):
        yield due
        due = trigger.next_after(due)


def slot_of(trigger: Trigger, due: int) -> PreviewSlot:
    return _slot(due, trigger.local(due), marks=trigger.marks(due))


def _slot(due: int, local: str | None, *, marks: tuple[str, ...] = (), left_out: str | None = None) -> PreviewSlot:
    day = date.fromisoformat((local or to_rfc3339(due))[:10])
    return PreviewSlot(due, local, _DAYS[day.weekday()], marks, left_out)


def _left_out(trigger: Trigger, start: int, end: int, kept: set[int], most: int) -> list[PreviewSlot]:
    """Instants that the same rule would have without its exclusions, its calendar and its gaps."""
    gone: dict[int, PreviewSlot] = {}
    for wider in _wider(trigger):
        for due in islice(_from(wider, start, end), 4 * most + 100):
            if due not in kept and due not in gone and (why := trigger.explain(due)) is not None:
                gone[due] = _slot(due, wider.local(due), left_out=why)
    return sorted(gone.values(), key=lambda slot: slot.due)[:most]


def _wider(trigger: Trigger) -> Iterator[Trigger]:
    spec = trigger.spec()
    if any(spec.get(key) for key in _TAKES_AWAY):
        yield build({key: value for key, value in spec.items() if key not in _TAKES_AWAY})
    if spec.get("gap") == "skip":
        yield build({**spec, "gap": "shift"}, calendars=trigger._calendars)


def preview_of(
    definition: Definition,
    trigger: Trigger,
    enabled: bool,
    slots: list[PreviewSlot],
    more: bool,
    total: int | None = None,
) -> Preview:
    return Preview(
        definition.namespace,
        definition.id,
        definition.description,
        definition.digest(),
        trigger.zone,
        enabled,
        tuple(slots),
        more,
        total,
        describe(definition.trigger),
    )
