"""schedules: one row a schedule, with the live revision's cursor. Its lock is the mutex of all that is pending."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, delete, func, insert, select, text, update

from calsched.stores.schema import Tables
from calsched.stores.tables.sql import CHUNK, KEYS, Rows, by_primary_key, record, update_many

#: What an advance reads, in this order.
ADVANCED = (
    "pk", "namespace", "id", "state", "revision", "revision_pk", "state_version", "next_ordinal", "next_due",
    "last_due", "last_local", "used", "open_count", "skip_count", "held_by",
)  # fmt: skip
Due = record("Due", ADVANCED)
#: What Python makes of each of them, where its row is sound.
_TEXT: frozenset[type] = frozenset({str})
_NUMBER: frozenset[type] = frozenset({int})
_NUMBER_OR_NONE = _NUMBER | {type(None)}
ADVANCED_KINDS: tuple[frozenset[type], ...] = (
    _NUMBER, _TEXT, _TEXT, _TEXT, _NUMBER, _NUMBER, _NUMBER, _NUMBER, _NUMBER_OR_NONE, _NUMBER_OR_NONE,
    _TEXT | {type(None)}, _NUMBER, _NUMBER, _NUMBER, _NUMBER_OR_NONE,
)  # fmt: skip
#: What an advance writes.
CURSOR = (
    "state", "reason", "state_version", "next_ordinal", "next_due", "look_at", "last_due", "last_local", "used",
    "open_count", "attention",
)  # fmt: skip


@cache
def _due(t: Tables, zoned: bool, chosen: bool, dialect: str) -> Select[Any]:
    s = t.schedules.c
    found = select(*(s[name] for name in ADVANCED)).where(s.look_at <= bindparam("now"))
    if not zoned:
        found = found.where(s.zoned == False)  # noqa: E712
    if chosen:
        found = found.where(KEYS.holds(s.pk, dialect))
    return found.order_by(s.look_at, s.pk).limit(bindparam("most")).with_for_update(skip_locked=True)


def due(
    conn: Connection, t: Tables, dialect: str, now: int, most: int, *, only: Sequence[int] | None, zoned: bool
) -> Sequence[Any]:
    """The schedules to advance, oldest first, locked; those that another owner holds are left out."""
    given = {"now": now, "most": most}
    if only is not None:
        given |= KEYS.given(only, dialect)
    return [Due._make(row) for row in conn.execute(_due(t, zoned, only is not None, dialect), given)]


@cache
def _soonest(t: Tables) -> Select[Any]:
    return select(func.min(t.schedules.c.look_at)).where(t.schedules.c.look_at > bindparam("now"))


@cache
def _any_due(t: Tables) -> Select[Any]:
    return select(t.schedules.c.pk).where(t.schedules.c.look_at <= bindparam("now")).limit(1)


def any_due(conn: Connection, t: Tables, now: int) -> bool:
    return conn.execute(_any_due(t), {"now": now}).first() is not None


def write_cursors(conn: Connection, t: Tables, rows: Rows) -> int:
    """Compare and set: each row ends with the key, and the state version and ordinal that the plan started from."""
    return update_many(conn, t.schedules, CURSOR, rows, match=("state_version", "next_ordinal"))


#: What the outcome of an occurrence needs to know of its schedule.
HELD = (
    "pk", "namespace", "id", "state", "reason", "revision", "revision_pk", "state_version", "next_due", "open_count",
    "failures", "last_failure",
)  # fmt: skip


@cache
def _lock(t: Tables, dialect: str, free: bool) -> Select[Any]:
    s = t.schedules.c
    found = select(*(s[name] for name in HELD)).where(KEYS.holds(s.pk, dialect)).order_by(s.pk)
    return by_primary_key(found, t.schedules).with_for_update(skip_locked=free)


def lock(conn: Connection, t: Tables, dialect: str, pks: Iterable[int]) -> dict[int, Any]:
    """The rows, locked in the order of their keys (waits for whoever holds one)."""
    found = conn.execute(_lock(t, dialect, False), KEYS.given(sorted(set(pks)), dialect)).all()
    return {row[0]: row for row in found}


@cache
def _lock_of(t: Tables, dialect: str) -> Select[Any]:
    s, o = t.schedules.c, t.occurrences.c
    theirs = select(o.schedule_pk).where(KEYS.holds(o.pk, dialect))
    return select(*(s[name] for name in HELD)).where(s.pk.in_(theirs)).order_by(s.pk).with_for_update()


@cache
def _of(t: Tables, dialect: str) -> Select[Any]:
    o = t.occurrences.c
    return select(o.schedule_pk).distinct().where(KEYS.holds(o.pk, dialect))


def lock_of(conn: Connection, t: Tables, dialect: str, occurrence_pks: Iterable[int]) -> dict[int, Any]:
    """The schedules of some occurrences, locked in the order of their keys.

    MariaDB reads them first: in one statement it may lock them in another order, and occurrences with them.
    """
    given = KEYS.given(occurrence_pks, dialect)
    if dialect == "mysql":
        return lock(conn, t, dialect, conn.execute(_of(t, dialect), given).scalars())
    return {row[0]: row for row in conn.execute(_lock_of(t, dialect), given)}


def lock_free(conn: Connection, t: Tables, dialect: str, pks: Iterable[int]) -> dict[int, Any]:
    """The rows that nobody else holds, locked."""
    found = conn.execute(_lock(t, dialect, True), KEYS.given(sorted(set(pks)), dialect)).all()
    return {row[0]: row for row in found}


@cache
def _by_id(t: Tables, locking: bool) -> Select[Any]:
    s = t.schedules.c
    found = select(t.schedules).where(s.namespace == bindparam("namespace"), s.id == bindparam("id"))
    return found.with_for_update() if locking else found


def by_id(conn: Connection, t: Tables, namespace: str, schedule_id: str, *, locking: bool = False) -> Row[Any] | None:
    """One whole row. MariaDB would lock it by way of its name, and cross with whoever holds it by its key: there it is
    locked by its key first, as everybody does."""
    given = {"namespace": namespace, "id": schedule_id}
    if locking and conn.dialect.name in ("mysql", "mariadb"):
        key = conn.execute(_by_id(t, False), given).first()
        row = key and conn.execute(_by_pk(t), {"wanted": key.pk}).first()
        if row is not None and (row.namespace, row.id) == (namespace, schedule_id):
            return row  # else it was made, renamed or deleted in between
    return conn.execute(_by_id(t, locking), given).first()


@cache
def _by_pk(t: Tables) -> Select[Any]:
    return select(t.schedules).where(t.schedules.c.pk == bindparam("wanted")).with_for_update()


def by_pk(conn: Connection, t: Tables, pk: int) -> Row[Any]:
    """One whole row, locked."""
    return conn.execute(_by_pk(t), {"wanted": pk}).one()


@cache
def _pks_of(t: Tables) -> Select[Any]:
    s = t.schedules.c
    found = select(s.pk).where(s.namespace == bindparam("namespace"))
    return found.where(s.id.in_(bindparam("ids", expanding=True)))


def pks_of(conn: Connection, t: Tables, names: Iterable[tuple[str, str]]) -> list[int]:
    """The keys, in order, of the schedules that there are of some (namespace, id); nothing is locked."""
    ids: dict[str, list[str]] = {}
    for namespace, schedule_id in names:
        ids.setdefault(namespace, []).append(schedule_id)
    found: list[int] = []
    for namespace, wanted in ids.items():
        for start in range(0, len(wanted), CHUNK):
            given = {"namespace": namespace, "ids": wanted[start : start + CHUNK]}
            found += conn.execute(_pks_of(t), given).scalars().all()
    return sorted(found)


def all_pks(conn: Connection, t: Tables) -> list[int]:
    s = t.schedules.c
    return list(conn.execute(select(s.pk).order_by(s.pk)).scalars().all())


def keys_in(conn: Connection, t: Tables, namespace: str) -> list[int]:
    s = t.schedules.c
    return list(conn.execute(select(s.pk).where(s.namespace == namespace).order_by(s.pk)).scalars().all())


def add(conn: Connection, t: Tables, values: dict[str, Any]) -> int:
    key = conn.execute(insert(t.schedules).values(values)).inserted_primary_key
    assert key is not None
    return int(key[0])


def change(conn: Connection, t: Tables, pk: int, values: dict[str, Any], version: int | None = None) -> bool:
    """Change one row; with a ``version``, only while its state version still is that one."""
    s = t.schedules.c
    statement = update(t.schedules).where(s.pk == pk).values(values)
    if version is not None:
        statement = statement.where(s.state_version == version)
    return conn.execute(statement).rowcount == 1


def release(conn: Connection, t: Tables, pk: int, epoch: int) -> None:
    """End the hold of a lingering worker, if it still is this owner's."""
    s = t.schedules.c
    conn.execute(update(t.schedules).where(s.pk == pk, s.held_by == epoch).values(held_by=None))


def release_all(conn: Connection, t: Tables, dialect: str, epochs: Iterable[int]) -> None:
    """Workers die with their process: the holds of owners that are gone end."""
    s = t.schedules.c
    held = update(t.schedules).where(KEYS.holds(s.held_by, dialect)).values(held_by=None)
    conn.execute(held, KEYS.given(epochs, dialect))


def remove(conn: Connection, t: Tables, pk: int) -> None:
    conn.execute(delete(t.schedules).where(t.schedules.c.pk == pk))


@cache
def _resuming(t: Tables) -> Select[Any]:
    s = t.schedules.c
    found = select(s.pk).where(s.resume_at <= bindparam("now"), text("resume_at IS NOT NULL"))
    return found.order_by(s.resume_at).limit(100).with_for_update(skip_locked=True)


def resuming(conn: Connection, t: Tables, now: int) -> list[int]:
    """Schedules whose pause is over."""
    return list(conn.execute(_resuming(t), {"now": now}).scalars().all())


@cache
def _next_resume(t: Tables) -> Select[Any]:
    s = t.schedules.c
    return select(func.min(s.resume_at)).where(s.resume_at > bindparam("now"), text("resume_at IS NOT NULL"))


@cache
def _next_look(t: Tables) -> Select[Any]:
    return select(_soonest(t).scalar_subquery(), _next_resume(t).scalar_subquery())


def next_look(conn: Connection, t: Tables, now: int) -> int | None:
    """When the next schedule is due, or the next pause over; those of ``now`` and before aside."""
    found = conn.execute(_next_look(t), {"now": now}).one()
    return min((at for at in found if at is not None), default=None)
