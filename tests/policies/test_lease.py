from __future__ import annotations

import pytest

from calsched.policies.lease import OwnerState, Watch, is_alive, is_expired, is_fenced, may_start, may_take_over, watch

LEASE = 30_000


def test_a_lease_holds_up_to_its_last_instant() -> None:
    assert not is_expired(1_000, 1_000)
    assert is_expired(1_000, 1_001)


@pytest.mark.parametrize(("state", "alive"), [("live", True), ("stopped", False), ("fenced", False)])
def test_only_a_live_owner_within_its_lease_is_alive(state: OwnerState, alive: bool) -> None:
    assert is_alive(state, 1_000, 900) is alive
    assert not is_alive(state, 1_000, 1_001)


def test_watching_starts_anew_when_the_heartbeat_moves() -> None:
    first = watch(None, 77, 5)
    assert first == Watch(77, 5)
    assert watch(first, 77, 99) is first
    assert watch(first, 78, 99) == Watch(78, 99)


@pytest.mark.parametrize(
    ("state", "now", "seen", "monotonic", "allowed"),
    [
        ("live", 2_000, Watch(77, 0), LEASE, True),
        ("live", 2_000, Watch(77, 0), LEASE - 1, False),  # not watched for a whole lease
        ("live", 2_000, None, LEASE, False),  # not watched at all: perhaps the looker was away
        ("live", 2_000, Watch(76, 0), LEASE, False),  # its heart has beaten since
        ("live", 1_000, Watch(77, 0), LEASE, False),  # not expired
        ("stopped", 2_000, Watch(77, 0), LEASE, False),  # nothing to take over
    ],
)
def test_an_owner_is_taken_over_only_after_its_heart_stood_still_for_a_lease(
    state: OwnerState, now: int, seen: Watch | None, monotonic: int, allowed: bool
) -> None:
    assert may_take_over(state, 1_000, now, seen, 77, monotonic, LEASE) is allowed


@pytest.mark.parametrize(("state", "fenced"), [("live", False), ("stopped", True), ("fenced", True), (None, True)])
def test_an_epoch_that_is_over_writes_no_more(state: OwnerState | None, fenced: bool) -> None:
    assert is_fenced(state) is fenced


def test_an_owner_stops_starting_tasks_before_its_lease_is_out() -> None:
    assert may_start(renewed=0, monotonic=LEASE - 1, lease=LEASE)
    assert not may_start(renewed=0, monotonic=LEASE, lease=LEASE)
    assert not may_start(renewed=0, monotonic=LEASE - 500, lease=LEASE, margin=1_000)
