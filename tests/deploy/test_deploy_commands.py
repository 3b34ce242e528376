"""`calsched plan` and `calsched apply` on real files and a real SQLite store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandLine, cli

__all__ = ["cli"]

TWO = """
    owner: team
    schedules:
      hourly: {every: 1h, task: "jobs:run"}
      daily:
        trigger: {kind: calendar, at: "09:00", timezone: Europe/Berlin}
        task: jobs:run
    """


@pytest.fixture
def two(cli: CommandLine) -> CommandLine:
    cli.write("schedules.yaml", TWO)
    cli("apply", "schedules.yaml")
    return cli


def states(cli: CommandLine) -> dict[str, tuple[str, str | None, int]]:
    rows = cli.json("list")["schedules"]
    return {row["id"]: (row["state"], row["reason"], row["revision"]) for row in rows}


def decisions(cli: CommandLine, schedule_id: str) -> list[str]:
    return [decision["action"] for decision in cli.json("show", schedule_id)["decisions"]]


def edit(cli: CommandLine, before: str, after: str) -> None:
    file = cli.folder / "schedules.yaml"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def test_a_plan_names_what_it_would_do_and_does_nothing(cli: CommandLine) -> None:
    cli.write("schedules.yaml", TWO)
    found = cli.json("plan", "schedules.yaml", code=10)
    assert [(change["id"], change["steps"]) for change in found["changes"]] == [
        ("daily", ["create"]),
        ("hourly", ["create"]),
    ]
    assert len(found["changes"][0]["added"]) == 7
    assert not (cli.folder / "calsched.db").exists()


def test_applied_files_have_nothing_left_to_do_and_exit_with_0(two: CommandLine) -> None:
    assert two.json("plan", "schedules.yaml") | {"store": ""} == {
        "store": "",
        "calendars": [],
        "changes": [],
        "unchanged": 2,
        "undeclared": [],
    }


def test_what_the_files_of_an_owner_declare_no_longer_is_named(two: CommandLine) -> None:
    two.write("other.yaml", "owner: team\nschedules: {hourly: {every: 1h, task: 'jobs:run'}}")
    for command in ("plan", "apply"):
        told = two(command, "other.yaml")
        assert told.stderr == "no longer declared, and left as it is without --prune: daily\n"
        assert told.stdout == "nothing to do; 2 unchanged\n"
    assert two.json("plan", "other.yaml")["undeclared"] == ["daily"]
    two("apply", "other.yaml", "--prune")
    assert two("plan", "other.yaml").stderr == ""


def test_a_change_that_moves_no_due_instant_names_none(two: CommandLine) -> None:
    edit(two, "every: 1h,", "every: 1s, maxRetries: 1,")
    two("apply", "schedules.yaml")
    edit(two, "maxRetries: 1", "maxRetries: 2")
    assert two.lines("plan", "schedules.yaml", code=10) == ["revise hourly: maxRetries", "1 to revise; 1 unchanged"]


def test_applying_unchanged_files_writes_nothing(two: CommandLine) -> None:
    before = (two.folder / "calsched.db").read_bytes()
    two("apply", "schedules.yaml")
    assert (two.folder / "calsched.db").read_bytes() == before
    assert not (two.folder / "calsched.db-wal").exists()


def test_a_deploy_does_not_unpause_what_an_operator_paused(two: CommandLine) -> None:
    two("pause", "hourly", "--note", "moving house")
    edit(two, "every: 1h", "every: 2h")
    two("apply", "schedules.yaml")
    assert states(two)["hourly"] == ("paused", "operator", 2)


def test_another_description_alone_makes_no_new_revision(two: CommandLine) -> None:
    before = two.json("show", "hourly")["schedule"]["nextDue"]
    edit(two, 'every: 1h, task: "jobs:run"', 'every: 1h, task: "jobs:run", description: new words')
    two("apply", "schedules.yaml")
    shown = two.json("show", "hourly")
    assert states(two)["hourly"] == ("enabled", None, 1)
    assert shown["schedule"]["nextDue"] == before
    assert shown["schedule"]["definition"]["description"] == "new words"


def test_a_plan_shows_which_due_instants_appear_and_disappear(two: CommandLine) -> None:
    edit(two, '"09:00"', '"10:00"')
    (change,) = two.json("plan", "schedules.yaml", "--days", "2", code=10)["changes"]
    assert (change["id"], change["steps"], change["keys"]) == ("daily", ["revise"], ["trigger"])
    assert {instant[11:] for instant in change["removed"]} <= {"07:00:00Z", "08:00:00Z"}
    assert {instant[11:] for instant in change["added"]} <= {"08:00:00Z", "09:00:00Z"}
    assert len(change["added"]) == len(change["removed"]) == 2


def test_prune_retires_and_putting_back_resumes_without_catching_up(two: CommandLine) -> None:
    two.write("other.yaml", "owner: team\nschedules: {hourly: {every: 1h, task: 'jobs:run'}}")
    two("apply", "other.yaml")
    assert states(two)["daily"] == ("enabled", None, 1)
    two("apply", "other.yaml", "--prune")
    assert states(two)["daily"] == ("disabled", "retired", 1)
    two("apply", "schedules.yaml")
    assert states(two)["daily"] == ("enabled", None, 1)
    assert decisions(two, "daily") == ["enable", "retire", "create"]


def test_a_rename_carries_the_history_over(two: CommandLine) -> None:
    edit(two, "hourly: {every: 1h,", "each-hour: {every: 1h, was: hourly,")
    two("apply", "schedules.yaml")
    assert set(states(two)) == {"daily", "each-hour"}
    assert "create" in decisions(two, "each-hour") or two.json("show", "each-hour")["schedule"]["revision"] == 1
    assert two.json("plan", "schedules.yaml")["changes"] == []


def test_one_bad_file_of_ten_applies_nothing_and_names_every_problem(cli: CommandLine) -> None:
    for n in range(9):
        cli.write(f"good/s{n}.yaml", f"schedules: {{s{n}: {{every: 1h, task: 'jobs:run'}}}}")
    cli.write("good/zbad.yaml", "schedules:\n  x: {every: -1h, task: 'jobs:run'}\n  y: {evry: 1h, task: 'a.b'}\n")
    errors = cli.errors("apply", "good", code=2)
    assert len([line for line in errors if line.startswith(("good/zbad.yaml:2", "good/zbad.yaml:3"))]) >= 3
    assert not (cli.folder / "calsched.db").exists()


def test_two_files_that_declare_one_id_are_refused_with_both_places(cli: CommandLine) -> None:
    for name in ("a.yaml", "b.yaml"):
        cli.write(f"d/{name}", "schedules:\n  same: {every: 1h, task: 'jobs:run'}\n")
    (line,) = cli.errors("apply", "d", code=2)
    assert "d/b.yaml:2" in line
    assert "d/a.yaml:2" in line


def test_a_saved_plan_is_applied_as_it_was_saved(cli: CommandLine) -> None:
    cli.write("schedules.yaml", TWO)
    cli("plan", "schedules.yaml", "--out", "plan.json", code=10)
    (cli.folder / "schedules.yaml").write_text("changed since, and broken: [")
    cli("apply", "plan.json")
    assert set(states(cli)) == {"daily", "hourly"}


def test_where_a_plan_was_saved_is_told(two: CommandLine) -> None:
    told = two("plan", "schedules.yaml", "--out", "a.plan").stderr
    assert told == "saved; `calsched apply a.plan` does it, as long as the store stays as it is\n"


def test_a_saved_plan_may_have_any_name(cli: CommandLine) -> None:
    cli.write("schedules.yaml", TWO)
    cli("plan", "schedules.yaml", "--out", "release.plan", code=10)
    cli("apply", "release.plan")
    assert set(states(cli)) == {"daily", "hourly"}


def test_a_saved_plan_is_refused_when_the_store_has_moved_on(two: CommandLine) -> None:
    edit(two, "every: 1h", "every: 2h")
    two("plan", "schedules.yaml", "--out", "plan.json", code=10)
    two("pause", "daily")
    (line,) = two.errors("apply", "plan.json", code=1)
    assert "changed since this was planned" in line
    assert states(two)["hourly"] == ("enabled", None, 1)


def test_a_plan_of_another_store_is_refused(two: CommandLine) -> None:
    two("plan", "schedules.yaml", "--out", "plan.json")
    two("--store", "sqlite:///other.db", "apply", "schedules.yaml")
    (line,) = two.errors("--store", "sqlite:///other.db", "apply", "plan.json", code=1)
    assert "another store" in line


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: {**body, "declarations": []},
        lambda body: {**body, "prune": True},
        lambda body: {key: value for key, value in body.items() if key != "digest"},
        lambda body: {**body, "format": 99},
    ],
)
def test_a_plan_that_was_changed_after_it_was_saved_is_refused(two: CommandLine, spoil: Any) -> None:
    two("plan", "schedules.yaml", "--out", "plan.json")
    file = two.folder / "plan.json"
    file.write_text(json.dumps(spoil(json.loads(file.read_text()))))
    assert "plan" in two.errors("apply", "plan.json", code=2)[0]


@pytest.mark.parametrize("key", ["installation", "store", "prune", "declarations", "calendars", "digest", "\ud800"])
@pytest.mark.parametrize("value", ["\ud800", ["x\udfff"], {"\udc80": 1}, float("nan"), "a\0b"], ids=ascii)
def test_a_plan_with_what_cannot_be_stored_is_refused(two: CommandLine, key: str, value: Any) -> None:
    two("plan", "schedules.yaml", "--out", "plan.json")
    file = two.folder / "plan.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), key: value}))
    assert "plan" in two.errors("apply", "plan.json", code=2)[0]


def test_an_owner_cannot_take_over_the_schedule_of_another(two: CommandLine) -> None:
    two.write("theirs.yaml", "owner: others\nschedules: {hourly: {every: 1h, task: 'jobs:run'}}")
    (line,) = two.errors("apply", "theirs.yaml", "--prune", code=2)
    assert "'team'" in line
    assert "'others'" in line


def test_a_calendar_change_shows_moved_due_instants_and_is_followed(cli: CommandLine) -> None:
    text = """
        calendars:
          office: {dates: [DATES], through: 2100}
        schedules:
          report:
            trigger: {kind: calendar, at: "09:00", timezone: UTC, calendar: office}
            task: jobs:run
        """
    file = cli.folder / cli.write("s.yaml", text.replace("DATES", "2099-01-01"))
    cli("apply", "s.yaml")
    following: str = cli.json("show", "report")["schedule"]["nextDue"]
    day = following[:10]
    file.write_text(file.read_text().replace("2099-01-01", f"2099-01-01, {day}"))
    found = cli.json("plan", "s.yaml", code=10)
    assert found["calendars"] == ["office"]
    assert [(change["id"], change["steps"]) for change in found["changes"]] == [("report", [])]
    assert found["changes"][0]["removed"] == [following]
    assert cli.lines("plan", "s.yaml", code=10)[-1] == "1 to follow, 1 calendar to renew; 0 unchanged"
    assert cli.lines("apply", "s.yaml")[-1] == "1 calendar to renew; 1 unchanged"
    assert cli.json("show", "report")["schedule"]["nextDue"] > following
    assert states(cli)["report"][2] == 1
    assert cli.json("plan", "s.yaml")["changes"] == []


def test_a_file_switches_a_schedule_off_and_on_again(two: CommandLine) -> None:
    edit(two, "every: 1h,", "every: 1h, enabled: false,")
    two("apply", "schedules.yaml")
    assert states(two)["hourly"][:2] == ("disabled", "declared")
    edit(two, "enabled: false, ", "")
    two("apply", "schedules.yaml")
    assert states(two)["hourly"][:2] == ("enabled", None)


def test_what_an_operator_disabled_stays_disabled(two: CommandLine) -> None:
    two("disable", "hourly")
    edit(two, "every: 1h", "every: 3h")
    two("apply", "schedules.yaml")
    assert states(two)["hourly"] == ("disabled", "operator", 2)


def test_a_missing_file_is_one_clear_line(cli: CommandLine) -> None:
    assert len(cli.errors("apply", str(Path("nowhere")), code=2)) == 1
