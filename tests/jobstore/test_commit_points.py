"""Killed at each of an owner's commits, just before and just after: no slot runs twice, each has its verdict."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from calsched import IntervalTrigger, OccurrenceJobStore, current_occurrence, durable
from tests.jobstore.conftest import Ledger, wait_until

LAST = 14


def leave_a_mark(path: str) -> None:
    """Whole lines, in one write: they survive the kill."""
    occurrence = current_occurrence()
    assert occurrence is not None
    line = f"{occurrence.key.schedule_id} {occurrence.key.revision} {occurrence.key.ordinal} {occurrence.attempt}\n"
    with open(path, "ab", buffering=0) as file:
        file.write(line.encode())


def scheduler_on(url: str, marks: str) -> Any:
    store = OccurrenceJobStore(url, poll_interval=0.2)
    scheduler: Any = BackgroundScheduler(
        jobstores={"default": store}, executors={"default": ThreadPoolExecutor(3)}, timezone="UTC"
    )
    for i, overlap in enumerate(("queue", "coalesce", "skip", "queue")):
        trigger = IntervalTrigger(milliseconds=40 + 7 * i)
        scheduler.add_job(
            leave_a_mark, durable(trigger, overlap=overlap), args=[marks], id=f"s{i}", replace_existing=True
        )
    return scheduler


def kill_at(store: Any, point: int, when: str) -> None:
    """The ``point``-th commit from now on is the last thing that this process does, or nearly does."""
    write, count = store.write, 0

    @contextmanager
    def counted(connection: Any = None) -> Iterator[Any]:
        nonlocal count
        with write(connection) as conn:
            yield conn
            count += 1
            if count == point and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
        if count >= point:
            os.kill(os.getpid(), signal.SIGKILL)

    store.write = counted


def child(url: str, marks: str, point: int, when: str) -> None:
    scheduler = scheduler_on(url, marks)
    kill_at(scheduler._jobstores["default"].store, point, when)
    scheduler.start()
    threading.Event().wait(20)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_every_commit_point(tmp_path: Path, when: str) -> None:
    url, marks = f"sqlite:///{tmp_path}/app.db", str(tmp_path / "marks")
    Path(marks).touch()
    for point in range(1, LAST + 1):
        pid = os.fork()
        if pid == 0:
            try:
                child(url, marks, point, when)
            finally:
                os._exit(9)  # it should not have come so far
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status), f"the process ended before commit {point}"
    settle(url, marks)


def settle(url: str, marks: str) -> None:
    """A last owner, which is not killed: it finds what the others left, and then everything must fit."""
    scheduler = scheduler_on(url, marks)
    scheduler.start()
    ledger = Ledger(scheduler._jobstores["default"])
    wait_until(lambda: len(ledger.states()) > 4, "some slots")
    scheduler.shutdown()
    ran = Path(marks).read_text().split("\n")[:-1]
    assert len(ran) == len(set(ran)), "an attempt was run twice"
    slots = [line.rsplit(" ", 1)[0] for line in ran]
    assert len(slots) == len(set(slots)), "a slot was run twice"
    assert ledger.untiled() == []
    states = set(ledger.states())
    assert states <= {"succeeded", "interrupted", "ready", "waiting", "skipped"}
    found = [(f"{r.schedule_id} {r.revision} {r.ordinal}", r.state) for r in ledger.occurrences()]
    succeeded = {name for name, state in found if state == "succeeded"}
    assert succeeded <= set(slots), "what succeeded has run"
    open_ = {name for name, state in found if state in ("ready", "waiting")}
    assert not open_ & set(slots), "what has run is not offered again"
    ledger.store.dispose()
