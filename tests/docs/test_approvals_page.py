"""docs/approvals.md, done as it is printed: each line by the person whose prompt it has."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from calsched.cli.main import app

PAGE = (Path(__file__).parents[2] / "docs" / "approvals.md").read_text()
QUICKSTART = (Path(__file__).parents[2] / "docs" / "quickstart.md").read_text()


def block(page: str, language: str, containing: str) -> str:
    found = [text for kind, text in re.findall(r"```(\w+)\n(.*?)```", page, re.DOTALL) if kind == language]
    (one,) = [text for text in found if containing in text]
    return str(one)


class Desk:
    """A host that trusts the keys of trusted.json; Anna and Bob sit before it by turns."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place, self._monkeypatch = place, monkeypatch
        settings = block(PAGE, "toml", "approvals").splitlines()
        (line,) = [line for line in settings if "trusted.json" in line]
        (place / "calsched.toml").write_text(f"{line}\n")
        (place / "trusted.json").write_text('{"format": "calsched-trusted-keys/1", "keys": {}}')
        (place / "schedules.yaml").write_text(block(QUICKSTART, "yaml", "weekday-report"))

    def types(self, line: str, code: int = 0) -> str:
        """Run a line such as ``anna$ calsched …``; what it prints on standard output."""
        who, _, command = line.partition("$ ")
        self._monkeypatch.setattr("calsched.app.core.os_account", lambda: who)
        self._monkeypatch.setattr("calsched.approval.os_account", lambda: who)
        words = [os.path.expanduser(word) for word in shlex.split(command, comments=True)]
        assert words[0] == "calsched"
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code == code, f"{line}\n{done.output}"
        return done.stdout

    def trusts(self, printed: str) -> None:
        """Put what `keygen` printed where it says."""
        trusted = json.loads(printed.splitlines()[-1])
        (said,) = json.loads(block(PAGE, "json", "calsched-trusted-keys/1"))["keys"].values()
        assert list(trusted["keys"].values()) == [said]
        (self.place / "trusted.json").write_text(json.dumps(trusted))

    def shown(self, id: str) -> Any:
        return json.loads(self.types(f"bob$ calsched show {id} --json"))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    for name in [name for name in os.environ if name.startswith("CALSCHED_")]:
        monkeypatch.delenv(name)
    place = tmp_path / "host"
    place.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(place)
    return Desk(place, monkeypatch)


def test_two_people_create_and_pause_as_printed(desk: Desk) -> None:
    keygen, *lines = block(PAGE, "console", "keygen").splitlines()
    desk.trusts(desk.types(keygen))
    for line in filter(None, lines):
        if line.startswith("bob"):
            desk.types(line.partition(" --approval")[0], code=1)
        desk.types(line)
    found = desk.shown("weekday-report")
    assert found["schedule"]["state"] == "paused"
    assert sorted((one["action"], one["principal"]) for one in found["decisions"]) == [
        ("create", "anna"), ("pause", "anna"),
    ]  # fmt: skip


def test_a_whole_plan_is_deployed_as_printed(desk: Desk) -> None:
    desk.trusts(desk.types(block(PAGE, "console", "keygen").splitlines()[0]))
    plan, approve, apply = block(PAGE, "console", "deploy.plan").splitlines()
    desk.types(plan, code=10)
    desk.types(approve)
    desk.types("bob$ calsched apply schedules.yaml", code=1)
    desk.types(apply)
    assert desk.shown("weekday-report")["decisions"][0]["principal"] == "anna"
    desk.types(plan.replace("deploy.plan", "again.plan"))


def test_everything_that_the_page_says_is_approved_can_be_approved() -> None:
    from calsched.cli.common import APPROVABLE

    said = re.search(r"Any control is approved as it would be typed: (.*?)\. ", " ".join(PAGE.split()))
    assert said is not None
    names = {re.sub(r" \(.*\)", "", name).split()[-1] for name in said[1].split(", ")}
    assert names == APPROVABLE
