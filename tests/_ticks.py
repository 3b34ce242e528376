"""What tests of the planner share: an arithmetic rule, short definitions, plans told in words, and a small ledger."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from calsched.model import Cursor, Definition, FoldTarget, Pending, PlannedRange, Task, TickPlan
from calsched.planner import LastRange, PlanInput, first_cursor, plan


class Every(NamedTuple):
    """Slots at ``first``, ``first + interval`` … up to ``end``."""

    interval: int
    first: int = 0
    end: int | None = None

    def _within(self, slot: int) -> int | None:
        return None if self.end is not None and slot > self.end else slot

    def first_at_or_after(self, instant: int) -> int | None:
        steps = -((self.first - instant) // self.interval)
        return self._within(self.first + max(0, steps) * self.interval)

    def next_after(self, instant: int) -> int | None:
        return self.first_at_or_after(instant + 1)

    def last_at_or_before(self, instant: int) -> int | None:
        if self.end is not None:
            instant = min(instant, self.end)
        return None if instant < self.first else instant - (instant - self.first) % self.interval

    def count(self, first: int, last: int) -> int:  # type: ignore[override]
        start, end = self.first_at_or_after(first), self.last_at_or_before(last)
        return 0 if start is None or end is None or end < start else (end - start) // self.interval + 1

    def nth_after(self, instant: int, n: int) -> int | None:
        start = self.first_at_or_after(instant)
        return None if start is None else self._within(start + n * self.interval)

    def local(self, instant: int) -> str | None:
        return None


#: The rule of the design's vectors: 100 ms, 110 ms …
TENS = Every(10, first=100)


def definition(**options: Any) -> Definition:
    options = {"trigger": {"kind": "interval", "firstTick": 0}, **options}
    return Definition(id="job", task=Task(callable="jobs:run"), **options)


def given(rule: Every = TENS, **options: Any) -> PlanInput:
    """An input that stands at the rule's beginning, with nothing pending and many free slots."""
    d = definition(**options)
    free = tuple(range(d.max_concurrent)) if d.overlap == "allow" else (0,)
    return PlanInput(d, rule, first_cursor(d, rule, rule.first), 0, Pending(free_slots=free))


def seed_form(rule: Every = TENS, **options: Any) -> PlanInput:
    """As the seeds' policy names imply: grace 0, overlap allow, and room to run at once."""
    return given(rule, **{"grace": 0, "overlap": "allow", "max_concurrent": 100, **options})


def tell(planned: TickPlan) -> list[str]:
    """A plan in words, oldest slot first."""
    said: list[tuple[int, str]] = []
    for row in planned.occurrences:
        text = f"{row.ordinal} {row.state}"
        if (row.represents_first, row.represents_last) != (row.ordinal, row.ordinal):
            text += f", represents {row.represents_first}-{row.represents_last}"
        said.append((row.ordinal, text))
    said += [(part.first, _tell_range(part)) for part in planned.ranges]
    lines = [text for _, text in sorted(said)]
    if planned.cursor is not None:
        lines.append(f"next {planned.cursor.next_ordinal} at {planned.cursor.next_due}")
    lines += ["more"] * planned.more
    lines += [f"ended: {planned.ended}"] if planned.ended else []
    lines += [f"refused: {planned.refused}"] if planned.refused else []
    return lines


def _tell_range(part: PlannedRange) -> str:
    span = f"{part.first}-{part.last}"
    if part.reason is not None:
        text = f"{span} skipped: {part.reason}" + ("" if part.counted else ", uncounted")
    elif part.folded_into is not None:
        text = f"{span} folded into #{part.folded_into}"
    else:
        text = f"{span} by {part.represented_by}"
    return text if part.extends is None else f"{text}, extends #{part.extends}"


def after(inp: PlanInput, planned: TickPlan) -> PlanInput:
    """The same schedule once a plan is committed and all of its occurrences have run."""
    assert planned.cursor is not None
    return inp._replace(cursor=planned.cursor, used=inp.used + planned.used)


@dataclass
class Row:
    pk: int
    ordinal: int
    state: str
    slot: int | None
    represents_last: int
    range_pk: int | None = None


@dataclass
class Book:
    """A ledger in memory, for laws: commits plans, and refuses what a real one would."""

    definition: Definition
    rule: Every
    slots: int
    cursor: Cursor
    used: int = 0
    rows: dict[int, Row] = field(default_factory=dict)
    ranges: dict[int, PlannedRange] = field(default_factory=dict)
    admitted: list[int] = field(default_factory=list)
    ended: str | None = None
    keys: int = 0

    def tick(self, now: int, batch: int, skips: frozenset[int] = frozenset()) -> TickPlan:
        made = plan(self.input(skips), now, occurrence_batch=batch)
        if made.cursor is not None:
            self.commit(made, now)
        return made

    def input(self, skips: frozenset[int] = frozenset()) -> PlanInput:
        newest = max(((pk, part) for pk, part in self.ranges.items() if part.reason), default=None)
        last = None if newest is None else LastRange(newest[0], newest[1].last, str(newest[1].reason))
        return PlanInput(
            self.definition, self.rule, self.cursor, self.used, self.pending(), last, skips, tuple(self.admitted)
        )

    def pending(self) -> Pending:
        rows = self.rows.values()
        unclaimed = [row for row in rows if row.state in ("ready", "waiting")]
        newest = max(unclaimed, key=lambda row: row.ordinal, default=None)
        target = None
        if newest is not None:
            target = FoldTarget(newest.pk, newest.ordinal, newest.represents_last, newest.range_pk)
        taken = {row.slot for row in rows if row.state in ("ready", "running")}
        return Pending(
            waiting=sum(row.state == "waiting" for row in rows),
            ready=sum(row.state == "ready" for row in rows),
            active=sum(row.state == "running" for row in rows),
            fold_into=target,
            free_slots=tuple(slot for slot in range(self.slots) if slot not in taken),
        )

    def commit(self, made: TickPlan, now: int) -> None:
        assert made.cursor is not None
        for planned in made.occurrences:
            assert planned.ordinal not in self.rows
            assert planned.active_slot is None or planned.active_slot in self.pending().free_slots
            self.rows[planned.ordinal] = Row(
                self._key(), planned.ordinal, planned.state, planned.active_slot, planned.represents_last
            )
            self.admitted.append(now)
        for part in made.ranges:
            self._range(part)
        self.cursor, self.ended = made.cursor, made.ended
        self.used += made.used

    def _range(self, part: PlannedRange) -> None:
        if part.extends is None:
            pk = self._key()
            self.ranges[pk] = part
        else:
            pk, before = part.extends, self.ranges[part.extends]
            assert before.last == part.first - 1
            assert (before.reason, before.folded_into) == (part.reason, part.folded_into)
            self.ranges[pk] = before._replace(last=part.last, last_due=part.last_due)
        for row in self.rows.values():
            if row.pk == part.folded_into:
                assert row.state in ("ready", "waiting")
                row.represents_last, row.range_pk = part.last, pk

    def _key(self) -> int:
        self.keys += 1
        return self.keys

    def claim(self) -> None:
        head = next((row for row in self.rows.values() if row.state == "ready"), None)
        if head is not None:
            head.state = "running"

    def finish(self) -> None:
        """The oldest running occurrence ends, and the next one that waits takes its slot."""
        done = next((row for row in self.rows.values() if row.state == "running"), None)
        if done is None:
            return
        slot, done.state, done.slot = done.slot, "succeeded", None
        waits = next((row for row in self.rows.values() if row.state == "waiting"), None)
        if waits is not None:
            waits.state, waits.slot = "ready", slot

    def verdicts(self) -> dict[int, str]:
        """Every judged ordinal with its verdict; fails where two verdicts meet."""
        found: dict[int, str] = {row.ordinal: "row" for row in self.rows.values()}
        for part in self.ranges.values():
            for ordinal in range(part.first, part.last + 1):
                assert ordinal not in found, f"{ordinal} has two verdicts: {found[ordinal]} and {part}"
                found[ordinal] = part.reason or "represented"
        return found

    def cost(self) -> int:
        return len(self.rows) + sum(part.counted for part in self.ranges.values())


def tiles(parts: Iterable[int], stop: int) -> bool:
    """Whether ordinals are exactly [0, stop)."""
    return sorted(parts) == list(range(stop))
