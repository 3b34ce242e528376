"""Four owners of one database: killed, stopped past their lease, restarted, cut off. By SQL all is well."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from sqlalchemy import func, select

from calsched.stores.engine import Store
from tests.chaos._crew import OPEN, Crew, Ledger, mixed, wait_until
from tests.chaos._servers import Server, restart_command, server

OWNERS = 4
LEASE = 1.0


class Storm:
    """Things that happen to owners, one after the other, by chance."""

    def __init__(self, crew: Crew, server: Server, seed: int) -> None:
        self.crew, self.server = crew, server
        self.chance = random.Random(seed)
        self.pause = threading.Event()
        self.asleep: dict[int, float] = {}
        self.count = 0
        self.did: list[str] = []
        self.first = ["cut", "sleep", "kill"]  # one of each, however few strikes a slow machine has time for

    def spawn(self) -> None:
        self.count += 1
        self.crew.spawn(self.server.url, f"owner-{self.count}", lease=LEASE, workers=2)

    def rage(self, seconds: float, also: list[tuple[float, Callable[[], None]]]) -> None:
        """``also`` are things to do at their time."""
        begun = time.monotonic()
        also = sorted(also, key=lambda one: one[0])
        while (spent := time.monotonic() - begun) < seconds:
            self.crew.muster()
            while len(self.crew.alive) < OWNERS:
                self.spawn()
            self.wake(time.monotonic())
            if also and spent >= also[0][0]:
                also.pop(0)[1]()
            else:
                self.strike()
            self.pause.wait(self.chance.uniform(0.1, 0.6))
        assert not also
        self.wake(float("inf"))
        self.crew.muster()
        while len(self.crew.alive) < OWNERS:
            self.spawn()

    def strike(self) -> None:
        awake = [pid for pid in self.crew.alive if pid not in self.asleep]
        what = self.chance.choices(("kill", "sleep", "stop", "cut", "peace"), (4, 3, 1, 1, 2))[0]
        what = self.first.pop() if self.first else what
        if what == "cut":
            self.server.end_all_connections()
        elif what != "peace" and awake:
            with suppress(ProcessLookupError):  # its start was cut off, and it has gone
                getattr(self, what)(self.chance.choice(awake))
        self.did.append(what)

    def kill(self, pid: int) -> None:
        self.crew.kill(pid)

    def stop(self, pid: int) -> None:
        os.kill(pid, signal.SIGTERM)
        self.crew.wait_for_end(pid)

    def sleep(self, pid: int) -> None:
        """Stopped for longer than its lease and the time that others watch it."""
        if len(self.asleep) < OWNERS - 1:
            os.kill(pid, signal.SIGSTOP)
            self.asleep[pid] = time.monotonic() + self.chance.uniform(1.5, 4) * LEASE

    def wake(self, now: float) -> None:
        for pid, until in list(self.asleep.items()):
            if pid not in self.crew.alive:
                del self.asleep[pid]
            elif until <= now:
                del self.asleep[pid]
                os.kill(pid, signal.SIGCONT)


@pytest.fixture(params=["postgresql", "mariadb"])
def database(request: pytest.FixtureRequest) -> Iterator[Server]:
    with server(request.param) as made:
        yield made


@pytest.fixture
def ledger(database: Server, crew: Crew) -> Iterator[Ledger]:
    store = Store(database.url)
    store.open()
    yield Ledger(store, crew)
    store.dispose()


def fill(ledger: Ledger, scale: int, slots: int, seconds: float) -> int:
    """Schedules that all end ``seconds`` from now, ``slots`` slots each; how many slots that makes."""
    with ledger.store.read() as conn:
        begin = ledger.store.now(conn) + 1_000
    interval = int(seconds * 1000 / slots)
    definitions = mixed(scale, interval, first=begin, last=begin + interval * (slots - 1))
    ledger.create(definitions)
    return sum(1 + (interval * (slots - 1)) // d.trigger["intervalMs"] for d in definitions)


def judged(store: Store) -> int:
    """How many slots have a verdict."""
    with store.read() as conn:
        return int(conn.execute(select(func.sum(store.tables.schedules.c.next_ordinal))).scalar_one())


def storm(
    ledger: Ledger, crew: Crew, database: Server, scale: int, slots: int, seconds: float, seed: int,
    also: list[tuple[float, Callable[[], None]]] | None = None,
) -> Storm:  # fmt: skip
    made = Storm(crew, database, seed)
    total = fill(ledger, scale, slots, seconds * 0.9)
    made.rage(seconds, also or [])
    wait_until(lambda: judged(ledger.store) == total, 60, lambda: f"{judged(ledger.store)} of {total}: {crew.tail()}")
    ledger.wait_for_final(set(ledger.rows(OPEN)), 90)
    crew.muster()
    assert OWNERS - len(crew.alive) <= len(crew.lines("fault")), crew.tail()  # cut off in its start, by the last strike
    before, leaving = len(crew.lines("left")), list(crew.alive)
    for pid in leaving:
        crew.dismiss(pid)
    assert [line.split()[-1] for line in crew.lines("left")[before:]] == ["True"] * len(leaving), crew.tail()
    ledger.check()
    ledger.check_journal()
    return made


def test_four_owners_in_a_short_storm(ledger: Ledger, crew: Crew, database: Server) -> None:
    made = storm(ledger, crew, database, scale=2, slots=12 if database.kind == "postgresql" else 6, seconds=6, seed=7)
    assert {"kill", "sleep", "cut"} <= set(made.did)


@pytest.mark.chaos
def test_four_owners_in_a_long_storm(ledger: Ledger, crew: Crew, database: Server) -> None:
    """Two minutes over five thousand slots (MariaDB: one minute over a thousand); PostgreSQL is restarted once."""
    also: list[tuple[float, Callable[[], None]]] = []
    command = restart_command()
    if database.kind == "mariadb":
        storm(ledger, crew, database, scale=5, slots=10, seconds=60, seed=11)
        return
    if isinstance(command, str):
        warnings.warn(f"PostgreSQL was not restarted: {command}", stacklevel=1)
    else:
        also.append((60.0, lambda: restart(command)))
    storm(ledger, crew, database, scale=20, slots=10, seconds=120, seed=13, also=also)


def restart(command: list[str]) -> None:
    subprocess.run(command, check=True, timeout=120, capture_output=True)
