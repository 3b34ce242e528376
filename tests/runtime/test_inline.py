"""The owner without threads, on a file: it is an owner like any other."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from calsched.errors import Fenced, OwnedElsewhere
from calsched.model import Definition, Task
from calsched.runtime.inline import InlineOwner
from calsched.stores import control, inspect
from calsched.stores.engine import Store
from calsched.testing import SettableClock

HERE = "tests.runtime.test_inline"
calls: list[str] = []


def note() -> None:
    calls.append("note")


def leave() -> None:
    sys.exit(3)


@pytest.fixture(autouse=True)
def _nobody_has_called() -> None:
    calls.clear()


def create(store: Store, callable: str = f"{HERE}:note", schedule_id: str = "a", **policies: Any) -> None:
    d = Definition(
        id=schedule_id, trigger={"kind": "interval", "intervalMs": 60_000}, task=Task(callable=callable), **policies
    )
    with store.write() as conn:
        control.create(store, conn, d, now=store.now(conn), principal="test")


def states(store: Store, schedule_id: str = "a") -> list[str]:
    with store.read() as conn:
        entries = inspect.history(store, conn, "default", schedule_id).entries
    return [getattr(entry, "state", None) or f"range {getattr(entry, 'verdict', '')}" for entry in reversed(entries)]


def test_it_runs_what_is_ready_and_leaves_in_good_order(store: Store, owner: InlineOwner) -> None:
    create(store)
    create(store, schedule_id="b")
    assert [work.claimed.schedule_id for work in owner.drain()] == ["a", "b"]
    assert owner.next_event() == store.clock.now() + 60_000
    owner.close()
    assert (states(store), calls) == (["succeeded"], ["note", "note"])
    with store.read() as conn:
        (seen,) = inspect.owners(store, conn)
    assert (seen.name, seen.state) == ("inline", "stopped")


def test_two_owners_of_one_file_there_are_not(store: Store, owner: InlineOwner) -> None:
    with pytest.raises(OwnedElsewhere, match="is owned by inline"):
        InlineOwner(store).open()


def test_an_outcome_that_could_not_be_committed_is_kept_for_the_next_turn(
    store: Store, owner: InlineOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(store)
    work = owner.turn()
    assert work is not None
    owner.run(work)
    real = owner.verbs.advance

    def fails(*args: Any) -> Any:
        monkeypatch.setattr(owner.verbs, "advance", real)
        raise OperationalError("disk full", None, Exception())

    monkeypatch.setattr(owner.verbs, "advance", fails)
    with pytest.raises(OperationalError):
        owner.turn()
    assert states(store) == ["running"]
    assert owner.turn() is None
    assert states(store) == ["succeeded"]


def test_a_task_that_wants_to_end_the_process_has_failed_and_ends_nothing(store: Store, owner: InlineOwner) -> None:
    create(store, f"{HERE}:leave")
    owner.drain()
    assert states(store) == ["failed"]


def test_a_task_that_cannot_be_loaded_pauses_its_schedule_and_no_other(store: Store, owner: InlineOwner) -> None:
    create(store, "nowhere:nothing")
    create(store, schedule_id="b")
    owner.drain()
    assert calls == ["note"]
    with store.read() as conn:
        view = inspect.get(store, conn, "default", "a")
    assert (view.state, view.reason) == ("paused", "invalid")
    assert "cannot import module 'nowhere'" in (view.last_failure or "")


def test_an_owner_that_was_fenced_starts_nothing_more(store: Store, owner: InlineOwner) -> None:
    create(store)
    with store.write() as conn:
        conn.execute(update(store.tables.owners).values(state="fenced"))
    with pytest.raises(Fenced):
        owner.drain()
    assert calls == []


def test_its_lease_is_renewed_as_time_goes_by(store: Store, owner: InlineOwner) -> None:
    create(store)
    clock = store.clock
    assert isinstance(clock, SettableClock)
    clock.advance(days=1)
    owner.drain()
    with store.read() as conn:
        assert inspect.owners(store, conn)[0].alive
