"""One tick of one schedule, as a pure function: a revision, its cursor, its pending work and ``now`` give a TickPlan.

The planner knows the policies and the trigger; it neither reads a clock nor touches a store. The way through it::

    due slots ── operator's skips, blackouts ──► set aside, each a range
        │
     misfire ──► skipped | represented | emitted | stay due
                                           │
                         maxLateness ──► skipped (or, under strict admission, the tick is refused)
                                           │
                             overlap ──► start | wait | fold | skipped | stay due
                                           │
                           rateLimit ──► as maxLateness
        │
     budget  ──► everything above, oldest first, until maxOccurrences is used up
        ▼
    TickPlan: rows and ranges that continue the tiling of [0, next ordinal), and the new cursor

Only counts travel along these arrows. A due instant is looked up where a row or the end of a range needs it, so the
work depends on how many rows are written, never on how many slots are due.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, NamedTuple

from calsched.blackouts import blackout_at, held_until, windows
from calsched.model import (
    Cursor,
    Definition,
    OccurrenceKey,
    PlannedOccurrence,
    PlannedRange,
    Series,
    SkipReason,
    TickPlan,
)
from calsched.plan_writer import Hole, LastRange, Pen, Piece, PlanInput, Slots, SlotSource
from calsched.policies import blackout, budget, misfire, overlap

__all__ = [
    "LastRange",
    "PlanInput",
    "SlotSource",
    "blackout_at",
    "first_cursor",
    "held_until",
    "key_for",
    "pass_over",
    "plan",
    "run_at",
]

#: 0001-01-01T00:00:00Z: where a search from the very beginning starts.
FIRST_INSTANT = -62_135_596_800_000

_NOTHING = TickPlan()


def plan(inp: PlanInput, now: int, *, occurrence_batch: int = 100) -> TickPlan:
    """Judge what is due at ``now``. An empty plan (``cursor is None``) when nothing is."""
    first = inp.cursor.next_due
    if first is None or first > now:
        return _NOTHING
    following = inp.trigger.next_after(first)
    if (following is None or following > now) and _is_plain(inp, first, following, now):
        return _single(inp, first, following)
    return _judge(inp, first, now, occurrence_batch)


# --- the common case: one slot, on time, nothing pending, nothing declared that could stand in its way ---------------


def _is_plain(inp: PlanInput, due: int, following: int | None, now: int) -> bool:
    d, pending = inp.definition, inp.pending
    grace = d.grace if d.misfire != "apscheduler" else _apscheduler_grace(d)
    if pending.total or not pending.free_slots or inp.skips or d.blackouts or (grace is not None and now - due > grace):
        return False
    if d.max_occurrences is not None and inp.used + 1 >= d.max_occurrences:
        return False
    if d.expires_at is not None and (now > d.expires_at or (following is not None and following > d.expires_at)):
        return False
    return d.max_lateness is None and d.rate_limit is None


def _single(inp: PlanInput, due: int, following: int | None) -> TickPlan:
    n = inp.cursor.next_ordinal
    return TickPlan(
        occurrences=(PlannedOccurrence(n, due, "ready", inp.pending.free_slots[0], n, n, due),),
        cursor=Cursor(n + 1, following, due, inp.trigger.local(due)),
        used=1,
        ended="exhausted" if following is None else None,
    )


# --- the general case: cut the due slots into pieces, oldest first ---------------------------------------------------


class _Emission(NamedTuple):
    """What becomes of the slots that misfire emits."""

    stale: int  # too old for maxLateness
    over: overlap.Split  # of those that are not
    throttled: int  # rows that the rate limit does not admit, the newest ones


def _judge(inp: PlanInput, first: int, now: int, batch: int) -> TickPlan:
    d = inp.definition
    last = inp.trigger.last_at_or_before(now if d.expires_at is None else min(now, d.expires_at))
    if last is None or last < first:  # what comes next lies past the expiry
        return TickPlan(cursor=inp.cursor._replace(next_due=None), ended="expired")
    slots = Slots(inp.trigger, first, last)
    holes, limit = _holes(inp, slots)
    due = limit - sum(hole.end - hole.start for hole in holes)
    if budget.is_expired(now, d.expires_at):
        return _write(inp, slots, holes, [Piece("skip", due, "expired")])
    split = _misfire(inp, slots, holes, due, now, batch)
    emission = _emission(inp, slots, holes, split, now, batch)
    if d.admission == "strict" and (refused := _refusal(d, emission)):
        return TickPlan(refused=refused)
    return _write(inp, slots, holes, _pieces(inp, split, emission))


def _misfire(inp: PlanInput, slots: Slots, holes: Sequence[Hole], due: int, now: int, batch: int) -> misfire.Split:
    d = inp.definition
    if due == 0:
        return misfire.Split()
    if d.overlap == "apscheduler" and not inp.pending.free_slots:
        return misfire.Split(emitted=due)  # APScheduler looks at max_instances before the grace; overlap drops them all
    grace = _apscheduler_grace(d) if d.misfire == "apscheduler" else d.grace
    late = 0 if grace is None else _outside(holes, slots.up_to(misfire.last_late_instant(now, grace)))
    if d.misfire == "apscheduler":
        return misfire.as_apscheduler(due, late, bool((d.apscheduler or {}).get("coalesce")))
    if d.misfire == "catchUp":
        return _catch_up(d, due, late, _stale(d, slots, holes, now), batch)
    return misfire.decide(d.misfire, due, late, min(d.replay_limit or 1, batch))


def _catch_up(d: Definition, due: int, late: int, stale: int, batch: int) -> misfire.Split:
    """Slots that maxLateness will not admit anyway are not caught up with ten at a time, but left behind at once."""
    split = misfire.decide("catchUp", due - stale, late - min(stale, late), min(d.max_catch_up, batch))
    return split._replace(emitted=split.emitted + stale)


def _emission(
    inp: PlanInput, slots: Slots, holes: Sequence[Hole], split: misfire.Split, now: int, batch: int
) -> _Emission:
    d, pending = inp.definition, inp.pending
    before = split.dropped + split.represented
    stale = min(max(0, _stale(d, slots, holes, now) - before), split.emitted)
    found = overlap.Situation(
        free=len(pending.free_slots),
        waiting=pending.waiting,
        heads=pending.total - pending.waiting,
        foldable=pending.fold_into is not None,
        max_queued=d.max_queued,
        batch=batch,
    )
    over = overlap.decide(d.overlap, split.emitted - stale, found)
    room = budget.rate_room(now, d.rate_limit, d.rate_window, inp.admitted)
    return _Emission(stale, over, 0 if room is None else max(0, over.rows - room))


def _stale(d: Definition, slots: Slots, holes: Sequence[Hole], now: int) -> int:
    stop = budget.last_stale_instant(now, d.max_lateness)
    return 0 if stop is None else _outside(holes, slots.up_to(stop))


def _refusal(d: Definition, emission: _Emission) -> str | None:
    """Why strict admission refuses the whole batch: one occurrence that breaks a limit is enough (seed 002)."""
    over = emission.over
    if emission.stale:
        return f"{emission.stale} of the due occurrences are later than maxLatenessSeconds {_seconds(d.max_lateness)}"
    if emission.throttled:
        return (
            f"{over.rows} occurrences are due, {emission.throttled} more than"
            f" rateLimit {d.rate_limit} in {_seconds(d.rate_window)} s admits"
        )
    if d.overlap == "allow" and over.wait + over.stay:
        return f"{over.rows + over.stay} occurrences are due, {over.wait + over.stay} more than maxConcurrent admits"
    return None


def _pieces(inp: PlanInput, split: misfire.Split, emission: _Emission) -> list[Piece]:
    """Everything that this tick judges, oldest first; the slots after the last piece stay due."""
    over, lead = emission.over, split.represented
    rows = over.rows - emission.throttled
    join: Literal["fold", "join"] = "join" if over.rows else "fold"
    orphans = over.fold if join == "join" and not rows else 0  # nothing to join: the row was not admitted
    pieces = [
        Piece("skip", split.dropped, "misfire"),
        Piece("skip", emission.stale, "maxLateness"),
        *(Piece("start" if row < over.start else "wait", 1) for row in range(rows)),
        Piece("skip", emission.throttled + orphans, "rateLimit"),
        Piece(join, over.fold - orphans),
        Piece("skip", over.skip, over.reason),
        Piece("skip", split.beyond, "replayLimit"),
    ]
    pieces = [piece for piece in pieces if piece.slots]
    if lead:  # the represented slots share the fate of the one that is emitted for them, and nothing comes before it
        pieces[0] = pieces[0]._replace(slots=pieces[0].slots + lead)
    return pieces


# --- slots that are set aside -----------------------------------------------------------------------------------------


def _holes(inp: PlanInput, slots: Slots) -> tuple[list[Hole], int]:
    """What an operator or a blackout takes out of the due slots, in order and disjoint; and how many slots to judge."""
    if not inp.skips and not inp.definition.blackouts:
        return [], slots.total
    skipping, stop = windows(inp.definition, slots.first, slots.last, only="skip")
    limit = slots.total if stop is None else slots.up_to(stop - 1)
    found = [Hole(slots.up_to(w.start - 1), slots.up_to(w.end - 1), "blackout") for w in blackout.merged(skipping)]
    for due in inp.skips:
        if slots.first <= due <= slots.last and inp.trigger.count(due, due):
            position = slots.up_to(due) - 1
            found.append(Hole(position, position + 1, "operator"))
    return _disjoint(found, limit), limit


def _disjoint(holes: Sequence[Hole], limit: int) -> list[Hole]:
    out: list[Hole] = []
    for hole in sorted(holes):
        start, end = max(hole.start, out[-1].end if out else 0), min(hole.end, limit)
        if start < end:
            out.append(hole._replace(start=start, end=end))
    return out


def _outside(holes: Sequence[Hole], position: int) -> int:
    """How many of the first ``position`` due slots are in no hole."""
    return position - sum(max(0, min(hole.end, position) - hole.start) for hole in holes)


# --- write the pieces down --------------------------------------------------------------------------------------------


def _write(inp: PlanInput, slots: Slots, holes: Sequence[Hole], pieces: Sequence[Piece]) -> TickPlan:
    pen = Pen(inp, slots, holes)
    for piece in pieces:
        if not pen.exhausted:
            pen.write(piece)
    if pen.exhausted:
        pen.rest("maxOccurrences")
    pen.pass_holes()
    next_due = _following(inp, slots, pen.position)
    ended = "maxOccurrences" if pen.exhausted else _ended(inp.definition, next_due)
    last_due = slots.due(pen.position - 1)
    return TickPlan(
        occurrences=tuple(pen.occurrences),
        ranges=tuple(pen.ranges),
        cursor=Cursor(
            inp.cursor.next_ordinal + pen.position,
            None if ended else next_due,
            last_due,
            inp.trigger.local(last_due),
        ),
        used=pen.used,
        ended=ended,
        more=pen.position < slots.total,
    )


def _following(inp: PlanInput, slots: Slots, position: int) -> int | None:
    return slots.due(position) if position < slots.total else inp.trigger.next_after(slots.last)


def _ended(d: Definition, next_due: int | None) -> str | None:
    if next_due is None:
        return "exhausted"
    return "expired" if budget.is_expired(next_due, d.expires_at) else None


# --- where a revision starts, and what it leaves behind ---------------------------------------------------------------


def first_cursor(d: Definition, trigger: SlotSource, created_at: int, *, after: int | None = None) -> Cursor:
    """The cursor of a new revision: its first slot at or after its creation, or its very first with ``fromStart``.

    ``after`` is the last judged due instant of the revision that it replaces: the first slot is strictly later.
    """
    start = FIRST_INSTANT if d.backlog == "fromStart" and _has_start(d) else created_at
    if after is not None:
        start = max(start, after + 1)
    return Cursor(0, _open(d, trigger.first_at_or_after(start)))


def pass_over(
    d: Definition, trigger: SlotSource, cursor: Cursor, now: int, reason: SkipReason
) -> tuple[PlannedRange | None, Cursor]:
    """One uncounted range for what is due at ``now`` and not judged (None when nothing is), and the cursor after it.

    Where collecting has stopped (``cursor.next_due`` is None) what was not judged begins after the last judged slot.
    A revision that has judged nothing and lost its next due instant has nothing to pass over. The new cursor has no
    next due instant when nothing follows before the expiry.
    """
    first = cursor.next_due
    if first is None and cursor.last_due is not None:
        first = trigger.next_after(cursor.last_due)
    last = trigger.last_at_or_before(now if d.expires_at is None else min(now, d.expires_at))
    upcoming = _open(d, trigger.next_after(now))
    if first is None or last is None or last < first:
        return None, cursor._replace(next_due=upcoming)
    final = cursor.next_ordinal + trigger.count(first, last) - 1
    passed = PlannedRange(cursor.next_ordinal, final, first, last, reason, counted=False)
    return passed, Cursor(final + 1, upcoming, last, trigger.local(last))


def _open(d: Definition, due: int | None) -> int | None:
    return None if due is None or budget.is_expired(due, d.expires_at) else due


def _has_start(d: Definition) -> bool:
    return any(name in d.trigger for name in ("firstTick", "start", "dtstart", "at"))


# --- when an occurrence may run, and what it is called ----------------------------------------------------------------


def key_for(installation: str, d: Definition, revision: int, ordinal: int, series: Series = "slot") -> OccurrenceKey:
    return OccurrenceKey(installation, d.namespace, d.id, revision, ordinal, series)


def run_at(d: Definition, material: str, due: int, next_due: int | None) -> int:
    """When an occurrence may start: its due instant, with jitter, and after a blackout that holds it.

    ``material`` is what the jitter is a hash of: the occurrence's key as text. The jitter stays below ``jitterSeconds``
    and before the next slot, and nothing is ever computed from the result.
    """
    at = due
    if d.jitter:
        limit = d.jitter if next_due is None else min(d.jitter, next_due - due)
        at += int.from_bytes(hashlib.sha256(material.encode()).digest()[:8]) % max(1, limit)
    return held_until(d, at) if d.blackouts else at


def _apscheduler_grace(d: Definition) -> int | None:
    return (d.apscheduler or {}).get("misfire_grace_time")


def _seconds(millis: int | None) -> str:
    return "none" if millis is None else f"{millis / 1000:g}"
