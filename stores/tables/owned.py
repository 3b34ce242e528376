"""What an owner's epoch holds. Served by the index ``ix_occurrence_epoch``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, select

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
