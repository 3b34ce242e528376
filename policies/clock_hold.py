"""Can the wall clock be believed? If not, nothing new is dispatched until it can, or until an operator accepts it.

At each tick the highest UTC seen (the high water) is stored, with the boot-time clock beside it. That clock counts from
the machine's start, sleep included, and nobody sets it, so the two together say what the wall clock should show now::

    expected = high water + boot time now − boot time then

    the wall clock shows                         verdict          due state advances at
    less than the high water (− tolerance)       hold, backward   the high water
    more than expected (+ tolerance)             hold, forward    expected
    anything else                                ok               the wall clock, never below the high water

Without a boot-time clock, or after a reboot, nothing is expected and forward steps go unnoticed. While a hold lasts the
stored reading stays as it was, so a hold ends by itself once the wall clock is right again.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["backward", "forward", "restored"]

#: Why there is a hold, and until when; completes "nothing is dispatched: …".
WHY: dict[str, str] = {
    "backward": "the wall clock is behind what it has shown before, until it has caught up or `calsched clock accept`",
    "forward": "the wall clock has jumped ahead, until it is right again or `calsched clock accept`",
    "restored": "a backup was restored, until `calsched backlog` decides on what was missed",
}

#: Two good clocks drift apart by less than this many parts in a million (quartz: 100; slewing: 500).
DRIFT_PPM = 1000


class Reading(NamedTuple):
    """What a tick stored: the high water, and the boot-time clock at that moment where there was one."""

    high_water: int
    boot_time: int | None = None
    boot_id: str | None = None


class Clock(NamedTuple):
    """The verdict. ``now`` is the instant to plan at; ``reading`` is what to store."""

    now: int
    reading: Reading
    hold: Kind | None = None
    off_by: int = 0  # how far the wall clock is from where it should be, negative when it is behind

    @property
    def ok(self) -> bool:
        return self.hold is None


def judge(
    stored: Reading | None,
    now: int,
    *,
    tolerance: int,
    boot_time: int | None = None,
    boot_id: str | None = None,
    held: Kind | None = None,
) -> Clock:
    """The verdict on a wall clock that shows ``now``.

    ``held`` is the hold that is stored. A ``restored`` one ends only when an operator accepts it.
    """
    if stored is None:
        return Clock(now, Reading(now, boot_time, boot_id), held)
    if now < stored.high_water - tolerance:
        return Clock(stored.high_water, stored, held if held == "restored" else "backward", now - stored.high_water)
    expected = _expected(stored, boot_time, boot_id)
    if expected is not None and now > expected + tolerance + _drift(expected - stored.high_water):
        return Clock(expected, stored, held if held == "restored" else "forward", now - expected)
    effective = max(now, stored.high_water)
    return Clock(effective, Reading(effective, boot_time, boot_id), held if held == "restored" else None)


def accept(now: int, *, boot_time: int | None = None, boot_id: str | None = None) -> Reading:
    """What to store when an operator declares the wall clock right, ahead or behind as it may be."""
    return Reading(now, boot_time, boot_id)


def _expected(stored: Reading, boot_time: int | None, boot_id: str | None) -> int | None:
    if stored.boot_time is None or boot_time is None or stored.boot_id != boot_id or boot_time < stored.boot_time:
        return None
    return stored.high_water + boot_time - stored.boot_time


def _drift(elapsed: int) -> int:
    return elapsed * DRIFT_PPM // 1_000_000
