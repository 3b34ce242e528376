"""What a backfill asks of a schedule's past, and does to its own occurrences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, func, select, text, update

from calsched.clock import LAST_INSTANT
from calsched.stores.schema import OPEN, Tables
from calsched.stores.tables.sql import KEYS


@cache
def _runs_at(t: Tables, dialect: str) -> Select[Any]:
    o = t.occurrences.c
    found = select(o.series, o.due, o.state).where(KEYS.holds(o.due, dialect))
    return found.where(o.series.in_(("slot", "backfill"))).order_by(o.pk)


def runs_at(conn: Connection, t: Tables, dialect: str, schedule_pk: int, dues: Iterable[int]) -> Sequence[Any]:
    """(series, due, state) of slots and backfills at these instants, oldest rows first (``ix_occurrence_history``)."""
    found = _runs_at(t, dialect).where(t.occurrences.c.schedule_pk == schedule_pk)
    return conn.execute(found, KEYS.given(dues, dialect)).all()


def spans(conn: Connection, t: Tables, schedule_pk: int, first: int, last: int) -> list[tuple[int, int, str]]:
    """(first due, last due, state) of ranges that reach into a span, oldest first (``ix_range_history``).

    The state is that of the occurrence which stands for the slots; ``skipped`` where none does.
    """
    r, o = t.ranges.c, t.occurrences.c
    found = select(r.first_due, r.last_due, func.coalesce(o.state, "skipped"))
    found = found.join_from(t.ranges, t.occurrences, o.pk == r.occurrence_pk, isouter=True)
    found = found.where(r.schedule_pk == schedule_pk, r.last_due >= first, r.first_due <= last)
    return [(start, end, state) for start, end, state in conn.execute(found.order_by(r.last_due))]


def oldest_kept(conn: Connection, t: Tables, revision_pk: int) -> int | None:
    """The first due instant of a revision of which something is still recorded."""
    o, r = t.occurrences.c, t.ranges.c
    run = select(func.min(o.slot_due)).where(o.revision_pk == revision_pk)
    span = select(func.min(r.first_due)).where(r.revision_pk == revision_pk)
    found = [conn.execute(one).scalar() for one in (run, span)]
    return min((at for at in found if at is not None), default=None)


def _open(t: Tables, schedule_pk: int) -> list[Any]:
    o = t.occurrences.c
    return [o.schedule_pk == schedule_pk, text("series = 'backfill'"), text(OPEN)]


_IDLE = text("state IN ('waiting', 'ready', 'retrying')")


def is_held(conn: Connection, t: Tables, schedule_pk: int) -> bool:
    """Whether the backfills of a schedule are paused: some of them wait for the end of time."""
    o = t.occurrences.c
    found = select(o.pk).where(*_open(t, schedule_pk), o.run_at == LAST_INSTANT)
    return conn.execute(found.limit(1)).first() is not None


def hold(conn: Connection, t: Tables, schedule_pk: int) -> int:
    changed = update(t.occurrences).where(*_open(t, schedule_pk), _IDLE)
    return conn.execute(changed.values(run_at=LAST_INSTANT)).rowcount


def let_go(conn: Connection, t: Tables, schedule_pk: int, now: int) -> int:
    changed = update(t.occurrences).where(*_open(t, schedule_pk), _IDLE, t.occurrences.c.run_at == LAST_INSTANT)
    return conn.execute(changed.values(run_at=now)).rowcount


def newest_decision(conn: Connection, t: Tables, namespace: str, schedule_id: str) -> int:
    d = t.decisions.c
    found = select(func.max(d.pk)).where(d.namespace == namespace, d.id == schedule_id)
    return int(conn.execute(found).scalar_one())


def cancelled_since(conn: Connection, t: Tables, namespace: str, schedule_id: str, decision: int) -> bool:
    """Whether the backfills of a schedule were cancelled after a decision."""
    d = t.decisions.c
    found = select(d.pk).where(d.namespace == namespace, d.id == schedule_id, d.pk > decision)
    return conn.execute(found.where(d.action == "cancelBackfill").limit(1)).first() is not None
