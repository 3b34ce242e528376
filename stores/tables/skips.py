"""skips: due instants that an operator wants skipped, until their tick has judged them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, func, insert, select

from calsched.stores.schema import Tables
from calsched.stores.tables.sql import KEYS


@cache
def _of(t: Tables, dialect: str) -> Select[Any]:
    c = t.skips.c
    return select(c.schedule_pk, c.due, c.note, c.principal).where(KEYS.holds(c.schedule_pk, dialect)).order_by(c.due)


def of(conn: Connection, t: Tables, dialect: str, schedule_pks: Iterable[int]) -> dict[int, list[Any]]:
    out: dict[int, list[Any]] = defaultdict(list)
    for row in conn.execute(_of(t, dialect), KEYS.given(schedule_pks, dialect)):
        out[row.schedule_pk].append(row)
    return out


def add(conn: Connection, t: Tables, rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        conn.execute(insert(t.skips), rows)


def drop(conn: Connection, t: Tables, schedule_pk: int, *, up_to: int | None = None, due: int | None = None) -> int:
    """Remove a schedule's skips that are judged; how many remain."""
    c = t.skips.c
    statement = delete(t.skips).where(c.schedule_pk == schedule_pk)
    if up_to is not None:
        statement = statement.where(c.due <= up_to)
    if due is not None:
        statement = statement.where(c.due == due)
    conn.execute(statement)
    left = select(func.count()).select_from(t.skips).where(c.schedule_pk == bindparam("schedule"))
    return int(conn.execute(left, {"schedule": schedule_pk}).scalar_one())
