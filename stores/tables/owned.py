"""What an owner's epoch holds (served by the index ``ix_occurrence_epoch``), and what no owner will take."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, select, text

from calsched.stores.schema import CLAIMABLE

if TYPE_CHECKING:
    from calsched.stores.engine import Store


def held(conn: Connection, store: Store, epoch: int) -> dict[int, str]:
    """Claimed and running occurrences of an epoch, by key."""
    c = store.tables.occurrences.c
    rows = conn.execute(select(c.pk, c.state).where(c.epoch == epoch, c.state.in_(("claimed", "running"))))
    return {pk: state for pk, state in rows}


def cancel_wishes(conn: Connection, store: Store, epoch: int) -> set[int]:
    """Running occurrences of an epoch that somebody wants stopped."""
    c = store.tables.occurrences.c
    query = select(c.pk).where(c.epoch == epoch, c.state == "running", c.cancel.is_(True))
    return set(conn.execute(query).scalars())


def live_owners(conn: Connection, store: Store, now: int) -> int:
    """How many owners have a lease at this moment."""
    c = store.tables.owners.c
    query = select(func.count()).where(c.state == "live", c.lease_until > now)
    return int(conn.execute(query).scalar_one())


def unserved(
    conn: Connection, store: Store, now: int, executors: Collection[str], most: int = 100
) -> list[tuple[str, str, str]]:
    """(namespace, schedule id, executor) of what is ready for executors other than these (``ix_occurrence_run``)."""
    o, s = store.tables.occurrences.c, store.tables.schedules.c
    found = select(s.namespace, s.id, o.executor).distinct()
    found = found.join_from(store.tables.occurrences, store.tables.schedules, s.pk == o.schedule_pk)
    ready = text(f"{store.tables.occurrences.name}.{CLAIMABLE}")
    found = found.where(ready, o.executor.not_in(["", *executors]), o.run_at <= now, s.state.in_(("enabled", "ended")))
    rows = conn.execute(found.order_by(s.namespace, s.id).limit(most))
    return [(namespace, id, executor) for namespace, id, executor in rows]
