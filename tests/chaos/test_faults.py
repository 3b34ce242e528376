"""The database goes away, breaks off, refuses or hangs: the owner lives, nothing runs twice, nothing is lost, and the
log says it once."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import OperationalError

from calsched import OccurrenceJobStore
from calsched.runtime import pump as pump_module
from calsched.stores import advance, claim, finish
from calsched.stores.engine import Store
from tests.chaos._crew import OPEN, Journal, Ledger, every, wait_until
from tests.chaos._proxy import Proxy
from tests.chaos._servers import Server, server
from tests.stores.conftest import empty

LONG = pytest.mark.chaos
POSTGRESQL, MARIADB = "postgresql", "mariadb"
ALSO_MARIADB = pytest.mark.parametrize("database", [POSTGRESQL, MARIADB], indirect=True)
MARIADB_IF_LONG = pytest.mark.parametrize("database", [POSTGRESQL, pytest.param(MARIADB, marks=LONG)], indirect=True)


class Rig:
    """An app whose owner goes through a fault, and a ledger that is read past it."""

    def __init__(self, url: str, direct: str, journal: Journal, records: list[logging.LogRecord]) -> None:
        self.journal, self.records = journal, records
        self.direct = Store(direct)
        self.direct.open()
        empty(self.direct)
        self.ledger = Ledger(self.direct, journal)
        self.ledger.create(self.schedules())
        self.jobstore = OccurrenceJobStore(url, poll_interval=0.2, allow=["tests.chaos._tasks:*"])
        self.scheduler = BackgroundScheduler(jobstores={"default": self.jobstore}, timezone="UTC")
        self.scheduler.start()

    @staticmethod
    def schedules() -> list[Any]:
        quick = [every(f"quick-{n}", 100, overlap="queue") for n in range(5)]
        claimed = [every(f"claimed-{n}", 300, overlap="queue", jitter=100) for n in range(3)]  # not begun at once
        return [*quick, *claimed, *(every(f"slow-{n}", 300, overlap="queue", seconds=0.2) for n in range(3))]

    @property
    def pump(self) -> Any:
        return self.jobstore.pump

    def steady(self, n: int = 10) -> None:
        """Until more tasks have ended than are on their way."""
        done = len(self.journal.lines("end"))
        wait_until(lambda: len(self.journal.lines("end")) >= done + n, 30, self.told)

    def told(self) -> str:
        said = "\n".join(record.getMessage()[:300] for record in self.records[-20:])
        return f"{self.jobstore.health()} {said}"

    def wait_for_health(self, healthy: bool) -> None:
        wait_until(lambda: self.jobstore.health().healthy is healthy, 20, self.told)

    def recovered(self, at_most: int = 3, outage: float = 0.0) -> None:
        """It goes on as if nothing had happened, and has said so; then it stops in good order.

        ``outage``: for how long nothing ran (seconds); the slow schedules need two thirds of it to catch up alone.
        """
        self.wait_for_health(True)
        self.steady()
        assert self.scheduler._thread.is_alive()
        assert self.pump._thread.is_alive()
        now = self.direct.clock.now()
        wait_until(lambda: self.judged_up_to() >= now, 20, self.told)
        self.ledger.wait_for_final(set(self.ledger.rows(OPEN)), 30 + 3 * outage)
        self.jobstore.stop(5)
        self.scheduler.shutdown()
        self.ledger.check()
        self.ledger.check_journal()
        rows = self.ledger.rows().values()
        assert {row.state for row in rows} <= {"succeeded", "ready", "waiting"}
        assert max(row.attempt for row in rows) == 1
        errors = [record.getMessage() for record in self.records if record.levelno >= logging.WARNING]
        assert len(errors) <= at_most, errors

    def judged_up_to(self) -> int:
        with self.direct.read() as conn:
            found = conn.execute(text(f"SELECT min(last_due) FROM {self.direct.tables.schedules.name}"))
            return int(found.scalar() or 0)

    def close(self) -> None:
        if self.scheduler.running:
            self.scheduler.shutdown(wait=False)
        self.jobstore.stop(0)
        self.jobstore.store.dispose()
        self.direct.dispose()


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    monkeypatch.setenv("CHAOS_JOURNAL", os.fspath(tmp_path / "journal"))
    return Journal(tmp_path / "journal")


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What calsched logs, APScheduler's own loggers aside."""
    caplog.set_level(logging.INFO, "calsched")
    return caplog.records


class Databases:
    """Made when a test asks for the first one of a kind: making tables takes MariaDB two seconds."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._made: dict[str, Server] = {}

    def of(self, kind: str) -> Server:
        if kind not in self._made:
            self._made[kind] = self._stack.enter_context(server(kind))
        return self._made[kind]


@pytest.fixture(scope="module")
def databases() -> Iterator[Databases]:
    with ExitStack() as stack:
        yield Databases(stack)


@pytest.fixture
def database(request: pytest.FixtureRequest, databases: Databases) -> Server:
    return databases.of(request.param)


@pytest.fixture
def proxy(database: Server) -> Iterator[Proxy]:
    made = Proxy(database.locate())
    yield made
    made.close()


@pytest.fixture
def rig(database: Server, proxy: Proxy, journal: Journal, records: list[logging.LogRecord]) -> Iterator[Rig]:
    made = Rig(database.through(proxy.port), database.url, journal, records)
    made.steady()
    yield made
    made.close()


@pytest.fixture
def sqlite_rig(tmp_path: Path, journal: Journal, records: list[logging.LogRecord]) -> Iterator[Rig]:
    url = f"sqlite:///{tmp_path}/ledger.db"
    made = Rig(url, url, journal, records)
    made.steady()
    yield made
    made.close()


def stay(seconds: float) -> None:
    threading.Event().wait(seconds)


# --- gone -------------------------------------------------------------------------------------------------------------


@ALSO_MARIADB
@pytest.mark.parametrize("seconds", [2.0, pytest.param(30.0, marks=LONG)])
def test_the_database_is_gone_for_a_while(rig: Rig, proxy: Proxy, seconds: float) -> None:
    proxy.cut()
    rig.wait_for_health(False)
    assert "since 20" in rig.jobstore.health().reason
    stay(seconds)
    assert not rig.jobstore.health().healthy
    proxy.open()
    rig.recovered(outage=seconds)


@MARIADB_IF_LONG
@pytest.mark.parametrize("seconds", [2.0, pytest.param(30.0, marks=LONG)])
def test_the_network_swallows_everything_for_a_while(
    rig: Rig, proxy: Proxy, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing breaks, nobody answers."""
    monkeypatch.setattr(pump_module, "STALLED", 500)
    proxy.hold()
    rig.wait_for_health(False)
    stay(seconds)
    assert "has not answered" in rig.jobstore.health().reason
    proxy.release()
    rig.recovered(outage=seconds)


@ALSO_MARIADB
def test_a_failover_drops_all_connections(rig: Rig, database: Server) -> None:
    for _ in range(3):
        assert database.end_all_connections() > 0
        rig.direct.dispose()
        rig.direct.open()
        rig.steady()
    rig.recovered(at_most=9)


# --- broken off in the middle -----------------------------------------------------------------------------------------


@contextmanager
def once_after(name: str, what: Callable[[Connection], None]) -> Iterator[threading.Event]:
    """Do something in the transaction of a verb, right after it has done its work; once."""
    module = VERBS[name]
    real, done = getattr(module, name), threading.Event()

    def hooked(store: Store, conn: Connection, *args: Any, **more: Any) -> Any:
        found = real(store, conn, *args, **more)
        worked = found if isinstance(found, list | set) else getattr(found, "final", None) or found.schedules
        if worked and not done.is_set():
            done.set()
            what(conn)
        return found

    setattr(module, name, hooked)
    try:
        yield done
    finally:
        setattr(module, name, real)


VERBS: dict[str, Any] = {"advance": advance, "claim": claim, "finish": finish}
EACH_VERB = pytest.mark.parametrize(
    ("database", "verb"),
    [
        pytest.param(kind, verb, marks=() if (kind, verb) in ((POSTGRESQL, "finish"), (MARIADB, "claim")) else LONG)
        for kind in (POSTGRESQL, MARIADB)
        for verb in VERBS
    ],
    indirect=["database"],
)


@EACH_VERB
def test_a_connection_is_killed_in_the_middle_of_a_round(rig: Rig, database: Server, verb: str) -> None:
    with once_after(verb, lambda conn: kill_backend(database, conn)) as done:
        assert done.wait(20)
        rig.steady()
    rig.recovered()


def kill_backend(database: Server, conn: Connection) -> None:
    mine = "pg_backend_pid()" if database.kind == "postgresql" else "connection_id()"
    pid = int(conn.execute(text(f"SELECT {mine}")).scalar_one())
    engine = create_engine(database.admin, isolation_level="AUTOCOMMIT")
    with engine.connect() as admin:
        admin.execute(text(f"SELECT pg_terminate_backend({pid})" if database.kind == "postgresql" else f"KILL {pid}"))
    engine.dispose()


@EACH_VERB
def test_the_answer_to_a_commit_is_lost(rig: Rig, proxy: Proxy, verb: str) -> None:
    """The transaction counts, and its owner cannot know."""
    with once_after(verb, lambda conn: proxy.lose_next_answer()) as done:
        assert done.wait(20)
        assert proxy.lost.wait(20)
        rig.steady()
    rig.recovered()


# --- refused ----------------------------------------------------------------------------------------------------------


class Conflict(Exception):
    """What a driver raises where a transaction has to be tried again."""


@EACH_VERB
def test_a_transaction_that_cannot_be_serialized_is_done_again(rig: Rig, verb: str) -> None:
    def refuse(conn: Connection) -> None:
        raise OperationalError("…", {}, Conflict("could not serialize access due to concurrent update"))

    with once_after(verb, refuse) as done:
        assert done.wait(20)
        rig.steady()
    rig.recovered()


@ALSO_MARIADB
def test_a_deadlock_costs_a_round_and_no_more(rig: Rig) -> None:
    """Another session and the owner lock two rows in opposite orders, and the owner has to lose."""
    with rig.direct.engine.begin() as conn:
        conn.execute(text("DROP TABLE IF EXISTS crossing"))
        conn.execute(text("CREATE TABLE crossing (pk int PRIMARY KEY, n int)"))
        conn.execute(text("INSERT INTO crossing VALUES " + ", ".join(f"({n}, 0)" for n in range(300))))
    lost: list[Exception] = []
    other = Rival(rig.direct)

    def cross(conn: Connection) -> None:
        conn.execute(text("UPDATE crossing SET n = 1 WHERE pk = 0"))
        other.start()
        assert other.ready.wait(20)
        try:
            conn.execute(text("UPDATE crossing SET n = 1 WHERE pk = 299"))
        except OperationalError as exc:
            lost.append(exc)
            raise

    with once_after("finish", cross) as done:
        assert done.wait(20)
        rig.steady()
    other.join(20)
    rig.recovered()
    assert "deadlock" in str(lost[0]).lower()


class Rival(threading.Thread):
    """Takes all rows but the first, then the first: the heavier side, and the more patient one."""

    def __init__(self, store: Store) -> None:
        super().__init__(daemon=True)
        self.store, self.ready = store, threading.Event()

    def run(self) -> None:
        with self.store.engine.begin() as conn:
            if self.store.dialect == "postgresql":
                conn.execute(text("SET LOCAL deadlock_timeout = '20s'"))
            conn.execute(text("UPDATE crossing SET n = 2 WHERE pk > 0"))
            self.ready.set()
            conn.execute(text("UPDATE crossing SET n = 2 WHERE pk = 0"))


# --- locked -----------------------------------------------------------------------------------------------------------


@MARIADB_IF_LONG
@pytest.mark.parametrize("seconds", [1.5, pytest.param(8.0, marks=LONG)])
def test_a_lock_is_held_on_the_servers_tables(rig: Rig, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump_module, "STALLED", 500)
    with rig.direct.engine.begin() as conn:
        conn.execute(text("SELECT count(*) FROM (SELECT pk FROM calsched_schedules FOR UPDATE) AS held"))
        if rig.direct.dialect == "postgresql":
            conn.execute(text("LOCK TABLE calsched_occurrences IN ACCESS EXCLUSIVE MODE"))
            rig.wait_for_health(False)
        stay(seconds)
    rig.recovered()


@pytest.mark.parametrize("seconds", [1.5, pytest.param(8.0, marks=LONG)])
def test_a_lock_is_held_on_the_sqlite_file(
    sqlite_rig: Rig, tmp_path: Path, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pump_module, "STALLED", 500)
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None, timeout=10)
    other.execute("BEGIN IMMEDIATE")
    sqlite_rig.wait_for_health(False)
    stay(seconds)
    other.execute("ROLLBACK")
    other.close()
    sqlite_rig.recovered()
