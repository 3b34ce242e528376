"""Controls in the caller's transaction: they come with its own rows, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.pool import Pool, SingletonThreadPool, StaticPool

from calsched.app import App
from calsched.errors import InvalidInput, StaleVersion, StoreUnreachable, UnknownSchedule
from calsched.stores import control
from calsched.stores.engine import Store
from tests.stores._helpers import MINUTE, Ledger, every

FILE = "schedules: {b: {every: 1h, task: 'jobs:run'}}"


@pytest.fixture
def ledger(store: Store) -> Iterator[Ledger]:
    made = Ledger(store)
    made.create(every(MINUTE))
    with store.engine.begin() as conn:
        conn.execute(text("CREATE TABLE orders_of_the_app (n INTEGER)"))
    yield made
    with store.engine.begin() as conn:
        conn.execute(text("DROP TABLE orders_of_the_app"))


@contextmanager
def apps_own(store: Store) -> Iterator[Engine]:
    """An engine as an app makes one, with the driver's own habits."""
    engine = create_engine(store.engine.url)
    yield engine
    engine.dispose()


def beside(engine: Engine, store: Store) -> Store:
    return Store(engine=engine, prefix=store.tables.prefix, clock=store.clock)


def orders(store: Store) -> int:
    with store.engine.connect() as conn:
        return int(conn.execute(text("SELECT count(*) FROM orders_of_the_app")).scalar_one())


@pytest.mark.parametrize("commits", [True, False])
def test_controls_come_with_the_callers_own_rows_or_not_at_all(ledger: Ledger, tmp_path: Path, commits: bool) -> None:
    store = ledger.store
    (tmp_path / "b.yaml").write_text(FILE)
    with apps_own(store) as engine, engine.connect() as conn:
        transaction = conn.begin()
        conn.execute(text("INSERT INTO orders_of_the_app VALUES (1)"))
        app = App(store=beside(engine, store), connection=conn)
        app.pause("a", note="with the order")
        app.create([tmp_path / "b.yaml"])
        assert ledger.view().state == "enabled"  # for everybody else
        if commits:
            transaction.commit()
        else:
            transaction.rollback()
    assert orders(store) == commits
    assert ledger.view().state == ("paused" if commits else "enabled")
    if commits:
        assert ledger.view("b").state == "enabled"
    else:
        with pytest.raises(UnknownSchedule):
            ledger.view("b")
    ledger.check()


def test_a_refused_control_leaves_the_callers_transaction_as_it_was(ledger: Ledger) -> None:
    store = ledger.store
    with apps_own(store) as engine, engine.begin() as conn:
        conn.execute(text("INSERT INTO orders_of_the_app VALUES (1)"))
        app = App(store=beside(engine, store), connection=conn)
        with pytest.raises(UnknownSchedule):
            app.pause("nobody")
        with pytest.raises(StaleVersion):
            app.pause("a", version=99)
        app.pause("a")
    assert (orders(store), ledger.view().state) == (1, "paused")


def test_what_a_refused_control_had_written_is_gone_from_the_callers_transaction(ledger: Ledger) -> None:
    def half(conn: Connection) -> None:
        control.pause(ledger.store, conn, "default", "a", now=ledger.now, principal="t")
        raise StaleVersion("version", 1, 2)

    with apps_own(ledger.store) as engine, engine.begin() as conn:
        app = App(store=beside(engine, ledger.store), connection=conn)
        with pytest.raises(StaleVersion):
            app.write(app.store(), half)
    assert ledger.view().state == "enabled"


@pytest.mark.parametrize("pool", [StaticPool, SingletonThreadPool])
@pytest.mark.parametrize("name", ["app.db", ":memory:"])
def test_an_engine_with_one_connection_reads_in_the_callers_transaction(
    pool: type[Pool], name: str, tmp_path: Path
) -> None:
    where = name if name == ":memory:" else tmp_path / name
    engine = create_engine(f"sqlite:///{where}", poolclass=pool, connect_args={"check_same_thread": False})
    store = Store(engine=engine)
    store.open()
    Ledger(store).create(every(MINUTE))
    with engine.connect() as conn:
        conn.execute(text("CREATE TABLE orders_of_the_app (n INTEGER)"))
        conn.commit()
        for end, state, rows in ((conn.rollback, "enabled", 0), (conn.commit, "paused", 1)):
            conn.execute(text("INSERT INTO orders_of_the_app VALUES (1)"))
            App(engine=engine, connection=conn).pause("a")
            end()
            assert App(engine=engine).show("a").show.schedule.state == state
            assert conn.execute(text("SELECT count(*) FROM orders_of_the_app")).scalar_one() == rows
            conn.rollback()
    engine.dispose()


def test_a_connection_whose_statements_commit_by_themselves_is_refused(ledger: Ledger) -> None:
    """There nothing could be taken back. (SQLite's begins a transaction of ours all the same.)"""
    if ledger.store.dialect == "sqlite":
        pytest.skip("its transaction is begun by hand")
    with apps_own(ledger.store) as engine, engine.connect() as conn:
        conn.execution_options(isolation_level="AUTOCOMMIT")
        conn.begin()
        with pytest.raises(InvalidInput, match="needs a transaction"):
            App(store=beside(engine, ledger.store), connection=conn).pause("a")
    assert ledger.view().state == "enabled"


def test_a_connection_without_a_transaction_is_refused(ledger: Ledger) -> None:
    with (
        apps_own(ledger.store) as engine,
        engine.connect() as conn,
        pytest.raises(InvalidInput, match="needs a transaction"),
    ):
        App(store=beside(engine, ledger.store), connection=conn).pause("a")
    assert ledger.view().state == "enabled"


def test_a_pool_that_is_used_up_is_told_as_one(store: Store) -> None:
    engine = create_engine(store.engine.url, pool_size=1, max_overflow=0, pool_timeout=0.1)
    with engine.connect(), pytest.raises(StoreUnreachable, match="no connection left"):
        beside(engine, store).open()
    engine.dispose()
