"""Transactions that lost against another one: what a database says then, and doing them again.

Servers end one of two transactions that wait for each other (a deadlock), or that cannot both be true. Nothing of the
loser is written, so doing it again is safe, and it then sees what the winner wrote. SQLite has one writer at a time,
and so none of this.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from calsched.errors import StoreBusy

if TYPE_CHECKING:
    from calsched.stores.engine import Store

T = TypeVar("T")

#: How often a transaction is done again, each time after twice the pause of the time before.
TRIES = 6
PAUSE_SECONDS = 0.02
#: No further try begins later than this (milliseconds): a lock that MariaDB gave up waiting for has cost 50 s already.
PATIENCE = 60_000

_DEADLOCK = "it and another transaction waited for each other"
_CHANGED = "another transaction changed what it had read"
_LOCKED = "another transaction held what it waited for too long"
_TAKEN = "another transaction wrote the same thing at the same moment"
#: By SQLSTATE (PostgreSQL) and by error number (MariaDB).
_SAID: dict[Any, str] = {
    "40P01": _DEADLOCK,
    "40001": _CHANGED,
    "55P03": _LOCKED,
    "23505": _TAKEN,
    1213: _DEADLOCK,
    1020: _CHANGED,
    1205: _LOCKED,
    1062: _TAKEN,
}


def lost(error: DBAPIError) -> str | None:
    """How a transaction lost against another one; None where the error says something else."""
    arguments = getattr(error.orig, "args", ())
    number = arguments[0] if arguments and isinstance(arguments[0], int) else None
    return _SAID.get(number) or _SAID.get(getattr(error.orig, "sqlstate", None))  # MariaDB's number says more


def busy(store: Store, why: str) -> StoreBusy:
    return StoreBusy(f"{store.url_shown} is busy: {why}; nothing was changed, try again")


def write(store: Store, work: Callable[[Connection], T], connection: Connection | None = None) -> T:
    """Do ``work`` in a transaction of its own, again where it lost against another one: it may run several times.

    A row that exists by now (a lost race for an id) is such a loss too: the next try finds it, and says so in the words
    of the verb. With the caller's ``connection`` it joins that transaction, in a savepoint, so that what is refused
    leaves nothing behind; the caller commits, and does it all again where it lost. Raises StoreBusy where every try
    lost, and whatever ``work`` raises.
    """
    if connection is not None:
        with store.write(connection) as conn, conn.begin_nested():
            return work(conn)
    begun, tries = store.clock.monotonic(), 0
    while True:
        try:
            with store.write() as conn:
                return work(conn)
        except DBAPIError as error:
            why = lost(error)
            if why is None:
                raise
            tries += 1
            if tries == TRIES or store.clock.monotonic() - begun > PATIENCE:
                raise busy(store, why) from error
        time.sleep(PAUSE_SECONDS * 2 ** (tries - 1))
