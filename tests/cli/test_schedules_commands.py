"""What `list`, `show` and `history` show of a ledger with a past."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from calsched.clock import SystemClock, to_rfc3339
from calsched.stores.engine import Store
from tests.cli.conftest import CommandLine
from tests.stores._helpers import MINUTE, SECOND, Ledger, every, failed


@pytest.fixture
def past(cli: CommandLine) -> Iterator[Ledger]:
    """`a` ran, was down for five slots, failed once; `b` is paused."""
    store = Store(f"sqlite:///{cli.folder}/calsched.db")
    store.open()
    now = SystemClock().now()
    start = now - now % MINUTE - 10 * MINUTE
    ledger = Ledger(store, start)
    ledger.create(every(description="[bold]every minute\x1b[0m", max_retries=1, retry_delay=SECOND))
    ledger.create(every(5 * MINUTE, "b"))
    ledger.control("pause", "b", note="not now")
    ledger.tick(start)
    ledger.run()
    ledger.tick(start + 6 * MINUTE + 30 * SECOND)
    ledger.finish(failed(ledger.begin()[0], ledger.now, "no figures"))
    ledger.now += 5 * SECOND
    ledger.run()
    with store.write() as conn:
        from calsched.stores import recover

        recover.stop_owner(store, conn, ledger.epoch, ledger.now)
    yield ledger
    store.dispose()


def own(past: Ledger) -> None:
    """A new owner comes."""
    from calsched.stores import recover

    with past.store.write() as conn:
        past.epoch = recover.register_owner(past.store, conn, "next", "host", 2, past.now, 30_000)


def test_a_list_has_a_line_a_schedule_and_says_that_no_owner_lives(cli: CommandLine, past: Ledger) -> None:
    result = cli("list")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["ID", "STATE", "NEXT", "DUE", "IN", "PENDING", "FAILURES"]
    assert lines[1][:2] == ["a", "enabled"] and lines[1][3] == "overdue"
    assert lines[2] == ["b", "paused", "(operator)"]
    assert result.stderr.splitlines() == [
        "no owner lives: nothing is judged or run until one is started:",
        f"  calsched --store sqlite:///{cli.folder}/calsched.db serve --allow 'jobs:*'",
    ]


def test_the_serve_command_names_the_configuration_where_there_is_one(cli: CommandLine, past: Ledger) -> None:
    cli.write("calsched.toml", 'store = "sqlite:///calsched.db"\nallow = ["jobs:*"]\n')
    assert cli.errors("list", code=0)[1] == f"  calsched --config {cli.folder}/calsched.toml serve"
    assert cli.json("list")["serve"] == f"calsched --config {cli.folder}/calsched.toml serve"


def test_a_list_can_be_narrowed_and_paged(cli: CommandLine, past: Ledger) -> None:
    assert [one["id"] for one in cli.json("list", "--state", "paused")["schedules"]] == ["b"]
    assert cli.lines("list", "--attention") == ["nothing needs attention"]
    first = cli.json("list", "--limit", "1")
    assert [one["id"] for one in first["schedules"]] == ["a"]
    second = cli.json("list", "--limit", "1", "--page", first["nextPage"])
    assert ([one["id"] for one in second["schedules"]], second["nextPage"]) == (["b"], None)
    assert "expected one of enabled" in cli.errors("list", "--state", "broken", code=2)[0]
    assert "page: expected what an earlier answer gave" in cli.errors("list", "--page", "x", code=2)[0]
    assert cli.json("list", "--namespace", "empty")["schedules"] == []


def test_show_tells_definition_state_coming_slots_and_history(cli: CommandLine, past: Ledger) -> None:
    text = cli("show", "a").stdout
    assert "\x1b" not in text and "[bold]every minute\\x1b[0m" in text
    fields = dict(line.split("  ", 1) for line in text.splitlines() if line.startswith(("state ", "trigger ", "task ")))
    assert fields["trigger"].strip() == "every 1m"
    assert fields["task"].strip() == "jobs:run()"
    history = text[text.index("DUE   ") :].splitlines()
    assert [line.split()[1:3] for line in history[1:4]] == [
        ["6", "succeeded"],
        ["1–5", "represented"],
        ["0", "succeeded"],
    ]
    assert "2 attempts; represents 1–6" in history[1]
    assert "5 slots, the first due" in history[2]


def test_show_as_json_has_stable_keys(cli: CommandLine, past: Ledger) -> None:
    told = cli.json("show", "a")
    assert set(told) == {
        "schedule", "zone", "coming", "revisions", "pending", "history", "skips", "decisions", "owned", "serve",
        "hold",
    }  # fmt: skip
    newest, outage, first = told["history"]["entries"]
    assert (newest["kind"], newest["state"], newest["attempt"], newest["elapsedMs"]) == (
        "occurrence",
        "succeeded",
        2,
        10,
    )
    assert newest["attempts"][0]["error"] == "no figures"
    assert (outage["kind"], outage["verdict"], outage["first"], outage["last"]) == ("range", "represented", 1, 5)
    assert first["due"] == to_rfc3339(past.now - past.now % MINUTE - 6 * MINUTE)
    assert told["coming"][0]["due"] == told["schedule"]["nextDue"]
    assert "pk" not in newest and "occurrencePk" not in outage


def test_history_is_paged_newest_first(cli: CommandLine, past: Ledger) -> None:
    seen, page = [], None
    for _ in range(5):
        told = cli.json("history", "a", "--limit", "1", *([] if page is None else ["--page", page]))
        seen += [entry.get("ordinal", entry.get("first")) for entry in told["entries"]]
        page = told["nextPage"]
        if page is None:
            break
    assert seen == [6, 1, 0]
    assert cli.lines("history", "a", "--limit", "1")[-1].startswith("… and older ones: --page '[")


def test_doctor_finds_what_is_overdue_and_says_so_with_its_exit_code(cli: CommandLine, past: Ledger) -> None:
    told = cli.json("doctor", code=1)
    assert (told["ok"], [one["kind"] for one in told["findings"]]) == (False, ["overdue"])
    assert cli.json("doctor", "--slack", "1h")["ok"] is True
    assert "overdue: due for long, and not judged" in cli("doctor", code=1).stdout


def test_doctor_names_a_schedule_that_paused_itself(cli: CommandLine, past: Ledger) -> None:
    again = Ledger(past.store, past.now)
    again.create(every(60 * MINUTE, "c", pause_after_failures=1))
    again.tick(past.now + 60 * MINUTE)
    again.run(fail=True)
    told = cli.json("doctor", "--slack", "24h", code=1)
    assert [(one["kind"], one["facts"]["id"]) for one in told["findings"]] == [("attention", "c")]
    assert [one["id"] for one in cli.json("list", "--attention")["schedules"]] == ["c"]


def test_doctor_finds_a_hole_in_the_tiling(cli: CommandLine, past: Ledger) -> None:
    import sqlite3

    conn = sqlite3.connect(cli.folder / "calsched.db", isolation_level=None)
    conn.execute("DELETE FROM calsched_ranges")
    conn.close()
    told = cli.json("doctor", "--slack", "1h", code=1)
    assert ("tiling", 1, 6) in [
        (f["kind"], f["facts"].get("expected"), f["facts"].get("found")) for f in told["findings"]
    ]


def test_clock_and_zone_data_are_told(cli: CommandLine, past: Ledger) -> None:
    assert cli.json("clock")["hold"] is None
    told = cli.json("tzdata")
    assert (told["source"], told["version"][:2]) == ("package", "20")


def test_the_forecast_counts_enabled_schedules(cli: CommandLine, past: Ledger) -> None:
    told = cli.json("forecast", "--days", "1")
    assert (told["schedules"], told["total"], set(told["hours"])) == (1, 1440, {60})
    assert told["worst"][0]["schedules"] == ["a"]
    assert "1,440 starts of 1 schedule" in cli("forecast", "--days", "1").stdout


def test_a_hold_of_the_clock_is_told_and_accepted(cli: CommandLine, past: Ledger) -> None:
    from calsched.stores import recover

    with past.store.write() as conn:
        for now in (past.now, past.now - 60 * MINUTE):
            recover.observe_clock(past.store, conn, now)
    assert cli.json("clock")["hold"] == "backward"
    for args in (("list",), ("list", "--attention"), ("show", "a")):
        told = cli(*args).stderr.splitlines()
        assert told[0].startswith("nothing is dispatched: the wall clock is behind what it has shown before")
        assert told[2].endswith("serve --allow 'jobs:*'")
        assert cli.json(*args)["hold"] == "backward"
    assert "hold" in [one["kind"] for one in cli.json("doctor", code=1)["findings"]]
    assert cli.lines("clock", "accept", "--note", "the battery") == [
        "the clock is accepted as it is; the hold (backward) has ended"
    ]
    assert cli.json("clock")["hold"] is None
    assert cli.errors("clock", "--rewind", code=2) == ["--rewind: this belongs to `calsched clock accept`"]
    assert cli.errors("clock", "reject", code=2) == ["clock: expected accept, or nothing, got 'reject'"]


def test_what_would_move_under_other_zone_data(cli: CommandLine, past: Ledger) -> None:
    """A folder in which Winnipeg has the clock of Berlin stands for another version."""
    import importlib.resources

    zones = importlib.resources.files("tzdata") / "zoneinfo"
    other = cli.folder / "zones" / "America"
    other.mkdir(parents=True)
    (other / "Winnipeg").write_bytes((zones / "Europe" / "Berlin").read_bytes())
    (other.parent / "tzdata.zi").write_text("# version 2099z\n")
    cli.write(
        "z.yaml",
        'schedules: {nine: {trigger: {kind: calendar, at: "09:00", timezone: America/Winnipeg}, task: jobs:x}}',
    )
    cli("create", "z.yaml")
    told = cli.json("tzdata", "--against", str(other.parent), "--days", "2")
    (move,) = told["moves"]
    assert (move["id"], move["zone"], move["changes"]["moved"][0]["local"][11:]) == (
        "nine",
        "America/Winnipeg",
        "09:00:00",
    )
    assert "would move" in cli("tzdata", "--against", "package").stdout
    assert "there is no zone data at '/nowhere'" in cli.errors("tzdata", "--against", "/nowhere", code=2)[0]


def test_what_a_schedule_that_failed_away_would_do_is_told_from_now_on(cli: CommandLine, past: Ledger) -> None:
    past.create(every(MINUTE, "c", pause_after_failures=1))
    past.tick(past.now + MINUTE)
    own(past)
    past.finish(failed(next(one for one in past.begin() if one.schedule_id == "c"), past.now))
    told = cli.json("show", "c")
    assert (told["schedule"]["state"], told["schedule"]["reason"]) == ("paused", "failures")
    assert told["coming"][0]["due"] > to_rfc3339(SystemClock().now())
    said = cli("doctor", code=1).stdout
    assert "attention: 'c' is paused after 1 failure in a row\n" in said
    assert "overdue: due for long, and not judged  id a, next_due 2" in said


def test_times_that_are_upper_bounds_and_who_stands_for_whom_are_told(cli: CommandLine, past: Ledger) -> None:
    past.create(every(MINUTE, "c"))
    past.tick(past.now + MINUTE)
    own(past)
    past.begin()
    past.now += MINUTE
    own(past)
    (row,) = (line for line in cli.lines("history", "c") if "interrupted" in line)
    assert "≤ 1 min" in row
    (row,) = (line for line in cli.lines("history", "a") if "represented" in line)
    assert row.endswith("by slot 6")
    past.control("cancel", "b")
    assert "cancelled (cancelled)" not in cli("list").stdout


def test_a_former_id_finds_the_schedule_and_says_that_it_was_renamed(cli: CommandLine, past: Ledger) -> None:
    past.control("rename", "b", new_id="c")
    past.control("rename", "c", new_id="d")
    for former in ("b", "c"):
        for args in (("show", former), ("history", former), ("why", former, "2026-03-09T09:00:00Z")):
            result = cli(*args)
            assert f"'{former}' was renamed: this is 'd'" in result.stderr.splitlines()
            assert result.stdout == cli(args[0], "d", *args[2:]).stdout
        assert cli.json("show", former)["schedule"]["id"] == "d"
    (line,) = cli.errors("pause", "b", code=1)
    assert line == "no schedule 'b' in namespace 'default'; it was renamed to 'd'"
    assert cli.errors("show", "never", code=1)[0].endswith("`calsched list` shows what there is")


def test_the_forecast_leaves_out_what_is_to_be_skipped(cli: CommandLine) -> None:
    cli.write("a.yaml", 'schedules: {nine: {trigger: {kind: calendar, at: "09:00", timezone: UTC}, task: jobs:x}}')
    cli("create", "a.yaml")
    before = cli.json("forecast", "--days", "3")["total"]
    cli("skip-next", "nine")
    assert cli.json("forecast", "--days", "3")["total"] == before - 1
