"""The vectors printed in docs/policies.md are what the planner answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from calsched.model import Definition, FoldTarget, Misfire, Overlap, Pending, PlannedOccurrence, PlannedRange, Task
from calsched.planner import PlanInput, first_cursor, plan
from calsched.triggers import build

PAGE = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()
TRIGGER = build({"kind": "interval", "intervalMs": 10, "firstTick": "1970-01-01T00:00:00.100Z"})


def rows(first_header: str, second_header: str) -> list[list[str]]:
    """The cells of the table whose header starts with these two columns."""
    lines = PAGE.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first_header} | {second_header} |"))
    out: list[list[str]] = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return out
        out.append([cell.strip() for cell in line.strip("|").split("|")])
    return out


def shown(occurrence: PlannedOccurrence) -> str:
    first, last = occurrence.represents_first, occurrence.represents_last
    return f"{occurrence.ordinal}" + (f"[{first}-{last}]" if first != last else "")


def span(part: PlannedRange) -> str:
    return f"{part.first}-{part.last}"


def definition(**policies: object) -> Definition:
    return Definition(id="d", trigger=TRIGGER.spec(), task=Task(callable="m:f"), **policies)  # type: ignore[arg-type]


MISFIRES = rows("misfire", "limit")
OVERLAPS = rows("overlap", "running")


@pytest.mark.parametrize("row", MISFIRES, ids=lambda row: " ".join(row[:3]))
def test_a_misfire_vector_of_the_page_is_what_the_planner_answers(row: list[str]) -> None:
    misfire, limit, observed, occurrences, skipped, next_ordinal, next_due = row
    policy: Misfire = misfire  # type: ignore[assignment]
    limits: dict[str, int] = {}
    if policy == "boundedReplay":
        limits["replay_limit"] = int(limit)
    if policy == "catchUp":
        limits["max_catch_up"] = int(limit)
    d = definition(misfire=policy, grace=0, overlap="allow", max_concurrent=100, **limits)
    cursor, emitted, ranges = first_cursor(d, TRIGGER, 0), [], []
    for now in observed.split(","):
        tick = plan(PlanInput(d, TRIGGER, cursor, 0, Pending(free_slots=tuple(range(100)))), int(now))
        emitted += [shown(o) for o in tick.occurrences]
        ranges += [span(r) for r in tick.ranges if r.reason]
        cursor = tick.cursor or cursor
    assert ", ".join(emitted) == occurrences
    assert ", ".join(ranges) == skipped
    assert (cursor.next_ordinal, cursor.next_due) == (int(next_ordinal), int(next_due))


@pytest.mark.parametrize("row", OVERLAPS, ids=lambda row: " ".join(row[:3]))
def test_an_overlap_vector_of_the_page_is_what_the_planner_answers(row: list[str]) -> None:
    overlap, running, waiting, ready_now, waiting_now, rest = row
    policy: Overlap = overlap  # type: ignore[assignment]
    target = FoldTarget(pk=7, ordinal=0, represents_last=0, range_pk=None) if int(waiting) else None
    pending = Pending(
        waiting=int(waiting), active=int(running), fold_into=target, free_slots=() if int(running) else (0,)
    )
    d = definition(overlap=policy)
    tick = plan(PlanInput(d, TRIGGER, first_cursor(d, TRIGGER, 0), 0, pending), 145)
    assert ", ".join(shown(o) for o in tick.occurrences if o.state == "ready") == ready_now
    assert ", ".join(shown(o) for o in tick.occurrences if o.state == "waiting") == waiting_now
    said = [
        f"{span(r)} {r.reason}"
        if r.reason
        else f"{span(r)} into {'the waiting one' if r.folded_into == 7 else r.represented_by}"
        for r in tick.ranges
    ]
    assert ", ".join(said) == rest


def test_the_page_has_every_policy() -> None:
    assert {row[0] for row in MISFIRES} == {"runOnce", "skip", "boundedReplay", "catchUp"}
    assert {row[0] for row in OVERLAPS} == {"queue", "skip", "coalesce", "allow"}
