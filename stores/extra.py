"""Runs besides the slots, and slots that are not to run: extra runs, backfills, skips.

An extra run has a series and ordinals of its own, so it never collides with a slot's verdict. A manual one queues with
the slots; a backfill has active slots of its own, below zero, and neither blocks nor is blocked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack

from sqlalchemy import Connection

from calsched.clock import LAST_INSTANT, to_rfc3339
from calsched.errors import InvalidInput, MoveNotAllowed, Problem, Refused
from calsched.model import digest
from calsched.stores import moves, wake
from calsched.stores.compiled import CompiledRevision
from calsched.stores.control import Ask, by, locked, view
from calsched.stores.settle import Change, settle, width
from calsched.stores.tables import backfill as backfill_rows
from calsched.stores.tables import occurrences, revisions, schedules, skips
from calsched.stores.views import ScheduleView

if TYPE_CHECKING:
    from calsched.stores.engine import Store

#: Occurrences that one backfill may create.
MAX_BACKFILL = 10_000
Only = Literal["all", "missing", "failed"]


# --- extra runs -------------------------------------------------------------------------------------------------------


def run_extra(
    store: Store, conn: Connection, namespace: str, schedule_id: str, **ask: Unpack[Ask]
) -> tuple[ScheduleView, int]:
    """An extra occurrence now, behind whatever waits; the schedule and the occurrence's key in the database."""
    row = locked(store, conn, namespace, schedule_id, ask)
    refuse_extra(row)
    compiled = store.compiled.get(conn, row.revision_pk)
    free = _free_heads(store, conn, row, compiled)
    ordinal = occurrences.last_ordinal(conn, store.tables, row.revision_pk, "manual") + 1
    control = by(store, conn, row, ask, "run", evidence={"series": "manual", "ordinal": str(ordinal)})
    head = min(free) if free else None
    made = _row(row, compiled, "manual", ordinal, control.now, control.now, head)
    occurrences.add(conn, store.tables, [made])
    version = _opened(store, conn, row, 1)
    moves.decide(store, conn, row, "run", control, row.state, version)
    wake.notify(store, conn)
    return view(store, conn, row.pk), occurrences.key_of(conn, store.tables, row.revision_pk, "manual", ordinal)


def refuse_extra(row: Any) -> None:
    """Extra runs start where the schedule's own would."""
    hints = {"paused": "resume or enable it first", "disabled": "enable it first", "cancelled": "revise it first"}
    if row.state in hints:
        raise MoveNotAllowed(row.id, row.state, "run", f"nothing of it would start; {hints[row.state]}")


def _free_heads(store: Store, conn: Connection, row: Any, compiled: CompiledRevision) -> set[int]:
    """Active slots that are free and not owed to something that waits already."""
    if not row.open_count:
        return set(range(width(compiled.definition)))
    counted = occurrences.counts(conn, store.tables, store.dialect, (row.pk,))
    if any(state == "waiting" and count for _, state, count in counted):
        return set()
    taken = {slot for _, slot in occurrences.heads(conn, store.tables, store.dialect, (row.pk,))}
    return set(range(width(compiled.definition))) - taken


def _row(
    row: Any, compiled: CompiledRevision, series: str, ordinal: int, due: int, now: int, slot: int | None
) -> tuple[Any, ...]:
    d = compiled.definition
    executor = d.task.executor if d.task.kind == "python" else ""
    deadline = None if d.deadline is None or series == "backfill" else due + d.deadline
    state = "waiting" if slot is None else "ready"
    return (
        row.pk, row.revision_pk, series, ordinal, due, None, now, state, executor, d.expires_at, deadline, slot,
        ordinal, ordinal, due, now,
    )  # fmt: skip


def _opened(store: Store, conn: Connection, row: Any, count: int) -> int:
    version: int = row.state_version + 1
    values = {"open_count": row.open_count + count, "state_version": version}
    schedules.change(conn, store.tables, row.pk, values)
    return version


# --- backfill ---------------------------------------------------------------------------------------------------------


class Candidate(NamedTuple):
    """A past due instant that a backfill would run."""

    due: int
    ordinal: int | None
    verdict: str | None  # what its slot ended as; None: this revision never judged it


def backfill_candidates(
    store: Store,
    conn: Connection,
    namespace: str,
    schedule_id: str,
    first: int,
    last: int,
    *,
    only: Only = "all",
    limit: int = MAX_BACKFILL,
) -> list[Candidate]:
    """The due instants of the live revision's rule in ``[first, last]`` that fit, oldest first; writes nothing.

    ``missing``: those without a run that succeeded, failed or is still open. ``failed``: those whose run failed, timed
    out or was interrupted. Raises Refused below the watermark of pruned history, InvalidInput past ``limit``.
    """
    row = locked(store, conn, namespace, schedule_id, Ask(now=0, principal=""))
    compiled = store.compiled.get(conn, row.revision_pk)
    last = min(last, store.now(conn))
    count = compiled.trigger.count(first, last) if first <= last else 0
    if count > limit:
        raise InvalidInput([Problem(f"expected at most {limit} due instants, got {count}", "from")])
    _refuse_pruned(store, conn, row, first)
    known = backfill_rows.verdicts(conn, store.tables, row.revision_pk, first, last)
    dues = list(compiled.trigger.between(first, last)) if count else []
    return [found for due in dues if (found := _candidate(due, known, only)) is not None]


def _candidate(due: int, known: dict[int, tuple[int, str]], only: Only) -> Candidate | None:
    ordinal, verdict = known.get(due, (None, None))
    if only == "missing" and verdict is not None and verdict not in ("skipped", "cancelled"):
        return None
    if only == "failed" and verdict not in ("failed", "timed_out", "interrupted"):
        return None
    return Candidate(due, ordinal, verdict)


def _refuse_pruned(store: Store, conn: Connection, row: Any, first: int) -> None:
    revision = revisions.by_pk(conn, store.tables, row.revision_pk)
    if not revision.pruned_before:
        return
    oldest = backfill_rows.oldest_kept(conn, store.tables, row.revision_pk)
    if oldest is None or first < oldest:
        since = to_rfc3339(oldest) if oldest is not None else "now"
        raise Refused(f"the history of {row.id!r} before {since} has been pruned: what ran there is not known any more")


def backfill(
    store: Store,
    conn: Connection,
    namespace: str,
    schedule_id: str,
    dues: Sequence[int],
    *,
    max_concurrent: int = 1,
    newest_first: bool = False,
    **ask: Unpack[Ask],
) -> tuple[ScheduleView, int]:
    """Occurrences for past due instants of the live revision, ``max_concurrent`` at once; how many were made.

    Raises InvalidInput for an instant that is no slot, or is not past.
    """
    row = locked(store, conn, namespace, schedule_id, ask)
    refuse_extra(row)
    compiled = store.compiled.get(conn, row.revision_pk)
    _refuse_bad_dues(compiled, dues, ask["now"], max_concurrent)
    ordered = sorted(dues, reverse=newest_first)
    start = occurrences.last_ordinal(conn, store.tables, row.revision_pk, "backfill") + 1
    heads = _own_slots(store, conn, row, max_concurrent)
    made = [
        _row(row, compiled, "backfill", start + index, due, ask["now"], heads[index] if index < len(heads) else None)
        for index, due in enumerate(ordered)
    ]
    evidence = {"series": "backfill", "count": len(made), "maxConcurrent": max_concurrent}
    arguments = {"dues": digest(ordered), "maxConcurrent": max_concurrent}
    control = by(store, conn, row, ask, "backfill", arguments=arguments, evidence=evidence)
    occurrences.add(conn, store.tables, made)
    version = _opened(store, conn, row, len(made))
    moves.decide(store, conn, row, "backfill", control, row.state, version)
    wake.notify(store, conn)
    return view(store, conn, row.pk), len(made)


def _refuse_bad_dues(compiled: CompiledRevision, dues: Iterable[int], now: int, max_concurrent: int) -> None:
    problems = [] if max_concurrent >= 1 else [Problem(f"expected 1 or more, got {max_concurrent}", "maxConcurrent")]
    for index, due in enumerate(dues):
        if due > now:
            problems.append(Problem(f"{to_rfc3339(due)} is not past", f"dues[{index}]"))
        elif not compiled.trigger.count(due, due):
            problems.append(Problem(f"{to_rfc3339(due)} is not a due instant of the rule", f"dues[{index}]"))
    if problems:
        raise InvalidInput(problems)


def _own_slots(store: Store, conn: Connection, row: Any, count: int) -> list[int]:
    """Active slots below zero that no other backfill of the schedule holds."""
    taken = {slot for _, slot in occurrences.heads(conn, store.tables, store.dialect, (row.pk,)) if slot < 0}
    lowest = min(taken, default=0)
    return [lowest - 1 - index for index in range(count)]


def hold_backfill(
    store: Store, conn: Connection, namespace: str, schedule_id: str, *, hold: bool, **ask: Unpack[Ask]
) -> int:
    """Pause the backfills of a schedule, or let them go on; how many occurrences that concerns."""
    row = locked(store, conn, namespace, schedule_id, ask)
    control = by(store, conn, row, ask, "holdBackfill" if hold else "goOnBackfill")
    idle = [o for o in _backfills(store, conn, row) if o.state in ("waiting", "ready", "retrying")]
    at = LAST_INSTANT if hold else ask["now"]
    backfill_rows.set_run_at(conn, store.tables, [(at, o.pk) for o in idle])
    moves.decide(store, conn, row, "holdBackfill" if hold else "goOnBackfill", control, row.state, row.state_version)
    wake.notify(store, conn)
    return len(idle)


def cancel_backfill(store: Store, conn: Connection, namespace: str, schedule_id: str, **ask: Unpack[Ask]) -> int:
    """Cancel what a schedule's backfills have not started yet, and ask what runs to stop; how many were cancelled."""
    row = locked(store, conn, namespace, schedule_id, ask)
    control = by(store, conn, row, ask, "cancelBackfill")
    found = _backfills(store, conn, row)
    running = [o.pk for o in found if o.state == "running"]
    occurrences.ask_to_stop(conn, store.tables, store.dialect, running)
    changes = [
        Change(o.pk, row.pk, o.series, o.active_slot, "cancelled", o.run_at, o.elapsed, reason="cancelled")
        for o in found
        if o.state != "running"
    ]
    idle = "state IN ('waiting', 'ready', 'claimed', 'retrying')"
    settle(store, conn, control.now, changes, {row.pk: row}, where=idle)
    moves.decide(store, conn, row, "cancelBackfill", control, row.state, row.state_version)
    return len(changes)


def _backfills(store: Store, conn: Connection, row: Any) -> list[Any]:
    found = occurrences.open_of(conn, store.tables, store.dialect, (row.pk,))
    return [o for o in found if o.series == "backfill"]


# --- skips ------------------------------------------------------------------------------------------------------------


def skip(
    store: Store, conn: Connection, namespace: str, schedule_id: str, dues: Sequence[int], **ask: Unpack[Ask]
) -> ScheduleView:
    """Slots that are not to run; each becomes a verdict when its time comes.

    Raises InvalidInput for instants that are no slots, or that have been judged.
    """
    row = locked(store, conn, namespace, schedule_id, ask)
    compiled = store.compiled.get(conn, row.revision_pk)
    known = {skip.due for skip in skips.of(conn, store.tables, store.dialect, (row.pk,)).get(row.pk, [])}
    _refuse_unskippable(row, compiled, dues)
    told = {"dues": [to_rfc3339(due) for due in dues]}
    control = by(store, conn, row, ask, "skip", arguments=told, evidence=told)
    fresh = sorted(set(dues) - known)
    values = {"schedule_pk": row.pk, "note": control.note, "principal": control.principal, "created_at": control.now}
    skips.add(conn, store.tables, [values | {"due": due} for due in fresh])
    return _skips_changed(store, conn, row, control, "skip", row.skip_count + len(fresh))


def skip_next(store: Store, conn: Connection, namespace: str, schedule_id: str, **ask: Unpack[Ask]) -> ScheduleView:
    """Skip the next slot that is not skipped already. Raises Refused where there is none."""
    row = locked(store, conn, namespace, schedule_id, ask)
    trigger = store.compiled.get(conn, row.revision_pk).trigger
    known = {one.due for one in skips.of(conn, store.tables, store.dialect, (row.pk,)).get(row.pk, [])}
    due = moves.cursor_of(row).next_due
    while due is not None and due in known:
        due = trigger.next_after(due)
    if due is None:
        raise Refused(f"{row.id!r} has no further slot to skip")
    return skip(store, conn, namespace, schedule_id, [due], **ask)


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


def _refuse_unskippable(row: Any, compiled: CompiledRevision, dues: Sequence[int]) -> None:
    problems = []
    for index, due in enumerate(dues):
        if row.last_due is not None and due <= row.last_due:
            problems.append(Problem(f"{to_rfc3339(due)} has been judged already", f"dues[{index}]"))
        elif not compiled.trigger.count(due, due):
            why = compiled.trigger.explain(due) or "the rule yields none there"
            problems.append(Problem(f"{to_rfc3339(due)} is not a due instant: {why}", f"dues[{index}]"))
    if problems or not dues:
        raise InvalidInput(problems or "expected at least one due instant")


def _skips_changed(
    store: Store, conn: Connection, row: Any, control: moves.Control, action: str, count: int
) -> ScheduleView:
    version = row.state_version + 1
    schedules.change(conn, store.tables, row.pk, {"skip_count": count, "state_version": version})
    moves.decide(store, conn, row, action, control, row.state, version)
    return view(store, conn, row.pk)
