"""What the verbs cost, an occurrence: advance, claim, start and finish in batches, with statements counted.

.venv/bin/python tests/benchmarks/bench_verbs.py [--url URL] [--schedules 5000] [--batch 500] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import secrets
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _report import Scale, Section, printed
from sqlalchemy import event

from calsched.model import Definition, Outcome, Task
from calsched.stores import control, recover
from calsched.stores.advance import advance
from calsched.stores.claim import claim, start
from calsched.stores.engine import Store
from calsched.stores.finish import finish

DAY = 86_400_000
T0 = 20_834 * DAY  # midnight: daily slots are due at it


class Meter:
    """Time and statements of each verb."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.statements: dict[str, int] = {}
        self.count = 0

    def measured(self, name: str, verb: Callable[[], Any]) -> Any:
        before, begun = self.count, time.process_time()
        result = verb()
        self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - begun
        self.statements[name] = self.statements.get(name, 0) + self.count - before
        return result


def fill(store: Store, count: int) -> None:
    with store.write() as conn:
        for index in range(count):
            d = Definition(
                id=f"s{index}", trigger={"kind": "interval", "intervalMs": DAY}, task=Task(callable="jobs:run")
            )
            control.create(store, conn, d, now=T0 - DAY + 1, principal="bench")


def drain(store: Store, epoch: int, batch: int, now: int, meter: Meter) -> int:
    done, ready = 0, True
    while ready:
        begun = time.process_time()
        with store.write() as conn:
            inside = time.process_time()
            meter.measured("advance", lambda: advance(store, conn, now, schedule_batch=batch))
            taken = meter.measured(
                "claim", lambda: claim(store, conn, epoch=epoch, now=now, limit=batch, executors={"default": batch})
            )
            pks = [one.occurrence for one in taken]
            meter.measured("start", lambda: start(store, conn, epoch=epoch, now=now, pks=pks))
            outcomes = [Outcome(pk, 1, "succeeded", now + 1, 1) for pk in pks]
            meter.measured("finish", lambda: finish(store, conn, epoch=epoch, now=now + 1, outcomes=outcomes))
            verbs = time.process_time() - inside
        meter.seconds["transaction"] = meter.seconds.get("transaction", 0.0) + time.process_time() - begun - verbs
        done += len(taken)
        ready = bool(taken)
    return done


def measure(scale: Scale) -> Section:
    section = Section("The verbs", "Processor time of each verb, and statements, for 5 000 occurrences in batches.")

    def both() -> None:
        for url in ["", scale.postgres] if scale.postgres else [""]:
            measure_one(argparse.Namespace(url=url, schedules=scale.of(5_000, 50), batch=100, profile=False))

    section.raw = printed(both)
    return section


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url")
    parser.add_argument("--schedules", type=int, default=5000)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--profile", action="store_true")
    measure_one(parser.parse_args())


def measure_one(given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(given.url or f"sqlite:///{Path(folder) / 'bench.db'}", prefix=f"b{secrets.token_hex(3)}_")
        try:
            store.open()
            run(store, given)
        finally:
            if store.dialect != "sqlite":
                with store.engine.begin() as conn:
                    store.tables.metadata.drop_all(conn)
            store.dispose()


def run(store: Store, given: argparse.Namespace) -> None:
    fill(store, given.schedules)
    with store.write() as conn:
        epoch = recover.register_owner(store, conn, "bench", "here", 1, T0, DAY)
    drain(store, epoch, given.batch, T0, Meter())  # warm: statements compiled, revisions loaded
    meter = Meter()
    event.listen(store.engine, "before_cursor_execute", lambda *_: setattr(meter, "count", meter.count + 1))
    profile = cProfile.Profile(time.process_time) if given.profile else None
    begun, cpu = time.perf_counter(), time.process_time()
    if profile is not None:
        profile.enable()
    done = drain(store, epoch, given.batch, T0 + DAY, meter)
    if profile is not None:
        profile.disable()
    taken, cpu = time.perf_counter() - begun, time.process_time() - cpu
    print(
        f"{store.dialect}: {done} occurrences in batches of {given.batch}: {cpu / done * 1e6:.1f} µs of processor each,"
        f" {taken / done * 1e6:.1f} µs by the clock, {done / taken:.0f}/s"
    )
    for name, seconds in meter.seconds.items():
        print(f"  {name:12} {seconds / done * 1e6:7.1f} µs  {meter.statements.get(name, 0):5} statements")
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    main()
