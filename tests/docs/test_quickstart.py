"""The quick start, typed as it is printed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "quickstart.md").read_text()


def block(language: str, containing: str) -> str:
    found = [text for kind, text in re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL) if kind == language]
    (one,) = [text for text in found if containing in text]
    return str(one)


def calsched(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from calsched.cli.main import run; run()", *_words(line)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CALSCHED_")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def _words(line: str) -> list[str]:
    import shlex

    return shlex.split(line)[1:]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """After "register and serve": both files written, schedules created, an owner that has run some pulses."""
    made = tmp_path_factory.mktemp("quickstart")
    (made / "schedules.yaml").write_text(block("yaml", "weekday-report"))
    (made / "jobs.py").write_text(block("python", "current_occurrence"))
    for line in block("console", "calsched preview").splitlines():
        ran = calsched(made, line)
        assert ran.returncode == 0, ran.stderr
    create, serve = block("console", "calsched create").splitlines()
    assert calsched(made, create).returncode == 0
    command = [sys.executable, "-c", "from calsched.cli.main import run; run()", *_words(serve)]
    owner = subprocess.Popen(command, cwd=made, stderr=subprocess.PIPE, text=True)
    assert owner.stderr is not None
    told = []
    for line in owner.stderr:
        told.append(line)
        if sum(" succeeded " in line for line in told) == 2:
            break
    owner.send_signal(signal.SIGINT)
    owner.communicate(timeout=30)
    assert owner.returncode == 0, told
    return made


def test_the_served_pulses_are_in_the_ledger(folder: Path) -> None:
    listed, shown = (calsched(folder, line) for line in block("console", "calsched show pulse").splitlines())
    assert "weekday-report" in listed.stdout
    assert shown.stdout.count("succeeded") >= 2
    assert (folder / "pulse").exists()


def test_each_question_has_an_answer(folder: Path) -> None:
    answers = [calsched(folder, line) for line in block("console", "calsched why pulse").splitlines()]
    assert [answer.returncode for answer in answers] == [0, 0]
    assert "2027-03-07 is a Sunday" in answers[1].stdout


def test_each_control_is_obeyed_or_waits_for_the_owner(folder: Path) -> None:
    for line in block("console", "calsched pause").splitlines():
        ran = calsched(folder, line)
        assert ran.returncode == 0, f"{line}\n{ran.stderr}"
