"""What a local wall time means where the clock of its zone jumps.

A wall time is one of three things: it happens once, it is skipped by a clock that goes forward, or it is passed twice
by a clock that goes back. The rules for the last two are declared with a schedule and applied here, and nowhere else.

Times are integers of any one unit; the caller keeps to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

#: ``skip``: no slot. ``shift``: later by the length of the gap. ``boundary``: the first instant after the gap.
GapRule = Literal["skip", "shift", "boundary"]
#: Which of the two passes of a repeated wall time is a slot.
FoldRule = Literal["first", "second", "both"]

GAP_RULES: tuple[GapRule, ...] = ("skip", "shift", "boundary")
FOLD_RULES: tuple[FoldRule, ...] = ("first", "second", "both")


@dataclass(frozen=True, slots=True)
class Unambiguous:
    """A wall time that happens once."""

    instant: int


@dataclass(frozen=True, slots=True)
class Gap:
    """A wall time that does not exist.

    ``shifted`` reads it with the offset from before the jump, which is later by the gap's length; ``boundary`` is the
    instant of the jump.
    """

    shifted: int
    boundary: int


@dataclass(frozen=True, slots=True)
class Fold:
    """A wall time that happens twice."""

    first: int
    second: int


LocalTime = Unambiguous | Gap | Fold


def resolve(local: LocalTime, *, gap: GapRule, fold: FoldRule) -> tuple[int, ...]:
    """The instants of a wall time, in order: none, one or two."""
    match local:
        case Unambiguous(instant):
            return (instant,)
        case Gap(shifted, boundary):
            return {"skip": (), "shift": (shifted,), "boundary": (boundary,)}[gap]
        case Fold(first, second):
            return {"first": (first,), "second": (second,), "both": (first, second)}[fold]
        case _:
            assert_never(local)
