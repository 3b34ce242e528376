"""``serve``: an owner in the foreground, until it is told to stop or has lost its store.

Exit codes: 0 after a clean stop, 3 when the store was lost. A second signal while it stops gives up the running tasks
at once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from calsched import logs
from calsched.runtime.callables import AllowList
from calsched.runtime.host import owner_settings, pools, scheduler_for
from calsched.runtime.trouble import Health
from calsched.settings import Settings as HostSettings
from calsched.words import counted

if TYPE_CHECKING:
    from calsched.stores.engine import Store

log = logs.get("calsched.serve")

STOPPED, LOST_STORE = 0, 3
LOOK_SECONDS = 0.5


class Server:
    """One serving process. ``run`` blocks; ``stop`` may be called from anywhere, a signal handler too."""

    def __init__(
        self,
        store: Store,
        settings: HostSettings | None = None,
        *,
        allow: AllowList,
        standby: bool = False,
        on_ready: Callable[[Server], None] | None = None,
    ) -> None:
        from calsched.stores.jobstore import OccurrenceJobStore

        self.store = store
        self.settings = settings or HostSettings()
        self.jobstore = OccurrenceJobStore(store=store, settings=owner_settings(self.settings, allow, standby=standby))
        self._executors = pools(self.settings)
        self._scheduler = scheduler_for(self.jobstore, self._executors)
        self._on_ready = on_ready
        self._stop = threading.Event()
        self._hurry = False
        self._file: tuple[int, int] | None = None
        self.left_running = 0
        self._told = False  # that the store is lost, by the pump

    def stop(self) -> None:
        """Stop in good order; called again, at once."""
        self._hurry = self._stop.is_set()
        self._stop.set()
        if self._hurry and self.jobstore.pump is not None:
            self.jobstore.pump.begin_stop(0)

    def health(self) -> Health:
        return self.jobstore.health()

    def kick(self) -> None:
        """Look at the store now."""
        if self.jobstore.pump is not None:
            self.jobstore.pump.kick()

    def run(self) -> int:
        """Serve until stopped; the exit code. Raises OwnedElsewhere and StoreUnusable where it cannot begin."""
        self._scheduler.start()
        self._file = self._identity()
        log.info("%s serves %s as %s", self._name(), self.store.url_shown, self.jobstore.role)
        if self._on_ready is not None:
            self._on_ready(self)
        lost = self._watch()
        return self._end(lost)

    def _name(self) -> str:
        return "calsched" if self.jobstore.pump is None else self.jobstore.pump.name

    def _watch(self) -> str | None:
        """Until a stop (None), or until the store is lost: what happened to it."""
        role = self.jobstore.role
        while not self._stop.wait(LOOK_SECONDS):
            lost = self._lost()
            if lost is not None:
                return lost
            if self.jobstore.role != role:
                role = self.jobstore.role
                log.info("%s is %s of %s now", self._name(), role, self.store.url_shown)
        return None

    def _lost(self) -> str | None:
        pump = self.jobstore.pump
        if pump is None or pump.done.is_set():
            return "its thread has ended by a fault"
        if self._file is not None and self._identity() != self._file:
            return "the file is gone, or is another one now"
        if pump.trouble.is_lost:
            self._told = True
            return str(pump.trouble.last)
        return None

    def _identity(self) -> tuple[int, int] | None:
        """Which file it is, without opening it."""
        path: Path | None = self.store.path
        if path is None:
            return None
        try:
            found = os.stat(path)
        except OSError:
            return (0, 0)
        return found.st_dev, found.st_ino

    def _end(self, lost: str | None) -> int:
        healthy = self.health().healthy
        limit = 0.0 if lost is not None or self._hurry else self.settings.stop_timeout / 1000
        if lost is None:
            log.info("stopping; running tasks have %g s", limit)
        elif not self._told:
            log.error("%s was lost: %s", self.store.url_shown, lost)
        self.jobstore.stop(limit)
        pump = self.jobstore.pump
        self.left_running = 0 if pump is None else pump.left_running
        self._end_executors()
        if lost is not None:
            return LOST_STORE
        if not healthy and (pump is None or not pump.done.is_set()):
            log.error("%s does not answer; how the last tasks ended could not be recorded", self.store.url_shown)
            return LOST_STORE
        log.info("stopped%s", f"; still running: {counted(self.left_running, 'task')}" if self.left_running else "")
        return STOPPED

    def _end_executors(self) -> None:
        stuck = self.left_running > 0
        for executor in self._executors.values():
            children: dict[int, Any] = getattr(getattr(executor, "_pool", None), "_processes", None) or {}
            for child in list(children.values()) if stuck else ():
                child.terminate()
        self._scheduler.shutdown(wait=not stuck)


def serve(
    store: Store,
    settings: HostSettings | None = None,
    *,
    allow: AllowList,
    standby: bool = False,
    on_ready: Callable[[Server], None] | None = None,
    leave: Callable[[int], Any] | None = os._exit,
) -> int:
    """Serve in the foreground until SIGTERM or SIGINT; the exit code (0 stopped, 3 lost its store).

    Threads cannot be killed: where tasks still run after the limit, ``leave`` ends the process (None: return as usual,
    and wait for them when the interpreter ends). Raises OwnedElsewhere and StoreUnusable where it cannot begin.
    """
    server = Server(store, settings, allow=allow, standby=standby, on_ready=on_ready)
    with _signals(server):
        code = server.run()
    if server.left_running and leave is not None:
        with contextlib.suppress(Exception):  # handlers may be of any make
            logging.shutdown()
        leave(code)
    return code


@contextlib.contextmanager
def _signals(server: Server) -> Iterator[None]:
    """SIGTERM and SIGINT stop the server, and SIGHUP (its terminal is gone) where nobody takes it for something else.

    Only a main thread may ask for that.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(signum: int, frame: FrameType | None) -> None:
        server.stop()

    numbers = [signal.SIGTERM, signal.SIGINT]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # not `nohup`, no files to read
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
