"""A clock that stands still until it is moved."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from calsched.clock import to_rfc3339
from calsched.testing.moments import Moment, instant, length


class SettableClock:
    """``calsched.clock.Clock`` for tests. Wall, monotonic and boot-time clock move together, except by ``step``.

    Moments without a zone are in UTC.
    """

    def __init__(self, start: Moment = "2026-01-01T00:00:00Z") -> None:
        self._now = instant(start, "UTC")
        self._monotonic = 3_600_000  # the machine has been up for an hour
        self._watchers: list[Callable[[int], None]] = []

    def now(self) -> int:
        return self._now

    def monotonic(self) -> int:
        return self._monotonic

    def boot_time(self) -> int | None:
        return self._monotonic

    def set(self, to: Moment) -> None:
        """Let time pass until ``to``; nobody ticks meanwhile, as in an outage. Raises ValueError where that is past."""
        at = instant(to, "UTC")
        if at < self._now:
            raise ValueError(
                f"time cannot go back from {to_rfc3339(self._now)} to {to_rfc3339(at)};"
                " step() sets the wall clock alone, as an administrator would"
            )
        self._monotonic += at - self._now
        self._move(at)

    def advance(self, by: timedelta | float | None = None, **parts: float) -> None:
        """Let some time pass: a timedelta, seconds, or ``days=``, ``hours=``, ``minutes=``, ``seconds=``."""
        self.set(self._now + length(by, **parts))

    def step(self, by: timedelta | float | None = None, **parts: float) -> None:
        """Set the wall clock forward or back while no time passes; the other clocks do not move."""
        self._move(self._now + length(by, **parts))

    def watch(self, watcher: Callable[[int], None]) -> None:
        """Call ``watcher`` with the wall clock, in milliseconds, whenever it moves."""
        self._watchers.append(watcher)

    def _move(self, at: int) -> None:
        self._now = at
        for watcher in self._watchers:
            watcher(at)

    def __repr__(self) -> str:
        return f"SettableClock({to_rfc3339(self._now)!r})"
