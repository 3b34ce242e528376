"""Ready tasks: work that a host does, not calsched. It claims one, keeps its lease alive, and says how it ended.

A claim is committed before the host begins, so a host that dies leaves an interrupted occurrence with an unknown state,
and never a second run (seed 003, "Recovery"). The token of a claim is its fence: without it nothing is accepted.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection

from calsched.clock import to_rfc3339
from calsched.errors import Fenced
from calsched.model import Definition, Failure, OccurrenceKey, Outcome
from calsched.stores.compiled import CompiledRevision
from calsched.stores.finish import CutOff, attempt_row, cut_off, decide, refine
from calsched.stores.settle import settle
from calsched.stores.tables import attempts, clock, hosted, occurrences, schedules

if TYPE_CHECKING:
    from calsched.stores.engine import Store

#: The epoch of hosts: they are no owners.
HOST_EPOCH = 0
#: Candidates that one claim looks at for a task class.
LOOK = 1000


class ReadyTask(NamedTuple):
    """A claimed task. ``payload`` has the schedule's part and the template's input, and nothing else (seed 000)."""

    occurrence: int  # key in the database
    token: str
    lease_until: int
    attempt: int
    work_order_id: str | None
    run_id: str | None
    task_class: str | None
    payload: dict[str, Any]


def claim(
    store: Store,
    conn: Connection,
    *,
    now: int,
    lease_ms: int,
    limit: int = 1,
    namespace: str | None = None,
    task_class: str | None = None,
) -> list[ReadyTask]:
    """Take up to ``limit`` ready tasks, oldest first; none while there is a hold. They count as begun."""
    if clock.hold(conn, store.tables) is not None:
        return []
    t, dialect = store.tables, store.dialect
    found = [
        row
        for state in ("retrying", "ready")
        for row in occurrences.candidates(conn, t, dialect, state, "", now, max(limit, LOOK))
    ]
    if dialect == "mysql":
        held = schedules.lock_free(conn, t, dialect, {row[2] for row in found})
        found = [row for row in found if row[2] in held]
    rows = occurrences.decide(conn, t, dialect, [row[0] for row in found], now) if found else []
    compiled = store.compiled.get_many(conn, {row.revision_pk for row in rows})
    taken: list[tuple[Any, Definition, str]] = []
    for row in rows:
        revision = compiled.get(row.revision_pk)
        if len(taken) < limit and isinstance(revision, CompiledRevision):
            task = revision.definition.task
            if namespace in (None, row.namespace) and task_class in (None, task.task_class):
                taken.append((row, revision.definition, secrets.token_hex(16)))
    begun = [(token, now + lease_ms, now, row.attempt + 1, row.pk) for row, _, token in taken]
    if hosted.begin(conn, t, begun) != len(taken):
        raise RuntimeError("ready tasks were claimed by somebody else while their rows were held")
    return [_task(store, row, d, token, now + lease_ms) for row, d, token in taken]


def _task(store: Store, row: Any, d: Definition, token: str, lease_until: int) -> ReadyTask:
    key = OccurrenceKey(store.installation, row.namespace, row.id, row.number, row.ordinal, row.series)
    schedule = {
        "namespace": row.namespace,
        "scheduleId": row.id,
        "revision": row.number,
        "occurrenceKey": str(key),
        "ordinal": str(row.ordinal),
        "represented": {"first": str(row.represents_first), "last": str(row.represents_last)},
        "dueTime": to_rfc3339(row.due),
    }
    task = d.task
    payload = {"schedule": schedule, "input": task.input}
    return ReadyTask(
        row.pk, token, lease_until, row.attempt + 1, task.work_order_id, task.run_id, task.task_class, payload
    )  # fmt: skip


def heartbeat(store: Store, conn: Connection, occurrence: int, token: str, *, now: int, lease_ms: int) -> bool:
    """Renew a claim's lease; whether the task is asked to stop. Raises Fenced when the claim is over."""
    row = occurrences.rows(conn, store.tables, store.dialect, (occurrence,), locking=True).get(occurrence)
    if row is None or not _holds(row, token):
        raise Fenced(f"the claim of ready task {occurrence} is over; what it did is not recorded under this token")
    occurrences.change(conn, store.tables, occurrence, {"lease_until": now + lease_ms})
    return hosted.is_asked_to_stop(conn, store.tables, occurrence)


def give_back(store: Store, conn: Connection, occurrence: int, token: str, *, now: int) -> bool:
    """The host did not begin after all; whether the claim still was its own."""
    row = occurrences.rows(conn, store.tables, store.dialect, (occurrence,), locking=True).get(occurrence)
    if row is None or not _holds(row, token):
        return False
    given = occurrences.give_back(conn, store.tables, store.dialect, (occurrence,), HOST_EPOCH, "running")
    return given == 1


class Reported(NamedTuple):
    """What became of a report: ``state`` of the occurrence now; ``late`` when it was kept as evidence only."""

    state: str | None
    late: bool = False
    retry_at: int | None = None


def complete(store: Store, conn: Connection, occurrence: int, token: str, *, now: int, result: Any = None) -> Reported:
    """The task is done. ``result`` is a JSON value."""
    text = None if result is None else json.dumps(result, ensure_ascii=False, allow_nan=False)
    return _report(store, conn, occurrence, token, now, "succeeded", text, None)


def fail(
    store: Store, conn: Connection, occurrence: int, token: str, *, now: int, kind: str = "Failed", message: str = ""
) -> Reported:
    """The task failed; the failure policy says what follows."""
    return _report(store, conn, occurrence, token, now, "failed", None, Failure(kind, message))


def _report(
    store: Store,
    conn: Connection,
    occurrence: int,
    token: str,
    now: int,
    state: Any,
    result: str | None,
    failed: Failure | None,
) -> Reported:
    t, dialect = store.tables, store.dialect
    held = schedules.lock_of(conn, t, dialect, (occurrence,))
    row = occurrences.rows(conn, t, dialect, (occurrence,)).get(occurrence)
    if row is None:
        return Reported(None, late=True)
    outcome = _outcome(row, now, state, result, failed)
    if not _holds(row, token):
        attempts.add(conn, t, [attempt_row(row, outcome, HOST_EPOCH, late=True)])
        return Reported(row.state, late=True)
    (change,) = decide(store, conn, now, [(row, outcome)], held)
    attempts.add(conn, t, [attempt_row(row, outcome, HOST_EPOCH)])
    settle(store, conn, now, [change], held, where="state = 'running'")
    return Reported(change.state, retry_at=change.run_at if change.state == "retrying" else None)


def _holds(row: Any, token: str) -> bool:
    same = row.token is not None and secrets.compare_digest(row.token, token)
    return bool(row.state == "running" and row.epoch == HOST_EPOCH and same)


def _outcome(row: Any, now: int, state: Any, result: str | None, failed: Failure | None) -> Outcome:
    elapsed = max(0, now - row.started_at) if row.started_at is not None else 0
    return Outcome(row.pk, row.attempt, state, now, elapsed, result, failed, started_at=row.started_at)


def expire(store: Store, conn: Connection, now: int) -> list[CutOff]:
    """Interrupt what hosts run whose lease is over."""
    t, dialect = store.tables, store.dialect
    lost = hosted.expired(conn, t, now)
    if not lost:
        return []
    held = schedules.lock_free(conn, t, dialect, {schedule for _, schedule in lost})
    rows = occurrences.rows(conn, t, dialect, [pk for pk, schedule in lost if schedule in held])
    over = [row for row in rows.values() if row.state == "running" and row.lease_until < now]
    own = [(row, _outcome(row, now, "interrupted", None, None)) for row in over]
    attempts.add(conn, t, [refine(attempt_row(row, outcome, HOST_EPOCH), uncertain=True) for row, outcome in own])
    changes = decide(store, conn, now, own, held)
    settled = settle(store, conn, now, changes, held, where="state = 'running'")
    return cut_off(over, held, changes, settled)
