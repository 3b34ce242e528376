"""ranges: consecutive slots that share a verdict, two endpoints a row."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, select

from calsched.model import PlannedRange
from calsched.stores.schema import Tables
from calsched.stores.tables.sql import KEYS, Rows, insert_many, update_many

COLUMNS = (
    "schedule_pk", "revision_pk", "first", "last", "first_due", "last_due", "verdict", "reason", "occurrence_pk",
    "counted", "created_at", "note",
)  # fmt: skip


def row(
    schedule_pk: int,
    revision_pk: int,
    planned: PlannedRange,
    occurrence_pk: int | None,
    now: int,
    note: str | None = None,
) -> tuple[Any, ...]:
    verdict = "skipped" if occurrence_pk is None else "represented"
    return (
        schedule_pk, revision_pk, planned.first, planned.last, planned.first_due, planned.last_due, verdict,
        planned.reason, occurrence_pk, planned.counted, now, note,
    )  # fmt: skip


def add(conn: Connection, t: Tables, rows: Rows) -> None:
    insert_many(conn, t.ranges, COLUMNS, rows)


def extend(conn: Connection, t: Tables, rows: Rows) -> int:
    """(last, last due, key) each."""
    return update_many(conn, t.ranges, ("last", "last_due"), rows)


@cache
def _at_cursor(t: Tables, dialect: str) -> Select[Any]:
    s, r = t.schedules.c, t.ranges.c
    found = select(r.schedule_pk, r.pk, r.last, r.reason, r.occurrence_pk)
    joined = found.join_from(t.schedules, t.ranges, (r.revision_pk == s.revision_pk) & (r.last == s.next_ordinal - 1))
    return joined.where(KEYS.holds(s.pk, dialect))


def at_cursor(conn: Connection, t: Tables, dialect: str, schedule_pks: Iterable[int]) -> dict[int, Any]:
    """By schedule, the range of the live revision that ends right before the next ordinal; it may be extended."""
    found = conn.execute(_at_cursor(t, dialect), KEYS.given(schedule_pks, dialect))
    return {row.schedule_pk: row for row in found}
