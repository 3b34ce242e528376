"""What a tick has to know of a schedule's open work before it judges what is due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from calsched.model import Definition, FoldTarget, Pending
from calsched.stores.compiled import CompiledRevision
from calsched.stores.settle import width
from calsched.stores.tables import occurrences, ranges

if TYPE_CHECKING:
    from calsched.stores.engine import Store

_NOTHING_PENDING: dict[int, Pending] = {}
_IDLE = Pending()


def idle(d: Definition) -> Pending:
    """Of a schedule without open work: every slot is free."""
    slots = width(d)
    return _IDLE if slots == 1 else Pending(free_slots=tuple(range(slots)))


def pending_work(
    store: Store, conn: Connection, usable: Sequence[tuple[Any, CompiledRevision]]
) -> Mapping[int, Pending]:
    """By schedule, what is open of those that have open work at all."""
    busy = {row.pk: (row, found.definition) for row, found in usable if row.open_count}
    if not busy:
        return _NOTHING_PENDING
    t, dialect = store.tables, store.dialect
    counts: dict[int, dict[str, int]] = {pk: {} for pk in busy}
    for pk, state, count in occurrences.counts(conn, t, dialect, busy):
        counts[pk][state] = count
    taken: dict[int, set[int]] = {pk: set() for pk in busy}
    for pk, slot in occurrences.heads(conn, t, dialect, busy):
        taken[pk].add(slot)
    folding = [pk for pk, (_, d) in busy.items() if d.overlap == "coalesce"]
    targets = _fold_targets(store, conn, busy, folding) if folding else {}
    return {
        pk: Pending(
            counts[pk].get("waiting", 0),
            counts[pk].get("ready", 0),
            counts[pk].get("claimed", 0) + counts[pk].get("running", 0),
            counts[pk].get("retrying", 0),
            targets.get(pk),
            tuple(slot for slot in range(width(d)) if slot not in taken[pk]),
        )
        for pk, (_, d) in busy.items()
    }


def _fold_targets(
    store: Store, conn: Connection, busy: Mapping[int, tuple[Any, Definition]], folding: Sequence[int]
) -> dict[int, FoldTarget]:
    """By schedule, the newest occurrence of the live revision that nobody has claimed."""
    before = ranges.at_cursor(conn, store.tables, store.dialect, folding)
    out = {}
    for found in occurrences.foldable(conn, store.tables, store.dialect, folding):
        row = busy[found.schedule_pk][0]
        if found.revision_pk != row.revision_pk:
            continue
        last = before.get(row.pk)
        extends = last.pk if last is not None and last.occurrence_pk == found.pk else None
        out[row.pk] = FoldTarget(found.pk, found.ordinal, found.represents_last, extends)
    return out
