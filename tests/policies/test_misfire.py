"""Misfire alone: how many of the due slots are emitted, and what becomes of the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calsched.policies.misfire import Policy, Split, as_apscheduler, decide, is_late, last_late_instant

POLICIES: tuple[Policy, ...] = ("runOnce", "skip", "boundedReplay", "catchUp")


@pytest.mark.parametrize(
    ("policy", "due", "late", "limit", "expected"),
    [
        # five late slots, observed at 145
        ("runOnce", 5, 5, 1, Split(represented=4, emitted=1)),
        ("skip", 5, 5, 1, Split(dropped=5)),
        ("boundedReplay", 5, 5, 2, Split(emitted=2, beyond=3)),
        ("catchUp", 5, 5, 2, Split(emitted=2, stay=3)),
        ("catchUp", 3, 3, 2, Split(emitted=2, stay=1)),
        ("catchUp", 1, 1, 2, Split(emitted=1)),
        # the sixth is on time, observed at 150
        ("runOnce", 6, 5, 1, Split(represented=5, emitted=1)),
        ("skip", 6, 5, 1, Split(dropped=5, emitted=1)),
        ("boundedReplay", 6, 5, 2, Split(emitted=2, beyond=4)),
        ("catchUp", 6, 5, 2, Split(emitted=2, stay=4)),
        # a limit that reaches further than what is due
        ("boundedReplay", 2, 2, 9, Split(emitted=2)),
        ("runOnce", 1, 1, 1, Split(emitted=1)),
    ],
)
def test_late_slots_are_cut_as_the_policy_says(
    policy: Policy, due: int, late: int, limit: int, expected: Split
) -> None:
    assert decide(policy, due, late, limit) == expected


@pytest.mark.parametrize("policy", POLICIES)
def test_without_a_late_slot_every_policy_emits_every_slot(policy: Policy) -> None:
    assert decide(policy, 5, 0, 2) == Split(emitted=5)


@pytest.mark.parametrize(
    ("due", "late", "coalesce", "expected"),
    [
        (3, 0, False, Split(emitted=3)),
        (3, 2, False, Split(dropped=2, emitted=1)),
        (3, 3, False, Split(dropped=3)),
        (3, 0, True, Split(represented=2, emitted=1)),
        (3, 2, True, Split(represented=2, emitted=1)),
        (3, 3, True, Split(dropped=3)),
        (1, 1, True, Split(dropped=1)),
    ],
)
def test_apscheduler_coalesces_to_the_last_run_time_and_drops_what_is_late(
    due: int, late: int, coalesce: bool, expected: Split
) -> None:
    assert as_apscheduler(due, late, coalesce) == expected


@pytest.mark.parametrize(("due", "late"), [(100, True), (139, True), (140, False), (145, False)])
def test_exactly_the_grace_is_on_time(due: int, late: bool) -> None:
    assert is_late(due, 150, 10) is late
    assert (due <= last_late_instant(150, 10)) is late


@given(
    st.sampled_from(POLICIES),
    st.integers(1, 10**12).flatmap(lambda due: st.tuples(st.just(due), st.integers(0, due))),
    st.integers(1, 100),
)
def test_the_parts_add_up_to_what_is_due(policy: Policy, slots: tuple[int, int], limit: int) -> None:
    split = decide(policy, *slots, limit)
    assert sum(split) == slots[0]
    assert min(split) >= 0
