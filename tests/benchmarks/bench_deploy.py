"""Ten thousand declarations: checking them, planning what would change, applying it, and applying it again.

python tests/benchmarks/bench_deploy.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from _report import Scale, Section, millis

from calsched.app import App

TEXT = """
One JSON file of calendar and interval declarations, on SQLite. The lock is the time for which `apply` holds the
database's write transaction: nobody else waits longer than that.
"""


class Watch:
    """How long write transactions last, and how many there are."""

    def __init__(self, store: Any) -> None:
        self.longest, self.count = 0.0, 0
        real = store.write

        @contextmanager
        def write(*args: Any) -> Iterator[Any]:
            with real(*args) as conn:
                begun = time.perf_counter()
                self.count += 1
                yield conn
            self.longest = max(self.longest, time.perf_counter() - begun)

        store.write = write


def declarations(n: int, minute: int) -> str:
    made = []
    for i in range(n):
        body: dict[str, Any] = {"id": f"job-{i}", "task": {"callable": "jobs:run"}}
        if i % 2:
            body["trigger"] = {"kind": "interval", "minutes": 5 + i % 50, "firstTick": "2026-01-01T00:00:00Z"}
        else:
            at = f"{i % 24:02d}:{(i + minute) % 60:02d}"
            body["trigger"] = {"kind": "calendar", "timezone": "America/New_York", "weekdays": "mon-fri", "at": at}
        made.append(body)
    return json.dumps({"schedules": made})


def timed(call: Any) -> tuple[float, Any]:
    begun = time.perf_counter()
    found = call()
    return time.perf_counter() - begun, found


def measure(scale: Scale) -> Section:
    n = scale.of(10_000, 100)
    section = Section(f"Deploying {n:,} declarations", TEXT)
    with tempfile.TemporaryDirectory() as folder:
        file, url = Path(folder, "schedules.json"), f"sqlite:///{folder}/ledger.db"
        file.write_text(declarations(n, 0))
        app = App(url)
        taken, _ = timed(lambda: app.apply([file]))
        section.add("`apply` to an empty store, all of it", millis(taken))
        watch = Watch(app.store())
        taken, _ = timed(lambda: app.plan([file]))
        section.add("`plan`, nothing changed", millis(taken), "under 5 s", taken < 5)
        file.write_text(declarations(n, 7))
        taken, (found, _) = timed(lambda: app.plan([file]))
        section.add(f"`plan`, {len(found.pending):,} changed", millis(taken), "under 5 s", taken < 5)
        section.add("write transactions of `plan`", str(watch.count), "none", watch.count == 0)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "schedules.json")
        file.write_text(declarations(n, 0))
        app = App(f"sqlite:///{folder}/ledger.db")
        app.store(create=True)
        watch = Watch(app.store())
        app.apply([file])
        section.add("lock held by `apply`, all new", millis(watch.longest), "under 2 s", watch.longest < 2)
        before = watch.count
        app.apply([file])
        section.add("write transactions of `apply`, nothing changed", str(watch.count - before), "none",
                    watch.count == before)  # fmt: skip
    return section


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    measure(Scale(parser.parse_args().quick, "")).show()


if __name__ == "__main__":
    main()
