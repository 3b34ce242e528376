"""Overlap: what an emitted slot does while its schedule has pending work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calsched.policies.overlap import APSCHEDULER_BATCH, Policy, Situation, Split, decide

IDLE = Situation()
RUNNING = Situation(free=0, heads=1)
ONE_WAITS = Situation(free=0, heads=1, waiting=1, foldable=True)
READY = Situation(free=0, heads=1, foldable=True)
OTHER_REVISION_WAITS = Situation(free=0, heads=1, waiting=1)


@pytest.mark.parametrize(
    ("policy", "found", "emitted", "expected"),
    [
        ("queue", IDLE, 1, Split(start=1)),
        ("queue", IDLE, 3, Split(start=1, wait=2)),
        ("queue", RUNNING, 3, Split(wait=3)),
        ("queue", RUNNING._replace(max_queued=2), 5, Split(wait=2, skip=3)),
        ("queue", ONE_WAITS._replace(max_queued=2), 5, Split(wait=1, skip=4)),
        ("queue", RUNNING._replace(waiting=9, max_queued=2), 5, Split(skip=5)),
        ("queue", IDLE._replace(batch=4), 9, Split(start=1, wait=3, stay=5)),
        ("queue", IDLE._replace(free=2), 3, Split(start=1, wait=2)),
        ("skip", IDLE, 1, Split(start=1)),
        ("skip", IDLE, 4, Split(start=1, skip=3)),
        ("skip", RUNNING, 4, Split(skip=4)),
        ("skip", ONE_WAITS, 1, Split(skip=1)),
        ("coalesce", IDLE, 1, Split(start=1)),
        ("coalesce", IDLE, 59_000, Split(start=1, fold=58_999)),
        ("coalesce", RUNNING, 1, Split(wait=1)),
        ("coalesce", RUNNING, 3, Split(wait=1, fold=2)),
        ("coalesce", ONE_WAITS, 3, Split(fold=3)),
        ("coalesce", READY, 1, Split(fold=1)),
        ("coalesce", OTHER_REVISION_WAITS, 3, Split(wait=1, fold=2)),
        ("allow", Situation(free=3), 2, Split(start=2)),
        ("allow", Situation(free=3), 5, Split(start=3, wait=2)),
        ("allow", Situation(free=1, heads=2), 2, Split(start=1, wait=1)),
        ("allow", Situation(free=3, batch=4), 9, Split(start=3, wait=1, stay=5)),
        ("allow", Situation(free=2, waiting=1), 2, Split(start=1, wait=1)),
        ("apscheduler", Situation(free=1), 3, Split(start=1, wait=2)),
        ("apscheduler", Situation(free=1, waiting=5), 1, Split(start=1)),
        ("apscheduler", Situation(free=0, heads=1), 3, Split(skip=3)),
    ],
)
def test_emitted_slots_are_cut_as_the_policy_says(
    policy: Policy, found: Situation, emitted: int, expected: Split
) -> None:
    assert decide(policy, emitted, found)._replace(reason="overlap") == expected


@pytest.mark.parametrize(
    ("policy", "reason"), [("queue", "queueFull"), ("skip", "overlap"), ("apscheduler", "maxInstances")]
)
def test_what_is_skipped_says_why(policy: Policy, reason: str) -> None:
    assert decide(policy, 1, Situation(free=0, heads=1, max_queued=0)).reason == reason


def test_a_batch_of_apscheduler_ends_after_ten_thousand_runs() -> None:
    split = decide("apscheduler", APSCHEDULER_BATCH + 7, IDLE)
    assert (split.rows, split.stay) == (APSCHEDULER_BATCH, 7)


@given(
    st.sampled_from(["queue", "skip", "coalesce", "allow", "apscheduler"]),
    st.integers(0, 10**9),
    st.builds(
        Situation,
        free=st.integers(0, 5),
        waiting=st.integers(0, 50),
        heads=st.integers(0, 5),
        foldable=st.booleans(),
        max_queued=st.integers(0, 60),
        batch=st.integers(1, 100),
    ),
)
def test_the_parts_add_up_and_never_start_more_than_is_free(policy: Policy, emitted: int, found: Situation) -> None:
    split = decide(policy, emitted, found)
    parts = split[:5]
    assert sum(parts) == emitted
    assert min(parts) >= 0
    assert split.start <= found.free
    assert split.rows <= max(found.batch, APSCHEDULER_BATCH if policy == "apscheduler" else 0)
