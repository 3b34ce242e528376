"""Statements over many rows: every value comes back as it went in, on every database."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from calsched.stores.engine import Store
from calsched.stores.tables.sql import CHUNK, KEYS, TOGETHER, insert_many, update_many

ODD = [
    "", "plain", 'a "quoted" word', "it's", "back\\slash", "\\", '\\"', "{a,b}", "NULL", "null", " led by a space ",
    "two\nlines\r\n", "tab\t", "100 %s %(x)s ? :y", "\N{SNOWMAN}", "\N{GRINNING FACE}", "a,b;c--", "É é e\u0301",
    "x" * 3000,
]  # fmt: skip
COLUMNS = ("occurrence_pk", "number", "state", "ended_at", "elapsed", "uncertain", "late", "error")


def attempt(key: int, **values: Any) -> tuple[Any, ...]:
    row = {"number": 1, "state": "failed", "ended_at": 2**62, "elapsed": -5, "uncertain": False, "late": True}
    return (key, *(values.get(name, row.get(name)) for name in COLUMNS[1:]))


def read(store: Store, *columns: str) -> list[Any]:
    a = store.tables.attempts
    with store.read() as conn:
        found = conn.execute(select(*(a.c[name] for name in columns)).order_by(a.c.occurrence_pk)).all()
    return [tuple(row) if len(columns) > 1 else row[0] for row in found]


def test_odd_texts_are_inserted_as_they_are(store: Store) -> None:
    with store.write() as conn:
        insert_many(conn, store.tables.attempts, COLUMNS, [attempt(n, error=text) for n, text in enumerate(ODD)])
    assert read(store, "error") == ODD


def test_odd_texts_are_updated_as_they_are(store: Store) -> None:
    with store.write() as conn:
        insert_many(conn, store.tables.attempts, COLUMNS, [attempt(n) for n in range(len(ODD))])
    keys = read(store, "pk")
    with store.write() as conn:
        rows = list(zip(ODD, keys, strict=True))
        assert update_many(conn, store.tables.attempts, ("error",), rows) == len(ODD)
    assert read(store, "error") == ODD


def test_numbers_flags_and_nulls_keep_their_kind(store: Store) -> None:
    with store.write() as conn:
        insert_many(
            conn, store.tables.attempts, COLUMNS, [attempt(1), attempt(2, uncertain=True, late=False, error=None)]
        )  # fmt: skip
    found = read(store, "ended_at", "elapsed", "uncertain", "late", "error", "epoch")
    assert found == [(2**62, -5, False, True, None, None), (2**62, -5, True, False, None, None)]
    assert [type(value) for value in found[0]] == [int, int, bool, bool, type(None), type(None)]


@pytest.mark.parametrize("count", [0, 1, TOGETHER - 1, TOGETHER, TOGETHER + 1, 2 * TOGETHER + 7, CHUNK + 1])
def test_a_batch_of_any_size_is_whole(store: Store, count: int) -> None:
    t = store.tables.attempts
    with store.write() as conn:
        insert_many(conn, t, COLUMNS, [attempt(n) for n in range(count)])
    keys = read(store, "pk")
    assert len(set(keys)) == count
    with store.write() as conn:
        changed = update_many(conn, t, ("elapsed", "error"), [(n, None, pk) for n, pk in enumerate(keys)])
        listed = conn.execute(select(t.c.pk).where(KEYS.holds(t.c.pk, store.dialect)), KEYS.given(keys, store.dialect))
        assert len(listed.all()) == count
    assert changed == count
    assert read(store, "elapsed") == list(range(count))


def test_an_update_compares_before_it_sets(store: Store) -> None:
    t = store.tables.attempts
    with store.write() as conn:
        insert_many(conn, t, COLUMNS, [attempt(1, elapsed=10), attempt(2, elapsed=20), attempt(3, elapsed=30)])
    one, two, three = read(store, "pk")
    with store.write() as conn:
        rows = [(11, one, 10), (21, two, 999), (31, three, 30)]
        assert update_many(conn, t, ("elapsed",), rows, where="late", match=("elapsed",)) == 2
        assert update_many(conn, t, ("elapsed",), rows, where="NOT late", match=("elapsed",)) == 0
    assert read(store, "elapsed") == [11, 20, 31]
