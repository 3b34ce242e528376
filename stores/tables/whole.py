"""Removing schedules with everything that hangs on them, children first: an app's engine may not enforce cascades."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, select

from calsched.stores.schema import Tables
from calsched.stores.tables.sql import KEYS


def remove(conn: Connection, t: Tables, dialect: str, schedule_pks: Sequence[int]) -> None:
    given = KEYS.given(schedule_pks, dialect)
    o = t.occurrences.c
    of_these = select(o.pk).where(KEYS.holds(o.schedule_pk, dialect))
    conn.execute(delete(t.attempts).where(t.attempts.c.occurrence_pk.in_(of_these)), given)
    for table in (t.occurrences, t.ranges, t.skips, t.revisions):
        conn.execute(delete(table).where(KEYS.holds(table.c.schedule_pk, dialect)), given)
    conn.execute(delete(t.schedules).where(KEYS.holds(t.schedules.c.pk, dialect)), given)
