from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calsched.policies.retention import Entry, Keep, watermark

DAY = 86_400_000


def ran(ordinal: int, day: int | None, first: int | None = None) -> Entry:
    return Entry(ordinal if first is None else first, ordinal, None if day is None else day * DAY, outcome=True)


def skipped(first: int, last: int, day: int) -> Entry:
    return Entry(first, last, day * DAY)


HISTORY = [ran(0, 0), ran(1, 1), skipped(2, 4, 4), ran(5, 5), ran(6, 6)]


@pytest.mark.parametrize(
    ("keep", "mark"),
    [
        (Keep(), 0),
        (Keep(age=100 * DAY), 0),
        (Keep(age=5 * DAY), 5),  # the range of day 4 goes, day 5 stays: exactly the age is kept
        (Keep(age=0), 6),  # all but the last outcome
        (Keep(verdicts=2), 5),
        (Keep(verdicts=0), 6),
        (Keep(age=9 * DAY, verdicts=1), 1),  # the longer of the two
    ],
)
def test_the_oldest_verdicts_go_first(keep: Keep, mark: int) -> None:
    assert watermark(HISTORY, keep, now=10 * DAY) == mark


def test_open_work_stops_the_pruning() -> None:
    assert watermark([ran(0, 0), ran(1, None), ran(2, 2)], Keep(age=0), now=10 * DAY) == 1


def test_the_last_outcome_stays_though_skipped_slots_follow() -> None:
    assert watermark([ran(0, 0), ran(1, 1), skipped(2, 9, 3)], Keep(age=0), now=10 * DAY) == 1


def test_a_range_stays_with_the_occurrence_that_represents_it() -> None:
    represented = skipped(1, 4, 1)
    assert watermark([ran(0, 0), represented, ran(5, 1, first=1)], Keep(age=0), now=10 * DAY) == 1


def test_the_watermark_never_falls() -> None:
    assert watermark([ran(7, 9)], Keep(age=100 * DAY), now=10 * DAY, pruned_before=7) == 7


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9), st.booleans()), max_size=12), st.integers(0, 12))
def test_no_verdict_is_cut_in_two(shapes: list[tuple[int, int, bool]], verdicts: int) -> None:
    entries, ordinal = [], 0
    for length, day, outcome in shapes:
        entries.append(Entry(ordinal, ordinal + length - 1, day * DAY, outcome))
        ordinal += length
    mark = watermark(entries, Keep(verdicts=verdicts), now=20 * DAY)
    assert not [entry for entry in entries if entry.first < mark <= entry.last]
    assert len([entry for entry in entries if entry.last >= mark]) >= min(verdicts, len(entries))
