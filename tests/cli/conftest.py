"""A command line in a folder of its own."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner, Result

from calsched.cli.main import app

BUILT = typer.main.get_command(app)


class CommandLine:
    """Runs commands in ``folder`` and checks what holds for every one: its exit code, and never a traceback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *args: str, code: int = 0, input: str | bytes | None = None) -> Result:
        result = CliRunner().invoke(app, list(args), input=input)
        told = f"calsched {' '.join(args)}\n{result.output}"
        assert "Traceback" not in result.stderr, told
        assert "internal error:" not in result.output, told
        assert result.exit_code == code, told
        return result

    def lines(self, *args: str, code: int = 0, input: str | None = None) -> list[str]:
        return self(*args, code=code, input=input).stdout.splitlines()

    def errors(self, *args: str, code: int, input: str | bytes | None = None) -> list[str]:
        return self(*args, code=code, input=input).stderr.splitlines()

    def json(self, *args: str, code: int = 0) -> Any:
        return json.loads(self(*args, "--json", code=code).stdout)

    def write(self, name: str, text: str) -> str:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
        return name


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CommandLine]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("typer.testing._get_command", lambda _: BUILT)  # built once, not for each invocation
    for name in ("CALSCHED_STORE", "CALSCHED_NAMESPACE", "CALSCHED_CONFIG", "CALSCHED_ALLOW"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))  # commands put the folder of jobs there
    monkeypatch.delitem(sys.modules, "jobs", raising=False)
    yield CommandLine(tmp_path)
    sys.modules.pop("jobs", None)
