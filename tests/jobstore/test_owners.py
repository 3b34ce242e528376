"""One owner of a SQLite file: a second is refused or waits, a dead one is taken over, a forked child only controls."""

from __future__ import annotations

import os
import queue
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from apscheduler.schedulers.background import BackgroundScheduler

from calsched import IntervalTrigger, OccurrenceJobStore, durable
from calsched.errors import OwnedElsewhere
from tests.jobstore import _jobs
from tests.jobstore.conftest import WAIT, Ledger

Make = Callable[..., Any]
APP = Path(__file__).with_name("_app.py")


class App:
    """The app of ``_app.py``, and what it has said."""

    def __init__(self, url: str, mode: str) -> None:
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.all: list[str] = []
        root = APP.parents[2]
        self.process = subprocess.Popen(
            [sys.executable, str(APP), url, mode], stdout=subprocess.PIPE, text=True, cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
        )  # fmt: skip
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.all.append(line.strip())
            self.lines.put(line.strip())

    def wait(self, start: str) -> str:
        while True:
            line = self.lines.get(timeout=30)
            if line.startswith(start):
                return line

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.end()

    def end(self, timeout: float = 30) -> int:
        code = self.process.wait(timeout)
        self.reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture
def app(url: str) -> Iterator[Callable[[str], App]]:
    made: list[App] = []

    def make(mode: str) -> App:
        made.append(App(url, mode))
        return made[-1]

    yield make
    for one in made:
        if one.process.poll() is None:
            one.kill()


def ledger(url: str) -> Ledger:
    return Ledger(OccurrenceJobStore(url))


def test_a_second_owner_is_refused_with_the_first_ones_name_and_pid(run: Make, url: str) -> None:
    first = run(store={"name": "first"})
    first.start()
    second = BackgroundScheduler(jobstores={"default": OccurrenceJobStore(url)}, timezone="UTC")
    with pytest.raises(OwnedElsewhere, match=rf"owned by first \(pid {os.getpid()}\)"):
        second.start()
    assert not second.running


def test_a_standby_hands_out_nothing_but_controls(run: Make) -> None:
    first = run()
    first.start()
    second = run(store={"standby": True})
    second.start()
    assert second.ours.role == "standby"
    second.add_job(_jobs.tell, durable(IntervalTrigger(milliseconds=200)), id="a")
    assert _jobs.ran.get(timeout=WAIT) == ((), {})  # the first one ran it
    assert second.ours.get_due_jobs(None) == []
    second.pause_job("a")
    assert first.get_job("a").next_run_time is None


def test_a_standby_takes_over_when_the_owner_leaves(run: Make) -> None:
    first = run()
    first.start()
    second = run(store={"standby": True})
    second.start()
    first.shutdown()
    assert second.ours._pump.owned.wait(WAIT)
    second.add_job(_jobs.tell, durable(IntervalTrigger(milliseconds=200)), id="a")
    assert _jobs.ran.get(timeout=WAIT) == ((), {})


def test_after_kill_9_what_ran_is_interrupted_and_what_waited_runs(app: Any, url: str) -> None:
    owner = app("hang")
    begun = {owner.wait("began") for _ in range(10)}
    standby = app("standby")
    standby.wait("started standby")
    owner.kill()
    rest = {standby.wait("began") for _ in range(2)}
    assert not begun & rest
    found = ledger(url)
    assert sorted(found.states()) == ["interrupted"] * 10 + ["running"] * 2
    attempts = [a for line in begun for a in found.attempts(line.removeprefix("began "))]
    assert {(a.state, a.uncertain) for a in attempts} == {("interrupted", True)}
    assert found.untiled() == []


def test_a_forked_child_is_a_client(app: Any) -> None:
    owner = app("fork")
    owner.wait("started owner")
    owner.wait("child client")
    owner.wait("child added")
    owner.wait("ran from-child 0")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_controls_though_the_schedulers_thread_was_at_work(run: Make) -> None:
    """APScheduler's locks are copied as they are, and the thread that holds them is not."""
    scheduler = run()
    scheduler.start()
    held, over = threading.Event(), threading.Event()
    pool = scheduler._executors["default"]

    def work() -> None:
        with (
            scheduler._jobstores_lock, scheduler._executors_lock, scheduler._listeners_lock, scheduler._event._cond,
            pool._lock, pool._pool._shutdown_lock,
        ):  # fmt: skip
            held.set()
            over.wait(WAIT)

    thread = threading.Thread(target=work)
    thread.start()
    assert held.wait(WAIT)
    child = os.fork()
    if child == 0:
        code = 99
        try:
            signal.alarm(10)  # a child that hangs is ended by it
            scheduler.add_job(_jobs.noop, "interval", hours=1, id="from-child")
            code = len(scheduler.get_jobs())
            scheduler.shutdown()
        finally:
            os._exit(code)
    over.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert [job.id for job in scheduler.get_jobs()] == ["from-child"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_lock_is_not_kept_by_a_forked_child(run: Make) -> None:
    """A child that outlives its parent must not keep the store locked."""
    scheduler = run()
    scheduler.start()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)  # until the parent says so
        os._exit(0)
    scheduler.shutdown()
    second = run()
    second.start()
    assert second.ours.role == "owner"
    os.close(write)
    os.close(read)
    os.waitpid(child, 0)


def test_an_interpreter_that_ends_without_shutdown_records_what_ran(app: Any, url: str) -> None:
    owner = app("unshut")
    assert owner.end() == 0
    found = ledger(url)
    assert found.states("slow") == ["succeeded"]
    assert found.schedule("slow").failures == 0


def test_shutdown_without_waiting_records_what_runs_on(app: Any, url: str) -> None:
    owner = app("nowait")
    owner.wait("shut down")
    assert owner.end() == 0
    assert ledger(url).states("slow") == ["succeeded"]


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.chaos) for n in range(1, 17))])
def test_killed_at_random_no_slot_runs_twice(app: Any, url: str, seed: int) -> None:
    """Three kills in each; `make chaos` makes fifty of them."""
    chance = random.Random(seed)
    ran: list[str] = []
    for _ in range(3):
        owner = app("tick")
        owner.wait("started owner")
        pause = threading.Event()
        pause.wait(chance.uniform(0.3, 1.2))
        owner.kill()
        ran += [line for line in owner.all if line.startswith("ran ")]
    assert ran
    assert len(ran) == len(set(ran))
    found = ledger(url)
    assert found.untiled() == []
    with_outcome = {f"ran {row.schedule_id} {row.ordinal}" for row in found.occurrences() if row.state == "succeeded"}
    assert with_outcome <= set(ran)
