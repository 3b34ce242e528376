"""A schedule is found behind. Which of its due slots get an occurrence, and what becomes of the others?

A rule is due every 10 ms from 100 ms on, and nobody looks before 145 ms. Five slots are due then::

    ordinal     0     1     2     3     4     5
    due       100   110   120   130   140   150
                                        ^ now = 145

A slot is *late* when more time than the grace has passed since it was due; exactly the grace is on time. The default
grace is 60 s: none of the five is late, and each gets an occurrence. With a grace of 0 all five are late, and the
schedule's misfire policy decides:

    ==================  ===============  ============================================================
    policy              emitted          the rest
    ==================  ===============  ============================================================
    runOnce (default)   4                0-3 are represented by 4: one run stands for all that is due
    skip                none             0-4 are skipped; a slot that is on time is emitted
    boundedReplay, 2    0 and 1          2-4 are skipped, and never replayed
    catchUp, 2          0 and 1          2-4 stay due: the next tick takes 2 and 3, the one after it 4
    ==================  ===============  ============================================================

So the answer never is a list of slots. It is where to cut: five counts, whose slots follow one another from the oldest
to the newest. A year of missed milliseconds is decided as fast as five. What happens to an emitted slot while earlier
work of its schedule is pending is another question, and ``overlap`` answers it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Policy = Literal["runOnce", "skip", "boundedReplay", "catchUp"]


class Split(NamedTuple):
    """The due slots, oldest first, cut into consecutive parts; the parts add up to all of them."""

    dropped: int = 0  # late, and skipped
    represented: int = 0  # stood for by the first emitted slot
    emitted: int = 0
    beyond: int = 0  # after the emitted ones, and skipped for good
    stay: int = 0  # still due at the next tick


def is_late(due: int, now: int, grace: int) -> bool:
    """Whether a slot missed its grace. The whole product judges lateness by this line, once, when a slot is planned."""
    return now - due > grace


def last_late_instant(now: int, grace: int) -> int:
    """The newest due instant that is late: the same line, solved for ``due``, so that late slots can be counted."""
    return now - grace - 1


def decide(policy: Policy, due: int, late: int, limit: int = 1) -> Split:
    """Cut ``due`` slots, of which the oldest ``late`` are late.

    ``limit`` is how many slots ``boundedReplay`` and ``catchUp`` emit at most in one tick.
    """
    if late == 0:
        return Split(emitted=due)
    match policy:
        case "runOnce":
            return Split(represented=due - 1, emitted=1)
        case "skip":
            return Split(dropped=late, emitted=due - late)
        case "boundedReplay":
            oldest = min(limit, due)
            return Split(emitted=oldest, beyond=due - oldest)
        case "catchUp":
            oldest = min(limit, due)
            return Split(emitted=oldest, stay=due - oldest)


def as_apscheduler(due: int, late: int, coalesce: bool) -> Split:
    """What APScheduler 3.11 does with run times that are due.

    With ``coalesce`` it keeps the last run time alone, late or not, and drops that one too when it is late; without, it
    runs each, and drops those that are late (``BaseScheduler._process_jobs`` and ``executors.base.run_job``).
    """
    if not coalesce:
        return Split(dropped=late, emitted=due - late)
    if late == due:
        return Split(dropped=due)
    return Split(represented=due - 1, emitted=1)
