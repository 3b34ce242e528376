"""Queries for readers: lists and histories by key, never by offset. Each names the index that serves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select, text, true

from calsched.stores.schema import HELD, OPEN, Tables
from calsched.stores.tables.sql import KEYS, walk


def schedules(
    conn: Connection,
    t: Tables,
    *,
    namespace: str | None,
    states: Sequence[str] | None,
    owner: str | None,
    attention: bool,
    after: tuple[str, str] | None,
    most: int,
) -> Sequence[Any]:
    """By namespace and id (``uq_schedule``)."""
    s = t.schedules.c
    found = walk(select(t.schedules), t.schedules, f"{t.prefix}uq_schedule").order_by(s.namespace, s.id).limit(most)
    if namespace is not None:
        found = found.where(s.namespace == namespace)
    if states is not None:
        found = found.where(s.state.in_(states))
    if owner is not None:
        found = found.where(s.owner == owner)
    if attention:
        found = found.where(or_(s.attention.is_not(None), s.reason.in_(("failures", "invalid"))))
    if after is not None:
        found = found.where(or_(s.namespace > after[0], and_(s.namespace == after[0], s.id > after[1])))
    return conn.execute(found).all()


def _before(due: Any, pk: Any, at: tuple[int, int | None] | None) -> list[ColumnElement[bool]]:
    """Rows after a place in a list that is sorted downwards. Without a key, the whole instant is included."""
    if at is None:
        return []
    instant, key = at
    return [due <= instant] if key is None else [or_(due < instant, and_(due == instant, pk < key))]


def occurrences_before(
    conn: Connection, t: Tables, schedule_pk: int, at: tuple[int, int | None] | None, most: int
) -> Sequence[Any]:
    """Newest first (``ix_occurrence_history``)."""
    o = t.occurrences.c
    found = select(t.occurrences).where(o.schedule_pk == schedule_pk, *_before(o.due, o.pk, at))
    return conn.execute(found.order_by(o.due.desc(), o.pk.desc()).limit(most)).all()


def ranges_before(
    conn: Connection, t: Tables, schedule_pk: int, at: tuple[int, int | None] | None, most: int
) -> Sequence[Any]:
    """Newest first (``ix_range_history``)."""
    r = t.ranges.c
    found = select(t.ranges).where(r.schedule_pk == schedule_pk, *_before(r.last_due, r.pk, at))
    return conn.execute(found.order_by(r.last_due.desc(), r.pk.desc()).limit(most)).all()


def occurrences_due_at(conn: Connection, t: Tables, schedule_pk: int, instant: int) -> Sequence[Any]:
    """The slot series' occurrences of an instant, newest revision first (``ix_occurrence_history``)."""
    o = t.occurrences.c
    found = select(t.occurrences).where(o.schedule_pk == schedule_pk, o.due == instant, o.series == "slot")
    return conn.execute(found.order_by(o.revision_pk.desc())).all()


def extra_due_at(conn: Connection, t: Tables, schedule_pk: int, instant: int, most: int = 5) -> Sequence[Any]:
    """Backfills of an instant, and runs that were asked for then; newest first (``ix_occurrence_history``)."""
    o = t.occurrences.c
    found = select(t.occurrences).where(o.schedule_pk == schedule_pk, o.due == instant, o.series != "slot")
    return conn.execute(found.order_by(o.pk.desc()).limit(most)).all()


def ranges_around(conn: Connection, t: Tables, schedule_pk: int, instant: int) -> Sequence[Any]:
    """Ranges that reach over an instant (``ix_range_history``)."""
    r = t.ranges.c
    found = select(t.ranges).where(r.schedule_pk == schedule_pk, r.last_due >= instant, r.first_due <= instant)
    return conn.execute(found.order_by(r.last_due)).all()


def skips(conn: Connection, t: Tables, schedule_pk: int) -> Sequence[Any]:
    c = t.skips.c
    return conn.execute(select(t.skips).where(c.schedule_pk == schedule_pk).order_by(c.due)).all()


def all_owners(conn: Connection, t: Tables, most: int) -> Sequence[Any]:
    return conn.execute(select(t.owners).order_by(t.owners.c.epoch.desc()).limit(most)).all()


# --- the invariant ----------------------------------------------------------------------------------------------------


def gaps(conn: Connection, t: Tables, most: int, schedule_pk: int | None = None) -> Sequence[Any]:
    """Where a revision's occurrences and ranges do not tile ``[pruned before, next ordinal)``.

    (revision key, ordinal expected, ordinal found). Every piece has to begin where the one before it ended; a last
    piece stands for the cursor.
    """
    o, r, s, v = t.occurrences.c, t.ranges.c, t.schedules.c, t.revisions.c
    end = func.coalesce(v.final_ordinal, s.next_ordinal)

    def of(column: ColumnElement[int]) -> ColumnElement[bool]:
        return true() if schedule_pk is None else column == schedule_pk

    slots = select(o.revision_pk.label("revision"), o.ordinal.label("first"), o.ordinal.label("last"))
    slots = slots.where(o.series == "slot", of(o.schedule_pk))
    spans = select(r.revision_pk, r.first, r.last).where(of(r.schedule_pk))
    ends = select(v.pk, end, end).join_from(t.revisions, t.schedules, s.pk == v.schedule_pk)
    ends = ends.where(of(s.pk))
    pieces = slots.union_all(spans, ends).cte("pieces")
    p = pieces.c
    before = func.lag(p.last).over(partition_by=p.revision, order_by=(p.first, p.last))
    expected = func.coalesce(before + 1, v.pruned_before).label("expected")
    joined = select(p.revision, expected, p.first).join_from(pieces, t.revisions, v.pk == p.revision).cte("checked")
    found = select(joined.c.revision, joined.c.expected, joined.c.first).where(joined.c.first != joined.c.expected)
    return conn.execute(found.order_by(joined.c.revision, joined.c.first).limit(most)).all()


def revision_names(conn: Connection, t: Tables, dialect: str, pks: Sequence[int]) -> dict[int, tuple[str, str, int]]:
    """(namespace, id, number) by the revision's key."""
    s, v = t.schedules.c, t.revisions.c
    found = select(v.pk, s.namespace, s.id, v.number).join_from(t.revisions, t.schedules, s.pk == v.schedule_pk)
    rows = conn.execute(found.where(KEYS.holds(v.pk, dialect)), KEYS.given(pks, dialect))
    return {pk: (namespace, schedule_id, number) for pk, namespace, schedule_id, number in rows}


# --- what a doctor asks -----------------------------------------------------------------------------------------------


def overdue(conn: Connection, t: Tables, before: int, most: int) -> Sequence[Any]:
    """Due long ago and not judged. No index: a doctor may look at every schedule."""
    s = t.schedules.c
    found = select(s.namespace, s.id, s.next_due, s.attention).where(s.next_due < before)
    return conn.execute(found.order_by(s.next_due).limit(most)).all()


def overdue_work(conn: Connection, t: Tables, before: int, most: int) -> Sequence[Any]:
    """Ready long ago and not claimed, of schedules that may start (``ix_occurrence_run``)."""
    o, s = t.occurrences.c, t.schedules.c
    name = t.occurrences.name
    found = select(s.namespace, s.id, o.pk, o.run_at, o.executor).join_from(
        t.occurrences, t.schedules, s.pk == o.schedule_pk
    )
    found = found.where(text(f"{name}.state IN ('ready', 'retrying')"), o.run_at < before, s.state == "enabled")
    return conn.execute(found.order_by(o.run_at).limit(most)).all()


def stuck(conn: Connection, t: Tables, now: int, most: int) -> Sequence[Any]:
    """Claimed or running for an owner that is not alive (``ix_occurrence_epoch``)."""
    o, s, w = t.occurrences.c, t.schedules.c, t.owners.c
    found = select(s.namespace, s.id, o.pk, o.state, o.epoch, o.started_at)
    found = found.join_from(t.occurrences, t.schedules, s.pk == o.schedule_pk)
    found = found.outerjoin(t.owners, w.epoch == o.epoch).where(
        text(f"{t.occurrences.name}.{HELD}"), o.executor != ""
    )
    dead = or_(w.epoch.is_(None), w.state != "live", w.lease_until < now)
    return conn.execute(found.where(dead).limit(most)).all()


def double_runs(conn: Connection, t: Tables, most: int) -> Sequence[Any]:
    """Attempts that were recorded twice: one task started twice (``ix_attempt_occurrence``)."""
    a = t.attempts.c
    count = func.count().label("times")
    found = select(a.occurrence_pk, a.number, count).where(a.late == False)  # noqa: E712
    return conn.execute(found.group_by(a.occurrence_pk, a.number).having(count > 1).limit(most)).all()


def wrong_counts(conn: Connection, t: Tables, most: int) -> Sequence[Any]:
    """Schedules whose kept counts differ from what there is: (namespace, id, kept, open, kept skips, skips)."""
    o, s, k = t.occurrences.c, t.schedules.c, t.skips.c
    is_open = text(f"{t.occurrences.name}.{OPEN}")
    open_ = select(func.count()).where(o.schedule_pk == s.pk, is_open)
    marked = select(func.count()).where(k.schedule_pk == s.pk)
    a, b = open_.correlate(t.schedules).scalar_subquery(), marked.correlate(t.schedules).scalar_subquery()
    found = select(s.namespace, s.id, s.open_count, a.label("open"), s.skip_count, b.label("marked"))
    return conn.execute(found.where(or_(s.open_count != a, s.skip_count != b)).limit(most)).all()


def orphans(conn: Connection, t: Tables, most: int) -> Sequence[Any]:
    """Ranges that point at an occurrence which does not represent them."""
    o, r = t.occurrences.c, t.ranges.c
    found = select(r.pk, r.revision_pk, r.first, r.last).where(r.verdict == "represented")
    found = found.outerjoin_from(t.ranges, t.occurrences, o.pk == r.occurrence_pk)
    wrong = or_(o.pk.is_(None), o.represents_first > r.first, o.represents_last < r.last)
    return conn.execute(found.where(wrong).limit(most)).all()


def strays(conn: Connection, t: Tables, most: int) -> Sequence[Any]:
    """Rows whose schedule, revision or occurrence is not there, or is another's."""
    v, s = t.revisions.c, t.schedules.c
    for table in (t.occurrences, t.ranges):
        c = table.c
        found = select(c.pk, c.schedule_pk).outerjoin_from(table, t.revisions, v.pk == c.revision_pk)
        rows = conn.execute(found.where(or_(v.pk.is_(None), v.schedule_pk != c.schedule_pk)).limit(most)).all()
        if rows:
            return rows
    a, o = t.attempts.c, t.occurrences.c
    lost = select(a.pk, a.occurrence_pk).outerjoin_from(t.attempts, t.occurrences, o.pk == a.occurrence_pk)
    rows = conn.execute(lost.where(o.pk.is_(None)).limit(most)).all()
    if rows:
        return rows
    live = select(s.pk, s.revision_pk).outerjoin_from(t.schedules, t.revisions, v.pk == s.revision_pk)
    wrong = or_(v.pk.is_(None), v.schedule_pk != s.pk, v.number != s.revision)
    return conn.execute(live.where(wrong).limit(most)).all()


def restored(conn: Connection, t: Tables, namespace: str | None, schedule_id: str | None) -> list[int]:
    """Schedules that a restore paused, and that nobody has decided on."""
    s = t.schedules.c
    found = select(s.pk).where(s.state == "paused", s.reason == "restored").order_by(s.pk)
    if namespace is not None:
        found = found.where(s.namespace == namespace)
    if schedule_id is not None:
        found = found.where(s.id == schedule_id)
    return list(conn.execute(found).scalars().all())


def counts(conn: Connection, t: Tables) -> dict[str, int]:
    """How many schedules there are in each state."""
    s = t.schedules.c
    return {state: int(n) for state, n in conn.execute(select(s.state, func.count()).group_by(s.state))}
