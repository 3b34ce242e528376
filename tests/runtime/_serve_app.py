"""``serve`` in a process of its own. Usage: _serve_app.py URL STOP_TIMEOUT_MS"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from pathlib import Path

from calsched import current_occurrence
from calsched.runtime.callables import AllowList
from calsched.runtime.serve import Server, serve
from calsched.settings import Settings
from calsched.stores.engine import Store


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def obedient() -> None:
    occurrence = current_occurrence()
    assert occurrence is not None
    say("began")
    occurrence.cancelled.wait(30)
    say("obeyed")


def stubborn() -> None:
    say("began")
    threading.Event().wait(60)


def quick() -> None:
    say("ran")


def failing() -> None:
    raise ValueError("boom")


def finishing() -> None:
    say("began")
    time.sleep(1)


if __name__ == "__main__":
    sys.modules["tests.runtime._serve_app"] = sys.modules["__main__"]
    for function in (obedient, stubborn, quick, failing, finishing):
        function.__module__ = "tests.runtime._serve_app"
    logging.basicConfig(level=logging.INFO, format="LOG %(name)s %(message)s", stream=sys.stdout)
    store = Store(sys.argv[1])
    settings = Settings(stop_timeout=int(sys.argv[2]), poll_interval=200, workers=2)

    def ready(server: Server) -> None:
        say(f"ready {server.jobstore.role} {Path(sys.argv[1]).name}")

    sys.exit(serve(store, settings, allow=AllowList(["tests.runtime._serve_app:*"]), on_ready=ready))
