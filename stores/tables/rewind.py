"""Taking back what was judged in a future that never was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, and_, delete, false, func, not_, or_, select, text

from calsched.stores.schema import Tables
from calsched.stores.tables.sql import KEYS, update_many


def ahead_of(conn: Connection, t: Tables, now: int) -> list[int]:
    """Schedules whose last judged slot is later than now."""
    s = t.schedules.c
    return list(conn.execute(select(s.pk).where(s.last_due > now).order_by(s.pk)).scalars().all())


def _removable(t: Tables, revision_pk: int, now: int) -> Any:
    """Occurrences that were due later than now and have not started."""
    o = t.occurrences.c
    unstarted = and_(text("state IN ('waiting', 'ready', 'claimed')"), o.attempt == 0)
    return and_(o.revision_pk == revision_pk, o.series == "slot", o.due > now, unstarted)


def immovable(conn: Connection, t: Tables, revision_pk: int, now: int) -> int:
    """The newest ordinal whose verdict stays; -1 for none.

    What has started or ended stays, what was due by now stays, and so does a skipped range that began by now: it says
    what was decided at one moment. What an occurrence represents goes where the occurrence goes.
    """
    o, r = t.occurrences.c, t.ranges.c
    removable = _removable(t, revision_pk, now)
    runs = select(func.max(o.ordinal)).where(o.revision_pk == revision_pk, o.series == "slot", not_(removable))
    begun = select(func.max(o.represents_last)).where(o.revision_pk == revision_pk, o.series == "slot", o.attempt > 0)
    own = select(o.pk).where(removable)
    others = or_(r.occurrence_pk.is_(None), r.occurrence_pk.not_in(own))
    spans = select(func.max(r.last)).where(r.revision_pk == revision_pk, r.first_due <= now, others)
    found = [conn.execute(query).scalar() for query in (runs, begun, spans)]
    return max((int(one) for one in found if one is not None), default=-1)


def remove_after(conn: Connection, t: Tables, revision_pk: int, keep: int) -> tuple[int, int]:
    """Remove every verdict after an ordinal; how many occurrences went, and how many counted ranges."""
    o, r = t.occurrences.c, t.ranges.c
    late = and_(r.revision_pk == revision_pk, r.first > keep)
    counted = int(conn.execute(select(func.count()).where(late, r.counted)).scalar_one())
    shrunk = set(conn.execute(select(r.occurrence_pk).where(late, r.occurrence_pk.is_not(None))).scalars().all())
    conn.execute(delete(t.ranges).where(late))
    slots = and_(o.revision_pk == revision_pk, o.series == "slot", o.ordinal > keep)
    runs = conn.execute(delete(t.occurrences).where(slots)).rowcount
    _shrink(conn, t, shrunk)
    return runs, counted


def _shrink(conn: Connection, t: Tables, pks: Iterable[int]) -> None:
    """What folded into an occurrence in the false future is not represented by it any more."""
    o, r = t.occurrences.c, t.ranges.c
    wanted = list(pks) or [0]
    where = KEYS.holds(o.pk, conn.dialect.name) if wanted else false()
    last = select(func.max(r.last)).where(r.occurrence_pk == o.pk).correlate(t.occurrences).scalar_subquery()
    found = conn.execute(select(o.pk, o.ordinal, last).where(where), KEYS.given(wanted, conn.dialect.name)).all()
    update_many(conn, t.occurrences, ("represents_last",), [(max(row[1], row[2] or 0), row[0]) for row in found])


def last_kept(conn: Connection, t: Tables, revision_pk: int) -> tuple[int, int] | None:
    """(ordinal, due) of the newest slot that still has a verdict."""
    o, r = t.occurrences.c, t.ranges.c
    run = select(o.ordinal, o.due).where(o.revision_pk == revision_pk, o.series == "slot")
    span = select(r.last, r.last_due).where(r.revision_pk == revision_pk)
    newest = [
        conn.execute(run.order_by(o.ordinal.desc()).limit(1)).first(),
        conn.execute(span.order_by(r.last.desc()).limit(1)).first(),
    ]
    found = [(int(one[0]), int(one[1])) for one in newest if one is not None]
    return max(found, default=None)
