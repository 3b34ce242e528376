"""SQLite across a fork: no connection may be open while a process forks.

SQLite keeps its locks on a file in the memory of the process. A child inherits that memory but not the locks, so it
would believe that it holds what only its parent holds: locked for ever if the fork fell into a transaction, and a
deleted write-ahead log under its feet when the parent closes. So before a fork the transactions of each store are
waited for and its connections closed; parent and child then open their own.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable

#: A transaction that takes longer than this does not keep a process from forking.
PATIENCE = 5.0


class Gate:
    """Counts the transactions that are open, and holds new ones back while a fork is near."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = weakref.WeakMethod(close)
        self._make()
        _gates.add(self)

    def _make(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._open = 0
        self._shut = False
        self._mine = threading.local()

    def __enter__(self) -> None:
        depth = getattr(self._mine, "depth", 0)
        with self._changed:
            while self._shut and not depth:
                self._changed.wait(PATIENCE)
            self._open += 1
        self._mine.depth = depth + 1

    def __exit__(self, *exc: object) -> None:
        self._mine.depth -= 1
        with self._changed:
            self._open -= 1
            if self._shut:
                self._changed.notify_all()

    def before_fork(self) -> None:
        own = getattr(self._mine, "depth", 0)
        with self._changed:
            self._shut = True
            quiet = self._changed.wait_for(lambda: self._open <= own, PATIENCE)
        close = self._close()
        if quiet and not own and close is not None:
            close()

    def after_in_parent(self) -> None:
        with self._changed:
            self._shut = False
            self._changed.notify_all()

    def after_in_child(self) -> None:
        self._make()


_gates: weakref.WeakSet[Gate] = weakref.WeakSet()


def _each(action: Callable[[Gate], None]) -> Callable[[], None]:
    def run() -> None:
        for gate in list(_gates):
            action(gate)

    return run


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_each(Gate.before_fork),
        after_in_parent=_each(Gate.after_in_parent),
        after_in_child=_each(Gate.after_in_child),
    )
