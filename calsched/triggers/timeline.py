"""A zone under one gap rule and one fold rule, cut into segments within which wall time and UTC differ by a constant.

In a plain segment every wall time is one instant. Around a change of the clock lie special segments: silent (the pass
of a fold that is not asked for), doubled (wall times shifted out of a gap fall among regular ones), or a single instant
(the end of a gap, where ``boundary`` puts all of the gap's wall times).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from calsched.policies.clock_change import FoldRule, GapRule
from calsched.zones import END_OF_TIME, WIDEST_OFFSET, Zone


class Special(NamedTuple):
    """What a special segment holds: wall times under each of ``offsets``, and at its start those of a wall window."""

    offsets: tuple[int, ...] = ()
    gap_window: tuple[int, int] | None = None  # wall seconds [from, to) that all mean the segment's first second


SILENT: Final = Special()
_SOON: Final = 2_051_222_400  # 2035-01-01: no first table is shorter, so that most searches need but one


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
    spans = zone.spans(max(until, _SOON) + 3 * WIDEST_OFFSET)
    end = END_OF_TIME if spans.until >= END_OF_TIME else spans.until - WIDEST_OFFSET
    made = _compile(spans.starts, spans.offsets, end, gap, fold)
    zone.timelines[gap, fold] = made
    return made


def _compile(begins: list[int], easts: list[int], until: int, gap: GapRule, fold: FoldRule) -> Timeline:
    starts: list[int] = [begins[0]]
    offsets: list[int | None] = [easts[0]]
    specials: dict[int, Special] = {}
    before = easts[0]
    for start, after in zip(begins[1:], easts[1:], strict=True):
        if after > before and gap != "skip":
            special, end = _gap(start, before, after, gap)
        elif after < before and fold != "both":
            end = start + before - after if fold == "first" else start
            start, special = end + after - before, SILENT
        else:
            special, end = None, start
        if start >= until:
            break
        if start <= starts[-1]:  # changes that follow each other too closely: the later one counts
            _cut(starts, offsets, specials, start)
        if special is not None:
            specials[len(starts)] = special
            starts.append(start)
            offsets.append(None)
        starts.append(end)
        offsets.append(after)
        before = after
    return _closed(starts, offsets, specials, until)


def _gap(start: int, before: int, after: int, gap: GapRule) -> tuple[Special, int]:
    """The special segment at a gap, and where it ends."""
    if gap == "shift":
        return Special((before, after)), start + after - before
    return Special((after,), (start + before, start + after)), start + 1


def _cut(starts: list[int], offsets: list[int | None], specials: dict[int, Special], at: int) -> None:
    while len(starts) > 1 and starts[-1] >= at:
        starts.pop()
        offsets.pop()
        specials.pop(len(starts), None)


def _closed(starts: list[int], offsets: list[int | None], specials: dict[int, Special], until: int) -> Timeline:
    """With its end; a special segment that would be cut short there is left to a longer table."""
    _cut(starts, offsets, specials, until)
    if offsets[-1] is None and until < END_OF_TIME:
        until = starts[-1]
        _cut(starts, offsets, specials, until)
    starts.append(until)
    return Timeline(starts, offsets, specials, until)
