"""What the parts of an owner hand to each other, and what they ask of the scheduler's side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from calsched.runtime.callables import ALLOW_ALL, AllowList
from calsched.runtime.work import Work


class Port(Protocol):
    """The scheduler's side: executors, and where things that happened go. Nothing here may block or raise."""

    def open(self) -> bool:
        """Whether new work may start: the scheduler runs and is not paused."""

    def seats(self) -> Mapping[str, Any]:
        """The executors there are, hooked, as ``Seat`` by alias."""

    def deliver(self, works: list[Work]) -> None:
        """Started work, to be handed to its executors."""

    def settled(self, works: list[Work]) -> None:
        """Outcomes have committed: their events may go out."""

    def advanced(self, schedules: Sequence[Any]) -> None:
        """Ticks have committed (``stores.advance.Advanced``)."""

    def paused(self) -> None:
        """Seen not to be open."""

    def withdraw(self) -> list[Work]:
        """Delivered work that nobody has fetched; nobody will."""

    def close(self) -> None:
        """The pump has ended."""

    def timed_out(self, work: Work) -> None:
        """A thread did not end in its time; it goes on, and its outcome is about to be recorded."""


class Observer(Protocol):
    """Is told what has committed. May neither block nor raise."""

    def started(self, works: Sequence[Work]) -> None: ...
    def ended(self, works: Sequence[Work], report: Any) -> None: ...
    def advanced(self, schedules: Sequence[Any]) -> None: ...


@dataclass(frozen=True)
class Settings:
    """How an owner behaves. Times in seconds."""

    name: str = ""
    poll_interval: float = 1.0
    lease: float = 30.0
    standby: bool = False
    schedule_batch: int = 100
    occurrence_batch: int = 100
    allow: AllowList = ALLOW_ALL
    workspaces: str | None = None
    clock_tolerance: float = 5.0
    default_zone: str | None = None


class Round(NamedTuple):
    """What one transaction did, to be taken into memory after its commit."""

    finished: list[Work]
    returned: list[Work]
    advanced: Any
    begun: list[Work]
    chosen: list[Work]
    moved: set[int]
    report: Any
    now: int
