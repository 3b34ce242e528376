"""What a change does to coming slots: those that are added, removed, and moved to another instant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from calsched.triggers.base import Trigger

_ROLLED: Final = re.compile(r"rolled from (\d{4}-\d\d-\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Move:
    """One nominal time that has another instant now. ``local`` is its wall time, ``2026-07-03T09:00:00``."""

    local: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Changes:
    """Instants in milliseconds, ascending. ``until``: nothing is said about later ones; ``more``: there are such."""

    added: tuple[int, ...]
    removed: tuple[int, ...]
    moved: tuple[Move, ...]
    until: int
    more: bool = False

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.moved)


def compare(old: Trigger, new: Trigger, first: int, last: int, limit: int = 1_000) -> Changes:
    """The slots in ``first`` … ``last`` (both included) under two triggers, at most ``limit`` of each looked at.

    A slot of the old trigger has *moved* when the new one has the same nominal time at another instant: the same wall
    time of the zone (its data, the gap or the fold rule changed), or the same day before it was rolled to an open one
    (the calendar or the roll changed). What is left over on either side is removed or added.
    """
    before, before_more = _slots(old, first, last, limit)
    after, after_more = _slots(new, first, last, limit)
    until = min([last, *(slots[-1] for slots, more in ((before, before_more), (after, after_more)) if more)])
    kept = set(before) & set(after)
    gone = [slot for slot in before if slot <= until and slot not in kept]
    come = [slot for slot in after if slot <= until and slot not in kept]
    moved = list(_moves(old, new, gone, come))
    left, right = {move.before for move in moved}, {move.after for move in moved}
    return Changes(
        added=tuple(slot for slot in come if slot not in right),
        removed=tuple(slot for slot in gone if slot not in left),
        moved=tuple(moved),
        until=until,
        more=before_more or after_more,
    )


def _slots(trigger: Trigger, first: int, last: int, limit: int) -> tuple[list[int], bool]:
    found = list(islice(trigger.between(first, last), limit + 1))
    return found[:limit], len(found) > limit


def _moves(old: Trigger, new: Trigger, gone: Iterable[int], come: Iterable[int]) -> Iterator[Move]:
    by_name: dict[str, list[int]] = {}
    for slot in come:
        for name in _nominal(new, slot):
            by_name.setdefault(name, []).append(slot)
    taken: set[int] = set()
    for slot in gone:
        for name in _nominal(old, slot):
            landed = next((other for other in by_name.get(name, ()) if other not in taken), None)
            if landed is not None:
                taken.add(landed)
                yield Move(name, slot, landed)
                break


def _nominal(trigger: Trigger, slot: int) -> Iterator[str]:
    """The wall times that a slot stands for: of the days that were rolled to it, and its own."""
    local = trigger.local(slot)
    if local is None:
        return
    for mark in trigger.marks(slot):
        if found := _ROLLED.fullmatch(mark):
            yield f"{found[1]}{local[10:]}"
    yield local
