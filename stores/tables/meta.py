"""meta: what the store knows about itself, by name; and Alembic's stamp."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Connection, Insert, Select, bindparam, delete, insert, select

from calsched.stores.schema import Tables


@cache
def _all(t: Tables) -> Select[Any]:
    return select(t.meta.c.name, t.meta.c.value)


@cache
def _one(t: Tables) -> Select[Any]:
    return select(t.meta.c.value).where(t.meta.c.name == bindparam("wanted"))


@cache
def _insert(t: Tables) -> Insert:
    return insert(t.meta)


def is_empty(conn: Connection, t: Tables) -> bool:
    return conn.execute(_all(t).limit(1)).first() is None


def all_of(conn: Connection, t: Tables) -> dict[str, str]:
    return {name: value for name, value in conn.execute(_all(t))}


def get(conn: Connection, t: Tables, name: str) -> str | None:
    value: str | None = conn.execute(_one(t), {"wanted": name}).scalar_one_or_none()
    return value


def lock(conn: Connection, t: Tables) -> None:
    """Wait for others who change what the store knows about itself; until this transaction ends."""
    conn.execute(_one(t).with_for_update(), {"wanted": "installation"})


def put(conn: Connection, t: Tables, name: str, value: str) -> None:
    conn.execute(delete(t.meta).where(t.meta.c.name == name))
    conn.execute(_insert(t), {"name": name, "value": value})


def stamped(conn: Connection, t: Tables) -> str | None:
    """The Alembic revision that the tables have."""
    found: str | None = conn.execute(select(t.alembic.c.version_num)).scalar()
    return found


def stamp(conn: Connection, t: Tables, revision: str) -> None:
    conn.execute(delete(t.alembic))
    conn.execute(insert(t.alembic), {"version_num": revision})
