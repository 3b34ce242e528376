"""The store: one database, our tables in it, and the transactions that the verbs run in.

What differs between databases stays here and in ``tables/``: how a transaction begins, which isolation it has, whose
clock counts. An engine that an app hands over is used as it is, never reconfigured and never disposed of.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, Engine, create_engine, event, func, literal_column, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import SingletonThreadPool, StaticPool

from calsched import zones
from calsched.clock import Clock, SystemClock
from calsched.errors import InvalidInput, StoreNotOurs, StoreUnreachable
from calsched.stores import conflicts, connecting, damage, forks, founding, sqlite
from calsched.stores.compiled import Compiled
from calsched.stores.schema import DEFAULT_PREFIX, Tables, tables

Dialect = Literal["sqlite", "postgresql", "mysql"]

#: Engines of the parent process. A child must neither use nor close them, so they are kept from the garbage collector.
_of_parents: list[Engine] = []
_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
    "mariadb+pymysql": "mysql+pymysql",
}
_EXTRAS = {"postgresql": "postgres", "mysql": "mysql"}
_DIALECTS: dict[str, Dialect] = {
    "sqlite": "sqlite",
    "postgresql": "postgresql",
    "mysql": "mysql",
    "mariadb": "mysql",
}


class Store:
    """A ledger in a database. Cheap to make; ``open`` is what looks at the database.

    Raises InvalidInput for a URL that names no supported database.
    """

    def __init__(
        self,
        url: str | URL | None = None,
        *,
        engine: Engine | None = None,
        prefix: str = DEFAULT_PREFIX,
        schema: str | None = None,
        clock: Clock | None = None,
        pool_size: int = 5,
        lock_timeout: float = 30.0,
        default_zone: str | None = None,
        zone_source: str = "package",
    ) -> None:
        if (url is None) == (engine is None):
            raise InvalidInput("a store needs a url or an engine, and only one of them")
        self.clock: Clock = clock or SystemClock()
        self.lock_timeout = lock_timeout
        self._url = engine.url if engine is not None else _read_url(url)
        self._given = engine
        self._pool_size = pool_size
        self.dialect: Dialect = _dialect(self._url)
        if schema is not None and self.dialect == "sqlite":
            raise InvalidInput("SQLite has no schemas; use a prefix")
        self.tables: Tables = tables(prefix, schema)
        self.prefix = prefix
        self.compiled = Compiled(self, default_zone=default_zone, zone_source=zone_source)
        self._tzdata: str | None = None
        self._made: Engine | None = None
        self._pid = os.getpid()
        self._installation: str | None = None
        self._poll: Any = None
        self._one_by_one = threading.RLock()  # an in-memory database has one connection for all threads
        self._mine = threading.local()
        self._gate = forks.Gate(self._close_idle)

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def url_shown(self) -> str:
        """The address for messages, without the password."""
        return self._url.render_as_string(hide_password=True)

    @property
    def path(self) -> Path | None:
        """The SQLite file; None in memory and on servers."""
        name = self._url.database
        if self.dialect != "sqlite" or self.in_memory or name is None:
            return None
        if name.startswith("file:"):
            name = name.removeprefix("file:").split("?")[0]
        return Path(name)

    @property
    def in_memory(self) -> bool:
        name = self._url.database
        return self.dialect == "sqlite" and (not name or ":memory:" in name or self._url.query.get("mode") == "memory")

    @property
    def has_one_connection(self) -> bool:
        """All transactions of a thread, or of all threads, share one connection; there can be no second one beside."""
        return self.in_memory or isinstance(getattr(self._given, "pool", None), StaticPool | SingletonThreadPool)

    @property
    def installation(self) -> str:
        """The identity of this ledger, part of every occurrence key."""
        if self._installation is None:
            self.open()
        assert self._installation is not None
        return self._installation

    def forget_installation(self) -> None:
        """Read the identity anew: a restore has put another one in place."""
        self._installation = None

    @property
    def tzdata(self) -> str:
        """The version of the zone data that this process computes with."""
        if self._tzdata is None:
            self._tzdata = zones.version(self.compiled.zone_source)
        return self._tzdata

    @property
    def is_app_engine(self) -> bool:
        return self._given is not None

    @property
    def engine(self) -> Engine:
        """The engine, made anew in a child process: connections do not survive a fork."""
        if self._given is not None:
            return self._given
        if self._pid != os.getpid():
            self._forget_parent()
        if self._made is None:
            self._made = self._make_engine()
        return self._made

    def _forget_parent(self) -> None:
        if self._made is not None:
            _of_parents.append(self._made)
        self._made, self._poll, self._pid = None, None, os.getpid()
        self._one_by_one, self._mine = threading.RLock(), threading.local()

    def _make_engine(self) -> Engine:
        try:
            if self.dialect == "sqlite":
                return self._make_sqlite()
            options: dict[str, Any] = {"isolation_level": "READ COMMITTED", "pool_pre_ping": True}
            options["connect_args"] = connecting.arguments(self._url)
            if self.dialect == "postgresql":
                options["connect_args"] |= {"application_name": "calsched", "keepalives_idle": 30}
            engine = create_engine(self._url, pool_size=self._pool_size, max_overflow=5, **options)
        except (NoSuchModuleError, ModuleNotFoundError) as error:
            extra = _EXTRAS.get(self.dialect, "")
            raise InvalidInput(f"no driver for {self.url_shown}: install the extra `{extra}` ({error})") from error
        connecting.let_statements_take_their_time(engine)
        return engine

    def _make_sqlite(self) -> Engine:
        options: dict[str, Any] = {"connect_args": {"check_same_thread": False, "timeout": 0}}
        if self.in_memory:
            options["poolclass"] = StaticPool
        else:
            options |= {"pool_size": self._pool_size, "max_overflow": 20}
        engine = create_engine(self._url, **options)
        wal = not self.in_memory

        @event.listens_for(engine, "connect")
        def _(connection: Any, record: Any) -> None:
            sqlite.set_up(connection, wal=wal)

        return engine

    # --- opening ------------------------------------------------------------------------------------------------------

    def open(self, *, create: bool = True) -> None:
        """Look at the database, make our tables where there are none, and check their version. Idempotent.

        Raises StoreNotOurs, StoreVersionDiffers or StoreUnreachable; a database that is refused is left as it was.
        """
        if self._installation is not None and self._pid == os.getpid():
            return
        if self.path is not None and not self.is_app_engine:
            sqlite.refuse_network_mount(self.path)
            known = sqlite.look(self.path, self.tables.meta.name)
            if known is None:
                founding.refuse_absent(self.url_shown, create)
                sqlite.make(self.path)
            else:  # before a connection of ours makes it a WAL database
                founding.recognise(self, known)
        try:
            self._installation = founding.found(self, create=create)
        except BaseException:
            self.dispose()
            raise

    # --- transactions -------------------------------------------------------------------------------------------------

    @contextmanager
    def write(self, connection: Connection | None = None) -> Iterator[Connection]:
        """A transaction that writes: committed at the end, rolled back by an exception.

        With the caller's ``connection`` the work joins its transaction, and the caller commits. Raises StoreBusy where
        that transaction has lost against another one: the caller rolls back, and may do it all again.
        """
        if connection is not None:
            self._join(connection)
            try:
                with self.compiled.settling(keep=False):
                    yield connection
            except DBAPIError as error:  # theirs to do again, with all that they did before
                if (why := conflicts.lost(error)) is not None:
                    raise conflicts.busy(self, why) from error
                raise
            return
        with self.compiled.settling(), self._guarded(), self._connected() as conn, conn.begin():
            self._begin(conn, immediate=True)
            self._mine.connection = conn
            try:
                yield conn
            finally:
                self._mine.connection = None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One snapshot: everything read in it is of the same moment. What is written in it is rolled back."""
        held = getattr(self._mine, "connection", None)
        if held is not None and self.has_one_connection:
            yield held
            return
        with self._guarded(), self._connected() as conn:
            if self.dialect != "sqlite":
                conn = conn.execution_options(isolation_level="REPEATABLE READ")
            with conn.begin() as transaction:
                self._begin(conn, immediate=False)
                self._mine.connection = conn
                try:
                    yield conn
                finally:
                    self._mine.connection = held
                if transaction.is_active:
                    transaction.rollback()

    def join(self, connection: Connection) -> None:
        """Read in the transaction that this thread's caller has begun, where there is no second connection."""
        if self.has_one_connection:
            self._mine.connection = connection

    def _guarded(self) -> AbstractContextManager[Any]:
        return self._one_by_one if self.has_one_connection else self._gate

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        came = False
        try:
            with self.engine.connect() as conn:
                came = True
                if self._given is None:
                    yield conn
                elif self.dialect == "sqlite":
                    with damage.tolerated(conn.connection.dbapi_connection):
                        yield conn
                else:
                    yield conn.execution_options(isolation_level="READ COMMITTED")
        except sqlite3.DatabaseError as error:  # from the statements that begin a transaction
            self._refuse_corrupt(error)
            raise
        except PoolTimeout as error:
            raise StoreUnreachable(
                f"{self.url_shown}: the engine's pool had no connection left ({_first_line(error)}); let it have more,"
                " or hold fewer open"
            ) from error
        except DBAPIError as error:
            self._refuse_corrupt(error.orig)
            if not came and self.dialect != "sqlite":
                raise StoreUnreachable(connecting.failed(self._url, error)) from error
            if error.connection_invalidated or _is_gone(error):
                raise StoreUnreachable(f"{self.url_shown} does not answer: {_first_line(error.orig)}") from error
            raise

    def _refuse_corrupt(self, error: object) -> None:
        """What SQLite finds broken does not mend by being asked again."""
        if sqlite.is_corrupt(error):
            raise StoreNotOurs(f"{self.url_shown} is corrupt ({_first_line(error)}); {damage.ADVICE}") from None

    def _begin(self, conn: Connection, *, immediate: bool) -> None:
        if self.dialect != "sqlite":
            return
        raw: Any = conn.connection.dbapi_connection
        if self._given is None:
            sqlite.begin(raw, immediate=immediate, seconds=self.lock_timeout)
            return
        patience = raw.execute("PRAGMA busy_timeout").fetchone()[0]  # the app's own, put back at once
        raw.execute("PRAGMA busy_timeout = 0")
        try:
            sqlite.begin(raw, immediate=immediate, seconds=self.lock_timeout)
        finally:
            raw.execute(f"PRAGMA busy_timeout = {int(patience)}")

    def _join(self, connection: Connection) -> None:
        raw: Any = connection.connection.dbapi_connection
        if not connection.in_transaction() or (self.dialect != "sqlite" and _is_autocommit(raw)):
            raise InvalidInput("connection= needs a transaction that its owner has begun and will commit")
        if self.dialect == "sqlite" and not raw.in_transaction:  # begun in SQLAlchemy's books only
            sqlite.begin(raw, immediate=True, seconds=self.lock_timeout)

    # --- clocks and changes -------------------------------------------------------------------------------------------

    def now(self, conn: Connection) -> int:
        """The instant that decides what is due: the database's own on servers, so that all owners agree.

        A clock that a host handed over (a settable one, in tests) decides everywhere.
        """
        if self.own_clock:
            return self.clock.now()
        return int(conn.execute(_SERVER_NOW[self.dialect]).scalar_one())

    def instant(self, connection: Connection | None = None) -> int:
        """``now`` for whoever has no transaction open, or only one of their own."""
        if connection is None and self.own_clock:
            return self.clock.now()
        with nullcontext(connection) if connection is not None else self.read() as conn:
            return self.now(conn)

    @property
    def own_clock(self) -> bool:
        """Whether this process's clock decides, and not the database's."""
        return self.dialect == "sqlite" or not isinstance(self.clock, SystemClock)

    def data_version(self) -> int | None:
        """A number that changes when another connection commits (SQLite files); None where there is none."""
        if self.path is None:
            return None
        with self._gate:
            return self._poll_version()

    def _poll_version(self) -> int:
        if self._poll is None or self._pid != os.getpid():
            self._poll = self.engine.raw_connection()
            self._poll.detach()  # kept for good, and an app's pool may have one connection only
        return int(self._poll.dbapi_connection.execute("PRAGMA data_version").fetchone()[0])

    def _close_idle(self) -> None:
        """Before a fork: SQLite's connections are closed, and opened anew by whoever needs one next."""
        if self.dialect != "sqlite" or self.in_memory or self._pid != os.getpid():
            return
        if self._poll is not None:
            self._poll.close()
            self._poll = None
        if self._made is not None:
            self._made.dispose()

    def dispose(self) -> None:
        """Close our own connections; an app's engine is the app's to close."""
        if self._poll is not None and self._pid == os.getpid():
            self._poll.close()
            self._poll = None
        if self._made is not None and self._pid == os.getpid():
            self._made.dispose()
            self._made = None
        self._installation = None


_SERVER_NOW = {
    "postgresql": select(literal_column("(extract(epoch from clock_timestamp()) * 1000)::bigint")),
    # Not UNIX_TIMESTAMP(): it reads local time, which names two instants in the hour that a fold repeats.
    "mysql": select(func.floor(literal_column("timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(3)) / 1000"))),
}


def _read_url(url: str | URL | None) -> URL:
    try:
        read = make_url(url or "")
    except (ArgumentError, ValueError) as error:
        raise InvalidInput(f"store: expected a database URL such as sqlite:///calsched.db, got {url!r}") from error
    if read.get_backend_name() == "sqlite":
        sqlite.check_address(read)
        name = read.database or ":memory:"
        if name != ":memory:" and not name.startswith("file:"):  # wherever this process goes, a forked child too
            read = read.set(database=os.path.abspath(name))
    driver = _DRIVERS.get(read.drivername)
    return read.set(drivername=driver) if driver else read


def _dialect(url: URL) -> Dialect:
    name = url.get_backend_name()
    if name not in _DIALECTS:
        raise InvalidInput(f"store: expected sqlite, postgresql, mysql or mariadb, got {name!r}")
    return _DIALECTS[name]


def _is_autocommit(raw: Any) -> bool:
    """Whether each statement is a transaction of its own, whatever SQLAlchemy's books say."""
    ask = getattr(raw, "get_autocommit", None)  # MariaDB's drivers; those of PostgreSQL have an attribute
    return bool(ask() if callable(ask) else raw.autocommit)


def _is_gone(error: DBAPIError) -> bool:
    kind = type(error.orig).__name__
    text = str(error.orig).lower()
    if kind == "OperationalError" and ("unable to open" in text or "connect" in text or "server has gone" in text):
        return True
    return kind in {"InterfaceError", "AdminShutdown", "CannotConnectNow"}


def _first_line(error: object) -> str:
    return (str(error).splitlines() or [""])[0]
