"""Small files that somebody else writes: read whole or refused in a few words, and never waited for."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO


class Unreadable(ValueError):
    """What keeps a file from being read; ``line`` where one is to blame."""

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__(why)
        self.line = line


def opened(path: Path) -> BinaryIO:
    """An ordinary file, for whoever reads it piece by piece; a FIFO or a device might never end. Raises Unreadable."""
    try:
        file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115  # the caller's to close
    except OSError as error:
        raise Unreadable(_why(error)) from None
    except ValueError:
        raise Unreadable("no name that a file can have") from None
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise Unreadable("cannot be read: not an ordinary file")


def content(path: Path, most: int) -> bytes:
    """The bytes of an ordinary file of at most ``most`` bytes. Raises Unreadable."""
    with opened(path) as file:
        try:
            data = file.read(most + 1)
        except OSError as error:
            raise Unreadable(_why(error)) from None
    if len(data) > most:
        raise Unreadable(f"larger than {most // 1024**2} MiB" if most % 1024**2 == 0 else f"larger than {most:,} bytes")
    return data


def text(path: Path, most: int) -> str:
    """The same as text in UTF-8, with or without the mark that Windows editors put before it."""
    data = content(path, most)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable("not UTF-8 text; save it as UTF-8", data.count(b"\n", 0, error.start) + 1) from None


def real(path: Path | str) -> Path:
    """The path without links. One whose links go round in a circle stays as it is: whoever opens it is told."""
    return Path(os.path.realpath(path))


def _why(error: OSError) -> str:
    why = error.strerror or str(error)
    return f"cannot be read: {why[:1].lower()}{why[1:]}"


def _without_waiting(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
