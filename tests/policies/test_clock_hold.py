from __future__ import annotations

import pytest

from calsched.policies.clock_hold import Clock, Reading, accept, judge

NOON = 1_000_000
STORED = Reading(NOON, boot_time=500, boot_id="a")
HOUR = 3_600_000


def test_the_first_look_believes_the_clock() -> None:
    assert judge(None, NOON, tolerance=1_000) == Clock(NOON, Reading(NOON))


def test_a_clock_that_goes_on_is_believed_and_raises_the_high_water() -> None:
    verdict = judge(STORED, NOON + 5_000, tolerance=1_000, boot_time=5_500, boot_id="a")
    assert verdict.ok
    assert verdict.now == NOON + 5_000
    assert verdict.reading == Reading(NOON + 5_000, 5_500, "a")


def test_a_small_step_back_holds_nothing_and_never_lowers_the_high_water() -> None:
    verdict = judge(STORED, NOON - 1_000, tolerance=1_000)
    assert (verdict.hold, verdict.now, verdict.reading.high_water) == (None, NOON, NOON)


def test_a_step_back_beyond_the_tolerance_holds_at_the_high_water() -> None:
    verdict = judge(STORED, NOON - 1_001, tolerance=1_000)
    assert (verdict.hold, verdict.now, verdict.off_by) == ("backward", NOON, -1_001)
    assert verdict.reading == STORED


def test_the_hold_ends_when_the_clock_has_caught_up() -> None:
    assert judge(STORED, NOON - HOUR, tolerance=1_000, held="backward").hold == "backward"
    assert judge(STORED, NOON, tolerance=1_000, held="backward").ok


def test_a_step_forward_is_noticed_against_the_boot_time_clock() -> None:
    verdict = judge(STORED, NOON + HOUR + 5_000, tolerance=1_000, boot_time=5_500, boot_id="a")
    assert (verdict.hold, verdict.now, verdict.off_by) == ("forward", NOON + 5_000, HOUR)
    assert verdict.reading == STORED


def test_a_false_future_holds_until_the_clock_is_set_right_again() -> None:
    still = judge(STORED, NOON + HOUR + 60_000, tolerance=1_000, boot_time=60_500, boot_id="a", held="forward")
    right = judge(STORED, NOON + 70_000, tolerance=1_000, boot_time=70_500, boot_id="a", held="forward")
    assert still.hold == "forward"
    assert right.ok and right.now == NOON + 70_000


@pytest.mark.parametrize(
    ("boot_time", "boot_id"), [(None, None), (5_500, "another boot"), (100, "a")], ids=["no clock", "reboot", "reset"]
)
def test_without_a_comparable_boot_time_a_step_forward_goes_unnoticed(boot_time: int | None, boot_id: str) -> None:
    assert judge(STORED, NOON + HOUR, tolerance=1_000, boot_time=boot_time, boot_id=boot_id).ok


def test_a_machine_that_slept_is_no_step() -> None:
    assert judge(STORED, NOON + 8 * HOUR, tolerance=1_000, boot_time=500 + 8 * HOUR, boot_id="a").ok


def test_clocks_may_drift_apart_over_a_long_outage() -> None:
    week = 7 * 24 * HOUR
    assert judge(STORED, NOON + week + 300_000, tolerance=1_000, boot_time=500 + week, boot_id="a").ok
    assert judge(STORED, NOON + week + 700_000, tolerance=1_000, boot_time=500 + week, boot_id="a").hold == "forward"


def test_a_restored_store_stays_on_hold_until_someone_accepts() -> None:
    assert judge(STORED, NOON + 10, tolerance=1_000, held="restored").hold == "restored"
    assert judge(STORED, NOON - HOUR, tolerance=1_000, held="restored").hold == "restored"


def test_accepting_takes_the_clock_as_it_is() -> None:
    assert accept(NOON - HOUR, boot_time=7, boot_id="b") == Reading(NOON - HOUR, 7, "b")
