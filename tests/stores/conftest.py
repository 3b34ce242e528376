"""One store on every database. An absent server skips with a clear line; with CI=true it fails."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from calsched.stores.engine import Store
from tests.stores._helpers import T0, SteppedClock

SERVERS = {
    "postgresql": os.environ.get("CALSCHED_TEST_POSTGRES_URL", "postgresql+psycopg://postgres@127.0.0.1/test"),
    "mariadb": os.environ.get("CALSCHED_TEST_MARIADB_URL", "mysql+pymysql://root@127.0.0.1/test"),
}


@cache
def _trouble(name: str) -> str | None:
    engine = create_engine(SERVERS[name])
    try:
        with engine.connect() as conn:
            conn.execute(text("SELECT 1"))
    except (SQLAlchemyError, ModuleNotFoundError) as error:
        return (str(error).splitlines() or ["?"])[0]
    finally:
        engine.dispose()
    return None


def server_url(name: str) -> str:
    """The address of a test server; skips where it does not answer."""
    if (trouble := _trouble(name)) is not None:
        line = f"{name} does not answer at {SERVERS[name]} ({trouble})"
        if os.environ.get("CI") == "true":
            pytest.fail(line)
        pytest.skip(line)
    return SERVERS[name]


def drop(store: Store) -> None:
    """Remove the tables of a test, and whatever else has its prefix."""
    if store.dialect != "sqlite":
        with store.engine.begin() as conn:
            store.tables.metadata.drop_all(conn)
            left = [name for name in inspect(conn).get_table_names() if name.startswith(store.prefix)]
            for name in left:
                conn.execute(text(f"DROP TABLE {name}"))
    store.dispose()


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock(T0)


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def database(request: pytest.FixtureRequest) -> str:
    """The kind of database that a test runs on."""
    return str(request.param)


@pytest.fixture
def url(database: str, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}" if database == "sqlite" else server_url(database)


@pytest.fixture
def prefix() -> str:
    return f"t{secrets.token_hex(4)}_"


@pytest.fixture
def fresh(url: str, prefix: str, clock: SteppedClock) -> Iterator[Store]:
    """An open store whose tables were made for this test."""
    made = Store(url, prefix=prefix, clock=clock)
    made.open()
    yield made
    drop(made)


@pytest.fixture(scope="session")
def kept() -> Iterator[dict[str, Store]]:
    """Stores on servers, one a session: making tables takes MariaDB two seconds."""
    stores: dict[str, Store] = {}
    yield stores
    for made in stores.values():
        drop(made)


@pytest.fixture
def store(database: str, url: str, clock: SteppedClock, kept: dict[str, Store]) -> Iterator[Store]:
    """An open, empty store of its own."""
    if database == "sqlite":
        made = Store(url, clock=clock)
        made.open()
        yield made
        made.dispose()
        return
    if database not in kept:
        kept[database] = Store(url, prefix=f"t{secrets.token_hex(4)}_")
        kept[database].open()
    found = kept[database]
    found.clock = clock
    empty(found)
    yield found


IDENTITY = ("installation", "schema_version", "compatible_since")


def empty(store: Store) -> None:
    """Delete every row but those that say whose tables they are."""
    t = store.tables
    with store.engine.begin() as conn:
        for table in (t.attempts, t.occurrences, t.ranges, t.skips, t.revisions, t.schedules, t.decisions):
            conn.execute(table.delete())
        for table in (t.owners, t.clock, t.calendars):
            conn.execute(table.delete())
        conn.execute(
            t.meta.delete().where(t.meta.c.name.not_in(["installation", "schema_version", "compatible_since"]))
        )
    store.compiled.forget()
