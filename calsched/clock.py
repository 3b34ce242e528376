"""The only module that reads the time. Everything else is handed ``now``.

Wall time gives instants (milliseconds since the Unix epoch, UTC); monotonic time gives durations. A duration is never
taken from two wall readings, because the wall clock may be stepped between them.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

#: 9999-12-31T23:59:59.999Z, the last instant that the product knows (seed 000: EXHAUSTED past year 9999).
LAST_INSTANT = 253_402_300_799_999
#: 0001-01-01T00:00:00Z, the first one that can be shown.
FIRST_INSTANT = -62_135_596_800_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class WallClock(Protocol):
    """Where ``now`` comes from."""

    def now(self) -> int:
        """The wall clock, in milliseconds since the Unix epoch (UTC)."""


class Clock(WallClock, Protocol):
    """The clocks of one machine."""

    def monotonic(self) -> int:
        """A clock that never steps, in milliseconds from an arbitrary start; for durations only."""

    def boot_time(self) -> int | None:
        """Milliseconds since this machine booted, sleep included; None where the system does not say."""


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def boot_time(self) -> int | None:
        if not hasattr(time, "CLOCK_BOOTTIME"):
            return None
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def to_millis(moment: datetime) -> int:
    """An aware datetime as an instant; parts of a millisecond are dropped. Naive datetimes raise ValueError."""
    if moment.tzinfo is None:
        raise ValueError(f"a time without a zone is no instant: {moment.isoformat()}")
    return (moment - _EPOCH) // _MILLISECOND


def to_datetime(instant: int) -> datetime:
    """An instant as an aware UTC datetime."""
    return _EPOCH + timedelta(milliseconds=instant)


def to_rfc3339(instant: int) -> str:
    """An instant as canonical RFC 3339: ``2026-03-08T14:00:00Z``, with ``.mmm`` only where it has milliseconds."""
    moment = to_datetime(instant)
    text = f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}"
    return f"{text}.{instant % 1000:03d}Z" if instant % 1000 else f"{text}Z"
