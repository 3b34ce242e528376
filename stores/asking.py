"""Who asks for a control, on what they saw, and whether an approval of it still holds inside the transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Required, TypedDict

from sqlalchemy import Connection

from calsched.approval import (
    Approval,
    ApprovalNeeded,
    Inside,
    Ref,
    VerificationContext,
    check_inside,
    control_material,
    subject,
)
from calsched.errors import ApprovalDenied, StaleVersion, UnknownSchedule
from calsched.stores import moves, rows
from calsched.stores.tables import decisions, owners, revisions, schedules
from calsched.stores.texts import MAX_NAME, MAX_NOTE, fit
from calsched.stores.views import ScheduleView

if TYPE_CHECKING:
    from calsched.stores.engine import Store


class Approved(NamedTuple):
    """An approval, and what its verifier was asked. It is judged again inside the transaction."""

    approval: Approval
    context: VerificationContext


class Ask(TypedDict, total=False):
    """Who asks for a control, and on what."""

    now: Required[int]
    principal: Required[str]
    note: str | None
    expected_revision: int | None
    expected_version: int | None
    approved: Approved | Mapping[str, Approved] | Literal["ask"] | None


def locked(store: Store, conn: Connection, namespace: str, schedule_id: str, ask: Ask) -> Any:
    """The schedule's row, locked; raises UnknownSchedule, or StaleVersion where the caller saw another one."""
    row = schedules.by_id(conn, store.tables, namespace, schedule_id, locking=True)
    if row is None:
        renamed = decisions.renamed_to(conn, store.tables, namespace, schedule_id)
        raise UnknownSchedule(namespace, schedule_id, renamed)
    revision, version = ask.get("expected_revision"), ask.get("expected_version")
    if revision is not None and revision != row.revision:
        raise StaleVersion("revision", revision, row.revision)
    if version is not None and version != row.state_version:
        raise StaleVersion("state version", version, row.state_version)
    return row


def by(
    store: Store,
    conn: Connection,
    row: Any,
    ask: Ask,
    action: str = "",
    *,
    ref: Ref | None = None,
    arguments: Mapping[str, Any] | None = None,
    definition: Any = None,
    evidence: Any = None,
) -> moves.Control:
    """Who moves it: the person who approved where there is an approval, else the principal.

    An approval must be of this very control: of ``action`` with ``arguments``, on what ``row`` (or ``ref``) says here
    and now, and of ``definition`` where the control brings one. Of several (by digest) the one of this control counts.
    Raises ApprovalDenied, or ApprovalNeeded where the caller only ``ask``s what it needs; nothing is written then.
    """
    approved = ask.get("approved")
    if approved is None:
        principal = fit(ask["principal"], MAX_NAME) or "unknown"
        return moves.Control(ask["now"], principal, fit(ask.get("note"), MAX_NOTE), evidence)
    if row is not None:
        ref = Ref(row.namespace, row.id, row.revision)
        definition = definition or revisions.by_pk(conn, store.tables, row.revision_pk).digest
    assert ref is not None
    material = control_material(ref, action, arguments or {}, definition)
    if approved == "ask":
        raise ApprovalNeeded(_context(store, conn, row, ask, ref, action, material))
    if isinstance(approved, Mapping):
        approved = approved.get(subject(material))
    if not isinstance(approved, Approved):
        raise ApprovalDenied(f"{action} of {ref} needs an approval of {subject(material)}, and none was given")
    approval = _still_holds(store, conn, row, ask["now"], approved, material)
    proof = {"approval": approval.evidence()} | ({} if evidence is None else {"facts": evidence})
    return moves.Control(ask["now"], approval.principal_id, fit(ask.get("note"), MAX_NOTE), proof, approval.nonce)


def _context(
    store: Store, conn: Connection, row: Any, ask: Ask, ref: Ref, action: str, material: Mapping[str, Any]
) -> VerificationContext:
    return VerificationContext(
        action,
        ref,
        subject(material),
        material,
        owners.newest(conn, store.tables),
        store.installation,
        None if row is None else row.state_version,
        requester=ask["principal"],
    )


def _still_holds(
    store: Store, conn: Connection, row: Any, now: int, approved: Approved, material: Mapping[str, Any]
) -> Approval:
    nonce = approved.approval.nonce
    inside = Inside(
        now,
        subject(material),
        owners.newest(conn, store.tables),
        None if row is None else row.state_version,
        nonce is not None and decisions.is_used(conn, store.tables, nonce),
    )
    return check_inside(approved.approval, approved.context, inside)


def view(store: Store, conn: Connection, pk: int, *, created: bool = False) -> ScheduleView:
    row = schedules.by_pk(conn, store.tables, pk)
    found = store.compiled.get_many(conn, (row.revision_pk,)).get(row.revision_pk)
    return rows.schedule(row, found, created=created)
