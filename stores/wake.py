"""The channel on which PostgreSQL tells owners that a control has changed something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, text

from calsched.stores import connecting

if TYPE_CHECKING:
    from calsched.stores.engine import Store


def channel(store: Store) -> str:
    """One channel a set of tables: the prefix and ``wake``."""
    return f"{store.prefix}wake"


def notify(store: Store, conn: Connection) -> None:
    """Part of the control's transaction: sent when it commits. Nothing on other databases."""
    if store.dialect == "postgresql":
        conn.execute(text("SELECT pg_notify(:channel, '')"), {"channel": channel(store)})


def connect(store: Store) -> Any:
    """A connection of its own that listens (psycopg), outside of every pool."""
    import psycopg
    from psycopg import sql

    url = store.engine.url.difference_update_query([connecting.PREPARE])  # libpq does not know it
    dsn = url.set(drivername="postgresql").render_as_string(hide_password=False)
    limit = connecting.seconds(url)
    connection = psycopg.connect(dsn, autocommit=True, application_name="calsched-listen", connect_timeout=limit)
    connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel(store))))
    return connection
