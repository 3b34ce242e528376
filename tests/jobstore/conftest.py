from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import select

from calsched.stores.jobstore import OccurrenceJobStore
from tests.jobstore import _jobs

WAIT = 20.0


class Ledger:
    """What the store's tables say."""

    def __init__(self, jobstore: OccurrenceJobStore) -> None:
        self.store = jobstore.store
        self.store.open()

    def occurrences(self, schedule_id: str | None = None) -> list[Any]:
        o, s, r = self.store.tables.occurrences, self.store.tables.schedules, self.store.tables.revisions
        named = select(o, s.c.id.label("schedule_id"), r.c.number.label("revision"))
        query = named.join(s, s.c.pk == o.c.schedule_pk).join(r, r.c.pk == o.c.revision_pk).order_by(o.c.pk)
        if schedule_id is not None:
            query = query.where(s.c.id == schedule_id)
        with self.store.read() as conn:
            return list(conn.execute(query).all())

    def states(self, schedule_id: str | None = None) -> list[str]:
        return [row.state for row in self.occurrences(schedule_id)]

    def ranges(self, schedule_id: str | None = None) -> list[Any]:
        r, s = self.store.tables.ranges, self.store.tables.schedules
        query = select(r).join(s, s.c.pk == r.c.schedule_pk).order_by(r.c.first)
        if schedule_id is not None:
            query = query.where(s.c.id == schedule_id)
        with self.store.read() as conn:
            return list(conn.execute(query).all())

    def attempts(self, schedule_id: str) -> list[Any]:
        a, pks = self.store.tables.attempts, [row.pk for row in self.occurrences(schedule_id)]
        with self.store.read() as conn:
            return list(conn.execute(select(a).where(a.c.occurrence_pk.in_(pks)).order_by(a.c.pk)).all())

    def schedule(self, schedule_id: str) -> Any:
        s = self.store.tables.schedules
        with self.store.read() as conn:
            return conn.execute(select(s).where(s.c.id == schedule_id)).first()

    def revisions(self, schedule_id: str) -> int:
        r, pk = self.store.tables.revisions, self.schedule(schedule_id).pk
        with self.store.read() as conn:
            return len(conn.execute(select(r.c.pk).where(r.c.schedule_pk == pk)).all())

    def untiled(self) -> list[Any]:
        from calsched.stores.inspect import tiling

        with self.store.read() as conn:
            return list(tiling(self.store, conn))


@pytest.fixture(autouse=True)
def _fresh_jobs() -> Iterator[None]:
    _jobs.reset()
    yield
    _jobs.gate.set()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/app.db"


class Events:
    """A listener that keeps what it hears, and lets a test wait for it."""

    def __init__(self) -> None:
        self.queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.seen: list[Any] = []

    def __call__(self, event: Any) -> None:
        self.seen.append(event)
        self.queue.put(event)

    def wait(self, code: int, n: int = 1) -> list[Any]:
        found: list[Any] = []
        while len(found) < n:
            event = self.queue.get(timeout=WAIT)
            if event.code & code:
                found.append(event)
        return found


@pytest.fixture
def run(url: str) -> Iterator[Callable[..., Any]]:
    """Makes schedulers with our store under ``default``; shuts them down at the end."""
    made: list[Any] = []

    def make(kind: type = BackgroundScheduler, store: dict[str, Any] | None = None, **options: Any) -> Any:
        jobstore = OccurrenceJobStore(url, **{"poll_interval": 0.2, **(store or {})})
        options.setdefault("timezone", "UTC")
        scheduler = kind(jobstores={"default": jobstore}, **options)
        scheduler.ours = jobstore
        scheduler.events = Events()
        scheduler.add_listener(scheduler.events)
        made.append(scheduler)
        return scheduler

    yield make
    _jobs.gate.set()
    for scheduler in made:
        if scheduler.running:
            scheduler.shutdown()
        pump = scheduler.ours._pump
        if pump is not None:
            pump.begin_stop(2)
            assert pump.join(WAIT)
        scheduler.ours.store.dispose()


def wait_until(condition: Callable[[], Any], what: str = "") -> Any:
    """For what nobody signals: rows that another thread commits."""
    pause = threading.Event()
    for _ in range(400):
        found = condition()
        if found:
            return found
        pause.wait(0.05)
    raise AssertionError(f"in vain: {what or condition}")


def pid() -> int:
    return os.getpid()
