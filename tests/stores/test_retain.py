"""Retention on every database: what goes, what never goes, and what is said of it afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from calsched.errors import Refused
from calsched.explain import explain
from calsched.policies.retention import Keep
from calsched.stores.backfill import candidates as backfill_candidates
from calsched.stores.engine import Store
from calsched.stores.retain import Pruned, prune
from calsched.stores.why import why
from tests.stores._helpers import HOUR, MINUTE, T0, Ledger, every


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger(store)


def history(ledger: Ledger, ticks: int, start: int = 0, **policies: Any) -> None:
    if start == 0:
        ledger.create(every(MINUTE, **policies))
    for tick in range(start, start + ticks):
        ledger.tick(T0 + tick * MINUTE)
        ledger.run()


def shown(ledger: Ledger) -> list[int]:
    return [one.ordinal for one in ledger.occurrences()]


def test_what_is_older_than_the_age_goes(ledger: Ledger) -> None:
    history(ledger, 10)
    ledger.now = T0 + 9 * MINUTE
    assert prune(ledger.store, ledger.now, Keep(age=3 * MINUTE)) == Pruned(occurrences=6)
    assert shown(ledger) == [6, 7, 8, 9]
    ledger.check()


def test_so_many_verdicts_stay(ledger: Ledger) -> None:
    history(ledger, 10)
    prune(ledger.store, ledger.now, Keep(verdicts=4))
    assert shown(ledger) == [6, 7, 8, 9]
    ledger.check()


def test_small_batches_end_at_the_same_place(ledger: Ledger) -> None:
    history(ledger, 12)
    seen: list[tuple[int, int]] = []
    told = lambda done, of: seen.append((done, of))  # noqa: E731
    assert prune(ledger.store, ledger.now, Keep(verdicts=4), batch=3, progress=told).occurrences == 8
    assert shown(ledger) == [8, 9, 10, 11]
    assert seen == [(1, 1)]
    ledger.check()


def test_the_last_outcome_stays_however_old(ledger: Ledger) -> None:
    history(ledger, 3, misfire="skip", grace=0)
    ledger.tick(T0 + 100 * HOUR + 1)
    prune(ledger.store, ledger.now + 100 * HOUR, Keep(age=0))
    assert shown(ledger) == [2]
    ledger.check()


def test_open_work_and_what_comes_after_it_stays(ledger: Ledger) -> None:
    history(ledger, 3, overlap="queue")
    ledger.tick(T0 + 3 * MINUTE)
    ledger.begin()
    for tick in range(4, 6):
        ledger.tick(T0 + tick * MINUTE)
    prune(ledger.store, ledger.now + 100 * HOUR, Keep(age=0))
    assert shown(ledger) == [2, 3, 4, 5]
    ledger.check()


def test_ranges_go_with_the_occurrence_that_represents_them(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, grace=0))
    for hour in range(1, 4):
        ledger.tick(T0 + hour * HOUR + 1)
        ledger.run()
    assert prune(ledger.store, ledger.now, Keep(verdicts=2)) == Pruned(occurrences=2, ranges=2)
    assert ledger.ranges() == [(121, 179, "represented")]
    ledger.check()


def test_an_old_revision_is_pruned_whole(ledger: Ledger) -> None:
    history(ledger, 4)
    ledger.update(every(2 * MINUTE))
    ledger.tick(T0 + 4 * MINUTE)
    ledger.run()
    prune(ledger.store, ledger.now, Keep(verdicts=1))
    assert [(one.revision, one.ordinal) for one in ledger.occurrences()] == [(2, 0)]
    ledger.check()
    prune(ledger.store, ledger.now, Keep(verdicts=1))
    ledger.check()


def test_a_schedule_goes_on_after_it_was_pruned(ledger: Ledger) -> None:
    history(ledger, 5)
    prune(ledger.store, ledger.now, Keep(verdicts=1))
    history(ledger, 3, start=5)
    assert shown(ledger) == [4, 5, 6, 7]
    ledger.check()


def test_a_pruned_instant_says_so_and_backfill_refuses_below_the_watermark(ledger: Ledger) -> None:
    history(ledger, 5)
    prune(ledger.store, ledger.now, Keep(verdicts=2))
    with ledger.store.read() as conn:
        facts = why(ledger.store, conn, "default", "a", T0 + MINUTE)
    assert facts.kind == "pruned"
    assert explain(facts).verdict == "pruned"
    with ledger.store.write() as conn, pytest.raises(Refused, match=r"before 2027-01-15T08:03:00Z has been pruned"):
        backfill_candidates(ledger.store, conn, "default", "a", T0, ledger.now)


def test_extra_runs_go_by_age(ledger: Ledger) -> None:
    history(ledger, 1)
    ledger.control("run_extra")
    ledger.run()
    ledger.control("run_extra")
    assert prune(ledger.store, ledger.now + HOUR, Keep(age=MINUTE)).extra_runs == 1
    assert ledger.view().open_count == 1
    ledger.check()


def test_nothing_goes_where_nothing_is_said(ledger: Ledger) -> None:
    history(ledger, 3)
    assert prune(ledger.store, ledger.now + 1000 * HOUR, Keep()) == Pruned()
    assert shown(ledger) == [0, 1, 2]


def test_only_the_schedule_that_is_named_is_pruned(ledger: Ledger) -> None:
    history(ledger, 3)
    ledger.create(every(MINUTE, "b"))
    ledger.tick(T0 + 3 * MINUTE)
    ledger.run()
    prune(ledger.store, ledger.now + HOUR, Keep(age=0), namespace="default", schedule_id="b")
    assert shown(ledger) == [0, 1, 2, 3]
