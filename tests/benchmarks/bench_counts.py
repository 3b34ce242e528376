"""Rows written, statements and transactions for each occurrence: counted, so that they do not vary with the machine.

python tests/benchmarks/bench_counts.py
"""

from __future__ import annotations

import argparse
import threading
import time
from collections import Counter
from typing import Any

from _databases import POSTGRES, fresh, reachable
from _fill import fill
from _report import Scale, Section
from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import event

TEXT = """
Counted, not timed. *By the hundred*: a hundred schedules with one due slot each, driven verb by verb: what can start
at once is written as running by the advance, what had to wait is claimed in the same transaction; finish comes in the
next. *Alone*: a single schedule, as it happens in an owner that has nothing else to do. A row written is one that is
inserted or updated. `SQLAlchemyJobStore` does the same for each job.
"""
HOUR = 3_600_000


class Meter:
    def __init__(self, engine: Any) -> None:
        self.count: Counter[str] = Counter()
        event.listen(engine, "before_cursor_execute", self._statement)
        event.listen(engine, "commit", self._commit)

    def _statement(self, *_: Any) -> None:
        self.count["statements"] += 1

    def _commit(self, *_: Any) -> None:
        self.count["transactions"] += 1

    def say(self, n: int, rows: int | None = None) -> str:
        text = f"{self.count['statements'] / n:.2f} statements, {self.count['transactions'] / n:.2f} transactions"
        return text if rows is None else f"{rows / n:.2f} rows, {text}"


def by_verbs(url: str, n: int, *, at_once: bool) -> str:
    """``n`` occurrences in one batch; the tick before it has loaded and compiled everything."""
    from calsched.model import Outcome
    from calsched.stores import recover
    from calsched.stores.advance import advance
    from calsched.stores.claim import claim, gate
    from calsched.stores.engine import Store
    from calsched.stores.express import Express
    from calsched.stores.finish import finish

    store, due = Store(url), 20_834 * 86_400_000
    store.open()
    fill(store, n, due, callable="jobs:run")
    with store.write() as conn:
        epoch = recover.register_owner(store, conn, "bench", "here", 1, due, HOUR)

    def one(now: int) -> int:
        with store.write() as conn:
            before = _changes(conn)
            rooms = {"default": n}
            if at_once:
                assert gate(store, conn, epoch)
                taken = advance(store, conn, now, schedule_batch=n, express=Express(epoch, rooms)).begun
            else:
                advance(store, conn, now, schedule_batch=n)
                taken = claim(store, conn, epoch=epoch, now=now, limit=n, executors=rooms, starting=True)
            rows = _changes(conn) - before
        assert len(taken) == n
        with store.write() as conn:
            before = _changes(conn)
            outcomes = [Outcome(c.occurrence, 1, "succeeded", now + 1, 1) for c in taken]
            finish(store, conn, epoch=epoch, now=now + 1, outcomes=outcomes)
            return rows + _changes(conn) - before

    one(due)
    meter = Meter(store.engine)
    rows = one(due + HOUR)
    store.dispose()
    return meter.say(n, rows if store.dialect == "sqlite" else None)


def _changes(conn: Any) -> int:
    """Rows that this connection has written; SQLite counts them itself."""
    raw = conn.connection.dbapi_connection
    return int(getattr(raw, "total_changes", 0))


def noop() -> None:
    return None


def alone(url: str) -> str:
    """The second slot of a schedule in an owner with nothing else to do."""
    from calsched.stores.jobstore import OccurrenceJobStore

    store = OccurrenceJobStore(url, poll_interval=60)
    store.store.open()
    fill(store.store, 1, int(time.time() * 1000) + 1_000, callable=f"{__name__}:noop", interval=1_000)
    scheduler = BackgroundScheduler(jobstores={"default": store}, timezone="UTC")
    found = _second_run(scheduler, lambda: Meter(store.store.engine))
    store.store.dispose()
    return found


def theirs(url: str) -> str:
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore

    store = SQLAlchemyJobStore(url)
    scheduler = BackgroundScheduler(jobstores={"default": store}, timezone="UTC")
    scheduler.add_job(noop, "interval", seconds=1, id="job")
    return _second_run(scheduler, lambda: Meter(store.engine))


def _second_run(scheduler: Any, meter: Any) -> str:
    """What was counted between the end of the first run and the end of the second."""
    ran: list[threading.Event] = [threading.Event(), threading.Event()]
    left = iter(ran)
    scheduler.add_listener(lambda _: next(left, threading.Event()).set(), EVENT_JOB_EXECUTED)
    scheduler.start()
    assert ran[0].wait(30)
    time.sleep(0.3)
    counting = meter()
    assert ran[1].wait(30)
    time.sleep(0.3)
    scheduler.shutdown()
    return str(counting.say(1))


def measure(scale: Scale) -> Section:
    section = Section("Rows, statements, transactions for each occurrence", TEXT)
    for name, server in (("SQLite", ""), ("PostgreSQL", scale.postgres)):
        if name == "PostgreSQL" and not server:
            continue
        for how, at_once in (("started at once", True), ("claimed", False)):
            with fresh(server) as url:
                section.add(f"calsched, by the hundred, {how}, {name}", by_verbs(url, 100, at_once=at_once))
        with fresh(server) as url:
            section.add(f"calsched, alone, {name}", alone(url))
    with fresh() as url:
        section.add("`SQLAlchemyJobStore`, any number", theirs(url))
    return section


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    measure(Scale(given.quick, POSTGRES if reachable(POSTGRES) else "")).show()


if __name__ == "__main__":
    main()
