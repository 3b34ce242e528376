"""An operator has the last word on the clock: accept it as it is, and take back what a false future judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from sqlalchemy import Connection

from calsched.clock import to_rfc3339
from calsched.policies import clock_hold
from calsched.stores import moves, wake
from calsched.stores.compiled import CompiledRevision
from calsched.stores.control import Ask
from calsched.stores.recover import boot_id
from calsched.stores.tables import clock, decisions, revisions, rewind, schedules
from calsched.stores.texts import MAX_NAME, MAX_NOTE, fit

if TYPE_CHECKING:
    from calsched.stores.engine import Store


class Accepted(NamedTuple):
    """What an accepted clock ended: the hold, and (with ``rewind``) the cursors that were put back."""

    hold: str | None
    rewound: tuple[tuple[str, str], ...] = ()


def clock_accept(store: Store, conn: Connection, *, rewind_cursors: bool = False, **ask: Unpack[Ask]) -> Accepted:
    """Declare the clock's present reading right; dispatch goes on.

    ``rewind_cursors``: slots that a false future judged and that have not started are taken back, so that they come due
    when their time does.
    """
    row = clock.row(conn, store.tables, locking=True)
    hold = None if row is None else row.hold
    boot = store.clock.boot_time() if store.dialect == "sqlite" else None
    reading = clock_hold.accept(ask["now"], boot_time=boot, boot_id=boot_id() if boot is not None else None)
    values = {"high_water": reading.high_water, "boot_time": reading.boot_time, "boot_id": reading.boot_id}
    clock.put(conn, store.tables, values | {"hold": None, "hold_since": None, "hold_note": None})
    rewound = tuple(_rewind_all(store, conn, ask)) if rewind_cursors else ()
    evidence = {
        "hold": hold,
        "highWater": {"from": None if row is None else to_rfc3339(row.high_water), "to": to_rfc3339(ask["now"])},
        "rewound": len(rewound),
    }
    made = decisions.row(
        "", "", "clockAccept", at=ask["now"], principal=fit(ask["principal"], MAX_NAME) or "unknown",
        note=fit(ask.get("note"), MAX_NOTE), evidence=evidence,
    )  # fmt: skip
    decisions.add(conn, store.tables, [made])
    wake.notify(store, conn)
    return Accepted(hold, rewound)


def _rewind_all(store: Store, conn: Connection, ask: Ask) -> list[tuple[str, str]]:
    done = []
    pks = rewind.ahead_of(conn, store.tables, ask["now"])
    schedules.lock(conn, store.tables, store.dialect, pks)
    for pk in pks:
        row = schedules.by_pk(conn, store.tables, pk)
        if _rewind(store, conn, row, ask):
            done.append((row.namespace, row.id))
    return done


def _rewind(store: Store, conn: Connection, row: Any, ask: Ask) -> bool:
    """Put one cursor back to the first slot after now, or after the last one that started or ended."""
    found = store.compiled.get_many(conn, (row.revision_pk,)).get(row.revision_pk)
    if not isinstance(found, CompiledRevision):
        return False
    keep = rewind.immovable(conn, store.tables, row.revision_pk, ask["now"])
    runs, counted = rewind.remove_after(conn, store.tables, row.revision_pk, keep)
    if keep + 1 == row.next_ordinal:
        return False
    last = rewind.last_kept(conn, store.tables, row.revision_pk)
    last_due = None if last is None else last[1]
    due = _next_due(store, conn, row, found, last_due)
    version = row.state_version + 1
    collecting = row.state == "enabled" or (row.state == "ended" and due is not None)
    values: dict[str, Any] = {
        "next_ordinal": keep + 1,
        "last_due": last_due,
        "last_local": None if last_due is None else found.trigger.local(last_due),
        "next_due": due if collecting else None,
        "look_at": due if collecting else None,
        "held_due": None if collecting else due,
        "open_count": row.open_count - runs,
        "used": max(0, row.used - runs - counted),
        "state_version": version,
    }
    if row.state == "ended" and due is not None:
        values |= {"state": "enabled", "reason": None}
    schedules.change(conn, store.tables, row.pk, values)
    evidence = {"nextOrdinal": {"from": str(row.next_ordinal), "to": str(keep + 1)}}
    control = moves.Control(ask["now"], ask["principal"], ask.get("note"), evidence)
    moves.decide(store, conn, row, "rewind", control, str(values.get("state", row.state)), version)
    return True


def _next_due(store: Store, conn: Connection, row: Any, found: CompiledRevision, last_due: int | None) -> int | None:
    """The slot after the last verdict; where none is left, the revision's first one."""
    if last_due is not None:
        return found.trigger.next_after(last_due)
    first: int | None = revisions.by_pk(conn, store.tables, row.revision_pk).first_due
    return first
