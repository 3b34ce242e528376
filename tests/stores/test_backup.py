"""Backups from any database to any other; files that lie; and what becomes of the backlog."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from calsched.errors import InvalidInput, OwnedElsewhere, Refused
from calsched.stores import inspect, recover
from calsched.stores.backlog import backlog
from calsched.stores.backup import Backup, backup
from calsched.stores.engine import Store
from calsched.stores.lock import OwnerLock
from calsched.stores.restore import Restored, restore
from calsched.stores.tables import dump
from tests.stores._helpers import DAY, HOUR, MINUTE, T0, Ledger, SteppedClock, every, succeeded


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger(store)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.backup"


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Store]:
    """An empty store on SQLite."""
    made = Store(f"sqlite:///{tmp_path / 'target.db'}", clock=SteppedClock(T0 + HOUR))
    made.open()
    yield made
    made.dispose()


def lived(ledger: Ledger) -> None:
    """A ledger in which something of everything has happened."""
    ledger.create(every(MINUTE, "a", overlap="queue"))
    ledger.create(every(MINUTE, "b", misfire="skip", grace=0))
    ledger.create(every(MINUTE, "paused"))
    ledger.control("pause", "paused", note="\N{SNOWMAN} by hand")
    ledger.tick(T0)
    ledger.run(fail=True)
    ledger.tick(T0 + 3 * MINUTE)
    ledger.control("skip_next", "b")
    running, *_ = ledger.begin(1)
    ledger.claim(1)
    assert running.schedule_id in ("a", "b")


def taken(store: Store, path: Path) -> Backup:
    return backup(store, path)


def back(target: Store, path: Path, **more: Any) -> Restored:
    return restore(target, path, now=T0 + HOUR, principal="tester", **more)


def dumped(store: Store, name: str) -> list[Any]:
    with store.read() as conn:
        return list(dump.read(conn, store.tables, name))


def test_a_restored_ledger_has_the_same_history_paused_and_on_hold(ledger: Ledger, target: Store, file: Path) -> None:
    lived(ledger)
    made = taken(ledger.store, file)
    assert made.rows["schedules"] == 3
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    restored = back(target, file)
    assert (restored.rows, restored.paused, restored.interrupted) == (made.rows, 2, 1)
    assert target.installation == ledger.store.installation
    for name in ("revisions", "ranges", "skips", "calendars"):
        assert dumped(target, name) == dumped(ledger.store, name)
    copy = Ledger(target, T0 + HOUR)
    copy.check()
    for name in ("a", "b"):
        before, after = ledger.view(name), copy.view(name)
        assert (after.state, after.reason, after.next_due) == ("paused", "restored", None)
        assert (after.held_due, after.next_ordinal) == (before.next_due, before.next_ordinal)
        assert (after.revision, after.failures) == (before.revision, before.failures)
        assert copy.decisions(name)[-1] == "restore"
    untouched = copy.view("paused")
    assert (untouched.reason, untouched.note) == ("operator", "\N{SNOWMAN} by hand")
    states = [state for name in ("a", "b") for _, state, _ in copy.states(name)]
    assert "running" not in states and "claimed" not in states
    assert "interrupted" in states
    with target.read() as conn:
        assert inspect.clock_of(target, conn).hold == "restored"
    assert copy.claim() == []


def test_from_every_database_to_every_other(ledger: Ledger, url: str, file: Path, tmp_path: Path) -> None:
    lived(ledger)
    taken(ledger.store, file)
    prefix = f"r{secrets.token_hex(3)}_"
    other = Store(url.replace("ledger.db", "other.db"), prefix=prefix, clock=SteppedClock(T0 + HOUR))
    other.open()
    try:
        back(other, file)
        again = tmp_path / "again.backup"
        taken(other, again)
        copy = Ledger(other, T0 + HOUR)
        copy.check()
        copy.create(every(MINUTE, "fresh"))
        assert copy.view("fresh").pk > max(row[0] for row in dumped(ledger.store, "schedules"))
        assert copy.epoch > max(row[0] for row in dumped(ledger.store, "owners"))
    finally:
        if other.dialect != "sqlite":
            with other.engine.begin() as conn:
                other.tables.metadata.drop_all(conn)
        other.dispose()


def test_as_new_has_an_identity_of_its_own(ledger: Ledger, target: Store, file: Path) -> None:
    lived(ledger)
    taken(ledger.store, file)
    restored = back(target, file, as_new=True)
    assert restored.installation == target.installation != ledger.store.installation


def test_a_backup_never_replaces_a_file_and_leaves_no_part_behind(ledger: Ledger, file: Path, tmp_path: Path) -> None:
    lived(ledger)
    file.write_text("precious")
    with pytest.raises(InvalidInput, match="exists already"):
        taken(ledger.store, file)
    assert file.read_text() == "precious"
    with pytest.raises(InvalidInput, match="cannot be written"):
        taken(ledger.store, tmp_path / "nowhere" / "x")
    assert not list(tmp_path.glob("*.partial"))


def test_two_backups_of_one_name_at_once_are_one_whole_file(ledger: Ledger, target: Store, file: Path) -> None:
    lived(ledger)
    others: list[Path] = []

    def another(done: int, total: int) -> None:
        """A second one begins and ends while the first is being written."""
        if not others:
            others.append(file)
            taken(ledger.store, file)

    with pytest.raises(InvalidInput, match="exists already"):
        backup(ledger.store, file, progress=another)
    assert others
    assert [one.name for one in file.parent.iterdir() if one.name.startswith(file.name)] == [file.name]
    back(target, file)


def test_a_file_that_is_there_while_a_backup_is_written_keeps_its_content_and_the_backup_its_mode(
    ledger: Ledger, file: Path
) -> None:
    lived(ledger)
    precious = file.with_name(file.name + ".partial")
    precious.write_text("precious")
    taken(ledger.store, file)
    assert precious.read_text() == "precious"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_backup_is_a_file_that_can_be_read_twice(target: Store, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInput, match="not an ordinary file"):
        back(target, tmp_path / "pipe")


def test_only_an_empty_store_is_restored_into(ledger: Ledger, target: Store, file: Path) -> None:
    lived(ledger)
    taken(ledger.store, file)
    Ledger(target, T0 + HOUR).create(every(MINUTE, "mine"))
    with target.write() as conn:
        conn.execute(target.tables.owners.delete())
    with pytest.raises(Refused, match="restore into an empty store"):
        back(target, file)
    assert [row[2] for row in dumped(target, "schedules")] == ["mine"]


def test_a_store_that_an_owner_works_on_is_not_restored_into(
    ledger: Ledger, target: Store, file: Path, tmp_path: Path
) -> None:
    lived(ledger)
    taken(ledger.store, file)
    lock = OwnerLock(tmp_path / "target.db", "the owner")
    lock.acquire()
    with pytest.raises(OwnedElsewhere, match="the owner"):
        back(target, file)
    lock.release()
    back(target, file)


def test_the_high_water_of_a_false_future_does_not_hold_the_restored_store(
    ledger: Ledger, target: Store, file: Path
) -> None:
    lived(ledger)
    with ledger.store.write() as conn:
        recover.observe_clock(ledger.store, conn, T0 + 10_000 * HOUR)
    taken(ledger.store, file)
    back(target, file)
    with target.read() as conn:
        assert inspect.clock_of(target, conn).high_water == T0 + HOUR


# --- files that lie ---------------------------------------------------------------------------------------------------


def signed(lines: list[Any]) -> bytes:
    """Lines as a backup whose checksum and numbers of rows fit."""
    body, rows, table = b"", dict.fromkeys(dump.ORDER, 0), ""
    for line in lines:
        if isinstance(line, dict) and "table" in line:
            table = line["table"]
        elif isinstance(line, list) and table in rows:
            rows[table] += 1
        body += json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    end = {"end": True, "rows": rows, "sha256": hashlib.sha256(body).hexdigest()}
    return body + json.dumps(end, separators=(",", ":")).encode() + b"\n"


@pytest.fixture
def lines(file: Path, tmp_path: Path) -> list[Any]:
    """A sound backup, line by line, without its end."""
    store = Store(f"sqlite:///{tmp_path / 'source.db'}", clock=SteppedClock(T0))
    store.open()
    lived(Ledger(store))
    taken(store, file)
    store.dispose()
    return [json.loads(line) for line in file.read_text().splitlines()[:-1]]


def place(lines: list[Any], table: str, column: str) -> tuple[int, int]:
    """Where the first row of a table has a column."""
    start = next(at for at, line in enumerate(lines) if isinstance(line, dict) and line.get("table") == table)
    return start + 1, lines[start]["columns"].index(column)


def put(table: str, column: str, value: Any) -> Callable[[list[Any]], None]:
    def change(lines: list[Any]) -> None:
        line, at = place(lines, table, column)
        lines[line][at] = value

    return change


def orphan_the_running(lines: list[Any]) -> None:
    start, at = place(lines, "occurrences", "schedule_pk")
    state = lines[start - 1]["columns"].index("state")
    next(line for line in lines[start:] if line[state] == "running")[at] = 0


def head(**values: Any) -> Callable[[list[Any]], None]:
    return lambda lines: lines[0].update(values)


def repeat(table: str) -> Callable[[list[Any]], None]:
    def change(lines: list[Any]) -> None:
        line, _ = place(lines, table, "pk")
        lines.insert(line, list(lines[line]))

    return change


LIES: list[tuple[str, Callable[[list[Any]], Any], str]] = [
    ("another format", head(format=2), "expected format 1"),
    ("a newer schema", head(schema=7), "restore it with the program that wrote it"),
    ("an identity that is none", head(installation="\x1b[31m"), "installation's id"),
    ("a text for a number", put("schedules", "next_ordinal", "7"), "schedules.next_ordinal: expected an integer"),
    ("a number for a flag", put("ranges", "counted", 1), "ranges.counted: expected true or false"),
    ("a fraction", put("schedules", "used", 1.5), "expected an integer"),
    ("true for a number", put("schedules", "used", True), "expected an integer"),
    ("a number past 64 bits", put("schedules", "used", 2**70), r"lie.backup:4: schedules.used: expected an int"),
    ("a key that leaves no room", put("owners", "epoch", 2**62), "owners.epoch: expected an integer from 0 to"),
    ("null where there must be a value", put("schedules", "state", None), "got null"),
    ("a text that is too long", put("schedules", "id", "x" * 300), "expected up to 255 characters, got 300"),
    ("a NUL", put("schedules", "note", "a\0b"), "no NUL"),
    ("another definition", put("revisions", "definition", '{"format":1}'), "revisions.definition: expected a stored"),
    ("deep JSON", put("revisions", "definition", "[" * 100_000), "revisions.definition: expected JSON, got 100000 ch"),
    ("another digest", put("revisions", "digest", "sha256:" + "0" * 64), "it is not that of the definition"),
    ("an unknown state", put("schedules", "state", "bewitched"), "schedules.state: expected one of enabled"),
    ("a state that no occurrence has", put("occurrences", "state", "done"), "occurrences.state: expected one of"),
    ("an instant before all time", put("schedules", "next_due", -(2**62)), "schedules.next_due: expected an instant"),
    ("an instant after all time", put("occurrences", "run_at", 2**62), "occurrences.run_at: expected an instant"),
    ("a record from before 1970", put("ranges", "created_at", -1), "ranges.created_at: expected an instant"),
    ("a negative count", put("schedules", "failures", -1), "schedules.failures: expected an integer from 0"),
    ("a revision 0", put("revisions", "number", 0), "revisions.number: expected an integer from 1"),
    ("a negative time taken", put("attempts", "elapsed", -1), "attempts.elapsed: expected a duration"),
    ("evidence that is no JSON", put("decisions", "evidence", "succeeded"), "decisions.evidence: expected JSON"),
    ("evidence that is no object", put("decisions", "evidence", "[1]"), "decisions.evidence: expected a JSON object"),
    ("a result that is no JSON", put("occurrences", "result", "{NaN}"), "occurrences.result: expected JSON"),
    ("a wall time that is none", put("schedules", "last_local", "nine"), "schedules.last_local: expected a wall time"),
    ("a row twice", repeat("schedules"), "the database refuses"),
    ("a gap in the tiling", put("schedules", "next_ordinal", 77), "slots without exactly one verdict"),
    ("a wrong count", put("schedules", "open_count", 9), "wrong counts"),
    ("a running occurrence of no schedule", orphan_the_running, "rows of another schedule's revision"),
    ("a stray", put("revisions", "schedule_pk", 3), "hold together|refuses"),
    ("a column less", lambda lines: lines[place(lines, "skips", "pk")[0] - 1]["columns"].pop(), "expected the columns"),
    ("a value less", lambda lines: lines[place(lines, "schedules", "pk")[0]].pop(), r"expected \d+ values, got \d+"),
    ("tables in another order", lambda lines: lines.insert(1, lines.pop(2)), "expected the table 'calendars'"),
    ("a text between", lambda lines: lines.insert(3, "hello"), "expected a row, a table or the end"),
]


@pytest.mark.parametrize(("change", "message"), [lie[1:] for lie in LIES], ids=[lie[0] for lie in LIES])
def test_a_backup_that_lies_is_refused_whole(
    lines: list[Any], change: Callable[[list[Any]], Any], message: str, target: Store, tmp_path: Path
) -> None:
    change(lines)
    path = tmp_path / "lie.backup"
    path.write_bytes(signed(lines))
    with pytest.raises(InvalidInput, match=message):
        back(target, path)
    assert dumped(target, "schedules") == []
    with target.read() as conn:
        assert inspect.clock_of(target, conn).hold is None


DAMAGES: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("nothing at all", lambda whole: b"", "the backup was cut off"),
    ("cut off", lambda whole: whole[: whole.rindex(b'{"end"')], "the backup was cut off"),
    ("cut in a line", lambda whole: whole[:-200], "expected a line of JSON|cut off"),
    ("one byte changed", lambda whole: whole.replace(b"by hand", b"by bend"), "checksum does not fit"),
    ("something after the end", lambda whole: whole + b"[]\n", "expected nothing after the last line"),
    ("no JSON", lambda whole: b"\x00\xff" + whole, "line 1|:1"),
    ("NaN", lambda whole: whole.replace(b"null", b"NaN", 1), "NaN is no JSON value"),
    ("a number of 5 000 digits", lambda whole: whole.replace(b"null", b"9" * 5000, 1), "expected a line of JSON"),
    ("a tower of brackets", lambda whole: whole + b"[" * 200_000, "expected a line of JSON"),
]


@pytest.mark.parametrize(("change", "message"), [one[1:] for one in DAMAGES], ids=[one[0] for one in DAMAGES])
def test_a_damaged_backup_is_refused(
    lines: list[Any], file: Path, change: Callable[[bytes], bytes], message: str, target: Store, tmp_path: Path
) -> None:
    path = tmp_path / "damaged.backup"
    path.write_bytes(change(file.read_bytes()))
    with pytest.raises(InvalidInput, match=message):
        back(target, path)
    assert dumped(target, "schedules") == []


def test_a_sound_backup_of_those_lines_is_accepted(lines: list[Any], target: Store, tmp_path: Path) -> None:
    path = tmp_path / "sound.backup"
    path.write_bytes(signed(lines))
    assert back(target, path).rows["schedules"] == 3


def test_a_file_that_is_not_there_is_named(target: Store, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"none\.backup: it cannot be read"):
        back(target, tmp_path / "none.backup")


# --- the backlog ------------------------------------------------------------------------------------------------------


@pytest.fixture
def restored(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger of a minutely schedule, restored five minutes later, with one occurrence that waits."""
    source = Store(f"sqlite:///{tmp_path / 'source.db'}", clock=SteppedClock(T0))
    source.open()
    ledger = Ledger(source)
    ledger.create(every(MINUTE, "a", overlap="queue"))
    ledger.create(every(MINUTE, "b"))
    ledger.control("pause", "b")
    ledger.create(every(DAY, "c"))
    ledger.tick(T0)
    taken(source, tmp_path / "x.backup")
    source.dispose()
    target = Store(f"sqlite:///{tmp_path / 'target.db'}", clock=SteppedClock(T0))
    target.open()
    restore(target, tmp_path / "x.backup", now=T0 + 5 * MINUTE + 1, principal="tester")
    yield Ledger(target, T0 + 5 * MINUTE + 1)
    target.dispose()


def decide(ledger: Ledger, how: Any, **more: Any) -> list[tuple[str, str]]:
    with ledger.store.write() as conn:
        return backlog(ledger.store, conn, how, now=ledger.now, principal="tester", **more)


def test_releasing_leaves_it_to_the_misfire_policy(restored: Ledger) -> None:
    assert decide(restored, "release") == [("default", "a"), ("default", "c")]
    assert restored.view().next_due == T0 + MINUTE
    restored.tick()
    restored.check()
    assert restored.states()[0] == (0, "ready", None)
    assert len(restored.claim()) == 1, "and dispatch goes on"
    assert restored.view("b").reason == "operator", "an operator's pause is not the restore's to end"


def test_dropping_records_what_came_due_and_skips_what_waited(restored: Ledger) -> None:
    decide(restored, "drop")
    assert restored.states() == [(0, "skipped", "backlog")]
    assert restored.ranges() == [(1, 5, "backlog")]
    assert restored.view().next_due == T0 + 6 * MINUTE
    restored.check()


def test_latest_keeps_the_last_slot_that_came_due(restored: Ledger) -> None:
    decide(restored, "latest")
    assert restored.ranges() == [(1, 4, "backlog")]
    assert restored.view().next_due == T0 + 5 * MINUTE
    restored.tick()
    (taken_,) = restored.begin()
    assert taken_.ordinal == 5
    restored.finish(succeeded(taken_, restored.now))
    restored.check()


def test_deciding_on_one_schedule_leaves_the_hold_until_the_last(restored: Ledger) -> None:
    def hold() -> str | None:
        with restored.store.read() as conn:
            return inspect.clock_of(restored.store, conn).hold

    assert decide(restored, "release", schedule_id="a") == [("default", "a")]
    assert (hold(), restored.claim()) == ("restored", [])
    assert decide(restored, "drop", schedule_id="c") == [("default", "c")]
    assert hold() is None
    assert len(restored.claim()) == 1


def test_there_is_nothing_to_decide_where_nothing_was_restored(ledger: Ledger) -> None:
    with pytest.raises(Refused, match="no schedule here waits"):
        decide(ledger, "drop")
    with pytest.raises(InvalidInput, match="expected release, drop or latest"):
        decide(ledger, "sell")
