"""Tasks for the tests: importable by name, and they say what happened through queues that the tests wait on."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import signal
import sys
import threading
import time
from datetime import datetime
from typing import Any

from calsched import SystemClock, current_occurrence
from calsched.clock import to_datetime

ran: queue.SimpleQueue[Any] = queue.SimpleQueue()
gate = threading.Event()
calls: list[Any] = []


def now() -> datetime:
    return to_datetime(SystemClock().now())


def reset() -> None:
    global ran
    while not ran.empty():
        ran.get_nowait()
    gate.clear()
    calls.clear()


def noop(*args: Any, **kwargs: Any) -> None:
    return None


def tell(*args: Any, **kwargs: Any) -> Any:
    ran.put((args, kwargs))
    return args[0] if args else None


def tell_key() -> str:
    occurrence = current_occurrence()
    assert occurrence is not None
    ran.put(occurrence)
    return str(occurrence.key)


def fail(text: str = "boom") -> None:
    ran.put("failed")
    raise ValueError(text)


def fail_until(attempt: int) -> str:
    occurrence = current_occurrence()
    assert occurrence is not None
    ran.put(occurrence.attempt)
    if occurrence.attempt < attempt:
        raise RuntimeError(f"attempt {occurrence.attempt}")
    return "at last"


def wait_for_gate(limit: float = 20.0) -> str:
    ran.put("began")
    assert gate.wait(limit)
    ran.put("ended")
    return "through"


def until_cancelled() -> str | None:
    occurrence = current_occurrence()
    assert occurrence is not None
    ran.put("began")
    if occurrence.cancelled.wait(20):
        ran.put(f"asked to stop: {occurrence.cancelled.reason}")
    return None


async def tell_async(value: Any = "async") -> Any:
    await asyncio.sleep(0)
    occurrence = current_occurrence()
    ran.put((value, None if occurrence is None else str(occurrence.key)))
    return value


async def sleep_async(seconds: float = 20.0) -> None:
    ran.put("began")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        ran.put("cancelled")
        raise


def is_even(value: int) -> bool:
    return value % 2 == 0


def spoil(values: list[int]) -> list[int]:
    values.append(len(values))
    ran.put(list(values))
    return values


class Bad(Exception):
    """Cannot be unpickled: its constructor wants two arguments."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a}{b}")


async def leave() -> None:
    sys.exit(3)


async def leave_later() -> None:
    asyncio.get_running_loop().call_soon(sys.exit, 4)
    await asyncio.sleep(0.01)


async def stop_the_loop() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.01)


def fork(code: int | None = None) -> Any:
    """Its child comes to the end of the task as well, or leaves by ``sys.exit``; how did that child end?"""
    child = os.fork()
    if child == 0:
        return None if code is None else sys.exit(code)
    for _ in range(250):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "it stayed"


async def fork_async(code: int | None = None) -> Any:
    return fork(code)


# --- for process pools: nothing comes back but the outcome, so they write files -------------------------------------


def child_key(folder: str) -> str:
    occurrence = current_occurrence()
    assert occurrence is not None
    with open(os.path.join(folder, str(occurrence.key.ordinal)), "w") as file:
        file.write(str(os.getpid()))
    return str(occurrence.key)


def child_dies() -> None:
    os._exit(3)


def child_bad() -> None:
    raise Bad(1, 2)


def child_lock() -> Any:
    return threading.Lock()


def child_sleeps(seconds: float = 20.0) -> None:
    time.sleep(seconds)


def child_waits_for(path: str) -> None:
    for _ in range(2000):
        if os.path.exists(path):
            return
        time.sleep(0.01)
    raise AssertionError("in vain")


def child_until_cancelled(folder: str) -> None:
    occurrence = current_occurrence()
    assert occurrence is not None
    open(os.path.join(folder, "began"), "w").close()
    occurrence.cancelled.wait(20)


class Broken(logging.Handler):
    def handle(self, record: logging.LogRecord) -> bool:
        raise RuntimeError("this handler is broken")


def child_breaks_logging(folder: str) -> None:
    """A line in a file for each run; what the process logs afterwards comes to a handler that raises."""
    with open(os.path.join(folder, "runs"), "a") as file:
        file.write(f"{os.getpid()}\n")
    logging.basicConfig(level=logging.INFO, handlers=[Broken()], force=True)
