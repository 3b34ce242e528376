"""The Django how-to as it is run: `runscheduler` twice, web workers as clients."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.howto._serving import EXAMPLES, ROOT, Serving, serving, violations

RUN = ["manage.py", "runscheduler"]

VISIT = """
import json, os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
import django
django.setup()
from django.test import Client
client = Client()
answers = [
    client.post("/schedules/collect/pause").json(),
    client.get("/schedules/collect").json(),
    client.post("/schedules/collect/resume").json(),
    client.post("/schedules/collect/resume").status_code,
    client.get("/schedules/nothing").status_code,
]
print(json.dumps(answers))
"""


def visit(server: Serving) -> list[object]:
    """A web worker: another process, which owns nothing."""
    done = subprocess.run(
        [sys.executable, "-c", VISIT],
        cwd=EXAMPLES / "django",
        env={**os.environ, "PYTHONPATH": str(ROOT), "SHOP_STORE": f"sqlite:///{server.store}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[object] = json.loads(done.stdout)
    return answers


@pytest.mark.timeout(300)
def test_the_command_runs_the_schedules_and_a_second_one_takes_over(tmp_path: Path) -> None:
    shared = {"SHOP_DB": str(tmp_path / "django.db")}
    other = tmp_path / "second"
    other.mkdir()
    with serving("django", RUN, tmp_path, **shared) as first:
        before = first.until_ran(3)
        with serving("django", RUN, other, SHOP_STORE=f"sqlite:///{first.store}", **shared) as second:
            [paused, shown, resumed, again, unknown] = visit(first)
            assert (paused, again, unknown) == ({"id": "collect", "state": "paused"}, 409, 404)
            assert isinstance(shown, dict)
            assert shown["state"] == "paused"
            assert resumed == {"id": "collect", "state": "enabled"}
            os.kill(first.process.pid, signal.SIGKILL)
            first.process.wait()
            second.store = first.store
            second.until_ran(max(before, first.until_ran(before)) + 3)
            assert second.stop() == 0, second.log.read_text()
    ordinals = [ordinal for ordinal, _ in first.ran()]
    assert len(ordinals) == len(set(ordinals))
    assert violations(first.store) == []
