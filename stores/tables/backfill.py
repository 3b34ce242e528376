"""What a backfill asks of a revision's past."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from calsched.stores.schema import Tables
from calsched.stores.tables.sql import Rows, update_many


def verdicts(conn: Connection, t: Tables, revision_pk: int, first: int, last: int) -> dict[int, tuple[int, str]]:
    """By due instant, (ordinal, state) of the revision's own slots (``uq_slot_due``)."""
    o = t.occurrences.c
    found = select(o.slot_due, o.ordinal, o.state).where(o.revision_pk == revision_pk, o.slot_due.between(first, last))
    return {due: (ordinal, state) for due, ordinal, state in conn.execute(found)}


def oldest_kept(conn: Connection, t: Tables, revision_pk: int) -> int | None:
    """The first due instant of which something is still recorded."""
    o, r = t.occurrences.c, t.ranges.c
    run = conn.execute(select(func.min(o.slot_due)).where(o.revision_pk == revision_pk)).scalar()
    span = conn.execute(select(func.min(r.first_due)).where(r.revision_pk == revision_pk)).scalar()
    return min((at for at in (run, span) if at is not None), default=None)


def set_run_at(conn: Connection, t: Tables, rows: Rows) -> int:
    """(run at, key) each."""
    return update_many(conn, t.occurrences, ("run_at",), rows, where="state IN ('waiting', 'ready', 'retrying')")
