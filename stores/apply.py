"""Commit a change set: all of it in one transaction, or nothing.

What can be computed without the database is computed before (``prepare``), so that ten thousand new schedules hold the
lock for a moment only; what exists already goes through the controls, one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from sqlalchemy import Connection

from calsched.approval import Ref
from calsched.calendars import BusinessCalendar, Resolved
from calsched.changes import BY_FILE, Change, Known, fingerprint
from calsched.errors import AlreadyExists, Refused
from calsched.model import Cursor, Definition, digest
from calsched.planner import first_cursor
from calsched.stores import control, rows, wake
from calsched.stores.control import Ask
from calsched.stores.recompute import changes_calendars
from calsched.stores.recompute import set_calendars as store_calendars
from calsched.stores.tables import bulk, calendars, decisions, schedules
from calsched.stores.tables.sql import CHUNK

if TYPE_CHECKING:
    from calsched.stores.engine import Store


#: What the approval of a plan is about: no schedule of its own, as its changes are many.
PLAN = Ref("*", "plan")


class Prepared(NamedTuple):
    """A new schedule, computed outside the transaction."""

    definition: Definition
    enabled: bool
    text: str
    digest: str
    cursor: Cursor
    zoned: bool


def prepare(
    store: Store, definition: Definition, enabled: bool, known: Mapping[str, BusinessCalendar], now: int
) -> Prepared:
    """Raises TriggerInvalid."""
    trigger = store.compiled.build(definition, {name: known[name] for name in definition.calendars})
    cursor = first_cursor(definition, trigger, now)
    text = rows.definition_text(definition)
    return Prepared(definition, enabled, text, definition.digest(), cursor, trigger.zone is not None)


def lock(
    store: Store, conn: Connection, names: Iterable[tuple[str, str]], declared: Mapping[str, Resolved]
) -> None:
    """Lock the schedules that a change of many is about, in the order of their keys, before anything is done to one.

    Two such changes then wait for each other instead of crossing. A calendar that changes is about every schedule.
    """
    if store.dialect == "sqlite":  # one writer at a time
        return
    if changes_calendars(store, conn, declared):
        pks = schedules.all_pks(conn, store.tables)
    else:
        pks = schedules.pks_of(conn, store.tables, names)
    for start in range(0, len(pks), CHUNK):
        schedules.lock(conn, store.tables, store.dialect, pks[start : start + CHUNK])


def catalogue(store: Store, conn: Connection, namespaces: Iterable[str], *, whole: bool = True) -> list[Known]:
    """What the store has declared in some namespaces; the material is left empty unless ``whole``."""
    found = bulk.known(conn, store.tables, namespaces, whole=whole)
    if not whole:
        return [Known._make((*row, {})) for row in found]
    return [Known._make((*row[:-1], rows.material_of(row[-1]))) for row in found]


def calendar_versions(store: Store, conn: Connection) -> dict[str, int]:
    return {row.name: row.version for row in calendars.newest(conn, store.tables)}


def apply(
    store: Store,
    conn: Connection,
    changes: Sequence[Change],
    prepared: Sequence[Prepared],
    *,
    expected: str,
    namespaces: Iterable[str],
    declared: Mapping[str, Resolved] | None = None,
    catch_up: bool = False,
    plan: Any = None,
    **ask: Unpack[Ask],
) -> None:
    """Take every step of the changes. ``prepared`` are those that create; ``expected`` is the change set's ``store``.

    ``catch_up``: what a retired schedule missed meanwhile is left to its misfire policy when it is put back.
    ``plan`` is what an approval is of, where one is asked for: one for the whole. Raises ApprovalDenied, and Refused
    where the store has moved on since the changes were computed.
    """
    lock(store, conn, [(one.namespace, one.known.id) for one in changes if one.known is not None], declared or {})
    present = fingerprint(catalogue(store, conn, namespaces, whole=False), calendar_versions(store, conn))
    if present != expected:
        raise Refused("the store has changed since this was planned; nothing was applied: plan again")
    ask = _agreed(store, conn, plan, catch_up, ask)
    store_calendars(store, conn, declared or {}, **ask)
    for change in changes:
        _apply_one(store, conn, change, catch_up, ask)
    create_many(store, conn, prepared, **ask)
    wake.notify(store, conn)


def _agreed(store: Store, conn: Connection, plan: Any, catch_up: bool, ask: Ask) -> Ask:
    """The ask of every step of an approved plan: the approver's, with the approval used up by a decision of its own."""
    if ask.get("approved") is None:
        return ask
    made = control.by(store, conn, None, ask, "apply", ref=PLAN, arguments={"catchUp": catch_up}, definition=plan)
    used = decisions.row(
        *PLAN[:2], "apply", at=made.now, principal=made.principal, note=made.note, evidence=made.evidence,
        nonce=made.nonce,
    )  # fmt: skip
    decisions.add(conn, store.tables, [used])
    note = made.note if made.note is not None else f"approved plan {digest(plan)}"
    return {"now": made.now, "principal": made.principal, "note": note}


def _apply_one(store: Store, conn: Connection, change: Change, catch_up: bool, ask: Ask) -> None:
    namespace, known = change.namespace, change.known
    if known is None:
        return
    if "rename" in change.steps:
        control.rename(store, conn, namespace, known.id, change.id, **ask)
    if "revise" in change.steps or "reword" in change.steps:
        assert change.declaration is not None
        control.update(store, conn, change.declaration.definition, mode="carry", **ask)
    if "restore" in change.steps or "enable" in change.steps:
        control.enable(store, conn, namespace, change.id, catch_up=catch_up and "restore" in change.steps, **ask)
    if "disable" in change.steps:
        view = control.disable(store, conn, namespace, change.id, **ask)
        schedules.change(conn, store.tables, view.pk, {"reason": BY_FILE})
    if "retire" in change.steps:
        control.retire(store, conn, namespace, change.id, **ask)


_SCHEDULE = (
    "namespace", "id", "state", "reason", "note", "changed_by", "changed_at", "revision", "revision_pk", "next_ordinal",
    "next_due", "look_at", "held_due", "zoned", "owner", "created_at",
)  # fmt: skip
_REVISION = (
    "schedule_pk", "number", "definition", "digest", "created_at", "created_by", "tzdata", "first_due",
)  # fmt: skip


def create_many(store: Store, conn: Connection, prepared: Sequence[Prepared], **ask: Unpack[Ask]) -> None:
    """Add schedules that do not exist, in a handful of statements. Raises AlreadyExists and has then added nothing."""
    if not prepared:
        return
    numbers = _numbers(store, conn, prepared)
    new = [_schedule_row(one, numbers.get(_key(one), 0) + 1, ask) for one in prepared]
    bulk.add_schedules(conn, store.tables, _SCHEDULE, new)
    pks = bulk.keys_of_unborn(conn, store.tables)
    made = [_revision_row(store, one, pks[_key(one)], numbers.get(_key(one), 0) + 1, ask) for one in prepared]
    bulk.add_revisions(conn, store.tables, _REVISION, made)
    bulk.give_birth(conn, store.tables)
    decisions.add(conn, store.tables, [_decision(one, numbers.get(_key(one), 0) + 1, ask) for one in prepared])


def _key(one: Prepared) -> tuple[str, str]:
    return one.definition.namespace, one.definition.id


def _numbers(store: Store, conn: Connection, prepared: Sequence[Prepared]) -> dict[tuple[str, str], int]:
    ids: dict[str, list[str]] = {}
    for one in prepared:
        ids.setdefault(one.definition.namespace, []).append(one.definition.id)
    out = {}
    for namespace, names in ids.items():
        present = {row[1] for row in bulk.known(conn, store.tables, [namespace], whole=False)}
        if taken := sorted(present.intersection(names)):
            raise AlreadyExists(f"{taken[0]!r} exists already in namespace {namespace!r}; nothing was applied")
        found = bulk.newest_numbers(conn, store.tables, namespace, names)
        out.update({(namespace, name): number for name, number in found.items()})
    return out


def _state(one: Prepared) -> tuple[str, str | None]:
    if not one.enabled:
        return "disabled", BY_FILE
    return ("enabled", None) if one.cursor.next_due is not None else ("ended", "exhausted")


def _schedule_row(one: Prepared, number: int, ask: Ask) -> tuple[Any, ...]:
    state, reason = _state(one)
    due = one.cursor.next_due if state == "enabled" else None
    held = None if state == "enabled" else one.cursor.next_due
    d, now = one.definition, ask["now"]
    return (
        d.namespace, d.id, state, reason, ask.get("note"), ask["principal"], now, number, bulk.UNBORN,
        one.cursor.next_ordinal, due, due, held, one.zoned, d.owner, now,
    )  # fmt: skip


def _revision_row(store: Store, one: Prepared, pk: int, number: int, ask: Ask) -> tuple[Any, ...]:
    return (pk, number, one.text, one.digest, ask["now"], ask["principal"], store.tzdata, one.cursor.next_due)


def _decision(one: Prepared, number: int, ask: Ask) -> tuple[Any, ...]:
    state, _ = _state(one)
    return decisions.row(
        one.definition.namespace, one.definition.id, "create" if one.enabled else "createDisabled", at=ask["now"],
        principal=ask["principal"], revision=number, state_version=1, from_state="absent", to_state=state,
        note=ask.get("note"), evidence={"digest": one.digest},
    )  # fmt: skip
