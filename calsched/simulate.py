"""What would the ledger be? Schedules, a span of time and what goes wrong in it, played through without a store.

``simulate`` runs the planner and the policies that a real owner runs, on states in memory, from event to event: a slot
is due, a task ends, the owner is down, a wall clock is set. It does no I/O, reads no clock, and gives the same ledger
for the same arguments. ``compare`` plays the same span once for each misfire policy. ``reduce`` is the interval cursor
of hosts that keep their own state (see ``reducer``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from calsched.errors import InvalidInput, Problem
from calsched.model import Definition, Misfire
from calsched.planner import SlotSource, first_cursor
from calsched.reducer import Command, CommandRefused, State, initial, parse_command, reduce
from calsched.simulated import CLOCK, DOWN, MAX_ROWS, Hold, Ledger, Row, Simulated, World

__all__ = [
    "Command",
    "CommandRefused",
    "Hold",
    "Ledger",
    "Row",
    "State",
    "compare",
    "initial",
    "parse_command",
    "reduce",
    "simulate",
]

MISFIRES: tuple[Misfire, ...] = ("runOnce", "skip", "boundedReplay", "catchUp")

Span = tuple[int, int]


def simulate(
    definitions: Sequence[Definition],
    start: int,
    end: int,
    *,
    downs: Sequence[Span] = (),
    clock_steps: Sequence[tuple[int, int]] = (),
    clock_accepts: Sequence[int] = (),
    durations: Mapping[str, int] | None = None,
    fails: Mapping[str, int] | None = None,
    build: Callable[[Definition], SlotSource] | None = None,
    tolerance: int = 5_000,
    max_rows: int = MAX_ROWS,
) -> Ledger:
    """Play [start, end) for enabled schedules that are created at ``start``.

    ``downs`` are spans [from, to) without an owner: it crashes at their start. ``clock_steps`` are (instant, ±ms) at
    which the wall clock is set, ``clock_accepts`` instants at which an operator accepts it as it is; a step beyond
    ``tolerance`` holds dispatch. ``durations`` are how long each attempt of a schedule runs (ms, 0 unless given),
    ``fails`` how many of its attempts fail before they begin to succeed. ``build`` makes a definition's trigger.

    Raises InvalidInput with every problem of these arguments.
    """
    downs, clock_steps = sorted(downs), sorted(clock_steps)
    _check(definitions, start, end, downs, {**(durations or {})}, {**(fails or {})})
    world = World(start, end, tolerance, max_rows)
    for d in definitions:
        trigger = _build(d) if build is None else build(d)
        world.add(Simulated(d, trigger, first_cursor(d, trigger, start), (durations or {}).get(d.id, 0)), fails or {})
    for down in downs:
        world.push(down[0], DOWN, world.go_down)
        world.push(down[1], DOWN, world.come_up)
    for at, by in clock_steps:
        world.push(at, CLOCK, partial(world.step, by))
    for at in clock_accepts:
        world.push(at, CLOCK, world.accept)
    world.play()
    return world.ledger()


def compare(
    definitions: Sequence[Definition],
    start: int,
    end: int,
    *,
    policies: Sequence[Misfire] = MISFIRES,
    **options: Any,
) -> dict[Misfire, Ledger]:
    """The ledger under each misfire policy, everything else being equal. Options are those of ``simulate``.

    ``boundedReplay`` replays the declared ``replayLimit``, or as many as ``maxCatchUp`` where none is declared.
    """
    return {policy: simulate([_with(d, policy) for d in definitions], start, end, **options) for policy in policies}


def _with(d: Definition, policy: Misfire) -> Definition:
    limit = d.replay_limit or d.max_catch_up
    return replace(d, misfire=policy, replay_limit=limit if policy == "boundedReplay" else None)


def _build(d: Definition) -> SlotSource:
    from calsched.triggers import build

    return build(d.trigger, schedule_id=d.id)


def _check(
    definitions: Sequence[Definition],
    start: int,
    end: int,
    downs: Sequence[Span],
    durations: Mapping[str, int],
    fails: Mapping[str, int],
) -> None:
    ids = [d.id for d in definitions]
    problems = [Problem(f"two schedules have the id {name!r}", "definitions") for name in {*ids} if ids.count(name) > 1]
    if end <= start:
        problems.append(Problem("expected an end after the start", "end"))
    for position, (down, up) in enumerate(downs):
        if up <= down or (position and down < downs[position - 1][1]):
            problems.append(Problem("expected spans that end after they begin, and that do not overlap", "downs"))
    for name, given in (("durations", durations), ("fails", fails)):
        problems += [Problem(f"there is no schedule {key!r}", name) for key in given if key not in ids]
        problems += [Problem(f"expected 0 or more for {key!r}", name) for key, value in given.items() if value < 0]
    if problems:
        raise InvalidInput(problems)
