from __future__ import annotations

from datetime import datetime

import pytest

from calsched.app.forecast import WorstMinute, forecast
from calsched.clock import to_millis
from calsched.errors import InvalidInput
from calsched.triggers import build
from calsched.triggers.base import Trigger


def ms(text: str) -> int:
    return to_millis(datetime.fromisoformat(text))


def nine(zone: str = "UTC") -> Trigger:
    return build({"kind": "calendar", "at": ["09:00"], "timezone": zone})


NOW = ms("2026-03-09T06:40:00Z")


def test_starts_are_counted_by_hour_from_the_hour_of_now_on() -> None:
    found = forecast([("a", nine()), ("b", nine())], NOW, 1)
    assert found.start == ms("2026-03-09T06:00:00Z")
    assert [(hour, number) for hour, number in enumerate(found.hours) if number] == [(3, 2)]
    assert (found.total, found.schedules, found.minutes_of_hour[0]) == (2, 2, 2)


def test_the_worst_minute_is_named_with_those_that_start_in_it() -> None:
    rules = [(name, nine()) for name in "gfedcba"] + [("early", build({"kind": "interval", "hours": 1}))]
    worst = forecast(rules, NOW, 1).worst[0]
    assert worst == WorstMinute(ms("2026-03-09T09:00:00Z"), 8, ("a", "b", "c", "d", "e"), 3)


def test_a_dense_rule_is_counted_without_looking_at_its_slots() -> None:
    found = forecast([("tick", build({"kind": "interval", "milliseconds": 1}))], NOW, 2)
    assert found.total == 2 * 86_400_000
    assert set(found.hours) == {3_600_000}


def test_rules_too_dense_for_the_span_are_refused() -> None:
    rules = [(str(n), build({"kind": "interval", "seconds": 50 + n})) for n in range(40)]
    with pytest.raises(InvalidInput, match="fewer --days"):
        forecast(rules, NOW, 92)


@pytest.mark.parametrize("days", [0, -1, 93])
def test_a_span_out_of_bounds_is_refused(days: int) -> None:
    with pytest.raises(InvalidInput, match=f"expected 1 to 92 days, got {days}"):
        forecast([], NOW, days)


def test_a_skipped_slot_is_not_counted() -> None:
    nine_o_clock = ms("2026-03-09T09:00:00Z")
    found = forecast([("a", nine()), ("b", nine())], NOW, 2, [nine_o_clock, nine_o_clock, ms("2030-01-01T00:00:00Z")])
    assert (found.total, found.hours[3], found.hours[27]) == (2, 0, 2)
    assert [one.start for one in found.worst] == [ms("2026-03-10T09:00:00Z")]
