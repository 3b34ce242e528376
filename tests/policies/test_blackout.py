from __future__ import annotations

import pytest

from calsched.policies.blackout import Window, covering, merged

NIGHT = Window(100, 200, "hold", "night")


@pytest.mark.parametrize(("instant", "inside"), [(99, False), (100, True), (199, True), (200, False)])
def test_a_window_is_over_at_its_end(instant: int, inside: bool) -> None:
    assert covering([NIGHT], instant) == (NIGHT if inside else None)


def test_of_several_windows_the_one_that_ends_last_counts() -> None:
    longer = Window(150, 300, "skip", "release")
    assert covering([NIGHT, longer], 160) == longer


def test_windows_that_touch_become_one() -> None:
    windows = [Window(200, 250), NIGHT, Window(120, 130), Window(300, 400)]
    assert [window[:2] for window in merged(windows)] == [(100, 250), (300, 400)]
