"""What retention reads and removes."""

from __future__ import annotations

from sqlalchemy import Connection, and_, delete, func, literal, select, text

from calsched.stores.schema import Tables

Row = tuple[int, int, int | None, bool]


def schedules(conn: Connection, t: Tables, namespace: str | None, schedule_id: str | None) -> list[int]:
    s = t.schedules.c
    found = select(s.pk).order_by(s.pk)
    if namespace is not None:
        found = found.where(s.namespace == namespace)
    if schedule_id is not None:
        found = found.where(s.id == schedule_id)
    return list(conn.execute(found).scalars().all())


def has_more(conn: Connection, t: Tables, schedule_pk: int, count: int) -> bool:
    """Whether a schedule has more verdicts than that (``ix_occurrence_history``, ``ix_range_history``)."""
    o, r = t.occurrences.c, t.ranges.c
    runs = select(o.pk).where(o.schedule_pk == schedule_pk).limit(count + 1)
    spans = select(r.pk).where(r.schedule_pk == schedule_pk).limit(count + 1)
    return len(conn.execute(runs).all()) + len(conn.execute(spans).all()) > count


def last_outcome(conn: Connection, t: Tables, schedule_pk: int) -> int | None:
    """The occurrence of the slot series that ended last, of those that ran (``ix_occurrence_history``)."""
    o = t.occurrences.c
    found = select(o.pk).where(o.schedule_pk == schedule_pk, o.series == "slot", o.attempt > 0)
    found = found.where(o.finished_at.is_not(None)).order_by(o.due.desc()).limit(1)
    pk: int | None = conn.execute(found).scalar()
    return pk


def oldest(conn: Connection, t: Tables, revision_pk: int, last_outcome: int | None, most: int) -> list[Row]:
    """(first, last, final at, is the last outcome) of a revision's oldest verdicts, in order of ``last``.

    By ``uq_occurrence`` and ``ix_range_last``.
    """
    o, r = t.occurrences.c, t.ranges.c
    runs = select(o.represents_first, o.represents_last, o.finished_at, o.pk)
    runs = runs.where(o.revision_pk == revision_pk, o.series == "slot").order_by(o.ordinal).limit(most)
    spans = select(r.first, r.last, r.created_at).where(r.revision_pk == revision_pk).order_by(r.last).limit(most)
    entries: list[Row] = [(a, b, at, pk == last_outcome) for a, b, at, pk in conn.execute(runs)]
    entries += [(a, b, at, False) for a, b, at in conn.execute(spans)]
    return sorted(entries, key=lambda entry: (entry[1], entry[0]))[:most]


def newer(conn: Connection, t: Tables, schedule_pk: int, revision_pk: int, most: int) -> int:
    """How many verdicts later revisions of a schedule have, counted up to a bound."""
    o, r = t.occurrences.c, t.ranges.c
    runs = select(o.pk).where(o.schedule_pk == schedule_pk, o.revision_pk > revision_pk, o.series == "slot").limit(most)
    spans = select(r.pk).where(r.schedule_pk == schedule_pk, r.revision_pk > revision_pk).limit(most)
    return min(most, len(conn.execute(runs).all()) + len(conn.execute(spans).all()))


def remove_below(conn: Connection, t: Tables, revision_pk: int, mark: int) -> tuple[int, int]:
    """Remove the verdicts below an ordinal; how many occurrences and ranges."""
    o, r, a = t.occurrences.c, t.ranges.c, t.attempts.c
    below = and_(o.revision_pk == revision_pk, o.series == text("'slot'"), o.ordinal < mark)
    conn.execute(delete(t.attempts).where(a.occurrence_pk.in_(select(o.pk).where(below))))
    runs = conn.execute(delete(t.occurrences).where(below)).rowcount
    spans = conn.execute(delete(t.ranges).where(r.revision_pk == revision_pk, r.last < mark)).rowcount
    return runs, spans


def extra_runs(conn: Connection, t: Tables, schedule_pk: int, before: int) -> int:
    """Remove extra runs that ended before an instant; how many."""
    o, a = t.occurrences.c, t.attempts.c
    old = and_(o.schedule_pk == schedule_pk, o.series != "slot", o.finished_at < before, o.due < before)
    conn.execute(delete(t.attempts).where(a.occurrence_pk.in_(select(o.pk).where(old))))
    return conn.execute(delete(t.occurrences).where(old)).rowcount


def forget_owners(conn: Connection, t: Tables, keep: int) -> int:
    """Remove owners that ended long ago; the newest epoch stays, and epochs are never given again."""
    w = t.owners.c
    newest = conn.execute(select(func.max(w.epoch))).scalar() or 0
    old = and_(w.epoch <= literal(newest - keep), w.state != "live")
    return conn.execute(delete(t.owners).where(old)).rowcount
