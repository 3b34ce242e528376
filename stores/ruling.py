"""What rules are made of changes under the schedules: business calendars, and the data of time zones.

Slots after the last judged nominal wall time are computed anew; 09:00 that has run is not due again because its instant
moved. Each schedule for which something changes gets a decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from sqlalchemy import Connection

from calsched.calendars.calendar import digest
from calsched.clock import to_rfc3339
from calsched.model import Cursor, canonical_json
from calsched.stores import control, moves, rows, wake
from calsched.stores.compiled import CompiledRevision
from calsched.stores.control import Ask
from calsched.stores.tables import calendars, decisions, meta, ruled, schedules

if TYPE_CHECKING:
    from calsched.stores.engine import Store

BATCH = 500
#: How far a change of zone data moves an instant at most.
MOVED = 3 * 3_600_000


class CalendarSet(NamedTuple):
    version: int
    schedules: tuple[tuple[str, str], ...]  # (namespace, id) of those that got a new revision


def set_calendar(
    store: Store, conn: Connection, name: str, material: Mapping[str, Any], **ask: Unpack[Ask]
) -> CalendarSet:
    """Store a business calendar in its resolved form; unchanged material changes nothing.

    Schedules that use it get a new revision with the new version, which carries on: state, pending work and budget
    stay, and the first slot comes after the last judged one.
    """
    newest = {row.name: row for row in calendars.newest(conn, store.tables)}.get(name)
    if newest is not None and newest.digest == digest(material):
        return CalendarSet(newest.version, ())
    version = 1 if newest is None else newest.version + 1
    values = {
        "name": name,
        "version": version,
        "definition": canonical_json(dict(material)),
        "digest": digest(material),
        "created_at": ask["now"],
        "created_by": ask["principal"],
    }
    calendars.add(conn, store.tables, values)
    evidence = {"calendar": name, "version": version, "digest": values["digest"]}
    made = decisions.row("", "", "setCalendar", at=ask["now"], principal=ask["principal"], evidence=evidence)
    decisions.add(conn, store.tables, [made])
    return CalendarSet(version, tuple(_revise_users(store, conn, name, version, ask)))


def _revise_users(store: Store, conn: Connection, name: str, version: int, ask: Ask) -> Iterator[tuple[str, str]]:
    for namespace, schedule_id, text in ruled.users_of(conn, store.tables, name):
        d = rows.definition_of(text)
        if d.calendars.get(name) in (None, version):
            continue
        newer = replace(d, calendars={**d.calendars, name: version})
        plain = Ask(now=ask["now"], principal=ask["principal"], note=f"calendar {name!r} version {version}")
        control.update(store, conn, newer, mode="carry", keep_budget=True, **plain)
        yield namespace, schedule_id


# --- zone data --------------------------------------------------------------------------------------------------------


def adopt_tzdata(store: Store, conn: Connection, now: int) -> int:
    """Recompute the cursors of zone-based schedules when this process has newer zone data than the store has seen.

    How many cursors moved. Older data changes nothing: such an owner leaves those schedules to others.
    """
    seen = meta.get(conn, store.tables, "tzdata")
    if seen is not None and seen >= store.tzdata:
        return 0
    meta.put(conn, store.tables, "tzdata", store.tzdata)
    if seen is None:
        return 0
    store.compiled.forget()
    moved, after = 0, 0
    while batch := ruled.zoned(conn, store.tables, after, BATCH):
        after = batch[-1].pk
        compiled = store.compiled.get_many(conn, [row.revision_pk for row in batch])
        moved += sum(_recompute(store, conn, row, compiled.get(row.revision_pk), seen, now) for row in batch)
    if moved:
        wake.notify(store, conn)
    return moved


def _recompute(store: Store, conn: Connection, row: Any, found: Any, seen: str, now: int) -> bool:
    cursor = moves.cursor_of(row)
    if not isinstance(found, CompiledRevision) or cursor.next_due is None:
        return False
    due = _next_due(found, cursor)
    if due == cursor.next_due:
        return False
    version = row.state_version + 1
    places: dict[str, Any] = {"next_due": due, "look_at": due} if row.next_due is not None else {"held_due": due}
    if due is None:
        places = {"next_due": None, "look_at": None, "state": "ended", "reason": "exhausted"}
    schedules.change(conn, store.tables, row.pk, places | {"state_version": version})
    evidence = {
        "tzdata": {"from": seen, "to": store.tzdata},
        "nextDue": {"from": to_rfc3339(cursor.next_due), "to": None if due is None else to_rfc3339(due)},
    }
    control_ = moves.Control(now, evidence=evidence)
    moves.decide(store, conn, row, "tzdata", control_, str(places.get("state", row.state)), version)
    return True


def _next_due(found: CompiledRevision, cursor: Cursor) -> int | None:
    """The first slot that is not yet judged, as the new data has it."""
    if cursor.last_due is not None:
        return found.trigger.resume_after(cursor.last_due, cursor.last_local)
    assert cursor.next_due is not None
    if found.trigger.count(cursor.next_due, cursor.next_due):
        return cursor.next_due
    return found.trigger.first_at_or_after(cursor.next_due - MOVED)
