"""The standard streams of a command, whatever becomes of them: tasks run in this process and share them, readers leave.

A task that closes ``sys.stdout`` would end the prints of every other task, the log and the report of a command. So the
streams of the console script cannot be closed; what still cannot be written is dropped.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any, TextIO

_STREAMS = ((1, "stdout"), (2, "stderr"))


class _Lasting(io.TextIOWrapper):
    """A stream that a ``close`` only flushes."""

    def close(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.flush()


def prepare() -> None:
    """Before the first command of a process: three streams that are open, and stay so."""
    _open_missing()
    for _, name in _STREAMS:
        lasting = _lasting(getattr(sys, name))
        setattr(sys, name, lasting)
        setattr(sys, f"__{name}__", lasting)


def _lasting(stream: Any) -> TextIO:
    said = stream.encoding, stream.line_buffering, stream.write_through
    return _Lasting(stream.detach(), said[0], errors="backslashreplace", line_buffering=said[1], write_through=said[2])


def _open_missing() -> None:
    """A parent may have closed them. The store's file would get their numbers, and what a task writes to its standard
    output would land in the middle of the ledger."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def mend() -> None:
    """Give a command something to write to where a task has taken a stream away."""
    for number, name in _STREAMS:
        if not _is_usable(getattr(sys, name)):
            setattr(sys, name, _again(number))


def _is_usable(stream: Any) -> bool:
    try:
        return not stream.closed and stream.writable()
    except Exception:  # None, no stream at all, one without its buffer
        return False


def _again(number: int) -> TextIO:
    """A new stream on a descriptor, which outlives the stream; into nothing where it is closed as well."""
    with contextlib.suppress(OSError):
        os.fstat(number)
        return open(number, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    return open(os.devnull, "w", encoding="utf-8")


def own(stream: TextIO) -> TextIO:
    """The same place on a descriptor that no task knows; the stream itself where it has none (a test's)."""
    try:
        number = os.dup(stream.fileno())
    except (OSError, ValueError):
        return stream
    return open(number, "w", buffering=1, encoding=stream.encoding, errors="backslashreplace")


def flush() -> None:
    """Write what is left of a command's output while its failure can still be told. Raises OSError."""
    mend()
    sys.stdout.flush()


def is_gone() -> bool:
    """Whether the descriptor of a standard stream is closed."""
    for number, _ in _STREAMS:
        try:
            os.fstat(number)
        except OSError:
            return True
    return False


def let_go() -> None:
    """What is left in a buffer and cannot be written goes nowhere, else the interpreter fails with it when it ends."""
    for _, name in _STREAMS:
        stream = getattr(sys, name)
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
