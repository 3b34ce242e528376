"""Reading the table of an APScheduler ``SQLAlchemyJobStore``: the bytes of its jobs, never what they would load.

The connection only reads, and a SQLite file is opened so that it cannot be made or changed. Rows come in pages by key,
so that a table of any size is read in constant memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection, Engine
from sqlalchemy import exc as sql
from sqlalchemy.engine import URL, make_url

from calsched.errors import InvalidInput, Problem, StoreNotOurs, StoreUnreachable
from calsched.stores import connecting

DEFAULT_TABLE = "apscheduler_jobs"
_COLUMNS = ("id", "next_run_time", "job_state")


class StoredJob(NamedTuple):
    """A row. ``state`` is None where it is larger than asked for, or no bytes at all."""

    id: str
    next_run_time: float | None  # seconds since the Unix epoch
    state: bytes | None
    size: int


def stored_jobs(url: str, *, table: str = DEFAULT_TABLE, limit: int, page: int = 200) -> Iterator[StoredJob]:
    """The jobs of a store, by id; states larger than ``limit`` bytes are left in the database.

    Raises InvalidInput for a URL or table that is none, StoreUnreachable, StoreNotOurs for a table of other columns.
    """
    source = _url(url)
    with _told(source):
        engine = sa.create_engine(_read_only(source), connect_args=connecting.arguments(source))
    connecting.let_statements_take_their_time(engine)
    try:
        with _told(source), _connected(engine, source) as connection:
            if connection.dialect.name == "postgresql":
                connection = connection.execution_options(postgresql_readonly=True)
            jobs = _table(connection, table, source)
            yield from _pages(connection, jobs, limit, page)
    finally:
        engine.dispose()


def _url(url: str) -> URL:
    try:
        source = make_url(url)
    except sql.ArgumentError:
        raise InvalidInput([Problem("expected a database URL such as sqlite:///jobs.db", "--from")]) from None
    if source.get_backend_name() == "sqlite" and source.database not in (None, "", ":memory:"):
        path = Path(str(source.database))
        if not path.is_file():
            raise InvalidInput([Problem(f"there is no file {path}", "--from", hint="expected sqlite:///PATH")])
    return source


def _read_only(source: URL) -> URL:
    """SQLite in mode=ro, which neither makes a file nor changes one."""
    if source.get_backend_name() != "sqlite" or source.database in (None, "", ":memory:"):
        return source
    path = Path(str(source.database)).resolve().as_uri()
    return source.set(drivername="sqlite+pysqlite", database=path, query={"mode": "ro", "uri": "true"})


def _connected(engine: Engine, source: URL) -> Connection:
    try:
        return engine.connect()
    except sql.DBAPIError as error:
        if source.get_backend_name() == "sqlite":
            raise
        raise StoreUnreachable(connecting.failed(source, error)) from None


@contextmanager
def _told(source: URL) -> Iterator[None]:
    shown = source.render_as_string(hide_password=True)
    try:
        yield
    except sql.NoSuchModuleError:
        raise InvalidInput([Problem(f"no driver for {shown}", "--from")]) from None
    except sql.DatabaseError as error:
        cause = str(error.orig).partition("\n")[0]
        if isinstance(error, sql.OperationalError):
            raise StoreUnreachable(f"{shown} cannot be read: {cause}") from None
        raise StoreNotOurs(f"{shown} cannot be read: {cause}") from None


def _table(connection: Connection, name: str, source: URL) -> sa.Table:
    looked = sa.inspect(connection)
    shown = source.render_as_string(hide_password=True)
    schema, _, short = name.rpartition(".")
    if not looked.has_table(short, schema or None):
        there = ", ".join(sorted(looked.get_table_names(schema or None))[:20]) or "none"
        raise InvalidInput([Problem(f"{shown} has no table {name!r}", "--table", hint=f"its tables: {there}")])
    columns = {column["name"] for column in looked.get_columns(short, schema or None)}
    missing = [column for column in _COLUMNS if column not in columns]
    if missing:
        raise StoreNotOurs(f"{name} of {shown} is no table of jobs: it has no column {', '.join(missing)}")
    return sa.Table(
        short,
        sa.MetaData(schema=schema or None),
        sa.Column("id", sa.Unicode(191), primary_key=True),
        sa.Column("next_run_time", sa.Float(25)),
        sa.Column("job_state", sa.LargeBinary),
    )


def _pages(connection: Connection, jobs: sa.Table, limit: int, page: int) -> Iterator[StoredJob]:
    size = sa.func.length(jobs.c.job_state)
    # A column of another type (text, a number) is handed over as it is found, and refused by whoever reads it.
    state = sa.case((size <= limit, jobs.c.job_state), else_=None)
    query = sa.select(jobs.c.id, jobs.c.next_run_time, state, size).order_by(jobs.c.id).limit(page)
    rows = connection.execute(query).all()
    while rows:
        for row in rows:
            yield StoredJob(row[0], row[1], row[2] if isinstance(row[2], bytes) else None, row[3] or 0)
        rows = connection.execute(query.where(jobs.c.id > rows[-1][0])).all()
