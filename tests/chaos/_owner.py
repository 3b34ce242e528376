"""Owner processes for tests that kill them: a server that forks one an order, because a fork starts in no time.

Usage: python -m tests.chaos._owner JOURNAL. It reads orders from standard input, one JSON object a line, and answers
each with the pid of the process that it forked. It has no thread and no connection of its own.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import psycopg  # noqa: F401
import pymysql  # noqa: F401
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import Connection

from calsched.runtime import narrate, wake  # noqa: F401
from calsched.stores import advance, claim, control, finish, recover
from calsched.stores.engine import Store
from calsched.stores.jobstore import OccurrenceJobStore
from tests.chaos._tasks import write

#: Where an owner can be made to die: the verb, and what it answers when it has done something.
POINTS: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "register": (recover, "register_owner", bool),
    "create": (control, "create", bool),
    "heartbeat": (recover, "heartbeat", bool),
    "advance": (advance, "advance", lambda report: report.schedules),
    "claim": (claim, "claim", bool),
    "start": (claim, "start", bool),
    "finish": (finish, "finish", lambda report: report.final),
    "retry": (finish, "finish", lambda report: report.retrying),
    "stop": (recover, "stop_owner", lambda _: True),
}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()  # it takes a moment


def arm(verb: str, moment: str, nth: int) -> None:
    """Die when a verb has done something n times: ``inside`` of its transaction, ``before`` or ``after`` its commit."""
    module, name, worked = POINTS[verb]
    real, real_write = getattr(module, name), Store.write
    left, reached = nth, False

    def hooked(*args: Any, **more: Any) -> Any:
        nonlocal left, reached
        found = real(*args, **more)
        left -= bool(worked(found))
        if left == 0:
            if moment == "inside":
                die()
            reached = True
        return found

    @contextmanager
    def hooked_write(self: Store, connection: Connection | None = None) -> Iterator[Connection]:
        with real_write(self, connection) as conn:
            yield conn
            if reached and moment == "before":
                die()
        if reached:
            die()

    setattr(module, name, hooked)
    Store.write = hooked_write  # type: ignore[method-assign]


class Owner:
    """An app with one BackgroundScheduler, which lives until it is killed or gets SIGTERM."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.name = order["name"]
        self.stop_after = order.get("stop_after")
        self.store = OccurrenceJobStore(
            order["url"], prefix=order.get("prefix", "calsched_"), name=self.name, lease=order.get("lease", 30.0),
            poll_interval=0.2, allow=["tests.chaos._tasks:*"],
        )  # fmt: skip
        self.scheduler = BackgroundScheduler(
            jobstores={"default": self.store},
            executors={"default": ThreadPoolExecutor(order.get("workers", 8))},
            timezone="UTC",
        )
        self.add = order.get("add", 0)
        self.stop = threading.Event()
        signal.signal(signal.SIGTERM, self._asked)

    def _asked(self, signum: int, frame: FrameType | None) -> None:
        self.stop.set()

    def live(self) -> None:
        for n in range(self.add):
            self.scheduler.add_job("tests.chaos._tasks:mark", "interval", seconds=1, id=f"added-{n}",
                                   replace_existing=True)  # fmt: skip
        self.scheduler.start()
        write(f"owner {self.name} {os.getpid()}")
        waited = 0.0
        while not self.stop.wait(0.05) and (self.stop_after is None or waited < self.stop_after):
            waited += 0.05
            self.look()
        self.store.stop(5)
        self.scheduler.shutdown()
        write(f"left {self.name} {self.store.health().healthy}")

    def look(self) -> None:
        """Both threads have to live, whatever happens to the database."""
        pump = self.store.pump
        threads = {"pump": None if pump is None else pump._thread, "scheduler": self.scheduler._thread}
        for which, thread in threads.items():
            if thread is None or not thread.is_alive():
                write(f"dead {self.name} {which}")
                os._exit(1)


def live(order: dict[str, Any], journal: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    logging.basicConfig(filename=f"{journal}.log", level=logging.INFO, format=f"{order['name']} %(message)s")
    logging.getLogger("apscheduler").setLevel(logging.CRITICAL)
    faulthandler.register(signal.SIGUSR1, file=open(f"{journal}.log", "a"))  # noqa: SIM115  # where it hangs
    if "die" in order:
        arm(*order["die"])
    try:
        Owner(order).live()
    except BaseException as exc:
        logging.exception("an owner could not start")
        write(f"fault {order['name']} {type(exc).__name__}")
        os._exit(1)
    os._exit(0)


def main(journal: str) -> None:
    os.environ["CHAOS_JOURNAL"] = journal
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are not waited for
    gc.freeze()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            sys.stdin.close()
            os.close(1)
            live(json.loads(line), journal)
        print(pid, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
