"""kill -9 of the owner of a SQLite file, at every commit and at any moment: nothing runs twice, nothing is lost."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from calsched.stores.engine import Store
from tests.chaos._crew import OPEN, Crew, Ledger, Row, mixed, wait_until

MOMENTS = ("inside", "before", "after")
#: The verb, and how often it may do something before the owner dies. (A claim is also the start here.)
COMMITS = {"register": 1, "create": 2, "heartbeat": 2, "advance": 2, "claim": 2, "finish": 2, "retry": 1,
           "stop": 1}  # fmt: skip


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


@pytest.fixture
def ledger(url: str, crew: Crew) -> Iterator[Ledger]:
    store = Store(url)
    store.open()
    made = Ledger(store, crew)
    made.create(mixed())
    yield made
    store.dispose()


def started(crew: Crew, url: str, name: str) -> int:
    pid = crew.spawn(url, name)
    wait_until(lambda: f"{name} {pid}" in crew.lines("owner"), what=crew.tail)
    return pid


def recovered(before: dict[int, Row], after: dict[int, Row]) -> None:
    """What the dead owner ran has been interrupted (or is tried again where it says so); all else has run since."""
    for pk, row in before.items():
        if row.state == "running" and row.on_interrupted == "never":
            assert after[pk].state == "interrupted", (row, after[pk])
        elif row.state != "running":
            assert after[pk].state not in OPEN, (row, after[pk])


def live_on(ledger: Ledger, crew: Crew, url: str, before: dict[int, Row]) -> None:
    """A new owner does what the dead one has left."""
    pid = started(crew, url, "heir")
    recovered(before, ledger.wait_for_final(set(before)))
    crew.dismiss(pid)
    assert crew.lines("left") == ["heir True"]
    assert ledger.rows(("claimed", "running")) == {}
    ledger.check()
    ledger.check_journal()


@pytest.mark.parametrize("verb", COMMITS)
def test_killed_at_a_commit(ledger: Ledger, crew: Crew, url: str, verb: str) -> None:
    before: dict[int, Row] = {}
    for moment in MOMENTS:
        pid = crew.spawn(url, f"{verb}-{moment}", die=(verb, moment, COMMITS[verb]), add=9, lease=0.6,
                         **({"stop_after": 0.5} if verb == "stop" else {}))  # fmt: skip
        crew.wait_for_end(pid)
        assert crew.lines("left") == [], "the owner was to die, and did not"
        ledger.check()
        before = ledger.rows(OPEN)
    live_on(ledger, crew, url, before)


def killed_at_random(ledger: Ledger, crew: Crew, url: str, times: int, seed: int) -> None:
    chance, pause = random.Random(seed), threading.Event()
    for n in range(times):
        before = ledger.rows(OPEN)
        pid = started(crew, url, f"owner-{n}")
        pause.wait(chance.uniform(0.0, 0.7))
        crew.kill(pid)
        ledger.check()
        after = ledger.rows()
        for pk, row in before.items():
            if row.state == "running" and row.on_interrupted == "never":
                assert after[pk].state == "interrupted", (row, after[pk])
    live_on(ledger, crew, url, ledger.rows(OPEN))
    assert len(crew.lines("begin")) > 10 * times


def test_killed_at_eight_random_moments(ledger: Ledger, crew: Crew, url: str) -> None:
    killed_at_random(ledger, crew, url, 8, seed=1)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(2, 7))
def test_killed_at_fifty_random_moments(ledger: Ledger, crew: Crew, url: str, seed: int) -> None:
    killed_at_random(ledger, crew, url, 50, seed)
