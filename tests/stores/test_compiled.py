"""Revisions in working order: kept up to a bound, loaded many at a time, and honest about what cannot be loaded."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import Connection, event, update

from calsched.errors import CalschedError
from calsched.stores import control
from calsched.stores.compiled import Compiled, CompiledRevision, Unloadable
from calsched.stores.engine import Store
from tests.stores._helpers import MINUTE, T0, Ledger, every


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger(store)


def create(ledger: Ledger, count: int) -> list[int]:
    with ledger.store.write() as conn:
        made = [
            control.create(ledger.store, conn, every(MINUTE, f"s{n}"), now=T0, principal="t") for n in range(count)
        ]
    return [view.revision_pk for view in made]


class Statements:
    """How many a block takes."""

    def __init__(self, store: Store) -> None:
        self._store, self.count = store, 0

    def _note(self, *_: Any) -> None:
        self.count += 1

    def __enter__(self) -> Statements:
        event.listen(self._store.engine, "before_cursor_execute", self._note)
        return self

    def __exit__(self, *_: Any) -> None:
        event.remove(self._store.engine, "before_cursor_execute", self._note)


@pytest.mark.parametrize("joined", [False, True], ids=["own transaction", "the caller's"])
def test_a_revision_that_was_rolled_back_is_not_taken_for_the_next_one_of_its_key(ledger: Ledger, joined: bool) -> None:
    """SQLite gives the key of a row that was rolled back again."""

    def create_and_read(conn: Connection, schedule_id: str) -> tuple[int, str]:
        view = control.create(ledger.store, conn, every(MINUTE, schedule_id), now=T0, principal="t")
        return view.revision_pk, ledger.store.compiled.get(conn, view.revision_pk).definition.id

    def refused() -> None:
        if joined:
            with ledger.store.engine.begin() as mine:
                with ledger.store.write(mine) as conn:
                    create_and_read(conn, "gone")
                raise ZeroDivisionError
        with ledger.store.write() as conn:
            create_and_read(conn, "gone")
            raise ZeroDivisionError

    with suppress(ZeroDivisionError):
        refused()
    with ledger.store.write() as conn:
        pk, name = create_and_read(conn, "there")
    assert name == "there"
    with ledger.store.read() as conn, Statements(ledger.store) as statements:
        assert ledger.store.compiled.get(conn, pk).definition.id == "there"
    assert statements.count == 0  # what has committed is kept


def test_many_revisions_are_loaded_in_one_statement_and_then_in_none(ledger: Ledger) -> None:
    pks = create(ledger, 30)
    compiled = Compiled(ledger.store)
    with ledger.store.read() as conn:
        with Statements(ledger.store) as first:
            found = compiled.get_many(conn, pks)
        with Statements(ledger.store) as second:
            assert compiled.get_many(conn, pks) == found
    assert (first.count, second.count) == (1, 0)
    assert {one.schedule_id for one in found.values() if isinstance(one, CompiledRevision)} == {
        f"s{n}" for n in range(30)
    }


def test_no_more_are_kept_than_there_is_room_for_and_the_unused_go_first(ledger: Ledger) -> None:
    a, b, c = create(ledger, 3)
    compiled = Compiled(ledger.store, size=2)
    with ledger.store.read() as conn:
        for pk in (a, b, a, c):
            compiled.get(conn, pk)
        with Statements(ledger.store) as kept:
            compiled.get(conn, a)
            compiled.get(conn, c)
        with Statements(ledger.store) as gone:
            compiled.get(conn, b)
    assert (kept.count, gone.count) == (0, 1)


@pytest.mark.parametrize("stored", ["no JSON", "[]", "{}", "null", '{"format":1,"task":{}}'])
def test_what_cannot_be_loaded_is_told_and_stops_nobody(ledger: Ledger, stored: str) -> None:
    good, bad = create(ledger, 2)
    revisions = ledger.store.tables.revisions
    with ledger.store.write() as conn:
        conn.execute(update(revisions).where(revisions.c.pk == bad).values(definition=stored))
    ledger.store.compiled.forget()
    with ledger.store.read() as conn:
        found = ledger.store.compiled.get_many(conn, [good, bad])
        assert isinstance(found[good], CompiledRevision)
        assert isinstance(found[bad], Unloadable)
        with pytest.raises(CalschedError):
            ledger.store.compiled.get(conn, bad)


def test_a_definition_that_was_altered_behind_our_back_is_not_used(ledger: Ledger) -> None:
    (pk,) = create(ledger, 1)
    revisions = ledger.store.tables.revisions
    with ledger.store.write() as conn:
        text: str = conn.execute(revisions.select()).one().definition
        conn.execute(update(revisions).values(definition=text.replace("jobs:run", "os:system")))
    ledger.store.compiled.forget()
    with ledger.store.read() as conn:
        assert isinstance(ledger.store.compiled.get_many(conn, [pk])[pk], Unloadable)
    assert [one.unloadable for one in ledger.tick(T0).failed] == [True]


def test_a_revision_that_is_gone_is_not_found(ledger: Ledger) -> None:
    with ledger.store.read() as conn:
        assert ledger.store.compiled.get_many(conn, [4711]) == {}
        with pytest.raises(CalschedError, match="gone"):
            ledger.store.compiled.get(conn, 4711)
