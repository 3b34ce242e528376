"""Owners come and go: what a dead one leaves behind, and the clock that decides whether anything is dispatched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from calsched.errors import Fenced, OwnedElsewhere
from calsched.stores import inspect, recover
from calsched.stores.engine import Store
from calsched.stores.lock import OwnerLock, holder, is_owned
from tests.stores._helpers import HOUR, MINUTE, SECOND, T0, Ledger, every, failed, succeeded

LEASE = 30 * SECOND


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger(store)


def bury(ledger: Ledger) -> int:
    """The owner of the ledger dies; another one comes after a lease. The dead one's epoch."""
    dead, store = ledger.epoch, ledger.store
    with store.read() as conn:
        observed = recover.heartbeats(store, conn)
    ledger.now += LEASE + 1
    with store.write() as conn:
        ledger.epoch = recover.register_owner(store, conn, "second", "host", 2, ledger.now, LEASE)
        taken = recover.take_over(store, conn, ledger.now, observed)
    assert taken == ([] if store.dialect == "sqlite" else [dead])
    return dead


def test_epochs_rise_and_are_never_given_twice(ledger: Ledger) -> None:
    bury(ledger)
    second = ledger.epoch
    bury(ledger)
    assert ledger.epoch > second
    with ledger.store.read() as conn:
        states = [(owner.epoch, owner.state) for owner in inspect.owners(ledger.store, conn)]
    assert states[0] == (ledger.epoch, "live")
    assert {state for _, state in states[1:]} == {"fenced"}


def test_what_a_dead_owner_had_claimed_is_ready_again(ledger: Ledger) -> None:
    ledger.create(every(HOUR))
    ledger.tick(T0)
    (taken,) = ledger.claim()
    dead = bury(ledger)
    (again,) = ledger.claim()
    assert (again.occurrence, again.attempt) == (taken.occurrence, 1)
    assert ledger.start([again], epoch=dead) == set()
    ledger.check()


def test_what_a_dead_owner_ran_is_interrupted_with_its_time_as_an_upper_bound(ledger: Ledger) -> None:
    ledger.create(every(HOUR))
    ledger.tick(T0)
    ledger.begin()
    bury(ledger)
    (one,) = ledger.occurrences()
    assert (one.state, one.elapsed, one.finished_at) == ("interrupted", LEASE + 1, T0 + LEASE + 1)
    (attempt,) = one.attempts
    assert (attempt.state, attempt.uncertain, attempt.elapsed) == ("interrupted", True, LEASE + 1)
    assert ledger.view().failures == 1
    assert ledger.claim() == []
    ledger.check()


def test_an_interrupted_attempt_is_retried_where_the_schedule_says_so(ledger: Ledger) -> None:
    ledger.create(every(HOUR, on_interrupted="retry", max_retries=1, retry_delay=SECOND))
    ledger.tick(T0)
    ledger.begin()
    bury(ledger)
    assert ledger.states() == [(0, "retrying", None)]
    ledger.now += SECOND
    assert [one.attempt for one in ledger.claim()] == [2]


def test_the_next_in_the_queue_runs_after_an_interruption(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, overlap="queue"))
    ledger.tick(T0 + MINUTE)
    ledger.begin()
    bury(ledger)
    assert [one.ordinal for one in ledger.claim()] == [1]
    ledger.check()


def test_a_late_report_of_a_fenced_owner_is_evidence_and_not_the_outcome(ledger: Ledger) -> None:
    ledger.create(every(HOUR))
    ledger.tick(T0)
    (taken,) = ledger.begin()
    dead = bury(ledger)
    report = ledger.finish(succeeded(taken, ledger.now), epoch=dead)
    assert report.late == {taken.occurrence}
    (one,) = ledger.occurrences()
    assert one.state == "interrupted"
    assert [(attempt.state, attempt.late) for attempt in one.attempts] == [("interrupted", False), ("succeeded", True)]


def test_a_fenced_owner_learns_it_from_its_heartbeat(ledger: Ledger) -> None:
    dead = bury(ledger)
    with ledger.store.write() as conn:
        assert not recover.heartbeat(ledger.store, conn, dead, ledger.now, LEASE)
        assert recover.heartbeat(ledger.store, conn, ledger.epoch, ledger.now, LEASE)
    with pytest.raises(Fenced):
        ledger.claim(epoch=dead)


def test_a_lease_that_was_renewed_meanwhile_is_not_taken(ledger: Ledger, database: str) -> None:
    if database == "sqlite":
        pytest.skip("on SQLite the lock says who is dead")
    store = ledger.store
    with store.read() as conn:
        observed = recover.heartbeats(store, conn)
    ledger.now += LEASE + 1
    with store.write() as conn:
        assert recover.heartbeat(store, conn, ledger.epoch, ledger.now, LEASE)
        assert recover.take_over(store, conn, ledger.now + LEASE + 1, observed) == []
        assert recover.take_over(store, conn, ledger.now, {ledger.epoch: ledger.now}) == [], "its lease still runs"


def test_an_owner_that_nobody_watched_is_not_taken_over(ledger: Ledger, database: str) -> None:
    if database == "sqlite":
        pytest.skip("on SQLite the lock says who is dead")
    with ledger.store.write() as conn:
        assert recover.take_over(ledger.store, conn, ledger.now + HOUR, {}) == []


def test_a_clean_stop_gives_claims_back_and_counts_nothing(ledger: Ledger) -> None:
    for name in ("a", "b"):
        ledger.create(every(HOUR, name))
    ledger.tick(T0)
    taken = ledger.claim()
    ledger.start(taken[:1])
    with ledger.store.write() as conn:
        recover.stop_owner(ledger.store, conn, ledger.epoch, T0 + 1)
    assert [ledger.states(one.schedule_id)[0][1] for one in taken] == ["interrupted", "ready"]
    assert [ledger.view(one.schedule_id).failures for one in taken] == [0, 0]
    ledger.check()


def test_the_hold_of_a_lingering_worker_ends_with_its_process(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, overlap="queue"))
    ledger.tick(T0 + MINUTE)
    (taken,) = ledger.begin()
    ledger.finish(failed(taken, ledger.now)._replace(state="timed_out"), lingering=[taken.occurrence])
    assert ledger.claim() == []
    bury(ledger)
    assert [one.ordinal for one in ledger.claim()] == [1]


def test_a_schedule_that_nobody_can_load_is_paused_and_revived_by_enable(ledger: Ledger) -> None:
    view = ledger.create(every(MINUTE))
    with ledger.store.write() as conn:
        assert recover.pause_invalid(ledger.store, conn, view.pk, "no module named jobs", T0)
        assert not recover.pause_invalid(ledger.store, conn, view.pk, "no module named jobs", T0)
    paused = ledger.view()
    assert (paused.state, paused.reason, paused.next_due) == ("paused", "invalid", None)
    assert paused.attention is not None and "no module named jobs" in paused.attention
    ledger.now = T0 + 10 * MINUTE + 1
    ledger.control("enable")
    assert ledger.view().next_due == T0 + 11 * MINUTE
    assert ledger.ranges() == [(0, 10, "disabled")]
    ledger.check()


# --- the clock --------------------------------------------------------------------------------------------------------


def observe(ledger: Ledger, now: int, boot_time: int | None = None) -> tuple[str | None, int]:
    with ledger.store.write() as conn:
        seen = recover.observe_clock(ledger.store, conn, now, boot_time, "one boot", 5 * SECOND)
    return seen.hold, seen.now


def test_a_clock_that_steps_back_holds_until_it_has_caught_up(ledger: Ledger) -> None:
    assert observe(ledger, T0) == (None, T0)
    assert observe(ledger, T0 - 5 * SECOND) == (None, T0), "within the tolerance"
    assert observe(ledger, T0 - HOUR) == ("backward", T0)
    with ledger.store.read() as conn:
        assert inspect.clock_of(ledger.store, conn).hold == "backward"
    assert observe(ledger, T0 - MINUTE) == ("backward", T0)
    assert observe(ledger, T0 + 1) == (None, T0 + 1)
    with ledger.store.read() as conn:
        assert inspect.clock_of(ledger.store, conn).hold is None


def test_a_clock_that_steps_forward_is_noticed_against_the_boot_clock_on_sqlite_only(
    ledger: Ledger, database: str
) -> None:
    assert observe(ledger, T0, boot_time=0) == (None, T0)
    forward = ("forward", T0 + MINUTE) if database == "sqlite" else (None, T0 + HOUR)
    assert observe(ledger, T0 + HOUR, boot_time=MINUTE) == forward


# --- the lock ---------------------------------------------------------------------------------------------------------

HOLD = """
import sys, time
from pathlib import Path
from calsched.stores.lock import OwnerLock
lock = OwnerLock(Path(sys.argv[1]), "the first")
lock.acquire()
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that owns the store."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "a.db")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_owner_is_refused_with_the_name_and_pid_of_the_first(
    other: subprocess.Popen[str], tmp_path: Path
) -> None:
    lock = OwnerLock(tmp_path / "a.db", "the second")
    with pytest.raises(OwnedElsewhere, match=rf"the first \(pid {other.pid}\)"):
        lock.acquire()
    assert holder(tmp_path / "a.db") == ("the first", other.pid)
    assert is_owned(tmp_path / "a.db")


def test_the_lock_of_a_killed_owner_is_taken_over_by_the_standby(other: subprocess.Popen[str], tmp_path: Path) -> None:
    lock, stop, waiting = OwnerLock(tmp_path / "a.db", "the second"), threading.Event(), threading.Event()
    taken: list[bool] = []
    thread = threading.Thread(target=lambda: taken.append(lock.wait(stop, waiting.set)))
    thread.start()
    assert waiting.wait(10)
    os.kill(other.pid, signal.SIGKILL)
    thread.join(10)
    assert taken == [True]
    assert holder(tmp_path / "a.db") == ("the second", os.getpid())
    lock.release()
    assert not is_owned(tmp_path / "a.db")


def test_a_standby_that_is_told_to_stop_leaves_without_the_lock(other: subprocess.Popen[str], tmp_path: Path) -> None:
    stop = threading.Event()
    lock = OwnerLock(tmp_path / "a.db", "the second")
    assert not lock.wait(stop, stop.set)
    assert not lock.held


def test_the_lock_is_one_for_all_paths_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "a.db")
    first, second = OwnerLock(tmp_path / "a.db", "x"), OwnerLock(tmp_path / "link.db", "y")
    first.acquire()
    with pytest.raises(OwnedElsewhere):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_a_forked_child_has_its_own_engine_and_not_the_lock(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'a.db'}")
    store.open()
    lock = OwnerLock(tmp_path / "a.db", "parent")
    lock.acquire()
    ledger = Ledger(store)
    ledger.create(every(HOUR))
    engine = store.engine
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            fine = not lock.held and store.engine is not engine
            ledger.control("pause")
            code = 0 if fine else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert lock.held
    assert ledger.view().state == "paused"
    ledger.control("resume")
    lock.release()
    store.dispose()
