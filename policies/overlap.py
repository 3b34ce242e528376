"""A slot is emitted while earlier work of its schedule is pending. Start it, keep it waiting, fold it, or skip it?

Pending work is what waits, is ready, runs, or waits to retry, over all revisions of the schedule and all owners. The
emitted slots come in one go (one, as a rule; thousands after an outage of a fast rule), and the answer is again where
to cut them, oldest first:

    ==========  ===================================  ==============================================
    policy      nothing pending                      something pending
    ==========  ===================================  ==============================================
    queue       one starts, the others wait          all wait, until ``max_queued`` wait; then skipped
    skip        one starts, the others are skipped   all are skipped
    coalesce    one starts, the others fold into it  all fold into the one that waits; when none
    (default)                                        waits, one does and the others fold into it
    allow       as many start as may run at once,    the same
                the others wait
    ==========  ===================================  ==============================================

Only the head of a schedule's queue is ready to be claimed and holds an active slot. Those behind it wait without one,
so that work which cannot start never hides work which can.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Policy = Literal["queue", "skip", "coalesce", "allow", "apscheduler"]
Reason = Literal["overlap", "queueFull", "maxInstances"]

#: APScheduler runs every run time of a batch, however many; here a batch of one tick ends after this many.
APSCHEDULER_BATCH = 10_000


class Situation(NamedTuple):
    """What an emitted slot finds."""

    free: int = 1  # active slots that nobody holds
    waiting: int = 0  # behind the heads
    heads: int = 0  # ready, running or waiting to retry
    foldable: bool = False  # an occurrence of the same revision that nobody has claimed
    max_queued: int = 1000
    batch: int = 100  # rows that one tick may write


class Split(NamedTuple):
    """The emitted slots, oldest first, cut into consecutive parts; the parts add up to all of them.

    Folded slots join the row before them where this tick writes one, and else the occurrence that waits already.
    """

    start: int = 0
    wait: int = 0
    fold: int = 0
    skip: int = 0
    stay: int = 0  # still due at the next tick: the batch is full
    reason: Reason = "overlap"  # of the skipped ones

    @property
    def rows(self) -> int:
        return self.start + self.wait


def decide(policy: Policy, emitted: int, found: Situation) -> Split:
    match policy:
        case "coalesce":
            return _coalesce(emitted, found)
        case "skip":
            return _skip(emitted, found)
        case "queue":
            return _queue(emitted, found)
        case "allow":
            return _allow(emitted, found)
        case "apscheduler":
            return _apscheduler(emitted, found)


def _coalesce(emitted: int, found: Situation) -> Split:
    if emitted == 0 or found.foldable:
        return Split(fold=emitted)
    start = min(1, _openings(found))
    return Split(start=start, wait=1 - start, fold=emitted - 1)


def _skip(emitted: int, found: Situation) -> Split:
    if emitted == 0 or found.waiting or found.heads:
        return Split(skip=emitted)
    start = min(1, _openings(found))
    return Split(start=start, wait=1 - start, skip=emitted - 1)


def _queue(emitted: int, found: Situation) -> Split:
    start = min(emitted, 1, _openings(found))
    wait = min(emitted - start, max(0, found.max_queued - found.waiting))
    if start + wait > found.batch:
        return Split(start=start, wait=found.batch - start, stay=emitted - found.batch)
    return Split(start=start, wait=wait, skip=emitted - start - wait, reason="queueFull")


def _allow(emitted: int, found: Situation) -> Split:
    rows = min(emitted, found.batch)
    start = min(rows, _openings(found))
    return Split(start=start, wait=rows - start, stay=emitted - rows)


def _apscheduler(emitted: int, found: Situation) -> Split:
    """APScheduler's ``max_instances``: a batch of run times is one instance, whose runs follow one another.

    Every active slot taken means that the instances are used up, and then the whole batch is dropped. Otherwise the
    first run takes a slot and the others wait behind it. (An instance that ends early lends its slot to whatever waits:
    runs of one batch may then overlap, though never more of them than ``max_instances``.)
    """
    if not found.free:
        return Split(skip=emitted, reason="maxInstances")
    start = min(emitted, 1)
    wait = min(emitted, APSCHEDULER_BATCH) - start
    return Split(start=start, wait=wait, stay=emitted - start - wait)


def _openings(found: Situation) -> int:
    """Free slots that are not owed to occurrences which wait already: first come, first served."""
    return max(0, found.free - found.waiting)
