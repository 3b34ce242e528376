"""A calendar or the zone data changes: coming slots are computed anew, judged ones stay judged."""

from __future__ import annotations

from datetime import datetime

import pytest

from calsched.calendars import resolve
from calsched.clock import to_millis
from calsched.model import Definition, Task
from calsched.stores import inspect, recompute
from calsched.stores.engine import Store
from calsched.stores.tables import meta, schedules
from tests.stores._helpers import MINUTE, Ledger, SteppedClock


def at(text: str) -> int:
    return to_millis(datetime.fromisoformat(text))


NOW = at("2026-11-27T12:00:00+00:00")  # a Friday
BERLIN_NINE = {"kind": "calendar", "timezone": "Europe/Berlin", "at": ["09:00:00"], "calendar": "de"}


def set_calendar(store: Store, now: int, *dates: str) -> int:
    declared = resolve({"de": {"dates": list(dates), "through": 2030}}, now=now)
    with store.write() as conn:
        return recompute.set_calendars(store, conn, declared, now=now, principal="planner", note="works council")


def definition() -> Definition:
    return Definition(id="cal", trigger=BERLIN_NINE, task=Task(callable="jobs:run"), calendars={"de": 1})


@pytest.fixture
def ledger(store: Store, clock: SteppedClock) -> Ledger:
    clock.at = NOW
    return Ledger(store, now=NOW)


def look(store: Store) -> tuple[int | None, dict[str, int], list[str]]:
    with store.read() as conn:
        view = inspect.show(store, conn, "default", "cal")
    found = view.schedule.definition
    assert found is not None
    return view.schedule.next_due, dict(found.calendars), [decision.action for decision in view.decisions]


def test_a_closed_day_more_moves_the_cursor_and_is_a_decision(store: Store, ledger: Ledger) -> None:
    set_calendar(store, NOW, "2027-01-01")
    ledger.create(definition())
    assert look(store)[0] == at("2026-11-30T09:00:00+01:00")  # Monday
    assert set_calendar(store, NOW, "2027-01-01", "2026-11-30") == 1
    assert look(store) == (at("2026-12-01T09:00:00+01:00"), {"de": 2}, ["calendar", "create"])


def test_the_same_calendar_again_changes_nothing(store: Store, ledger: Ledger) -> None:
    set_calendar(store, NOW, "2027-01-01")
    ledger.create(definition())
    assert set_calendar(store, NOW, "2027-01-01") == 0
    assert look(store) == (at("2026-11-30T09:00:00+01:00"), {"de": 1}, ["create"])


def test_a_day_that_is_opened_after_it_has_passed_is_not_made_up_for(store: Store, ledger: Ledger) -> None:
    set_calendar(store, NOW, "2026-11-30")
    ledger.create(definition())
    later = at("2026-11-30T18:00:00+01:00")
    set_calendar(store, later, "2027-01-01")
    assert look(store)[0] == at("2026-12-01T09:00:00+01:00")


def test_a_slot_that_has_been_judged_is_not_due_again(store: Store, ledger: Ledger) -> None:
    set_calendar(store, NOW, "2027-01-01")
    ledger.create(definition())
    ledger.tick(at("2026-11-30T09:00:01+01:00"))
    set_calendar(store, at("2026-11-30T10:00:00+01:00"), "2026-12-01")
    assert look(store)[0] == at("2026-12-02T09:00:00+01:00")
    with store.read() as conn:
        assert inspect.tiling(store, conn) == []


def test_newer_zone_data_moves_the_instant_of_a_slot_that_is_not_judged(store: Store, ledger: Ledger) -> None:
    """As if the rules had said until now that Berlin's noon comes an hour earlier than it does."""
    set_calendar(store, NOW, "2027-01-01")
    view = ledger.create(definition())
    right = at("2026-11-30T09:00:00+01:00")
    with store.write() as conn:
        meta.put(conn, store.tables, "tzdata", "1999a")
        schedules.change(conn, store.tables, view.pk, {"next_due": right - 3_600_000, "look_at": right - 3_600_000})
    with store.write() as conn:
        assert recompute.adopt_zone_data(store, conn, NOW) == 1
    assert look(store)[0] == right
    assert look(store)[2] == ["zoneData", "create"]
    with store.write() as conn:
        assert recompute.adopt_zone_data(store, conn, NOW) == 0
        assert meta.get(conn, store.tables, "tzdata") == store.tzdata


def test_nine_oclock_that_has_run_is_not_due_again_when_its_instant_moves_later(store: Store, ledger: Ledger) -> None:
    set_calendar(store, NOW, "2027-01-01")
    view = ledger.create(definition())
    nine = at("2026-11-30T09:00:00+01:00")
    ledger.tick(nine)
    with store.write() as conn:  # under older data 09:00 had been an hour earlier, and ran then
        meta.put(conn, store.tables, "tzdata", "1999a")
        schedules.change(conn, store.tables, view.pk, {"last_due": nine - 3_600_000})
    with store.write() as conn:
        recompute.adopt_zone_data(store, conn, nine)
    assert look(store)[0] == at("2026-12-01T09:00:00+01:00")


def test_instants_that_were_judged_are_not_due_again_when_the_zone_moves_east(store: Store, ledger: Ledger) -> None:
    trigger = {"kind": "cron", "expression": "* * * * *", "timezone": "Europe/Berlin"}
    view = ledger.create(Definition("cal", trigger, Task(callable="jobs:run"), misfire="catchUp", overlap="queue"))
    ledger.tick(NOW)
    with store.write() as conn:  # 13:00 in Berlin; by older data it had been 12:00 there
        meta.put(conn, store.tables, "tzdata", "1999a")
        schedules.change(conn, store.tables, view.pk, {"last_local": "2026-11-27T12:00:00"})
    with store.write() as conn:
        recompute.adopt_zone_data(store, conn, NOW)
    assert look(store)[0] == NOW + MINUTE
    report = ledger.tick(NOW + MINUTE)
    assert (len(report.schedules), report.failed) == (1, [])
    ledger.check()


def test_older_zone_data_changes_nothing(store: Store, ledger: Ledger) -> None:
    with store.write() as conn:
        meta.put(conn, store.tables, "tzdata", "9999z")
        assert recompute.adopt_zone_data(store, conn, NOW) == 0
        assert meta.get(conn, store.tables, "tzdata") == "9999z"
