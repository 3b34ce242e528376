"""Whole tables, for backups: read row by row in a stable order, written with the keys that they had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Integer,
    String,
    Table,
    func,
    literal_column,
    select,
    text,
)

from calsched.stores.schema import Tables
from calsched.stores.tables.sql import insert_many

#: In the order in which they can be written: parents first. What is not here is made anew (meta apart).
ORDER = (
    "calendars", "schedules", "revisions", "occurrences", "ranges", "attempts", "decisions", "owners", "clock", "skips",
)  # fmt: skip
#: Rows that are fetched, or inserted, at a time.
PAGE = 1000


def columns(t: Tables, name: str) -> tuple[str, ...]:
    return tuple(column.name for column in getattr(t, name).columns)


def count(conn: Connection, t: Tables, name: str) -> int:
    return int(conn.execute(select(func.count()).select_from(getattr(t, name))).scalar_one())


def read(conn: Connection, t: Tables, name: str) -> Iterator[tuple[Any, ...]]:
    """All rows of a table by key, never more than a page of them in memory."""
    table: Table = getattr(t, name)
    (key,) = table.primary_key.columns
    at = list(table.columns).index(key)
    last = None
    while True:
        page = select(table).order_by(key).limit(PAGE)
        rows = conn.execute(page if last is None else page.where(key > last)).all()
        yield from (tuple(row) for row in rows)
        if len(rows) < PAGE:
            return
        last = rows[-1][at]


def write(conn: Connection, t: Tables, name: str, rows: list[tuple[Any, ...]]) -> None:
    insert_many(conn, getattr(t, name), columns(t, name), rows)


def clear(conn: Connection, t: Tables, name: str) -> None:
    conn.execute(getattr(t, name).delete())


def go_on_counting(conn: Connection, t: Tables) -> None:
    """Let PostgreSQL give keys after the ones that were written; the others see to it themselves."""
    if conn.dialect.name != "postgresql":
        return
    for name in ORDER:
        table: Table = getattr(t, name)
        (key,) = table.primary_key.columns
        if key.autoincrement is True:
            full = f"{table.schema}.{table.name}" if table.schema else table.name
            newest = select(func.coalesce(func.max(key), literal_column("0")) + 1).scalar_subquery()
            conn.execute(select(func.setval(func.pg_get_serial_sequence(full, key.name), newest, text("false"))))


class Shape(NamedTuple):
    """What a column takes."""

    kind: type
    nullable: bool
    length: int | None = None


def shapes(t: Tables, name: str) -> Mapping[str, Shape]:
    return {column.name: _shape(column) for column in getattr(t, name).columns}


def _shape(column: Column[Any]) -> Shape:
    kind = column.type
    if isinstance(kind, Boolean):
        return Shape(bool, bool(column.nullable))
    if isinstance(kind, BigInteger | Integer):
        return Shape(int, bool(column.nullable))
    return Shape(str, bool(column.nullable), kind.length if isinstance(kind, String) else None)
