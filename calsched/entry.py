"""The console script. It takes Ctrl-C before anything else is imported, so that no moment of it ends in a traceback."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130


def _leave(signum: int = 0, frame: FrameType | None = None) -> NoReturn:
    """While nothing is under way that would have to be ended in order."""
    with suppress(Exception):
        sys.stdout.flush()
    os._exit(INTERRUPTED)


def run() -> None:
    """Run the command line. Where a parent has Ctrl-C ignored (``nohup``), it stays ignored."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, _leave)
    from calsched.cli import start

    start.begin()
    from calsched.cli.main import run as command_line

    try:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        command_line()
    except KeyboardInterrupt:  # a second one, or one before the command or after it
        _leave()
    except SystemExit as ended:
        if ended.code == INTERRUPTED and threading.active_count() == 1:
            signal.signal(signal.SIGINT, _leave)
            _leave()  # at the interpreter's own end a second Ctrl-C would be death by signal
        raise
    finally:
        if ours:
            signal.signal(signal.SIGINT, _leave)
        start.over()
