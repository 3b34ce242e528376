"""What changes under the schedules: calendars, zone data, and clocks that told a false future."""

from __future__ import annotations

import pytest

from calsched.explain import explain
from calsched.model import Definition, Task
from calsched.stores import inspect
from calsched.stores.clocking import clock_accept
from calsched.stores.engine import Store
from calsched.stores.ruling import adopt_tzdata, set_calendar
from calsched.stores.tables import clock as clock_table
from calsched.stores.tables import meta
from calsched.stores.why import why
from tests.stores._helpers import DAY, HOUR, MINUTE, SECOND, T0, Ledger, every, instant, succeeded


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger(store)


WEEKEND = {"weekend": [5, 6], "yearly": {}, "dates": {}, "open": [], "through": None}


def business(name: str = "bank", version: int = 1) -> Definition:
    trigger = {"kind": "calendar", "timezone": "UTC", "at": ["09:00:00"], "calendar": name}
    return Definition(id="a", trigger=trigger, task=Task(callable="jobs:run"), calendars={name: version})


def store_calendar(ledger: Ledger, dates: dict[str, str]) -> tuple[int, tuple[tuple[str, str], ...]]:
    with ledger.store.write() as conn:
        return set_calendar(
            ledger.store, conn, "bank", WEEKEND | {"dates": dates}, now=ledger.now, principal="tester"
        )  # fmt: skip


def test_a_new_calendar_version_carries_its_schedules_over(ledger: Ledger) -> None:
    assert store_calendar(ledger, {}) == (1, ())
    ledger.create(business())
    assert ledger.view().next_due == instant("2027-01-15T09:00:00+00:00")
    ledger.tick(instant("2027-01-15T09:00:00+00:00"))
    (taken,) = ledger.begin()
    assert store_calendar(ledger, {"2027-01-18": "a holiday"}) == (2, (("default", "a"),))
    view = ledger.view()
    assert (view.revision, view.used, view.next_due) == (2, 1, instant("2027-01-19T09:00:00+00:00"))
    assert view.definition is not None and view.definition.calendars == {"bank": 2}
    ledger.finish(succeeded(taken, ledger.now))
    ledger.check()


def test_an_unchanged_calendar_changes_nothing(ledger: Ledger) -> None:
    store_calendar(ledger, {})
    ledger.create(business())
    before = ledger.view()
    assert store_calendar(ledger, {}) == (1, ())
    assert ledger.view() == before


def test_a_paused_schedule_stays_paused_when_its_calendar_changes(ledger: Ledger) -> None:
    store_calendar(ledger, {})
    ledger.create(business())
    ledger.control("pause")
    store_calendar(ledger, {"2027-01-18": "a holiday"})
    assert (ledger.view().state, ledger.view().revision) == ("paused", 2)


def zoned() -> Definition:
    trigger = {"kind": "calendar", "timezone": "America/New_York", "at": ["09:00:00"]}
    return Definition(id="a", trigger=trigger, task=Task(callable="jobs:run"))


def test_newer_zone_data_moves_the_cursor_and_leaves_a_decision(ledger: Ledger) -> None:
    ledger.create(zoned())
    due = ledger.view().next_due
    assert due == instant("2027-01-15T14:00:00+00:00")
    ledger.tick(due)
    ledger.run()
    t = ledger.store.tables
    with ledger.store.write() as conn:  # as if older data had put nine o'clock half an hour earlier
        conn.execute(t.schedules.update().values(next_due=due + DAY - HOUR // 2, look_at=due + DAY - HOUR // 2))
        conn.execute(t.schedules.update().values(last_due=due - HOUR // 2))
        meta.put(conn, t, "tzdata", "2000a")
        assert adopt_tzdata(ledger.store, conn, ledger.now) == 1
        assert adopt_tzdata(ledger.store, conn, ledger.now) == 0
    assert ledger.view().next_due == due + DAY, "nine o'clock of the 15th has run and is not due again"
    assert ledger.decisions() == ["create", "tzdata"]


def test_the_first_owner_of_a_store_records_its_zone_data_and_moves_nothing(ledger: Ledger) -> None:
    with ledger.store.read() as conn:
        assert meta.get(conn, ledger.store.tables, "tzdata") == ledger.store.tzdata


# --- a false future ---------------------------------------------------------------------------------------------------


def rewind(ledger: Ledger) -> tuple[tuple[str, str], ...]:
    with ledger.store.write() as conn:
        return clock_accept(ledger.store, conn, rewind_cursors=True, now=ledger.now, principal="tester").rewound


def hold(ledger: Ledger, kind: str) -> None:
    with ledger.store.write() as conn:
        clock_table.put(conn, ledger.store.tables, {"high_water": ledger.now, "hold": kind})


def test_accepting_the_clock_ends_the_hold(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    hold(ledger, "backward")
    assert ledger.claim() == []
    with ledger.store.write() as conn:
        assert clock_accept(ledger.store, conn, now=T0, principal="tester").hold == "backward"
    assert len(ledger.claim()) == 1
    with ledger.store.read() as conn:
        seen = inspect.clock_of(ledger.store, conn)
    assert (seen.high_water, seen.hold) == (T0, None)


def test_slots_that_a_false_future_judged_come_due_again(ledger: Ledger) -> None:
    ledger.create(every(HOUR, grace=0))
    ledger.tick(T0 + HOUR)
    ledger.run()
    before = ledger.view()
    ledger.tick(T0 + 400 * DAY)
    assert ledger.view().open_count == 1
    ledger.now = T0 + HOUR + MINUTE
    assert rewind(ledger) == (("default", "a"),)
    view = ledger.view()
    assert (view.next_ordinal, view.next_due, view.used) == (before.next_ordinal, before.next_due, before.used)
    assert view.open_count == 0
    ledger.check()
    ledger.tick(T0 + 2 * HOUR)
    assert len(ledger.claim()) == 1
    ledger.check()


def test_what_has_run_in_a_false_future_stays_and_the_cursor_stays_behind_it(ledger: Ledger) -> None:
    ledger.create(every(HOUR, grace=0))
    ledger.tick(T0 + 400 * DAY)
    ledger.run()
    after = ledger.view()
    ledger.now = T0 + HOUR
    assert rewind(ledger) == ()
    assert ledger.view().next_ordinal == after.next_ordinal
    ledger.check()


def test_what_folded_in_a_false_future_unfolds(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, overlap="coalesce"))
    ledger.tick(T0)
    ledger.begin()
    ledger.tick(T0 + MINUTE)
    ledger.tick(T0 + 2 * MINUTE)
    ledger.tick(T0 + 500 * MINUTE)
    ledger.now = T0 + 2 * MINUTE + 1
    rewind(ledger)
    waiting = ledger.occurrences()[1]
    ledger.check()
    assert waiting.represents_last == ledger.view().next_ordinal - 1


def test_a_skipped_range_of_a_false_future_is_taken_back(ledger: Ledger) -> None:
    ledger.create(every(HOUR, misfire="skip", grace=0))
    ledger.tick(T0)
    ledger.run()
    ledger.now = T0 + SECOND
    ledger.tick(T0 + 100 * HOUR + 1)
    ledger.now = T0 + 2 * SECOND
    assert rewind(ledger) == (("default", "a"),)
    assert ledger.ranges() == []
    assert ledger.view().next_due == T0 + HOUR
    ledger.check()


def test_a_revision_that_only_a_false_future_exhausted_goes_on(ledger: Ledger) -> None:
    ledger.create(every(HOUR, expires_at=T0 + 10 * HOUR, misfire="skip", grace=0))
    ledger.tick(T0)
    ledger.run()
    ledger.tick(T0 + 100 * HOUR)
    assert ledger.view().state == "ended"
    ledger.now = T0 + MINUTE
    rewind(ledger)
    assert (ledger.view().state, ledger.view().next_due) == ("enabled", T0 + HOUR)
    ledger.check()


# --- why --------------------------------------------------------------------------------------------------------------


def verdict(ledger: Ledger, at: int, name: str = "a") -> str:
    ledger.store.clock.at = ledger.now  # type: ignore[attr-defined]
    ledger.store.now = lambda conn: ledger.now  # type: ignore[method-assign]
    with ledger.store.read() as conn:
        found = explain(why(ledger.store, conn, "default", name, at))
    assert found.sentences
    return found.verdict


def test_every_instant_has_one_reason(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, grace=0))
    ledger.tick(T0)
    ledger.run()
    ledger.tick(T0 + 5 * MINUTE + 1)
    try:
        found = {offset: verdict(ledger, T0 + offset) for offset in (-MINUTE, 0, 1, MINUTE, 5 * MINUTE, 6 * MINUTE)}
        ledger.now += MINUTE
        late = verdict(ledger, T0 + 6 * MINUTE)
    finally:
        del ledger.store.now
    assert found[0] == "succeeded"
    assert found[MINUTE] == "represented"
    assert found[5 * MINUTE] == "ready"
    assert found[6 * MINUTE] == "future"
    assert found[1] == "notASlot"
    assert found[-MINUTE] == "none"
    assert late == "unjudged"


def test_a_skipped_instant_names_its_reason(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, misfire="skip", grace=0))
    ledger.tick(T0 + MINUTE + 1)
    with ledger.store.read() as conn:
        facts = why(ledger.store, conn, "default", "a", T0)
    assert (facts.kind, facts.ordinal) == ("skipped", 0)
    assert facts.range is not None and facts.range.reason == "misfire"
    assert explain(facts).verdict.startswith("skipped")
