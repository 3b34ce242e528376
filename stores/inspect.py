"""Reading: lists, one schedule whole, its history page by page, and what a doctor asks. Each call reads one snapshot
where it is given one (``store.read()``)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection

from calsched.errors import InvalidInput, UnknownSchedule
from calsched.policies import lease
from calsched.stores import rows
from calsched.stores.tables import attempts, clock, decisions, occurrences, reading, revisions, schedules
from calsched.stores.views import (
    ClockView,
    DecisionView,
    HistoryView,
    OccurrenceView,
    OwnerView,
    RangeView,
    ScheduleView,
    ShowView,
)

if TYPE_CHECKING:
    from calsched.stores.engine import Store


class Page(NamedTuple):
    schedules: tuple[ScheduleView, ...]
    next_page: str | None  # hand it in again for those that follow


def list_schedules(
    store: Store,
    conn: Connection,
    *,
    namespace: str | None = None,
    states: Sequence[str] | None = None,
    owner: str | None = None,
    attention: bool = False,
    page: str | None = None,
    limit: int = 100,
) -> Page:
    """Schedules by namespace and id. ``attention``: only those that a person should look at."""
    after = None if page is None else _place(page, 2)
    found = reading.schedules(
        conn, store.tables, namespace=namespace, states=states, owner=owner, attention=attention,
        after=None if after is None else (str(after[0]), str(after[1])), most=limit + 1,
    )  # fmt: skip
    shown = found[:limit]
    compiled = store.compiled.get_many(conn, [row.revision_pk for row in shown])
    more = json.dumps([shown[-1].namespace, shown[-1].id]) if len(found) > limit else None
    return Page(tuple(rows.schedule(row, compiled.get(row.revision_pk)) for row in shown), more)


def _place(page: str, length: int) -> list[Any]:
    try:
        place = json.loads(page)
    except ValueError:
        place = None
    if not isinstance(place, list) or len(place) != length:
        raise InvalidInput(f"page: expected what an earlier answer gave as its next page, got {page[:80]!r}")
    return place


def get(store: Store, conn: Connection, namespace: str, schedule_id: str) -> ScheduleView:
    """One schedule as it stands. Raises UnknownSchedule."""
    row = _row(store, conn, namespace, schedule_id)
    return rows.schedule(row, store.compiled.get_many(conn, (row.revision_pk,)).get(row.revision_pk))


def _row(store: Store, conn: Connection, namespace: str, schedule_id: str) -> Any:
    row = schedules.by_id(conn, store.tables, namespace, schedule_id)
    if row is None:
        renamed = decisions.renamed_to(conn, store.tables, namespace, schedule_id)
        raise UnknownSchedule(namespace, schedule_id, renamed)
    return row


def show(
    store: Store, conn: Connection, namespace: str, schedule_id: str, *, page: str | None = None, limit: int = 50
) -> ShowView:
    """Everything about one schedule: revisions, pending work, one page of history, skips, decisions.

    Of pending work the oldest ``limit``; the schedule's ``open_count`` says how much there is.
    """
    row = _row(store, conn, namespace, schedule_id)
    found = revisions.of(conn, store.tables, row.pk)
    numbers = {revision.pk: revision.number for revision in found}
    pending = occurrences.open_of(conn, store.tables, row.pk, limit)
    return ShowView(
        rows.schedule(row, store.compiled.get_many(conn, (row.revision_pk,)).get(row.revision_pk)),
        tuple(rows.revision(revision) for revision in found),
        _history(store, conn, row, numbers, page, limit),
        _occurrences(store, conn, row, numbers, pending),
        tuple(rows.skip(skip) for skip in reading.skips(conn, store.tables, row.pk)),
        tuple(rows.decision(one) for one in decisions.of(conn, store.tables, namespace, schedule_id)),
        store.now(conn),
    )


def history(
    store: Store, conn: Connection, namespace: str, schedule_id: str, *, page: str | None = None, limit: int = 50
) -> HistoryView:
    """Verdicts, newest first: occurrences and ranges in one order."""
    row = _row(store, conn, namespace, schedule_id)
    numbers = {revision.pk: revision.number for revision in revisions.of(conn, store.tables, row.pk)}
    return _history(store, conn, row, numbers, page, limit)


def decisions_of(
    store: Store, conn: Connection, namespace: str, schedule_id: str, *, before: int | None = None, limit: int = 100
) -> tuple[DecisionView, ...]:
    """Newest first; ``before`` is the key of the last one that was seen. They are there after a deletion, too."""
    found = decisions.of(conn, store.tables, namespace, schedule_id, before=before, most=limit)
    return tuple(rows.decision(row) for row in found)


def occurrence(store: Store, conn: Connection, pk: int) -> OccurrenceView | None:
    """One occurrence by its key in the database."""
    row = occurrences.whole(conn, store.tables, pk)
    if row is None:
        return None
    schedule = schedules.by_pk(conn, store.tables, row.schedule_pk)
    number = revisions.by_pk(conn, store.tables, row.revision_pk).number
    return _occurrences(store, conn, schedule, {row.revision_pk: number}, (row,))[0]


# --- history in one order: by the last due instant, an occurrence before a range, the newer key first -----------------

_RANGE, _OCCURRENCE = 0, 1


def _history(
    store: Store, conn: Connection, row: Any, numbers: Mapping[int, int], page: str | None, limit: int
) -> HistoryView:
    place = None if page is None else _place(page, 3)
    t = store.tables
    runs = reading.occurrences_before(conn, t, row.pk, _start(place, _OCCURRENCE), limit + 1)
    spans = reading.ranges_before(conn, t, row.pk, _start(place, _RANGE), limit + 1)
    merged = [(one.due, _OCCURRENCE, one.pk, one) for one in runs] + [(r.last_due, _RANGE, r.pk, r) for r in spans]
    merged.sort(key=lambda entry: entry[:3], reverse=True)
    shown = merged[:limit]
    views = {o.pk: o for o in _occurrences(store, conn, row, numbers, [e[3] for e in shown if e[1] == _OCCURRENCE])}
    entries: list[OccurrenceView | RangeView] = [
        views[pk] if kind == _OCCURRENCE else rows.range_(one, numbers[one.revision_pk]) for _, kind, pk, one in shown
    ]
    more = json.dumps(list(shown[-1][:3])) if len(merged) > limit else None
    return HistoryView(tuple(entries), more)


def _start(place: list[Any] | None, kind: int) -> tuple[int, int | None] | None:
    """Where a table's part of the next page begins."""
    if place is None:
        return None
    due, last_kind, pk = (int(value) for value in place)
    if kind == last_kind:
        return due, pk
    return (due, None) if kind < last_kind else (due - 1, None)


def _occurrences(
    store: Store, conn: Connection, row: Any, numbers: Mapping[int, int], found: Sequence[Any]
) -> tuple[OccurrenceView, ...]:
    if not found:
        return ()
    made = rows.by_key(attempts.of(conn, store.tables, store.dialect, [one.pk for one in found]), "occurrence_pk")
    return tuple(
        rows.occurrence(one, store.installation, row, numbers[one.revision_pk], made.get(one.pk, ())) for one in found
    )


# --- owners and the clock ---------------------------------------------------------------------------------------------


def owners(store: Store, conn: Connection, *, limit: int = 50) -> tuple[OwnerView, ...]:
    """Newest first."""
    now = store.now(conn)
    return tuple(
        OwnerView(
            row.epoch, row.name, row.host, row.pid, row.started_at, row.heartbeat_at, row.lease_until, row.state,
            row.tzdata, row.version, lease.is_alive(row.state, row.lease_until, now),
        )
        for row in reading.all_owners(conn, store.tables, limit)
    )  # fmt: skip


def clock_of(store: Store, conn: Connection) -> ClockView:
    row = clock.row(conn, store.tables)
    return (
        ClockView(None, None, None, None)
        if row is None
        else ClockView(row.high_water, row.hold, row.hold_since, row.hold_note)
    )


# --- what a doctor asks -----------------------------------------------------------------------------------------------


class Gap(NamedTuple):
    """A place where slots have no verdict (``found`` is past ``expected``), or more than one."""

    namespace: str
    id: str
    revision: int
    expected: int
    found: int


def tiling(store: Store, conn: Connection, *, schedule_pk: int | None = None, limit: int = 100) -> list[Gap]:
    """Violations of the invariant: every slot of every revision has exactly one verdict. Empty when it holds."""
    found = reading.gaps(conn, store.tables, limit, schedule_pk)
    names = reading.revision_names(conn, store.tables, store.dialect, [row[0] for row in found]) if found else {}
    return [Gap(*name, expected=e, found=f) for pk, e, f in found for name in (names[pk],)]


class Finding(NamedTuple):
    """Something that is not as it should be."""

    kind: str
    message: str
    facts: dict[str, Any]


def doctor(store: Store, conn: Connection, *, slack: int = 60_000, limit: int = 100) -> list[Finding]:
    """Overdue schedules and work, stuck claims, slots without a verdict, double runs, wrong counts, holds."""
    t, now = store.tables, store.now(conn)
    checks: list[tuple[str, str, Sequence[Any]]] = [
        ("tiling", "slots without exactly one verdict", tiling(store, conn, limit=limit)),
        ("overdue", "due for long, and not judged", reading.overdue(conn, t, now - slack, limit)),
        ("overdueWork", "ready for long, and not started", reading.overdue_work(conn, t, now - slack, limit)),
        ("stuck", "held by an owner that is not alive", reading.stuck(conn, t, now, limit)),
        ("doubleRun", "an attempt that was recorded twice", reading.double_runs(conn, t, limit)),
        ("counts", "kept counts differ from what there is", reading.wrong_counts(conn, t, limit)),
        ("stray", "a row whose schedule, revision or occurrence is not there", reading.strays(conn, t, limit)),
        ("orphanRange", "represented by an occurrence that does not say so", reading.orphans(conn, t, limit)),
    ]
    found = [Finding(kind, message, dict(row._asdict())) for kind, message, some in checks for row in some]
    return found + _of_the_clock(store, conn)


def _of_the_clock(store: Store, conn: Connection) -> list[Finding]:
    seen = clock_of(store, conn)
    if seen.hold is None:
        return []
    return [Finding("hold", f"nothing is dispatched: {seen.hold} ({seen.hold_note or 'no note'})", {"hold": seen.hold})]


def counts(store: Store, conn: Connection) -> dict[str, int]:
    """How many schedules there are in each state."""
    return reading.counts(conn, store.tables)


def attention(store: Store, conn: Connection, *, limit: int = 100) -> tuple[ScheduleView, ...]:
    """Schedules that a person should look at: paused by themselves, refused, faulty."""
    return list_schedules(store, conn, attention=True, limit=limit).schedules
