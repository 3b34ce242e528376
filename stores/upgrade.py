"""Upgrades: which schema a store has, the steps to the newest one, and whether the tables are what they should be.

The only module that imports Alembic; a store that is fresh or current never does.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, UniqueConstraint, inspect

from calsched.errors import StoreNotOurs
from calsched.stores import conflicts, founding
from calsched.stores.schema import COMPATIBLE_SINCE, HEAD, SCHEMA_VERSION
from calsched.stores.tables import meta

if TYPE_CHECKING:
    from calsched.stores.engine import Store

_STEPS = Path(__file__).parent / "migrations"


class Current(NamedTuple):
    """Alembic's revision and our schema version; None where there are no tables of ours."""

    revision: str | None
    version: int | None
    newest: str = HEAD

    @property
    def up_to_date(self) -> bool:
        return self.revision == self.newest


def current(store: Store) -> Current:
    """Where a store stands, without changing it."""
    with store.read() as conn:
        if not founding.is_made(store, conn):
            return Current(None, None)
        version = meta.get(conn, store.tables, "schema_version")
        return Current(meta.stamped(conn, store.tables), None if version is None else int(version))


def upgrade(store: Store) -> list[str]:
    """Take the steps that are missing, in one transaction where the database can; their names.

    Raises StoreNotOurs where there is no store. Stop the owners first, unless the notes of the steps say otherwise.
    """
    return conflicts.write(store, lambda conn: _upgrade(store, conn))


def _upgrade(store: Store, conn: Connection) -> list[str]:
    with founding.alone(store, conn):
        if not founding.is_made(store, conn):
            raise StoreNotOurs(f"there is no store at {store.url_shown}; nothing to upgrade")
        before = meta.stamped(conn, store.tables)
        if before == HEAD:
            return []
        run(store, conn)
        meta.put(conn, store.tables, "schema_version", str(SCHEMA_VERSION))
        meta.put(conn, store.tables, "compatible_since", str(COMPATIBLE_SINCE))
        return steps(before)


def run(store: Store, conn: Connection) -> None:
    """All steps up to the newest, over this connection."""
    config = _config()
    config.attributes |= {"connection": conn, "prefix": store.prefix, "schema": store.tables.meta.schema}
    command.upgrade(config, "head")


def steps(after: str | None) -> list[str]:
    """The steps after a revision, in order: ``0001 The ledger's first tables``."""
    script = ScriptDirectory.from_config(_config())
    found = list(script.iterate_revisions("head", after or "base"))
    return [f"{step.revision} {(step.doc or '').rstrip('.')}" for step in reversed(found)]


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_STEPS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def check(store: Store) -> list[str]:
    """Differences between the tables that there are and those that this program knows; empty when there are none."""
    with store.read() as conn:
        found = shape(store, conn)
    wanted = _wanted(store)
    out = [f"table {name} is missing" for name in sorted(set(wanted) - set(found))]
    for name in sorted(set(wanted) & set(found)):
        for kind in ("column", "index"):
            out += [f"{name}: {kind} {one} is missing" for one in sorted(wanted[name][kind] - found[name][kind])]
    return out


def shape(store: Store, conn: Connection) -> dict[str, dict[str, set[str]]]:
    """Columns and indexes (unique constraints among them) of our tables, by name, as the database has them."""
    look = inspect(conn)
    schema = store.tables.meta.schema
    names = {table.name for table in store.tables.all()}
    return {name: _shape_of(look, name, schema) for name in look.get_table_names(schema=schema) if name in names}


def _shape_of(look: Any, name: str, schema: str | None) -> dict[str, set[str]]:
    indexes = look.get_indexes(name, schema=schema) + look.get_unique_constraints(name, schema=schema)
    return {
        "column": {one["name"] for one in look.get_columns(name, schema=schema)},
        "index": {one["name"] for one in indexes},
    }


def _wanted(store: Store) -> dict[str, dict[str, set[str]]]:
    out = {}
    for table in store.tables.all():
        uniques = {str(one.name) for one in table.constraints if isinstance(one, UniqueConstraint)}
        indexes = {str(index.name) for index in table.indexes}
        out[table.name] = {"column": {column.name for column in table.columns}, "index": uniques | indexes}
    return out
