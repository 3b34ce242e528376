"""Opening a store: what is ours is made or known again, what is not stays as it was."""

from __future__ import annotations

import os
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from calsched.app import App
from calsched.errors import InvalidInput, StoreNotOurs, StoreUnreachable, StoreVersionDiffers
from calsched.stores import sqlite, wake
from calsched.stores.engine import Store
from calsched.stores.tables import meta
from tests.stores._helpers import Ledger, every
from tests.stores.conftest import drop


def test_a_store_is_made_once_and_known_again(fresh: Store, url: str, prefix: str) -> None:
    again = Store(url, prefix=prefix)
    again.open()
    assert again.installation == fresh.installation
    again.dispose()


def test_two_prefixes_are_two_stores(fresh: Store, url: str, prefix: str) -> None:
    other = Store(url, prefix=f"{prefix}b_")
    other.open()
    try:
        assert other.installation != fresh.installation
    finally:
        with other.engine.begin() as conn:
            other.tables.metadata.drop_all(conn)
        other.dispose()


def test_a_store_of_another_version_is_refused(fresh: Store, url: str, prefix: str) -> None:
    with fresh.write() as conn:
        meta.put(conn, fresh.tables, "schema_version", "99")
        meta.put(conn, fresh.tables, "compatible_since", "98")
    with pytest.raises(StoreVersionDiffers, match="schema version 99; this calsched knows 1: upgrade calsched"):
        Store(url, prefix=prefix).open()


def test_a_newer_store_that_still_suits_older_programs_is_accepted(fresh: Store, url: str, prefix: str) -> None:
    with fresh.write() as conn:
        meta.put(conn, fresh.tables, "schema_version", "2")
    again = Store(url, prefix=prefix)
    again.open()
    again.dispose()


def test_an_older_store_asks_for_the_upgrade(fresh: Store, url: str, prefix: str) -> None:
    with fresh.write() as conn:
        meta.put(conn, fresh.tables, "schema_version", "0")
    with pytest.raises(StoreVersionDiffers, match="calsched db upgrade"):
        Store(url, prefix=prefix).open()


def test_a_table_of_our_name_that_is_not_ours_is_refused(url: str, prefix: str) -> None:
    engine = create_engine(url)
    with engine.begin() as conn:
        conn.execute(text(f"CREATE TABLE {prefix}meta (name VARCHAR(64), value TEXT)"))
        conn.execute(text(f"INSERT INTO {prefix}meta VALUES ('colour', 'green')"))
    try:
        with pytest.raises(StoreNotOurs, match="not one of ours"):
            Store(url, prefix=prefix).open()
    finally:
        with engine.begin() as conn:
            conn.execute(text(f"DROP TABLE {prefix}meta"))
        engine.dispose()


def test_a_file_of_something_else_is_refused_and_left_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "customers.db"
    with sqlite3.connect(path) as conn:
        conn.execute("CREATE TABLE customers (id INTEGER)")
    conn.close()
    before = path.read_bytes()
    with pytest.raises(StoreNotOurs, match="has customers"):
        Store(f"sqlite:///{path}").open()
    assert path.read_bytes() == before
    assert sorted(child.name for child in tmp_path.iterdir()) == ["customers.db"]


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE calsched_meta (name TEXT, value TEXT)"],
        ["CREATE TABLE calsched_meta (colour TEXT)"],
        ["CREATE TABLE calsched_meta (name TEXT, value TEXT)", "INSERT INTO calsched_meta VALUES ('colour', 'green')"],
        [
            "CREATE TABLE calsched_meta (name TEXT, value TEXT)",
            "INSERT INTO calsched_meta VALUES ('installation', 'x'), ('schema_version', 'y'), ('compatible_since', 0)",
        ],
        [
            "CREATE TABLE calsched_meta (name TEXT, value TEXT)",
            "INSERT INTO calsched_meta VALUES (CAST(x'ff' AS TEXT), CAST(x'ff' AS TEXT))",
        ],
        [
            "CREATE VIEW sums AS SELECT 1",
            "CREATE TABLE calsched_meta (a, b)",
            "INSERT INTO calsched_meta VALUES (1, 2)",
        ],
    ],
    ids=["empty", "columns", "rows", "values", "bytes", "view"],
)
@pytest.mark.parametrize("verb", ["open", "upgrade"])
def test_a_file_with_a_foreign_table_of_our_name_is_refused_and_left_byte_for_byte(
    tmp_path: Path, statements: list[str], verb: str
) -> None:
    path = tmp_path / "foreign.db"
    with sqlite3.connect(path) as conn:
        for statement in statements:
            conn.execute(statement)
    conn.close()
    os.utime(path, (1_000_000_000, 1_000_000_000))
    before = path.read_bytes()
    with pytest.raises(StoreNotOurs, match=r"calsched_meta, but it is not one of ours"):
        if verb == "open":
            Store(f"sqlite:///{path}").open()
        else:
            App(f"sqlite:///{path}").schema_upgrade()
    assert path.read_bytes() == before
    assert path.stat().st_mtime == 1_000_000_000
    assert [child.name for child in tmp_path.iterdir()] == ["foreign.db"]


@pytest.mark.parametrize("version", ["0", "999"])
def test_a_file_of_another_version_is_refused_and_left_byte_for_byte(tmp_path: Path, version: str) -> None:
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as conn:
        conn.execute("CREATE TABLE calsched_meta (name TEXT, value TEXT)")
        conn.execute("INSERT INTO calsched_meta VALUES ('installation', 'x')")
        conn.execute(f"INSERT INTO calsched_meta VALUES ('schema_version', {version}), ('compatible_since', {version})")
    conn.close()
    before = path.read_bytes()
    with pytest.raises(StoreVersionDiffers):
        Store(f"sqlite:///{path}").open()
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("this is not a database, but it is long enough to be looked at as one" * 20)
    before = path.read_bytes()
    with pytest.raises(StoreNotOurs, match="not a SQLite database"):
        Store(f"sqlite:///{path}").open()
    assert path.read_bytes() == before


def test_a_file_of_apschedulers_own_job_store_may_be_shared(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    with sqlite3.connect(path) as conn:
        conn.execute("CREATE TABLE apscheduler_jobs (id TEXT)")
    conn.close()
    store = Store(f"sqlite:///{path}")
    store.open()
    assert store.installation
    store.dispose()


def test_an_apps_engine_puts_the_tables_beside_its_own(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'app.db'}")
    with engine.begin() as conn:
        conn.execute(text("CREATE TABLE customers (id INTEGER)"))
    store = Store(engine=engine)
    store.open()
    ledger = Ledger(store)
    ledger.create(every())
    ledger.tick()
    assert len(ledger.run()) == 1
    with engine.connect() as conn:
        raw = conn.connection.dbapi_connection
        assert raw is not None
        assert raw.isolation_level == "", "its connections begin transactions as they did before"
        assert conn.execute(text("PRAGMA busy_timeout")).scalar() == 5000
        assert conn.execute(text("PRAGMA journal_mode")).scalar() == "delete"
    store.dispose()
    with engine.connect() as conn:  # not disposed of
        assert conn.execute(text("SELECT count(*) FROM customers")).scalar() == 0
    engine.dispose()


def test_a_new_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'a.db'}")
    store.open()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert set(modes.values()) == {0o600}, modes
    store.dispose()


def test_sqlite_syncs_every_commit_and_checks_foreign_keys(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'a.db'}")
    store.open()
    with store.write() as conn:
        found = {name: conn.execute(text(f"PRAGMA {name}")).scalar() for name in PRAGMAS}
    assert found == PRAGMAS
    store.dispose()


PRAGMAS = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 0}


def test_an_absent_store_is_not_made_when_it_should_be_there(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachable, match="there is no store"):
        Store(f"sqlite:///{tmp_path / 'a.db'}").open(create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachable, match="cannot be created"):
        Store(f"sqlite:///{tmp_path / 'nowhere' / 'a.db'}").open()


def test_a_store_in_memory_is_one_database_for_all_threads() -> None:
    store = Store("sqlite://")
    store.open()
    ledger = Ledger(store)
    ledger.create(every())
    assert len(ledger.tick().schedules) == 1
    assert store.data_version() is None
    store.dispose()


def test_a_server_that_does_not_answer_is_named_without_the_password() -> None:
    store = Store("postgresql://someone:secret@127.0.0.1:1/none")
    with pytest.raises(StoreUnreachable) as caught:
        store.open()
    assert "someone:***@127.0.0.1:1" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(("kind", "spoken"), [("postgresql", "PostgreSQL"), ("mysql", "MariaDB or MySQL")])
def test_a_server_that_never_speaks_is_given_up_in_the_time_that_its_address_says(
    kind: str, spoken: str, silent: int
) -> None:
    store = Store(f"{kind}://someone:secret@127.0.0.1:{silent}/none?connect_timeout=2")
    found: list[Exception] = []

    def open_it() -> None:
        try:
            store.open()
        except Exception as error:
            found.append(error)

    opening = threading.Thread(target=open_it, daemon=True)
    opening.start()
    opening.join(20)
    assert not opening.is_alive()
    (error,) = found
    assert isinstance(error, StoreUnreachable)
    assert f":***@127.0.0.1:{silent}/none" in str(error)
    assert f"does not answer as {spoken}: nothing came within 2 s" in str(error)


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_a_name_that_is_no_hosts_is_a_server_that_does_not_answer(kind: str) -> None:
    with pytest.raises(StoreUnreachable, match="does not answer as"):
        Store(f"{kind}://someone@nowhere.invalid/none").open()


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_a_server_that_refuses_says_why(url: str) -> None:
    store = Store(make_url(url).set(database="there_is_none"))
    with pytest.raises(StoreUnreachable, match=r"refuses the connection: .*there_is_none"):
        store.open()


@pytest.mark.parametrize("database", ["mariadb"], indirect=True)
def test_the_limit_of_the_greeting_is_none_of_the_statements_that_follow(url: str) -> None:
    store = Store(make_url(url).update_query_dict({"connect_timeout": "1"}))
    with store.read() as conn:
        assert conn.execute(text("SELECT SLEEP(1.2)")).scalar() == 0
    store.dispose()


@pytest.mark.parametrize("said", ["0", "soon", "-1", "99999"])
def test_a_connect_timeout_that_is_no_number_of_seconds_is_refused(said: str) -> None:
    with pytest.raises(InvalidInput, match="connect_timeout: expected 1 to 3600 whole seconds"):
        Store(f"postgresql://127.0.0.1:1/none?connect_timeout={said}").open()


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@pytest.mark.parametrize(("said", "some"), [("none", False), ("2", True)])
def test_nothing_is_prepared_for_a_server_behind_a_pooler(url: str, said: str, some: bool) -> None:
    """One that gives each transaction another connection, on which nothing of the one before is prepared."""
    store = Store(make_url(url).update_query_dict({"prepare_threshold": said}))
    with store.read() as conn:
        for _ in range(8):
            conn.execute(text("SELECT 1"))
        found = conn.execute(text("SELECT count(*) FROM pg_prepared_statements")).scalar()
    assert bool(found) == some
    wake.connect(store).close()
    store.dispose()


def test_a_prepare_threshold_that_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidInput, match="prepare_threshold: expected a whole number, or none, got 'never'"):
        Store("postgresql://127.0.0.1:1/none?prepare_threshold=never").open()


@pytest.mark.parametrize("url", ["", "no url", "oracle://a/b", "sqlite3:///a.db"])
def test_an_address_that_names_no_database_of_ours_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="store"):
        Store(url)


def test_a_network_mount_is_recognised_by_the_longest_mount_point() -> None:
    mounts = ["/dev/vda / ext4 rw 0 0", "server:/export /mnt/my\\040share nfs4 rw 0 0", "tmpfs /mnt tmpfs rw 0 0"]
    assert sqlite.file_system(Path("/mnt/my share/x/a.db"), mounts) == "nfs4"
    assert sqlite.file_system(Path("/mnt/my sharex/a.db"), mounts) == "tmpfs"
    assert sqlite.file_system(Path("/srv/a.db"), mounts) == "ext4"


def test_a_store_on_a_network_mount_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "file_system", lambda path: "nfs4")
    with pytest.raises(StoreNotOurs, match="network file system"):
        Store(f"sqlite:///{tmp_path / 'a.db'}").open()


def test_a_database_with_two_names_is_refused_under_each_and_a_symbolic_link_is_fine(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    Store(f"sqlite:///{file}").open()
    (tmp_path / "soft.db").symlink_to(file)
    Store(f"sqlite:///{tmp_path / 'soft.db'}").open()
    (tmp_path / "hard.db").hardlink_to(file)
    for name in ("a.db", "hard.db", "soft.db"):
        with pytest.raises(StoreNotOurs, match="2 names"):
            Store(f"sqlite:///{tmp_path / name}").open()


def test_a_commit_of_another_connection_changes_the_data_version(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'a.db'}")
    store.open()
    before = store.data_version()
    assert store.data_version() == before
    with store.write() as conn:
        meta.put(conn, store.tables, "x", "y")
    assert store.data_version() != before
    store.dispose()


def test_an_apps_pool_of_one_connection_is_enough(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'app.db'}", pool_size=1, max_overflow=0, pool_timeout=1)
    store = Store(engine=engine)
    before = store.data_version()
    store.open()
    assert store.data_version() != before
    ledger = Ledger(store)
    ledger.create(every())
    assert len(ledger.tick().schedules) == 1
    store.dispose()
    engine.dispose()


def test_a_store_stays_where_it_was_named_when_the_process_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon changes to the root, and a task may go anywhere: what opens the file later must not make another one."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    store = Store("sqlite:///app.db")
    monkeypatch.chdir(elsewhere)
    store.open()
    assert store.path == tmp_path / "app.db"
    assert store.path.exists()
    assert list(elsewhere.iterdir()) == []
    store.dispose()


def test_work_joins_the_callers_transaction_and_leaves_the_commit_to_it(store: Store) -> None:
    with store.engine.connect() as conn:
        transaction = conn.begin()
        with store.write(conn) as joined:
            meta.put(joined, store.tables, "x", "y")
        transaction.rollback()
    with store.read() as conn:
        assert meta.get(conn, store.tables, "x") is None


def test_processes_that_open_a_new_store_at_once_agree_on_one(url: str, prefix: str) -> None:
    program = (
        "import sys; from calsched.stores.engine import Store;"
        " s = Store(sys.argv[1], prefix=sys.argv[2]); s.open(); print(s.installation); s.dispose()"
    )
    command = [sys.executable, "-c", program, url, prefix]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    found = [process.communicate(timeout=60)[0] for process in started]
    store = Store(url, prefix=prefix)
    try:
        assert set(found) == {f"{store.installation}\n"}
    finally:
        drop(store)


def test_a_control_gets_its_turn_beside_an_owner_that_commits_back_to_back(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'a.db'}")
    store.open()
    other = Store(f"sqlite:///{tmp_path / 'a.db'}", lock_timeout=20)
    other.open()
    stop, busy = threading.Event(), threading.Event()

    def own() -> None:
        while not stop.is_set():
            with store.write() as conn:
                for number in range(20):
                    meta.put(conn, store.tables, f"n{number}", "x")
            busy.set()

    owner = threading.Thread(target=own)
    owner.start()
    try:
        assert busy.wait(20)
        for number in range(20):
            with other.write() as conn:  # raises StoreUnreachable when it starves
                meta.put(conn, other.tables, "control", str(number))
    finally:
        stop.set()
        owner.join()
    with store.read() as conn:
        assert meta.get(conn, store.tables, "control") == "19"
    other.dispose()
    store.dispose()


def test_a_transaction_that_stays_open_is_told_to_whoever_waits(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'a.db'}")
    store.open()
    other = Store(f"sqlite:///{tmp_path / 'a.db'}", lock_timeout=0.2)
    other.open()
    with store.write() as conn:
        meta.put(conn, store.tables, "x", "y")
        with pytest.raises(StoreUnreachable, match="stayed locked"), other.write():
            pass
        with other.read() as reading:
            assert meta.get(reading, other.tables, "x") is None, "a reader does not wait for a writer"
    other.dispose()
    store.dispose()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite:///" + "a" * 5_000, "cannot be a file: File name too long"),
        ("sqlite:///\udcff\udcfe.db", "the name of the file in UTF-8"),
        ("sqlite:///a\0b.db", "the name of the file in UTF-8"),
        ("sqlite:///:memory:?x=y", "'x' is no option of SQLite's driver"),
        ("sqlite:///a.db?mode=ro", "'mode' is no option of SQLite's driver"),
    ],
)
def test_an_address_that_cannot_be_a_sqlite_store_is_told_at_once(url: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Store(url)
