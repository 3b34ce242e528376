"""Making our tables where there are none, and knowing them again where there are.

A fresh store is made in one go and stamped as if every migration had run; alembic is needed for upgrades only.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, ProgrammingError

from calsched.errors import StoreAbsent, StoreNotOurs, StoreUnreachable, StoreVersionDiffers
from calsched.stores import conflicts
from calsched.stores.schema import COMPATIBLE_SINCE, HEAD, SCHEMA_VERSION
from calsched.stores.tables import meta

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from calsched.stores.engine import Store

#: Names the lock under which tables are made, so that two processes do not make them at once.
_LOCK = 0x63616C73


def refuse_absent(shown: str, create: bool) -> None:
    if not create:
        raise StoreAbsent(f"there is no store at {shown}; `calsched create` or `calsched serve` makes one")


def found(store: Store, *, create: bool) -> str:
    """The installation id of the store, after making its tables if need be."""
    with store.read() as conn:
        if is_made(store, conn):
            return _recognise(store, conn)
    refuse_absent(store.url_shown, create)
    return conflicts.write(store, lambda conn: _found(store, conn))


def _found(store: Store, conn: Connection) -> str:
    with alone(store, conn):
        if not is_made(store, conn):
            _make(store, conn)
        return _recognise(store, conn)


def is_made(store: Store, conn: Connection) -> bool:
    """A meta table without rows is what a crash leaves where making tables is not transactional (MariaDB)."""
    table = store.tables.meta
    return inspect(conn).has_table(table.name, schema=table.schema) and not meta.is_empty(conn, store.tables)


@contextmanager
def alone(store: Store, conn: Connection) -> Iterator[None]:
    """SQLite's transaction holds the only write lock already."""
    if store.dialect == "postgresql":
        conn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        yield
    elif store.dialect == "mysql":
        if conn.execute(text("SELECT GET_LOCK('calsched', 30)")).scalar() != 1:
            raise StoreUnreachable(f"{store.url_shown}: another process has been making its tables for 30 s")
        try:
            yield
        finally:
            conn.execute(text("SELECT RELEASE_LOCK('calsched')"))
    else:
        yield


def _make(store: Store, conn: Connection) -> None:
    tables = store.tables
    try:
        tables.metadata.create_all(conn)
        meta.put(conn, tables, "installation", str(uuid.uuid4()))
        meta.put(conn, tables, "schema_version", str(SCHEMA_VERSION))
        meta.put(conn, tables, "compatible_since", str(COMPATIBLE_SINCE))
        meta.stamp(conn, tables, HEAD)
    except (OperationalError, ProgrammingError, IntegrityError) as error:
        if conflicts.lost(error) is not None:
            raise
        raise StoreNotOurs(f"the tables cannot be made in {store.url_shown}: {_first_line(error)}") from error


def _recognise(store: Store, conn: Connection) -> str:
    try:
        known = meta.all_of(conn, store.tables)
    except DBAPIError as error:
        raise _not_ours(store, error) from error
    return recognise(store, known)


def _not_ours(store: Store, error: Exception) -> StoreNotOurs:
    return StoreNotOurs(
        f"{store.url_shown} has a table {store.tables.meta.name}, but it is not one of ours ({_first_line(error)})"
    )


def recognise(store: Store, known: Mapping[str, str]) -> str:
    """The installation id, by what a store says of itself. Raises StoreNotOurs and StoreVersionDiffers."""
    try:
        version, since = int(known["schema_version"]), int(known["compatible_since"])
        installation = known["installation"]
    except (KeyError, ValueError) as error:
        raise _not_ours(store, error) from error
    if version > SCHEMA_VERSION and since > SCHEMA_VERSION:
        raise StoreVersionDiffers(
            f"{store.url_shown} has schema version {version}; this calsched knows {SCHEMA_VERSION}: upgrade calsched"
        )
    if version < SCHEMA_VERSION:
        raise StoreVersionDiffers(
            f"{store.url_shown} has schema version {version}; this calsched needs {SCHEMA_VERSION}:"
            " run `calsched db upgrade`"
        )
    return installation


def _first_line(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return (str(cause).splitlines() or [""])[0]
