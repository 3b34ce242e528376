"""The short way from due to running: the same rows as tick and claim would leave, and nothing that had to wait."""

from __future__ import annotations

from typing import Any

import pytest

from calsched.errors import Fenced
from calsched.model import Claimed, Task
from calsched.stores import recover
from calsched.stores.advance import AdvanceReport, advance
from calsched.stores.claim import gate
from calsched.stores.engine import Store
from calsched.stores.express import Express
from calsched.stores.tables import clock
from tests.stores._helpers import MINUTE, T0, Ledger, every, failed


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger(store)


def run(ledger: Ledger, now: int = T0, rooms: dict[str, int] | None = None, exclude: Any = (), **more: Any) -> Any:
    ledger.now = now
    express = Express(more.pop("epoch", ledger.epoch), {"default": 10} if rooms is None else rooms, exclude)
    with ledger.store.write() as conn:
        gate(ledger.store, conn, express.epoch)
        report = advance(ledger.store, conn, now, express=express, **more)
    return report, express


def begun(ledger: Ledger, now: int = T0, **more: Any) -> list[Claimed]:
    report: AdvanceReport = run(ledger, now, **more)[0]
    return report.begun


def test_it_leaves_the_rows_that_tick_and_claim_would_leave(ledger: Ledger) -> None:
    limits = {"deadline": MINUTE, "expires_at": T0 + MINUTE * 10}
    first, _ = (ledger.create(every(schedule_id=schedule_id, **limits)) for schedule_id in ("a", "b"))
    ledger.tick(T0, only=[first.pk])
    (long,) = ledger.begin()
    (short,) = begun(ledger)
    assert short._replace(occurrence=0, schedule=0, schedule_id="", revision_pk=0) == long._replace(
        occurrence=0, schedule=0, schedule_id="", revision_pk=0
    )
    one, other = (ledger.occurrences(schedule_id)[0] for schedule_id in ("a", "b"))
    names = [name for name in one.__dataclass_fields__ if name not in ("pk", "key", "schedule_pk", "revision_pk")]
    assert {name: getattr(one, name) for name in names} == {name: getattr(other, name) for name in names}
    ledger.check()


def test_what_it_began_ends_as_any_other(ledger: Ledger) -> None:
    ledger.create(every(max_retries=1, retry_delay=0))
    (one,) = begun(ledger)
    ledger.finish(failed(one, T0))
    (again,) = ledger.run()
    assert (again.occurrence, again.attempt) == (one.occurrence, 2)
    assert ledger.states() == [(0, "succeeded", None)]
    ledger.check()


def test_no_more_begin_than_there_is_room(ledger: Ledger) -> None:
    for n in range(5):
        ledger.create(every(schedule_id=f"s{n}"))
    report, express = run(ledger, rooms={"default": 2})
    assert len(report.begun) == 2
    assert express.left == 3
    assert len(ledger.claim()) == 3
    ledger.check()


def test_several_batches_of_one_transaction_share_the_room(ledger: Ledger) -> None:
    for n in range(5):
        ledger.create(every(schedule_id=f"s{n}"))
    express = Express(ledger.epoch, {"default": 4})
    with ledger.store.write() as conn:
        first = advance(ledger.store, conn, T0, schedule_batch=3, express=express)
        second = advance(ledger.store, conn, T0, schedule_batch=3, express=express)
    assert [one.schedule_id for one in first.begun] == ["s0", "s1", "s2"]
    assert [one.schedule_id for one in second.begun] == ["s3"]


@pytest.mark.parametrize(
    "policies",
    [
        {"task": Task(callable="jobs:run", executor="other")},
        {"jitter": 30_000},
        {"blackouts": ({"from": T0 - 1, "to": T0 + MINUTE},)},
        {"task": Task(kind="ready", task_class="x")},
    ],
    ids=["another executor", "jitter", "blackout", "a host's task"],
)
def test_what_has_to_wait_goes_the_long_way(ledger: Ledger, policies: dict[str, Any]) -> None:
    ledger.create(every(**policies))
    assert begun(ledger) == []
    assert ledger.occurrences()[0].state == "ready"


def test_a_schedule_with_running_work_queues_its_next_one(ledger: Ledger) -> None:
    ledger.create(every(overlap="queue"))
    assert len(begun(ledger)) == 1
    assert begun(ledger, T0 + MINUTE) == []
    assert [state for _, state, _ in ledger.states()] == ["running", "waiting"]


def test_a_schedule_that_this_owner_passes_over_is_left_to_others(ledger: Ledger) -> None:
    view = ledger.create(every())
    assert begun(ledger, exclude={view.pk}) == []
    assert len(ledger.claim()) == 1


def test_an_occurrence_that_stands_for_missed_ones_begins_too(ledger: Ledger) -> None:
    ledger.create(every())
    (one,) = begun(ledger, T0 + 10 * MINUTE)
    assert (one.represents_first, one.represents_last) == (0, 10)
    ledger.check()


def test_nobody_passes_the_gate_while_there_is_a_hold(ledger: Ledger) -> None:
    def passes() -> bool:
        with ledger.store.write() as conn:
            return gate(ledger.store, conn, ledger.epoch)

    assert passes()
    with ledger.store.write() as conn:
        clock.put(conn, ledger.store.tables, {"high_water": T0, "hold": "backward", "hold_since": T0})
    assert not passes()


def test_an_owner_whose_epoch_is_over_begins_nothing(ledger: Ledger) -> None:
    ledger.create(every())
    with ledger.store.write() as conn:
        recover.stop_owner(ledger.store, conn, ledger.epoch, T0)
    with pytest.raises(Fenced):
        begun(ledger)
    assert ledger.occurrences() == []
