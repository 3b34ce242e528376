from __future__ import annotations

from typing import get_args

import pytest

from calsched.model import SkipReason
from calsched.policies.budget import UNCOUNTED, is_counted, is_expired, last_stale_instant, rate_room, remaining


@pytest.mark.parametrize(("limit", "used", "left"), [(None, 9, None), (3, 0, 3), (3, 3, 0), (3, 5, 0)])
def test_what_is_left_of_a_budget(limit: int | None, used: int, left: int | None) -> None:
    assert remaining(limit, used) == left


@pytest.mark.parametrize(("now", "expires_at", "expired"), [(99, 100, False), (100, 100, False), (101, 100, True)])
def test_exactly_at_the_expiry_is_still_allowed(now: int, expires_at: int, expired: bool) -> None:
    assert is_expired(now, expires_at) is expired


def test_without_an_expiry_nothing_expires() -> None:
    assert not is_expired(10**15, None)


def test_exactly_the_maximum_lateness_is_not_stale() -> None:
    assert last_stale_instant(150, 10) == 139
    assert last_stale_instant(150, None) is None


@pytest.mark.parametrize(
    ("admitted", "room"),
    [((), 2), ((950,), 1), ((950, 960), 0), ((950, 960, 970), 0), ((900,), 2), ((901,), 1)],
)
def test_the_rate_window_is_open_at_its_far_end(admitted: tuple[int, ...], room: int) -> None:
    assert rate_room(1000, 2, 100, admitted) == room


def test_without_a_rate_limit_there_is_no_bound() -> None:
    assert rate_room(1000, None, None, (999,)) is None


def test_only_known_reasons_are_free_of_the_budget() -> None:
    assert set(get_args(SkipReason)) > UNCOUNTED
    assert is_counted("overlap") and is_counted("misfire") and not is_counted("maxOccurrences")
