"""Coming slots computed anew, because something that a rule depends on has changed: a calendar, or the zone data.

What was judged stays judged. The cursor goes to the first slot whose nominal local time is after the last judged one:
09:00 that has run is not due again because its UTC instant moved (design: tzdata changes).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from sqlalchemy import Connection

from calsched.approval import Ref
from calsched.calendars import BusinessCalendar, Resolved
from calsched.errors import CalschedError
from calsched.model import Definition, canonical_json
from calsched.planner import first_cursor
from calsched.stores import moves, rows, wake
from calsched.stores.control import by
from calsched.stores.tables import calendars, decisions, meta, recomputed, revisions

if TYPE_CHECKING:
    from calsched.stores.control import Ask
    from calsched.stores.engine import Store
    from calsched.triggers.base import Trigger

_TZDATA = "tzdata"
#: What a decision about calendars is about: all schedules that use them, in every namespace.
CALENDARS = Ref("*", "calendars")


def adopt_zone_data(store: Store, conn: Connection, now: int) -> int:
    """Take this process's zone data for the store's, where it is newer; how many cursors that moved.

    Older data changes nothing: its owner leaves zone-based schedules to those who know better (see ``advance``).
    """
    seen = meta.get(conn, store.tables, _TZDATA)
    if seen is not None and store.tzdata <= seen:
        return 0
    meta.lock(conn, store.tables)  # owners that start at the same moment adopt it one after the other
    seen = meta.get(conn, store.tables, _TZDATA)
    if seen is not None and store.tzdata <= seen:
        return 0
    moved = 0
    if seen is not None:
        control = moves.Control(now, evidence={"from": seen, "to": store.tzdata})
        for row in _zoned(store, conn):
            trigger = _trigger(store, conn, rows.definition_of(row.definition))
            if trigger is not None:
                moved += _move(store, conn, row, _next(row, trigger), "zoneData", control)
    meta.put(conn, store.tables, _TZDATA, store.tzdata)
    return moved


def changes_calendars(store: Store, conn: Connection, declared: Mapping[str, Resolved]) -> bool:
    """Whether ``set_calendars`` would give one that is there a new version, which schedules have to follow."""
    if not declared:
        return False
    newest = {row.name: row.digest for row in calendars.newest(conn, store.tables)}
    return any(newest.get(name, one.digest) != one.digest for name, one in declared.items())


def set_calendars(store: Store, conn: Connection, declared: Mapping[str, Resolved], **ask: Unpack[Ask]) -> int:
    """Give calendars a new version where they differ from the newest one; how many schedules follow them.

    A slot that a change adds before now is not made up for; what was due and is not judged yet is judged by the new
    calendar. Raises TriggerInvalid where a rule would never fire again.
    """
    newest = {row.name: row for row in calendars.newest(conn, store.tables)}
    changed = {
        name: newest[name].version + 1 if name in newest else 1
        for name, calendar in declared.items()
        if name not in newest or newest[name].digest != calendar.digest
    }
    if changed:
        _record(store, conn, {name: declared[name].digest for name in changed}, ask)
    for name, version in changed.items():
        values = {
            "name": name,
            "version": version,
            "definition": canonical_json(declared[name].material),
            "digest": declared[name].digest,
            "created_at": ask["now"],
            "created_by": ask["principal"],
        }
        calendars.add(conn, store.tables, values)
    followed = _follow(store, conn, changed, ask) if set(changed) & set(newest) else 0
    if changed:
        wake.notify(store, conn)
    return followed


def carry_calendars(
    store: Store, conn: Connection, definition: Definition, carried: Mapping[str, BusinessCalendar], **ask: Unpack[Ask]
) -> Definition:
    """A definition from Python with the versions of the calendars that its trigger brings along.

    As with calendars in files: an unknown one becomes version 1, a changed one a new version, which every schedule
    that uses it follows.
    """
    if not carried:
        return definition
    set_calendars(store, conn, {name: Resolved(name, one.material) for name, one in carried.items()}, **ask)
    versions = {row.name: row.version for row in calendars.newest(conn, store.tables) if row.name in carried}
    return replace(definition, calendars=versions)


def _record(store: Store, conn: Connection, digests: Mapping[str, str], ask: Ask) -> None:
    """The decision of a change of calendars where it needs an approval, which is used up by it."""
    if ask.get("approved") is None:
        return
    made = by(store, conn, None, ask, "setCalendars", ref=CALENDARS, definition=dict(digests))
    decided = decisions.row(
        *CALENDARS[:2], "setCalendars", at=made.now, principal=made.principal, revision=None, state_version=None,
        from_state=None, to_state=None, note=made.note, evidence=made.evidence, nonce=made.nonce,
    )  # fmt: skip
    decisions.add(conn, store.tables, [decided])


def _follow(store: Store, conn: Connection, changed: Mapping[str, int], ask: Ask) -> int:
    """Bring every live revision that uses a changed calendar to its new version."""
    followed = 0
    for row in list(_all(store, conn)):
        material = json.loads(row.definition)
        used = material.get("calendars") or {}
        newer = {name: changed[name] for name in used if changed.get(name, used[name]) != used[name]}
        if not newer:
            continue
        definition = Definition.from_material(material | {"calendars": {**used, **newer}})
        trigger = store.compiled.build(definition, store.compiled.calendars(conn, definition.calendars))
        text = {"definition": rows.definition_text(definition), "digest": definition.digest()}
        revisions.change(conn, store.tables, row.revision_pk, text)
        evidence = {"calendars": newer, "digest": definition.digest()}
        control = moves.Control(ask["now"], ask["principal"], ask.get("note"), evidence)
        due = _next(row, trigger)
        before = _due(row)
        if due is not None and (before is None or before > control.now):
            due = max(due, trigger.first_at_or_after(control.now) or due)
        _move(store, conn, row, due, "calendar", control, always=True)
        followed += 1
    store.compiled.forget()
    return followed


def _due(row: Any) -> int | None:
    due: int | None = row.next_due if row.next_due is not None else row.held_due
    return due


def _next(row: Any, trigger: Trigger) -> int | None:
    if row.last_due is not None:
        return trigger.resume_after(row.last_due, row.last_local)
    return first_cursor(rows.definition_of(row.definition), trigger, row.revised_at).next_due


def _move(
    store: Store, conn: Connection, row: Any, due: int | None, action: str, control: moves.Control, always: bool = False
) -> bool:
    """Put the cursor elsewhere; with a decision where it moves. A rule without a further slot has ended."""
    before = _due(row)
    if due == before and not always:
        return False
    if due is None and row.state == "enabled":
        moves.apply(store, conn, row, moves.allowed(row, "end"), control, {"reason": "exhausted"})
        return True
    collecting = row.next_due is not None
    version = row.state_version + 1
    written = (due if collecting else None, None if collecting else due, version, row.pk, row.state_version)
    recomputed.write(conn, store.tables, [written])
    facts = {**(control.evidence or {}), "nextDue": [before, due]}
    moves.decide(store, conn, row, action, control._replace(evidence=facts), row.state, version)
    return True


def _trigger(store: Store, conn: Connection, definition: Definition) -> Trigger | None:
    """None where it cannot be built; the next tick finds that out and says so."""
    try:
        return store.compiled.build(definition, store.compiled.calendars(conn, definition.calendars))
    except CalschedError:
        return None


def _zoned(store: Store, conn: Connection) -> Iterator[Any]:
    return _pages(store, conn, zoned=True)


def _all(store: Store, conn: Connection) -> Iterator[Any]:
    return _pages(store, conn, zoned=False)


def _pages(store: Store, conn: Connection, *, zoned: bool) -> Iterator[Any]:
    after = 0
    while page := recomputed.page(conn, store.tables, after, zoned=zoned):
        yield from page
        after = page[-1].pk
