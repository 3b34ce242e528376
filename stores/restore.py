"""Reading a backup into an empty store. The file is somebody else's until it has proven itself.

It is read twice: once to check every line, value and the checksum before anything is written, and once to write, in one
transaction that is given up when the ledger which results does not hold together. What was active is paused afterwards,
what ran is interrupted, and dispatch is on hold until an operator decides on the backlog.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, NoReturn, Unpack

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError

from calsched.errors import InvalidInput, OwnedElsewhere, Problem, Refused, StoreBusy
from calsched.policies import lease
from calsched.reading import Unreadable, opened
from calsched.stores import conflicts, inspect
from calsched.stores.backup import FORMAT
from calsched.stores.columns import Bad, check_row, check_value, no_constant
from calsched.stores.control import Ask
from calsched.stores.lock import holder, is_owned
from calsched.stores.schema import SCHEMA_VERSION
from calsched.stores.settle import Change, settle
from calsched.stores.tables import attempts, decisions, dump, meta, occurrences, owners, reading, schedules
from calsched.stores.texts import MAX_NAME, MAX_NOTE, fit

if TYPE_CHECKING:
    from calsched.stores.engine import Store

#: A line may hold a definition or a result; nothing that we write comes near this.
MAX_LINE = 64 * 1024 * 1024

Progress = Callable[[int, int], None]  # rows done, of how many


class Restored(NamedTuple):
    installation: str
    rows: dict[str, int]
    paused: int  # schedules that were active
    interrupted: int  # occurrences that ran


class _Head(NamedTuple):
    installation: str
    tzdata: str | None
    rows: Mapping[str, int]
    sha256: str


def restore(
    store: Store,
    path: Path,
    *,
    as_new: bool = False,
    progress: Progress | None = None,
    **ask: Unpack[Ask],
) -> Restored:
    """Read a backup into a store that holds no schedules. ``as_new`` gives it an identity of its own.

    Raises InvalidInput for a file that is no sound backup, Refused for a store that is not empty, OwnedElsewhere for
    one that an owner works on. Nothing is written then. A write that loses against another transaction is done again.
    """
    head = _check(store, path)
    _refuse_owned(store)
    try:
        restored = conflicts.write(store, lambda conn: _restore(store, conn, path, head, as_new, progress, ask))
    except DBAPIError as error:
        raise _refused(path, error) from error
    except StoreBusy as error:
        if isinstance(error.__cause__, IntegrityError):  # each time: two rows of the file, not a race
            raise _refused(path, error.__cause__) from error
        raise
    store.compiled.forget()
    store.forget_installation()
    return restored


def _refused(path: Path, error: DBAPIError) -> InvalidInput:
    line = (str(error.orig).splitlines() or [""])[0]
    return InvalidInput([Problem(f"the database refuses what it holds: {line}", file=str(path))])


def _refuse_owned(store: Store) -> None:
    if store.path is not None and is_owned(store.path):
        name, pid = holder(store.path) or ("another process", None)
        raise OwnedElsewhere(name, pid, store.url_shown)


# --- the first reading: is it sound? ----------------------------------------------------------------------------------


def _check(store: Store, path: Path) -> _Head:
    """Read the whole file and believe nothing. Raises InvalidInput with the line of the first thing that is wrong."""
    checker = _Checker(store)
    for number, value, checksum in _lines(path):
        try:
            checker.take(value, checksum)
        except Bad as bad:
            _refuse(path, number, str(bad))
    if checker.head is None:
        _refuse(path, None, "it ends before its last line; the backup was cut off")
    return checker.head


def _refuse(path: Path, line: int | None, message: str) -> NoReturn:
    raise InvalidInput([Problem(message, file=str(path), line=line)])


def _lines(path: Path) -> Iterator[tuple[int, Any, str]]:
    """(line number, value, checksum of everything before the line)."""
    checksum = hashlib.sha256()
    try:
        with opened(path) as file:
            for number, line in enumerate(_bounded(file, path), 1):
                before = checksum.hexdigest() if line.startswith(b'{"end"') else ""
                checksum.update(line)
                yield number, _value(path, number, line), before
    except Unreadable as error:
        _refuse(path, None, f"it {error}")
    except OSError as error:
        _refuse(path, None, f"it cannot be read: {error.strerror}")


def _bounded(file: BinaryIO, path: Path) -> Iterator[bytes]:
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            _refuse(path, number, f"expected a line of at most {MAX_LINE} bytes")
        yield line


def _value(path: Path, number: int, line: bytes) -> Any:
    try:
        return json.loads(line, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        if number == 1:
            _refuse(path, number, "expected a backup that `calsched backup` wrote")
        _refuse(path, number, f"expected a line of JSON: {error}"[:200])


class _Checker:
    """Goes through the lines in order; ``head`` is there when the last one was right."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._first: dict[str, Any] | None = None
        self._left = list(dump.ORDER)
        self._table = ""
        self._shapes: list[tuple[str, dump.Shape]] = []
        self._rows = dict.fromkeys(dump.ORDER, 0)
        self.head: _Head | None = None

    def take(self, value: Any, checksum: str) -> None:
        if self.head is not None:
            raise Bad("expected nothing after the last line")
        if self._first is None:
            self._first = _first_line(value)
        elif isinstance(value, list):
            self._row(value)
        elif isinstance(value, dict) and value.get("end") is True:
            self._end(value, checksum)
        elif isinstance(value, dict):
            self._start(value)
        else:
            raise Bad("expected a row, a table or the end")

    def _start(self, value: dict[str, Any]) -> None:
        if not self._left or value.get("table") != self._left[0]:
            raise Bad(f"expected the table {self._left[0] if self._left else 'end'!r}, got {value.get('table')!r:.60}")
        self._table = self._left.pop(0)
        wanted = dump.columns(self._store.tables, self._table)
        if value.get("columns") != list(wanted):
            raise Bad(f"expected the columns {', '.join(wanted)}")
        self._shapes = list(dump.shapes(self._store.tables, self._table).items())

    def _row(self, value: list[Any]) -> None:
        if not self._table:
            raise Bad("expected a table before its rows")
        if len(value) != len(self._shapes):
            raise Bad(f"expected {len(self._shapes)} values, got {len(value)}")
        for (name, shape), one in zip(self._shapes, value, strict=True):
            check_value(self._table, name, shape, one)
        check_row(self._table, dict(zip((name for name, _ in self._shapes), value, strict=True)))
        self._rows[self._table] += 1

    def _end(self, value: dict[str, Any], checksum: str) -> None:
        if self._left:
            raise Bad(f"expected the table {self._left[0]!r} before the end")
        if value.get("sha256") != checksum:
            raise Bad("the checksum does not fit: the file was changed or damaged")
        if value.get("rows") != self._rows:
            raise Bad("the numbers of rows do not fit")
        assert self._first is not None
        self.head = _Head(self._first["installation"], self._first["tzdata"], self._rows, checksum)


def _first_line(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or value.get("calsched") != "backup":
        raise Bad("expected a backup that `calsched backup` wrote")
    if value.get("format") != FORMAT or value.get("schema") != SCHEMA_VERSION:
        raise Bad(
            f"expected format {FORMAT} and schema {SCHEMA_VERSION}, got {value.get('format')!r:.20} and"
            f" {value.get('schema')!r:.20}: restore it with the program that wrote it"
        )
    installation, tzdata = value.get("installation"), value.get("tzdata")
    if not isinstance(installation, str) or not 0 < len(installation) <= 64 or not installation.isprintable():
        raise Bad("expected the installation's id, a text of up to 64 characters")
    if tzdata is not None and not (isinstance(tzdata, str) and len(tzdata) <= 32):
        raise Bad("expected the version of the zone data, a text of up to 32 characters")
    return value


# --- the second reading: write ----------------------------------------------------------------------------------------


def _restore(
    store: Store, conn: Connection, path: Path, head: _Head, as_new: bool, progress: Progress | None, ask: Ask
) -> Restored:
    _refuse_used(store, conn)
    made = _Writer(store, conn, ask)
    total = sum(head.rows.values())
    for done, (table, row) in enumerate(_rows(path, head), 1):
        made.take(table, row)
        if progress is not None and (done % 1000 == 0 or done == total):
            progress(done, total)
    made.flush()
    dump.go_on_counting(conn, store.tables)
    _refuse_strays(store, conn, path)  # what is done to a row asks for its schedule
    interrupted = _interrupt(store, conn, made.running, ask)
    _refuse_unsound(store, conn, path)
    installation = str(uuid.uuid4()) if as_new else head.installation
    meta.put(conn, store.tables, "installation", installation)
    if head.tzdata is not None:
        meta.put(conn, store.tables, "tzdata", head.tzdata)
    _hold(store, conn, ask)
    decisions.add(conn, store.tables, [*made.decisions, _decision(head, as_new, ask)])
    return Restored(installation, dict(head.rows), len(made.decisions), interrupted)


def _refuse_used(store: Store, conn: Connection) -> None:
    now = store.now(conn)
    live = [row for row in owners.live(conn, store.tables) if lease.is_alive(row.state, row.lease_until, now)]
    if live:
        raise OwnedElsewhere(live[0].name, live[0].pid, store.url_shown)
    if dump.count(conn, store.tables, "schedules") or dump.count(conn, store.tables, "decisions"):
        raise Refused(f"{store.url_shown} holds schedules or decisions already; restore into an empty store")
    for name in reversed(dump.ORDER):
        dump.clear(conn, store.tables, name)


def _rows(path: Path, head: _Head) -> Iterator[tuple[str, list[Any]]]:
    """The rows again. The file must still be the one that was checked."""
    table, checksum = "", ""
    for _, value, before in _lines(path):
        if isinstance(value, list):
            yield table, value
        elif isinstance(value, dict):
            table, checksum = value.get("table", table), before
    if checksum != head.sha256:
        _refuse(path, None, "it changed while it was read")


class _Writer:
    """Collects rows, changes those that cannot stay as they were, and writes them a page at a time."""

    def __init__(self, store: Store, conn: Connection, ask: Ask) -> None:
        self._store, self._conn, self._ask = store, conn, ask
        self._table, self._page = "", []  # type: tuple[str, list[tuple[Any, ...]]]
        self._columns: tuple[str, ...] = ()
        self.running: list[int] = []
        self.decisions: list[tuple[Any, ...]] = []

    def take(self, table: str, row: list[Any]) -> None:
        if table != self._table:
            self.flush()
            self._table, self._columns = table, dump.columns(self._store.tables, table)
        values = dict(zip(self._columns, row, strict=True))
        change = getattr(self, f"_{table}", None)
        if change is not None:
            change(values)
        self._page.append(tuple(values.values()))
        if len(self._page) == dump.PAGE:
            self.flush()

    def flush(self) -> None:
        if self._page:
            dump.write(self._conn, self._store.tables, self._table, self._page)
            self._page = []

    def _schedules(self, row: dict[str, Any]) -> None:
        row["held_by"] = None
        if row["state"] != "enabled":
            return
        version = row["state_version"] + 1
        row |= {"state": "paused", "reason": "restored", "state_version": version, "resume_at": None}
        row |= {"held_due": row["next_due"], "next_due": None, "look_at": None}
        row |= {"changed_at": self._ask["now"], "changed_by": fit(self._ask["principal"], MAX_NAME)}
        made = decisions.row(
            row["namespace"], row["id"], "restore", at=self._ask["now"], revision=row["revision"],
            state_version=version, from_state="enabled", to_state="paused",
        )  # fmt: skip
        self.decisions.append(made)

    def _occurrences(self, row: dict[str, Any]) -> None:
        row |= {"token": None, "lease_until": None}
        if row["state"] == "claimed":
            row |= {"state": "ready", "epoch": None, "claimed_at": None}
        elif row["state"] == "running":
            self.running.append(row["pk"])

    def _owners(self, row: dict[str, Any]) -> None:
        if row["state"] == "live":
            row["state"] = "fenced"

    def _clock(self, row: dict[str, Any]) -> None:
        """A high water of the future would hold this store until then."""
        row |= {"high_water": min(row["high_water"], self._ask["now"]), "boot_time": None, "boot_id": None}


def _interrupt(store: Store, conn: Connection, pks: list[int], ask: Ask) -> int:
    """What ran when the backup was made has an end that nobody knows; it counts as no failure."""
    t, dialect, now = store.tables, store.dialect, ask["now"]
    for start in range(0, len(pks), dump.PAGE):
        rows = occurrences.rows(conn, t, dialect, pks[start : start + dump.PAGE])
        held = schedules.lock(conn, t, dialect, {row.schedule_pk for row in rows.values()})
        ended = [_interrupted(row, now) for row in rows.values()]
        attempts.add(conn, t, [attempt for _, attempt in ended])
        settle(store, conn, now, [change for change, _ in ended], held, where="state = 'running'")
    return len(pks)


def _interrupted(row: Any, now: int) -> tuple[Change, tuple[Any, ...]]:
    longest = max(0, now - row.started_at) if row.started_at is not None else 0
    change = Change(
        row.pk, row.schedule_pk, row.series, row.active_slot, "interrupted", row.run_at, row.elapsed + longest,
        reason="restored",
    )  # fmt: skip
    attempt = (
        row.pk, row.attempt, row.epoch, "interrupted", row.started_at, now, longest, True, False, None, None, None,
    )  # fmt: skip
    return change, attempt


def _refuse_strays(store: Store, conn: Connection, path: Path) -> None:
    strays = reading.strays(conn, store.tables, 1)
    if strays:
        _refuse(path, None, f"what it holds does not hold together: rows of another schedule's revision ({strays[0]})")


def _refuse_unsound(store: Store, conn: Connection, path: Path) -> None:
    """A ledger that does not hold together is not taken over, whoever signed its checksum."""
    t = store.tables
    found = {
        "slots without exactly one verdict": inspect.tiling(store, conn, limit=1),
        "wrong counts": reading.wrong_counts(conn, t, 1),
        "ranges that nothing represents": reading.orphans(conn, t, 1),
    }
    wrong = [f"{what} ({rows[0]})" for what, rows in found.items() if rows]
    if wrong:
        _refuse(path, None, f"what it holds does not hold together: {'; '.join(wrong)}"[:500])


def _hold(store: Store, conn: Connection, ask: Ask) -> None:
    from calsched.stores.tables import clock

    row = clock.row(conn, store.tables)
    note = "a backup was restored; decide on the backlog"
    values = {"hold": "restored", "hold_since": ask["now"], "hold_note": note}
    clock.put(conn, store.tables, values if row is not None else values | {"high_water": ask["now"]})


def _decision(head: _Head, as_new: bool, ask: Ask) -> tuple[Any, ...]:
    evidence = {"sha256": head.sha256, "installation": head.installation, "asNew": as_new}
    return decisions.row(
        "", "", "restore", at=ask["now"], principal=fit(ask["principal"], MAX_NAME) or "unknown",
        note=fit(ask.get("note"), MAX_NOTE), evidence=evidence,
    )  # fmt: skip
