"""What holds for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parent
#: Tests that start, stop and kill real processes, which share two cores with each other. One that runs out of time is
#: tried again, and the run says so; a fault fails three times.
PROCESSES = ("jobstore", "howto", "docs", "runtime", "seeds", "cli", "stores", "agent", "testing", "adopt")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        room = item.path.relative_to(ROOT).parts[0]
        if room in PROCESSES:
            item.add_marker(pytest.mark.flaky(reruns=2))
        elif room == "chaos":  # what went wrong once in a hundred is what these look for
            item.add_marker(pytest.mark.flaky(reruns=2, only_rerun=["in vain", "still lives"]))
