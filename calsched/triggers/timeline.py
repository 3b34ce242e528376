"""A zone under one gap rule and one fold rule, cut into segments within which wall time and UTC differ by a constant.

In a plain segment every wall time is one instant. Around a change of the clock lie special segments: silent (the pass
of a fold that is not asked for), doubled (wall times shifted out of a gap fall among regular ones), or a single instant
(the end of a gap, where ``boundary`` puts all of the gap's wall times).
"""

from __future__ import annotations

from typing import NamedTuple

from calsched.policies.clock_change import FoldRule, GapRule
from calsched.zones import END_OF_TIME, WIDEST_OFFSET, Zone


class Special(NamedTuple):
    """What a special segment holds: wall times under each of ``offsets``, and at its start those of a wall window."""

    offsets: tuple[int, ...] = ()
    gap_window: tuple[int, int] | None = None  # wall seconds [from, to) that all mean the segment's first second


SILENT = Special()


class Timeline(NamedTuple):
    """Segment i reaches from UTC second ``starts[i]`` to ``starts[i + 1]``.

    ``offsets[i]`` is its offset, or None where ``specials[i]`` describes it. The last start is ``until``: the table
    ends there.
    """

    starts: list[int]
    offsets: list[int | None]
    specials: dict[int, Special]
    until: int


def timeline(zone: Zone, gap: GapRule, fold: FoldRule, until: int = 0) -> Timeline:
    """The timeline of a zone, complete at least up to UTC second ``until`` (never past the year 9999).

    A longer table has the same segments at the same places as a shorter one, so that positions can be kept.
    """
    known = zone.timelines.get((gap, fold))
    if isinstance(known, Timeline) and known.until >= min(until, END_OF_TIME):
        return known
    spans = zone.spans(until + 3 * WIDEST_OFFSET)
    end = END_OF_TIME if spans.until >= END_OF_TIME else spans.until - WIDEST_OFFSET
    made = _compile(spans.starts, spans.offsets, end, gap, fold)
    zone.timelines[gap, fold] = made
    return made


def _compile(starts: list[int], offsets: list[int], until: int, gap: GapRule, fold: FoldRule) -> Timeline:
    out = Timeline([starts[0]], [offsets[0]], {}, until)
    for start, before, after in zip(starts[1:], offsets, offsets[1:], strict=False):
        if start >= until:
            if fold == "second" and after < before and start + after - before < until:
                _add(out, start + after - before, SILENT)
            break
        if after < before:
            _add_fold(out, start, before - after, after, fold)
        else:
            _add_gap(out, start, before, after, gap)
    while out.starts[-1] >= until:
        _pop(out)
    if out.offsets[-1] is None and until < END_OF_TIME:  # it may be cut short here: leave it to a longer table
        until = out.starts[-1]
        _pop(out)
    out.starts.append(until)
    return out._replace(until=until)


def _add_fold(out: Timeline, start: int, length: int, after: int, fold: FoldRule) -> None:
    if fold == "second":
        _add(out, start - length, SILENT)
    if fold == "first":
        _add(out, start, SILENT)
        _add(out, start + length, after)
    else:
        _add(out, start, after)


def _add_gap(out: Timeline, start: int, before: int, after: int, gap: GapRule) -> None:
    if gap == "shift":
        _add(out, start, Special((before, after)))
        _add(out, start + after - before, after)
    elif gap == "boundary":
        _add(out, start, Special((after,), (start + before, start + after)))
        _add(out, start + 1, after)
    else:
        _add(out, start, after)


def _add(out: Timeline, start: int, what: int | Special) -> None:
    while len(out.starts) > 1 and out.starts[-1] >= start:  # changes that follow too closely: the later one counts
        _pop(out)
    if isinstance(what, Special):
        out.specials[len(out.starts)] = what
    out.starts.append(start)
    out.offsets.append(None if isinstance(what, Special) else what)


def _pop(out: Timeline) -> None:
    out.starts.pop()
    out.offsets.pop()
    out.specials.pop(len(out.starts), None)
