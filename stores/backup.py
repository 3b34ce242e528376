"""Backups: the whole ledger as JSON lines with a checksum, from any database to any other.

::

    {"calsched": "backup", "format": 1, "schema": 1, "installation": "…", "at": 1796000000000}
    {"table": "schedules", "columns": ["pk", "namespace", …]}
    [1, "default", …]                                             one line a row
    …
    {"end": true, "rows": {"schedules": 1, …}, "sha256": "…"}     over every byte before this line

It is read from one snapshot, so an owner may go on working. `restore` reads it.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection

from calsched.errors import InvalidInput, Problem
from calsched.stores.schema import SCHEMA_VERSION
from calsched.stores.tables import dump, meta

if TYPE_CHECKING:
    from calsched.stores.engine import Store

FORMAT = 1
#: Columns that stay behind: a fence of a claim is worth something only where it was given.
SECRETS = {"occurrences": ("token",)}

Progress = Callable[[int, int], None]  # rows done, of how many


class Backup(NamedTuple):
    rows: dict[str, int]
    sha256: str
    size: int


def backup(store: Store, path: Path, *, progress: Progress | None = None) -> Backup:
    """Write a backup, readable by its owner only; the file appears under its name when it is whole.

    Raises InvalidInput where the file is there already or cannot be written.
    """
    if os.path.lexists(path):
        raise _exists(path)
    # of this backup alone: two that are asked for one name at once must not write into one file
    partial = path.with_name(f"{path.name[:50]}.{secrets.token_hex(4)}.partial")
    try:
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InvalidInput([Problem(f"it cannot be written: {error.strerror}", file=str(path))]) from error
    try:
        with os.fdopen(handle, "wb") as file, store.read() as conn:
            made = _write(store, conn, file, progress)
            file.flush()
            os.fsync(file.fileno())
        _name(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return made


def _exists(path: Path) -> InvalidInput:
    return InvalidInput([Problem("it exists already; a backup never replaces a file", file=str(path))])


def _name(partial: Path, path: Path) -> None:
    """Give it its name, and whoever was first with that name keeps it: a rename would replace theirs."""
    try:
        os.link(partial, path)
    except FileExistsError:
        raise _exists(path) from None
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            raise _exists(path) from None
        partial.rename(path)


def _write(store: Store, conn: Connection, file: Any, progress: Progress | None) -> Backup:
    total = sum(dump.count(conn, store.tables, name) for name in dump.ORDER)
    rows, checksum, size = dict.fromkeys(dump.ORDER, 0), hashlib.sha256(), 0
    for name, line in _lines(store, conn):
        checksum.update(line)
        size += file.write(line)
        if name is not None:
            rows[name] += 1
            if progress is not None and sum(rows.values()) % 1000 == 0:
                progress(sum(rows.values()), total)
    end = _line({"end": True, "rows": rows, "sha256": checksum.hexdigest()})
    size += file.write(end)
    if progress is not None:
        progress(total, total)
    return Backup(rows, checksum.hexdigest(), size)


def _lines(store: Store, conn: Connection) -> Iterator[tuple[str | None, bytes]]:
    """(table, line): the table is None for lines that are no rows."""
    head = {
        "calsched": "backup",
        "format": FORMAT,
        "schema": SCHEMA_VERSION,
        "installation": store.installation,
        "tzdata": meta.get(conn, store.tables, "tzdata"),
        "at": store.now(conn),
    }
    yield None, _line(head)
    for name in dump.ORDER:
        columns = dump.columns(store.tables, name)
        hidden = [columns.index(column) for column in SECRETS.get(name, ())]
        yield None, _line({"table": name, "columns": list(columns)})
        for row in dump.read(conn, store.tables, name):
            yield name, _line([None if at in hidden else value for at, value in enumerate(row)])


def _line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"
