"""How long a server is given to let us in, and what is said when it does not.

A server that speaks another language may say nothing at all: PostgreSQL waits for its client to begin, and a client of
MariaDB for its server. So each step of a connection has an end, and not the first one alone.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from calsched.errors import InvalidInput

#: Unless the address says otherwise (``?connect_timeout=``).
SECONDS = 10
PREPARE = "prepare_threshold"

_SPOKEN = {"postgresql": "PostgreSQL", "mysql": "MariaDB or MySQL", "mariadb": "MariaDB"}


def seconds(url: URL) -> int:
    """How long a server is waited for. Raises InvalidInput for an address that says no number of seconds."""
    said = url.query.get("connect_timeout", str(SECONDS))
    if not isinstance(said, str) or not said.isdecimal() or not 1 <= int(said) <= 3600:
        raise InvalidInput(f"connect_timeout: expected 1 to 3600 whole seconds, got {said!r}")
    return int(said)


def prepared(url: URL) -> dict[str, Any]:
    """After how many times psycopg prepares a statement, where the address says so; ``none`` is never.

    Behind a pooler that gives each transaction another connection (PgBouncer before 1.21), what was prepared is not
    there the next time. Raises InvalidInput.
    """
    said = url.query.get(PREPARE)
    if said is None or url.get_driver_name() != "psycopg":
        return {}
    if said == "none":
        return {PREPARE: None}
    if not isinstance(said, str) or not said.isdecimal() or len(said) > 6:
        raise InvalidInput(f"{PREPARE}: expected a whole number, or none, got {said!r}")
    return {PREPARE: int(said)}


def arguments(url: URL) -> dict[str, Any]:
    """What a driver is told, for ``connect_args``; nothing where it is not one that we know."""
    driver, limit = url.get_driver_name(), {"connect_timeout": seconds(url)} | prepared(url)
    if driver == "pymysql" and "read_timeout" not in url.query:
        return limit | {"read_timeout": seconds(url)}  # or its greeting is waited for without end
    return limit if driver in ("psycopg", "psycopg2", "pymysql", "mysqldb") else {}


def let_statements_take_their_time(engine: Engine) -> None:
    """PyMySQL's limit on reads is for the greeting alone: a statement may wait for a lock for longer."""
    if engine.url.get_driver_name() != "pymysql" or "read_timeout" in engine.url.query:
        return

    @event.listens_for(engine, "connect")
    def _(connection: Any, record: Any) -> None:
        connection._read_timeout = None


def failed(url: URL, error: DBAPIError) -> str:
    """What is said of a connection that did not come about: who did not answer as what, or what it answered."""
    shown, spoken = url.render_as_string(hide_password=True), _SPOKEN.get(url.get_backend_name(), "a database")
    said: tuple[Any, ...] = getattr(error.orig, "args", ())
    number = said[0] if len(said) > 1 and isinstance(said[0], int) else 0
    cause = (str(said[1] if number else error.orig).splitlines() or [""])[0]
    if 1000 <= number < 2000 or "FATAL: " in cause:  # of the server; what a client finds is numbered from 2000 on
        return f"{shown} refuses the connection: {cause}"
    if "timed out" in cause or "timeout" in cause:
        cause = f"nothing came within {seconds(url)} s; check what listens there"
    return f"{shown} does not answer as {spoken}: {cause}"
