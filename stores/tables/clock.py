"""clock: one row with the highest UTC that a tick saw, and the hold on dispatch where there is one."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Connection, Row, Select, insert, select, update

from calsched.stores.schema import Tables


@cache
def _row(t: Tables, locking: bool) -> Select[Any]:
    found = select(t.clock).where(t.clock.c.id == 1)
    return found.with_for_update() if locking else found


@cache
def _hold(t: Tables) -> Select[Any]:
    return select(t.clock.c.hold).where(t.clock.c.id == 1)


def row(conn: Connection, t: Tables, *, locking: bool = False) -> Row[Any] | None:
    return conn.execute(_row(t, locking)).first()


def hold(conn: Connection, t: Tables) -> str | None:
    """Why nothing is dispatched; None when it is."""
    found: str | None = conn.execute(_hold(t)).scalar()
    return found


def put(conn: Connection, t: Tables, values: dict[str, Any]) -> None:
    if conn.execute(update(t.clock).where(t.clock.c.id == 1).values(values)).rowcount == 0:
        conn.execute(insert(t.clock).values(id=1, **values))
