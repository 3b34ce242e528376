"""Ready tasks on every database: a host claims, keeps alive, completes or fails, under a fencing token."""

from __future__ import annotations

from typing import Any

import pytest

from calsched.errors import Fenced
from calsched.model import Task
from calsched.stores import ready
from calsched.stores.engine import Store
from calsched.stores.tables import clock as clock_table
from tests.stores._helpers import HOUR, MINUTE, SECOND, T0, Ledger, every

LEASE = 30 * SECOND


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger(store)


def hosted(schedule_id: str = "a", **more: Any) -> Any:
    task = Task(kind="ready", work_order_id="w-1", run_id="r-1", task_class="review", input={"documentRef": "d"})
    return every(MINUTE, schedule_id, task=task, **more)


def take(ledger: Ledger, **more: Any) -> list[ready.ReadyTask]:
    with ledger.store.write() as conn:
        return ready.claim(ledger.store, conn, now=ledger.now, lease_ms=LEASE, **more)


def verb(ledger: Ledger, name: str, task: ready.ReadyTask, **more: Any) -> Any:
    with ledger.store.write() as conn:
        token = more.pop("token", task.token)
        return getattr(ready, name)(ledger.store, conn, task.occurrence, token, now=ledger.now, **more)


def test_a_claim_carries_the_schedules_part_and_the_templates_input_and_nothing_else(ledger: Ledger) -> None:
    ledger.create(hosted(grace=0))
    ledger.tick(T0 + 2 * MINUTE + 1)
    (task,) = take(ledger)
    assert (task.work_order_id, task.run_id, task.task_class, task.attempt) == ("w-1", "r-1", "review", 1)
    assert task.payload == {
        "schedule": {
            "namespace": "default",
            "scheduleId": "a",
            "revision": 1,
            "occurrenceKey": f'["{ledger.store.installation}","default","a",1,"2"]',
            "ordinal": "2",
            "represented": {"first": "0", "last": "2"},
            "dueTime": "2027-01-15T08:02:00Z",
        },
        "input": {"documentRef": "d"},
    }
    assert take(ledger) == []


def test_a_completed_task_succeeds_and_the_next_one_becomes_ready(ledger: Ledger) -> None:
    ledger.create(hosted(overlap="queue"))
    ledger.tick(T0 + MINUTE)
    (task,) = take(ledger, limit=5)
    ledger.now += 7
    assert verb(ledger, "complete", task, result={"pages": 3}) == ("succeeded", False, None)
    (one, _) = ledger.occurrences()
    assert (one.state, one.result, one.elapsed) == ("succeeded", '{"pages": 3}', 7)
    assert [found.payload["schedule"]["ordinal"] for found in take(ledger)] == ["1"]
    ledger.check()


def test_a_failed_task_is_retried_as_its_schedule_says(ledger: Ledger) -> None:
    ledger.create(hosted(max_retries=1, retry_delay=SECOND))
    ledger.tick(T0)
    (task,) = take(ledger)
    assert verb(ledger, "fail", task, message="no paper") == ("retrying", False, T0 + SECOND)
    assert take(ledger) == []
    ledger.now += SECOND
    (again,) = take(ledger)
    assert (again.attempt, again.token != task.token) == (2, True)
    assert verb(ledger, "fail", again, message="no ink").state == "failed"
    assert ledger.view().failures == 1
    ledger.check()


def test_another_token_is_refused_and_its_report_is_evidence(ledger: Ledger) -> None:
    ledger.create(hosted())
    ledger.tick(T0)
    (task,) = take(ledger)
    assert verb(ledger, "complete", task, token="0" * 32) == ("running", True, None)
    with pytest.raises(Fenced):
        verb(ledger, "heartbeat", task, token="0" * 32, lease_ms=LEASE)
    assert verb(ledger, "complete", task).state == "succeeded"
    (one,) = ledger.occurrences()
    assert [(attempt.state, attempt.late) for attempt in one.attempts] == [("succeeded", True), ("succeeded", False)]


def test_a_lease_that_is_renewed_lives_and_one_that_runs_out_is_interrupted(ledger: Ledger) -> None:
    ledger.create(hosted())
    ledger.tick(T0)
    (task,) = take(ledger)
    ledger.now += LEASE
    assert verb(ledger, "heartbeat", task, lease_ms=LEASE) is False
    assert ledger.tick(T0 + 2 * LEASE).interrupted == []
    assert ledger.tick(T0 + 2 * LEASE + 1).interrupted[0].occurrence == task.occurrence
    (one, *_) = ledger.occurrences()
    assert one.state == "interrupted"
    assert one.attempts[0].uncertain
    assert verb(ledger, "complete", task) == ("interrupted", True, None)
    ledger.check()


def test_a_task_that_was_not_begun_is_given_back(ledger: Ledger) -> None:
    ledger.create(hosted())
    ledger.tick(T0)
    (task,) = take(ledger)
    assert verb(ledger, "give_back", task, token="x") is False
    assert verb(ledger, "give_back", task) is True
    assert [again.attempt for again in take(ledger)] == [1]


def test_a_running_task_of_a_cancelled_schedule_is_left_to_its_host(ledger: Ledger) -> None:
    ledger.create(hosted(overlap="queue"))
    ledger.tick(T0 + MINUTE)
    (task,) = take(ledger)
    ledger.control("cancel")
    assert verb(ledger, "heartbeat", task, lease_ms=LEASE) is False
    assert verb(ledger, "complete", task).state == "succeeded"
    assert len(take(ledger)) == 1, "what was emitted before stays with the host"


def test_a_host_takes_its_own_class_and_namespace_only(ledger: Ledger) -> None:
    ledger.create(hosted("a"))
    ledger.create(hosted("b", namespace="other"))
    ledger.tick(T0)
    assert take(ledger, task_class="printing") == []
    assert [task.payload["schedule"]["scheduleId"] for task in take(ledger, namespace="other", limit=9)] == ["b"]


@pytest.mark.parametrize("why", ["hold", "pause"])
def test_nothing_is_claimed_during_a_hold_or_a_pause(ledger: Ledger, why: str) -> None:
    ledger.create(hosted(expires_at=T0 + HOUR))
    ledger.tick(T0)
    if why == "pause":
        ledger.control("pause")
    else:
        with ledger.store.write() as conn:
            clock_table.put(conn, ledger.store.tables, {"high_water": T0, "hold": "restored"})
    assert take(ledger) == []
