"""What an owner cannot load: left to others, paused where nobody comes, and said either way."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import update

from calsched import OccurrenceJobStore, SystemClock
from calsched.model import Definition, Task
from calsched.runtime.inline import InlineOwner
from calsched.runtime.problems import Problem, Problems
from calsched.runtime.unusable import ABSTAIN, Unusable
from calsched.stores import control, extra, inspect
from calsched.stores.engine import Store
from tests.jobstore import _jobs
from tests.jobstore.conftest import wait_until
from tests.stores.conftest import drop, server_url

HERE = "tests.runtime.test_unusable"
NOTED = f"{HERE}:note"
noted: list[str] = []


def note() -> None:
    noted.append("note")


@pytest.fixture(autouse=True)
def _nobody_has_called() -> None:
    noted.clear()


def create(store: Store, schedule_id: str, callable: str = NOTED, trigger: Any = None) -> None:
    """A schedule that is due in an hour, with an extra run that may start now."""
    made = Definition(
        id=schedule_id,
        trigger=trigger or {"kind": "interval", "intervalMs": 3_600_000},
        task=Task(callable=callable),
        overlap="queue",
    )
    with store.write() as conn:
        now = store.now(conn)
        control.create(store, conn, made, now=now, principal="test", start_at=now + 1)
        extra.run_extra(store, conn, "default", schedule_id, now=now, principal="test")


def alter(store: Store, schedule_id: str) -> None:
    """The stored definition is not the one that was registered any more."""
    with store.write() as conn:
        view = inspect.get(store, conn, "default", schedule_id)
        r = store.tables.revisions
        conn.execute(update(r).where(r.c.schedule_pk == view.pk).values(definition="{}"))
    store.compiled.forget()


def state(store: Store, schedule_id: str) -> tuple[str, str | None]:
    with store.read() as conn:
        view = inspect.get(store, conn, "default", schedule_id)
    return view.state, view.reason


# --- a claim ----------------------------------------------------------------------------------------------------------


def test_work_whose_definition_cannot_be_read_is_told_and_does_not_hold_up_what_is_behind_it(
    store: Store, owner: InlineOwner
) -> None:
    create(store, "a")
    create(store, "b")
    alter(store, "a")
    assert [work.claimed.schedule_id for work in owner.drain()] == ["b"]
    (problem,) = owner.problems.all()
    assert (problem.kind, problem.id) == ("invalid", "a")
    assert "paused, because its definition cannot be loaded: " in problem.message
    assert "not the one that was registered" in problem.message
    assert state(store, "a") == ("paused", "invalid")


def test_work_of_an_ended_schedule_that_cannot_be_read_waits_and_is_told(store: Store, owner: InlineOwner) -> None:
    create(store, "a", trigger={"kind": "once", "at": "2020-01-01T00:00:00Z"})
    alter(store, "a")
    assert owner.drain() == []
    (problem,) = owner.problems.all()
    assert (problem.kind, problem.id) == ("unloadable", "a")
    assert "its work waits, because its definition cannot be loaded: " in problem.message
    assert state(store, "a") == ("ended", "exhausted")


def test_an_owner_without_threads_knows_what_it_could_not_load(store: Store, owner: InlineOwner) -> None:
    create(store, "a", "nowhere:nothing")
    create(store, "b")
    with store.write() as conn:  # due, and not to be judged
        conn.execute(
            update(store.tables.schedules).where(store.tables.schedules.c.id == "b").values(next_due=0, look_at=0)
        )
    alter(store, "b")
    owner.drain()
    found = {problem.id: (problem.kind, problem.message.partition(": ")[0]) for problem in owner.problems.all()}
    assert found == {
        "a": ("invalid", "paused, because its task cannot be loaded"),
        "b": ("invalid", "paused, because its definition cannot be loaded"),
    }


# --- a grace for deploys ----------------------------------------------------------------------------------------------


class Alone:
    """The verbs that are asked for; ``others`` says whether somebody else is there."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.others = False
        self.paused: list[int] = []

    def is_only_owner(self, conn: Any, now: int) -> bool:
        return not self.others

    def pause_invalid(self, conn: Any, schedule_pk: int, problem: str, now: int) -> bool:
        self.paused.append(schedule_pk)
        return True


@pytest.fixture
def verbs(store: Store) -> Alone:
    return Alone(store)


@pytest.fixture
def unusable(verbs: Alone) -> Unusable:
    return Unusable(verbs, Problems(), grace=30.0)  # type: ignore[arg-type]


def meet(unusable: Unusable, verbs: Alone, after: int = 0) -> int | None:
    """Meet it once more, some seconds later; for how many seconds it is passed over then, None where it was paused."""
    clock: Any = verbs.store.clock
    clock.advance(seconds=after)
    before, now = len(verbs.paused), clock.now()
    unusable.met(None, now, 7, "default", "a", "task", "no module")
    return (unusable.passed_over(now)[7] - now) // 1000 if len(verbs.paused) == before else None


def test_one_that_nobody_can_load_is_paused_after_one_lease(unusable: Unusable, verbs: Alone) -> None:
    assert meet(unusable, verbs) == 30
    assert meet(unusable, verbs, after=29) == 1
    assert meet(unusable, verbs, after=1) is None


def test_the_lease_counts_from_when_nobody_else_was_there(unusable: Unusable, verbs: Alone) -> None:
    meet(unusable, verbs)
    verbs.others = True
    assert meet(unusable, verbs, after=40) == ABSTAIN // 1000
    verbs.others = False
    assert meet(unusable, verbs, after=40) == 30
    assert meet(unusable, verbs, after=30) is None


def test_one_that_was_met_long_ago_is_met_for_the_first_time(unusable: Unusable, verbs: Alone) -> None:
    meet(unusable, verbs)
    assert meet(unusable, verbs, after=86_400) == 30


def test_one_whose_work_has_begun_here_is_forgotten(verbs: Alone) -> None:
    problems = Problems()
    unusable = Unusable(verbs, problems, grace=30.0)  # type: ignore[arg-type]
    meet(unusable, verbs)
    assert problems.all() == (
        Problem(
            "unloadable",
            "default",
            "a",
            "left for 30 s to an owner that may come, because its task cannot be loaded: no module",
        ),
    )
    unusable.over([(7, "default", "a")])
    assert problems.all() == ()
    assert meet(unusable, verbs, after=30) == 30


# --- owners with threads ----------------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    url = f"sqlite:///{tmp_path / 'app.db'}" if request.param == "sqlite" else server_url(request.param)
    store = Store(url, prefix=f"u{secrets.token_hex(4)}_", clock=SystemClock())
    store.open()
    create(store, "a", "tests.jobstore._jobs:noop")
    yield url, store.prefix
    drop(store)


@pytest.fixture
def begin(address: tuple[str, str]) -> Iterator[Callable[..., Any]]:
    """Starts owners; stops them at the end."""
    made: list[Any] = []
    url, prefix = address

    def start(allow: str, lease: float) -> Any:
        jobstore = OccurrenceJobStore(url, prefix=prefix, poll_interval=0.2, lease=lease, allow=[allow])
        scheduler: Any = BackgroundScheduler(jobstores={"default": jobstore}, timezone="UTC")
        scheduler.start()
        made.append((scheduler, jobstore))
        return jobstore

    yield start
    for scheduler, jobstore in made:
        scheduler.shutdown()
        assert jobstore.pump.join(20)
        jobstore.store.dispose()


def told(jobstore: Any) -> list[tuple[str, str]]:
    return [(one.kind, one.message.partition(",")[0]) for one in jobstore.pump.problems.all()]


def test_a_lone_owner_waits_one_lease_before_it_pauses_what_it_cannot_load(begin: Callable[..., Any]) -> None:
    alone = begin("nothing:*", lease=2.0)
    wait_until(lambda: told(alone) == [("unloadable", "left for 2 s to an owner that may come")], "the first meeting")
    assert state(alone.store, "a") == ("enabled", None)
    wait_until(lambda: told(alone) == [("invalid", "paused")], "the pause")
    assert state(alone.store, "a") == ("paused", "invalid")


@pytest.mark.parametrize("address", ["postgresql", "mariadb"], indirect=True)
def test_an_owner_that_comes_within_the_lease_runs_what_the_one_before_it_could_not(begin: Callable[..., Any]) -> None:
    _jobs.reset()
    old = begin("nothing:*", lease=15.0)
    wait_until(lambda: [kind for kind, _ in told(old)] == ["unloadable"], "the first meeting")
    begin("tests.jobstore._jobs:*", lease=15.0)

    def succeeded() -> bool:
        with old.store.read() as conn:
            entries = inspect.history(old.store, conn, "default", "a").entries
        return any(getattr(entry, "state", "") == "succeeded" for entry in entries)

    wait_until(succeeded, "the run")
    assert state(old.store, "a") == ("enabled", None)
