"""Who owns a SQLite store: a lock on a file beside it, which the system drops when its holder dies.

The file's content is for messages only; the lock is the truth, and the epoch in the ledger is what fences.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

from calsched.errors import OwnedElsewhere, StoreUnreachable

#: How often a standby looks whether the lock has become free.
STANDBY_SECONDS = 0.25
_MAX_CONTENT = 4096


class OwnerLock:
    """``flock`` on ``<real path of the database>.lock``. One object is one claim to ownership."""

    def __init__(self, database: Path, name: str) -> None:
        self.path = Path(os.path.realpath(database) + ".lock")
        self._name = name
        self._database = database
        self._handle: int | None = None
        self._pid = 0

    @property
    def held(self) -> bool:
        return self._handle is not None and self._pid == os.getpid()

    def acquire(self) -> None:
        """Take the lock now, or raise OwnedElsewhere with the owner's name and pid."""
        if not self._try():
            name, pid = self._holder()
            raise OwnedElsewhere(name, pid, str(self._database))

    def wait(self, stop: threading.Event, waiting: Callable[[], None] | None = None) -> bool:
        """Stand by until the lock is ours (True) or ``stop`` is set (False); ``waiting`` is told if it has to wait."""
        if self._try():
            return True
        if waiting is not None:
            waiting()
        while not stop.wait(STANDBY_SECONDS):
            if self._try():
                return True
        return False

    def release(self) -> None:
        """Give the lock up. The file stays: removing it would let two processes lock two files of one name."""
        if self._handle is not None:
            if self._pid == os.getpid():
                os.ftruncate(self._handle, 0)
                fcntl.flock(self._handle, fcntl.LOCK_UN)
            os.close(self._handle)
            self._handle = None

    def _try(self) -> bool:
        if self.held:
            return True
        self._drop_inherited()
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnreachable(f"the owner's lock {self.path} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return False
            raise
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps({"name": self._name, "pid": os.getpid()}).encode(), 0)
        self._handle, self._pid = handle, os.getpid()
        return True

    def _drop_inherited(self) -> None:
        """A lock is shared with the parent after a fork: the child closes its copy, and the parent keeps the lock."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _holder(self) -> tuple[str, int | None]:
        return holder(self._database) or ("another process", None)


def holder(database: Path) -> tuple[str, int | None] | None:
    """Name and pid of whoever wrote the lock file last; None where there is none. For messages: it may be gone."""
    try:
        content = Path(os.path.realpath(database) + ".lock").read_bytes()[:_MAX_CONTENT]
        plain = json.loads(content)
        return str(plain["name"]), int(plain["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_owned(database: Path) -> bool:
    """Whether a process holds the lock now."""
    try:
        handle = os.open(os.path.realpath(database) + ".lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(handle)
