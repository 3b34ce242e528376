from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from calsched.stores import conflicts, control
from tests.cli.conftest import CommandLine

TWO = """\
    schedules:
      report: {trigger: {kind: calendar, at: "09:00", timezone: America/Winnipeg}, task: jobs:send}
      poll: {every: 15m, task: jobs:poll, enabled: false}
    """


@pytest.fixture
def two(cli: CommandLine) -> CommandLine:
    cli.write("a.yaml", TWO)
    cli("create", "a.yaml", "--note", "first")
    return cli


def test_create_tells_what_is_new_and_leaves_what_is_there(two: CommandLine) -> None:
    first = two.lines("create", "a.yaml")
    assert first[0].startswith("report: exists already, left as it is; revision 1, enabled, next due ")
    assert first[1] == "poll: exists already, left as it is; revision 1, disabled"
    two.write("b.yaml", "schedules: {third: {every: 1h, task: jobs:poll}}")
    again = two.json("create", "b.yaml")
    assert (again["created"], [one["id"] for one in again["schedules"]]) == (["third"], ["third"])


def test_create_is_all_or_nothing(two: CommandLine) -> None:
    two.write("b.yaml", "schedules: {fresh: {every: 1h, task: jobs:poll}, poll: {every: 16m, task: jobs:poll}}")
    (line,) = two.errors("create", "b.yaml", code=1)
    assert line.startswith("'poll' has a revision 1 with other material")
    assert [one["id"] for one in two.json("list")["schedules"]] == ["poll", "report"]


def test_create_refuses_files_that_changed_since_their_preview(cli: CommandLine) -> None:
    cli.write("a.yaml", TWO)
    digest = cli.lines("preview", "a.yaml")[-1].removeprefix("digest ")
    cli.write("a.yaml", TWO.replace("15m", "16m"))
    assert "the files changed since their preview" in cli.errors("create", "a.yaml", "--expect", digest, code=1)[0]
    cli.write("a.yaml", TWO)
    assert len(cli.lines("create", "a.yaml", "--expect", digest)) == 2


def test_the_controls_move_a_schedule_and_tell_its_state(two: CommandLine) -> None:
    assert two.lines("pause", "report", "--note", "why not")[0] == "report: paused (operator) (state version 2)"
    assert two.lines("resume", "report")[0].startswith("report: resumed; it is enabled, next due ")
    assert two.lines("disable", "report")[0] == "report: disabled (operator) (state version 4)"
    assert two.lines("enable", "report")[0].startswith("report: enabled, next due ")
    assert two.lines("cancel", "report")[0] == "report: cancelled (state version 6)"
    assert two.lines("delete", "report")[0].startswith("report: deleted")
    assert [one["id"] for one in two.json("list")["schedules"]] == ["poll"]


def test_a_decision_keeps_who_when_and_why(two: CommandLine) -> None:
    two("pause", "report", "--note", "stocktaking")
    newest = two.json("show", "report")["decisions"][0]
    assert (newest["action"], newest["fromState"], newest["toState"], newest["note"]) == (
        "pause", "enabled", "paused", "stocktaking",
    )  # fmt: skip
    assert newest["principal"]


def test_a_stale_revision_or_version_is_refused_with_both_numbers(two: CommandLine) -> None:
    (line,) = two.errors("pause", "report", "--revision", "4", code=1)
    assert line.startswith("expected revision 4, but it is 1 now")
    (line,) = two.errors("pause", "report", "--expect-version", "9", code=1)
    assert line.startswith("expected state version 9, but it is 1 now")
    assert two.json("show", "report")["schedule"]["state"] == "enabled"


def test_pause_until_resumes_later(two: CommandLine) -> None:
    assert two.lines("pause", "report", "--until", "2999-01-01T00:00:00Z")[0].startswith(
        "report: paused until 2999-01-01T00:00:00Z (operator)"
    )
    assert two.json("show", "report")["schedule"]["resumeAt"] == "2999-01-01T00:00:00Z"
    assert two.errors("pause", "report", "--until", "1999-01-01T00:00:00Z", code=2) == [
        "--until: this instant has passed already"
    ]


def test_an_impossible_move_is_refused_with_the_reason(two: CommandLine) -> None:
    (line,) = two.errors("resume", "poll", code=1)
    assert line.startswith("'poll' is disabled: resume is not possible")


def test_an_unknown_schedule_is_refused(two: CommandLine) -> None:
    for command in (["pause"], ["resume"], ["enable"], ["disable"], ["cancel"], ["delete"], ["show"], ["run"],
                    ["skip-next"], ["history"]):  # fmt: skip
        (line,) = two.errors(*command, "nope\x1b[1m", code=1)
        assert line.startswith("no schedule 'nope\\x1b[1m' in namespace 'default'"), command


def test_update_takes_a_partial_file_and_makes_a_revision(two: CommandLine) -> None:
    two.write("c.yaml", "graceSeconds: 5\n")
    assert "revision 2 is live" in two.lines("update", "report", "c.yaml", "--revision", "1")[0]
    definition = two.json("show", "report")["schedule"]["definition"]
    assert (definition["graceSeconds"], definition["task"]["callable"]) == (5, "jobs:send")
    assert two.errors("update", "report", "c.yaml", "--revision", "1", code=1)[0].startswith("expected revision 1")


def test_update_says_when_there_is_nothing_to_change(two: CommandLine) -> None:
    two.write("c.yaml", "graceSeconds: 5\n")
    two("update", "report", "c.yaml")
    (line,) = two.lines("update", "report", "c.yaml")
    assert line.startswith("report: nothing to change, revision 2 says the same; it is enabled, next due ")
    two("disable", "report")
    assert two.lines("update", "report", "c.yaml")[0].startswith("report: revision 3 is live; it is enabled")


def test_a_bad_update_names_file_and_line_and_changes_nothing(two: CommandLine) -> None:
    two.write("c.yaml", "graceSeconds: 5\ngrace: 7\n")
    (line,) = two.errors("update", "report", "c.yaml", code=2)
    assert line == "c.yaml:2: grace: unknown key (write `graceSeconds`)"
    assert two.json("show", "report")["schedule"]["revision"] == 1


def test_an_update_from_standard_input(two: CommandLine) -> None:
    two("update", "poll", "-", "--input-format", "yaml", input="every: 20m")
    assert two.json("show", "poll")["schedule"]["definition"]["trigger"]["intervalMs"] == 1_200_000


def test_a_control_says_the_new_state_once(two: CommandLine) -> None:
    assert two.lines("pause", "report")[0].startswith("report: paused (operator)")
    assert two.lines("resume", "report")[0].startswith("report: resumed; it is enabled, next due ")
    assert two.lines("disable", "report")[0].startswith("report: disabled (operator) (state version ")
    assert two.lines("enable", "report")[0].startswith("report: enabled, next due ")
    assert two.lines("pause", "report", "--until", "2999-01-01T00:00:00Z")[0].count("paused") == 1
    assert two.lines("cancel", "report")[0].count("cancelled") == 1


def test_run_makes_an_extra_occurrence_in_its_own_series(two: CommandLine) -> None:
    made = two.json("run", "report")
    assert (made["series"], made["ordinal"], made["state"]) == ("manual", 0, "ready")
    assert two.json("show", "report")["schedule"]["nextOrdinal"] == 0
    assert two.errors("run", "poll", code=1)[0].startswith("'poll' is disabled: run is not possible")


def test_pending_work_refuses_a_delete_and_an_update(two: CommandLine) -> None:
    two("run", "report")
    two.write("c.yaml", "graceSeconds: 5\n")
    told = "'report' has 1 occurrence waiting, running or retrying; let it finish, or "
    first = "cancel the schedule first (`calsched cancel`)"
    assert two.errors("delete", "report", code=1) == [told + first]
    with_it = "cancel what is pending with the update (`--cancel-pending`)"
    assert two.errors("update", "report", "c.yaml", code=1) == [told + with_it]
    assert "revision 2 is live" in two.lines("update", "report", "c.yaml", "--cancel-pending")[0]


def test_skips_are_wishes_until_they_are_judged(two: CommandLine) -> None:
    due = two.json("show", "report")["schedule"]["nextDue"]
    assert two.lines("skip-next", "report", "--note", "audit")[0].startswith(f"report: {due} will be skipped; ")
    (skip,) = two.json("show", "report")["skips"]
    assert (skip["due"], skip["note"]) == (due, "audit")
    assert "asked for it to be skipped (audit)" in two("why", "report", due).stdout
    assert "will not be skipped" in two.lines("unskip", "report", due)[0]
    assert two.errors("unskip", "report", due, code=1)[0].startswith("'report' has no skip at")
    assert "is not a due instant" in two.errors("skip", "report", "2999-01-01T00:00:00Z", code=2)[0]


def test_after_a_skip_the_instant_that_follows_is_named_wherever_the_next_due_is(two: CommandLine) -> None:
    coming = [one["due"] for one in two.json("show", "report")["coming"]]
    (line,) = two.lines("skip-next", "report")
    assert f"next due {coming[0]} (to be skipped), then {coming[1]} " in line
    (line,) = two.lines("skip-next", "report")
    assert line.startswith(f"report: {coming[1]} will be skipped; ")
    assert f"next due {coming[0]} (to be skipped), then {coming[2]} " in line
    two("pause", "report")
    assert f"next due {coming[0]} (to be skipped), then {coming[2]} " in two.lines("resume", "report")[0]
    shown = [line for line in two.lines("show", "report") if line.startswith(tuple(coming)) and "asked" not in line]
    assert [line.endswith("to be skipped") for line in shown] == [True, True, *[False] * (len(coming) - 2)]
    (row,) = (line for line in two.lines("list") if line.startswith("report "))
    assert "to be skipped" in row
    two("unskip", "report", coming[0])
    assert "(to be skipped)" not in two.lines("unskip", "report", coming[1])[0]
    assert not any("to be skipped" in line for line in two.lines("list"))


def test_a_skip_of_the_last_due_instant_says_that_none_follows(cli: CommandLine) -> None:
    cli.write("a.yaml", "id: a\nat: 2999-01-01T00:00:00Z\ntask: jobs:run\n")
    cli("create", "a.yaml")
    assert "next due 2999-01-01T00:00:00Z (to be skipped), then never again" in cli.lines("skip-next", "a")[0]


def test_a_whole_namespace_is_deleted_only_when_it_is_named_and_meant(two: CommandLine) -> None:
    two("--namespace", "other", "create", "a.yaml")
    assert "name a schedule, or a whole namespace" in two.errors("delete", code=2)[0]
    assert "say --yes" in two.errors("delete", "--namespace", "other", code=2)[0]
    assert two.lines("delete", "--namespace", "other", "--yes") == ["namespace other: 2 schedules deleted"]
    assert len(two.json("list", "--all")["schedules"]) == 2


def test_options_that_all_share_may_stand_before_or_after_the_command(two: CommandLine) -> None:
    before = two("--json", "--namespace", "default", "list").stdout
    assert before == two("list", "--json", "--namespace", "default").stdout


def test_a_skip_names_its_argument_as_it_was_typed(cli: CommandLine) -> None:
    cli.write("a.yaml", "id: a\nevery: 1h\ntask: jobs:run\n")
    cli("create", "a.yaml")
    (line,) = cli.errors("skip", "a", "2020-01-01T00:00:01Z", code=2)
    assert line.startswith("INSTANT: 2020-01-01T00:00:01Z is not a due instant")


class Said(Exception):
    """What MariaDB's driver raises, with the number of the error."""


def test_a_store_that_is_busy_for_too_long_is_one_line_and_exit_code_3(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.write("s.yaml", "timezone: UTC\nschedules:\n  a: {every: 1h, task: 'json:dumps'}\n")
    cli("create", "s.yaml")

    def lose(*_: Any, **__: Any) -> None:
        raise OperationalError("SELECT …", {}, Said(1213, "Deadlock found when trying to get lock"))

    monkeypatch.setattr(conflicts, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(control, "pause", lose)
    (line,) = cli.errors("pause", "a", code=3)
    assert line.endswith("is busy: it and another transaction waited for each other; nothing was changed, try again")
