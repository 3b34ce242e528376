"""A clock that told a false future, and what is known of an instant."""

from __future__ import annotations

import pytest

from calsched.explain import explain
from calsched.stores import inspect
from calsched.stores.clocking import clock_accept
from calsched.stores.engine import Store
from calsched.stores.tables import clock as clock_table
from calsched.stores.why import why
from tests.stores._helpers import DAY, HOUR, MINUTE, SECOND, T0, Ledger, every


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger(store)


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
    with ledger.store.read() as conn:
        found = explain(why(ledger.store, conn, "default", name, at))
    assert found.sentences
    return found.verdict


def test_every_instant_has_one_reason(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, grace=0))
    ledger.tick(T0)
    ledger.run()
    ledger.tick(T0 + 5 * MINUTE + 1)
    found = {offset: verdict(ledger, T0 + offset) for offset in (-MINUTE, 0, 1, MINUTE, 5 * MINUTE, 6 * MINUTE)}
    ledger.now += MINUTE
    late = verdict(ledger, T0 + 6 * MINUTE)
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
