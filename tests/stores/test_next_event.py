"""When there is something to do next: what an owner that sleeps has to know."""

from __future__ import annotations

from typing import Any

import pytest

from calsched.stores.engine import Store
from calsched.stores.sweep import next_event
from tests.stores._helpers import DAY, HOUR, MINUTE, SECOND, T0, Ledger, every, failed


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger(store)


def event(ledger: Ledger) -> int | None:
    with ledger.store.read() as conn:
        return next_event(ledger.store, conn, ledger.now)


def test_nothing_is_next_in_an_empty_ledger(ledger: Ledger) -> None:
    assert event(ledger) is None


def test_the_next_due_instant_is_an_event(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    assert event(ledger) == T0 + MINUTE


def test_the_time_of_a_retry_is_an_event(ledger: Ledger) -> None:
    ledger.create(every(HOUR, max_retries=1, retry_delay=10 * SECOND))
    ledger.tick(T0)
    (taken,) = ledger.begin()
    ledger.finish(failed(taken, T0))
    assert event(ledger) == T0 + 10 * SECOND


def test_the_end_of_a_pause_is_an_event_and_a_tick_tells_of_it(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.control("pause", until=T0 + DAY)
    assert event(ledger) == T0 + DAY
    assert ledger.tick(T0).next_due == T0 + DAY
    ledger.create(every(HOUR, "b"))
    assert ledger.tick(T0 + 1).next_due == T0 + HOUR
    report = ledger.tick(T0 + DAY)
    assert len(report.resumed) == 1
    ledger.check()


@pytest.mark.parametrize(
    ("limits", "reason"), [({"deadline": 90 * SECOND}, "deadline"), ({"expires_at": T0 + 90 * SECOND}, "expired")]
)
def test_the_first_instant_past_a_limit_of_work_that_waits_is_an_event(
    ledger: Ledger, limits: dict[str, Any], reason: str
) -> None:
    ledger.create(every(HOUR, **limits))
    ledger.tick(T0)
    assert event(ledger) == T0 + 90 * SECOND + 1
    ledger.tick(T0 + 90 * SECOND)
    assert ledger.states() == [(0, "ready", None)]
    assert event(ledger) == T0 + 90 * SECOND + 1
    ledger.tick(T0 + 90 * SECOND + 1)
    assert ledger.states() == [(0, "skipped", reason)]
