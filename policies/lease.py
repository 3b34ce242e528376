"""Who owns a store: an owner holds an epoch, and a lease that it renews by heartbeats. Epochs only rise.

Nobody believes a lease to be dead because of what one look says: the looker's own outage looks the same. It has to
watch the heartbeat stand still for a whole lease, by its own monotonic clock, and to renew its own first.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

OwnerState = Literal["live", "stopped", "fenced"]


class Watch(NamedTuple):
    """A heartbeat that was seen to stand still, and since when (the watcher's monotonic clock)."""

    heartbeat: int
    since: int


def is_expired(lease_until: int, now: int) -> bool:
    """Whether a lease has run out; at its last instant it still holds. Both are readings of one clock."""
    return now > lease_until


def is_alive(state: OwnerState, lease_until: int, now: int) -> bool:
    return state == "live" and not is_expired(lease_until, now)


def watch(previous: Watch | None, heartbeat: int, monotonic: int) -> Watch:
    """Keep watching, or start anew because the heartbeat has moved."""
    if previous is not None and previous.heartbeat == heartbeat:
        return previous
    return Watch(heartbeat, monotonic)


def may_take_over(
    state: OwnerState, lease_until: int, now: int, seen: Watch | None, heartbeat: int, monotonic: int, lease: int
) -> bool:
    """Whether an owner may be fenced: it has expired, and was seen to stand still for one whole lease."""
    if state != "live" or not is_expired(lease_until, now):
        return False
    return seen is not None and seen.heartbeat == heartbeat and monotonic - seen.since >= lease


def is_fenced(state: OwnerState | None) -> bool:
    """Whether an epoch may write no more. ``None``: its row is gone."""
    return state != "live"


def may_start(renewed: int, monotonic: int, lease: int, margin: int = 0) -> bool:
    """Whether an owner may start a task by its own reckoning, without asking the database.

    ``renewed`` is its monotonic clock just before the last heartbeat that committed, so that the lease it counts on is
    never longer than the one the database granted.
    """
    return monotonic + margin < renewed + lease
