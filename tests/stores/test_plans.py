"""How the databases find what the hot paths ask for: by index, however much history there is.

The statements are not listed here: they are taken from a tick, a claim, a start, outcomes and their kin as they run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import event, text

from calsched.model import Definition, Task
from calsched.stores import inspect, recover, rows
from calsched.stores.advance import advance
from calsched.stores.claim import cancel_requested, next_run_at
from calsched.stores.engine import Store
from calsched.stores.tables.sql import insert_many
from tests.stores._helpers import DAY, HOUR, MINUTE, T0, Ledger, every, failed, succeeded

#: Tables that grow with the number of schedules or with time. The others hold a handful of rows.
LARGE = ("schedules", "revisions", "occurrences", "ranges", "attempts", "decisions")


def fill(store: Store, schedules: int, each: int, *, due: int | None = None, analyze: bool = True) -> None:
    """Schedules that are due far from now (or all ``due`` at one instant), each with a history of runs and ranges."""
    t, old = store.tables, T0 - 1000 * DAY
    definition = Definition(id="x", trigger={"kind": "interval", "intervalMs": HOUR}, task=Task(callable="a:b"))
    text_, digest = rows.definition_text(definition), definition.digest()
    with store.write() as conn:
        base = 1 + (conn.execute(text(f"SELECT max(pk) FROM {t.schedules.name}")).scalar() or 0) + 1000
        for start in range(0, schedules, 2000):
            keys = range(base + start, base + min(start + 2000, schedules))
            insert_many(
                conn, t.schedules,
                ("pk", "namespace", "id", "state", "changed_at", "revision", "revision_pk", "next_ordinal", "next_due",
                 "look_at", "created_at"),
                [(k, f"n{k % 7}", f"s{k}", "enabled", old, 1, k, each * 2, at, at, old)
                 for k in keys for at in [due or T0 + DAY + k]],
            )  # fmt: skip
            insert_many(
                conn, t.revisions, ("pk", "schedule_pk", "number", "definition", "digest", "created_at"),
                [(k, k, 1, text_, digest, old) for k in keys],
            )  # fmt: skip
            insert_many(
                conn, t.occurrences,
                ("pk", "schedule_pk", "revision_pk", "series", "ordinal", "due", "slot_due", "run_at", "state",
                 "executor", "expires_at", "deadline", "represents_first", "represents_last", "represents_first_due",
                 "created_at", "finished_at", "attempt", "epoch"),
                [(k * each + n, k, k, "slot", 2 * n, old + n, old + n, old + n, "succeeded", "default", old, old,
                  2 * n, 2 * n, old, old, old, 1, None) for k in keys for n in range(each)],
            )  # fmt: skip
            insert_many(
                conn, t.ranges,
                ("schedule_pk", "revision_pk", "first", "last", "first_due", "last_due", "verdict", "reason", "counted",
                 "created_at"),
                [(k, k, 2 * n + 1, 2 * n + 1, old + n, old + n, "skipped", "misfire", True, old)
                 for k in keys for n in range(each)],
            )  # fmt: skip
            insert_many(
                conn, t.attempts, ("occurrence_pk", "number", "state", "ended_at", "elapsed"),
                [(k * each + n, 1, "succeeded", old, 1) for k in keys for n in range(each)],
            )  # fmt: skip
            insert_many(
                conn, t.decisions, ("namespace", "id", "revision", "action", "principal", "at"),
                [(f"n{k % 7}", f"s{k}", 1, "create", "t", old) for k in keys],
            )  # fmt: skip
    if not analyze:
        return
    with store.engine.begin() as conn:
        for name in LARGE:
            table = getattr(t, name).name
            conn.execute(text(f"ANALYZE TABLE {table}" if store.dialect == "mysql" else f"ANALYZE {table}"))


class Plans:
    """Collects statements and asks the database how it runs them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.seen: dict[str, Any] = {}
        event.listen(store.engine, "before_cursor_execute", self._note)

    def _note(self, conn: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        if statement.lstrip().upper().startswith(("SELECT", "UPDATE", "DELETE")):
            self.seen.setdefault(statement, parameters[0] if many and isinstance(parameters, list) else parameters)

    def stop(self) -> None:
        event.remove(self.store.engine, "before_cursor_execute", self._note)

    def sorts(self) -> list[str]:
        """Statements that sort what they read."""
        dialect = self.store.dialect
        with self.store.engine.connect() as conn:
            plans = {
                statement: str(conn.exec_driver_sql(f"{_EXPLAIN[dialect]} {statement}", parameters).all())
                for statement, parameters in self.seen.items()
            }
        return [statement for statement, plan in plans.items() if _SORTED[dialect] in plan]

    def scans(self) -> list[str]:
        """Statements that read a large table from end to end."""
        found = []
        with self.store.engine.connect() as conn:
            for statement, parameters in self.seen.items():
                full = _FULL[self.store.dialect](self.store, conn, statement, parameters)
                found += [f"{table}: {statement}" for table in full]
        return found


def _large(store: Store) -> set[str]:
    return {getattr(store.tables, name).name for name in LARGE}


def _is_page(statement: str) -> bool:
    """Whether it stops after a few rows: then walking along an index is what it should do."""
    return "ORDER BY" in statement and "LIMIT" in statement


def _sqlite(store: Store, conn: Any, statement: str, parameters: Any) -> Iterator[str]:
    for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters):
        words = row[3].split()
        walks = "USING INDEX" in row[3] and _is_page(statement)
        if words[0] == "SCAN" and words[1] in _large(store) and not walks:
            yield row[3]


def _postgresql(store: Store, conn: Any, statement: str, parameters: Any) -> Iterator[str]:
    (plan,) = conn.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters).one()
    stack = [json.loads(plan)[0]["Plan"] if isinstance(plan, str) else plan[0]["Plan"]]
    while stack:
        node = stack.pop()
        stack += node.get("Plans", [])
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] in _large(store):
            yield node["Relation Name"]


def _mysql(store: Store, conn: Any, statement: str, parameters: Any) -> Iterator[str]:
    for row in conn.exec_driver_sql(f"EXPLAIN {statement}", parameters):
        if row.table in _large(store) and (row.type == "ALL" or (row.type == "index" and not _is_page(statement))):
            yield f"{row.table} ({row.type})"


_SORTED = {"sqlite": "TEMP B-TREE FOR ORDER BY", "postgresql": "Sort", "mysql": "filesort"}
_EXPLAIN = {"sqlite": "EXPLAIN QUERY PLAN", "postgresql": "EXPLAIN", "mysql": "EXPLAIN"}

_FULL: dict[str, Callable[..., Iterator[str]]] = {"sqlite": _sqlite, "postgresql": _postgresql, "mysql": _mysql}


def exercise(ledger: Ledger) -> None:
    """One round of everything that an owner does all day."""
    store = ledger.store
    policies: dict[str, dict[str, Any]] = {
        "plain": {},
        "queue": {"overlap": "queue"},
        "skip": {"misfire": "skip", "grace": 0},
        "rated": {"rate_limit": 5, "rate_window": HOUR},
        "retry": {"max_retries": 1, "max_repeated_failures": 3, "retry_delay": 1},
        "limited": {"expires_at": T0 + 2 * HOUR, "deadline": HOUR},
    }
    for name, more in policies.items():
        ledger.create(every(MINUTE, name, **more))
    ledger.control("skip_next", "plain")
    ledger.control("pause", "retry", until=T0 + 1)
    for tick in range(4):
        ledger.tick(T0 + tick * MINUTE + 1)
        taken = ledger.claim(executors={"default": 50})
        ledger.start(taken)
        with store.write() as conn:
            next_run_at(store, conn, ledger.now)
            cancel_requested(store, conn, epoch=ledger.epoch)
            recover.heartbeat(store, conn, ledger.epoch, ledger.now, MINUTE)
            recover.observe_clock(store, conn, ledger.now)
        ledger.finish(*(failed(one, ledger.now) if tick % 2 else succeeded(one, ledger.now) for one in taken))
    ledger.control("backfill", "plain", dues=[T0], max_concurrent=1)
    ledger.tick(T0 + 3 * HOUR)
    ledger.claim(exclude=[1])
    with store.write() as conn:
        recover.stop_owner(store, conn, ledger.epoch, ledger.now)
    ledger.history("plain", limit=3)
    with store.read() as conn:
        inspect.show(store, conn, "default", "plain")
        inspect.list_schedules(store, conn, limit=20)
        inspect.list_schedules(store, conn, namespace="n3", page='["n3", "s5"]', limit=20)


def look(store: Store, schedules: int, each: int) -> None:
    fill(store, schedules, each)
    ledger = Ledger(store)
    plans = Plans(store)
    try:
        exercise(ledger)
    finally:
        plans.stop()
    assert len(plans.seen) > 40
    assert plans.scans() == []


def test_no_hot_path_reads_a_table_from_end_to_end(store: Store) -> None:
    look(store, 2_000, 6)


@pytest.mark.parametrize("analyze", [True, False], ids=["analyzed", "not analyzed yet"])
def test_a_tick_reads_its_batch_and_no_more_of_what_is_due_at_the_same_instant(fresh: Store, analyze: bool) -> None:
    fill(fresh, 10_000, 0, due=T0, analyze=analyze)
    plans = Plans(fresh)
    try:
        with fresh.write() as conn:
            report = advance(fresh, conn, T0, schedule_batch=50)
    finally:
        plans.stop()
    assert (len(report.schedules), report.more) == (50, True)
    assert plans.sorts() == []
    # a join of a whole batch with so small a table may well read it from end to end
    scans = [scan for scan in plans.scans() if scan.startswith(fresh.tables.schedules.name)]
    assert [scan for scan in scans if "look_at <=" in scan or "resume_at" in scan] == []


def test_a_claim_reads_its_batch_and_no_more_of_what_is_ready_at_the_same_instant(fresh: Store) -> None:
    fill(fresh, 2_000, 0, due=T0)
    ledger = Ledger(fresh)
    with fresh.write() as conn:
        assert len(advance(fresh, conn, T0, schedule_batch=2_000).schedules) == 2_000
    plans = Plans(fresh)
    try:
        assert len(ledger.claim(executors={"default": 50})) == 50
    finally:
        plans.stop()
    assert len([statement for statement in plans.seen if "LIMIT" in statement]) == 2
    assert [statement for statement in plans.sorts() if "LIMIT" in statement] == []


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_no_hot_path_does_so_at_a_hundred_thousand_schedules_and_a_million_occurrences(store: Store) -> None:
    look(store, 100_000, 10)
