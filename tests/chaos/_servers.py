"""A database of its own on a test server, so that its connections can be cut without cutting anybody else's."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import OperationalError, ProgrammingError

from tests.stores.conftest import server_url


class Server:
    """One database of a server, with the powers of an administrator over its connections."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.admin: URL = make_url(server_url(kind))
        self.name = f"chaos_{secrets.token_hex(4)}"
        self._engine = create_engine(self.admin, isolation_level="AUTOCOMMIT", pool_pre_ping=True)

    @property
    def url(self) -> str:
        return self.admin.set(database=self.name).render_as_string(hide_password=False)

    def through(self, port: int) -> str:
        """The same database by way of a proxy on this machine."""
        url = self.admin.set(database=self.name, host="127.0.0.1", port=port)
        if self.kind == "postgresql":  # a proxy passes no GSS negotiation worth waiting for
            url = url.update_query_dict({"sslmode": "disable", "gssencmode": "disable"})
        return url.render_as_string(hide_password=False)

    def make(self) -> None:
        with self._engine.connect() as conn:
            try:
                conn.execute(text(f"CREATE DATABASE {self.name}"))
            except (OperationalError, ProgrammingError) as error:
                pytest.skip(f"no right to make a database of its own on {self.kind}: {error.orig}")

    def drop(self) -> None:
        with self._engine.connect() as conn:
            self._end(conn)
            conn.execute(text(f"DROP DATABASE IF EXISTS {self.name}"))
        self._engine.dispose()

    def end_all_connections(self) -> int:
        """What a failover does to clients; how many there were."""
        with self._engine.connect() as conn:
            return self._end(conn)

    def _end(self, conn: Connection) -> int:
        if self.kind == "postgresql":
            found = conn.execute(
                text("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = :name"),
                {"name": self.name},
            )
            return int(found.scalar_one())
        query = text("SELECT id FROM information_schema.processlist WHERE db = :name")
        pids = list(conn.execute(query, {"name": self.name}).scalars())
        for pid in pids:
            try:
                conn.execute(text(f"KILL {int(pid)}"))
            except OperationalError:  # it has gone by itself
                continue
        return len(pids)

    def locate(self) -> tuple[str, int]:
        return self.admin.host or "127.0.0.1", self.admin.port or (5432 if self.kind == "postgresql" else 3306)


@contextmanager
def server(kind: str) -> Iterator[Server]:
    made = Server(kind)
    made.make()
    try:
        yield made
    finally:
        made.drop()


def restart_command() -> list[str] | str:
    """How to restart PostgreSQL here, or why that cannot be done."""
    given = os.environ.get("CALSCHED_TEST_POSTGRES_RESTART")
    if given:
        return given.split()
    if "CALSCHED_TEST_POSTGRES_URL" in os.environ:
        return "the server is not this machine's own: say how in CALSCHED_TEST_POSTGRES_RESTART"
    if os.geteuid() != 0:
        return "only root may restart the server"
    if shutil.which("pg_ctlcluster") is None or shutil.which("pg_lsclusters") is None:
        return "there is no pg_ctlcluster here"
    rows = subprocess.run(["pg_lsclusters", "-h"], capture_output=True, text=True, check=True).stdout.split("\n")
    on_port = [row.split() for row in rows if len(row.split()) > 2 and row.split()[2] == "5432"]
    if not on_port:
        return "no cluster of this machine listens on port 5432"
    version, cluster = on_port[0][:2]
    return ["pg_ctlcluster", "--skip-systemctl-redirect", version, cluster, "restart"]
