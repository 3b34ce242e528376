"""attempts: each try at running an occurrence, late reports of fenced owners among them (as evidence only)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, select

from calsched.stores.schema import Tables
from calsched.stores.tables.sql import KEYS, Rows, insert_many

COLUMNS = (
    "occurrence_pk", "number", "epoch", "state", "started_at", "ended_at", "elapsed", "uncertain", "late",
    "error_type", "error", "traceback",
)  # fmt: skip


def add(conn: Connection, t: Tables, rows: Rows) -> None:
    insert_many(conn, t.attempts, COLUMNS, rows)


@cache
def _of(t: Tables, dialect: str) -> Select[Any]:
    a = t.attempts.c
    return select(t.attempts).where(KEYS.holds(a.occurrence_pk, dialect)).order_by(a.occurrence_pk, a.number, a.pk)


def of(conn: Connection, t: Tables, dialect: str, occurrence_pks: Iterable[int]) -> Sequence[Any]:
    return conn.execute(_of(t, dialect), KEYS.given(occurrence_pks, dialect)).all()
