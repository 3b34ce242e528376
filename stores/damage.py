"""Damage: text that is no UTF-8, and pages that SQLite cannot make sense of.

SQLite does not look at the bytes of a text, and Python's driver refuses a whole result for one bad byte. So a damaged
text is read as one that says so: the row that holds it is told, and the others go on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection

from calsched.stores.tables import texts

if TYPE_CHECKING:
    from calsched.stores.engine import Store

#: What to do about a file or a row that is damaged.
ADVICE = "keep a copy of the file and of those beside it, and restore a backup into a new one (`calsched restore`)"
#: SQLite stops looking after so many problems; the first ones tell enough.
MOST = 20


class Damaged(str):
    """Text of the store that is no UTF-8; what cannot be read is replaced by U+FFFD."""

    __slots__ = ()


def read_text(raw: bytes) -> str:
    """How connections of SQLite read a text."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return Damaged(raw.decode(errors="replace"))


@contextmanager
def tolerated(connection: Any) -> Iterator[None]:
    """A connection of an app's own engine reads texts as ours do; how it read them before is put back."""
    before = connection.text_factory
    connection.text_factory = read_text
    try:
        yield
    finally:
        connection.text_factory = before


def is_damaged(value: object) -> bool:
    """Whether a value of a text column is none: not UTF-8, or bytes."""
    return isinstance(value, Damaged | bytes)


def misread(row: Any, kinds: Sequence[Collection[type]]) -> list[str]:
    """The columns of a named tuple whose value is not of the kind that its column holds (``Damaged`` is none)."""
    return [row._fields[at] for at, value in enumerate(row) if type(value) not in kinds[at]]


def told(table: str, pk: object, columns: Iterable[str]) -> str:
    """One damaged row, in words."""
    return f"{table}, row {pk}: damaged, {', '.join(columns)} cannot be read; {ADVICE}"


class Spot(NamedTuple):
    """A row with damaged text; the schedule's key where it belongs to one."""

    table: str
    pk: Any
    columns: tuple[str, ...]
    namespace: str | None = None
    id: str | None = None


def quick_check(store: Store, conn: Connection) -> list[str]:
    """What SQLite's own look at the whole file finds; empty where all is well, and on servers."""
    if store.dialect != "sqlite":
        return []
    found = conn.exec_driver_sql(f"PRAGMA quick_check({MOST})").scalars().all()
    lines = [line.strip() for text in found for line in str(text).splitlines()]
    return [line for line in lines if line and line != "ok" and not line.startswith("***")]


def spots(store: Store, conn: Connection, most: int = 100) -> list[Spot]:
    """Rows whose text is damaged. Servers refuse such text when it is written."""
    if store.dialect != "sqlite":
        return []
    found: list[Spot] = []
    for table in store.tables.metadata.sorted_tables:
        for row in texts.of(conn, table):
            columns = tuple(name for name, value in row._mapping.items() if is_damaged(value))
            if columns and len(found) < most:
                name = texts.schedule_of(conn, store.tables, table, row[0])
                found.append(Spot(table.name, row[0], columns, *name))
    return found
