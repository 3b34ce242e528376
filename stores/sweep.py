"""What ends by the clock alone: pauses that were to last until an instant, and limits of work that waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from calsched.policies import failure
from calsched.stores import moves
from calsched.stores.settle import Change, settle
from calsched.stores.tables import occurrences, schedules

if TYPE_CHECKING:
    from calsched.stores.engine import Store

_IDLE = "state IN ('waiting', 'ready', 'retrying')"


def resume_paused(store: Store, conn: Connection, now: int) -> list[int]:
    """Resume schedules whose ``pause --until`` is over; their keys."""
    pks = schedules.resuming(conn, store.tables, now)
    for pk in pks:
        row = schedules.by_pk(conn, store.tables, pk)
        until = {"until": row.resume_at}
        moves.apply(store, conn, row, moves.allowed(row, "resume"), moves.Control(now, evidence=until))
    return pks


def next_event(store: Store, conn: Connection, now: int) -> int | None:
    """The next instant, after ``now``, at which a tick or a claim would find something to do."""
    t = store.tables
    found = (
        schedules.next_look(conn, t, now),
        occurrences.next_run(conn, t, now),
        next_limit(store, conn, now),
    )
    return min((at for at in found if at is not None), default=None)


def next_limit(store: Store, conn: Connection, now: int) -> int | None:
    """The first instant, after ``now``, at which the expiry or the deadline of work that waits has passed."""
    return occurrences.next_limit(conn, store.tables, now)


def end_overdue_work(store: Store, conn: Connection, now: int) -> dict[int, str]:
    """Skip waiting work past its expiry or deadline, and give up retries past them; the reasons, by key."""
    found = occurrences.past_limit(conn, store.tables, now)
    if not found:
        return {}
    held = schedules.lock_free(conn, store.tables, store.dialect, set(found.values()))
    pks = [pk for pk, schedule in found.items() if schedule in held]
    rows = occurrences.rows(conn, store.tables, store.dialect, pks)
    changes = [change for row in rows.values() if (change := _ended(row, held[row.schedule_pk], now)) is not None]
    settle(store, conn, now, changes, held, where=_IDLE)
    return {change.pk: change.reason or "" for change in changes}


def skip_blacked_out(store: Store, conn: Connection, now: int, pks: Sequence[int]) -> None:
    """Skip work that waited into a blackout that skips; the callers hold its schedules' rows."""
    if not pks:
        return
    rows = occurrences.rows(conn, store.tables, store.dialect, pks)
    held = schedules.lock(conn, store.tables, store.dialect, {row.schedule_pk for row in rows.values()})
    changes = [
        Change(
            row.pk, row.schedule_pk, row.series, row.active_slot, "skipped", row.run_at, row.elapsed, reason="blackout"
        )
        for row in rows.values()
    ]
    settle(store, conn, now, changes, held, where=_IDLE)


def _ended(row: Any, schedule: Any, now: int) -> Change | None:
    if row.state not in ("waiting", "ready", "retrying"):
        return None
    limits = failure.Limits(schedule.state, row.deadline, row.expires_at)
    then = failure.at_retry(now, limits)
    if not isinstance(then, failure.Final):
        return None
    begun = row.attempt > 0
    state = then.state if begun else "skipped"
    return Change(
        row.pk, row.schedule_pk, row.series, row.active_slot, state, row.run_at, row.elapsed, reason=then.reason,
        error_type=row.error_type, error=row.error, counted=state if begun else None,
    )  # fmt: skip
