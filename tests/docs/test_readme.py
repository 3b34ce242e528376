"""The README's sections "Files" and "Existing apps", done as they are printed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text()


def section(title: str) -> str:
    return README.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def block(title: str, language: str) -> str:
    (one,) = re.findall(rf"```{language}\n(.*?)```", section(title), re.DOTALL)
    return str(one)


def test_the_files_section_does_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "schedules.yaml").write_text(block("Files", "yaml"))
    (tmp_path / "jobs.py").write_text("def write_report(): ...\n")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CALSCHED_")}
    lines = [line.split(" #")[0] for line in block("Files", "console").splitlines()]
    assert [line.split()[1] for line in lines] == ["check", "preview", "create", "serve", "list", "show", "why"]
    for line in lines:
        if "serve" in line:
            continue  # runs until it is stopped: the quick start's test and tests/cli/test_serve.py do that
        command = [sys.executable, "-m", "calsched", *shlex.split(line)[1:]]
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
    assert "2026-03-08 is a Sunday" in ran.stdout


def test_the_existing_app_keeps_its_calls_and_gets_a_ledger(tmp_path: Path) -> None:
    """As printed, with the two functions in a module of their own and a shorter interval, so that the test is short."""
    code = block("Existing apps", "python")
    for printed, here in (("    send_report,", "    app.send_report,"), ("(poll,", "(app.poll,"), ("=30,", "=1,")):
        assert printed in code
        code = code.replace(printed, here)
    functions = "def send_report(): ...\n\n\ndef poll():\n    polled.set()\n"
    (tmp_path / "app.py").write_text(f"import threading\n\npolled = threading.Event()\n\n\n{functions}")
    ending = """
        assert app.polled.wait(30)
        scheduler.print_jobs()
        scheduler.shutdown()
        """
    (tmp_path / "main.py").write_text(f"import app\n{code}\n{textwrap.dedent(ending)}")
    ran = subprocess.run([sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "weekday-report" in ran.stdout or "send_report" in ran.stdout
    command = [sys.executable, "-m", "calsched", "--store", "sqlite:///app.db"]
    shown = subprocess.run([*command, "show", "poll"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "succeeded" in shown.stdout
    doctor = subprocess.run([*command, "doctor"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "exactly one verdict" in doctor.stdout
