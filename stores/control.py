"""Controls: what people and programs do to schedules. Each is one decision, and returns what is there then.

Every control takes the same keywords (``Ask``): ``now`` and ``principal``, and optionally a ``note``, the revision and
state version that the caller saw (``StaleVersion`` where they are not the present ones), and an approval. They work in
the caller's transaction; a refused control has written nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack

from sqlalchemy import Connection

from calsched.approval import Ref
from calsched.errors import AlreadyExists, MoveNotAllowed, PendingWork
from calsched.model import Cursor, Definition
from calsched.planner import first_cursor
from calsched.policies import lifecycle
from calsched.stores import moves, rows, wake
from calsched.stores.asking import Approved as Approved
from calsched.stores.asking import Ask as Ask
from calsched.stores.asking import by as by
from calsched.stores.asking import locked as locked
from calsched.stores.asking import view as view
from calsched.stores.settle import fill
from calsched.stores.tables import decisions, occurrences, revisions, schedules, whole
from calsched.stores.views import ScheduleView

if TYPE_CHECKING:
    from calsched.stores.engine import Store
    from calsched.triggers.base import Trigger


# --- create -----------------------------------------------------------------------------------------------------------


def create(
    store: Store,
    conn: Connection,
    definition: Definition,
    *,
    enabled: bool = True,
    paused: bool = False,
    revision: int | None = None,
    start_at: int | None = None,
    **ask: Unpack[Ask],
) -> ScheduleView:
    """A new schedule, or the existing one untouched where it has the same material.

    ``revision`` states the number that is expected: 1 for a new id, or the next one of a cancelled schedule (seed 000).
    ``start_at`` puts the cursor at the first slot at or after an instant instead of now. Raises AlreadyExists for other
    material, and for a revision that is not the next one.
    """
    row = schedules.by_id(conn, store.tables, definition.namespace, definition.id, locking=True)
    if row is not None:
        return _existing(store, conn, row, definition, revision, start_at, ask)
    number = decisions.newest_number(conn, store.tables, definition.namespace, definition.id) + 1
    if revision is not None and revision != number:
        raise AlreadyExists(f"{definition.id!r} would become revision {number}, not {revision}")
    pk = _add(store, conn, definition, number, enabled, paused, start_at, ask)
    wake.notify(store, conn)
    return view(store, conn, pk, created=True)


def _existing(
    store: Store,
    conn: Connection,
    row: Any,
    definition: Definition,
    number: int | None,
    start_at: int | None,
    ask: Ask,
) -> ScheduleView:
    same = revisions.one(conn, store.tables, row.pk, number if number is not None else row.revision)
    if same is not None and same.digest == definition.digest():
        return view(store, conn, row.pk)
    if same is not None:
        raise AlreadyExists(
            f"{row.id!r} has a revision {same.number} with other material; revise it (`calsched update`) instead"
        )
    if number == row.revision + 1 and row.state == "cancelled":
        return _update(store, conn, definition, "wait", False, start_at, False, "create", ask)
    why = (
        f"revision {row.revision} is {row.state}: cancel it first"
        if number == row.revision + 1
        else (f"the next one is revision {row.revision + 1}")
    )
    raise AlreadyExists(f"{row.id!r} cannot get revision {number}: {why}")


def _add(
    store: Store,
    conn: Connection,
    d: Definition,
    number: int,
    enabled: bool,
    paused: bool,
    start_at: int | None,
    ask: Ask,
) -> int:
    now = ask["now"]
    arguments = {"disabled": not enabled, "paused": paused, "startAt": start_at}
    ref = Ref(d.namespace, d.id)
    control = by(store, conn, None, ask, "create", ref=ref, arguments=arguments, definition=d.material())
    trigger = trigger_of(store, conn, d)
    cursor = start_cursor(d, trigger, now, start_at=start_at)
    state, reason = _initial(cursor, enabled, paused)
    values = standing(cursor, state) | {
        "namespace": d.namespace,
        "id": d.id,
        "reason": reason,
        "note": control.note,
        "changed_by": control.principal,
        "changed_at": now,
        "revision": number,
        "revision_pk": 0,
        "zoned": trigger.zone is not None,
        "owner": d.owner,
        "created_at": now,
    }
    pk = schedules.add(conn, store.tables, values)
    revision_pk = add_revision(store, conn, pk, d, number, cursor, control)
    schedules.change(conn, store.tables, pk, {"revision_pk": revision_pk})
    action = "create" if state != "disabled" else "createDisabled"
    made = decisions.row(
        d.namespace, d.id, action, at=now, principal=control.principal, revision=number, state_version=1,
        from_state="absent", to_state=state, note=control.note, evidence=_proof(control, d), nonce=control.nonce,
    )  # fmt: skip
    decisions.add(conn, store.tables, [made])
    return pk


def _proof(control: moves.Control, d: Definition) -> dict[str, Any]:
    return {"digest": d.digest()} | (control.evidence or {})


def trigger_of(store: Store, conn: Connection, d: Definition) -> Trigger:
    """Raises TriggerInvalid; the runtime's own check of the definition has passed before."""
    known = store.compiled.calendars(conn, d.calendars) if d.calendars else None
    return store.compiled.build(d, known)


def start_cursor(
    d: Definition, trigger: Trigger, now: int, *, start_at: int | None = None, after: int | None = None
) -> Cursor:
    cursor = first_cursor(d, trigger, now if start_at is None else start_at, after=after)
    return cursor


def _initial(cursor: Cursor, enabled: bool, paused: bool) -> tuple[str, str | None]:
    if not enabled:
        return "disabled", "operator"
    if paused:
        return "paused", "operator"
    return ("enabled", None) if cursor.next_due is not None else ("ended", "exhausted")


def standing(cursor: Cursor, state: str) -> dict[str, Any]:
    """The columns of a fresh revision's cursor."""
    collecting = cursor.next_due if state == "enabled" else None
    return {
        "state": state,
        "next_ordinal": cursor.next_ordinal,
        "next_due": collecting,
        "look_at": collecting,
        "held_due": None if state == "enabled" else cursor.next_due,
        "used": 0,
    }


def add_revision(
    store: Store, conn: Connection, pk: int, d: Definition, number: int, cursor: Cursor, control: moves.Control
) -> int:
    values = {
        "schedule_pk": pk,
        "number": number,
        "definition": rows.definition_text(d),
        "digest": d.digest(),
        "created_at": control.now,
        "created_by": control.principal,
        "tzdata": store.tzdata,
        "first_due": cursor.next_due,
    }
    return revisions.add(conn, store.tables, values)


# --- a new revision ---------------------------------------------------------------------------------------------------

Mode = Literal["wait", "carry"]
#: What may change without a new revision: nothing that is due depends on it.
_WORDS = ("description", "owner")


def update(
    store: Store,
    conn: Connection,
    definition: Definition,
    *,
    mode: Mode = "wait",
    cancel_pending: bool = False,
    start_at: int | None = None,
    keep_budget: bool = False,
    **ask: Unpack[Ask],
) -> ScheduleView:
    """Give a schedule a new revision, whose first slot is after everything that was judged.

    ``wait``: an operator's update. It reactivates, with a fresh budget, and is refused while work is pending, unless
    ``cancel_pending``; where the schedule stands afresh already, the same material changes nothing.
    ``carry``: what apply and APScheduler do. Pending work finishes pinned to its revision, state and overlap carry
    over; unchanged material changes nothing, and other words alone make no new revision.
    """
    return _update(store, conn, definition, mode, cancel_pending, start_at, keep_budget, "update", ask)


def _update(
    store: Store,
    conn: Connection,
    definition: Definition,
    mode: Mode,
    cancel_pending: bool,
    start_at: int | None,
    keep_budget: bool,
    asked: str,
    ask: Ask,
) -> ScheduleView:
    row = locked(store, conn, definition.namespace, definition.id, ask)
    afresh = asked == "update" and start_at is None and _stands_afresh(row, cancel_pending)
    if mode == "carry" or afresh:
        before = rows.definition_of(revisions.by_pk(conn, store.tables, row.revision_pk).definition)
        if before == definition:
            return view(store, conn, row.pk)
        if mode == "carry" and _same_but_words(before, definition):
            return _reword(store, conn, row, definition, ask)
    carry = mode == "carry"
    control = by(
        store, conn, row, ask, asked, definition=definition.material(), evidence={"digest": definition.digest()},
        arguments={"carry": carry, "cancelPending": cancel_pending, "startAt": start_at, "keepBudget": keep_budget},
    )  # fmt: skip
    move = _revising(store, conn, row, mode, cancel_pending, control, asked)
    row = schedules.by_pk(conn, store.tables, row.pk)
    _replace(store, conn, row, definition, move, control, start_at, keep_budget)
    wake.notify(store, conn)
    return view(store, conn, row.pk)


revise = update


def _stands_afresh(row: Any, cancel_pending: bool) -> bool:
    """Whether a new revision of the same material would give nothing: it is enabled, with nothing used of its budget,
    no failures counted, nobody's attention asked for, and no pending work that the update is to cancel."""
    untouched = not row.used and not row.failures and row.attention is None
    return bool(row.state == "enabled" and untouched and not (cancel_pending and row.open_count))


def _same_but_words(before: Definition, after: Definition) -> bool:
    a, b = before.material(), after.material()
    return {k: v for k, v in a.items() if k not in _WORDS} == {k: v for k, v in b.items() if k not in _WORDS}


def _reword(store: Store, conn: Connection, row: Any, d: Definition, ask: Ask) -> ScheduleView:
    arguments, evidence = {"carry": True}, {"digest": d.digest()}
    control = by(store, conn, row, ask, "update", definition=d.material(), evidence=evidence, arguments=arguments)
    version = row.state_version + 1
    text = {"definition": rows.definition_text(d), "digest": d.digest()}
    revisions.change(conn, store.tables, row.revision_pk, text)
    schedules.change(conn, store.tables, row.pk, {"owner": d.owner, "state_version": version})
    store.compiled.forget()
    moves.decide(store, conn, row, "reword", control, row.state, version)
    return view(store, conn, row.pk)


_CANCEL_WITH_IT = "cancel what is pending with the update (`--cancel-pending`)"


def _revising(
    store: Store,
    conn: Connection,
    row: Any,
    mode: Mode,
    cancel_pending: bool,
    control: moves.Control,
    asked: str,
) -> lifecycle.Move:
    hosts_keep = asked == "create"  # what a cancelled revision has emitted for hosts stays intact (seed 000)
    action: lifecycle.Action = "revise" if mode == "wait" else "replace"
    found = lifecycle.move(row.state, action, row.reason)
    if isinstance(found, lifecycle.Refusal):
        raise MoveNotAllowed(row.id, row.state, action, found.why)
    in_the_way = row.open_count and (not hosts_keep or occurrences.has_own(conn, store.tables, row.pk))
    if found.work == "refuse" and in_the_way:
        if not cancel_pending:
            raise PendingWork(row.id, row.open_count, _CANCEL_WITH_IT if asked == "update" else "")
        moves.cancel_pending(store, conn, row, control, "revised")
    return found


def _replace(
    store: Store,
    conn: Connection,
    row: Any,
    d: Definition,
    move: lifecycle.Move,
    control: moves.Control,
    start_at: int | None,
    keep_budget: bool,
) -> None:
    trigger = trigger_of(store, conn, d)
    old = moves.cursor_after(store, conn, row, move, control.now)
    revisions.change(conn, store.tables, row.revision_pk, {"final_ordinal": old.next_ordinal, "final_state": row.state})
    cursor = start_cursor(d, trigger, control.now, start_at=start_at, after=old.last_due)
    number = row.revision + 1
    revision_pk = add_revision(store, conn, row.pk, d, number, cursor, control)
    state = move.target if move.target != "enabled" or cursor.next_due is not None else "ended"
    values = standing(cursor, state) | {
        "reason": "exhausted" if state == "ended" else row.reason if state == row.state else move.reason,
        "revision": number,
        "revision_pk": revision_pk,
        "zoned": trigger.zone is not None,
        "owner": d.owner,
        "last_due": old.last_due,
        "last_local": old.last_local,
        "resume_at": row.resume_at if state == "paused" else None,
        "state_version": row.state_version + 1,
    }
    if keep_budget:
        values["used"] = row.used
    if state not in ("paused", "disabled"):  # who paused it, and why, is still true
        values |= {"note": control.note, "changed_by": control.principal, "changed_at": control.now}
    schedules.change(conn, store.tables, row.pk, values | moves.cleared(move))
    made = decisions.row(
        row.namespace, row.id, move.action, at=control.now, principal=control.principal, revision=number,
        state_version=row.state_version + 1, from_state=row.state, to_state=state, note=control.note,
        evidence=control.evidence, nonce=control.nonce,
    )  # fmt: skip
    decisions.add(conn, store.tables, [made])
    if row.open_count:
        fill(store, conn, row.pk, schedules.by_pk(conn, store.tables, row.pk), d)


# --- moves ------------------------------------------------------------------------------------------------------------


def _move(
    store: Store,
    conn: Connection,
    namespace: str,
    schedule_id: str,
    action: lifecycle.Action,
    ask: Ask,
    *,
    extra: dict[str, Any] | None = None,
    evidence: Any = None,
    arguments: Mapping[str, Any] | None = None,
    collect: moves.Collect = "asTold",
) -> ScheduleView:
    row = locked(store, conn, namespace, schedule_id, ask)
    move = moves.allowed(row, action)
    control = by(store, conn, row, ask, action, arguments=arguments, evidence=evidence)
    moves.apply(store, conn, row, move, control, extra, collect)
    wake.notify(store, conn)
    return view(store, conn, row.pk)


def pause(
    store: Store, conn: Connection, namespace: str, schedule_id: str, *, until: int | None = None, **ask: Unpack[Ask]
) -> ScheduleView:
    """Keep the cursor and hold what waits; ``until`` resumes by itself."""
    evidence = None if until is None else {"until": until}
    return _move(store, conn, namespace, schedule_id, "pause", ask, extra={"resume_at": until}, evidence=evidence,
        arguments={"until": until},
    )  # fmt: skip


def resume(
    store: Store, conn: Connection, namespace: str, schedule_id: str, *, replay: bool = True, **ask: Unpack[Ask]
) -> ScheduleView:
    """End an operator's pause; the misfire policy judges what accumulated, or (``replay=False``) it is passed over."""
    return _move(store, conn, namespace, schedule_id, "resume", ask, collect="asTold" if replay else "fromNow",
        arguments={"passOver": not replay},
    )  # fmt: skip


def enable(
    store: Store, conn: Connection, namespace: str, schedule_id: str, *, catch_up: bool = False, **ask: Unpack[Ask]
) -> ScheduleView:
    """Collect from now on, replaying nothing; with ``catch_up`` what accumulated is left to the misfire policy."""
    return _move(store, conn, namespace, schedule_id, "enable", ask, collect="asHeld" if catch_up else "asTold",
        arguments={"catchUp": catch_up},
    )  # fmt: skip


def disable(store: Store, conn: Connection, namespace: str, schedule_id: str, **ask: Unpack[Ask]) -> ScheduleView:
    """Clear the next due and skip what waits; running work finishes."""
    return _move(store, conn, namespace, schedule_id, "disable", ask)


def cancel(store: Store, conn: Connection, namespace: str, schedule_id: str, **ask: Unpack[Ask]) -> ScheduleView:
    """End this revision for good; what waits is cancelled, what runs is asked to stop."""
    return _move(store, conn, namespace, schedule_id, "cancel", ask)


def retire(store: Store, conn: Connection, namespace: str, schedule_id: str, **ask: Unpack[Ask]) -> ScheduleView:
    """No longer declared: disabled with reason ``retired``; history stays."""
    return _move(store, conn, namespace, schedule_id, "retire", ask)


def remove(store: Store, conn: Connection, namespace: str, schedule_id: str, **ask: Unpack[Ask]) -> ScheduleView:
    """APScheduler's ``remove_job``, which cannot be refused: what waits is cancelled, what runs may finish."""
    return _move(store, conn, namespace, schedule_id, "remove", ask)


unretire = enable


# --- the end ----------------------------------------------------------------------------------------------------------


def delete(
    store: Store,
    conn: Connection,
    namespace: str,
    schedule_id: str,
    *,
    cancel_pending: bool = False,
    **ask: Unpack[Ask],
) -> None:
    """Remove a schedule with its history; its decisions and its last revision number stay.

    Raises PendingWork; with ``cancel_pending`` only what runs is in the way.
    """
    row = locked(store, conn, namespace, schedule_id, ask)
    control = by(store, conn, row, ask, "delete", arguments={"cancelPending": cancel_pending})
    _delete(store, conn, row, control, cancel_pending)
    wake.notify(store, conn)


def _delete(store: Store, conn: Connection, row: Any, control: moves.Control, cancel_pending: bool) -> None:
    if cancel_pending and row.open_count:
        moves.cancel_pending(store, conn, row, control, "deleted")
        row = schedules.by_pk(conn, store.tables, row.pk)
    moves.allowed(row, "delete")
    whole.remove(conn, store.tables, store.dialect, [row.pk])
    moves.decide(store, conn, row, "delete", control, "absent", row.state_version + 1)


def delete_namespace(
    store: Store, conn: Connection, namespace: str, *, cancel_pending: bool = False, **ask: Unpack[Ask]
) -> list[str]:
    """Remove every schedule of a namespace, or (PendingWork) none of them; their ids."""
    t = store.tables
    found = schedules.lock(conn, t, store.dialect, schedules.keys_in(conn, t, namespace))
    there = [[row.id, row.state_version] for row in found.values()]  # an approval is of all that it saw
    arguments = {"cancelPending": cancel_pending}
    ref = Ref(namespace, "*")
    control = by(store, conn, None, ask, "deleteNamespace", ref=ref, arguments=arguments, definition=there)
    if cancel_pending:
        for row in found.values():
            if row.open_count:
                moves.cancel_pending(store, conn, row, control, "deleted")
        found = schedules.lock(conn, t, store.dialect, found)
    for row in found.values():
        moves.allowed(row, "delete")
    whole.remove(conn, t, store.dialect, list(found))
    told = []
    for row in found.values():
        told.append(moves.decision(row, "delete", control, "absent", row.state_version + 1))
        control = control._replace(nonce=None)  # it is used once, and kept with the first of them
    decisions.add(conn, t, told)
    wake.notify(store, conn)
    return [row.id for row in found.values()]


def rename(
    store: Store, conn: Connection, namespace: str, schedule_id: str, new_id: str, **ask: Unpack[Ask]
) -> ScheduleView:
    """Give a schedule another id; its history goes along. Raises AlreadyExists where that id was ever used."""
    row = locked(store, conn, namespace, schedule_id, ask)
    if decisions.newest_number(conn, store.tables, namespace, new_id):
        raise AlreadyExists(f"{new_id!r} is or was another schedule; choose an id that was never used")
    told = {"from": schedule_id, "to": new_id}
    control = by(store, conn, row, ask, "rename", arguments={"to": new_id}, evidence=told)
    version = row.state_version + 1
    found = revisions.by_pk(conn, store.tables, row.revision_pk)
    d = rows.definition_of(found.definition)
    named = Definition.from_material(d.material() | {"id": new_id})
    text = {"definition": rows.definition_text(named), "digest": named.digest()}
    revisions.change(conn, store.tables, row.revision_pk, text)
    schedules.change(conn, store.tables, row.pk, {"id": new_id, "state_version": version})
    store.compiled.forget()
    moves.decide(store, conn, row, "rename", control, row.state, version)
    renamed = schedules.by_pk(conn, store.tables, row.pk)
    moves.decide(store, conn, renamed, "rename", control._replace(nonce=None), row.state, version)
    return view(store, conn, row.pk)
