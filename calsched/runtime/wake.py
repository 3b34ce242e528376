"""PostgreSQL tells an owner when somebody changed a schedule; everywhere else the pump looks once a poll interval."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from calsched import logs

if TYPE_CHECKING:
    from calsched.stores.engine import Store

log = logs.get("calsched.pump")


class Listener:
    """A thread with a connection of its own that waits for notifications. Losing it costs time, never work."""

    def __init__(self, connect: Callable[[], Any], kick: Callable[[], None]) -> None:
        self._connect, self._kick = connect, kick
        self._stop = threading.Event()
        self.ready = threading.Event()  # a connection listens
        self._thread = threading.Thread(target=self._run, name="calsched-listen", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        pause = 0.5
        while not self._stop.is_set():
            try:
                self._listen()
                pause = 0.5
            except Exception:
                log.debug("the wake-up connection was lost; polling goes on", exc_info=True)
            self._stop.wait(pause)
            pause = min(30.0, pause * 2)

    def _listen(self) -> None:
        connection = self._connect()
        try:
            self.ready.set()
            self._kick()  # what was changed while nobody listened
            while not self._stop.is_set():
                for _ in connection.notifies(timeout=1.0, stop_after=1):
                    self._kick()
        finally:
            self.ready.clear()
            connection.close()


def listener(store: Store, kick: Callable[[], None]) -> Listener | None:
    if store.dialect != "postgresql":
        return None
    from calsched.stores.wake import connect

    return Listener(lambda: connect(store), kick)
