"""Schedules by what their rules are made of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select

from calsched.stores.schema import Tables


def users_of(conn: Connection, t: Tables, calendar: str) -> list[tuple[str, str, str]]:
    """(namespace, id, definition as JSON) of schedules whose live revision may use a calendar.

    No index: this reads every live definition, once per change of a calendar.
    """
    s, r = t.schedules.c, t.revisions.c
    found = select(s.namespace, s.id, r.definition).join_from(t.schedules, t.revisions, r.pk == s.revision_pk)
    word = json.dumps(calendar, ensure_ascii=False)
    found = found.where(s.state.not_in(("cancelled",)), r.definition.contains(word, autoescape=True))
    return [(row[0], row[1], row[2]) for row in conn.execute(found.order_by(s.pk))]


def zoned(conn: Connection, t: Tables, after: int, most: int) -> Sequence[Any]:
    """Zone-based schedules that have a next due, by key."""
    s = t.schedules.c
    found = select(t.schedules).where(s.pk > after, s.zoned.is_(True))
    found = found.where((s.next_due.is_not(None)) | (s.held_due.is_not(None)))
    return conn.execute(found.order_by(s.pk).limit(most).with_for_update()).all()
