from __future__ import annotations

import pytest

from calsched.clock import SystemClock, to_datetime
from tests.cli.conftest import CommandLine

YEAR = to_datetime(SystemClock().now()).year + 1  # of a calendar that will not run out while the test runs
FILE = """\
    calendars:
      office: {{dates: [{closed}], through: {through}}}
    schedules:
      nine:
        trigger: {{kind: calendar, at: "09:00", timezone: UTC, calendar: office}}
        task: jobs:run
    """


def declare(cli: CommandLine, closed: str, through: int = YEAR + 5) -> None:
    cli.write("c.yaml", FILE.format(closed=closed, through=through))


@pytest.fixture
def office(cli: CommandLine) -> CommandLine:
    declare(cli, f"{YEAR}-03-02")
    cli("create", "c.yaml")
    return cli


def test_a_calendar_is_listed_with_its_version_and_its_users(office: CommandLine) -> None:
    (one,) = office.json("calendars", "list")["calendars"]
    assert (one["name"], one["version"], one["schedules"], one["runsOut"]) == ("office", 1, ["nine"], None)
    assert one["knownTo"] == f"{YEAR + 5}-12-31"
    assert office.lines("calendars", "list")[1].split() == ["office", "1", f"{YEAR + 5}-12-31", "nine"]
    assert f"{YEAR}-03-02" in office("calendars", "show", "office").stdout
    assert office.errors("calendars", "show", "x", code=1)[0].startswith("no calendar 'x'")


def test_a_calendar_is_shown_a_day_a_line_with_what_it_is_made_of(office: CommandLine) -> None:
    office.write(
        "more.yaml",
        """
        calendars:
          plant: {weekend: [sun], yearly: {"12-25": Christmas Day}, through: 2090}
          shop: {weekend: [sat, sun], dates: {2080-11-27: the day after}, through: 2090}
          both: {union: [plant, shop]}
        """,
    )
    office("calendars", "set", "more.yaml", "--yes")
    assert office.lines("calendars", "show", "both")[4:] == [
        "closed too where this is closed",
        "  through  2090",
        "  weekend  sun",
        "  yearly  12-25  Christmas Day",
        "closed too where this is closed",
        "  dates  2080-11-27  the day after",
        "  through  2090",
        "  weekend  sat, sun",
    ]


def test_the_effect_of_a_change_is_shown_before_it_is_done(office: CommandLine) -> None:
    declare(office, f"{YEAR}-03-03")
    shown = office("calendars", "set", "c.yaml", "--days", "800", code=2)
    lines = [line.strip() for line in shown.stdout.splitlines()]
    assert lines[:2] == ["new versions: office 2", "nine"]
    assert {f"- {YEAR}-03-03T09:00:00Z", f"+ {YEAR}-03-02T09:00:00Z"} <= set(lines)
    assert "say --yes" in shown.stderr
    assert office.json("calendars", "list")["calendars"][0]["version"] == 1
    assert office.lines("calendars", "set", "c.yaml", "--yes")[-1] == "done; 1 schedule follows"
    assert office.json("calendars", "list")["calendars"][0]["version"] == 2
    closed = office("why", "nine", f"{YEAR}-03-03T09:00:00Z").stdout
    assert "is not a due instant of 'nine'" in closed


def test_an_unchanged_calendar_changes_nothing(office: CommandLine) -> None:
    assert office.lines("calendars", "set", "c.yaml", "--yes") == ["nothing would change"]
    told = office.json("calendars", "set", "c.yaml", "--yes")
    assert told == {"versions": {}, "effects": [], "schedules": None}


def test_a_calendar_of_the_store_can_be_named_by_other_files(office: CommandLine) -> None:
    office.write(
        "d.yaml",
        'schedules: {ten: {trigger: {kind: calendar, at: "10:00", timezone: UTC, calendar: office}, task: jobs:run}}',
    )
    assert office.lines("check", "d.yaml") == ["1 schedule is fine"]


def test_a_calendar_that_runs_out_is_a_finding(cli: CommandLine) -> None:
    declare(cli, f"{YEAR - 2}-03-02", YEAR - 2)
    cli("create", "c.yaml")
    assert "calendar 'office' has run out" in cli.json("list")["warnings"][0]
    assert cli.errors("list", code=0)[0].startswith("warning: calendar 'office' has run out")
    told = cli.json("doctor", "--slack", "1h", code=1)
    assert [(one["kind"], one["facts"]) for one in told["findings"]] == [("calendar", {"calendar": "office"})]


def test_files_without_a_calendar_are_refused(cli: CommandLine) -> None:
    cli.write("a.yaml", "schedules: {a: {every: 5m, task: jobs:run}}\n")
    assert cli.errors("calendars", "set", "a.yaml", "--yes", code=2) == [
        "no calendars in these files; they stand under `calendars:`"
    ]
