"""``serve`` ends cleanly on a signal, says what it does in one line an event, and knows when it has lost its store."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from calsched.app import App
from calsched.clock import SystemClock, to_rfc3339
from calsched.errors import OwnedElsewhere
from calsched.model import Definition, Task
from calsched.runtime.callables import AllowList
from calsched.runtime.serve import Server
from calsched.runtime.tick import tick_once
from calsched.settings import Settings
from calsched.stores import control
from calsched.stores.engine import Store
from calsched.stores.tables import clock

APP = Path(__file__).with_name("_serve_app.py")
JOBS = "tests.runtime._serve_app"
ALLOW = AllowList([f"{JOBS}:*", "tests.jobstore._jobs:*"])


def create(
    store: Store, schedule_id: str, callable: str, *, first: int, every: int = 3_600_000, **policies: Any
) -> None:
    trigger = {"kind": "interval", "intervalMs": every, "firstTick": to_rfc3339(first)}
    definition = Definition(id=schedule_id, trigger=trigger, task=Task(callable=callable), **policies)
    store.open()
    with store.write() as conn:
        control.create(store, conn, definition, now=store.now(conn), principal="test", start_at=first)


def occurrences(store: Store) -> list[Any]:
    with store.read() as conn:
        return list(conn.execute(select(store.tables.occurrences).order_by(store.tables.occurrences.c.pk)).all())


def failures(store: Store, schedule_id: str) -> int:
    s = store.tables.schedules.c
    with store.read() as conn:
        return int(conn.execute(select(s.failures).where(s.id == schedule_id)).scalar_one())


class Process:
    def __init__(self, url: str, stop_timeout: int) -> None:
        root = APP.parents[2]
        self.process = subprocess.Popen(
            [sys.executable, str(APP), url, str(stop_timeout)], stdout=subprocess.PIPE, text=True, cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
        )  # fmt: skip
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.all: list[str] = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.all.append(line.strip())
            self.lines.put(line.strip())

    def wait(self, part: str) -> str:
        while True:
            line = self.lines.get(timeout=30)
            if part in line:
                return line

    def end(self) -> int:
        code = self.process.wait(30)
        self.reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(f"sqlite:///{tmp_path}/calsched.db")
    yield made
    made.dispose()


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    made: list[Process] = []

    def start(stop_timeout: int = 10_000) -> Process:
        made.append(Process(f"sqlite:///{tmp_path}/calsched.db", stop_timeout))
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
            one.end()


def due_now() -> int:
    return SystemClock().now()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_asks_running_tasks_to_stop_and_gives_back_the_rest(store: Store, serving: Any, number: int) -> None:
    for i in range(5):
        create(store, f"s{i}", f"{JOBS}:obedient", first=due_now())
    served = serving()
    served.wait("ready owner")
    for _ in range(2):
        served.wait("began")
    served.process.send_signal(number)
    assert served.end() == 0
    assert served.all.count("obeyed") == 2
    states = [row.state for row in occurrences(store)]
    assert sorted(states) == ["interrupted", "interrupted", "ready", "ready", "ready"]
    assert [failures(store, f"s{i}") for i in range(5)] == [0] * 5


def test_a_task_that_ends_in_time_is_waited_for(store: Store, serving: Any) -> None:
    create(store, "s", f"{JOBS}:finishing", first=due_now())
    served = serving()
    served.wait("began")
    served.process.send_signal(signal.SIGTERM)
    assert served.end() == 0
    assert [row.state for row in occurrences(store)] == ["succeeded"]


def test_a_task_that_does_not_stop_is_interrupted_by_a_clean_stop(store: Store, serving: Any) -> None:
    create(store, "s", f"{JOBS}:stubborn", first=due_now())
    served = serving(500)
    served.wait("began")
    served.process.send_signal(signal.SIGTERM)
    assert served.end() == 0
    assert [row.state for row in occurrences(store)] == ["interrupted"]
    assert failures(store, "s") == 0


def test_a_second_signal_is_in_a_hurry(store: Store, serving: Any) -> None:
    create(store, "s", f"{JOBS}:stubborn", first=due_now())
    served = serving(60_000)
    served.wait("began")
    served.process.send_signal(signal.SIGTERM)
    served.wait("stopping")
    served.process.send_signal(signal.SIGTERM)
    assert served.end() == 0
    assert [row.state for row in occurrences(store)] == ["interrupted"]


def test_one_line_an_event(store: Store, serving: Any) -> None:
    create(store, "nightly\x1b[31m", f"{JOBS}:quick", first=due_now() - 3 * 3_600_000 - 60_001, misfire="skip")
    create(store, "report", f"{JOBS}:quick", first=due_now())
    served = serving()
    assert served.wait("skipped").endswith(": misfire")
    served.wait("calsched.events report #0 due")
    line = served.wait("succeeded")
    assert "\x1b" not in "".join(served.all)
    assert line.startswith("LOG calsched.events report #0 due 2")
    served.process.send_signal(signal.SIGTERM)
    assert served.end() == 0


def test_a_pause_after_failures_is_a_line_of_its_own(store: Store, serving: Any) -> None:
    create(store, "s", f"{JOBS}:failing", first=due_now() - 3_000, every=1_000, overlap="queue", pause_after_failures=2)
    served = serving()
    served.wait("s #1 due")
    assert served.wait("paused") == "LOG calsched.events s paused: too many failures in a row"


def test_what_a_killed_owner_was_running_is_told_by_the_next_one(store: Store, serving: Any) -> None:
    due = due_now()
    create(store, "s", f"{JOBS}:stubborn", first=due, pause_after_failures=1)
    create(store, "again", f"{JOBS}:stubborn", first=due, max_retries=1, on_interrupted="retry")
    first = serving()
    first.wait("began")
    first.wait("began")
    first.process.kill()
    first.end()
    second = serving()
    told = sorted(second.wait("interrupted").removeprefix("LOG calsched.events ") for _ in range(2))
    assert told[0].startswith(f"again #0 due {to_rfc3339(due)} interrupted: whoever ran it is gone; next attempt at 2")
    assert told[1] == f"s #0 due {to_rfc3339(due)} interrupted: whoever ran it is gone"
    second.wait("s paused: too many failures in a row")


def test_a_hold_is_told_when_it_begins_and_when_it_ends(store: Store, serving: Any) -> None:
    create(store, "s", f"{JOBS}:quick", first=due_now())
    with store.write() as conn:
        clock.put(conn, store.tables, {"high_water": due_now(), "hold": "restored"})
    served = serving()
    assert "nothing is dispatched: a backup was restored" in served.wait("nothing is dispatched")
    App(f"sqlite:///{store.path}").clock_accept()
    served.wait("the hold on dispatch has ended")
    served.wait("s #0 due")


def test_it_leaves_with_3_when_its_file_is_gone(store: Store, serving: Any) -> None:
    create(store, "s", f"{JOBS}:quick", first=due_now())
    served = serving()
    served.wait("succeeded")
    assert store.path is not None
    store.path.unlink()
    assert served.end() == 3
    assert any("was lost" in line for line in served.all)


def test_a_second_server_is_refused_and_a_standby_waits(store: Store) -> None:
    with_default = Server(store, Settings(poll_interval=200), allow=ALLOW)
    ready = threading.Event()
    with_default._on_ready = lambda server: ready.set()
    thread = threading.Thread(target=with_default.run)
    thread.start()
    assert ready.wait(20)
    with pytest.raises(OwnedElsewhere):
        Server(Store(str(store.engine.url)), allow=ALLOW).run()
    other = Server(Store(str(store.engine.url)), Settings(poll_interval=200), allow=ALLOW, standby=True)
    stands = threading.Event()
    other._on_ready = lambda server: stands.set()
    second = threading.Thread(target=other.run)
    second.start()
    assert stands.wait(20)
    assert other.health().role == "standby"
    with_default.stop()
    thread.join(20)
    assert other.jobstore.pump is not None
    assert other.jobstore.pump.owned.wait(20)
    assert other.health().healthy
    other.stop()
    second.join(20)


def test_a_callable_off_the_allow_list_pauses_its_schedule(store: Store) -> None:
    create(store, "s", "tests.jobstore._jobs:noop", first=due_now())
    tick_once(store, allow=AllowList([f"{JOBS}:*"]))
    s = store.tables.schedules.c
    with store.read() as conn:
        row = conn.execute(select(s.state, s.reason, s.last_failure).where(s.id == "s")).one()
    assert (row.state, row.reason) == ("paused", "invalid")
    assert "not on this host's allow list" in row.last_failure


# --- tick -------------------------------------------------------------------------------------------------------------


def test_a_tick_runs_what_is_ready_and_tells_it_schedule_by_schedule(store: Store) -> None:
    now = due_now()
    create(store, "good", "tests.jobstore._jobs:noop", first=now - 1_000)
    create(store, "bad", "tests.jobstore._jobs:fail", first=now - 900)
    create(store, "later", "tests.jobstore._jobs:noop", first=now + 3_600_000)
    report = tick_once(store, allow=ALLOW)
    told = {one.id: one for one in report.schedules}
    assert set(told) == {"good", "bad"}
    assert [(r.ordinal, r.state, r.attempt) for r in told["good"].ran] == [(0, "succeeded", 1)]
    assert told["bad"].ran[0].error == "ValueError: boom"
    assert [len(plan.occurrences) for plan in told["good"].plans] == [1]
    assert [row.state for row in occurrences(store)] == ["succeeded", "failed"]
    assert tick_once(store, allow=ALLOW).schedules == ()


def test_a_tick_leaves_a_retry_to_the_next_one(store: Store) -> None:
    create(store, "s", "tests.jobstore._jobs:fail", first=due_now() - 1_000, max_retries=1, retry_delay=60_000)
    report = tick_once(store, allow=ALLOW)
    (ran,) = report.schedules[0].ran
    assert ran.retry_at is not None
    assert [row.state for row in occurrences(store)] == ["retrying"]


def test_a_tick_runs_a_whole_queue(store: Store) -> None:
    now = due_now()
    create(store, "s", "tests.jobstore._jobs:noop", first=now - 2_500, every=1_000, overlap="queue")
    report = tick_once(store, allow=ALLOW)
    assert [r.ordinal for r in report.schedules[0].ran] == [0, 1, 2]


def test_a_tick_with_a_limit_gives_up_what_does_not_end(store: Store) -> None:
    create(store, "s", "tests.jobstore._jobs:wait_for_gate", first=due_now() - 1_000)
    from tests.jobstore import _jobs

    _jobs.gate.clear()
    report = tick_once(store, allow=ALLOW, limit=0.5)
    _jobs.gate.set()
    assert report.left_running == 1
    assert [row.state for row in occurrences(store)] == ["interrupted"]
