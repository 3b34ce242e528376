"""Real servers with several processes, asked until what is expected is there."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "howto" / "examples"
#: A machine that is busy with other things is slow to start four workers.
PATIENCE = 90.0
T = TypeVar("T")


def until(look: Callable[[], T | None], what: str, patience: float = PATIENCE) -> T:
    """The first thing that is found; other processes give no signal to wait for."""
    end = time.monotonic() + patience
    while (found := look()) is None:
        if time.monotonic() > end:
            raise AssertionError(f"never came: {what}")
        time.sleep(0.05)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Serving:
    """A server of an example, its store, and what is seen of both from outside."""

    def __init__(self, process: subprocess.Popen[str], port: int, store: Path, log: Path) -> None:
        self.process, self.port, self.store, self.log = process, port, store, log

    def get(self, path: str, method: str = "GET") -> Any:
        """The answer's JSON, also of a refusal; None while nobody answers."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        request.add_header("Connection", "close")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            with refusal:
                return json.load(refusal)
        except OSError:
            return None

    def roles(self, workers: int, besides: int | None = None) -> dict[int, str]:
        """What each worker is, once one of them owns the store and the others stand by."""
        seen: dict[int, str] = {}

        def look() -> dict[int, str] | None:
            assert self.process.poll() is None, self.log.read_text()
            answer = self.get("/health")
            if answer is not None and answer["pid"] != besides:
                seen[answer["pid"]] = answer["role"]
            settled = sorted(seen.values()) == ["owner", *["standby"] * (workers - 1)]
            return seen if settled else None

        return until(look, f"one owner and {workers - 1} standbys, seen {seen}; {self.log.read_text()[-3000:]}")

    def ran(self, id: str = "collect") -> list[tuple[int, str]]:
        """Ordinals and states of the schedule's occurrences."""
        query = (
            "SELECT o.ordinal, o.state FROM calsched_occurrences o JOIN calsched_schedules s ON s.pk = o.schedule_pk"
            " WHERE s.id = ? ORDER BY o.ordinal"
        )
        connection = sqlite3.connect(f"file:{self.store}?mode=ro", uri=True)
        try:
            return connection.execute(query, (id,)).fetchall()
        except sqlite3.OperationalError:  # it is being founded at this moment
            return []
        finally:
            connection.close()

    def until_ran(self, count: int, id: str = "collect") -> int:
        """How many have succeeded, once that is at least ``count``."""

        def look() -> int | None:
            done = sum(state == "succeeded" for _, state in self.ran(id)) if self.store.exists() else 0
            return done if done >= count else None

        return until(look, f"{count} runs of {id}; {self.log.read_text()[-3000:]}")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextmanager
def serving(example: str, command: list[str], place: Path, **env: str) -> Iterator[Serving]:
    """A command run in an example's folder; ``{port}`` in it is a free port. Whatever is left is killed."""
    port = free_port()
    log, store = place / "log", place / "shop.db"
    values = {"SHOP_STORE": f"sqlite:///{store}", "SHOP_COLLECT_MS": "200", "PYTHONUNBUFFERED": "1"}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("COV_", "PYTEST"))}
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, *(part.format(port=port) for part in command)],
            cwd=EXAMPLES / example,
            env={**inherited, "PYTHONPATH": str(ROOT), "HOME": str(place), **values, **env},
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    try:
        yield Serving(process, port, store, log)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def violations(store: Path) -> list[Any]:
    """What the invariant finds in a ledger: nothing."""
    from calsched.stores import inspect
    from calsched.stores.engine import Store

    opened = Store(f"sqlite:///{store}")
    opened.open(create=False)
    try:
        with opened.read() as conn:
            return list(inspect.tiling(opened, conn))
    finally:
        opened.dispose()
