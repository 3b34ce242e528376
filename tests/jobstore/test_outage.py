"""The database goes away and comes back: nothing runs twice, nothing is lost, and the log says it once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_EXECUTED

from calsched import IntervalTrigger, OnceTrigger, durable
from calsched.errors import StoreUnreachable
from tests.jobstore import _jobs
from tests.jobstore._jobs import now
from tests.jobstore.conftest import WAIT, Ledger, wait_until

Make = Callable[..., Any]


class Outage:
    """Makes a store's transactions fail while ``present``: as they begin, or as they commit (``late``)."""

    def __init__(self, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.present = False
        self.late = False
        self.failed = threading.Event()
        self._write, self._read = store.write, store.read
        monkeypatch.setattr(store, "write", self.write)
        monkeypatch.setattr(store, "read", self.read)

    def _fail(self) -> None:
        self.failed.set()
        raise StoreUnreachable("the database does not answer")

    @contextmanager
    def write(self, connection: Any = None) -> Iterator[Any]:
        if self.present and not self.late:
            self._fail()
        with self._write(connection) as conn:
            yield conn
            if self.present:
                self._fail()  # rolled back, as when the connection dies before the commit

    @contextmanager
    def read(self) -> Iterator[Any]:
        if self.present:
            self._fail()
        with self._read() as conn:
            yield conn


def once(**policies: Any) -> Any:
    return durable(OnceTrigger(now() + timedelta(milliseconds=200)), **policies)


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "calsched.pump" and r.levelno >= logging.WARNING]


def test_an_outcome_outlives_an_outage(
    run: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = run()
    outage = Outage(scheduler.ours.store, monkeypatch)
    scheduler.add_job(_jobs.wait_for_gate, once(), id="a")
    scheduler.start()
    assert _jobs.ran.get(timeout=WAIT) == "began"
    outage.present = True
    _jobs.gate.set()
    wait_until(lambda: not scheduler.ours.health().healthy, "the outage to be noticed")
    health = scheduler.ours.health()
    assert "does not answer" in health.reason
    wait_until(lambda: scheduler.ours._pump.trouble.rounds >= 4, "some more tries")
    outage.present = False
    scheduler.events.wait(EVENT_JOB_EXECUTED)
    assert scheduler.ours.health().healthy
    assert Ledger(scheduler.ours).states("a") == ["succeeded"]
    first, last = complaints(caplog)
    assert "does not answer" in first
    assert "answers again after" in last


def test_the_core_loop_takes_no_notice(run: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = run()
    outage = Outage(scheduler.ours.store, monkeypatch)
    scheduler.start()
    outage.present = True
    assert outage.failed.wait(WAIT)
    assert scheduler.ours.get_due_jobs(now()) == []
    assert scheduler.ours.get_next_run_time() > now()
    assert scheduler._thread.is_alive()
    outage.present = False
    scheduler.add_job(_jobs.tell, once(), id="a")
    assert _jobs.ran.get(timeout=WAIT) == ((), {})


def test_what_falls_due_meanwhile_runs_afterwards(run: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = run()
    scheduler.start()
    scheduler.add_job(_jobs.tell_key, durable(IntervalTrigger(milliseconds=500), overlap="queue"), id="a")
    first = _jobs.ran.get(timeout=WAIT)
    outage = Outage(scheduler.ours.store, monkeypatch)
    outage.present = True
    wait_until(lambda: scheduler.ours._pump.trouble.rounds >= 3, "an outage of some tries")
    outage.present = False
    keys = [first.key.ordinal] + [_jobs.ran.get(timeout=WAIT).key.ordinal for _ in range(5)]
    assert keys == list(range(keys[0], keys[0] + 6))
    assert Ledger(scheduler.ours).untiled() == []


def test_a_store_that_can_only_be_read_is_an_outage_and_no_fault_of_a_verb(
    run: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk, or a server that has become a standby. A verb that is at fault is left alone for up to a minute."""
    scheduler = run()
    write, full = scheduler.ours.store.write, threading.Event()

    @contextmanager
    def refusing(connection: Any = None) -> Iterator[Any]:
        with write(connection) as conn:
            conn.exec_driver_sql(f"PRAGMA query_only = {full.is_set():d}")
            try:
                yield conn
            finally:
                conn.exec_driver_sql("PRAGMA query_only = 0")

    monkeypatch.setattr(scheduler.ours.store, "write", refusing)
    scheduler.start()
    scheduler.add_job(_jobs.tell_key, durable(IntervalTrigger(milliseconds=200), overlap="queue"), id="a")
    assert _jobs.ran.get(timeout=WAIT)
    full.set()
    wait_until(lambda: scheduler.ours._pump.trouble.rounds >= 3, "an outage of some tries")
    assert not scheduler.ours.health().healthy
    full.clear()
    wait_until(lambda: scheduler.ours.health().healthy, "the end of the outage")
    (only,) = (line for line in complaints(caplog) if "answers again" not in line)
    assert "readonly" in only


def test_a_transaction_that_fails_at_its_commit_starts_nothing_and_loses_nothing(
    run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = run()
    outage = Outage(scheduler.ours.store, monkeypatch)
    scheduler.add_job(_jobs.tell_key, once(), id="a")
    scheduler.start()
    outage.late = outage.present = True
    assert outage.failed.wait(WAIT)
    wait_until(lambda: scheduler.ours._pump.trouble.rounds >= 2)
    assert _jobs.ran.empty()
    outage.present = False
    scheduler.events.wait(EVENT_JOB_EXECUTED)
    assert _jobs.ran.get(timeout=WAIT).attempt == 1
    assert _jobs.ran.empty()


def test_a_commit_of_unknown_end_is_put_right(run: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection dies after the commit: what was marked running and never began is given back and runs once."""
    scheduler = run()
    store = scheduler.ours.store
    write, armed, struck = store.write, threading.Event(), threading.Event()

    @contextmanager
    def dying(connection: Any = None) -> Iterator[Any]:
        with write(connection) as conn:
            yield conn
        if armed.is_set() and Ledger(scheduler.ours).states("a") == ["running"]:
            armed.clear()
            struck.set()
            raise StoreUnreachable("the connection was lost")

    monkeypatch.setattr(store, "write", dying)
    armed.set()
    scheduler.add_job(_jobs.tell_key, once(), id="a")
    scheduler.start()
    assert struck.wait(WAIT)
    scheduler.events.wait(EVENT_JOB_EXECUTED)
    assert _jobs.ran.get(timeout=WAIT).attempt == 1
    assert _jobs.ran.empty()
    assert [(row.state, row.attempt) for row in Ledger(scheduler.ours).occurrences("a")] == [("succeeded", 1)]


def test_an_outcome_that_the_store_refuses_does_not_hold_up_the_others(
    run: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from calsched.stores import finish

    real = finish.finish

    def picky(store: Any, conn: Any, *, outcomes: Any, **more: Any) -> Any:
        if any(outcome.result == '"poison"' for outcome in outcomes):
            raise ValueError("this result cannot be stored")
        return real(store, conn, outcomes=outcomes, **more)

    monkeypatch.setattr(finish, "finish", picky)
    scheduler = run()
    for name in ("poison", "b", "c"):
        scheduler.add_job(_jobs.tell, once(), id=name, args=[name])
    scheduler.start()
    scheduler.events.wait(EVENT_JOB_EXECUTED, 3)
    ledger = Ledger(scheduler.ours)
    assert ledger.states() == ["succeeded"] * 3
    assert {row.result for row in ledger.occurrences()} == {None, '"b"', '"c"'}
    assert len([line for line in complaints(caplog) if "finish failed" in line]) == 1


def test_a_tick_that_fails_does_not_keep_outcomes_from_being_recorded(
    run: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from calsched.stores import advance

    scheduler = run()
    scheduler.add_job(_jobs.wait_for_gate, once(), id="a")
    scheduler.start()
    assert _jobs.ran.get(timeout=WAIT) == "began"

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("a fault of our own")

    monkeypatch.setattr(advance, "advance", broken)
    scheduler.ours._pump.kick()
    wait_until(lambda: any("advance failed" in line for line in complaints(caplog)))
    _jobs.gate.set()
    scheduler.events.wait(EVENT_JOB_EXECUTED)
    assert Ledger(scheduler.ours).states("a") == ["succeeded"]
    assert scheduler.ours.health().healthy
    assert len([line for line in complaints(caplog) if "advance failed" in line]) == 1
