"""Whole catalogues at once: what a deploy reads of all schedules, and how it adds ten thousand in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, select, update

from calsched.stores.schema import Tables
from calsched.stores.tables.sql import CHUNK, insert_many

#: A schedule's row while its revision has no key yet.
UNBORN = 0


@cache
def _known(t: Tables, whole: bool) -> Select[Any]:
    s, r = t.schedules.c, t.revisions.c
    columns = [s.namespace, s.id, s.state, s.reason, s.revision, r.digest, s.owner]
    found = select(*columns, r.definition) if whole else select(*columns)
    return found.join_from(t.schedules, t.revisions, r.pk == s.revision_pk)


def known(conn: Connection, t: Tables, namespaces: Iterable[str], *, whole: bool) -> Iterator[Any]:
    """Each schedule of some namespaces; ``whole``: with its live definition as JSON text."""
    of_namespaces = _known(t, whole).where(t.schedules.c.namespace.in_(bindparam("names", expanding=True)))
    yield from conn.execute(of_namespaces, {"names": sorted(namespaces)})


@cache
def _numbers(t: Tables) -> Select[Any]:
    d = t.decisions.c
    used = select(d.id, func.max(d.revision)).where(d.namespace == bindparam("of"))
    return used.where(d.id.in_(bindparam("ids", expanding=True))).group_by(d.id)


def newest_numbers(conn: Connection, t: Tables, namespace: str, ids: Sequence[str]) -> dict[str, int]:
    """The last revision number of each id that was ever used, deleted ones included."""
    out: dict[str, int] = {}
    for start in range(0, len(ids), CHUNK):
        given = {"of": namespace, "ids": list(ids[start : start + CHUNK])}
        out.update({row[0]: row[1] or 0 for row in conn.execute(_numbers(t), given)})
    return out


def add_schedules(conn: Connection, t: Tables, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert schedules whose ``revision_pk`` is UNBORN; ``keys_of_unborn`` and ``give_birth`` follow."""
    insert_many(conn, t.schedules, columns, rows)


def keys_of_unborn(conn: Connection, t: Tables) -> dict[tuple[str, str], int]:
    s = t.schedules.c
    found = conn.execute(select(s.namespace, s.id, s.pk).where(s.revision_pk == UNBORN))
    return {(row[0], row[1]): row[2] for row in found}


def add_revisions(conn: Connection, t: Tables, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> None:
    insert_many(conn, t.revisions, columns, rows)


def give_birth(conn: Connection, t: Tables) -> None:
    """Point each schedule without a revision at the one that was added for it."""
    s, r = t.schedules.c, t.revisions.c
    own = select(func.max(r.pk)).where(r.schedule_pk == s.pk).scalar_subquery()
    conn.execute(update(t.schedules).where(s.revision_pk == UNBORN).values(revision_pk=own))
