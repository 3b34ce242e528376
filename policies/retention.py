"""Which history may go. Old verdicts of a revision are pruned from the oldest on, up to a watermark.

The watermark is an ordinal: every slot below it has been pruned, every slot from it on still has its verdict. So the
tiling holds above it, and ``why`` can tell "pruned" from "never was".

Never pruned: work that is open, and what comes after it; the last outcome of a schedule; the range that an occurrence
which stays represents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Keep(NamedTuple):
    """How much history a schedule keeps. What either limit wants to keep is kept; both None: everything."""

    age: int | None = None  # milliseconds since the verdict was final
    verdicts: int | None = None  # this many rows, newest first


class Entry(NamedTuple):
    """An occurrence or a range of the slot series: the ordinals that go with it, and when its verdict was final.

    An occurrence's ``first`` is the first ordinal that it represents. ``final_at`` is None while it is open.
    """

    first: int
    last: int
    final_at: int | None
    outcome: bool = False  # an occurrence that ran


def watermark(entries: Sequence[Entry], keep: Keep, now: int, pruned_before: int = 0) -> int:
    """Below which ordinal a revision may be pruned. ``entries`` are in order of ``last``; the answer never falls."""
    if keep.age is None and keep.verdicts is None:
        return pruned_before
    last_outcome = max((entry.last for entry in entries if entry.outcome and entry.final_at is not None), default=None)
    mark = pruned_before
    for position, entry in enumerate(entries):
        newer = len(entries) - position - 1
        if entry.final_at is None or entry.last == last_outcome or _wanted(keep, now - entry.final_at, newer):
            break
        mark = max(mark, entry.last + 1)
    kept = [entry.first for entry in entries if entry.last >= mark]
    return max(pruned_before, min([mark, *kept]))


def _wanted(keep: Keep, age: int, newer: int) -> bool:
    return (keep.age is not None and age <= keep.age) or (keep.verdicts is not None and newer < keep.verdicts)
