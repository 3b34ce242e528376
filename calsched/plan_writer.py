"""How a plan is written down: due slots by position, cut into pieces, become rows and ranges (see ``planner``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

from calsched.model import Cursor, Definition, FoldTarget, Pending, PlannedOccurrence, PlannedRange, SkipReason
from calsched.policies import budget


class SlotSource(Protocol):
    """What the planner asks of a trigger (``calsched.triggers.base.Trigger`` is one)."""

    def first_at_or_after(self, instant: int) -> int | None: ...
    def next_after(self, instant: int) -> int | None: ...
    def last_at_or_before(self, instant: int) -> int | None: ...
    def count(self, first: int, last: int) -> int: ...
    def nth_after(self, instant: int, n: int) -> int | None: ...
    def local(self, instant: int) -> str | None: ...


class LastRange(NamedTuple):
    """The newest skipped range of the live revision: a consecutive one with the same reason extends it."""

    pk: int
    last: int
    reason: str


class PlanInput(NamedTuple):
    definition: Definition
    trigger: SlotSource
    cursor: Cursor
    used: int  # of maxOccurrences
    pending: Pending
    last_range: LastRange | None = None
    skips: frozenset[int] = frozenset()  # due instants that an operator wants skipped
    admitted: tuple[int, ...] = ()  # when earlier occurrences were planned, as far as the rate window reaches back


class Hole(NamedTuple):
    """Due slots set aside before any policy looks: positions [start, end) among the due slots."""

    start: int
    end: int
    reason: SkipReason


class Piece(NamedTuple):
    """Consecutive due slots (holes not counted) that share a fate.

    ``start`` and ``wait`` are one occurrence for the last of its slots, which represents the others.
    """

    fate: Literal["start", "wait", "join", "fold", "skip"]
    slots: int
    reason: SkipReason | None = None


class Slots:
    """The due slots by position. An instant is looked up when asked for, from the nearest one known."""

    def __init__(self, trigger: SlotSource, first: int, last: int) -> None:
        self.trigger, self.first, self.last = trigger, first, last
        self.total = trigger.count(first, last)
        self._known = {0: first, self.total - 1: last}
        self._bounds: dict[int, int] = {}  # position of a slot -> an instant at or after which there is no later one

    def due(self, position: int) -> int:
        known = self._known.get(position)
        if known is None:
            known = self._known[position] = self._look_up(position)
        return known

    def up_to(self, instant: int) -> int:
        """How many of the due slots are due at or before an instant."""
        if instant < self.first:
            return 0
        if instant >= self.last:
            return self.total
        count = self.trigger.count(self.first, instant)
        self._bounds[count - 1] = instant
        return count

    def _look_up(self, position: int) -> int:
        known, trigger = self._known, self.trigger
        if position in self._bounds:
            found = trigger.last_at_or_before(self._bounds[position])
        elif position - 1 in known or position - 1 in self._bounds:
            found = trigger.next_after(self.due(position - 1))
        elif position + 1 in known or position + 1 in self._bounds:
            found = trigger.last_at_or_before(self.due(position + 1) - 1)
        else:
            found = trigger.nth_after(self.first, position)
        assert found is not None, "the trigger counts slots that it does not yield"
        return found


class Pen:
    """Writes pieces from the oldest due slot on, holes in passing, until the budget is used up."""

    def __init__(self, inp: PlanInput, slots: Slots, holes: Sequence[Hole]) -> None:
        self.inp, self.slots, self.holes = inp, slots, list(reversed(holes))
        self.position, self.used = 0, 0
        self.left = budget.remaining(inp.definition.max_occurrences, inp.used)
        self.free = list(reversed(inp.pending.free_slots))
        self.occurrences: list[PlannedOccurrence] = []
        self.ranges: list[PlannedRange] = []

    @property
    def exhausted(self) -> bool:
        return self.left is not None and self.used >= self.left

    def write(self, piece: Piece) -> None:
        runs = self._runs(piece.slots)
        if piece.fate == "start" or piece.fate == "wait":
            self._row(list(runs), ready=piece.fate == "start")
            return
        for start, end in runs:
            if piece.fate == "skip":
                self._range(start, end, reason=piece.reason)
            elif piece.fate == "fold" and self.inp.pending.fold_into is not None:
                self._fold(start, end, self.inp.pending.fold_into)
            else:
                self._join(start, end)
            if self.exhausted:
                return

    def rest(self, reason: SkipReason) -> None:
        """All that is still due, as one range."""
        if self.position < self.slots.total:
            start, self.position = self.position, self.slots.total
            self._range(start, self.slots.total, reason=reason)

    def pass_holes(self) -> None:
        while self.holes and self.holes[-1].start == self.position:
            hole = self.holes.pop()
            self.position = hole.end
            self._range(hole.start, hole.end, reason=hole.reason)

    def _runs(self, count: int) -> Iterator[tuple[int, int]]:
        """The next ``count`` slots outside holes, as runs of positions [start, end)."""
        while count:
            self.pass_holes()
            stop = self.holes[-1].start if self.holes else self.slots.total
            start, end = self.position, min(self.position + count, stop)
            self.position, count = end, count - (end - start)
            yield start, end

    def _row(self, runs: Sequence[tuple[int, int]], ready: bool) -> None:
        """One occurrence for the last slot; the slots before it are represented."""
        first, last = runs[0][0], runs[-1][1] - 1
        ordinal = self._ordinal(last)
        slot = self.free.pop() if ready else None
        state: Literal["ready", "waiting"] = "ready" if ready else "waiting"
        due, first_due = self.slots.due(last), self.slots.due(first)
        self.occurrences.append(PlannedOccurrence(ordinal, due, state, slot, self._ordinal(first), ordinal, first_due))
        self.used += 1
        for start, end in runs:
            if start < min(end, last):
                self._range(start, min(end, last), represented_by=ordinal)

    def _join(self, start: int, end: int) -> None:
        self.occurrences[-1] = self.occurrences[-1]._replace(represents_last=self._ordinal(end - 1))
        self._range(start, end, represented_by=self.occurrences[-1].ordinal)

    def _fold(self, start: int, end: int, target: FoldTarget) -> None:
        consecutive = target.represents_last == self._ordinal(start) - 1 and not self.ranges
        self._range(start, end, folded_into=target.pk, extends=target.range_pk if consecutive else None)

    def _range(
        self,
        start: int,
        end: int,
        reason: SkipReason | None = None,
        represented_by: int | None = None,
        folded_into: int | None = None,
        extends: int | None = None,
    ) -> None:
        """Write slots [start, end) as a range, as part of the one before it where the verdict is the same."""
        first, last = self._ordinal(start), self._ordinal(end - 1)
        before = self.ranges[-1] if self.ranges else None
        verdict = (reason, represented_by, folded_into)
        if before is not None and before.last == first - 1 and before[4:7] == verdict:
            self.ranges[-1] = before._replace(last=last, last_due=self.slots.due(end - 1))
            return
        newest = self.inp.last_range
        if before is None and newest is not None and (newest.last, newest.reason) == (first - 1, reason):
            extends = newest.pk
        counted = reason is not None and budget.is_counted(reason)
        self.used += counted and extends is None
        self.ranges.append(
            PlannedRange(first, last, self.slots.due(start), self.slots.due(end - 1), *verdict, extends, counted)
        )

    def _ordinal(self, position: int) -> int:
        return self.inp.cursor.next_ordinal + position
