"""Text of one row that is no UTF-8: the row is told with its table and schedule, and the others go on."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from calsched.stores import damage
from calsched.stores.advance import LOOK_AGAIN
from calsched.stores.engine import Store
from calsched.stores.recover import pause_invalid
from tests.stores._helpers import MINUTE, T0, Ledger, SteppedClock, every


@pytest.fixture(params=["ours", "the app's"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    """Two schedules that are due, in a file of ours or of an app."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    clock = SteppedClock(T0)
    store = Store(url, clock=clock) if request.param == "ours" else Store(engine=create_engine(url), clock=clock)
    store.open()
    made = Ledger(store)
    made.create(every(MINUTE, "bad"))
    made.create(every(MINUTE, "good"))
    request.addfinalizer(store.engine.dispose)
    return made


def spoil(
    ledger: Ledger, table: str, column: str, value: str = "CAST(x'61ff62' AS TEXT)", where: str = "pk = 1"
) -> None:
    """Write what SQLite takes and nobody can read."""
    connection = sqlite3.connect(str(ledger.store.engine.url.database))
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute(f"UPDATE calsched_{table} SET {column} = {value} WHERE {where}")
    connection.commit()
    connection.close()
    ledger.store.compiled.forget()


BYTES = ["CAST(x'61ff62' AS TEXT)", "x'61ff62'"]
READ = [
    ("schedules", "id"), ("schedules", "namespace"), ("schedules", "last_local"), ("schedules", "state"),
    ("revisions", "definition"), ("revisions", "digest"),
]  # fmt: skip


@pytest.mark.parametrize("value", BYTES, ids=["text", "blob"])
@pytest.mark.parametrize(("table", "column"), READ)
def test_a_damaged_row_is_told_with_its_table_and_the_others_are_judged(
    ledger: Ledger, table: str, column: str, value: str
) -> None:
    spoil(ledger, table, column, value)
    report = ledger.tick(T0)
    (failed,) = report.failed
    assert (failed.schedule_pk, failed.unloadable) == (1, True)
    assert f"calsched_{table}, row 1: damaged, {column} cannot be read" in failed.error or table == "schedules"
    assert "cannot be read; keep a copy" in failed.error
    assert [one.id for one in report.schedules] == ["good"]
    assert ledger.states("good") == [(0, "ready", None)]
    with ledger.store.write() as conn:
        pause_invalid(ledger.store, conn, 1, failed.error, T0)
    later = ledger.tick(T0 + MINUTE + LOOK_AGAIN)
    assert [one.id for one in later.schedules] == ["good"]


@pytest.mark.parametrize("column", ["next_ordinal", "open_count", "used", "state_version", "next_due"])
def test_a_number_that_is_none_holds_up_one_schedule_only(ledger: Ledger, column: str) -> None:
    spoil(ledger, "schedules", column, "CAST('x' AS TEXT)")
    report = ledger.tick(T0)
    assert [(one.schedule_pk, column in one.error) for one in report.failed] == [(1, True)]
    assert [one.id for one in report.schedules] == ["good"]


@pytest.mark.parametrize(
    ("table", "column", "place"),
    [
        ("schedules", "note", ("default", "bad")),
        ("schedules", "last_failure", ("default", "bad")),
        ("revisions", "definition", ("default", "bad")),
        ("occurrences", "error", ("default", "bad")),
        ("attempts", "traceback", ("default", "bad")),
        ("decisions", "note", ("default", "bad")),
        ("owners", "host", (None, None)),
    ],
)
def test_every_damaged_text_is_found_with_its_table_row_and_schedule(
    ledger: Ledger, table: str, column: str, place: tuple[str | None, str | None]
) -> None:
    ledger.tick(T0)
    ledger.run()
    with ledger.store.read() as conn:
        assert damage.spots(ledger.store, conn) == []
    key = "epoch" if table == "owners" else "pk"
    spoil(ledger, table, column, where=f"{key} = 1")
    with ledger.store.read() as conn:
        assert damage.spots(ledger.store, conn) == [damage.Spot(f"calsched_{table}", 1, (column,), *place)]


def test_a_damaged_text_of_history_is_shown_as_far_as_it_can_be_read(ledger: Ledger) -> None:
    ledger.tick(T0)
    ledger.run()
    spoil(ledger, "occurrences", "error")
    assert ledger.occurrences("bad")[0].error == "a\ufffdb"


def test_an_apps_own_engine_reads_as_before_afterwards(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'app.db'}")
    store = Store(engine=engine)
    store.open()
    with engine.connect() as conn:
        raw = conn.connection.dbapi_connection
        assert isinstance(raw, sqlite3.Connection)
        assert raw.text_factory is str
    engine.dispose()
