"""Occurrences of ready tasks while a host has them: epoch 0, a token and a lease."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, select, text

from calsched.stores.schema import CLAIMABLE, HELD, Tables
from calsched.stores.tables.sql import Rows, update_many

_BEGUN = ("token", "lease_until", "started_at", "attempt")


def begin(conn: Connection, t: Tables, rows: Rows) -> int:
    """(token, lease until, started at, attempt, key) each: a ready task runs at a host."""
    full = [(*row[:4], "running", 0, row[2], row[4]) for row in rows]
    return update_many(conn, t.occurrences, (*_BEGUN, "state", "epoch", "claimed_at"), full, where=CLAIMABLE)


@cache
def _expired(t: Tables) -> Select[Any]:
    o = t.occurrences.c
    found = select(o.pk, o.schedule_pk).where(o.epoch == text("0"), text(HELD), o.lease_until < bindparam("now"))
    return found.limit(500)


def expired(conn: Connection, t: Tables, now: int) -> Sequence[Any]:
    """(key, schedule) of what hosts run whose lease is over (``ix_occurrence_epoch``)."""
    return conn.execute(_expired(t), {"now": now}).all()


def is_asked_to_stop(conn: Connection, t: Tables, pk: int) -> bool:
    return bool(conn.execute(select(t.occurrences.c.cancel).where(t.occurrences.c.pk == pk)).scalar())
