"""decisions: who changed what, when, and on which evidence. They outlive the schedule."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, select

from calsched.model import canonical_json
from calsched.stores.schema import Tables
from calsched.stores.tables.sql import insert_many

COLUMNS = (
    "namespace", "id", "revision", "state_version", "action", "from_state", "to_state", "principal", "at", "note",
    "evidence", "nonce",
)  # fmt: skip
#: The principal of moves that nobody asked for.
AUTOMATIC = "calsched"


def row(
    namespace: str,
    schedule_id: str,
    action: str,
    *,
    at: int,
    principal: str = AUTOMATIC,
    revision: int | None = None,
    state_version: int | None = None,
    from_state: str | None = None,
    to_state: str | None = None,
    note: str | None = None,
    evidence: Any = None,
    nonce: str | None = None,
) -> tuple[Any, ...]:
    text = None if evidence is None else canonical_json(evidence)
    return (
        namespace, schedule_id, revision, state_version, action, from_state, to_state, principal, at, note, text, nonce,
    )  # fmt: skip


def add(conn: Connection, t: Tables, rows: Sequence[tuple[Any, ...]]) -> None:
    insert_many(conn, t.decisions, COLUMNS, rows)


@cache
def _newest_number(t: Tables) -> Select[Any]:
    d = t.decisions.c
    return select(func.max(d.revision)).where(d.namespace == bindparam("namespace"), d.id == bindparam("id"))


def newest_number(conn: Connection, t: Tables, namespace: str, schedule_id: str) -> int:
    """The last revision number that an id ever had, deleted ones included; 0 for none."""
    found = conn.execute(_newest_number(t), {"namespace": namespace, "id": schedule_id}).scalar()
    return int(found or 0)


def renamed_to(conn: Connection, t: Tables, namespace: str, schedule_id: str) -> str | None:
    """The newest id of a schedule whose former id this is; None where the last decision under it is no rename."""
    seen = [schedule_id]
    while (following := _next_name(conn, t, namespace, seen[-1])) is not None:
        if following in seen:  # round in a circle: nobody renames so, but a backup may say it
            return None
        seen.append(following)
    return seen[-1] if len(seen) > 1 else None


def _next_name(conn: Connection, t: Tables, namespace: str, name: str) -> str | None:
    newest = of(conn, t, namespace, name, most=1)
    if not newest or newest[0].action != "rename" or newest[0].evidence is None:
        return None
    evidence = json.loads(newest[0].evidence)
    told = evidence.get("facts", evidence)  # beside the proof, where the rename was approved
    following = told.get("to") if isinstance(told, dict) and told.get("from") == name else None
    return following if isinstance(following, str) else None


def is_used(conn: Connection, t: Tables, nonce: str) -> bool:
    """Whether an approval has served before."""
    return conn.execute(select(t.decisions.c.pk).where(t.decisions.c.nonce == nonce)).first() is not None


@cache
def _of(t: Tables) -> Select[Any]:
    d = t.decisions.c
    found = select(t.decisions).where(d.namespace == bindparam("namespace"), d.id == bindparam("id"))
    return found.where(d.pk < bindparam("before")).order_by(d.pk.desc()).limit(bindparam("most"))


def of(
    conn: Connection, t: Tables, namespace: str, schedule_id: str, *, before: int | None = None, most: int = 100
) -> Sequence[Any]:
    """A schedule's decisions, newest first."""
    given = {"namespace": namespace, "id": schedule_id, "before": before or 2**62, "most": most}
    return conn.execute(_of(t), given).all()
