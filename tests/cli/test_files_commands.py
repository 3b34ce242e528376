from __future__ import annotations

import json
import re

import pytest

from tests.cli.conftest import CommandLine

REPORT = """\
    timezone: America/New_York
    schedules:
      report:
        description: Figures
        trigger: {kind: calendar, at: "02:30", exclude: [2026-03-10]}
        task: jobs:write
    """


def test_check_of_good_files_says_how_many(cli: CommandLine) -> None:
    cli.write("a.yaml", REPORT)
    assert cli.lines("check", "a.yaml") == ["1 schedule is fine"]


def test_check_names_every_problem_of_every_file_with_its_place(cli: CommandLine) -> None:
    cli.write(
        "plans/a.yaml", "schedules:\n  x:\n    trigger: {kind: calendar, hour: 9, weekdays: mo}\n    task: nope\n"
    )
    cli.write("plans/b.yaml", "schedules:\n  y: {every: 5m, task: jobs:run, grace: 3}\n")
    told = cli.errors("check", "plans", code=2)
    assert [line.split(": ", 2)[:2] for line in told] == [
        ["plans/a.yaml:3", "schedules.x.trigger.timezone"],
        ["plans/a.yaml:3", "schedules.x.trigger.weekdays"],
        ["plans/a.yaml:4", "schedules.x.task"],
        ["plans/b.yaml:2", "schedules.y.grace"],
    ]
    assert "expected 0 to 6 or a day name, got 'mo'" in told[1]


def test_check_as_json_says_whether_it_is_good(cli: CommandLine) -> None:
    cli.write("a.yaml", REPORT)
    good = cli.json("check", "a.yaml")
    assert (good["ok"], good["schedules"][0]["id"], good["schedules"][0]["line"]) == (True, "report", 3)
    cli.write("b.yaml", "schedules: {y: {every: 5m, task: jobs:run, grace: 3}}\n")
    bad = cli.json("check", "b.yaml", code=2)
    assert (bad["ok"], bad["problems"][0]["path"], bad["problems"][0]["hint"]) == (
        False, "schedules.y.grace", "write `graceSeconds`",
    )  # fmt: skip


def test_check_reads_standard_input_with_a_format(cli: CommandLine) -> None:
    text = '{"id": "x", "every": "5m", "task": "jobs:run"}'
    assert cli.lines("check", "-", "--input-format", "json", input=text) == ["1 schedule is fine"]
    assert cli.errors("check", "-", code=2, input=text) == [
        "--input-format: standard input has no name that tells its format (yaml, json or toml)"
    ]
    assert "cannot be mixed" in cli.errors("check", "-", "a.yaml", "--input-format", "json", code=2)[0]
    assert "expected yaml, json or toml" in cli.errors("check", "-", "--input-format", "xml", code=2)[0]


def test_ids_with_terminal_escapes_are_shown_escaped(cli: CommandLine) -> None:
    text = json.dumps({"id": "x\x1b[31m[bold]", "every": "5m", "task": "jobs:run"})
    (line,) = cli.errors("check", "-", "--input-format", "json", code=2, input=text)
    assert "\\x1b[31m[bold]" in line
    assert "\x1b" not in line


def test_preview_shows_utc_and_wall_time_and_what_is_left_out(cli: CommandLine) -> None:
    cli.write("a.yaml", REPORT)
    told = cli.lines("preview", "a.yaml", "--from", "2026-03-07T12:00:00Z", "--to", "2026-03-11T12:00:00Z")
    assert told[:7] == [
        "report  America/New_York  Figures",
        "  at 02:30 every day in America/New_York, except 2026-03-10",
        "UTC                   WALL TIME            DAY        REMARKS",
        "2026-03-08T07:30:00Z  2026-03-08 02:30:00  Sunday     left out: 02:30 does not exist on 2026-03-08 in"
        " America/New_York; gap: skip",
        "2026-03-09T06:30:00Z  2026-03-09 02:30:00  Monday",
        "2026-03-10T06:30:00Z  2026-03-10 02:30:00  Tuesday    left out: 2026-03-10 is excluded",
        "2026-03-11T06:30:00Z  2026-03-11 02:30:00  Wednesday",
    ]
    assert told[-1].startswith("digest sha256:")


def test_preview_as_json_has_slots_apart_from_what_is_left_out(cli: CommandLine) -> None:
    cli.write("a.yaml", REPORT)
    (one,) = cli.json("preview", "a.yaml", "--from", "2026-03-07T12:00:00Z", "--count", "1")["schedules"]
    assert one["slots"] == [
        {"due": "2026-03-09T06:30:00Z", "local": "2026-03-09T02:30:00", "weekday": "Monday", "marks": []}
    ]
    assert [gone["due"] for gone in one["leftOut"]] == ["2026-03-08T07:30:00Z"]
    assert one["more"] is True


def test_preview_draws_a_month(cli: CommandLine) -> None:
    cli.write("a.yaml", REPORT)
    told = cli.lines("preview", "a.yaml", "--month", "2026-03")
    assert [line.split() for line in told[2:6]] == [
        ["March", "2026"],
        ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"],
        ["1*"],
        ["2*", "3*", "4*", "5*", "6*", "7*", "8x"],
    ]
    assert "  2026-03-10 is excluded" in told


def test_the_days_of_a_month_stand_under_their_names_and_counts_are_whole(cli: CommandLine) -> None:
    cli.write("a.yaml", "schedules: {poll: {every: 1m, task: jobs:poll}, daily: {every: 24h, task: jobs:poll}}")
    told = cli.lines("preview", "a.yaml", "--month", "2026-06")  # the first is a Monday
    for names, days in ((told[3], told[4]), (told[13], told[14])):
        starts = [match.start() for match in re.finditer(r"[A-Z]", names)]
        assert [days[start : start + 2].strip() for start in starts] == list("1234567")
    assert (told[4].split()[0], told[14].split()[0]) == ("1×1440", "1*")


def test_a_rule_with_too_many_slots_is_counted_and_the_others_are_shown(cli: CommandLine) -> None:
    cli.write("a.yaml", "schedules: {dense: {every: 1s, task: jobs:poll}, daily: {every: 24h, task: jobs:poll}}")
    told = cli.lines("preview", "a.yaml", "--month", "2026-06")
    assert "  2,592,000 slots in that span, too many to show; ask for --count, or --from and --to" in told
    assert sum("*" in line for line in told) == 5
    span = ("--from", "2026-06-01T00:00:00Z", "--to", "2026-06-02T23:59:59Z")
    dense, daily = cli.json("preview", "a.yaml", *span)["schedules"]
    assert (dense["total"], dense["slots"]) == (172_800, [])
    assert (daily["total"], len(daily["slots"])) == (None, 2)
    (refused,) = cli.errors("preview", "a.yaml", *span, "--ics", "a.ics", code=2)
    assert refused == "--ics a.ics: 'dense' has 172,800 slots in that span, too many for a file"


def test_preview_writes_a_calendar_file(cli: CommandLine) -> None:
    cli.write("a.yaml", REPORT)
    cli("preview", "a.yaml", "--count", "3", "--ics", "out.ics")
    assert (cli.folder / "out.ics").read_bytes().count(b"BEGIN:VEVENT\r\n") == 3
    assert cli.errors("preview", "a.yaml", "--ics", "no/where.ics", code=2) == [
        "--ics no/where.ics: cannot be written: No such file or directory"
    ]


def test_preview_touches_no_store(cli: CommandLine) -> None:
    cli.write("a.yaml", REPORT)
    cli("preview", "a.yaml")
    assert [file.name for file in cli.folder.iterdir()] == ["a.yaml"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--month", "2026-13"], "--month: expected a month such as 2026-11, got '2026-13'"),
        (
            ["--month", "2026-11", "--count", "3"],
            "--month: a month has its own span (leave out --count, --from and --to)",
        ),
        (["--from", "2026-03-07"], "--from: expected an instant such as 2026-03-09T09:00:00-06:00, got '2026-03-07'"),
        (["--from", "2026-03-07T00:00:00Z", "--to", "2026-03-06T00:00:00Z"], "--to: the end is before the start"),
        (["--count", "0"], "--count: "),
    ],
)
def test_a_bad_span_is_refused(cli: CommandLine, args: list[str], message: str) -> None:
    cli.write("a.yaml", REPORT)
    assert cli.errors("preview", "a.yaml", *args, code=2)[0].startswith(message)
