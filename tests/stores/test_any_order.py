"""The invariant in any order: random verbs, and after each of them every slot has exactly one verdict."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Literal

import pytest

from calsched.errors import Refused
from calsched.model import Definition, Outcome
from calsched.stores import recover
from calsched.stores.claim import give_back
from calsched.stores.engine import Store
from tests.stores._helpers import HOUR, MINUTE, SECOND, T0, Ledger, SteppedClock, every, failed, succeeded

NAMES = ("a", "b", "c")


class Chaos:
    """One owner, three schedules, and whatever a random number says."""

    def __init__(self, store: Store, seed: int) -> None:
        self.ledger, self.chance = Ledger(store), random.Random(seed)
        self.claimed: list[Any] = []
        self.running: list[Any] = []
        self.finals: dict[int, str] = {}
        for name in NAMES:
            self.ledger.create(self.definition(name))
        moves = ("pause", "resume", "enable", "disable", "cancel", "retire", "remove")
        self.steps: list[tuple[int, Callable[[], object]]] = [
            (8, self.tick), (6, self.claim), (6, self.start), (6, self.finish), (1, self.give_back), (1, self.die),
            (2, self.revise), (1, self.extra), (1, self.backfill), (1, self.skip), (1, self.delete),
            *((1, self.move(action)) for action in moves),
        ]  # fmt: skip

    def definition(self, name: str) -> Definition:
        c = self.chance
        overlap = c.choice(["queue", "skip", "coalesce", "allow"])
        misfire = c.choice(["runOnce", "skip", "boundedReplay", "catchUp"])
        return every(
            c.choice([SECOND, 20 * SECOND, MINUTE]),
            name,
            overlap=overlap,
            misfire=misfire,
            replay_limit=2 if misfire == "boundedReplay" else None,
            max_concurrent=c.choice([1, 2, 3]) if overlap == "allow" else 1,
            max_queued=c.choice([1, 5, 1000]),
            grace=c.choice([0, 10 * SECOND, MINUTE]),
            max_occurrences=c.choice([None, None, 4, 30]),
            expires_at=c.choice([None, None, self.ledger.now + 10 * MINUTE]),
            deadline=c.choice([None, MINUTE]),
            max_retries=c.choice([0, 1, 3]),
            retry_delay=c.choice([SECOND, MINUTE]),
            pause_after_failures=c.choice([0, 2, 5]),
            rate_limit=c.choice([None, None, 3]),
            rate_window=MINUTE,
            on_interrupted=c.choice(["never", "retry"]),
        )

    def run(self, steps: int) -> None:
        weights = [weight for weight, _ in self.steps]
        for _ in range(steps):
            (_, step) = self.chance.choices(self.steps, weights)[0]
            with suppress(Refused):
                step()
            self.ledger.check()
            self.finals_stay()

    def name(self) -> str:
        return self.chance.choice(NAMES)

    def finals_stay(self) -> None:
        with self.ledger.store.read() as conn:
            o = self.ledger.store.tables.occurrences
            found = {row.pk: row.state for row in conn.execute(o.select().where(o.c.finished_at.is_not(None)))}
        for pk, state in self.finals.items():
            assert found.get(pk, state) == state, "a final state changed"
        self.finals |= found

    # --- what may happen ----------------------------------------------------------------------------------------------

    def tick(self) -> None:
        self.ledger.now += self.chance.choice([1, SECOND, 30 * SECOND, MINUTE, 3 * MINUTE])
        self.ledger.tick(occurrence_batch=self.chance.choice([2, 100]))

    def claim(self) -> None:
        self.claimed += self.ledger.claim(self.chance.choice([1, 2, 50]))

    def start(self) -> None:
        some = [one for one in self.claimed if self.chance.random() < 0.7]
        moved = self.ledger.start(some)
        self.claimed = [one for one in self.claimed if one not in some]
        self.running += [one for one in some if one.occurrence in moved]

    def finish(self) -> None:
        some = [one for one in self.running if self.chance.random() < 0.6]
        self.running = [one for one in self.running if one not in some]
        outcomes: list[Outcome] = []
        for one in some:
            outcome = failed(one, self.ledger.now, self.chance.choice("xy"))
            states: tuple[Literal["failed", "timed_out", "interrupted", "cancelled"], ...]
            states = ("failed", "timed_out", "interrupted", "cancelled")
            outcome = outcome._replace(state=self.chance.choice(states), clean_stop=self.chance.random() < 0.2)
            outcomes.append(self.chance.choice([outcome, succeeded(one, self.ledger.now)]))
        report = self.ledger.finish(*outcomes)
        assert not report.late, "its owner lives, and it ran"

    def give_back(self) -> None:
        with self.ledger.store.write() as conn:
            pks = [one.occurrence for one in self.claimed]
            give_back(self.ledger.store, conn, epoch=self.ledger.epoch, pks=pks, now=self.ledger.now)
        self.claimed = []

    def die(self) -> None:
        store, now = self.ledger.store, self.ledger.now
        with store.write() as conn:
            observed = recover.heartbeats(store, conn)
            self.ledger.now = now = now + HOUR
            recover.take_over(store, conn, now, observed)
            self.ledger.epoch = recover.register_owner(store, conn, "next", "host", 2, now, MINUTE)
        self.claimed, self.running = [], []

    def revise(self) -> None:
        name = self.name()
        mode = self.chance.choice(["carry", "wait"])
        self.ledger.update(self.definition(name), mode=mode, cancel_pending=self.chance.random() < 0.3)

    def extra(self) -> None:
        self.ledger.control("run_extra", self.name())

    def backfill(self) -> None:
        name = self.name()
        trigger = self.ledger.store.compiled
        with self.ledger.store.read() as conn:
            rule = trigger.get(conn, self.ledger.view(name).revision_pk).trigger
        dues = list(rule.between(self.ledger.now - MINUTE, self.ledger.now))[:3]
        self.ledger.control("backfill", name, dues=dues, max_concurrent=2)

    def skip(self) -> None:
        self.ledger.control("skip_next", self.name())

    def delete(self) -> None:
        name = self.name()
        self.ledger.control("delete", name)
        self.ledger.create(self.definition(name))

    def move(self, action: str) -> Callable[[], None]:
        return lambda: self.ledger.control(action, self.name())


@pytest.fixture
def memory() -> Iterator[Store]:
    store = Store("sqlite://", clock=SteppedClock(T0))
    store.open()
    yield store
    store.dispose()


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_every_slot_has_one_verdict(memory: Store, seed: int) -> None:
    Chaos(memory, seed).run(80)


@pytest.mark.parametrize("seed", range(2))
def test_the_same_on_every_database(store: Store, seed: int) -> None:
    Chaos(store, 1000 + seed).run(40)


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(100, 200))
def test_a_hundred_long_histories(memory: Store, seed: int) -> None:
    Chaos(memory, seed).run(400)
