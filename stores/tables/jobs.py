"""Schedules as APScheduler's job store lists them: one row a schedule, with its live definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, select

if TYPE_CHECKING:
    from calsched.stores.engine import Store

#: What an app sees as a job: what is over, or no longer declared, stays in the ledger only.
_OVER = ("ended", "cancelled")


def of_namespace(conn: Connection, store: Store, namespace: str, schedule_id: str | None = None) -> list[Any]:
    """(pk, id, state, reason, next_due, revision, revision_pk, state_version), over or not. By ``uq_schedule``."""
    s = store.tables.schedules.c
    query = select(
        s.pk, s.id, s.state, s.reason, s.next_due, s.held_due, s.revision, s.revision_pk, s.state_version
    ).where(s.namespace == namespace)
    if schedule_id is not None:
        query = query.where(s.id == schedule_id)
    return list(conn.execute(query).all())


def is_visible(row: Any) -> bool:
    return row.state not in _OVER and not (row.state == "disabled" and row.reason == "retired")
