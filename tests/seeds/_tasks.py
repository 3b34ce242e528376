"""Tasks of the tests: importable by name."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from calsched import current_occurrence

#: What a test wants a task to do, and what tasks have said.
act: dict[str, Callable[[], Any]] = {}
said: list[Any] = []


def run() -> Any:
    return act["run"]() if "run" in act else None


def echo(*args: Any, **kwargs: Any) -> Any:
    """Returns what it was given."""
    said.append((args, kwargs))
    return args[0] if args else kwargs


def fail(message: str = "no paper") -> None:
    raise RuntimeError(message)


def fail_until(attempt: int) -> str:
    occurrence = current_occurrence()
    assert occurrence is not None
    if occurrence.attempt < attempt:
        raise RuntimeError(f"attempt {occurrence.attempt}")
    return "at last"


def log_and_leave() -> str:
    occurrence = current_occurrence()
    assert occurrence is not None and occurrence.workspace is not None
    logging.getLogger("task").warning("half way")
    (occurrence.workspace / "figures.csv").write_text("1,2\n")
    return "done"


def is_even(value: int) -> bool:
    return value % 2 == 0


def is_document(value: object) -> bool:
    return isinstance(value, dict) and value.get("output") == "body"
