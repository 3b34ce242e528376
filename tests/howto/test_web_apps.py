"""The how-to pages' web apps as they are run: several workers, one ledger, and a worker that is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.howto._serving import Serving, serving, violations

pytest.importorskip("gunicorn")

GUNICORN = ["-m", "gunicorn", "--bind", "127.0.0.1:{port}", "--no-control-socket"]
FLASK = [*GUNICORN, "-c", "gunicorn.conf.py", "app:create_app()"]
FLASK_PRELOAD = [*GUNICORN, "-c", "gunicorn_preload.conf.py"]
UVICORN = ["-m", "uvicorn", "app:app", "--workers", "4", "--port", "{port}"]


def owner_of(server: Serving) -> int:
    [owner] = [pid for pid, role in server.roles(4).items() if role == "owner"]
    return owner


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("example", "command"),
    [("flask", FLASK), ("flask", FLASK_PRELOAD), ("fastapi", UVICORN)],
    ids=["flask", "flask preloaded", "fastapi"],
)
def test_of_four_workers_one_runs_what_is_due_and_another_takes_over(
    example: str, command: list[str], tmp_path: Path
) -> None:
    with serving(example, command, tmp_path) as server:
        first = owner_of(server)
        before = server.until_ran(3)
        os.kill(first, signal.SIGKILL)
        [second] = [pid for pid, role in server.roles(4, besides=first).items() if role == "owner"]
        assert second != first
        server.until_ran(before + 3)
        server.stop()
    ordinals = [ordinal for ordinal, _ in server.ran()]
    assert len(ordinals) == len(set(ordinals))
    assert not {state for _, state in server.ran()} & {"failed", "timed_out", "cancelled"}
    assert violations(server.store) == []


@pytest.mark.timeout(200)
def test_any_flask_worker_controls_what_the_owner_runs(tmp_path: Path) -> None:
    import json
    import subprocess
    import sys

    with serving("flask", FLASK, tmp_path) as server:
        server.roles(4)
        assert server.get("/report/pause", "POST") == {"report": "paused"}
        server.stop()
    listed = subprocess.run(
        [sys.executable, "-m", "calsched", "--store", f"sqlite:///{server.store}", "list", "--json"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    states = {one["id"]: one["state"] for one in json.loads(listed.stdout)["schedules"]}
    assert states == {"report": "paused", "collect": "enabled"}
