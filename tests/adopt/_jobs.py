"""Rows as APScheduler's SQLAlchemyJobStore writes them."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

from apscheduler.triggers.base import BaseTrigger

from calsched.adopt.apscheduler import Row

NEXT = datetime(2026, 3, 9, 9, 0, tzinfo=UTC)


def row(trigger: BaseTrigger, *, next_run: datetime | None = NEXT, protocol: int = 5, **changes: Any) -> Row:
    """One row; ``changes`` replace entries of the job's state."""
    state = {
        "version": 1,
        "id": "job",
        "func": "jobs:report",
        "trigger": trigger,
        "executor": "default",
        "args": (),
        "kwargs": {},
        "name": "report",
        "misfire_grace_time": 1,
        "coalesce": True,
        "max_instances": 1,
        "next_run_time": next_run,
        **changes,
    }
    data = pickle.dumps(state, protocol)
    return (str(state["id"]), None if next_run is None else next_run.timestamp(), data, len(data))
