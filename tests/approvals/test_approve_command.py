"""The two-person rule as it is typed: Anna approves, Bob presents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from calsched.cli.main import app
from calsched.signing import SigningKey, TrustedKeys, read_documents

SCHEDULES = """\
schedules:
  report: {trigger: {kind: interval, hours: 1}, task: "jobs:report"}
  poll: {trigger: {kind: interval, minutes: 5}, task: "jobs:poll", enabled: false}
"""


class Desk:
    """One directory with a store that asks for approvals, and whoever sits before it."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place, self._monkeypatch = place, monkeypatch
        (place / "schedules.yaml").write_text(SCHEDULES)
        (place / "calsched.toml").write_text('store = "sqlite:///calsched.db"\napprovals = "trusted.json"\n')
        key = SigningKey.from_seed(bytes(range(32)))
        key.write(place / "anna.key")
        trusted = {"format": "calsched-trusted-keys/1", "keys": {key.key_id: "anna"}}
        (place / "trusted.json").write_text(json.dumps(trusted))

    def sits(self, who: str) -> None:
        self._monkeypatch.setattr("calsched.app.core.os_account", lambda: who)

    def run(self, *words: str) -> Any:
        return CliRunner().invoke(app, list(words))

    def approved(self, out: str, *words: str) -> Path:
        self.sits("anna")
        done = self.run("approve", "--key", "anna.key", "--out", out, *words)
        assert done.exit_code == 0, done.output
        self.sits("bob")
        return self.place / out

    def decisions(self) -> list[tuple[str, str]]:
        shown = json.loads(self.run("show", "report", "--json").stdout)
        return [(one["action"], one["principal"]) for one in shown["decisions"]]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(tmp_path)
    for name in ("CALSCHED_STORE", "CALSCHED_CONFIG", "CALSCHED_NAMESPACE", "CALSCHED_ALLOW"):
        monkeypatch.delenv(name, raising=False)
    made = Desk(tmp_path, monkeypatch)
    made.sits("bob")
    return made


def test_what_anna_approved_bob_creates_and_nothing_else(desk: Desk) -> None:
    refused = desk.run("create", "schedules.yaml")
    assert refused.exit_code == 1
    assert "create of 'report' in 'default' needs an approval" in refused.output
    desk.approved("approval.json", "schedules.yaml")
    (desk.place / "other.yaml").write_text(SCHEDULES.replace("hours: 1", "hours: 2"))
    assert desk.run("create", "other.yaml", "--approval", "approval.json").exit_code == 1
    created = desk.run("create", "schedules.yaml", "--approval", "approval.json")
    assert created.exit_code == 0, created.output
    assert desk.decisions() == [("create", "anna")]


def test_approving_changes_nothing_and_says_what_is_signed(desk: Desk) -> None:
    done = desk.run("approve", "--key", "anna.key", "schedules.yaml")
    assert done.exit_code == 0, done.output
    assert "approving create of 'report' in 'default'" in done.stderr
    assert "  due every 1h" in done.stderr
    assert '"callable": "jobs:report"' in done.stderr
    assert '"intervalMs": 3600000' in done.stderr, "as it is signed"
    assert '"misfire": "runOnce"' in done.stderr
    assert [document.action for document in read_documents(done.stdout)] == ["create", "create"]
    assert json.loads(desk.run("list", "--json").stdout)["schedules"] == []


def test_nobody_approves_what_they_ask_for_themselves(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.approved("approval.json", "schedules.yaml")
    desk.sits("anna")
    monkeypatch.setenv("LOGNAME", "bob")
    alone = desk.run("create", "schedules.yaml", "--approval", "approval.json")
    assert alone.exit_code == 1
    assert "somebody else has to approve" in alone.output


def test_a_control_is_approved_as_it_is_typed_and_serves_once(desk: Desk) -> None:
    desk.approved("create.json", "schedules.yaml")
    assert desk.run("create", "schedules.yaml", "--approval", "create.json").exit_code == 0
    desk.approved("pause.json", "pause", "report", "--note", "audit")
    assert desk.run("disable", "report", "--approval", "pause.json").exit_code == 1
    paused = desk.run("pause", "report", "--approval", "pause.json")
    assert paused.exit_code == 0, paused.output
    again = desk.run("pause", "report", "--approval", "pause.json")
    assert again.exit_code == 1
    assert sorted(desk.decisions()) == [("create", "anna"), ("pause", "anna")]


def test_a_stale_approval_names_both_versions(desk: Desk) -> None:
    desk.approved("create.json", "schedules.yaml")
    desk.run("create", "schedules.yaml", "--approval", "create.json")
    desk.approved("a.json", "pause", "report")
    desk.approved("b.json", "disable", "report")
    assert desk.run("pause", "report", "--approval", "a.json").exit_code == 0
    stale = desk.run("disable", "report", "--approval", "b.json")
    assert "it is for state version 1, asked was 2" in stale.output


def test_apply_of_files_says_how_a_plan_is_approved(desk: Desk) -> None:
    done = desk.run("apply", "schedules.yaml")
    assert done.exit_code == 1
    assert "nothing was applied: save it with `calsched plan --out FILE`" in done.output


def test_what_is_adopted_is_approved_as_it_is_typed_and_written_when_it_is_presented(desk: Desk) -> None:
    (desk.place / "crontab").write_text("CRON_TZ=UTC\n0 1 * * * backup\n30 2 * * 1 clean\n")
    adopt = ("adopt", "crontab", "--write", "--out", "adopted.yaml")
    assert "needs an approval" in desk.run(*adopt).output
    desk.approved("adopt.json", *adopt)
    assert not (desk.place / "adopted.yaml").exists(), "approving changes nothing"
    (desk.place / "other").write_text("CRON_TZ=UTC\n0 3 * * * backup\n")
    assert desk.run("adopt", "other", "--write", "--approval", "adopt.json").exit_code == 1
    done = desk.run(*adopt, "--approval", "adopt.json")
    assert done.exit_code == 0, done.output
    assert "2 created" in done.output
    assert (desk.place / "adopted.yaml").exists()
    shown = json.loads(desk.run("show", "backup", "--json").stdout)
    assert [(one["action"], one["principal"]) for one in shown["decisions"]] == [("create", "anna")]


@pytest.mark.parametrize("approvals", ["operator", "trusted.json"])
def test_one_approval_is_of_the_whole_backlog_after_a_restore(desk: Desk, approvals: str) -> None:
    (desk.place / "schedules.yaml").write_text(SCHEDULES.replace(", enabled: false", ""))
    desk.approved("create.json", "schedules.yaml")
    assert desk.run("create", "schedules.yaml", "--approval", "create.json").exit_code == 0
    assert desk.run("backup", "a.backup").exit_code == 0
    (desk.place / "calsched.toml").write_text(f'store = "sqlite:///new.db"\napprovals = "{approvals}"\n')
    assert desk.run("restore", "a.backup").exit_code == 0
    if approvals == "trusted.json":
        assert "backlog of" in desk.run("backlog", "drop").output
        desk.approved("backlog.json", "backlog", "drop")
        assert desk.run("backlog", "release", "--approval", "backlog.json").exit_code == 1
    done = desk.run("backlog", "drop", *(["--approval", "backlog.json"] if approvals == "trusted.json" else []))
    assert done.exit_code == 0, done.output
    assert "2 schedules go on" in done.output
    assert [one["state"] for one in json.loads(desk.run("list", "--json").stdout)["schedules"]] == ["enabled"] * 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["approve", "--key", "none.key", "schedules.yaml"], "none.key: cannot be read"),
        (["approve", "--key", "trusted.json", "schedules.yaml"], "expected 'calsched-key/1'"),
        (["approve", "--key", "anna.key", "none.yaml"], "none.yaml"),
        (["approve", "--key", "anna.key", "--for", "2000d", "schedules.yaml"], "up to a year"),
        (["approve", "--key", "anna.key", "--out", "trusted.json", "schedules.yaml"], "nothing is written over it"),
        (["create", "schedules.yaml", "--approval", "schedules.yaml"], "expected JSON"),
        (["approve", "--key", "anna.key", "pause", "nobody"], "no schedule 'nobody'"),
    ],
)
def test_what_cannot_be_used_is_told_without_a_traceback(desk: Desk, words: list[str], message: str) -> None:
    (desk.place / "trusted.json").chmod(0o600)
    desk.approved("approval.json", "schedules.yaml")
    done = desk.run(*words)
    assert done.exit_code in (1, 2)
    assert message in done.output
    assert "Traceback" not in done.output


def test_a_trusted_file_that_is_none_stops_everything_with_a_line(desk: Desk) -> None:
    (desk.place / "trusted.json").write_text("{}")
    done = desk.run("list")
    assert done.exit_code == 2
    assert "trusted.json: format: expected 'calsched-trusted-keys/1'" in done.output


def test_keygen_makes_a_key_and_the_line_that_trusts_it(desk: Desk) -> None:
    done = desk.run("keygen", "carol.key", "--principal", "carol")
    assert done.exit_code == 0, done.output
    line = done.stdout.strip().splitlines()[-1]
    assert TrustedKeys.from_plain(json.loads(line)) == {SigningKey.read(desk.place / "carol.key").key_id: "carol"}
    assert desk.run("keygen", "carol.key").exit_code == 2


def test_where_the_operator_approves_the_account_is_the_evidence(desk: Desk) -> None:
    (desk.place / "calsched.toml").write_text('store = "sqlite:///calsched.db"\napprovals = "operator"\n')
    assert desk.run("create", "schedules.yaml").exit_code == 0
    done = desk.run("pause", "report")
    assert done.exit_code == 0, done.output
    shown = json.loads(desk.run("show", "report", "--json").stdout)
    assert all("os-account:" in json.dumps(decision) for decision in shown["decisions"])
