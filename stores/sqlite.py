"""What only SQLite needs: a look at a file before it is touched, and transactions that wait fairly.

Nobody but SQLite opens the database file. Reading it with ``open()`` and closing it drops every POSIX lock that this
process holds on it, SQLite's own among them, and later commits vanish.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL

from calsched.errors import InvalidInput, StoreNotOurs, StoreUnreachable
from calsched.stores.damage import ADVICE, read_text

#: File systems whose locks other hosts do not see, or see late.
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "ncpfs", "afs", "ceph", "glusterfs", "lustre", "gfs2"}
    | {"fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone"}
)
#: A job store of APScheduler's own may share the file: that is how an app moves over.
NEIGHBOURS = frozenset({"apscheduler_jobs"})
#: What every store of ours has said of itself since it was made.
IDENTITY = ("installation", "schema_version", "compatible_since")
NUMBERS = IDENTITY[1:]
RETRY_SECONDS = 0.0005

_MOUNT_ESCAPES = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


def look(path: Path, meta_table: str) -> Mapping[str, str] | None:
    """What a store of ours says of itself in its table ``meta``, without changing a byte of the file.

    None: there is no store in it yet. Raises StoreNotOurs for a file that is no SQLite database, is corrupt, or belongs
    to something else, a table of our name included.
    """
    if not path.exists():
        return None
    refuse_hard_links(path)
    if path.stat().st_size == 0:
        return None
    names = frozenset(name for (name,) in _read(path, _TABLE_NAMES))
    if meta_table in names:
        return _known(path, meta_table)
    strangers = sorted(name for name in names - NEIGHBOURS if not _is_ours(name, names))
    if strangers:
        raise StoreNotOurs(
            f"{path} is a database of something else (it has {', '.join(strangers[:3])}); nothing was changed. Choose"
            " another file, or hand over the app's engine (engine=…) to put the tables beside its own"
        )
    return None


def _known(path: Path, meta_table: str) -> Mapping[str, str]:
    columns = {row[1] for row in _read(path, f'PRAGMA table_info("{meta_table}")')}
    known = dict(_read(path, f'SELECT name, value FROM "{meta_table}"')) if {"name", "value"} <= columns else {}
    missing = [name for name in IDENTITY if name not in known or (name in NUMBERS and not str(known[name]).isdigit())]
    if missing:
        raise StoreNotOurs(
            f"{path} has a table {meta_table}, but it is not one of ours (it has no usable {', '.join(missing)});"
            " nothing was changed. Choose another file, or another prefix"
        )
    return known


def _is_ours(name: str, names: frozenset[str]) -> bool:
    """Whether a table belongs to another ledger in the same file, under another prefix."""
    prefixes = [other.removesuffix("meta") for other in names if other.endswith("meta")]
    return any(name.startswith(prefix) and f"{prefix}occurrences" in names for prefix in prefixes)


_TABLE_NAMES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"


def _read(path: Path, statement: str) -> list[Any]:
    try:
        connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro", uri=True, timeout=5)
        connection.text_factory = read_text
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter: a broken name, in SQLite's own message
        if isinstance(error, sqlite3.OperationalError) and "malformed" not in str(error):
            raise StoreUnreachable(f"{path} cannot be read: {error}") from error
        if is_corrupt(error) and "malformed" in str(error):
            raise StoreNotOurs(f"{path} is corrupt ({error}); {ADVICE}") from error
        raise StoreNotOurs(f"{path} is not a SQLite database, or is corrupt ({error}); nothing was changed") from error


def is_corrupt(error: object) -> bool:
    """Whether SQLite says that the file itself is broken."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, sqlite3.DatabaseError) and code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def make(path: Path) -> None:
    """Create the empty file, readable by its owner only. SQLite gives its side files the same mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreUnreachable(f"{path} cannot be created: {error.strerror}") from error


def refuse_network_mount(path: Path) -> None:
    """SQLite's locks and its shared memory do not work across hosts: such a store would corrupt itself."""
    kind = file_system(path)
    if kind in NETWORK_FILE_SYSTEMS:
        raise StoreNotOurs(
            f"{path} lies on a network file system ({kind}), where SQLite's locks do not hold; use a local disk, or"
            " PostgreSQL for several hosts"
        )


def refuse_hard_links(path: Path) -> None:
    """Side files and locks go by name: under two names a database has two of each, and neither holds."""
    names = path.stat().st_nlink
    if names > 1:
        raise StoreNotOurs(
            f"{path} has {names} names (hard links), and SQLite's locks hold for one only; remove the others, or use a"
            " symbolic link"
        )


def file_system(path: Path, mounts: Iterable[str] | None = None) -> str | None:
    """The type of the file system that holds a path, by ``/proc/mounts``; None where the system does not say."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mounts").read_text(errors="replace").splitlines()
        except OSError:
            return None
    where = os.path.realpath(path)
    best, kind = -1, None
    for line in mounts:
        fields = line.split(" ")
        if len(fields) >= 3 and len(point := _unescape(fields[1])) > best and _is_below(where, point):
            best, kind = len(point), fields[2]
    return kind


def _unescape(text: str) -> str:
    for escape, character in _MOUNT_ESCAPES.items():
        text = text.replace(escape, character)
    return text


def _is_below(path: str, point: str) -> bool:
    return point == "/" or path == point or path.startswith(point + "/")


def set_up(connection: sqlite3.Connection, *, wal: bool) -> None:
    """Make a fresh connection of our own engine ours: transactions are begun by hand, commits reach the disk."""
    connection.isolation_level = None
    connection.text_factory = read_text
    connection.execute("PRAGMA busy_timeout = 0")
    connection.execute("PRAGMA foreign_keys = ON")
    # These read the file, which another process may be making into a WAL database at this moment.
    _retry(connection, "PRAGMA synchronous = FULL", 30.0)
    _retry(connection, "PRAGMA cache_size = -16000", 30.0)
    if wal:
        _retry(connection, "PRAGMA journal_mode = WAL", 30.0)


def begin(connection: Any, *, immediate: bool, seconds: float) -> None:
    """Begin a transaction, waiting for the lock in short steps of our own.

    SQLite's busy handler backs off to 100 ms between tries, and a client that waits with it starves behind an owner
    that commits back to back (a median of 3.6 s, where this loop needs 17 ms).
    """
    if not immediate:
        connection.execute("BEGIN")
        _retry(connection, "SELECT 1 FROM sqlite_master LIMIT 1", seconds)
        return
    _retry(connection, "BEGIN IMMEDIATE", seconds)


def _retry(connection: Any, statement: str, seconds: float) -> None:
    give_up = time.monotonic() + seconds
    while True:
        try:
            connection.execute(statement).fetchall()
            return
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_BUSY) & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            if time.monotonic() > give_up:
                raise StoreUnreachable(
                    f"the database stayed locked for {seconds:.0f} s; another process holds a transaction open"
                ) from error
            time.sleep(RETRY_SECONDS)


#: What SQLite's driver reads of a URL without ``uri=true``; it would warn of anything else, and leave it out.
_SQLITE_OPTIONS = frozenset(
    {"uri", "timeout", "isolation_level", "detect_types", "check_same_thread", "cached_statements"}
)


def check_address(url: URL) -> None:
    """Raises InvalidInput for options that are none, and for a file that no file system can have."""
    unknown = sorted(set(url.query) - _SQLITE_OPTIONS)
    if unknown and "uri" not in url.query:
        raise InvalidInput(f"store: {unknown[0]!r} is no option of SQLite's driver; take it out of the URL")
    name = url.database or ""
    try:
        name.encode()
        os.lstat(name)
    except ValueError:
        raise InvalidInput("store: expected the name of the file in UTF-8, without NUL") from None
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            raise InvalidInput(f"store: {name[:60]!r} cannot be a file: {error.strerror}") from None
