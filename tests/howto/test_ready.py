"""The how-to about ready tasks, as it is run: an owner, and the host of the example."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.howto._serving import EXAMPLES, ROOT, violations

PLACE = EXAMPLES / "ready"


def calsched(store: Path, *words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "calsched", "--json", "--store", f"sqlite:///{store}", *words],
        cwd=PLACE, env=environment(store), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def environment(store: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "CALSCHED_STORE": f"sqlite:///{store}"}


@contextmanager
def running(store: Path, *command: str) -> Iterator[Any]:
    process = subprocess.Popen(
        [sys.executable, *command], cwd=PLACE, env=environment(store), stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_the_host_of_the_example_does_what_has_become_ready(tmp_path: Path) -> None:
    store = tmp_path / "ready.db"
    calsched(store, "create", "schedules.yaml")
    calsched(store, "run", "document-review")
    owner = ("-m", "calsched", "serve", "--allow", "nothing:*", "--quiet")
    with running(store, *owner), running(store, "host.py") as host:
        told = host.stdout.readline()
    assert told.endswith(": succeeded\n")
    (entry,) = calsched(store, "history", "document-review")["entries"]
    assert json.loads(entry["result"])["reviewed"] == "contract-7"
    assert violations(store) == []
