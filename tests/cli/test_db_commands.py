from __future__ import annotations

import sqlite3

import pytest

from tests.cli.conftest import CommandLine


@pytest.fixture
def made(cli: CommandLine) -> CommandLine:
    cli.write("a.yaml", "schedules: {a: {every: 5m, task: jobs:run}}\n")
    cli("create", "a.yaml")
    return cli


def execute(cli: CommandLine, sql: str) -> None:
    conn = sqlite3.connect(cli.folder / "calsched.db", isolation_level=None)
    conn.execute(sql)
    conn.close()


def test_a_fresh_store_has_the_newest_schema(made: CommandLine) -> None:
    told = made.json("db", "current")
    assert (told["upToDate"], told["revision"]) == (True, told["newest"])
    assert made.lines("db", "check") == ["the tables are as they should be"]
    assert made.json("db", "upgrade") == {"steps": []}


def test_a_store_of_a_later_release_is_refused_and_told(made: CommandLine) -> None:
    execute(made, "UPDATE calsched_meta SET value = '99' WHERE name IN ('schema_version', 'compatible_since')")
    (line,) = made.errors("list", code=3)
    assert "has schema version 99; this calsched knows" in line and "upgrade calsched" in line
    assert made.json("db", "current")["version"] == 99


def test_a_missing_index_is_found_by_check_and_doctor(made: CommandLine) -> None:
    execute(made, "DROP INDEX calsched_ix_schedule_look")
    told = made.json("db", "check", code=1)
    assert told["differences"] == ["calsched_schedules: index calsched_ix_schedule_look is missing"]
    assert [one["kind"] for one in made.json("doctor", code=1)["findings"]] == ["schema"]


@pytest.mark.parametrize("word", ["current", "upgrade", "check"])
def test_without_a_store_there_is_nothing_to_upgrade(cli: CommandLine, word: str) -> None:
    assert cli.errors("db", word, code=3)[0].startswith("there is no store at")
    assert list(cli.folder.iterdir()) == []
