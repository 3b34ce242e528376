"""kill -9 of ``calsched serve``, and started again: the command line's owner keeps the same promises."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from calsched.stores.engine import Store
from tests.chaos._crew import OPEN, ROOT, Journal, Ledger, mixed, wait_until


class Serve:
    """The command in a process of its own."""

    def __init__(self, url: str, log: Path) -> None:
        command = [sys.executable, "-m", "calsched", "--store", url, "serve", "--allow", "tests.chaos._tasks:*"]
        self.log = log
        with log.open("w") as file:
            self.process = subprocess.Popen(
                command, cwd=log.parent, stderr=file, stdout=file, env={**os.environ, "PYTHONPATH": str(ROOT)}
            )
        wait_until(lambda: " serves " in log.read_text(), what=log.read_text)

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)


def kill_and_serve_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, seed: int) -> None:
    monkeypatch.setenv("CHAOS_JOURNAL", os.fspath(tmp_path / "journal"))
    url, chance, journal = f"sqlite:///{tmp_path}/ledger.db", random.Random(seed), Journal(tmp_path / "journal")
    store = Store(url)
    store.open()
    ledger = Ledger(store, journal)
    ledger.create(mixed())
    for n in range(times):
        serve = Serve(url, tmp_path / f"log-{n}")
        threading.Event().wait(chance.uniform(0.1, 0.8))
        assert serve.end(signal.SIGKILL) == -signal.SIGKILL
        ledger.check()
    before = ledger.rows(OPEN)
    serve = Serve(url, tmp_path / "log-last")
    after = ledger.wait_for_final(set(before))
    assert serve.end(signal.SIGTERM) == 0, serve.log.read_text()
    for pk, row in before.items():
        if row.state == "running" and row.on_interrupted == "never":
            assert after[pk].state == "interrupted", (row, after[pk])
    assert ledger.rows(("claimed", "running")) == {}
    ledger.check()
    ledger.check_journal()
    store.dispose()


def test_serve_is_killed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_and_serve_again(tmp_path, monkeypatch, 2, seed=1)


@pytest.mark.chaos
def test_serve_is_killed_fifty_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_and_serve_again(tmp_path, monkeypatch, 50, seed=2)
