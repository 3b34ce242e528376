"""What an edit does to coming slots."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from calsched.calendars import resolve
from calsched.triggers import Trigger, build
from calsched.triggers.compare import Move, compare

NOW = 1_780_315_200_000  # 2026-06-01T12:00:00Z


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def daily(closed: dict[str, Any] | None = None, **fields: Any) -> Trigger:
    form: dict[str, Any] = {"kind": "calendar", "timezone": "America/New_York", "at": "09:00", **fields}
    if closed is None:
        return build(form)
    calendar = resolve({"it": closed}, now=NOW)["it"].calendar()
    return build({**form, "calendar": "it"}, calendars={"it": calendar})


def test_equal_triggers_change_nothing() -> None:
    found = compare(daily(), daily(), at("2026-01-01"), at("2027-01-01"))
    assert not found
    assert (found.until, found.more) == (at("2027-01-01"), False)


def test_a_holiday_removes_a_slot_and_a_day_that_opens_adds_one() -> None:
    old, new = daily({"dates": ["2026-07-06"]}), daily({"dates": ["2026-07-03"]})
    found = compare(old, new, at("2026-07-01"), at("2026-08-01"))
    assert found.removed == (at("2026-07-03T13:00:00"),)
    assert found.added == (at("2026-07-06T13:00:00"),)
    assert found.moved == ()


def test_a_holiday_moves_a_slot_that_rolls() -> None:
    rule = {"daysOfMonth": 15, "roll": "following"}
    old, new = daily({}, **rule), daily({"dates": ["2026-07-15", "2026-07-16"]}, **rule)
    found = compare(old, new, at("2026-07-01"), at("2026-09-01"))
    assert found.moved == (Move("2026-07-15T09:00:00", at("2026-07-15T13:00:00"), at("2026-07-17T13:00:00")),)
    assert (found.added, found.removed) == ((), ())
    back = compare(new, old, at("2026-07-01"), at("2026-09-01"))
    assert back.moved == (Move("2026-07-15T09:00:00", at("2026-07-17T13:00:00"), at("2026-07-15T13:00:00")),)


def test_a_slot_that_rolls_further_than_before_has_moved() -> None:
    rule = {"daysOfMonth": 15, "roll": "following"}
    old, new = daily({"dates": ["2026-07-15"]}, **rule), daily({"dates": ["2026-07-15", "2026-07-16"]}, **rule)
    found = compare(old, new, at("2026-07-01"), at("2026-08-01"))
    assert found.moved == (Move("2026-07-15T09:00:00", at("2026-07-16T13:00:00"), at("2026-07-17T13:00:00")),)


def test_another_zone_moves_every_slot_and_keeps_its_wall_time() -> None:
    found = compare(daily(), daily(timezone="America/Chicago"), at("2026-07-01"), at("2026-07-03"))
    assert found.moved == (
        Move("2026-07-01T09:00:00", at("2026-07-01T13:00:00"), at("2026-07-01T14:00:00")),
        Move("2026-07-02T09:00:00", at("2026-07-02T13:00:00"), at("2026-07-02T14:00:00")),
    )
    assert (found.added, found.removed) == ((), ())


def test_another_gap_rule_moves_one_slot() -> None:
    old, new = daily(at="02:30", gap="shift"), daily(at="02:30", gap="boundary")
    found = compare(old, new, at("2026-03-01"), at("2026-04-01"))
    assert found.moved == (Move("2026-03-08T02:30:00", at("2026-03-08T07:30:00"), at("2026-03-08T07:00:00")),)


def test_both_passes_of_a_repeated_time_move_each_to_their_own() -> None:
    old, new = daily(at="01:30", fold="both"), daily(at="01:30", fold="both", timezone="America/Chicago")
    found = compare(old, new, at("2026-11-01T00:00:00"), at("2026-11-01T12:00:00"))
    # 01:30 in New York was at 05:30 and 06:30 UTC, in Chicago it is at 06:30 (which stays) and 07:30
    assert [(move.before, move.after) for move in found.moved] == [(at("2026-11-01T05:30"), at("2026-11-01T07:30"))]
    far = daily(at="01:30", fold="both", timezone="America/Los_Angeles")
    moved = compare(old, far, at("2026-11-01T00:00:00"), at("2026-11-01T12:00:00")).moved
    assert [move.after for move in moved] == [at("2026-11-01T08:30"), at("2026-11-01T09:30")]


def test_another_time_of_day_is_no_move() -> None:
    found = compare(daily(), daily(at="10:00"), at("2026-07-01"), at("2026-07-02"))
    assert (found.removed, found.added) == ((at("2026-07-01T13:00:00"),), (at("2026-07-01T14:00:00"),))
    assert found.moved == ()


def test_rules_in_utc_are_compared_by_instants() -> None:
    old, new = build({"kind": "interval", "seconds": 60}), build({"kind": "interval", "seconds": 90})
    found = compare(old, new, 0, 180_000)
    assert (found.removed, found.added) == ((60_000, 120_000), (90_000,))


def test_a_limit_ends_the_comparison_where_both_are_still_known() -> None:
    old, new = build({"kind": "interval", "seconds": 60}), build({"kind": "interval", "seconds": 90})
    found = compare(old, new, 0, 10**12, limit=4)
    assert (found.until, found.more) == (180_000, True)
    assert (found.removed, found.added) == ((60_000, 120_000), (90_000,))
    back = compare(new, old, 0, 10**12, limit=4)
    assert (back.until, back.removed, back.added) == (180_000, (90_000,), (60_000, 120_000))
