"""How fast are due no-op jobs drained? Ours, every occurrence and outcome durable, against APScheduler's own stores
and against procrastinate.

    python tests/benchmarks/bench_drain.py [--quick] [--only ours] [--profile]

Each side runs in a process of its own: N jobs that were due five seconds ago, a thread pool of APScheduler's default
size, the time from ``resume()`` to the last EXECUTED event; for procrastinate the time that its worker takes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from _databases import POSTGRES, elsewhere, fresh, reachable
from _fill import fill
from _report import Scale, Section, rate, times
from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.schedulers.background import BackgroundScheduler

TEXT = """
No-op jobs that are due already, run through a `BackgroundScheduler` with APScheduler's default pool of ten threads,
from `resume()` to the last `EXECUTED` event. Ours writes an occurrence row, its attempt and its outcome for each, all
durable (SQLite with `synchronous=FULL`). `SQLAlchemyJobStore` keeps only the next run time; `MemoryJobStore` nothing.
procrastinate runs as many no-op `async` jobs in one worker, with the concurrency that suited it best here (20).
"""


HERE = os.path.dirname(os.path.abspath(__file__))


def noop() -> None:
    return None


# --- one side, in a process of its own --------------------------------------------------------------------------------


def ours(url: str, n: int, profile: str = "") -> dict[str, float]:
    from calsched.stores.jobstore import OccurrenceJobStore

    store = OccurrenceJobStore(url)
    store.store.open()
    fill(store.store, n, int(time.time() * 1000) - 5_000, callable="__main__:noop")
    with store.store.read() as conn:
        store.store.compiled.get_many(conn, range(1, n + 1))  # add_job leaves them compiled
    found = drain(BackgroundScheduler(jobstores={"default": store}, timezone="UTC"), n, profile)
    assert states(store.store) == {"succeeded": n}
    return found


def states(store: Any) -> dict[str, int]:
    from sqlalchemy import func, select

    o = store.tables.occurrences.c
    with store.read() as conn:
        return dict(conn.execute(select(o.state, func.count()).group_by(o.state)).all())


def theirs(jobstore: Any, n: int) -> dict[str, float]:
    scheduler = BackgroundScheduler(jobstores={"default": jobstore}, timezone="UTC")
    scheduler.start(paused=True)
    due = datetime.now(UTC) - timedelta(seconds=5)
    for i in range(n):
        scheduler.add_job(noop, "interval", hours=1, next_run_time=due, misfire_grace_time=None, id=f"job-{i}")
    return drain(scheduler, n)


def drain(scheduler: Any, n: int, profile: str = "") -> dict[str, float]:
    done = threading.Event()
    count = 0

    def one(event: Any) -> None:
        nonlocal count
        count += 1
        if count == n:
            done.set()

    scheduler.add_listener(one, EVENT_JOB_EXECUTED)
    if not scheduler.running:
        scheduler.start(paused=True)
    watch = _watched(profile)
    began, cpu = time.perf_counter(), time.process_time()
    scheduler.resume()
    assert done.wait(900), f"{count} of {n} after fifteen minutes"
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    if watch is not None:
        watch.wait(60)
    scheduler.shutdown()
    return {"seconds": seconds, "cpu": cpu}


def _watched(path: str) -> subprocess.Popen[bytes] | None:
    if not path:
        return None
    command = ["py-spy", "record", "-d", "5", "-r", "200", "-f", "raw", "-o", path, "-p", str(os.getpid())]
    watch = subprocess.Popen(command)
    time.sleep(1.5)
    return watch


def by_procrastinate(url: str, n: int, concurrency: int = 20) -> dict[str, float]:
    import procrastinate
    from sqlalchemy.engine import make_url

    conninfo = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=conninfo, max_size=20))

    @app.task(name="noop")
    async def task() -> None:
        return None

    async def work() -> dict[str, float]:
        async with app.open_async():
            await app.schema_manager.apply_schema_async()
            await task.batch_defer_async(*({} for _ in range(n)))
            began, cpu = time.perf_counter(), time.process_time()
            await app.run_worker_async(
                wait=False, concurrency=concurrency, listen_notify=False, install_signal_handlers=False
            )
            found = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}
            rows = await app.connector.execute_query_all_async(
                "SELECT count(*) AS n FROM procrastinate_jobs WHERE status = 'succeeded'"
            )
            assert rows[0]["n"] == n
            return found

    return asyncio.run(work())


def one_owner(url: str) -> dict[str, float]:
    """One of several owners: it says when it is up, starts when it is told, and ends when its standard input does."""
    from calsched.stores.jobstore import OccurrenceJobStore

    scheduler = BackgroundScheduler(jobstores={"default": OccurrenceJobStore(url)}, timezone="UTC")
    scheduler.start(paused=True)
    print("up", flush=True)
    sys.stdin.readline()
    scheduler.resume()
    sys.stdin.read()
    scheduler.shutdown()
    return {}


def side(given: dict[str, Any]) -> dict[str, float]:
    kind, n, url = given["kind"], given.get("n", 0), given["url"]
    if kind == "ours":
        return ours(url, n, given.get("profile", ""))
    if kind == "memory":
        from apscheduler.jobstores.memory import MemoryJobStore

        return theirs(MemoryJobStore(), n)
    if kind == "sqlalchemy":
        from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore

        return theirs(SQLAlchemyJobStore(url), n)
    return by_procrastinate(url, n) if kind == "procrastinate" else one_owner(url)


# --- all sides --------------------------------------------------------------------------------------------------------


def best(kind: str, n: int, repeats: int, server: str = "", profile: str = "") -> dict[str, float]:
    """The fastest of several runs, as occurrences a second and microseconds of our processor for each."""
    found = []
    for _ in range(repeats):
        with fresh(server) as url:
            found.append(elsewhere(__file__, kind=kind, n=n, url=url, profile=profile))
    fastest = min(found, key=lambda one: one["seconds"])
    return {"rate": n / fastest["seconds"], "micros": fastest["cpu"] / n * 1e6}


def together(owners: int, n: int, server: str) -> float:
    """Occurrences a second of several owners of one database, from the word to the last outcome in it."""
    from calsched.stores.engine import Store

    with fresh(server) as url:
        store = Store(url)
        store.open()
        fill(store, n, int(time.time() * 1000) - 5_000, callable="bench_drain:noop")
        command = [sys.executable, __file__, "--side", json.dumps({"kind": "owner", "url": url})]
        pipe: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        crew = [subprocess.Popen(command, cwd=HERE, **pipe) for _ in range(owners)]
        for one in crew:
            assert one.stdout.readline() == "up\n"
        began = time.perf_counter()
        for one in crew:
            one.stdin.write("go\n")
            one.stdin.flush()
        while states(store).get("succeeded", 0) < n:
            time.sleep(0.02)
        seconds = time.perf_counter() - began
        for one in crew:
            one.communicate()
        store.dispose()
    return n / seconds


def measure(scale: Scale) -> Section:
    section = Section("Draining due work", TEXT)
    sqlite(section, scale)
    if scale.postgres:
        postgresql(section, scale)
    return section


def sqlite(section: Section, scale: Scale) -> None:
    n = scale.of(5_000, 60)
    memory, native, own = (best(kind, n, scale.repeats) for kind in ("memory", "sqlalchemy", "ours"))
    section.add(f"`MemoryJobStore`, {n:,} jobs", rate(memory["rate"]))
    section.add(f"`SQLAlchemyJobStore` on SQLite, {n:,} jobs", rate(native["rate"]))
    cost = f"{own['micros']:.0f} µs of the processor each"
    section.add(f"calsched on SQLite, {n:,} occurrences ({cost})", rate(own["rate"]))
    ratio = own["rate"] / native["rate"]
    section.add("calsched / `SQLAlchemyJobStore`, SQLite", times(ratio), "at least 20×", ratio >= 20, _BOUND)
    ratio = own["rate"] / memory["rate"]
    section.add("calsched / `MemoryJobStore`", times(ratio), "at least 0.5×", ratio >= 0.5, _AGAINST_MEMORY)


def postgresql(section: Section, scale: Scale) -> None:
    n = scale.of(10_000, 60)
    kinds = ("sqlalchemy", "procrastinate", "ours")
    native, peer, own = (best(kind, n, scale.repeats, scale.postgres) for kind in kinds)
    section.add(f"`SQLAlchemyJobStore` on PostgreSQL, {n:,} jobs", rate(native["rate"]))
    section.add(f"procrastinate, one worker, {n:,} jobs", rate(peer["rate"]))
    section.add(
        f"calsched on PostgreSQL, one owner, {n:,} occurrences ({own['micros']:.0f} µs of the processor each)",
        rate(own["rate"]),
    )
    ratio = own["rate"] / native["rate"]
    section.add("calsched / `SQLAlchemyJobStore`, PostgreSQL", times(ratio), "at least 10×", ratio >= 10, _ON_POSTGRES)
    ratio = own["rate"] / peer["rate"]
    section.add("calsched / procrastinate", times(ratio), "at least 5×", ratio >= 5, _ON_POSTGRES)
    one = max(together(1, n, scale.postgres) for _ in range(scale.repeats))
    two = max(together(2, n, scale.postgres) for _ in range(scale.repeats))
    section.add(f"one owner, {n:,} occurrences, seen from the database", rate(one))
    section.add(f"two owners, {n:,} occurrences, seen from the database", rate(two))
    section.add("two owners / one", times(two / one), "at least 1.5×", two / one >= 1.5, _TWO_OWNERS)


_BOUND = (
    "what bounds it is processor time in one process under one interpreter lock, not the disk. Of the time for an"
    " occurrence a good third is APScheduler's own submission to its pool and the hand-over to a worker and back"
    " (what `MemoryJobStore` takes as well), a quarter SQLite writing its five rows (the occurrence, its end, its"
    " attempt, the cursor, the count of open work), a fifth the garbage collector, which walks the whole process"
    " every few thousand occurrences, and the rest the planner and the verbs. `gc.freeze()` after the start of an"
    " application saves that fifth, which is the application's to decide; an interpreter without a global lock"
    " would let SQLite write while workers run."
)
_AGAINST_MEMORY = (
    "the same bound; `MemoryJobStore` writes nothing, and pays for submission and hand-over alone, so half of its"
    " rate leaves as much time for everything else as those two take."
)
_ON_POSTGRES = (
    "a commit costs `SQLAlchemyJobStore` little where the server is on the same machine and its disk is fast; the"
    " slower a commit or the network, the larger the ratio. Of the time for an occurrence the server takes two"
    " fifths for its rows and their indexes, the pump's Python a third; the workers run meanwhile. Ten times that"
    " store would be more than half of what `MemoryJobStore` makes without writing anything. A server with"
    " processors of its own, or more owners, would change it."
)
_TWO_OWNERS = "two owners and the server share the cores of this machine; one owner and the server keep two busy."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--side", default="")
    parser.add_argument("--only", default="", help="ours, memory, sqlalchemy or procrastinate")
    parser.add_argument("--on", default="", choices=["", "postgresql"])
    parser.add_argument("--jobs", type=int, default=5_000)
    parser.add_argument("--profile", default="", help="a file for py-spy's stacks")
    given = parser.parse_args()
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    if given.side:
        print(json.dumps(side(json.loads(given.side))))
    elif given.only:
        found = best(given.only, given.jobs, 1, POSTGRES if given.on else "", given.profile)
        print(f"{given.only}: {found['rate']:,.0f}/s, {found['micros']:.0f} µs of the processor each")
    else:
        measure(Scale(given.quick, POSTGRES if reachable(POSTGRES) else "")).show()


if __name__ == "__main__":
    main()
