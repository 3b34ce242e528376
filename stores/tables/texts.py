"""The texts of any table, for whoever looks for damage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, String, Table, select

from calsched.stores.schema import Tables


def of(conn: Connection, table: Table) -> Iterator[Any]:
    """The key and every text of each row, a few rows at a time."""
    keys = list(table.primary_key.columns)
    columns = [column for column in table.columns if isinstance(column.type, String) and column not in keys]
    yield from conn.execution_options(yield_per=500).execute(select(*keys, *columns))


def schedule_of(conn: Connection, t: Tables, table: Table, pk: Any) -> tuple[str | None, str | None]:
    """(namespace, id) of the schedule that a row belongs to; Nones where it belongs to none."""
    schedule_pk = _schedule_key(conn, t, table, pk)
    if table is t.decisions:
        found = select(table.c.namespace, table.c.id).where(table.c.pk == pk)
    else:
        found = select(t.schedules.c.namespace, t.schedules.c.id).where(t.schedules.c.pk == schedule_pk)
    row = conn.execute(found).first()
    return (None, None) if row is None else (row.namespace, row.id)


def _schedule_key(conn: Connection, t: Tables, table: Table, pk: Any) -> Any:
    if table is t.schedules:
        return pk
    if table is t.attempts:
        a, o = t.attempts.c, t.occurrences.c
        found = select(o.schedule_pk).join_from(t.attempts, t.occurrences, o.pk == a.occurrence_pk).where(a.pk == pk)
    elif "schedule_pk" in table.c:
        found = select(table.c.schedule_pk).where(table.c.pk == pk)
    else:
        return None
    return conn.execute(found).scalar()
