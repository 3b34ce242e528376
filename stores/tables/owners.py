"""owners: who ticks and runs, by epoch. The epoch is the fencing number and is never given twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, Update, bindparam, func, insert, select, text, update

from calsched.stores.schema import Tables
from calsched.stores.tables.sql import KEYS


def add(conn: Connection, t: Tables, values: dict[str, Any]) -> int:
    key = conn.execute(insert(t.owners).values(values)).inserted_primary_key
    assert key is not None
    return int(key[0])


@cache
def _gate(t: Tables) -> Select[Any]:
    o, c = t.owners.c, t.clock.c
    hold = select(c.hold).where(c.id == text("1")).scalar_subquery()
    found = select(o.epoch, hold).where(o.epoch == bindparam("wanted"), o.state == text("'live'"))
    return found.with_for_update(read=True, key_share=True)


def gate(conn: Connection, t: Tables, epoch: int) -> tuple[bool, str | None]:
    """Whether an epoch still counts (it cannot be fenced before this transaction ends), and why nothing is dispatched
    where there is a hold."""
    found = conn.execute(_gate(t), {"wanted": epoch}).first()
    return (False, None) if found is None else (True, found[1])


@cache
def _beat(t: Tables) -> Update:
    o = t.owners.c
    changed = update(t.owners).where(o.epoch == bindparam("wanted"), o.state == "live")
    return changed.values(heartbeat_at=bindparam("now"), lease_until=bindparam("until"))


def beat(conn: Connection, t: Tables, epoch: int, now: int, until: int) -> bool:
    return conn.execute(_beat(t), {"wanted": epoch, "now": now, "until": until}).rowcount == 1


@cache
def _newest(t: Tables) -> Select[Any]:
    return select(func.max(t.owners.c.epoch))


def newest(conn: Connection, t: Tables) -> int:
    """The newest epoch; 0 before there was an owner."""
    return int(conn.execute(_newest(t)).scalar() or 0)


@cache
def _in_state(t: Tables, locking: bool) -> Select[Any]:
    found = select(t.owners).where(t.owners.c.state == bindparam("wanted")).order_by(t.owners.c.epoch)
    return found.with_for_update() if locking else found


def live(conn: Connection, t: Tables, *, locking: bool = False) -> Sequence[Any]:
    return conn.execute(_in_state(t, locking), {"wanted": "live"}).all()


def end(conn: Connection, t: Tables, dialect: str, epochs: Iterable[int], state: str) -> int:
    o = t.owners.c
    changed = update(t.owners).where(KEYS.holds(o.epoch, dialect), o.state == "live").values(state=state)
    return conn.execute(changed, KEYS.given(epochs, dialect)).rowcount
