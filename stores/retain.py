"""Retention: old verdicts go, from the oldest on, in small transactions that let an owner work in between.

Each revision keeps a watermark (``pruned_before``), so that ``why`` can say "pruned" and the tiling holds above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import Connection

from calsched.policies.retention import Entry, Keep, watermark
from calsched.stores import conflicts
from calsched.stores.tables import prune as pruning
from calsched.stores.tables import revisions, schedules

if TYPE_CHECKING:
    from calsched.stores.engine import Store

#: Verdicts that one transaction removes at most.
BATCH = 500
#: Owners that are remembered after they have ended.
OWNERS = 200

Progress = Callable[[int, int], None]  # schedules done, of how many


class Pruned(NamedTuple):
    """How many rows went."""

    occurrences: int = 0
    ranges: int = 0
    extra_runs: int = 0

    def __add__(self, other: object) -> Pruned:
        if not isinstance(other, Pruned):
            return NotImplemented
        return Pruned(*(a + b for a, b in zip(self, other, strict=True)))


def prune(
    store: Store,
    now: int,
    keep: Keep,
    *,
    namespace: str | None = None,
    schedule_id: str | None = None,
    batch: int = BATCH,
    progress: Progress | None = None,
) -> Pruned:
    """Prune every schedule, or one of them, down to what is to be kept.

    Never an open row, never what comes after one, never the last outcome of a schedule.
    """
    if keep.age is None and keep.verdicts is None:
        return Pruned()
    with store.read() as conn:
        pks = pruning.schedules(conn, store.tables, namespace, schedule_id)
    total = Pruned()
    for done, pk in enumerate(pks, 1):
        for step in _steps(store, pk, keep, now, batch):
            total += step
        if progress is not None:
            progress(done, len(pks))
    conflicts.write(store, lambda conn: pruning.forget_owners(conn, store.tables, OWNERS))
    return total


def _steps(store: Store, pk: int, keep: Keep, now: int, batch: int) -> Iterator[Pruned]:
    with store.read() as conn:
        numbers = [row.pk for row in reversed(revisions.of(conn, store.tables, pk))]
        if not pruning.has_more(conn, store.tables, pk, keep.verdicts or 0):
            return
    for revision_pk in numbers:
        while True:
            step = conflicts.write(store, partial(_step, store, pk, revision_pk, keep, now, batch))
            if step is None:
                break
            yield step
    if keep.age is not None:
        before = now - keep.age
        gone = conflicts.write(store, lambda conn: pruning.extra_runs(conn, store.tables, pk, before))
        yield Pruned(extra_runs=gone)


def _step(store: Store, pk: int, revision_pk: int, keep: Keep, now: int, batch: int, conn: Connection) -> Pruned | None:
    """Remove some of a revision's oldest verdicts; None when there is nothing (more) to remove."""
    t = store.tables
    if not schedules.lock(conn, t, store.dialect, (pk,)):
        return None
    mark = revisions.by_pk(conn, t, revision_pk).pruned_before
    last = pruning.last_outcome(conn, t, pk)
    kept = batch + (keep.verdicts or 0)
    entries = [Entry(*entry) for entry in pruning.oldest(conn, t, revision_pk, last, kept)]
    if keep.verdicts is not None:
        keep = keep._replace(verdicts=max(0, keep.verdicts - pruning.newer(conn, t, pk, revision_pk, keep.verdicts)))
    new = watermark(entries, keep, now, mark)
    if new <= mark:
        return None
    removed = pruning.remove_below(conn, t, revision_pk, new)
    revisions.change(conn, t, revision_pk, {"pruned_before": new})
    return Pruned(*removed)
