"""Schedules by the thousand, as ``create`` would leave them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import insert, text

from calsched.clock import to_rfc3339
from calsched.model import Definition, Task, canonical_json

HOUR = 3_600_000
_SERIES = {
    "sqlite": "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :n) SELECT i FROM n) AS s",
    "postgresql": "generate_series(1, :n) AS s(i)",
}


def definition(name: str, due: int, callable: str, interval: int = HOUR, **policies: Any) -> Definition:
    trigger = {"kind": "interval", "intervalMs": interval, "firstTick": to_rfc3339(due)}
    return Definition(id=name, trigger=trigger, task=Task(callable=callable), **policies)


def fill(store: Any, n: int, due: int, *, callable: str, **policies: Any) -> None:
    """``n`` enabled schedules whose first slot is at ``due``."""
    t, schedules, revisions = store.tables, [], []
    for i in range(1, n + 1):
        d = definition(f"job-{i}", due, callable, **policies)
        schedules.append(
            {"pk": i, "namespace": "default", "id": d.id, "state": "enabled", "changed_at": due, "revision": 1,
             "revision_pk": i, "next_due": due, "look_at": due, "created_at": due}
        )  # fmt: skip
        revisions.append(
            {"pk": i, "schedule_pk": i, "number": 1, "definition": canonical_json(d.material()),
             "digest": d.digest(), "created_at": due, "first_due": due}
        )  # fmt: skip
    with store.write() as conn:
        conn.execute(insert(t.schedules), schedules)
        conn.execute(insert(t.revisions), revisions)


def fill_by_sql(store: Any, n: int, due: int) -> None:
    """A million of them in seconds, written by the database itself. Their digests are wrong: they are not to be run."""
    d = definition("job-0", due, "jobs:run")
    before, after = canonical_json(d.material()).split('"job-0"')
    given = {"before": before + '"job-', "after": '"' + after, "digest": d.digest(), "due": due, "n": n}
    t, series = store.tables, _SERIES[store.dialect]
    at, i = "CAST(:due AS bigint) + i % 1000", "CAST(i AS varchar)"
    definition_text = f"CAST(:before AS varchar) || {i} || CAST(:after AS varchar)"
    with store.write() as conn:
        conn.execute(
            text(
                f"INSERT INTO {t.schedules.name} (pk, namespace, id, state, changed_at, revision, revision_pk,"
                f" next_due, look_at, created_at) SELECT i, 'default', 'job-' || {i}, 'enabled', :due, 1, i, {at},"
                f" {at}, :due FROM {series}"
            ),
            given,
        )
        conn.execute(
            text(
                f"INSERT INTO {t.revisions.name} (pk, schedule_pk, number, definition, digest, created_at, first_due)"
                f" SELECT i, i, 1, {definition_text}, CAST(:digest AS varchar), :due, {at} FROM {series}"
            ),
            given,
        )
    if store.dialect == "postgresql":
        with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.execute(text(f"VACUUM ANALYZE {t.schedules.name}, {t.revisions.name}"))
