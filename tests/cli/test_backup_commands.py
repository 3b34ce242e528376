from __future__ import annotations

from collections.abc import Iterator

import pytest

from calsched.clock import SystemClock
from calsched.stores.engine import Store
from tests.cli.conftest import CommandLine
from tests.stores._helpers import HOUR, MINUTE, Ledger, every

OTHER = ("--store", "sqlite:///other.db")


@pytest.fixture
def past(cli: CommandLine) -> Iterator[Ledger]:
    """A schedule that ran once, and one that was running when the backup was made; five hours ago."""
    store = Store(f"sqlite:///{cli.folder}/calsched.db")
    store.open()
    now = SystemClock().now()
    ledger = Ledger(store, now - now % HOUR - 5 * HOUR)
    ledger.create(every(HOUR))
    ledger.tick()
    ledger.run()
    ledger.create(every(HOUR, "b"))
    ledger.now += MINUTE
    ledger.control("run_extra", "b")
    ledger.begin()
    yield ledger
    store.dispose()


def test_a_backup_is_restored_into_an_empty_store_with_its_identity(cli: CommandLine, past: Ledger) -> None:
    made = cli.json("backup", "ledger.backup")
    assert (made["rows"]["schedules"], len(made["sha256"])) == (2, 64)
    told = cli.json(*OTHER, "restore", "ledger.backup", "--note", "new disk")
    assert (told["installation"], told["paused"], told["interrupted"]) == (past.store.installation, 2, 1)
    listed = cli.json(*OTHER, "list")["schedules"]
    assert [(one["id"], one["state"], one["reason"]) for one in listed] == [
        ("a", "paused", "restored"),
        ("b", "paused", "restored"),
    ]
    assert [entry["state"] for entry in cli.json(*OTHER, "history", "b")["entries"]] == ["interrupted"]
    assert cli.json(*OTHER, "clock")["hold"] == "restored"


def test_a_restored_store_is_told_apart_as_new(cli: CommandLine, past: Ledger) -> None:
    cli("backup", "ledger.backup")
    told = cli.json(*OTHER, "restore", "ledger.backup", "--as-new")
    assert told["installation"] != past.store.installation


@pytest.mark.parametrize(("how", "skipped"), [("release", 0), ("drop", 5), ("latest", 4)])
def test_the_backlog_is_released_dropped_or_all_but_the_latest(
    cli: CommandLine, past: Ledger, how: str, skipped: int
) -> None:
    cli("backup", "ledger.backup")
    cli(*OTHER, "restore", "ledger.backup")
    assert len(cli.json(*OTHER, "backlog", how)["schedules"]) == 2
    # whoever has work cannot run it here, which pauses it, and which a tick says
    cli(*OTHER, "tick", "--allow", "nothing:*", code=0 if how == "drop" else 1)
    ranges = [one for one in cli.json(*OTHER, "history", "a")["entries"] if one["kind"] == "range"]
    assert sum(one["last"] - one["first"] + 1 for one in ranges if one["reason"] == "backlog") == skipped
    assert cli.json(*OTHER, "clock")["hold"] is None


def test_a_store_that_is_not_empty_is_not_restored_into(cli: CommandLine, past: Ledger) -> None:
    cli("backup", "ledger.backup")
    (line,) = [text for text in cli.errors("restore", "ledger.backup", code=1) if not text.startswith("restore:")]
    assert "holds schedules or decisions already" in line or "is owned by" in line


def test_a_backup_never_replaces_a_file(cli: CommandLine, past: Ledger) -> None:
    cli.write("ledger.backup", "precious")
    assert cli.errors("backup", "ledger.backup", code=2) == [
        "ledger.backup: it exists already; a backup never replaces a file"
    ]
    assert (cli.folder / "ledger.backup").read_text() == "precious"


def test_a_damaged_backup_is_refused_and_nothing_is_written(cli: CommandLine, past: Ledger) -> None:
    cli("backup", "ledger.backup")
    file = cli.folder / "ledger.backup"
    file.write_bytes(file.read_bytes().replace(b"jobs:run", b"evil:run"))
    (line,) = cli.errors(*OTHER, "restore", "ledger.backup", code=2)
    assert line.startswith("ledger.backup")
    file.write_text("not a backup\n")
    assert cli.errors(*OTHER, "restore", "ledger.backup", code=2)[0].startswith(
        "ledger.backup:1: expected a backup that `calsched backup` wrote"
    )
    assert cli.json(*OTHER, "list")["schedules"] == []


def test_without_a_restore_there_is_no_backlog(cli: CommandLine, past: Ledger) -> None:
    assert "waits for a decision after a restore" in cli.errors("backlog", "drop", code=1)[0]
    assert cli.errors("backlog", "keep", code=2) == ["backlog: expected release, drop or latest, got 'keep'"]
