"""Tasks that leave a line in a journal before and after their work, each in one write, so that a kill cuts none."""

from __future__ import annotations

import os
import time

from calsched import current_occurrence


def write(text: str) -> None:
    """One whole line, at the end of the journal, whoever else writes there."""
    handle = os.open(os.environ["CHAOS_JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{text}\n".encode())
    finally:
        os.close(handle)


def _name() -> tuple[str, int]:
    occurrence = current_occurrence()
    assert occurrence is not None
    return f"{occurrence.key.schedule_id} {occurrence.key.ordinal} {occurrence.attempt}", occurrence.attempt


def mark(seconds: float = 0.0) -> None:
    name, _ = _name()
    write(f"begin {name}")
    time.sleep(seconds)
    write(f"end {name}")


def flaky(seconds: float = 0.0) -> None:
    """Fails at its first attempt."""
    name, attempt = _name()
    write(f"begin {name}")
    time.sleep(seconds)
    if attempt == 1:
        raise ValueError("not at the first attempt")
    write(f"end {name}")
