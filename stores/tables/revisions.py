"""revisions: immutable definitions, numbered; only where they ended and what was pruned is ever written again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, Select, bindparam, delete, insert, select, update

from calsched.stores.schema import Tables
from calsched.stores.tables.sql import KEYS

if TYPE_CHECKING:
    from calsched.stores.engine import Store


@cache
def _definitions(t: Tables, dialect: str) -> Select[Any]:
    s, r = t.schedules.c, t.revisions.c
    found = select(r.pk, r.schedule_pk, s.namespace, s.id, r.number, r.definition, r.digest)
    return found.join_from(t.revisions, t.schedules, s.pk == r.schedule_pk).where(KEYS.holds(r.pk, dialect))


def definitions(conn: Connection, store: Store, pks: Iterable[int]) -> Sequence[Any]:
    """(pk, schedule pk, namespace, schedule id, number, definition as JSON text, digest) of revisions."""
    return conn.execute(_definitions(store.tables, store.dialect), KEYS.given(pks, store.dialect)).all()


@cache
def _one(t: Tables) -> Select[Any]:
    r = t.revisions.c
    return select(t.revisions).where(r.schedule_pk == bindparam("schedule"), r.number == bindparam("wanted"))


def one(conn: Connection, t: Tables, schedule_pk: int, number: int) -> Row[Any] | None:
    return conn.execute(_one(t), {"schedule": schedule_pk, "wanted": number}).first()


@cache
def _by_pk(t: Tables) -> Select[Any]:
    return select(t.revisions).where(t.revisions.c.pk == bindparam("wanted"))


def by_pk(conn: Connection, t: Tables, pk: int) -> Row[Any]:
    return conn.execute(_by_pk(t), {"wanted": pk}).one()


@cache
def _of(t: Tables) -> Select[Any]:
    r = t.revisions.c
    return select(t.revisions).where(r.schedule_pk == bindparam("schedule")).order_by(r.number.desc())


def of(conn: Connection, t: Tables, schedule_pk: int) -> Sequence[Any]:
    """A schedule's revisions, newest first."""
    return conn.execute(_of(t), {"schedule": schedule_pk}).all()


def add(conn: Connection, t: Tables, values: dict[str, Any]) -> int:
    key = conn.execute(insert(t.revisions).values(values)).inserted_primary_key
    assert key is not None
    return int(key[0])


def change(conn: Connection, t: Tables, pk: int, values: dict[str, Any]) -> None:
    conn.execute(update(t.revisions).where(t.revisions.c.pk == pk).values(values))


def remove_of(conn: Connection, t: Tables, schedule_pk: int) -> None:
    conn.execute(delete(t.revisions).where(t.revisions.c.schedule_pk == schedule_pk))
