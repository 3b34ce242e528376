"""Jobs of the test kit's own tests."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

from calsched import current_occurrence

calls: list[Any] = []


def note(*args: Any, **kwargs: Any) -> int:
    calls.append((args, kwargs))
    return len(calls)


def fail() -> None:
    raise ConnectionError("no answer")


def which() -> None:
    calls.append(current_occurrence())


async def nap() -> str:
    await asyncio.sleep(0)
    calls.append("nap")
    return "rested"


def report(day: date) -> None:
    calls.append(day)
