"""``why ID INSTANT``: what one snapshot knows of an instant, for ``calsched.explain`` to put in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from calsched.app.look import Look
from calsched.errors import Refused
from calsched.explain import (
    AttemptFacts,
    BlackoutFacts,
    Explanation,
    Kind,
    OccurrenceFacts,
    RangeFacts,
    SkipFacts,
    WhyFacts,
    explain,
)
from calsched.planner import blackout_at
from calsched.stores import inspect
from calsched.stores.compiled import CompiledRevision
from calsched.stores.tables import reading
from calsched.stores.views import OccurrenceView, RangeView, RevisionView, ShowView
from calsched.triggers.base import Trigger


class Why(Look):
    def why(self, id: str, instant: int) -> tuple[Explanation, WhyFacts]:
        """The one verdict on an instant, in sentences and as facts. Raises UnknownSchedule."""
        facts = self.why_facts(id, instant)
        return explain(facts), facts

    def why_facts(self, id: str, instant: int) -> WhyFacts:
        store = self.store()
        with store.read() as conn:
            whole = inspect.show(store, conn, self.namespace, id, limit=1)
            made = store.compiled.get_many(conn, [revision.pk for revision in whole.revisions])
            look = _Look(
                whole, {pk: found for pk, found in made.items() if isinstance(found, CompiledRevision)}, instant
            )
            own = self._own_row(conn, whole, instant)
            covering = None if own is not None else self._covering(conn, whole, look)
            by = None
            if covering is not None and covering.occurrence_pk is not None:
                by = inspect.occurrence(store, conn, covering.occurrence_pk)
            hold = inspect.clock_of(store, conn).hold
            owned = self._owned(self._alive(conn))
        facts = look.facts(own, covering, by)
        return replace(facts, hold=_HOLDS.get(hold, hold) if hold else None, owner_lives=owned)

    def _own_row(self, conn: Any, whole: ShowView, instant: int) -> OccurrenceView | None:
        store = self.store()
        rows = reading.occurrences_due_at(conn, store.tables, whole.schedule.pk, instant)
        return inspect.occurrence(store, conn, rows[0].pk) if rows else None

    def _covering(self, conn: Any, whole: ShowView, look: _Look) -> RangeView | None:
        """The range around the instant, of the newest revision that has a slot there."""
        from calsched.stores import rows as row_views

        store = self.store()
        numbers = {revision.pk: revision.number for revision in whole.revisions}
        found = reading.ranges_around(conn, store.tables, whole.schedule.pk, look.instant)
        for row in sorted(found, key=lambda one: -numbers[one.revision_pk]):
            if look.is_slot(row.revision_pk):
                return row_views.range_(row, numbers[row.revision_pk])
        return None


_HOLDS = {
    "backward": "dispatch is on hold, because the wall clock was set back (`calsched clock`)",
    "forward": "dispatch is on hold, because the wall clock jumped forward (`calsched clock`)",
    "restored": "dispatch is on hold, because the store was restored from a backup (`calsched backlog`)",
}


class _Look:
    """One instant against one schedule's revisions."""

    def __init__(self, whole: ShowView, made: dict[int, CompiledRevision], instant: int) -> None:
        self.whole, self.made, self.instant = whole, made, instant
        self.view = whole.schedule

    def trigger(self, revision: RevisionView) -> Trigger:
        return self._compiled(revision).trigger

    def _compiled(self, revision: RevisionView) -> CompiledRevision:
        found = self.made.get(revision.pk)
        if found is None:
            problem = self.view.problem or "its stored definition cannot be loaded"
            raise Refused(f"{self.view.id!r}, revision {revision.number}: {problem}")
        return found

    def is_slot(self, revision_pk: int) -> bool:
        found = self.made.get(revision_pk)
        return found is not None and found.trigger.first_at_or_after(self.instant) == self.instant

    def facts(self, own: OccurrenceView | None, covering: RangeView | None, by: OccurrenceView | None) -> WhyFacts:
        if own is not None:
            facts = self._about(self._numbered(own.revision), "occurrence")
            return replace(facts, ordinal=own.ordinal, occurrence=occurrence_facts(own))
        if covering is not None:
            revision = self._numbered(covering.revision)
            ordinal = covering.first + self.trigger(revision).count(covering.first_due, self.instant) - 1
            kind: Kind = "skipped" if by is None else "represented"
            facts = self._about(revision, kind)
            shown = None if by is None else occurrence_facts(by)
            return replace(facts, ordinal=ordinal, range=range_facts(covering), occurrence=shown)
        return self._without_a_row(self._in_force())

    def _numbered(self, number: int) -> RevisionView:
        return next(revision for revision in self.whole.revisions if revision.number == number)

    def _in_force(self) -> RevisionView:
        """The revision that was, or will be, the live one at the instant; the first one where none was yet."""
        begun = [one for one in self.whole.revisions if one.created_at <= self.instant]
        chosen = max(begun, key=lambda one: one.number, default=None)
        return chosen or min(self.whole.revisions, key=lambda one: one.number)

    def _without_a_row(self, revision: RevisionView) -> WhyFacts:
        trigger = self.trigger(revision)
        reason = trigger.explain(self.instant)
        if reason is not None:
            return replace(
                self._about(revision, "notASlot"),
                not_a_slot=reason,
                local=None,
                previous_slot=trigger.last_at_or_before(self.instant),
                next_slot=trigger.first_at_or_after(self.instant),
            )
        kind, ordinal = self._kind(revision, trigger)
        return replace(self._about(revision, kind), ordinal=ordinal)

    def _kind(self, revision: RevisionView, trigger: Trigger) -> tuple[Kind, int | None]:
        view, instant = self.view, self.instant
        ordinal = self._ordinal(revision, trigger)
        if ordinal is not None and ordinal < revision.pruned_before:
            return "pruned", ordinal
        if ordinal is None or revision.number != view.revision or view.state in ("ended", "cancelled"):
            return "none", None
        if instant > self.whole.at:
            return "future", ordinal
        cursor = view.next_due if view.next_due is not None else view.held_due
        if cursor is not None and instant < cursor and ordinal < view.next_ordinal:
            return "none", None
        return "unjudged", ordinal

    def _ordinal(self, revision: RevisionView, trigger: Trigger) -> int | None:
        """Counted from the cursor where that is near, else from the revision's first slot; None before it."""
        if revision.first_due is None or self.instant < revision.first_due:
            return None
        view = self.view
        cursor = view.next_due if view.next_due is not None else view.held_due
        if revision.number == view.revision and cursor is not None and self.instant >= cursor:
            return view.next_ordinal + trigger.count(cursor, self.instant) - 1
        return trigger.count(revision.first_due, self.instant) - 1

    def _about(self, revision: RevisionView, kind: Kind) -> WhyFacts:
        view, compiled = self.view, self._compiled(revision)
        trigger, definition = compiled.trigger, compiled.definition
        is_slot = trigger.first_at_or_after(self.instant) == self.instant
        window = blackout_at(definition, self.instant)
        return WhyFacts(
            instant=self.instant,
            now=self.whole.at,
            definition=definition,
            kind=kind,
            revision=revision.number,
            live_revision=view.revision,
            state=view.state,
            reason=view.reason,
            note=view.note,
            changed_by=view.changed_by,
            changed_at=view.changed_at,
            resume_at=view.resume_at,
            zone=trigger.zone,
            local=trigger.local(self.instant) if is_slot else None,
            marks=trigger.marks(self.instant) if is_slot else (),
            skip=_skip(self.whole.skips, self.instant),
            blackout=None
            if window is None
            else BlackoutFacts(window.end, window.when_due == "skip", window.note or None),
            begun_at=revision.created_at,
            first_due=revision.first_due,
            used=view.used,
            attention=view.attention,
        )


def _skip(skips: Iterable[Any], instant: int) -> SkipFacts | None:
    return next((SkipFacts(one.principal, one.note) for one in skips if one.due == instant), None)


def occurrence_facts(view: OccurrenceView) -> OccurrenceFacts:
    return OccurrenceFacts(
        ordinal=view.ordinal,
        due=view.due,
        state=view.state,
        series=view.series,
        run_at=view.run_at,
        reason=view.reason,
        note=view.note,
        represents_first=view.represents_first,
        represents_last=view.represents_last,
        started_at=view.started_at,
        finished_at=view.finished_at,
        created_at=view.created_at,
        elapsed=view.elapsed,
        error_type=view.error_type,
        error=view.error,
        attempts=tuple(
            AttemptFacts(
                one.number,
                one.state,
                one.started_at,
                one.ended_at,
                one.elapsed,
                one.uncertain,
                one.late,
                one.error_type,
                one.error,
            )
            for one in view.attempts
        ),
    )


def range_facts(view: RangeView) -> RangeFacts:
    return RangeFacts(
        first=view.first,
        last=view.last,
        first_due=view.first_due,
        last_due=view.last_due,
        reason=view.reason,
        note=view.note,
        counted=view.counted,
        created_at=view.created_at,
    )
