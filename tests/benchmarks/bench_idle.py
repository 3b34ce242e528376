"""What an owner costs while nothing is due: the time of a tick and its memory, by the number of schedules. And what it
costs to have been away for a year of milliseconds.

    python tests/benchmarks/bench_idle.py [--quick]
"""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path
from typing import Any

from _databases import by_sides, elsewhere, fresh
from _fill import definition, fill_by_sql
from _report import Scale, Section, millis, times
from apscheduler.schedulers.background import BackgroundScheduler

TEXT = """
An owner of a store in which no schedule is due: the median of 300 ticks (advance and claim in one transaction), and the
resident memory of its process after it has ticked and polled for some seconds.
"""
YEAR = 365 * 86_400_000


def side(url: str, n: int, polling: float) -> dict[str, float]:
    from calsched.stores.jobstore import OccurrenceJobStore

    store = OccurrenceJobStore(url, poll_interval=0.2)
    store.store.open()
    if n:
        fill_by_sql(store.store, n, int(time.time() * 1000) + YEAR)
        return {}
    scheduler = BackgroundScheduler(jobstores={"default": store}, timezone="UTC")
    scheduler.start()
    threading.Event().wait(polling)
    tick, memory = _tick(store.store, store.pump), _memory()
    scheduler.shutdown()
    return {"tick": tick, "memory": memory}


def _tick(store: Any, pump: Any) -> float:
    """The median of many, in seconds."""
    from calsched.stores.advance import advance
    from calsched.stores.claim import claim

    taken = []
    for _ in range(300):
        begun = time.perf_counter()
        with store.write() as conn:
            now = store.now(conn)
            found = advance(store, conn, now)
            claim(store, conn, epoch=pump.verbs.epoch, now=now, limit=10, executors={"default": 10})
        taken.append(time.perf_counter() - begun)
        assert not found.schedules
    return statistics.median(taken)


def _memory() -> float:
    """Resident, in megabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def of(n: int, server: str, polling: float) -> dict[str, float]:
    with fresh(server) as url:
        elsewhere(__file__, url=url, n=n, polling=0)  # in a process of its own, so that its memory does not count
        found: dict[str, float] = elsewhere(__file__, url=url, n=0, polling=polling)
    return found


def year(server: str = "") -> tuple[float, int]:
    """Seconds of the tick that judges a year of missed milliseconds, and the rows that it wrote."""
    from sqlalchemy import func, select

    from calsched.stores import control
    from calsched.stores.advance import advance
    from calsched.stores.engine import Store

    best, rows = 9.9, 0
    with fresh(server) as url:
        store = Store(url)
        store.open()
        now = int(time.time() * 1000)
        for n in range(6):  # the first one also reads what later ones find in memory
            with store.write() as conn:
                d = definition(f"fast-{n}", now - YEAR, "jobs:run", 1)
                control.create(store, conn, d, now=now - YEAR, principal="bench", start_at=now - YEAR)
            begun = time.perf_counter()
            with store.write() as conn:
                made = advance(store, conn, now)
            best = min(best, time.perf_counter() - begun)
            assert len(made.schedules) == 1
        with store.read() as conn:
            for table in (store.tables.occurrences, store.tables.ranges):
                rows += conn.execute(select(func.count()).select_from(table)).scalar_one() // 6
        store.dispose()
    return best, rows


def measure(scale: Scale) -> Section:
    section = Section("Idle owners, and a year away", TEXT)
    sizes = [1_000, 100_000, 1_000_000] if not scale.quick else [100, 1_000]
    for name, server in (("SQLite", ""), ("PostgreSQL", scale.postgres)):
        if name == "PostgreSQL" and not server:
            continue
        found = {n: of(n, server, 0.3 if scale.quick else 2.0) for n in sizes}
        small = found[sizes[0]]
        for n, one in found.items():
            ratio = one["tick"] / small["tick"]
            section.add(f"tick, {n:,} schedules, {name}", f"{millis(one['tick'])} ({times(ratio)})",
                        "under 5 ms" if n == 100_000 else f"at most 2× that of {sizes[0]:,}" if n != sizes[0] else "",
                        None if n == sizes[0] else one["tick"] < 0.005 if n == 100_000 else ratio <= 2)  # fmt: skip
        for n, one in found.items():
            flat = one["memory"] <= 2 * small["memory"]
            section.add(f"memory of the owner, {n:,} schedules, {name}", f"{one['memory']:.0f} MB",
                        "under 150 MB" if n == 100_000 else "flat" if n != sizes[0] else "",
                        None if n == sizes[0] else one["memory"] < 150 if n == 100_000 else flat)  # fmt: skip
    taken, rows = year()
    section.add("one tick over a year of missed milliseconds, SQLite", millis(taken), "under 20 ms", taken < 0.020)
    section.add("rows that it wrote", str(rows), "two at most", rows <= 2)
    return section


if __name__ == "__main__":
    by_sides(__doc__ or "", side, measure)
