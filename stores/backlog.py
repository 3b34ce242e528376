"""After a restore: what becomes of what was missed meanwhile.

release   the schedules go on, and their misfire policies judge what came due
drop      what came due is one uncounted range, what waited is skipped
latest    as drop, but the last slot that came due is left to the misfire policy
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

from sqlalchemy import Connection

from calsched.approval import Ref
from calsched.errors import InvalidInput, Problem, Refused
from calsched.model import Cursor, PlannedRange
from calsched.planner import pass_over
from calsched.stores import moves, wake
from calsched.stores.compiled import CompiledRevision
from calsched.stores.control import Ask, by
from calsched.stores.tables import clock, decisions, reading, schedules

if TYPE_CHECKING:
    from calsched.stores.engine import Store

How = Literal["release", "drop", "latest"]


def backlog(
    store: Store,
    conn: Connection,
    how: How,
    *,
    namespace: str | None = None,
    schedule_id: str | None = None,
    **ask: Unpack[Ask],
) -> list[tuple[str, str]]:
    """Decide on the schedules that a restore paused, all or some; (namespace, id) of those.

    When none is left, dispatch goes on. Raises Refused where there is nothing to decide.
    """
    if how not in get_args(How):
        raise InvalidInput([Problem(f"expected release, drop or latest, got {how!r:.40}", "backlog")])
    held = clock.hold(conn, store.tables) == "restored"
    pks = reading.restored(conn, store.tables, namespace, schedule_id)
    if not pks and not held:
        raise Refused("no schedule here waits for a decision after a restore")
    schedules.lock(conn, store.tables, store.dialect, pks)
    found = [schedules.by_pk(conn, store.tables, pk) for pk in pks]
    there = [[row.namespace, row.id, row.state_version] for row in found]  # an approval is of all that it saw
    ref, told = Ref(namespace or "*", schedule_id or "*"), {"backlog": how}
    control = by(store, conn, None, ask, "backlog", ref=ref, arguments=told, definition=there, evidence=told)
    for row in found:
        _decide(store, conn, row, how, control)
        control = control._replace(nonce=None)  # it is used once, and kept with the first of them
    if held and not reading.restored(conn, store.tables, None, None):
        _end_hold(store, conn, control)
    wake.notify(store, conn)
    return [(row.namespace, row.id) for row in found]


def _decide(store: Store, conn: Connection, row: Any, how: How, control: moves.Control) -> None:
    move = moves.allowed(row, "resume")
    if how != "release":
        moves.end_idle(store, conn, row, control, "skipped", "backlog")
        _pass_over(store, conn, row, how, control)
        row = schedules.by_pk(conn, store.tables, row.pk)
    moves.apply(store, conn, row, move, control)


def _pass_over(store: Store, conn: Connection, row: Any, how: How, control: moves.Control) -> None:
    found = store.compiled.get_many(conn, (row.revision_pk,)).get(row.revision_pk)
    if not isinstance(found, CompiledRevision):
        return
    cursor = moves.cursor_of(row)
    passed, after = pass_over(found.definition, found.trigger, cursor, control.now, "backlog")
    if passed is not None and how == "latest":
        passed, after = _all_but_the_last(found, passed, cursor)
    if passed is not None:
        moves.write_range(store, conn, row, passed, control.now)
    places = {"next_ordinal": after.next_ordinal, "held_due": after.next_due}
    schedules.change(
        conn, store.tables, row.pk, places | {"last_due": after.last_due, "last_local": after.last_local}
    )  # fmt: skip


def _all_but_the_last(
    found: CompiledRevision, passed: PlannedRange, cursor: Cursor
) -> tuple[PlannedRange | None, Cursor]:
    if passed.first == passed.last:
        return None, cursor
    due = found.trigger.last_at_or_before(passed.last_due - 1)
    assert due is not None
    shorter = passed._replace(last=passed.last - 1, last_due=due)
    return shorter, Cursor(passed.last, passed.last_due, due, found.trigger.local(due))


def _end_hold(store: Store, conn: Connection, control: moves.Control) -> None:
    clock.put(conn, store.tables, {"hold": None, "hold_since": None, "hold_note": None})
    made = decisions.row(
        "", "", "endHold", at=control.now, principal=control.principal, note=control.note, evidence=control.evidence,
        nonce=control.nonce,
    )  # fmt: skip
    decisions.add(conn, store.tables, [made])
