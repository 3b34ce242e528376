"""The moves of schedules, as `policies/lifecycle.py` lists them, done to rows: one function for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sqlalchemy import Connection

from calsched.errors import MoveNotAllowed, PendingWork
from calsched.model import Cursor, SkipReason
from calsched.planner import pass_over
from calsched.policies import lifecycle
from calsched.stores.compiled import CompiledRevision
from calsched.stores.settle import Change, settle
from calsched.stores.tables import decisions, occurrences, ranges, schedules

if TYPE_CHECKING:
    from calsched.stores.engine import Store

#: What the slots that a move passes over are recorded as.
_PASSED: Mapping[str, SkipReason] = {
    "disable": "disabled",
    "enable": "disabled",
    "resume": "disabled",
    "retire": "disabled",
    "remove": "disabled",
    "cancel": "cancelled",
    "revise": "revised",
    "replace": "revised",
}
_IDLE_OR_CLAIMED = "state IN ('waiting', 'ready', 'claimed', 'retrying')"


class Control(NamedTuple):
    """Who moves it, when and why; evidence and nonce come from an approval."""

    now: int
    principal: str = decisions.AUTOMATIC
    note: str | None = None
    evidence: Any = None
    nonce: str | None = None


def allowed(row: Any, action: lifecycle.Action) -> lifecycle.Move:
    """The move that ``action`` makes of a schedule's row; raises MoveNotAllowed where there is none."""
    found = lifecycle.move(row.state, action, row.reason)
    if isinstance(found, lifecycle.Refusal):
        raise MoveNotAllowed(row.id, row.state, action, found.why)
    if found.work == "refuse" and row.open_count:
        raise PendingWork(row.id, row.open_count)
    return found


#: Where collecting goes on after the move: as the table of moves says; from the cursor that was kept; or from now.
Collect = Literal["asTold", "asHeld", "fromNow"]


def apply(
    store: Store,
    conn: Connection,
    row: Any,
    move: lifecycle.Move,
    control: Control,
    extra: Mapping[str, Any] | None = None,
    collect: Collect = "asTold",
) -> int:
    """Make a move; ``row`` is the whole row, locked. ``extra`` columns win. The new state version."""
    move = _told(move, collect)
    work_on_pending(store, conn, row, move, control)
    cursor = cursor_after(store, conn, row, move, control.now)
    values = _values(row, move, control) | _collecting(row, move, cursor) | dict(extra or {})
    if not schedules.change(conn, store.tables, row.pk, values, row.state_version):
        raise RuntimeError(f"{row.id!r} changed while its row was held")
    decide(store, conn, row, move.action, control, values["state"], values["state_version"])
    return int(values["state_version"])


def _told(move: lifecycle.Move, collect: Collect) -> lifecycle.Move:
    if collect == "asTold":
        return move
    return move._replace(due="passOver" if collect == "fromNow" else "keep")


def decide(
    store: Store, conn: Connection, row: Any, action: str, control: Control, to_state: str, version: int
) -> None:
    """The audit record of a control or an automatic move."""
    decisions.add(conn, store.tables, [decision(row, action, control, to_state, version)])


def decision(row: Any, action: str, control: Control, to_state: str, version: int) -> tuple[Any, ...]:
    """The same as a row."""
    return decisions.row(
        row.namespace, row.id, action, at=control.now, principal=control.principal, revision=row.revision,
        state_version=version, from_state=row.state, to_state=to_state, note=control.note, evidence=control.evidence,
        nonce=control.nonce,
    )  # fmt: skip


def _values(row: Any, move: lifecycle.Move, control: Control) -> dict[str, Any]:
    values: dict[str, Any] = {
        "state": move.target,
        "reason": move.reason if move.reason is not None or move.target != row.state else row.reason,
        "note": control.note,
        "changed_by": control.principal,
        "changed_at": control.now,
        "resume_at": None,
        "state_version": row.state_version + 1,
    }
    return values | cleared(move)


def cleared(move: lifecycle.Move) -> dict[str, Any]:
    """The columns that a move empties."""
    if move.clears_failures:
        return {"failures": 0, "last_failure": None, "attention": None}
    return {"attention": None} if move.clears_attention else {}


def _collecting(row: Any, move: lifecycle.Move, cursor: Cursor) -> dict[str, Any]:
    """The cursor goes into ``next_due`` while the schedule collects, aside into ``held_due`` while it does not."""
    values: dict[str, Any] = {
        "next_ordinal": cursor.next_ordinal,
        "last_due": cursor.last_due,
        "last_local": cursor.last_local,
    }
    if move.target == "enabled":
        values |= {"next_due": cursor.next_due, "look_at": cursor.next_due, "held_due": None}
        if cursor.next_due is None:
            values |= {"state": "ended", "reason": "exhausted"}
        return values
    return values | {"next_due": None, "look_at": None, "held_due": cursor.next_due}


def cursor_of(row: Any) -> Cursor:
    """The cursor of a schedule's row, whether it collects or not."""
    due = row.next_due if row.next_due is not None else row.held_due
    return Cursor(row.next_ordinal, due, row.last_due, row.last_local)


def cursor_after(store: Store, conn: Connection, row: Any, move: lifecycle.Move, now: int) -> Cursor:
    """The cursor after the move; what it passes over is written down as one range.

    A definition that cannot be loaded has no slots that could be counted: its cursor stays.
    """
    cursor = cursor_of(row)
    if move.due != "passOver" or row.state in ("ended", "cancelled"):
        return cursor
    found = store.compiled.get_many(conn, (row.revision_pk,)).get(row.revision_pk)
    if not isinstance(found, CompiledRevision):
        if move.target == "enabled":
            problem = found.problem if found is not None else "its revision is gone"
            raise MoveNotAllowed(row.id, row.state, move.action, f"its definition cannot be used: {problem}")
        return cursor
    passed, after = pass_over(found.definition, found.trigger, cursor, now, _PASSED[move.action])
    if passed is not None:
        write_range(store, conn, row, passed, now)
    return after


def write_range(store: Store, conn: Connection, row: Any, passed: Any, now: int) -> None:
    """An uncounted range; it extends the one before it where that says the same."""
    before = ranges.at_cursor(conn, store.tables, store.dialect, (row.pk,)).get(row.pk)
    if before is not None and before.reason == passed.reason and passed.first == row.next_ordinal:
        ranges.extend(conn, store.tables, [(passed.last, passed.last_due, before.pk)])
    else:
        ranges.add(conn, store.tables, [ranges.row(row.pk, row.revision_pk, passed, None, now)])


# --- pending work -----------------------------------------------------------------------------------------------------


def work_on_pending(store: Store, conn: Connection, row: Any, move: lifecycle.Move, control: Control) -> None:
    if move.work in ("keep", "refuse") or not row.open_count:
        return
    if move.work == "hold":
        occurrences.take_back(conn, store.tables, store.dialect, occurrences.claimed_of(conn, store.tables, row.pk))
    elif move.work == "skip":
        end_idle(store, conn, row, control, "skipped", "disabled")
    elif move.action == "cancel":  # a host's ready tasks stay
        end_idle(store, conn, row, control, "cancelled", "cancelled", stop=True, host=False)
    else:
        end_idle(store, conn, row, control, "cancelled", "removed")


def cancel_pending(store: Store, conn: Connection, row: Any, control: Control, reason: str) -> None:
    """Cancel what has not started and ask what runs to stop, because its revision is about to go."""
    end_idle(store, conn, row, control, "cancelled", reason, stop=True)


def end_idle(
    store: Store, conn: Connection, row: Any, control: Control, state: str, reason: str,
    *, stop: bool = False, series: str = "", host: bool = True,
) -> int:  # fmt: skip
    """End what has not started, and what waits to retry; how many. A retry that is skipped has failed already.

    With ``stop`` what runs is asked to stop. ``series``: work of that one only; without ``host`` ready tasks stay.
    """
    t = store.tables
    ended = occurrences.end_waiting(conn, t, row.pk, state, reason, control.now, series=series, host=host)
    if ended:
        schedules.change(conn, t, row.pk, {"open_count": row.open_count - ended})
        row = schedules.by_pk(conn, t, row.pk)
    heads = occurrences.heads_of(conn, t, row.pk)
    concerned = [o for o in heads if (not series or o.series == series) and (host or o.executor != "")]
    if stop:
        occurrences.ask_to_stop(conn, t, store.dialect, [o.pk for o in concerned if o.state == "running"])
    changes = [
        Change(
            o.pk, row.pk, o.series, o.active_slot, "failed" if state == "skipped" and o.attempt else state, o.run_at,
            o.elapsed, reason=reason, error_type=o.error_type, error=o.error,
        )
        for o in concerned
        if o.state != "running"
    ]  # fmt: skip
    settle(store, conn, control.now, changes, {row.pk: row}, where=_IDLE_OR_CLAIMED)
    return ended + len(changes)
