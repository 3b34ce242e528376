"""`calsched adopt`, as it is typed."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger
from typer.testing import CliRunner

from calsched.adopt.apscheduler import adopt_apscheduler
from calsched.adopt.yaml_text import to_yaml
from calsched.cli.main import app
from calsched.declare.check import check
from calsched.declare.read import read
from tests.adopt._jobs import NEXT, row

NOW = 1_772_323_200_000  # 2026-03-01


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("CALSCHED_STORE", "CALSCHED_CONFIG", "CALSCHED_ALLOW"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run(*words: str, stdin: str | None = None) -> Any:
    return CliRunner().invoke(app, list(words), input=stdin)


def job_store(path: Path, *rows: Any, table: str = "apscheduler_jobs") -> str:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(f"CREATE TABLE {table} (id VARCHAR(191) PRIMARY KEY, next_run_time FLOAT, job_state BLOB)")
        connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", [found[:3] for found in rows])
    connection.close()
    return f"sqlite:///{path}"


GOOD = row(CronTrigger(hour=9, timezone="Europe/Berlin"), id="report", args=("a: b", "#no", "1:30", "2026-01-01"))
BAD = ("evil", 1.0, b"\x80\x04cposix\nsystem\n(Vtouch owned\ntR.")


def test_a_job_store_is_shown_and_nothing_is_written(place: Path) -> None:
    done = run("adopt", "--from", job_store(place / "jobs.db", GOOD, BAD))
    assert done.exit_code == 1
    assert "report  cron[hour='9']" in done.output
    assert "0 9 * * *" in done.output
    assert "not carried over: jobs[evil].job_state" in done.output
    assert "1 of 2 can be carried over; nothing was written" in done.output
    assert sorted(entry.name for entry in place.iterdir()) == ["jobs.db"]


def test_the_written_file_passes_the_check_and_is_never_written_over(place: Path) -> None:
    url = job_store(place / "jobs.db", GOOD, table="old_jobs")
    assert run("adopt", "--from", url, "--table", "old_jobs", "--out", "schedules.yaml").exit_code == 0
    checked = check([read(place / "schedules.yaml")], now=NOW)
    assert checked.problems == []
    [declared] = checked.declarations
    assert declared.definition.task.args == ("a: b", "#no", "1:30", "2026-01-01")
    before = (place / "schedules.yaml").read_text()
    again = run("adopt", "--from", url, "--table", "old_jobs", "--out", "schedules.yaml")
    assert again.exit_code == 2
    assert "nothing is written over it" in again.output
    assert (place / "schedules.yaml").read_text() == before


def test_a_crontab_is_read_from_a_file_or_standard_input(place: Path) -> None:
    text = "CRON_TZ=UTC\n0 1 * * * backup\n"
    (place / "crontab").write_text(text)
    from_file = run("adopt", "--json", "crontab")
    from_stdin = run("adopt", "--json", "-", stdin=text)
    assert from_file.exit_code == from_stdin.exit_code == 0
    assert json.loads(from_file.stdout) == json.loads(from_stdin.stdout)
    shown = run("adopt", "--callable", "j:run", "-", stdin="CRON_TZ=UTC\n0 9 * * * mail boss%Dear boss,%bye\n").stdout
    assert r"kwargs command mail boss, stdin Dear boss,\nbye" in shown
    [schedule] = json.loads(from_file.stdout)["schedules"]
    assert schedule["declaration"]["task"] == "crontab_jobs:backup"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["adopt"], 2, "expected the crontab's path"),
        (["adopt", "none"], 2, "cannot be read: No such file"),
        (["adopt", "bin"], 2, "bin:2: expected text in UTF-8"),
        (["adopt", "--from", "sqlite:///none.db"], 2, "there is no file none.db"),
        (["adopt", "x", "--from", "sqlite:///none.db"], 2, "named by --from alone"),
        (["adopt", "crontab", "--timezone", "mars"], 2, "there is no zone 'mars'"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_a_code(place: Path, words: list[str], code: int, message: str) -> None:
    (place / "crontab").write_text("0 1 * * * x\n")
    (place / "bin").write_bytes(b"# ok\n\xff\xfe\n")
    done = run(*words)
    assert done.exit_code == code
    assert message in done.output
    assert "Traceback" not in done.output


def test_write_creates_the_schedules(place: Path) -> None:
    url = job_store(place / "jobs.db", GOOD, row(IntervalTrigger(hours=1, timezone="UTC"), id="poll", next_run=NEXT))
    done = run("adopt", "--from", url, "--write", "--store", "sqlite:///new.db")
    assert done.exit_code == 0, done.output
    assert "2 created" in done.output
    listed = run("--store", "sqlite:///new.db", "list", "--json")
    assert {"report", "poll"} <= set(json.dumps(json.loads(listed.stdout)).replace('"', " ").split())


def test_the_rule_of_what_is_adopted_is_told_in_words(place: Path) -> None:
    last = row(CronTrigger(day="last", hour=18, timezone="Europe/Berlin"), id="last")
    firsts = row(CronTrigger(day="1-7", day_of_week="mon", minute="*/30", timezone="UTC"), id="firsts")
    told = run("adopt", "--from", job_store(place / "jobs.db", last, firsts)).output
    assert "trigger: at 18:00 on the last day of the month in Europe/Berlin" in told
    assert "trigger: at minute 0, 30 of every hour on mon that is the 1st, 2nd, 3rd," in told
    (place / "crontab").write_text("0 1 * * * backup\n")
    assert "trigger: cron 0 1 * * *\n" in run("adopt", "crontab").output


def test_what_is_true_of_many_jobs_is_said_once() -> None:
    adoption = adopt_apscheduler([row(CronTrigger(hour=h, timezone="UTC"), id=f"job{h}") for h in range(4)])
    assert any(note.startswith("4 jobs: misfire_grace_time was the default") for note in adoption.notes)
    assert not any("misfire_grace_time" in note for adopted in adoption.schedules for note in adopted.notes)


def test_every_form_of_an_adopted_trigger_passes_the_check() -> None:
    from tests.adopt.test_apscheduler import CRON_SPECS, FOREIGN

    triggers = [CronTrigger(timezone="Europe/Berlin", **fields) for fields, _ in CRON_SPECS]
    adoption = adopt_apscheduler([row(t, id=f"job {n}: {t}"[:200]) for n, t in enumerate([*triggers, *FOREIGN])])
    assert adoption.refused == []
    checked = check([read(to_yaml(adoption).encode(), "yaml")], now=NOW)
    assert checked.problems == []
    assert len(checked.declarations) == len(CRON_SPECS) + len(FOREIGN)
