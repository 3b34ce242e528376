"""The command as a process: pipes that close, terminals that know ASCII only, the console script."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from calsched import App

FILE = "schedules: {a: {every: 5m, task: jobs:run, description: Zürich 日本}}\n"
OVERDUE = "{kind: interval, days: 1, firstTick: '2026-01-01T00:00:00Z'}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.yaml").write_text(FILE, encoding="utf-8")
    return tmp_path


def run(folder: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CALSCHED_")}
    command = [sys.executable, "-m", "calsched", *args]
    return subprocess.run(command, cwd=folder, env={**clean, **env}, capture_output=True, text=True, timeout=60)


def test_a_reader_that_leaves_early_makes_no_noise(folder: Path) -> None:
    command = f"{sys.executable} -m calsched preview a.yaml --count 5000 | head -1"
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, timeout=60)
    assert (done.stdout.split()[0], done.stderr) == ("a", "")


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_files_of_ours(folder: Path, closed: str) -> None:
    (folder / "jobs.py").write_text("import os\n\ndef run():\n    os.write(1, b'x' * 10_000)\n")
    (folder / "b.yaml").write_text(f"schedules: {{b: {{trigger: {OVERDUE}, backlog: fromStart, task: jobs:run}}}}\n")
    command = f"{sys.executable} -m calsched"
    script = f"exec {closed}; {command} create b.yaml && {command} tick --allow 'jobs:*'"
    done = subprocess.run(script, shell=True, cwd=folder, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    with App(f"sqlite:///{folder}/calsched.db") as app:
        assert [entry.state for entry in app.history("b").entries if hasattr(entry, "state")] == ["succeeded"]
        assert app.doctor().findings == ()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_under_the_output_is_one_line(folder: Path) -> None:
    command = f"{sys.executable} -m calsched preview a.yaml --count 500 > /dev/full"
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "nothing more can be written: No space left on device\n")


def test_an_ascii_terminal_gets_escapes_and_no_failure(folder: Path) -> None:
    done = run(folder, "preview", "a.yaml", "--count", "1", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert "Z\\xfcrich \\u65e5\\u672c" in done.stdout


def test_what_is_piped_has_no_colour(folder: Path) -> None:
    assert "\x1b" not in run(folder, "preview", "a.yaml").stdout


def test_a_colour_can_be_had_and_still_nothing_of_the_file_acts(folder: Path) -> None:
    (folder / "b.json").write_text('{"id": "x", "every": "5m", "task": "jobs:run", "description": "\\u001b[2Jgone"}')
    shown = run(folder, "preview", "b.json", "--count", "1", FORCE_COLOR="1").stdout
    assert "\x1b[" in shown  # ours
    assert "\x1b[2J" not in shown and "\\x1b[2J" in shown


def test_the_variable_names_the_store(folder: Path) -> None:
    store = f"sqlite:///{folder}/other.db"
    assert run(folder, "create", "a.yaml", CALSCHED_STORE=store).returncode == 0
    assert (folder / "other.db").exists() and not (folder / "calsched.db").exists()


def test_an_unknown_command_suggests_the_nearest(folder: Path) -> None:
    done = run(folder, "prewiew", "a.yaml")
    assert done.returncode == 2
    assert "No such command 'prewiew'. Did you mean 'preview'" in done.stderr


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("wait", [0.1, 0.2, 0.35, 0.6, 1.0])
def test_ctrl_c_at_any_moment_ends_with_130_and_without_a_traceback(folder: Path, wait: float, times: int) -> None:
    begin = "import calsched.entry as e, sys; print('begun', flush=True); sys.argv[0] = 'calsched'; e.run()"
    command = [sys.executable, "-c", begin, "preview", "a.yaml", "--count", "100000"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        time.sleep(wait)
        for _ in range(times):
            process.send_signal(signal.SIGINT)
            time.sleep(0.03)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
