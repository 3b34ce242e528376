"""Loggers that cannot end what they tell of.

A task runs in the process of its owner, and may close ``sys.stderr`` there, or put a broken handler on the root logger.
``logging`` lets what a handler raises through to whoever logs, which may be the owner's pump, a worker or a tick: a log
line is worth less than any of them, and is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

Handle = Callable[[logging.LogRecord], None]


def get(name: str) -> logging.Logger:
    """The logger of that name, with no handler of which a failure reaches its caller."""
    logger = logging.getLogger(name)
    guard(logger)
    return logger


def guard(logger: Any) -> None:
    """Keep failures of handlers, here or up the tree, from the callers of a logger; what is no ``Logger`` is left."""
    if isinstance(logger, logging.Logger) and not isinstance(logger.handle, _Guarded):
        logger.handle = _Guarded(logger.handle)  # type: ignore[method-assign]


class _Guarded:
    """``Logger.handle`` of one logger."""

    __slots__ = ("_handle",)

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __call__(self, record: logging.LogRecord) -> None:
        try:
            self._handle(record)
        except Exception:  # it cannot be logged either
            return
