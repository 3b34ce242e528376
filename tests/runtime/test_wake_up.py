"""When an owner that rests looks at its store again: a round of the pump, driven by hand, with a clock of our own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from calsched.model import Task
from calsched.runtime.flights import PATIENCE
from calsched.runtime.parts import Settings
from calsched.runtime.pump import Pump
from calsched.runtime.work import Work
from calsched.stores.engine import Store
from tests.stores._helpers import DAY, HOUR, MINUTE, SECOND, T0, Ledger, SteppedClock, every

HERE = "tests.runtime.test_wake_up"


def plain() -> None: ...


async def coroutine() -> None: ...


class NoExecutors:
    """A scheduler that runs and has no executor, so that what is ready waits."""

    def open(self) -> bool:
        return True

    def seats(self) -> dict[str, Any]:
        return {}

    def advanced(self, schedules: Any) -> None: ...


class Loop:
    """The seat of an asyncio executor; its loop's pool has two threads."""

    alias, kind, workers, threads, executor = "default", "asyncio", 100, 2, None


class BusyLoop(NoExecutors):
    """Takes what is started, and never ends it."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.delivered: list[str] = []

    def seats(self) -> dict[str, Any]:
        return {"default": self.loop}

    def deliver(self, works: list[Work]) -> None:
        self.delivered += [work.claimed.schedule_id for work in works]


class Owner(Pump):
    """Its rounds are made by the test."""

    def __init__(self, store: Store, port: Any) -> None:
        quiet = Settings(poll_interval=DAY / 1000, lease=3 * DAY / 1000)
        super().__init__(store, port, quiet)
        self.verbs.acquire()
        self._become_owner()

    def rest(self) -> int:
        """Rounds until there is nothing to do; how long it would wait then (ms)."""
        for _ in range(10):
            self._own()
            if self._seconds_to_wait() > 0:
                return round(self._seconds_to_wait() * 1000)
        raise AssertionError("it does not come to rest")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    store = Store(f"sqlite:///{tmp_path / 'ledger.db'}", clock=SteppedClock(T0))
    store.open()
    yield Ledger(store)
    store.dispose()


@pytest.fixture
def owner(ledger: Ledger) -> Iterator[Owner]:
    made = Owner(ledger.store, NoExecutors())
    yield made
    made.verbs.release()


LIMITS = [({"deadline": 90 * SECOND}, "deadline"), ({"expires_at": T0 + 90 * SECOND}, "expired")]


@pytest.mark.parametrize(("limits", "reason"), LIMITS, ids=["deadline", "expiry"])
@pytest.mark.parametrize("overlap", ["queue", "coalesce", "allow"])
def test_work_that_waits_ends_at_the_instant_of_its_limit(
    ledger: Ledger, owner: Owner, limits: dict[str, Any], reason: str, overlap: str
) -> None:
    ledger.create(every(HOUR, overlap=overlap, **limits))
    assert owner.rest() == 90 * SECOND + 1
    ledger.now = T0 + 90 * SECOND
    assert owner.rest() == 1
    assert ledger.states() == [(0, "ready", None)]
    ledger.now += 1
    owner.rest()
    assert ledger.states() == [(0, "skipped", reason)]
    ledger.check()


def test_queued_work_ends_one_after_the_other_each_at_its_own_instant(ledger: Ledger, owner: Owner) -> None:
    ledger.create(every(MINUTE, overlap="queue", deadline=10 * MINUTE, max_occurrences=2))
    owner.rest()
    ledger.now = T0 + MINUTE
    assert owner.rest() == 9 * MINUTE + 1
    ledger.now = T0 + 10 * MINUTE + 1
    assert owner.rest() == MINUTE
    assert [state for _, state, _ in ledger.states()] == ["skipped", "ready"]
    ledger.now += MINUTE
    assert owner.rest() == DAY - 11 * MINUTE - 1  # nothing is left but the poll
    assert [state for _, state, _ in ledger.states()] == ["skipped", "skipped"]


def test_limits_of_work_that_another_process_added_are_seen_at_the_poll(ledger: Ledger, owner: Owner) -> None:
    ledger.create(every(HOUR, deadline=90 * SECOND))
    owner.rest()
    ledger.now = T0 + 30 * SECOND
    ledger.control("run_extra")
    owner._kicked()
    assert owner.rest() == 60 * SECOND + 1
    ledger.now = T0 + 90 * SECOND + 1
    assert owner.rest() == 30 * SECOND


def test_where_nothing_has_a_limit_no_round_asks_for_one(ledger: Ledger, owner: Owner) -> None:
    ledger.create(every(MINUTE))
    owner.rest()
    asked: list[str] = []

    def note(conn: Any, cursor: Any, statement: str, *rest: Any) -> None:
        asked.append(statement)

    event.listen(ledger.store.engine, "before_cursor_execute", note)
    for _ in range(3):
        ledger.now += MINUTE
        owner.rest()
    assert asked
    assert not [one for one in asked if "min(calsched_occurrences.deadline)" in one]


def test_plain_functions_are_not_claimed_and_given_back_in_every_round(ledger: Ledger) -> None:
    for n in range(60):
        ledger.create(every(HOUR, f"plain{n}", task=Task(callable=f"{HERE}:plain")))
    port = BusyLoop()
    owner = Owner(ledger.store, port)
    try:
        owner.rest()
        owner.rest()
        assert len(port.delivered) == 2, "as many as the loop's pool has threads"
        assert [ledger.states(f"plain{n}")[0][1] for n in range(60)].count("ready") > 50, "others may have them"
        ledger.create(every(HOUR, "coroutine", task=Task(callable=f"{HERE}:coroutine")))
        owner._kicked()
        for _ in range(20):
            ledger.now += PATIENCE // 10
            owner.rest()
        assert len(port.delivered) == 3 and port.delivered[-1] == "coroutine", (
            "threads that are busy hold up no coroutine"
        )
    finally:
        owner.verbs.release()
