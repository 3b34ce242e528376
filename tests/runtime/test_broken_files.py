"""A file that SQLite finds broken is lost, and one fault is told once: nobody waits for ever, and no log fills up."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from calsched.clock import SystemClock
from calsched.errors import StoreNotOurs
from calsched.model import Definition, Task
from calsched.runtime.callables import ALLOW_ALL
from calsched.runtime.serve import LOST_STORE, serve
from calsched.runtime.tick import tick_once
from calsched.runtime.trouble import Trouble
from calsched.runtime.verbs import Verbs
from calsched.stores import control
from calsched.stores.engine import Store
from calsched.stores.sqlite import look

HERE = "tests.runtime.test_broken_files"


def note() -> None:
    return None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store in which something is due."""
    store = Store(f"sqlite:///{tmp_path / 'ledger.db'}")
    store.open()
    rule = {"kind": "interval", "intervalMs": 1000, "firstTick": "2026-01-01T00:00:00Z"}
    d = Definition("a", rule, Task(callable=f"{HERE}:note"), backlog="fromStart", max_occurrences=1)
    with store.write() as conn:
        control.create(store, conn, d, now=store.now(conn), principal="test")
    store.dispose()
    connection = sqlite3.connect(tmp_path / "ledger.db")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    return tmp_path / "ledger.db"


def overwrite(path: Path, table: str) -> None:
    """The first page of a table becomes noise."""
    connection = sqlite3.connect(path)
    [(root,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
    [(size,)] = connection.execute("PRAGMA page_size")
    connection.close()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xa5" * size)


def ticks(store: Store) -> None:
    with pytest.raises(StoreNotOurs, match="is corrupt"):
        tick_once(store, allow=ALLOW_ALL)


def serves(store: Store) -> None:
    assert serve(store, allow=ALLOW_ALL, leave=None) == LOST_STORE


@pytest.mark.parametrize("verb", [ticks, serves])
def test_a_broken_table_ends_an_owner(path: Path, verb: Callable[[Store], None]) -> None:
    overwrite(path, "calsched_occurrences")
    store = Store(f"sqlite:///{path}")
    try:
        verb(store)
    finally:
        store.dispose()


def test_a_lost_store_is_told_once_and_nothing_is_said_after_it(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    overwrite(path, "calsched_occurrences")
    store = Store(f"sqlite:///{path}")
    with caplog.at_level(logging.INFO, "calsched"):
        serves(store)
    store.dispose()
    told = [record.getMessage() for record in caplog.records if record.name.startswith("calsched.")]
    (begins, lost) = told
    assert " serves " in begins
    assert f"{path} was lost: " in lost and "is corrupt" in lost and "restore a backup" in lost


def test_a_broken_name_is_a_corrupt_file(path: Path) -> None:
    found = path.read_bytes()
    at = found.index(b"CREATE TABLE calsched_occurrences")
    path.write_bytes(found[:at] + b"CREATE \x84ABLE" + found[at + 12 :])
    with pytest.raises(StoreNotOurs, match="is corrupt"):
        look(path, "calsched_meta")


def test_a_pass_that_fails_each_time_ends(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Verbs, "advance", _fail)
    store = Store(f"sqlite:///{path}")
    try:
        with pytest.raises(ZeroDivisionError):
            tick_once(store, allow=ALLOW_ALL)
    finally:
        store.dispose()


def _fail(*_: object) -> None:
    raise ZeroDivisionError


def test_a_fault_is_told_once_whatever_values_its_statement_has(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble(SystemClock(), "sqlite:///x.db")
    with caplog.at_level(logging.ERROR, "calsched"):
        pauses = [trouble.fault("advance", DBAPIError("SELECT ?", (n,), ValueError("no"))) for n in range(4)]
    assert len(caplog.records) == 1
    assert pauses == [0.1, 0.2, 0.4, 0.8]
