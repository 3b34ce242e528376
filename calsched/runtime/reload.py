"""Declaration files that are applied again when they change, or when SIGHUP asks for it.

What the files are decides, not what a notification says: a change of their fingerprint (name, size, time, inode) is a
change, so that missed and doubled events do no harm. Bad files are told, and what runs goes on as it was.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from calsched import logs
from calsched.declare.read import NOT_DECLARATIONS, SUFFIXES
from calsched.errors import CalschedError, InvalidInput, StoreUnusable
from calsched.words import counted

log = logs.get("calsched.serve")

#: Without any notification the files are looked at this often, in seconds: network mounts send none.
LOOK = 5.0
#: After a store that did not answer it is tried again so much later, in seconds.
AGAIN = 5.0
_SUFFIXES = frozenset({*SUFFIXES, ".ics"})

Fingerprint = tuple[tuple[str, int, int, int], ...]
_CHANGED, _ASKED, _STOP = "changed", "asked", "stop"


def fingerprint(paths: Sequence[Path]) -> Fingerprint:
    """What tells whether any file of these files and directories has changed. Never raises."""
    return tuple(_of_file(file) for path in paths for file in _files(path))


def _files(path: Path) -> Sequence[Path]:
    try:
        return sorted(entry for entry in path.iterdir() if _counts(entry.name))
    except OSError:  # a file, or nothing that can be read
        return [path]


def _counts(name: str) -> bool:
    return not name.startswith(".") and name not in NOT_DECLARATIONS and Path(name).suffix.lower() in _SUFFIXES


def _of_file(file: Path) -> tuple[str, int, int, int]:
    try:
        found = os.stat(file)
    except OSError:
        return str(file), 0, 0, 0
    return str(file), found.st_mtime_ns, found.st_size, found.st_ino


class Reloader:
    """Calls ``apply`` in a thread of its own, never twice at once.

    Make it before the files are first applied, so that no change is missed. ``apply`` may raise CalschedError: it is
    told then, with every problem, and tried again at the next change (or soon, where the store did not answer).
    """

    def __init__(self, paths: Sequence[Path | str], apply: Callable[[], object]) -> None:
        self.paths = [Path(path).absolute() for path in paths]
        self.apply = apply
        self._seen = fingerprint(self.paths)
        self._queue: queue.SimpleQueue[str] = queue.SimpleQueue()  # its put() may be called in a signal handler
        self._ends = threading.Event()
        self._threads: list[threading.Thread] = []
        self._again = False  # the last try failed for the store's sake

    # --- from outside -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._threads = [threading.Thread(target=self._run, name="calsched-reload", daemon=True)]
        if _can_watch():
            self._threads.append(threading.Thread(target=self._watch, name="calsched-watch", daemon=True))
        else:
            log.info("the extra `watch` is not installed: files are applied again on SIGHUP only")
        for thread in self._threads:
            thread.start()

    def request(self) -> None:
        """Apply the files now, changed or not. Safe in a signal handler."""
        self._queue.put(_ASKED)

    def stop(self) -> None:
        self._ends.set()
        self._queue.put(_STOP)
        for thread in self._threads:
            thread.join(10)

    @contextmanager
    def running(self) -> Iterator[Reloader]:
        """Started, and asked by SIGHUP, while the block runs."""
        with self._hangups():
            self.start()
            try:
                yield self
            finally:
                self.stop()

    @contextmanager
    def _hangups(self) -> Iterator[None]:
        """Only a main thread may ask for signals, and Windows has no such one."""
        if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGHUP"):
            yield
            return

        def handle(signum: int, frame: FrameType | None) -> None:
            self.request()

        before = signal.signal(signal.SIGHUP, handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGHUP, before)

    # --- applying -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            asked = self._next()
            if asked is None:
                return
            self._seen = fingerprint(self.paths)
            self._try(asked)

    def _next(self) -> bool | None:
        """Wait for the next reason to apply: whether somebody asked for it; None when it is over."""
        reasons: set[str] = set()
        try:
            reasons.add(self._queue.get(timeout=AGAIN if self._again else None))
            while True:
                reasons.add(self._queue.get_nowait())
        except queue.Empty:
            pass
        return None if _STOP in reasons else _ASKED in reasons

    def _try(self, asked: bool) -> None:
        was_away, self._again = self._again, False
        try:
            self.apply()
        except StoreUnusable as error:
            self._again = True
            if not was_away:
                log.error("the files are applied as soon as the store answers: %s", error)
        except InvalidInput as error:
            for problem in error.problems:
                log.error("%s", problem)
            log.error(
                "%s: nothing was applied, the schedules stay as they were", counted(len(error.problems), "problem")
            )
        except CalschedError as error:
            log.error("nothing was applied, the schedules stay as they were: %s", error)
        except Exception:
            log.exception("nothing was applied, by a fault of calsched; the schedules stay as they were")
        else:
            if asked or was_away:
                log.info("the files have been applied")

    # --- watching -----------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._ends.is_set():
            try:
                self._watch_folders()
            except Exception as error:  # a folder that is gone for a moment, no inotify watch left
                log.debug("the files cannot be watched at the moment: %s", error)
                self._ends.wait(LOOK)
            self._look()

    def _watch_folders(self) -> None:
        """Until the end, or until one of the folders is another one than at the beginning."""
        import watchfiles

        folders = self._folders()
        changes = watchfiles.watch(
            *folders, watch_filter=None, recursive=False, step=100, rust_timeout=int(LOOK * 1000),
            yield_on_timeout=True, raise_interrupt=False, stop_event=self._ends,
        )  # fmt: skip
        for _ in changes:
            self._look()
            if self._folders() != folders:
                return

    def _folders(self) -> dict[Path, Any]:
        """Folders to watch, with their identity. Of a file its folder, because editors replace files."""
        folders = {path if path.is_dir() else path.parent for path in self.paths}
        return {folder: _identity(folder) for folder in sorted(folders)}

    def _look(self) -> None:
        found = fingerprint(self.paths)
        if found != self._seen:
            self._seen = found
            self._queue.put(_CHANGED)


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _can_watch() -> bool:
    from importlib.util import find_spec

    return find_spec("watchfiles") is not None
