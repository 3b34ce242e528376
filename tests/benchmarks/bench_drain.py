"""How fast are due no-op jobs drained? Ours, every occurrence and outcome durable, against APScheduler's own stores.

    python tests/benchmarks/bench_drain.py [--jobs 5000] [--postgres URL] [--only ours]

Each side runs in a process of its own: N jobs that were due five seconds ago, a thread pool of APScheduler's default
size, the time from ``resume()`` to the last EXECUTED event. Both databases lie in the same folder.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.schedulers.background import BackgroundScheduler

HOUR = 3_600_000


def noop() -> None:
    return None


def fill_ours(store: Any, n: int, due: int) -> None:
    """Schedules as ``create`` would leave them, an hour's interval each, the first slot due already."""
    from sqlalchemy import insert

    from calsched.model import Definition, Task, canonical_json

    t = store.tables
    task = Task(callable="__main__:noop")
    schedules, revisions = [], []
    for i in range(1, n + 1):
        trigger = {"kind": "interval", "intervalMs": HOUR, "firstTick": _rfc(due + i % 1000)}
        d = Definition(id=f"job-{i}", trigger=trigger, task=task)
        first = due + i % 1000
        schedules.append(
            {"pk": i, "namespace": "default", "id": d.id, "state": "enabled", "changed_at": due, "revision": 1,
             "revision_pk": i, "next_due": first, "look_at": first, "created_at": due}
        )  # fmt: skip
        revisions.append(
            {"pk": i, "schedule_pk": i, "number": 1, "definition": canonical_json(d.material()),
             "digest": d.digest(), "created_at": due, "first_due": first}
        )  # fmt: skip
    with store.write() as conn:
        conn.execute(insert(t.schedules), schedules)
        conn.execute(insert(t.revisions), revisions)
        store.compiled.get_many(conn, range(1, n + 1))  # add_job leaves them compiled


def _rfc(instant: int) -> str:
    from calsched.clock import to_rfc3339

    return to_rfc3339(instant)


def ours(url: str, n: int) -> float:
    from calsched.stores.jobstore import OccurrenceJobStore

    store = OccurrenceJobStore(url)
    store.store.open()
    fill_ours(store.store, n, int(time.time() * 1000) - 5_000)
    seconds = drain(BackgroundScheduler(jobstores={"default": store}, timezone="UTC"), n)
    check_ours(store.store, n)
    return seconds


def check_ours(store: Any, n: int) -> None:
    from sqlalchemy import func, select

    o = store.tables.occurrences.c
    with store.read() as conn:
        ended = dict(conn.execute(select(o.state, func.count()).group_by(o.state)).all())
    assert ended == {"succeeded": n}, ended


def theirs(jobstore: Any, n: int) -> float:
    scheduler = BackgroundScheduler(jobstores={"default": jobstore}, timezone="UTC")
    scheduler.start(paused=True)
    due = datetime.now(UTC) - timedelta(seconds=5)
    for i in range(n):
        scheduler.add_job(noop, "interval", hours=1, next_run_time=due, misfire_grace_time=None, id=f"job-{i}")
    return drain(scheduler, n)


def drain(scheduler: Any, n: int) -> float:
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
    began, cpu = time.perf_counter(), time.process_time()
    scheduler.resume()
    assert done.wait(300), f"{count} of {n} after five minutes"
    seconds = time.perf_counter() - began
    print(f"{(time.process_time() - cpu) / n * 1e6:.0f} us of the processor for each", file=sys.stderr)
    scheduler.shutdown()
    return seconds


def run(side: str, n: int, url: str) -> float:
    if side.startswith("ours"):
        return ours(url, n)
    if side == "memory":
        from apscheduler.jobstores.memory import MemoryJobStore

        return theirs(MemoryJobStore(), n)
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore

    return theirs(SQLAlchemyJobStore(url), n)


def in_a_process(side: str, n: int, url: str) -> float:
    command = [sys.executable, __file__, "--side", side, "--jobs", str(n), "--url", url]
    out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout
    return float(json.loads(out.strip().splitlines()[-1])["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--postgres", default=os.environ.get("CALSCHED_TEST_POSTGRES_URL", ""))
    parser.add_argument("--side", default="")
    parser.add_argument("--url", default="")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    if given.side:
        print(json.dumps({"seconds": run(given.side, given.jobs, given.url)}))
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(given.jobs, folder, given.postgres, given.only)


def compare(n: int, folder: str, postgres: str, only: str) -> None:
    sides = {
        "memory": "",
        "sqlalchemy": f"sqlite:///{folder}/theirs.db",
        "ours": f"sqlite:///{folder}/ours.db",
    }
    if postgres:
        sides |= {"sqlalchemy-postgres": postgres, "ours-postgres": postgres}
    rates = {side: n / in_a_process(side, n, url) for side, url in sides.items() if only in side}
    for side, rate in rates.items():
        print(f"{side:22} {rate:9,.0f} occurrences/s")
    if "memory" in rates and "ours" in rates:
        print(f"ours / MemoryJobStore              {rates['ours'] / rates['memory']:6.2f}  (aim: at least 0.5)")
    for ours_, theirs_ in (("ours", "sqlalchemy"), ("ours-postgres", "sqlalchemy-postgres")):
        if ours_ in rates and theirs_ in rates:
            print(f"{ours_} / SQLAlchemyJobStore {rates[ours_] / rates[theirs_]:14.1f}  (aim: at least 10)")


if __name__ == "__main__":
    main()
