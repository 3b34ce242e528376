"""Cursors that are computed anew, because a calendar or the zone data changed: whose, and how they are written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, or_, select

from calsched.stores.schema import Tables
from calsched.stores.tables.sql import update_many

#: Schedules that are read and locked at a time.
PAGE = 500

_COLUMNS = ("next_due", "look_at", "held_due", "state_version")


@cache
def _page(t: Tables, zoned: bool) -> Select[Any]:
    s, r = t.schedules.c, t.revisions.c
    live = or_(s.next_due.is_not(None), s.held_due.is_not(None))
    found = (
        select(t.schedules, r.created_at.label("revised_at"), r.definition)
        .join_from(t.schedules, t.revisions, r.pk == s.revision_pk)
        .where(s.pk > bindparam("after"), live)
        .order_by(s.pk)
        .limit(PAGE)
        .with_for_update(of=t.schedules)
    )
    return found.where(s.zoned == True) if zoned else found  # noqa: E712


def page(conn: Connection, t: Tables, after: int, *, zoned: bool) -> Sequence[Any]:
    """Schedules with a next due instant, by key, locked; with when their revision was made and its definition."""
    return conn.execute(_page(t, zoned), {"after": after}).all()


def write(conn: Connection, t: Tables, rows: Sequence[tuple[Any, ...]]) -> int:
    """Rows of (next due, held due, state version, key, state version before)."""
    whole = [(due, due, held, version, pk, before) for due, held, version, pk, before in rows]
    return update_many(conn, t.schedules, _COLUMNS, whole, match=("state_version",))
