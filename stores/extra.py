"""Runs besides the slots, and slots that are not to run: extra runs, skips. (Backfills: ``backfill.py``.)

An extra run has a series and ordinals of its own, so it never collides with a slot's verdict; it queues with the slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from sqlalchemy import Connection

from calsched.clock import to_rfc3339
from calsched.errors import InvalidInput, MoveNotAllowed, Problem, Refused
from calsched.stores import moves, wake
from calsched.stores.compiled import CompiledRevision
from calsched.stores.control import Ask, by, locked, view
from calsched.stores.settle import width
from calsched.stores.tables import occurrences, revisions, schedules, skips
from calsched.stores.views import ScheduleView

if TYPE_CHECKING:
    from calsched.stores.engine import Store


# --- extra runs -------------------------------------------------------------------------------------------------------


def run_extra(
    store: Store, conn: Connection, namespace: str, schedule_id: str, **ask: Unpack[Ask]
) -> tuple[ScheduleView, int]:
    """An extra occurrence now, behind whatever waits; the schedule and the occurrence's key in the database."""
    row = locked(store, conn, namespace, schedule_id, ask)
    refuse_extra(row, "run")
    compiled = store.compiled.get(conn, row.revision_pk)
    free = _free_heads(store, conn, row, compiled)
    ordinal = occurrences.last_ordinal(conn, store.tables, row.revision_pk, "manual") + 1
    control = by(store, conn, row, ask, "run", evidence={"series": "manual", "ordinal": str(ordinal)})
    head = min(free) if free else None
    made = row_of(row, compiled, "manual", ordinal, control.now, control.now, head)
    occurrences.add(conn, store.tables, [made])
    version = opened(store, conn, row, 1)
    moves.decide(store, conn, row, "run", control, row.state, version)
    wake.notify(store, conn)
    return view(store, conn, row.pk), occurrences.key_of(conn, store.tables, row.revision_pk, "manual", ordinal)


def refuse_extra(row: Any, action: str) -> None:
    """Extra runs start where the schedule's own would."""
    hints = {"paused": "resume or enable it first", "disabled": "enable it first", "cancelled": "update it first"}
    if row.state in hints:
        raise MoveNotAllowed(row.id, row.state, action, f"nothing of it would start; {hints[row.state]}")


def _free_heads(store: Store, conn: Connection, row: Any, compiled: CompiledRevision) -> set[int]:
    """Active slots that are free and not owed to something that waits already."""
    if not row.open_count:
        return set(range(width(compiled.definition)))
    counted = occurrences.counts(conn, store.tables, store.dialect, (row.pk,))
    if any(state == "waiting" and count for _, state, count in counted):
        return set()
    taken = {slot for _, slot in occurrences.heads(conn, store.tables, store.dialect, (row.pk,))}
    return set(range(width(compiled.definition))) - taken


def row_of(
    row: Any,
    compiled: CompiledRevision,
    series: str,
    ordinal: int,
    due: int,
    now: int,
    slot: int | None,
    *,
    run_at: int | None = None,
) -> tuple[Any, ...]:
    """An occurrence of a series of its own, to be written: ready in an active slot, or waiting."""
    d = compiled.definition
    executor = d.task.executor if d.task.kind == "python" else ""
    deadline = None if d.deadline is None or series == "backfill" else due + d.deadline
    state = "waiting" if slot is None else "ready"
    return (
        row.pk, row.revision_pk, series, ordinal, due, None, run_at or now, state, executor, d.expires_at, deadline,
        slot, ordinal, ordinal, due, now,
    )  # fmt: skip


def opened(store: Store, conn: Connection, row: Any, count: int) -> int:
    """So many occurrences more are open; the new state version."""
    version: int = row.state_version + 1
    values = {"open_count": row.open_count + count, "state_version": version}
    schedules.change(conn, store.tables, row.pk, values)
    return version


# --- skips ------------------------------------------------------------------------------------------------------------


def skip(
    store: Store, conn: Connection, namespace: str, schedule_id: str, dues: Sequence[int], **ask: Unpack[Ask]
) -> ScheduleView:
    """Slots that are not to run; each becomes a verdict when its time comes.

    Raises InvalidInput for instants that are no slots, or that have been judged.
    """
    row = locked(store, conn, namespace, schedule_id, ask)
    _refuse_over(row)
    _refuse_unskippable(store, conn, row, store.compiled.get(conn, row.revision_pk), dues)
    return _add_skips(store, conn, row, dues, _skipped(store, conn, row), ask)


def _skipped(store: Store, conn: Connection, row: Any) -> set[int]:
    return {one.due for one in skips.of(conn, store.tables, store.dialect, (row.pk,)).get(row.pk, [])}


def _add_skips(
    store: Store, conn: Connection, row: Any, dues: Sequence[int], known: set[int], ask: Ask
) -> ScheduleView:
    told = {"dues": [to_rfc3339(due) for due in dues]}
    control = by(store, conn, row, ask, "skip", arguments=told, evidence=told)
    fresh = sorted(set(dues) - known)
    values = {"schedule_pk": row.pk, "note": control.note, "principal": control.principal, "created_at": control.now}
    skips.add(conn, store.tables, [values | {"due": due} for due in fresh])
    return _skips_changed(store, conn, row, control, "skip", row.skip_count + len(fresh))


def skip_next(
    store: Store, conn: Connection, namespace: str, schedule_id: str, **ask: Unpack[Ask]
) -> tuple[ScheduleView, int]:
    """Skip the next slot that is not skipped already; the schedule, and that slot. Raises Refused where there is none.

    Chosen and written from one reading of the locked row: nobody can skip or judge it in between.
    """
    row = locked(store, conn, namespace, schedule_id, ask)
    _refuse_over(row)
    if row.state == "disabled" or row.reason in ("failures", "invalid"):
        hint = "enable it first, or name the instant (`calsched skip`)"
        raise MoveNotAllowed(row.id, row.state, "skip-next", f"nothing of it is due next; {hint}")
    trigger = store.compiled.get(conn, row.revision_pk).trigger
    known = _skipped(store, conn, row)
    due = moves.cursor_of(row).next_due
    while due is not None and due in known:
        due = trigger.next_after(due)
    if due is None:
        raise Refused(f"{row.id!r} has no further slot to skip")
    return _add_skips(store, conn, row, [due], known, ask), due


def unskip(
    store: Store, conn: Connection, namespace: str, schedule_id: str, due: int, **ask: Unpack[Ask]
) -> ScheduleView:
    """Take a skip back. Raises Refused where there is none."""
    row = locked(store, conn, namespace, schedule_id, ask)
    left = skips.drop(conn, store.tables, row.pk, due=due)
    if left == row.skip_count:
        raise Refused(f"{row.id!r} has no skip at {to_rfc3339(due)}; `calsched show {row.id}` lists them")
    told = {"dues": [to_rfc3339(due)]}
    control = by(store, conn, row, ask, "unskip", arguments=told, evidence=told)
    return _skips_changed(store, conn, row, control, "unskip", left)


def _refuse_over(row: Any) -> None:
    if row.state in ("ended", "cancelled"):
        raise MoveNotAllowed(row.id, row.state, "skip", "its revision yields nothing more that could be skipped")


def _refuse_unskippable(
    store: Store, conn: Connection, row: Any, compiled: CompiledRevision, dues: Sequence[int]
) -> None:
    problems = []
    first = revisions.by_pk(conn, store.tables, row.revision_pk).first_due
    for index, due in enumerate(dues):
        if not compiled.trigger.count(due, due):
            why = compiled.trigger.explain(due) or "the rule yields none there"
            problems.append(Problem(f"{to_rfc3339(due)} is not a due instant: {why}", f"dues[{index}]"))
        elif first is not None and due < first:
            began = f"revision {row.revision} begins with {to_rfc3339(first)}"
            problems.append(Problem(f"{to_rfc3339(due)} lies too early: {began}", f"dues[{index}]"))
        elif row.last_due is not None and due <= row.last_due:
            problems.append(Problem(f"{to_rfc3339(due)} has been judged already", f"dues[{index}]"))
    if problems or not dues:
        raise InvalidInput(problems or "expected at least one due instant")


def _skips_changed(
    store: Store, conn: Connection, row: Any, control: moves.Control, action: str, count: int
) -> ScheduleView:
    version = row.state_version + 1
    schedules.change(conn, store.tables, row.pk, {"skip_count": count, "state_version": version})
    moves.decide(store, conn, row, action, control, row.state, version)
    return view(store, conn, row.pk)
