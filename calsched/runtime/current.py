"""What a running task can ask about itself: ``calsched.current_occurrence()``."""

from __future__ import annotations

import os
import threading
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from calsched.clock import to_datetime
from calsched.model import Claimed, OccurrenceKey
from calsched.runtime.workspace import folder


class Flag(Protocol):
    def is_set(self) -> bool: ...


class CancelFlag:
    """Set when a running task is asked to stop: by ``cancel``, by its timeout, or because its owner stops."""

    __slots__ = ("_event", "observed", "reason")

    def __init__(self) -> None:
        self._event: threading.Event | None = None
        self.reason: str | None = None
        self.observed = False  # the task saw it set: when it ends then, it was stopped

    def set(self, reason: str = "cancelled") -> None:
        if self.reason is None:
            self.reason = reason
        if self._event is not None:
            self._event.set()

    def is_set(self) -> bool:
        if self.reason is None:
            return False
        self.observed = True
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Sleeps until the flag is set, at most ``timeout`` seconds; True where it is set."""
        if self._event is None:
            self._event = threading.Event()
        if self.reason is None:
            self._event.wait(timeout)
        return self.is_set()


class FileFlag:
    """A cancel flag for another process: set while the file exists."""

    __slots__ = ("observed", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.observed = False

    def is_set(self) -> bool:
        if os.path.exists(self.path):
            self.observed = True
        return self.observed

    @property
    def reason(self) -> str | None:
        try:
            return Path(self.path).read_text() or "cancelled"
        except OSError:
            return None

    def wait(self, timeout: float | None = None) -> bool:
        pause = threading.Event()
        left = timeout
        while not self.is_set():
            if left is not None and left <= 0:
                return False
            step = 0.1 if left is None else min(0.1, left)
            pause.wait(step)
            left = None if left is None else left - step
        return True


@dataclass(frozen=True, slots=True)
class RunningOccurrence:
    """The occurrence that this task serves. ``str(key)`` is an idempotency key: the same after every retry and crash.

    ``due`` is the nominal due time (UTC); ``represents_first`` … ``represents_last`` are the ordinals that this run
    stands for, its own included; ``deadline`` is when the task should have ended, None where there is none.
    """

    key: OccurrenceKey
    due: datetime
    attempt: int
    represents_first: int
    represents_last: int
    represents_first_due: datetime
    deadline: datetime | None
    cancelled: CancelFlag | FileFlag
    _workspace: str | None = field(default=None, repr=False)

    @property
    def represented(self) -> int:
        """How many due times this run stands for."""
        return self.represents_last - self.represents_first + 1

    @property
    def workspace(self) -> Path | None:
        """A folder of this occurrence's own, made when first asked for; None where the host keeps no workspaces."""
        if self._workspace is None:
            return None
        path = Path(self._workspace)
        path.mkdir(parents=True, exist_ok=True)
        return path


@dataclass(frozen=True, slots=True)
class Context:
    """What a RunningOccurrence is made from, only when a task asks."""

    installation: str
    claimed: Claimed
    flag: CancelFlag | FileFlag
    deadline: int | None
    workspaces: str | None = None

    def occurrence(self) -> RunningOccurrence:
        c = self.claimed
        key = key_of(self.installation, c)
        return RunningOccurrence(
            key=key,
            due=to_datetime(c.due),
            attempt=c.attempt,
            represents_first=c.represents_first,
            represents_last=c.represents_last,
            represents_first_due=to_datetime(c.represents_first_due),
            deadline=None if self.deadline is None else to_datetime(self.deadline),
            cancelled=self.flag,
            _workspace=None if self.workspaces is None else str(folder(self.workspaces, key)),
        )


def key_of(installation: str, c: Claimed) -> OccurrenceKey:
    return OccurrenceKey(installation, c.namespace, c.schedule_id, c.revision, c.ordinal, c.series)


class Holder(Protocol):
    """Anything that can say which occurrence it runs; claims do."""

    def context(self) -> Context: ...


running: ContextVar[Holder | None] = ContextVar("calsched_occurrence", default=None)


def current_occurrence() -> RunningOccurrence | None:
    """The occurrence that the calling task runs for, or None outside of one."""
    holder = running.get()
    return None if holder is None else holder.context().occurrence()
