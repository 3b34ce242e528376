"""Migrations: the steps lead to the tables that a fresh store has, on every database."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from sqlalchemy import TextClause, create_engine, inspect, text

from calsched.errors import StoreNotOurs, StoreVersionDiffers
from calsched.stores import upgrade
from calsched.stores.engine import Store
from calsched.stores.schema import HEAD
from calsched.stores.tables import meta
from tests.stores._helpers import Ledger, every


def reflected(store: Store, prefix: str) -> dict[str, Any]:
    """Every table of ours as the database describes it, names without the prefix."""
    look, out = inspect(store.engine), {}
    for name in look.get_table_names():
        if name.startswith(prefix) and not name.endswith("alembic_version"):  # Alembic makes its own table itself
            out[name.removeprefix(prefix)] = plain(
                {
                    "columns": look.get_columns(name),
                    "key": look.get_pk_constraint(name)["constrained_columns"],
                    "foreign": look.get_foreign_keys(name),
                    "uniques": look.get_unique_constraints(name),
                    "indexes": look.get_indexes(name),
                    "checks": look.get_check_constraints(name),
                    "sql": written(store, name),
                    "options": options(store, name),
                },
                prefix,
            )
    return out


def written(store: Store, name: str) -> list[str]:
    """On SQLite, what was written, in any order: AUTOINCREMENT and partial indexes are not reflected."""
    if store.dialect != "sqlite":
        return []
    with store.engine.connect() as conn:
        query = text("SELECT sql FROM sqlite_master WHERE tbl_name = :name AND sql IS NOT NULL")
        found = conn.execute(query, {"name": name})
        return sorted(part for row in found for part in re.sub(r"[\s()]", "", row[0]).split(","))


def options(store: Store, name: str) -> list[str]:
    """On PostgreSQL, the storage parameters: how full a page is made."""
    if store.dialect != "postgresql":
        return []
    with store.engine.connect() as conn:
        query = text("SELECT unnest(reloptions) FROM pg_class WHERE relname = :name")
        return list(conn.execute(query, {"name": name}).scalars())


def plain(value: Any, prefix: str) -> Any:
    if isinstance(value, dict):
        return {key: plain(one, prefix) for key, one in value.items()}
    if isinstance(value, list):
        out = [plain(one, prefix) for one in value]
        return out if all(isinstance(one, str) for one in value) else sorted(out, key=repr)
    return (str(value) if isinstance(value, TextClause) else repr(value)).replace(prefix, "")


@pytest.fixture
def migrated(url: str) -> Any:
    """Tables that Alembic made from nothing."""
    store = Store(url.replace("ledger.db", "migrated.db"), prefix="tmigr_")
    drop_all(store)
    with store.engine.begin() as conn:
        upgrade.run(store, conn)
    yield store
    drop_all(store)
    store.dispose()


def drop_all(store: Store) -> None:
    with store.engine.begin() as conn:
        store.tables.metadata.drop_all(conn)


def test_migrated_tables_equal_fresh_ones(fresh: Store, prefix: str, migrated: Store) -> None:
    assert reflected(migrated, "tmigr_") == reflected(fresh, prefix)


def test_a_fresh_store_is_at_the_newest_step_and_has_nothing_to_do(fresh: Store) -> None:
    assert upgrade.current(fresh) == (HEAD, 1, HEAD)
    assert upgrade.current(fresh).up_to_date
    assert upgrade.upgrade(fresh) == []
    assert upgrade.check(fresh) == []


def test_the_steps_are_listed_by_name() -> None:
    assert upgrade.steps(None) == ["0001 The ledger's first tables"]
    assert upgrade.steps(HEAD) == []


def test_a_drifted_schema_is_described(fresh: Store) -> None:
    with fresh.engine.begin() as conn:
        on = f" ON {fresh.tables.occurrences.name}" if fresh.dialect == "mysql" else ""
        conn.execute(text(f"DROP INDEX {fresh.prefix}ix_occurrence_history{on}"))
    assert upgrade.check(fresh) == [
        f"{fresh.tables.occurrences.name}: index {fresh.prefix}ix_occurrence_history is missing"
    ]


def test_what_is_no_store_is_not_upgraded(url: str, prefix: str) -> None:
    store = Store(url, prefix=prefix)
    assert upgrade.current(store) == (None, None, HEAD)
    with pytest.raises(StoreNotOurs, match="nothing to upgrade"):
        upgrade.upgrade(store)
    store.dispose()


def test_an_older_store_is_upgraded_and_keeps_its_rows(fresh: Store, url: str, prefix: str) -> None:
    ledger = Ledger(fresh)
    ledger.create(every())
    with fresh.write() as conn:  # the program of a release before this one knew schema 0
        meta.put(conn, fresh.tables, "schema_version", "0")
        meta.put(conn, fresh.tables, "compatible_since", "0")
    with pytest.raises(StoreVersionDiffers):
        Store(url, prefix=prefix).open()
    with fresh.write() as conn:
        meta.put(conn, fresh.tables, "schema_version", "1")
    again = Store(url, prefix=prefix)
    again.open()
    assert Ledger(again).view().id == "a"
    again.dispose()


def test_a_store_that_is_current_does_not_import_alembic(fresh: Store, url: str, prefix: str) -> None:
    program = (
        "import sys; from calsched.stores.engine import Store;"
        f" s = Store({url!r}, prefix={prefix!r}); s.open(); s.dispose();"
        " sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_an_apps_schema_holds_the_tables(database: str, url: str, prefix: str) -> None:
    if database != "postgresql":
        pytest.skip("schemas are PostgreSQL's")
    engine = create_engine(url)
    with engine.begin() as conn:
        conn.execute(text(f"CREATE SCHEMA {prefix}s"))
    store = Store(url, prefix="calsched_", schema=f"{prefix}s")
    try:
        store.open()
        ledger = Ledger(store)
        ledger.create(every())
        ledger.tick()
        assert len(ledger.run()) == 1
        ledger.check()
        assert upgrade.check(store) == []
    finally:
        store.dispose()
        with engine.begin() as conn:
            conn.execute(text(f"DROP SCHEMA {prefix}s CASCADE"))
        engine.dispose()
