"""The top of the hour: a thousand schedules due in the same second, and how long each waits for its start.

python tests/benchmarks/bench_lateness.py [--quick]
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Any

from _databases import by_sides, elsewhere, fresh
from _fill import fill
from _report import Scale, Section
from apscheduler.schedulers.background import BackgroundScheduler

TEXT = """
All schedules are due at one instant, some seconds after the scheduler has started; the task notes how long after that
instant it began. APScheduler's default pool of ten threads on every side. The last one to start tells how long the
whole second's work took to get going.
"""
began: list[float] = []
all_began = threading.Event()
expected = 0
due_at = 0.0


def note() -> None:
    began.append(time.time() - due_at)
    if len(began) >= expected:
        all_began.set()


def side(kind: str, n: int, url: str, wait: int) -> dict[str, float]:
    global expected, due_at
    store = _ours(url) if kind == "ours" else _theirs(kind, url)
    scheduler = BackgroundScheduler(jobstores={"default": store}, timezone="UTC")
    expected, due_at = n, float(int(time.time()) + wait)
    if kind == "ours":
        fill(store.store, n, int(due_at * 1000), callable="__main__:note")
        scheduler.start()
    else:
        scheduler.start(paused=True)
        due = datetime.fromtimestamp(due_at, UTC)
        for i in range(n):
            scheduler.add_job(note, "interval", hours=1, next_run_time=due, misfire_grace_time=None, id=f"job-{i}")
        scheduler.resume()
    assert time.time() < due_at - 0.5, "too slow to set up: give it more time"
    assert all_began.wait(wait + 300), f"{len(began)} of {n} began"
    scheduler.shutdown()
    began.sort()
    return {"p50": began[n // 2], "p99": began[n * 99 // 100], "last": began[-1]}


def _ours(url: str) -> Any:
    from calsched.stores.jobstore import OccurrenceJobStore

    store = OccurrenceJobStore(url)
    store.store.open()
    return store


def _theirs(kind: str, url: str) -> Any:
    if kind == "memory":
        from apscheduler.jobstores.memory import MemoryJobStore

        return MemoryJobStore()
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore

    return SQLAlchemyJobStore(url)


def best(kind: str, scale: Scale, server: str = "") -> dict[str, float]:
    found = []
    n = scale.of(1_000, 20)
    wait = {"sqlalchemy": scale.of(25, 3)}.get(kind, scale.of(6, 3))
    for _ in range(scale.repeats):
        with fresh(server) as url:
            found.append(elsewhere(__file__, kind=kind, n=n, url=url, wait=wait))
    return min(found, key=lambda one: one["p99"])


def measure(scale: Scale) -> Section:
    section = Section(f"Lateness: {scale.of(1_000, 20):,} schedules due in the same second", TEXT)
    sides = [("calsched, SQLite", "ours", ""), ("`SQLAlchemyJobStore`, SQLite", "sqlalchemy", ""),
             ("`MemoryJobStore`", "memory", "")]  # fmt: skip
    if scale.postgres:
        sides.insert(1, ("calsched, PostgreSQL", "ours", scale.postgres))
        sides.insert(3, ("`SQLAlchemyJobStore`, PostgreSQL", "sqlalchemy", scale.postgres))
    for name, kind, server in sides:
        found = best(kind, scale, server)
        section.add(name, f"p50 {_ms(found['p50'])}, p99 {_ms(found['p99'])}, last {_ms(found['last'])}")
    return section


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"


if __name__ == "__main__":
    by_sides(__doc__ or "", side, measure)
