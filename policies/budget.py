"""How much a revision may still do: its budget of occurrences, its expiry, and its admission limits.

``maxOccurrences`` counts what a revision leaves in the ledger, not what it runs:

    ===========================================  ====
    an occurrence                                   1
    a range of skipped slots                        1
    slots added to such a range by a later tick     0
    a slot that an occurrence represents            0
    an extra run                                    0
    ===========================================  ====

Ranges whose reason is in ``UNCOUNTED`` are free: people set those slots aside, or nobody was there to judge them. When
the budget is used up, what is still due becomes one such range and the revision ends.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Reasons of ranges that use nothing of ``maxOccurrences``.
UNCOUNTED = frozenset({"maxOccurrences", "disabled", "revised", "cancelled", "backlog", "operator", "blackout"})


def is_counted(reason: str) -> bool:
    return reason not in UNCOUNTED


def remaining(max_occurrences: int | None, used: int) -> int | None:
    """What is left of the budget; None where there is no limit."""
    return None if max_occurrences is None else max(0, max_occurrences - used)


def is_expired(now: int, expires_at: int | None) -> bool:
    """Whether the expiry has passed; exactly then is still allowed."""
    return expires_at is not None and now > expires_at


def last_stale_instant(now: int, max_lateness: int | None) -> int | None:
    """The newest due instant that is older than ``maxLateness`` allows; None where there is no limit."""
    return None if max_lateness is None else now - max_lateness - 1


def rate_room(now: int, limit: int | None, window: int | None, admitted: Iterable[int]) -> int | None:
    """How many occurrences the rate limit still admits; None where there is no limit.

    ``admitted`` are the instants at which earlier ones were admitted; those that left the window do not count. The
    window is half open: something admitted exactly one window ago has left it.
    """
    if limit is None or window is None:
        return None
    return max(0, limit - sum(1 for at in admitted if at > now - window))
