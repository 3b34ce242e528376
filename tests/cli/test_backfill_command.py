"""calsched backfill: shows, writes, holds and cancels; what a span and its options may be."""

from __future__ import annotations

import json

import pytest

from calsched.app import App
from calsched.errors import Refused
from calsched.stores import backfill as verbs
from calsched.testing import VirtualApp
from tests.cli.conftest import CommandLine

DAILY = "schedules: {daily: {trigger: {kind: calendar, at: '09:00', timezone: UTC}, task: jobs:send}}\n"
MARCH = ("--from", "2026-03-01T00:00:00Z", "--to", "2026-04-01T00:00:00Z")


@pytest.fixture
def daily(cli: CommandLine) -> CommandLine:
    cli.write("a.yaml", DAILY)
    cli.write("jobs.py", "def send():\n    return 'sent'\n")
    cli("create", "a.yaml")
    return cli


def test_a_dry_run_shows_what_would_run_and_writes_nothing(daily: CommandLine) -> None:
    lines = daily.lines("backfill", "daily", *MARCH, "--dry-run")
    assert lines[0] == "2026-03-01T09:00:00Z  never judged"
    assert lines[-1] == "daily: 31 due instants would run (31 never judged)"
    assert len(lines) == 32
    told = daily.json("backfill", "daily", *MARCH, "--dry-run")
    assert (told["revision"], told["leftOut"]) == (1, {})
    assert told["found"][30] == {"due": "2026-03-31T09:00:00Z", "verdict": "none"}
    assert daily.json("show", "daily")["pending"] == []


def test_a_long_dry_run_lists_the_first_ones(daily: CommandLine) -> None:
    lines = daily.lines(
        "backfill", "daily", "--from", "2026-01-01T00:00:00Z", "--to", "2026-04-11T00:00:00Z", "--dry-run"
    )
    assert lines[50] == "and 50 more, the last one 2026-04-10T09:00:00Z"


def test_a_backfill_of_one_day_names_it_once(daily: CommandLine) -> None:
    result = daily("backfill", "daily", "--from", "2026-02-01T00:00:00Z", "--to", "2026-02-02T00:00:00Z")
    assert result.stdout == "daily: backfill of 1 occurrence, one at a time, due 2026-02-01T09:00:00Z\n"


def test_a_backfill_runs_beside_the_slots_in_the_order_asked_for(daily: CommandLine) -> None:
    result = daily(
        "backfill", "daily", *MARCH, "--newest-first", "--max-concurrent", "2", "--note", "the feed was empty"
    )
    assert result.stdout == (
        "daily: backfill of 31 occurrences, 2 at once, due 2026-03-01T09:00:00Z to 2026-03-31T09:00:00Z\n"
    )
    assert result.stderr == "backfill of daily: 31 of 31 (100 %)\n"
    pending = daily.json("show", "daily")["pending"]
    assert {one["series"] for one in pending} == {"backfill"}
    assert [one["due"][:10] for one in pending if one["state"] == "ready"] == ["2026-03-31", "2026-03-30"]
    newest = daily.json("show", "daily")["decisions"][0]
    assert (newest["action"], newest["note"], newest["evidence"]["count"]) == ("backfill", "the feed was empty", 31)
    daily("tick", "--allow", "jobs:*")
    assert daily.json("show", "daily")["pending"] == []
    assert daily.lines("backfill", "daily", *MARCH, "--only", "missing", "--dry-run")[-2:] == [
        "daily: 0 due instants would run",
        "left out: 31 succeeded",
    ]
    (line,) = daily.errors("backfill", "daily", *MARCH, "--only", "failed", code=1)
    assert line == "nothing of 'daily' to backfill there: 31 succeeded"


def test_json_has_what_was_made_and_nothing_beside_it(daily: CommandLine) -> None:
    result = daily("backfill", "daily", *MARCH, "--json")
    told = json.loads(result.stdout)
    assert (told["occurrences"], told["leftOut"], told["schedule"]["openCount"]) == (31, {}, 31)
    assert result.stderr == ""


def test_a_backfill_is_held_goes_on_and_is_cancelled(daily: CommandLine) -> None:
    daily("backfill", "daily", *MARCH)
    assert daily.lines("backfill", "daily", "--pause") == ["daily: 31 occurrences of its backfills held"]
    daily("tick", "--allow", "jobs:*")
    assert daily.json("show", "daily")["schedule"]["openCount"] == 31
    assert daily.json("backfill", "daily", "--resume") == {"id": "daily", "move": "resume", "occurrences": 31}
    assert daily.lines("backfill", "daily", "--cancel") == ["daily: 31 occurrences of its backfills cancelled"]
    assert daily.json("show", "daily")["pending"] == []
    assert daily.lines("backfill", "daily", "--cancel") == ["daily: 0 occurrences of its backfills cancelled"]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ([], "--from: say where it begins (--from 2026-03-01T00:00:00Z [--to 2026-04-01T00:00:00Z])"),
        (["--from", "2026-03-01"], "--from: expected an instant such as 2026-03-09T09:00:00-06:00, got '2026-03-01'"),
        (
            ["--from", "2026-04-01T00:00:00Z", "--to", "2026-03-01T00:00:00Z"],
            "--to: expected an instant that is not before --from",
        ),
        ([*MARCH, "--only", "skipped"], "--only: expected missing or failed, got 'skipped'"),
        (["--pause", "--cancel"], "--pause: --pause and --cancel cannot stand together"),
        (["--resume", *MARCH], "--resume: --resume cannot stand together with a span"),
    ],
)
def test_what_cannot_be_asked_for_is_told_and_changes_nothing(
    daily: CommandLine, options: list[str], line: str
) -> None:
    assert daily.errors("backfill", "daily", *options, code=2) == [line]
    assert daily.json("show", "daily")["schedule"]["openCount"] == 0


def test_a_span_without_a_past_due_instant_is_refused(daily: CommandLine) -> None:
    span = ("--from", "2026-03-01T10:00:00Z", "--to", "2026-03-02T08:00:00Z")
    (line,) = daily.errors("backfill", "daily", *span, code=1)
    assert line == "nothing of 'daily' to backfill there: its rule has no due instant in that span that is past"
    assert daily.errors("backfill", "nobody", *MARCH, code=1)[0].startswith("no schedule 'nobody'")


def test_a_paused_schedule_and_a_stale_revision_are_refused(daily: CommandLine) -> None:
    (line,) = daily.errors("backfill", "daily", *MARCH, "--revision", "7", code=1)
    assert line.startswith("expected revision 7, but it is 1 now")
    daily("pause", "daily")
    (line,) = daily.errors("backfill", "daily", *MARCH, code=1)
    assert line == ("'daily' is paused: backfill is not possible: nothing of it would start; resume or enable it first")


def test_a_thousand_of_many_due_instants_come_in_pages_and_too_many_are_refused(cli: CommandLine) -> None:
    cli.write("a.yaml", "schedules: {poll: {every: 1m, task: jobs:send}}")
    cli("create", "a.yaml")
    (line,) = cli.errors("backfill", "poll", "--from", "2026-03-01T00:00:00Z", code=2)
    assert line == "from: more than 10,000 due instants lie in this span (take a part)"
    result = cli("backfill", "poll", "--from", "2026-03-01T00:00:00Z", "--to", "2026-03-01T20:00:00Z")
    assert result.stdout.startswith("poll: backfill of 1,201 occurrences, one at a time")
    shown = cli.json("show", "poll")
    assert shown["schedule"]["openCount"] == 1_201
    assert [one["action"] for one in shown["decisions"]].count("backfill") == 1


def test_progress_is_told_page_by_page_and_what_is_written_stays_when_it_is_stopped() -> None:
    with VirtualApp("2026-06-01") as app:
        app.load({"schedules": {"poll": {"every": "1m", "task": "tests.cli.test_backfill_command:nothing"}}})
        told: list[tuple[int, int | None]] = []

        def cancel_at_a_thousand(done: int, total: int | None) -> None:
            told.append((done, total))
            if done == 1_000:
                app.cancel_backfill("poll")

        start = app.now() - 86_400_000
        with pytest.raises(Refused, match=r"ended after 1,000 occurrences: it was cancelled"):
            app.backfill("poll", start, app.now(), progress=cancel_at_a_thousand)
        assert told == [(verbs.PAGE, 1_440), (2 * verbs.PAGE, 1_440)]
        assert app.get("poll").open_count == 0


def test_backfilled_runs_know_their_due_time_and_the_slots_their_own() -> None:
    with VirtualApp("2026-06-01") as app:
        ran: list[str] = []
        app.add(lambda: ran.append("ran"), {"kind": "calendar", "at": "09:00", "timezone": "UTC"}, id="daily")
        start = app.now() - 3 * 86_400_000
        app.backfill("daily", start, app.now(), newest_first=True)
        found = app.advance(days=1)
        assert [(one.series, f"{one.due:%m-%d}") for one in found] == [
            ("backfill", "05-31"), ("backfill", "05-30"), ("backfill", "05-29"), ("slot", "06-01"),
        ]  # fmt: skip
        assert len(ran) == 4


def nothing() -> None:
    pass


def test_an_app_offers_what_the_command_does() -> None:
    assert {"backfill", "backfill_candidates", "hold_backfill", "cancel_backfill"} <= set(dir(App))
