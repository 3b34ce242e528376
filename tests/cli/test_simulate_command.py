from __future__ import annotations

import pytest

from tests.cli.conftest import CommandLine

POLL = "schedules: {poll: {every: 15m, task: jobs:poll}}\n"
SPAN = ["--from", "2026-03-01T00:00:00Z", "--to", "2026-03-01T02:00:00Z"]
DOWN = ["--down", "2026-03-01T00:10:00Z..2026-03-01T01:20:00Z"]


def test_an_outage_is_played_through(cli: CommandLine) -> None:
    cli.write("a.yaml", POLL)
    told = cli.json("simulate", "a.yaml", *SPAN, *DOWN, "--duration", "poll=90s", "--fail", "poll=1")
    assert [(row["first"], row["last"], row["verdict"], row["representedBy"]) for row in told["rows"]] == [
        (0, 0, "failed", None),
        (1, 4, "represented", 5),
        (5, 5, "succeeded", None),
        (6, 6, "succeeded", None),
        (7, 7, "succeeded", None),
    ]
    assert told["rows"][2]["ended"] == "2026-03-01T01:21:30Z"
    assert told["counts"] == {"poll": {"failed": 1, "represented": 4, "succeeded": 3}}


def test_people_get_a_table_and_the_sums(cli: CommandLine) -> None:
    cli.write("a.yaml", POLL)
    told = cli.lines("simulate", "a.yaml", *SPAN, *DOWN, "--limit", "2")
    assert told[0].split() == ["DUE", "SCHEDULE", "SLOT", "VERDICT", "STARTED", "TOOK", "REMARKS"]
    assert "… and 3 more rows (--limit)" in told
    assert told[-1] == "poll: 4 succeeded, 4 represented"


def test_the_misfire_policies_side_by_side(cli: CommandLine) -> None:
    cli.write("a.yaml", POLL.replace("}}", ", overlap: queue}}"))
    told = cli.lines("simulate", "a.yaml", *SPAN, *DOWN, "--compare", "misfire")
    assert [line.split() for line in told] == [
        ["SCHEDULE", "VERDICT", "runOnce", "skip", "boundedReplay", "catchUp"],
        ["poll", "represented", "4", "0", "0", "0"],
        ["poll", "skipped:", "misfire", "0", "5", "0", "0"],
        ["poll", "succeeded", "4", "3", "8", "8"],
    ]


def test_a_step_of_the_clock_holds_dispatch(cli: CommandLine) -> None:
    cli.write("a.yaml", POLL)
    told = cli.json("simulate", "a.yaml", *SPAN, "--clock-step", "2026-03-01T01:00:00Z=-10m")
    assert [hold["kind"] for hold in told["holds"]] == ["backward"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--down", "x"], "--down: expected A..B, two instants with two dots between, got 'x'"),
        (["--down", "2026-03-01T00:00:00Z..soon"], "--down: expected an instant"),
        (["--down", "2026-03-01T01:00:00Z..2026-03-01T00:00:00Z"], "--down: expected spans that end after they begin"),
        (["--clock-step", "2026-03-01T00:00:00Z=10m"], "--clock-step: expected AT=+DUR or AT=-DUR"),
        (["--duration", "poll"], "--duration: expected ID=VALUE, got 'poll'"),
        (["--duration", "poll=long"], "--duration: expected a duration such as 90s"),
        (["--duration", "nope=5s"], "--duration: there is no schedule 'nope'"),
        (["--fail", "poll=-1"], "--fail: expected a number of attempts, got '-1'"),
        (["--compare", "overlap"], "--compare: expected misfire, got 'overlap'"),
    ],
)
def test_a_bad_scenario_is_refused(cli: CommandLine, args: list[str], message: str) -> None:
    cli.write("a.yaml", POLL)
    assert cli.errors("simulate", "a.yaml", *SPAN, *args, code=2)[0].startswith(message)


def test_files_without_an_enabled_schedule_are_refused(cli: CommandLine) -> None:
    cli.write("a.yaml", "schedules: {poll: {every: 15m, task: jobs:poll, enabled: false}}\n")
    assert cli.errors("simulate", "a.yaml", *SPAN, code=2) == ["no enabled schedule in these files"]
