"""calendars: business calendars by name and version, each in its resolved form. Versions never change."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, insert, select

from calsched.calendars import BusinessCalendar
from calsched.errors import StoreNotOurs
from calsched.stores.damage import is_damaged, told
from calsched.stores.schema import Tables


@cache
def _one(t: Tables) -> Select[Any]:
    c = t.calendars.c
    return select(c.definition).where(c.name == bindparam("wanted"), c.version == bindparam("number"))


def load(
    conn: Connection, t: Tables, wanted: Mapping[str, int], kept: dict[tuple[str, int], BusinessCalendar]
) -> dict[str, BusinessCalendar]:
    """Calendars by name, in the versions asked for. ``kept`` remembers what was read before."""
    out = {}
    for name, version in wanted.items():
        found = kept.get((name, version))
        if found is None:
            text = conn.execute(_one(t), {"wanted": name, "number": version}).scalar()
            if text is None:
                raise StoreNotOurs(f"calendar {name!r} has no version {version} in this store, but a schedule needs it")
            if is_damaged(text):
                raise StoreNotOurs(told(t.calendars.name, f"{name} {version}", ("definition",)))
            found = kept[name, version] = BusinessCalendar(name, version, json.loads(text))
        out[name] = found
    return out


@cache
def _newest(t: Tables) -> Select[Any]:
    c = t.calendars.c
    newest = select(c.name, func.max(c.version).label("version")).group_by(c.name).subquery()
    found = select(t.calendars).join(newest, (c.name == newest.c.name) & (c.version == newest.c.version))
    return found.order_by(c.name)


def newest(conn: Connection, t: Tables) -> Sequence[Any]:
    """Each calendar's newest version."""
    return conn.execute(_newest(t)).all()


def add(conn: Connection, t: Tables, values: Mapping[str, Any]) -> None:
    conn.execute(insert(t.calendars).values(**values))
