"""Claims on every database: who may start what, and that nobody starts it twice."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from calsched.errors import Fenced
from calsched.model import Task
from calsched.stores import recover
from calsched.stores.claim import claim, give_back, next_run_at
from calsched.stores.engine import Store
from calsched.stores.finish import let_go
from calsched.stores.tables import clock as clock_table
from tests.stores._helpers import HOUR, MINUTE, SECOND, T0, Ledger, every, failed, succeeded


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger(store)


def test_a_claim_carries_all_that_a_runner_needs(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, deadline=HOUR, expires_at=T0 + 9 * HOUR))
    ledger.tick(T0)
    (one,) = ledger.claim()
    assert (one.namespace, one.schedule_id, one.revision, one.series, one.ordinal) == ("default", "a", 1, "slot", 0)
    assert (one.due, one.run_at, one.attempt, one.active_slot, one.epoch) == (T0, T0, 1, 0, ledger.epoch)
    assert (one.deadline, one.expires_at, one.elapsed) == (T0 + HOUR, T0 + 9 * HOUR, 0)


def test_the_oldest_come_first_and_the_limit_holds(ledger: Ledger) -> None:
    for index, name in enumerate("cab"):
        ledger.now = T0 + index * MINUTE
        ledger.create(every(HOUR if index else MINUTE, name))
    for name, tick in (("b", HOUR), ("c", MINUTE), ("a", HOUR)):
        ledger.tick(T0 - T0 % HOUR + tick, only=[ledger.view(name).pk])
    assert [one.schedule_id for one in ledger.claim(limit=1)] == ["c"]
    assert sorted(one.schedule_id for one in ledger.claim(limit=10)) == ["a", "b"]


def test_each_executor_gets_no_more_than_it_has_room_for(ledger: Ledger) -> None:
    for index in range(6):
        executor = "big" if index < 4 else "small"
        ledger.create(every(MINUTE, f"s{index}", task=Task(callable="a:b", executor=executor)))
    ledger.tick(T0)
    taken = ledger.claim(limit=10, executors={"big": 2, "small": 1, "unheard-of": 5})
    assert sorted(one.schedule_id for one in taken) == ["s0", "s1", "s4"]
    assert ledger.claim(limit=10, executors={"unheard-of": 5}) == []


def test_what_was_claimed_is_not_claimed_again(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    assert len(ledger.claim()) == 1
    assert ledger.claim() == []


def test_excluded_schedules_are_passed_by_and_do_not_use_up_the_limit(ledger: Ledger) -> None:
    first = ledger.create(every(MINUTE, "a"))
    ledger.create(every(MINUTE, "b"))
    ledger.tick(T0)
    assert [one.schedule_id for one in ledger.claim(limit=1, exclude=[first.pk])] == ["b"]


@pytest.mark.parametrize("action", ["pause", "disable", "cancel", "retire", "remove"])
def test_nothing_starts_of_a_schedule_that_was_stopped(ledger: Ledger, action: str) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    ledger.control(action)
    assert ledger.claim() == []
    ledger.check()


@pytest.mark.parametrize("action", ["pause", "disable", "cancel"])
def test_a_claim_that_has_not_started_when_its_schedule_stops_does_not_start(ledger: Ledger, action: str) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    taken = ledger.claim()
    ledger.control(action)
    assert ledger.start(taken) == set()
    assert ledger.occurrences()[0].started_at is None
    ledger.check()


def test_a_paused_schedule_starts_no_retry_and_a_resumed_one_does(ledger: Ledger) -> None:
    ledger.create(every(HOUR, max_retries=1, retry_delay=SECOND))
    ledger.tick(T0)
    (taken,) = ledger.begin()
    ledger.finish(failed(taken, ledger.now))
    ledger.control("pause")
    ledger.now = T0 + MINUTE
    assert ledger.claim() == []
    ledger.control("resume")
    assert [one.attempt for one in ledger.claim()] == [2]


def test_a_retry_is_claimable_when_its_time_has_come_and_not_before(ledger: Ledger) -> None:
    ledger.create(every(HOUR, max_retries=1, retry_delay=10 * SECOND))
    ledger.tick(T0)
    (taken,) = ledger.begin()
    report = ledger.finish(failed(taken, ledger.now))
    assert report.retrying == {taken.occurrence: T0 + 10 * SECOND}
    ledger.now = T0 + 10 * SECOND - 1
    assert ledger.claim() == []
    with ledger.store.read() as conn:
        assert next_run_at(ledger.store, conn, ledger.now) == T0 + 10 * SECOND
    ledger.now = T0 + 10 * SECOND
    assert [(one.occurrence, one.attempt) for one in ledger.claim()] == [(taken.occurrence, 2)]


def test_what_is_claimable_already_is_no_reason_to_wake_up(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    with ledger.store.read() as conn:
        assert next_run_at(ledger.store, conn, T0) is None


def test_nothing_is_claimed_during_a_hold(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    with ledger.store.write() as conn:
        clock_table.put(conn, ledger.store.tables, {"high_water": T0, "hold": "backward"})
    assert ledger.claim() == []


def test_a_fenced_owner_claims_nothing(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    with ledger.store.write() as conn:
        recover.stop_owner(ledger.store, conn, ledger.epoch, T0)
    with pytest.raises(Fenced):
        ledger.claim()


def test_a_start_counts_the_attempt_and_says_which_moved(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, "a"))
    ledger.create(every(MINUTE, "b"))
    ledger.tick(T0)
    taken = ledger.claim()
    assert ledger.start(taken, epoch=ledger.epoch + 1) == set()
    assert ledger.start(taken[:1]) == {taken[0].occurrence}
    assert ledger.start(taken) == {taken[1].occurrence}
    assert [(one.state, one.attempt) for name in "ab" for one in ledger.occurrences(name)] == [("running", 1)] * 2


def test_claims_are_given_back_and_so_are_starts_that_never_began(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, "a"))
    ledger.create(every(MINUTE, "b"))
    ledger.tick(T0)
    taken = ledger.claim()
    ledger.start(taken[:1])
    with ledger.store.write() as conn:
        pks = [one.occurrence for one in taken]
        assert give_back(ledger.store, conn, epoch=ledger.epoch, pks=pks, now=T0) == 2
    assert [one.attempt for one in ledger.claim()] == [1, 1]


def test_the_head_that_ends_promotes_the_next_of_its_queue(ledger: Ledger) -> None:
    ledger.create(every(SECOND, overlap="queue"))
    ledger.tick(T0 + 2 * SECOND)
    order = []
    for _ in range(3):
        (taken,) = ledger.begin()
        order.append(taken.ordinal)
        assert ledger.claim() == []
        ledger.finish(succeeded(taken, ledger.now))
    assert order == [0, 1, 2]
    ledger.check()


def test_a_blackout_holds_what_is_ready_until_its_end(ledger: Ledger) -> None:
    window = {"from": T0 + SECOND, "to": T0 + MINUTE, "whenDue": "hold"}
    ledger.create(every(HOUR, blackouts=(window,)))
    ledger.tick(T0)
    ledger.now = T0 + 2 * SECOND
    assert ledger.claim() == []
    ledger.now = T0 + MINUTE
    assert len(ledger.claim()) == 1


def test_work_that_waits_into_a_blackout_that_skips_is_skipped_and_the_next_waits_for_its_end(ledger: Ledger) -> None:
    window = {"from": T0 + SECOND, "to": T0 + MINUTE, "whenDue": "skip"}
    ledger.create(every(HOUR, overlap="queue", blackouts=(window,)))
    ledger.tick(T0)
    ledger.now = T0 + 2 * SECOND
    assert ledger.claim() == []
    assert [(one.state, one.reason) for one in ledger.occurrences()] == [("skipped", "blackout")]
    ledger.check()


def test_a_retry_is_held_by_a_blackout_that_skips(ledger: Ledger) -> None:
    window = {"from": T0 + SECOND, "to": T0 + MINUTE, "whenDue": "skip"}
    ledger.create(every(HOUR, blackouts=(window,), max_retries=1, retry_delay=2 * SECOND))
    ledger.tick(T0)
    (taken,) = ledger.begin()
    ledger.finish(failed(taken, T0))
    ledger.now = T0 + 2 * SECOND
    assert ledger.claim() == []
    ledger.now = T0 + MINUTE
    assert [one.attempt for one in ledger.claim()] == [2]


def test_nothing_starts_while_a_timed_out_worker_of_the_schedule_lingers(ledger: Ledger) -> None:
    view = ledger.create(every(MINUTE, overlap="queue"))
    ledger.tick(T0)
    (taken,) = ledger.begin()
    outcome = failed(taken, T0)._replace(state="timed_out")
    ledger.finish(outcome, lingering=[taken.occurrence])
    ledger.tick(T0 + MINUTE)
    assert ledger.claim() == []
    with ledger.store.write() as conn:
        let_go(ledger.store, conn, epoch=ledger.epoch, schedules_=[view.pk])
    assert [one.ordinal for one in ledger.claim()] == [1]


def test_many_claimers_share_the_work_and_nobody_gets_anything_twice(ledger: Ledger, database: str) -> None:
    schedules, depth = 40, 3
    for index in range(schedules):
        ledger.create(every(SECOND, f"s{index}", overlap="queue"))
    ledger.tick(T0 + (depth - 1) * SECOND)
    seen: Counter[int] = Counter()
    active: Counter[int] = Counter()
    guard, trouble = threading.Lock(), []

    def owner(epoch: int) -> None:
        idle = 0
        while idle < 20:
            try:
                with ledger.store.write() as conn:
                    taken = claim(ledger.store, conn, epoch=epoch, now=ledger.now, limit=7)
                with guard:
                    for one in taken:
                        seen[one.occurrence] += 1
                        active[one.schedule] += 1
                        if active[one.schedule] > 1:
                            trouble.append(f"two of schedule {one.schedule} at once")
                if not taken:
                    idle += 1
                    continue
                idle = 0
                assert ledger.start(taken, epoch=epoch) == {one.occurrence for one in taken}
                with guard:
                    active.subtract(one.schedule for one in taken)
                report = ledger.finish(*(succeeded(one, ledger.now) for one in taken), epoch=epoch)
                assert not report.late
            except Exception as error:
                if "eadlock" not in str(error):
                    trouble.append(repr(error))
                    return

    with ledger.store.write() as conn:
        more = (
            [ledger.epoch] * 4
            if database == "sqlite"
            else [recover.register_owner(ledger.store, conn, f"o{n}", "h", n, T0, HOUR) for n in range(4)]
        )
    threads = [threading.Thread(target=owner, args=(epoch,)) for epoch in more]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trouble == []
    assert len(seen) == schedules * depth
    assert set(seen.values()) == {1}
    ledger.check()
