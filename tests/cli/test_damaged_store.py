"""A database file that is damaged, and work that nobody here can run: said in clear lines, with a non-zero exit."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandLine


@pytest.fixture
def made(cli: CommandLine) -> CommandLine:
    """Two schedules that have been due for long."""
    cli.write("jobs.py", "def run():\n    return None\n")
    rule = "{trigger: {kind: interval, intervalMs: 3600000, firstTick: '2026-01-01T00:00:00Z'}, task: jobs:run,"
    cli.write("s.yaml", f"schedules: {{bad: {rule} backlog: fromStart}}, good: {rule} backlog: fromStart}}}}")
    cli("create", "s.yaml")
    return cli


def sql(cli: CommandLine, *statements: str) -> None:
    connection = sqlite3.connect(cli.folder / "calsched.db")
    connection.execute("PRAGMA ignore_check_constraints = ON")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def overwrite(file: Path, name: str) -> None:
    """The root page of a table or an index becomes noise."""
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA journal_mode = DELETE")
    [(root,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,))
    [(size,)] = connection.execute("PRAGMA page_size")
    connection.close()
    with file.open("r+b") as out:
        out.seek((root - 1) * size)
        out.write(b"\xa5" * size)


@pytest.mark.parametrize("name", ["calsched_ix_attempt_occurrence", "calsched_ix_occurrence_epoch"])
def test_doctor_tells_of_a_damaged_file_and_of_what_to_do(made: CommandLine, name: str) -> None:
    overwrite(made.folder / "calsched.db", name)
    (found,) = made.json("doctor", code=1)["findings"]
    assert found["kind"] == "damage"
    assert "calsched.db is damaged (SQLite's quick_check says: " in found["message"]
    assert "restore a backup into a new one (`calsched restore`)" in found["message"]
    assert made.lines("doctor", code=1)[0].startswith("damage: sqlite:///")


@pytest.mark.parametrize("name", ["calsched_schedules", "calsched_skips", "calsched_meta"])
def test_a_file_too_damaged_to_be_opened_or_read_ends_in_one_line(made: CommandLine, name: str) -> None:
    overwrite(made.folder / "calsched.db", name)
    result = made("doctor", code=3)
    (line,) = result.output.splitlines()
    assert "calsched.db is" in line and "restore a backup" in line


TEXT, BLOB = "CAST(x'61ff62' AS TEXT)", "x'61ff62'"


@pytest.mark.parametrize("value", [TEXT, BLOB], ids=["text", "blob"])
@pytest.mark.parametrize(
    ("table", "column"), [("schedules", "namespace"), ("schedules", "state"), ("revisions", "definition")]
)
def test_a_damaged_row_pauses_its_schedule_and_the_tick_says_so_and_runs_the_others(
    made: CommandLine, table: str, column: str, value: str
) -> None:
    sql(made, f"UPDATE calsched_{table} SET {column} = {value} WHERE pk = 1")
    result = made("tick", "--allow", "jobs:*", code=1)
    (line,) = [line for line in result.stderr.splitlines() if "paused" in line]
    assert f"calsched_{table}, row 1: damaged, " in line or table == "schedules"
    assert f"{column} cannot be read; keep a copy" in line
    assert "good: " in result.stdout and "succeeded" in result.stdout
    found = made.json("doctor", "--slack", "1000d", code=1)["findings"]
    kinds = {(one["kind"], one["facts"].get("table")) for one in found}
    assert ("attention", None) in kinds
    assert (("damage", f"calsched_{table}") in kinds) == (column != "state"), "a pause writes the state anew"
    states = [one["state"] for one in made.json("list", "--all")["schedules"]]
    assert sorted(states) == ["enabled", "paused"]
    made("tick", "--allow", "jobs:*")


@pytest.mark.parametrize("column", ["next_ordinal", "state_version", "used", "open_count"])
def test_a_damaged_number_is_reported_and_the_others_run(made: CommandLine, column: str) -> None:
    sql(made, f"UPDATE calsched_schedules SET {column} = 'x' WHERE pk = 1")
    told = made.json("tick", "--allow", "jobs:*", code=1)
    assert [(one["kind"], one["id"]) for one in told["problems"]] == [("failed", "bad")]
    assert column in told["problems"][0]["message"]
    assert [one["id"] for one in told["schedules"]] == ["good"]


def problems(cli: CommandLine, *more: str) -> list[tuple[str, str]]:
    told: dict[str, Any] = cli.json("tick", "--allow", "jobs:*", *more, code=1)
    return [(one["kind"], one["id"]) for one in told["problems"]]


def test_a_tick_that_pauses_a_schedule_whose_callable_is_gone_says_so(made: CommandLine) -> None:
    made.write("jobs.py", "def other():\n    return None\n")
    first = made("tick", "--allow", "jobs:*", code=1)
    assert first.stderr.count("paused, because its task cannot be loaded: ") == 2
    assert made.json("tick", "--allow", "jobs:*")["problems"] == []


def test_a_tick_says_each_time_what_waits_because_it_cannot_be_loaded_and_cannot_be_paused(cli: CommandLine) -> None:
    cli.write("jobs.py", "def run():\n    return None\n")
    cli.write("s.yaml", "id: once\nat: '2026-01-01T00:00:00Z'\nbacklog: fromStart\ntask: jobs:run\n")
    cli("create", "s.yaml")
    cli.write("jobs.py", "def other():\n    return None\n")
    assert problems(cli) == [("unloadable", "once")]  # it has ended, with its only occurrence still to be run
    again = cli("tick", "--allow", "jobs:*", code=1)
    assert (
        "once: its work waits, because its task cannot be loaded: callable: module 'jobs' has no 'run'" in again.stderr
    )
    assert again.stdout == "", "nor was there nothing ready"


def test_a_tick_tells_of_work_for_an_executor_that_it_does_not_have(made: CommandLine) -> None:
    made.write("calsched.toml", 'allow = ["jobs:*"]\n[executors]\ngpu = {kind = "threads", workers = 1}\n')
    made.write("gpu.yaml", "id: c\nevery: 1h\nbacklog: fromStart\ntask: {callable: 'jobs:run', executor: gpu}\n")
    made("create", "gpu.yaml")
    made("run", "c")
    (made.folder / "calsched.toml").unlink()
    assert problems(made) == [("executor", "c")]
    assert (
        "waits for the executor 'gpu', which this owner does not have (it has default)"
        in made("tick", "--allow", "jobs:*", code=1).stderr
    )
    made.write("calsched.toml", 'allow = ["jobs:*"]\n[executors]\ngpu = {kind = "threads", workers = 1}\n')
    assert made.json("tick")["problems"] == []
