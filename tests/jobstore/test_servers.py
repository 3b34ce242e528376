"""Several schedulers on one server: PostgreSQL and MariaDB."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import DBAPIError

from calsched import IntervalTrigger, OccurrenceJobStore, OnceTrigger, SystemClock, durable
from calsched.stores.engine import Store
from tests.jobstore import _jobs
from tests.jobstore._jobs import now
from tests.jobstore.conftest import WAIT, Events, Ledger, wait_until
from tests.stores.conftest import drop, server_url

Make = Callable[..., Any]
APP = Path(__file__).with_name("_server_app.py")


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """An address and a prefix whose tables exist."""
    url, prefix = server_url(request.param), f"j{secrets.token_hex(4)}_"
    store = Store(url, prefix=prefix)
    store.open()
    yield url, prefix
    drop(store)


@pytest.fixture
def owner(server: tuple[str, str]) -> Iterator[Make]:
    made: list[Any] = []
    url, prefix = server

    def make(workers: int = 4, **options: Any) -> Any:
        jobstore = OccurrenceJobStore(
            url, prefix=prefix, **{"poll_interval": 0.5, "lease": 3.0, "name": f"owner-{len(made)}", **options}
        )
        scheduler: Any = BackgroundScheduler(
            jobstores={"default": jobstore}, executors={"default": ThreadPoolExecutor(workers)}, timezone="UTC"
        )
        scheduler.ours = jobstore
        scheduler.events = Events()
        scheduler.add_listener(scheduler.events)
        made.append(scheduler)
        return scheduler

    yield make
    _jobs.gate.set()
    for scheduler in made:
        if scheduler.running:
            scheduler.remove_all_jobs()
            scheduler.shutdown()
        pump = scheduler.ours.pump
        if pump is not None:
            pump.begin_stop(2)
            assert pump.join(WAIT)
        scheduler.ours.store.dispose()


class SettableSystemClock(SystemClock):
    """The machine's, which somebody sets."""

    off = 0

    def now(self) -> int:
        return super().now() + self.off


def fresh(prefix: str = "job") -> str:
    return f"{prefix}-{secrets.token_hex(3)}"


def once(**policies: Any) -> Any:
    return durable(OnceTrigger(now() + timedelta(milliseconds=300)), **policies)


def test_two_owners_share_the_work_and_run_each_slot_once(owner: Make) -> None:
    first, second = owner(2), owner(2)
    first.start()
    second.start()
    names = [fresh() for _ in range(12)]
    for name in names:
        first.add_job(_jobs.wait_for_gate, once(), id=name)
    wait_until(lambda: all(len(s.ours.pump.flights.works) == 2 for s in (first, second)), "both to be busy")
    _jobs.gate.set()
    for _ in range(12):
        assert _jobs.ran.get(timeout=WAIT) in ("began", "ended")
    ledger = Ledger(first.ours)
    wait_until(lambda: all(ledger.states(name) == ["succeeded"] for name in names))
    assert {row.attempt for name in names for row in ledger.occurrences(name)} == {1}


def test_a_schedule_does_not_overlap_itself_across_owners(owner: Make) -> None:
    first, second = owner(), owner()
    first.start()
    second.start()
    name = fresh()
    first.add_job(_jobs.wait_for_gate, durable(IntervalTrigger(milliseconds=300), overlap="queue"), id=name)
    assert _jobs.ran.get(timeout=WAIT) == "began"
    ledger = Ledger(first.ours)
    wait_until(lambda: len(ledger.states(name)) >= 4, "more slots")
    assert ledger.states(name).count("running") == 1
    assert _jobs.ran.empty()
    _jobs.gate.set()


def test_what_one_process_schedules_another_runs_at_once(owner: Make, server: tuple[str, str]) -> None:
    """By NOTIFY on PostgreSQL, although the poll is far away; by the poll elsewhere."""
    postgres = server[0].startswith("postgresql")
    runner = owner(poll_interval=30.0 if postgres else 0.5, lease=100.0)
    runner.start()
    assert runner.ours.pump.owned.wait(WAIT)
    if postgres:
        wait_until(lambda: runner.ours.pump._listener.ready.is_set(), "the listener")
    client = owner(standby=True)
    client.start(paused=True)
    began = time.monotonic()
    client.add_job(_jobs.tell, once(), id=fresh(), args=[1])
    assert _jobs.ran.get(timeout=WAIT)[0] == (1,)
    assert time.monotonic() - began < 10


def test_a_connection_that_is_killed_costs_nothing(owner: Make, server: tuple[str, str]) -> None:
    url, _ = server
    scheduler = owner()
    own = connections_of(scheduler.ours.store.engine)
    scheduler.start()
    name = fresh()
    scheduler.add_job(_jobs.wait_for_gate, once(), id=name)
    assert _jobs.ran.get(timeout=WAIT) == "began"
    kill_connections(url, own)
    _jobs.gate.set()
    scheduler.events.wait(EVENT_JOB_EXECUTED)
    assert Ledger(scheduler.ours).states(name) == ["succeeded"]
    scheduler.add_job(_jobs.tell, once(), id=fresh(), args=["after"])
    assert _jobs.ran.get(timeout=WAIT) == "ended"
    assert _jobs.ran.get(timeout=WAIT)[0] == ("after",)


def connections_of(engine: Any) -> list[int]:
    """What the server calls the connections that an engine opens from now on."""
    found: list[int] = []

    @event.listens_for(engine, "connect")
    def _(connection: Any, record: Any) -> None:
        found.append(connection.info.backend_pid if engine.dialect.name == "postgresql" else connection.thread_id())

    return found


def kill_connections(url: str, of: list[int]) -> None:
    """Only these: other tests work on the same server."""
    engine = create_engine(url)
    with engine.connect() as conn:
        for one in of:
            with contextlib.suppress(DBAPIError):  # it may have ended already
                conn.execute(text(f"select pg_terminate_backend({one})" if conn.dialect.name == "postgresql"
                                  else f"kill {one}"))  # fmt: skip
    engine.dispose()


def test_a_dead_owners_work_is_taken_over_after_its_lease(owner: Make, server: tuple[str, str]) -> None:
    name = fresh("hang")
    process = start_process(server, name)
    survivor = owner()
    survivor.start()
    kill(process)
    ledger = Ledger(survivor.ours)
    wait_until(lambda: ledger.states(name) == ["interrupted"], "the takeover")
    assert ledger.schedule(name).failures == 1


def test_setting_an_owners_clock_while_it_works_moves_no_deadline(owner: Make) -> None:
    """Between two heartbeats an owner reckons by itself what time the database has."""
    clock, long = SettableSystemClock(), fresh()
    scheduler = owner(clock=clock, lease=300.0)
    scheduler.start()
    clock.off = 7_200_000
    scheduler.add_job(_jobs.wait_for_gate, once(deadline=60), id=long)
    assert _jobs.ran.get(timeout=WAIT) == "began"
    scheduler.add_job(_jobs.noop, once(), id=fresh())
    scheduler.events.wait(EVENT_JOB_EXECUTED)  # by now the owner has looked whether the first one may go on
    _jobs.gate.set()
    clock.off = -7_200_000
    scheduler.add_job(_jobs.noop, once(), id=fresh())
    scheduler.events.wait(EVENT_JOB_EXECUTED, 2)
    assert Ledger(scheduler.ours).states(long) == ["succeeded"]


def test_a_stopped_owner_is_fenced_and_its_late_report_is_evidence(owner: Make, server: tuple[str, str]) -> None:
    name = fresh("hang")
    process = start_process(server, name)
    survivor = owner()
    survivor.start()
    process.send_signal(signal.SIGSTOP)
    ledger = Ledger(survivor.ours)
    wait_until(lambda: ledger.states(name) == ["interrupted"], "the takeover")
    process.send_signal(signal.SIGCONT)
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    wait_until(lambda: [a.late for a in ledger.attempts(name)] == [False, True], "the late report")
    assert ledger.states(name) == ["interrupted"]
    kill(process)


def kill(process: Any) -> None:
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def start_process(server: tuple[str, str], name: str) -> Any:
    """Another owner, which is in the middle of a task when this returns."""
    root = APP.parents[2]
    process = subprocess.Popen(
        [sys.executable, str(APP), *server, name], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert process.stdout is not None
    line: list[str] = []
    reader = threading.Thread(target=lambda: line.append(process.stdout.readline()))  # type: ignore[union-attr]
    reader.start()
    reader.join(30)
    assert line == ["began\n"]
    return process
