"""Why an instant has the verdict that it has: the facts, looked up. ``calsched.explain`` makes sentences of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection

from calsched.blackouts import blackout_at
from calsched.errors import Refused, UnknownSchedule
from calsched.explain import AttemptFacts, BlackoutFacts, OccurrenceFacts, RangeFacts, SkipFacts, WhyFacts
from calsched.policies import lease
from calsched.stores import moves
from calsched.stores.compiled import CompiledRevision
from calsched.stores.tables import (
    attempts,
    backfill,
    clock,
    decisions,
    occurrences,
    owners,
    reading,
    revisions,
    schedules,
)

if TYPE_CHECKING:
    from calsched.stores.engine import Store


def why(store: Store, conn: Connection, namespace: str, schedule_id: str, instant: int) -> WhyFacts:
    """All that is known of one instant and one schedule. Raises UnknownSchedule, and Refused for a definition that
    cannot be loaded."""
    row = schedules.by_id(conn, store.tables, namespace, schedule_id)
    if row is None:
        renamed = decisions.renamed_to(conn, store.tables, namespace, schedule_id)
        raise UnknownSchedule(namespace, schedule_id, renamed)
    found = _find(store, conn, row, instant)
    return _facts(store, conn, row, instant, found)


class _Found(NamedTuple):
    """Which revision an instant belongs to, and what was recorded of it there."""

    kind: Any
    revision: CompiledRevision
    ordinal: int | None = None
    occurrence: Any = None
    range: Any = None


def _find(store: Store, conn: Connection, row: Any, instant: int) -> _Found:
    recorded = reading.occurrences_due_at(conn, store.tables, row.pk, instant)
    if recorded:
        one = recorded[0]
        return _Found("occurrence", _loaded(store, conn, row, one.revision_pk), one.ordinal, one)
    for span in reading.ranges_around(conn, store.tables, row.pk, instant):
        revision = _loaded(store, conn, row, span.revision_pk)
        if revision.trigger.count(instant, instant):
            return _in_range(store, conn, revision, span, instant)
    return _unrecorded(store, conn, row, instant)


def _loaded(store: Store, conn: Connection, row: Any, revision_pk: int) -> CompiledRevision:
    found = store.compiled.get_many(conn, (revision_pk,)).get(revision_pk)
    if not isinstance(found, CompiledRevision):
        problem = found.problem if found is not None else "it is gone"
        raise Refused(f"the definition of {row.id!r} cannot be loaded, so its rule cannot be asked: {problem}")
    return found


def _in_range(store: Store, conn: Connection, revision: CompiledRevision, span: Any, instant: int) -> _Found:
    ordinal = span.first + revision.trigger.count(span.first_due, instant) - 1
    if span.occurrence_pk is None:
        return _Found("skipped", revision, ordinal, None, span)
    return _Found("represented", revision, ordinal, occurrences.whole(conn, store.tables, span.occurrence_pk), span)


def _unrecorded(store: Store, conn: Connection, row: Any, instant: int) -> _Found:
    """Nothing was recorded: it is no slot, or not judged yet, or not any more."""
    stored = revisions.of(conn, store.tables, row.pk)
    in_force = [one for one in stored if one.created_at <= instant]
    revision = _loaded(store, conn, row, (in_force[0] if in_force else stored[-1]).pk)
    if not revision.trigger.count(instant, instant):
        return _Found("notASlot", revision)
    kept = next(one for one in stored if one.pk == revision.pk)
    if kept.pruned_before and _is_pruned(store, conn, revision.pk, instant):
        return _Found("pruned", revision)
    if revision.pk != row.revision_pk:
        return _Found("none", revision)
    return _of_cursor(store, conn, row, revision, instant)


def _is_pruned(store: Store, conn: Connection, revision_pk: int, instant: int) -> bool:
    oldest = backfill.oldest_kept(conn, store.tables, revision_pk)
    return oldest is None or instant < oldest


def _of_cursor(store: Store, conn: Connection, row: Any, revision: CompiledRevision, instant: int) -> _Found:
    following = moves.cursor_of(row).next_due
    if following is None or instant < following or row.state in ("ended", "cancelled"):
        return _Found("none", revision)
    ordinal = row.next_ordinal + revision.trigger.count(following, instant) - 1
    return _Found("future" if instant > store.now(conn) else "unjudged", revision, ordinal)


# --- facts ------------------------------------------------------------------------------------------------------------


def _facts(store: Store, conn: Connection, row: Any, instant: int, found: _Found) -> WhyFacts:
    definition, trigger = found.revision.definition, found.revision.trigger
    stored = revisions.by_pk(conn, store.tables, found.revision.pk)
    now = store.now(conn)
    is_slot = found.kind != "notASlot"
    return WhyFacts(
        instant=instant,
        now=now,
        definition=definition,
        kind=found.kind,
        revision=found.revision.number,
        live_revision=row.revision,
        state=row.state,
        reason=row.reason,
        note=row.note,
        changed_by=row.changed_by,
        changed_at=row.changed_at,
        resume_at=row.resume_at,
        zone=trigger.zone,
        local=trigger.local(instant) if is_slot else None,
        ordinal=found.ordinal,
        not_a_slot=None if is_slot else trigger.explain(instant),
        marks=trigger.marks(instant) if is_slot else (),
        previous_slot=trigger.last_at_or_before(instant - 1),
        next_slot=trigger.next_after(instant),
        occurrence=None if found.occurrence is None else _occurrence(store, conn, found.occurrence),
        range=_range(found.range),
        skip=_skip(store, conn, row, instant),
        blackout=_blackout(definition, instant),
        begun_at=stored.created_at,
        first_due=stored.first_due,
        ended_at_ordinal=stored.final_ordinal,
        used=row.used,
        attention=row.attention,
        hold=clock.hold(conn, store.tables),
        owner_lives=_owner_lives(store, conn, now),
        extra=tuple(_occurrence(store, conn, one) for one in reading.extra_due_at(conn, store.tables, row.pk, instant)),
    )


def _occurrence(store: Store, conn: Connection, row: Any) -> OccurrenceFacts:
    made = attempts.of(conn, store.tables, store.dialect, (row.pk,))
    return OccurrenceFacts(
        ordinal=row.ordinal,
        due=row.due,
        state=row.state,
        series=row.series,
        run_at=row.run_at,
        reason=row.reason,
        note=row.note,
        represents_first=row.represents_first,
        represents_last=row.represents_last,
        started_at=row.started_at,
        finished_at=row.finished_at,
        created_at=row.created_at,
        elapsed=row.elapsed,
        error_type=row.error_type,
        error=row.error,
        attempts=tuple(_attempt(one) for one in made),
    )


def _attempt(row: Any) -> AttemptFacts:
    return AttemptFacts(
        row.number, row.state, row.started_at, row.ended_at, row.elapsed, row.uncertain, row.late, row.error_type,
        row.error,
    )  # fmt: skip


def _range(row: Any) -> RangeFacts | None:
    if row is None:
        return None
    return RangeFacts(
        first=row.first,
        last=row.last,
        first_due=row.first_due,
        last_due=row.last_due,
        reason=row.reason,
        note=row.note,
        counted=row.counted,
        created_at=row.created_at,
    )


def _skip(store: Store, conn: Connection, row: Any, instant: int) -> SkipFacts | None:
    if not row.skip_count:
        return None
    found = [one for one in reading.skips(conn, store.tables, row.pk) if one.due == instant]
    return SkipFacts(found[0].principal, found[0].note) if found else None


def _blackout(definition: Any, instant: int) -> BlackoutFacts | None:
    window = blackout_at(definition, instant) if definition.blackouts else None
    return None if window is None else BlackoutFacts(window.end, window.when_due == "skip", window.note or None)


def _owner_lives(store: Store, conn: Connection, now: int) -> bool:
    found = owners.live(conn, store.tables)
    return any(lease.is_alive(owner.state, owner.lease_until, now) for owner in found)
