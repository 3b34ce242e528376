"""Statements over many rows at once, in the form that each database does fastest.

SQLite takes ``executemany`` over prepared statements, PostgreSQL one statement over arrays, MariaDB multi-row texts.
The texts are made once from the table definitions; rows are tuples, because a dictionary a row costs more than the
insert.
"""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    Integer,
    Select,
    Table,
    Update,
    any_,
    bindparam,
    func,
    select,
)
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, OperationalError
from sqlalchemy.types import UserDefinedType

Rows = Sequence[tuple[Any, ...]]
Walked = TypeVar("Walked", Select[Any], Update)

#: Rows in one text statement (MariaDB), and elements of a list elsewhere.
CHUNK = 500
#: Rows that one INSERT of SQLite takes; the rest of a batch goes row by row, so that there are two texts to prepare.
TOGETHER = 100


def insert_many(conn: Connection, table: Table, columns: tuple[str, ...], rows: Rows) -> None:
    """Insert rows whose values follow ``columns``."""
    if not rows:
        return
    dialect = conn.dialect.name
    if dialect == "postgresql":
        conn.exec_driver_sql(_insert_text(table, columns, dialect), _arrays(rows))
        return
    done = 0
    if dialect == "sqlite":  # many rows in one statement save a quarter of its time
        text = _insert_text(table, columns, dialect, TOGETHER)
        while done + TOGETHER <= len(rows):
            part = rows[done : done + TOGETHER]
            conn.exec_driver_sql(text, tuple(chain.from_iterable(part)))
            done += TOGETHER
    if done < len(rows):
        conn.exec_driver_sql(_insert_text(table, columns, dialect), list(rows[done:]))


def update_many(
    conn: Connection,
    table: Table,
    columns: tuple[str, ...],
    rows: Rows,
    where: str = "",
    match: tuple[str, ...] = (),
) -> int:
    """Set ``columns`` of rows, and say how many rows there were.

    A tuple holds the new values, then the row's key, then what the ``match`` columns must hold now (compare and set).
    ``where`` is a condition in SQL that is repeated for each row, such as ``state = 'claimed'``.
    """
    if not rows:
        return 0
    dialect = conn.dialect.name
    if dialect == "postgresql":
        return conn.exec_driver_sql(_update_arrays(table, columns, match, where), _arrays(rows)).rowcount
    if dialect == "sqlite":
        return conn.exec_driver_sql(_update_text(table, columns, match, where), list(rows)).rowcount
    parts = _joined_parts(table, columns, match, where)
    return sum(_update_joined(conn, parts, rows[i : i + CHUNK]) for i in range(0, len(rows), CHUNK))


def record(name: str, columns: tuple[str, ...]) -> Any:
    """A plain named tuple for rows whose fields are read often: SQLAlchemy's own cost twenty times as much to read."""
    return namedtuple(name, columns)


#: MariaDB and MySQL report a violated CHECK as an operational error.
_CHECK_VIOLATED = (4025, 3819)


def is_refusal(error: DBAPIError) -> bool:
    """Whether the database refused the rows of a statement: then a savepoint holds, and other rows may fare better.

    Anything else concerns the transaction. A lost deadlock above all: MariaDB has rolled all of it back by then, with
    every lock, and what was read before holds no more.
    """
    if error.connection_invalidated:
        return False
    if isinstance(error, IntegrityError | DataError):
        return True
    arguments: tuple[Any, ...] = getattr(error.orig, "args", ())
    return isinstance(error, OperationalError) and bool(arguments) and arguments[0] in _CHECK_VIOLATED


def quoted(table: Table, dialect: Dialect) -> str:
    return dialect.identifier_preparer.format_table(table)


@cache
def _names(table: Table, columns: tuple[str, ...], dialect: str) -> tuple[str, list[str]]:
    prepare = _dialect(dialect).identifier_preparer
    return prepare.format_table(table), [prepare.quote(column) for column in columns]


@cache
def _dialect(name: str) -> Dialect:
    from sqlalchemy.dialects import mysql, postgresql, sqlite

    made: dict[str, Any] = {"sqlite": sqlite.dialect, "postgresql": postgresql.dialect}
    found: Dialect = made.get(name, mysql.dialect)()
    return found


@cache
def _insert_text(table: Table, columns: tuple[str, ...], dialect: str, rows: int = 1) -> str:
    name, names = _names(table, columns, dialect)
    if dialect == "postgresql":
        arrays = ", ".join(f"%s::{_array(table.c[column])}" for column in columns)
        return f"INSERT INTO {name} ({', '.join(names)}) SELECT * FROM unnest({arrays})"
    mark = "?" if dialect == "sqlite" else "%s"
    row = f"({', '.join([mark] * len(columns))})"
    return f"INSERT INTO {name} ({', '.join(names)}) VALUES {', '.join([row] * rows)}"


@cache
def _update_text(table: Table, columns: tuple[str, ...], match: tuple[str, ...], where: str) -> str:
    name, names = _names(table, columns, "sqlite")
    sets = ", ".join(f"{column} = ?" for column in names)
    same = "".join(f" AND {column} = ?" for column in (_names(table, match, "sqlite")[1]))
    return f"UPDATE {name} SET {sets} WHERE {_key(table)} = ?{same}{_and(where)}"


@cache
def _update_arrays(table: Table, columns: tuple[str, ...], match: tuple[str, ...], where: str) -> str:
    name, names = _names(table, columns, "postgresql")
    sets = ", ".join(f"{column} = v.v{n}" for n, column in enumerate(names))
    given = (*columns, _key(table), *match)
    aliases = ", ".join([*(f"v{n}" for n in range(len(columns))), "vk", *(f"m{n}" for n in range(len(match)))])
    same = "".join(f" AND {column} = v.m{n}" for n, column in enumerate(_names(table, match, "postgresql")[1]))
    arrays = ", ".join(f"%s::{_array(table.c[column])}" for column in given)
    return (
        f"UPDATE {name} SET {sets} FROM unnest({arrays}) AS v({aliases}) WHERE {_key(table)} = v.vk{same}{_and(where)}"
    )


def _update_joined(conn: Connection, parts: tuple[str, str, str], rows: Rows) -> int:
    text = parts[0] + " UNION ALL ".join([parts[1]] * len(rows)) + parts[2]
    return conn.exec_driver_sql(text, tuple(value for values in rows for value in values)).rowcount


@cache
def _joined_parts(table: Table, columns: tuple[str, ...], match: tuple[str, ...], where: str) -> tuple[str, str, str]:
    """The first branch of the union only names the columns; its key matches no row.

    The order and the index are forced: a scan of the table would wait for rows that other owners hold.
    """
    name, names = _names(table, columns, "mysql")
    same = [f" AND {name}.{column} = v.m{n}" for n, column in enumerate(_names(table, match, "mysql")[1])]
    aliases = [f"NULL AS v{n}" for n in range(len(columns))]
    head = ", ".join([*aliases, "-1 AS vk", *(f"NULL AS m{n}" for n in range(len(match)))])
    row = ", ".join(["%s"] * (len(columns) + 1 + len(match)))
    sets = ", ".join(f"{name}.{column} = v.v{n}" for n, column in enumerate(names))
    target = f"{name} FORCE INDEX FOR JOIN (PRIMARY) ON {name}.{_key(table)} = v.vk"
    tail = f") AS v STRAIGHT_JOIN {target} SET {sets} WHERE TRUE{''.join(same)}{_and(where)}"
    return f"UPDATE (SELECT {head} UNION ALL ", f"SELECT {row}", tail


def _arrays(rows: Rows) -> tuple[str, ...]:
    """The columns as array literals: the driver would adapt each element by itself, at ten times the cost."""
    return tuple(_array_literal(column) for column in zip(*rows, strict=True))


def _array_literal(values: Sequence[Any]) -> str:
    """Half of the columns of a batch hold one value throughout, most others plain integers: both are cheap to write."""
    if len(set(values)) == 1:
        parts = [_element(values[0])] * len(values)
    elif set(map(type, values)) == _INTEGERS:
        parts = list(map(str, values))
    else:
        parts = [_element(value) for value in values]
    return "{" + ",".join(parts) + "}"


_INTEGERS = {int}


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)


def _and(where: str) -> str:
    return f" AND {where}" if where else ""


def _key(table: Table) -> str:
    (key,) = table.primary_key.columns
    return str(key.name)


def _array(column: Column[Any]) -> str:
    kind = column.type
    if isinstance(kind, Boolean):
        return "boolean[]"
    if isinstance(kind, BigInteger):
        return "bigint[]"
    return "integer[]" if isinstance(kind, Integer) else "text[]"


def by_primary_key(found: Select[Any], table: Table) -> Select[Any]:
    """Lock no row but those wanted: MariaDB scans a small table, and waits for whoever holds any of its rows."""
    return walk(found, table, "PRIMARY")


def walk(found: Walked, table: Table, index: str) -> Walked:
    """Have MariaDB use an index where it would rather read and sort the whole table."""
    for name in ("mysql", "mariadb"):
        hint = f"FORCE INDEX ({index})"
        found = found.with_hint(hint, table, name) if isinstance(found, Update) else found.with_hint(table, hint, name)
    return found


class _Literal(UserDefinedType[Any]):
    """An array that is handed over as its literal. The parameter itself has the array's type: a cast from text would be
    done again for every row that is looked at."""

    cache_ok = True
    render_bind_cast = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: Any) -> str:
        return self.name


class Listed:
    """A list of keys as one parameter, so that the statement's text does not depend on how many there are."""

    def __init__(self, name: str = "keys") -> None:
        self.name = name

    def holds(self, column: Column[Any], dialect: str) -> ColumnElement[bool]:
        """The condition that a column is in the list."""
        if dialect == "sqlite":
            values = func.json_each(bindparam(self.name)).table_valued("value")
            return column.in_(select(values.c.value))
        if dialect == "postgresql":
            return column == any_(bindparam(self.name, type_=_Literal(_array(column))))
        return column.in_(bindparam(self.name, expanding=True))

    def given(self, values: Iterable[Any], dialect: str) -> dict[str, Any]:
        """The parameter, for ``conn.execute``."""
        if dialect == "sqlite":
            return {self.name: json.dumps(list(values))}
        if dialect == "postgresql":
            return {self.name: _array_literal(list(values))}
        return {self.name: list(values)}


KEYS = Listed()
EXCLUDED = Listed("excluded")
