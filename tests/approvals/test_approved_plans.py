"""A saved plan is approved whole: once, here, as it is, or nothing of it is done."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from calsched.app import App
from calsched.cli.main import app
from calsched.errors import Refused
from calsched.settings import load
from calsched.signing import SigningKey

SCHEDULES = """\
schedules:
  report: {trigger: {kind: interval, hours: 1}, task: "jobs:report"}
  poll: {trigger: {kind: interval, minutes: 5}, task: "jobs:poll"}
"""


class Desk:
    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place, self._monkeypatch = place, monkeypatch
        key = SigningKey.from_seed(bytes(range(32)))
        key.write(place / "anna.key")
        trusted = {"format": "calsched-trusted-keys/1", "keys": {key.key_id: "anna"}}
        (place / "trusted.json").write_text(json.dumps(trusted))
        (place / "schedules.yaml").write_text(SCHEDULES)
        (place / "calsched.toml").write_text('store = "sqlite:///calsched.db"\napprovals = "trusted.json"\n')

    def run(self, *words: str, who: str = "bob", code: int = 0) -> str:
        self._monkeypatch.setattr("calsched.app.core.os_account", lambda: who)
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == code, done.output
        return " ".join(done.output.split())

    def plan(self, out: str, file: str = "schedules.yaml") -> None:
        self.run("plan", file, "--out", out, code=10)

    def approve(self, plan: str, out: str, *more: str) -> str:
        return self.run("approve", "--key", "anna.key", "--out", out, *more, "apply", plan, who="anna")

    def ids(self) -> list[str]:
        return sorted(one["id"] for one in json.loads(self.run("list", "--json"))["schedules"])


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(tmp_path)
    for name in ("CALSCHED_STORE", "CALSCHED_CONFIG", "CALSCHED_NAMESPACE", "CALSCHED_ALLOW"):
        monkeypatch.delenv(name, raising=False)
    return Desk(tmp_path, monkeypatch)


def test_a_plan_is_applied_whole_with_one_approval_that_serves_once(desk: Desk) -> None:
    desk.plan("a.plan")
    said = desk.approve("a.plan", "a.json")
    assert "create 'poll' in 'default'" in said
    assert "due every 5m" in said and '"intervalMs": 300000' in said
    assert desk.ids() == []
    desk.run("apply", "a.plan", code=1)
    assert desk.ids() == []
    desk.run("apply", "a.plan", "--approval", "a.json")
    assert desk.ids() == ["poll", "report"]
    shown: dict[str, Any] = json.loads(desk.run("show", "report", "--json"))
    assert [one["principal"] for one in shown["decisions"]] == ["anna"]
    nonce = json.loads((desk.place / "a.json").read_text())["approvals"][0]["nonce"]
    with sqlite3.connect(desk.place / "calsched.db") as conn:
        assert conn.execute("SELECT nonce FROM calsched_decisions WHERE action = 'apply'").fetchall() == [(nonce,)]
    conn.close()
    assert "the store has changed" in desk.run("apply", "a.plan", "--approval", "a.json", code=1)


@pytest.mark.parametrize("kind", ["own", "expired", "other plan", "other store", "tampered approval", "tampered plan"])
def test_an_approval_that_does_not_fit_changes_nothing(desk: Desk, kind: str) -> None:
    desk.plan("a.plan")
    desk.approve("a.plan", "a.json", "--for", "1s" if kind == "expired" else "1h")
    who, reason = "bob", ""
    if kind == "own":
        who, reason = "anna", "somebody else has to approve"
    elif kind == "expired":
        time.sleep(1.1)
        reason = "it expired at"
    elif kind == "other plan":
        (desk.place / "schedules.yaml").write_text(SCHEDULES.replace("hours: 1", "hours: 2"))
        desk.plan("a.plan")
        reason = "it is for digest"
    elif kind == "other store":
        (desk.place / "calsched.db").unlink()
        desk.plan("a.plan")
        reason = "it is for installation"
    elif kind == "tampered approval":
        text = (desk.place / "a.json").read_text()
        nonce = json.loads(text)["approvals"][0]["nonce"]
        (desk.place / "a.json").write_text(text.replace(nonce, nonce[::-1]))
        reason = "the signature does not fit"
    else:
        text = (desk.place / "a.plan").read_text()
        (desk.place / "a.plan").write_text(text.replace("jobs:poll", "jobs:pull"))
        reason = "changed after it was saved"
    code = 2 if kind == "tampered plan" else 1
    assert reason in desk.run("apply", "a.plan", "--approval", "a.json", who=who, code=code)
    assert desk.ids() == []


def test_serve_takes_files_that_are_applied_and_refuses_those_that_differ(desk: Desk) -> None:
    with App(settings=load()) as other, pytest.raises(Refused, match="files differ from the store"):
        other._apply_patiently(["schedules.yaml"], "")
    desk.plan("a.plan")
    desk.approve("a.plan", "a.json")
    desk.run("apply", "a.plan", "--approval", "a.json")
    with App(settings=load()) as same:
        assert not same._apply_patiently(["schedules.yaml"], "").pending


@pytest.mark.parametrize("agreed", [(), ("--catch-up",)])
def test_an_approval_covers_the_catch_up_that_it_was_asked_for_and_no_other(
    desk: Desk, agreed: tuple[str, ...]
) -> None:
    desk.plan("a.plan")
    desk.run("approve", "--key", "anna.key", "--out", "a.json", "apply", "a.plan", *agreed, who="anna")
    other = () if agreed else ("--catch-up",)
    assert "it is for digest" in desk.run("apply", "a.plan", *other, "--approval", "a.json", code=1)
    assert desk.ids() == []
    desk.run("apply", "a.plan", *agreed, "--approval", "a.json")
    assert desk.ids() == ["poll", "report"]


def test_an_approval_is_not_good_again_where_the_store_is_as_it_was(desk: Desk) -> None:
    """Nothing but the nonce tells the second time from the first: plan, store and material are the same again."""
    desk.plan("a.plan")
    desk.approve("a.plan", "a.json")
    desk.run("apply", "a.plan", "--approval", "a.json")
    for id in ("poll", "report"):
        desk.run("approve", "--key", "anna.key", "--out", f"{id}.json", "delete", id, who="anna")
        desk.run("delete", id, "--approval", f"{id}.json")
    said = desk.run("apply", "a.plan", "--approval", "a.json", code=1)
    assert "it was used before, and an approval is good for one change" in said
    assert desk.ids() == []
    desk.approve("a.plan", "b.json")
    desk.run("apply", "a.plan", "--approval", "b.json")
    assert desk.ids() == ["poll", "report"]
