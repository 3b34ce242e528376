"""The test's side: owners that are spawned and killed, their journal, and what the ledger says of it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import select as sql_select

from calsched.clock import to_rfc3339
from calsched.model import Definition, Task
from calsched.stores import control, inspect
from calsched.stores.engine import Store
from calsched.stores.tables import reading

ROOT = Path(__file__).parents[2]
TASKS = "tests.chaos._tasks"
OPEN = ("waiting", "ready", "claimed", "running", "retrying")


class Journal:
    """What tasks and owners have written."""

    def __init__(self, path: Path) -> None:
        self.journal = path
        path.touch()

    def lines(self, kind: str) -> list[str]:
        """The journal's lines of one kind, without that word."""
        return [line.removeprefix(f"{kind} ") for line in self.journal.read_text().splitlines()
                if line.startswith(f"{kind} ")]  # fmt: skip

    def log(self) -> list[str]:
        path = Path(f"{self.journal}.log")
        return path.read_text().splitlines() if path.exists() else []

    def tail(self) -> str:
        return "\n".join(self.log()[-30:])


class Crew(Journal):
    """A server of owner processes."""

    def __init__(self, journal: Path) -> None:
        super().__init__(journal)
        self.alive: dict[int, str] = {}
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos._owner", str(journal)], cwd=ROOT, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    def spawn(self, url: str, name: str, **order: Any) -> int:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps({"url": url, "name": name, **order}) + "\n")
        self._server.stdin.flush()
        pid = int(self._server.stdout.readline())
        self.alive[pid] = name
        return pid

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        self.wait_for_end(pid)

    def wait_for_end(self, pid: int, timeout: float = 30) -> None:
        """The processes are no children of ours; the system tells of their end all the same."""
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            pass
        else:
            try:
                ended, _, _ = select.select([handle], [], [], timeout)
                assert ended, f"{self.alive.get(pid)} still lives: {self.stacks_of(pid)}"
            finally:
                os.close(handle)
        self.alive.pop(pid, None)

    def stacks_of(self, pid: int) -> str:
        """What its threads are doing."""
        before = len(self.log())
        os.kill(pid, signal.SIGUSR1)
        wait_until(lambda: len(self.log()) > before + 5, 5)
        return "\n".join(self.log()[before:])

    def muster(self) -> None:
        """Notice those that have gone by themselves."""
        for pid in list(self.alive):
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                del self.alive[pid]

    def dismiss(self, pid: int, timeout: float = 30) -> None:
        """A clean stop."""
        os.kill(pid, signal.SIGTERM)
        self.wait_for_end(pid, timeout)

    def close(self) -> None:
        for pid in list(self.alive):
            try:
                os.kill(pid, signal.SIGCONT)
                self.kill(pid)
            except ProcessLookupError:
                continue
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait(10)
        self._server.stdout.close()


def wait_until(condition: Callable[[], Any], seconds: float = 30, what: Callable[[], object] | str = "") -> Any:
    """For what nobody signals: rows and lines that other processes write."""
    pause, give_up = threading.Event(), time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > give_up:
            raise AssertionError(f"in vain: {what if isinstance(what, str) else what()}")
        pause.wait(0.05)


class Row(NamedTuple):
    pk: int
    schedule: str
    ordinal: int
    state: str
    attempt: int
    on_interrupted: str


class Ledger:
    """What the rows say, and whether they agree with the journal."""

    def __init__(self, store: Store, crew: Journal) -> None:
        self.store, self.crew = store, crew

    def create(self, definitions: Iterable[Definition]) -> None:
        with self.store.write() as conn:
            now = self.store.now(conn)
            for definition in definitions:
                control.create(self.store, conn, definition, now=now, principal="chaos")

    def rows(self, states: tuple[str, ...] = ()) -> dict[int, Row]:
        o, s = self.store.tables.occurrences, self.store.tables.schedules
        query = sql_select(o.c.pk, s.c.id, o.c.ordinal, o.c.state, o.c.attempt)
        query = query.join(s, s.c.pk == o.c.schedule_pk)
        if states:
            query = query.where(o.c.state.in_(states))
        with self.store.read() as conn:
            return {row[0]: Row(*row, "retry" if row[1].startswith("again") else "never") for row in
                    conn.execute(query)}  # fmt: skip

    def check(self) -> None:
        """The tiling, the kept counts, and what represents what: each by one query."""
        with self.store.read() as conn:
            assert inspect.tiling(self.store, conn) == []
            assert reading.wrong_counts(conn, self.store.tables, 5) == []
            assert reading.orphans(conn, self.store.tables, 5) == []
            assert reading.double_runs(conn, self.store.tables, 5) == []

    def check_journal(self) -> None:
        """No attempt began twice; what succeeded had ended; what had ended without a trace in the ledger is no more
        than what a crash may lose: it is recorded as interrupted."""
        began, ended = Counter(self.crew.lines("begin")), set(self.crew.lines("end"))
        assert [line for line, times in began.items() if times > 1] == []
        assert ended <= set(began)
        assert self.crew.lines("dead") == []
        # one that starts while its connection is cut says so and ends; whoever started it tries again
        assert [line for line in self.crew.lines("fault") if not line.endswith("StoreUnreachable")] == []
        for row in self.rows().values():
            last = f"{row.schedule} {row.ordinal} {row.attempt}"
            if row.state == "succeeded":
                assert last in ended, row
            if row.state == "interrupted" or row.state not in ("succeeded", "failed", "timed_out", "running"):
                continue
            assert last in began or row.state == "running", row
        only_once = Counter(line.rsplit(" ", 1)[0] for line in began if not line.startswith(("again", "flaky")))
        assert [line for line, times in only_once.items() if times > 1] == []

    def wait_for_final(self, pks: set[int], seconds: float = 30) -> dict[int, Row]:
        """Until all of these have ended for good."""
        wait_until(lambda: not pks & set(self.rows(OPEN)), seconds, lambda: self.still_open(pks))
        return self.rows()

    def still_open(self, pks: set[int]) -> str:
        rows = [row for pk, row in self.rows(OPEN).items() if pk in pks]
        return f"{len(rows)} are open: {rows[:5]}; the log: {self.crew.tail()}"


def every(schedule_id: str, interval: int, *, task: str = "mark", seconds: float = 0.0, first: int | None = None,
          last: int | None = None, **policies: Any) -> Definition:  # fmt: skip
    """An interval that nothing pauses; one to two retries come at once."""
    trigger: dict[str, Any] = {"kind": "interval", "intervalMs": interval}
    if first is not None:
        trigger["firstTick"] = to_rfc3339(first)
    if last is not None:
        trigger["end"] = to_rfc3339(last)
    defaults: dict[str, Any] = {"pause_after_failures": 0, "retry_delay": 50, "retry_backoff": 1.0}
    kwargs = {"seconds": seconds} if seconds else {}
    return Definition(schedule_id, trigger, Task(callable=f"{TASKS}:{task}", kwargs=kwargs), **{**defaults, **policies})


def mixed(scale: int = 1, interval: int = 400, **more: Any) -> list[Definition]:
    """Schedules of every overlap policy, with tasks that end at once, take a while, or fail at first."""
    made: list[Definition] = []
    for n in range(3 * scale):
        made.append(every(f"queue-{n}", interval, overlap="queue", **more))
        made.append(every(f"coalesce-{n}", interval // 4, seconds=0.02, **more))
    for n in range(scale):
        made.append(every(f"allow-{n}", interval // 2, overlap="allow", max_concurrent=3, seconds=0.3, **more))
        made.append(every(f"skip-{n}", interval // 2, overlap="skip", seconds=0.1, **more))
        made.append(every(f"flaky-{n}", interval, task="flaky", overlap="queue", max_retries=2, **more))
        made.append(
            every(f"again-{n}", interval, overlap="queue", seconds=0.1, max_retries=5, on_interrupted="retry", **more)
        )
    return made
