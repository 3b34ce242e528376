"""Rows become views and definitions become rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from calsched.model import Definition, OccurrenceKey, Series, canonical_json
from calsched.stores.compiled import CompiledRevision, Unloadable
from calsched.stores.views import (
    AttemptView,
    DecisionView,
    OccurrenceView,
    RangeView,
    RevisionView,
    ScheduleView,
    SkipView,
)

_SCHEDULE = (
    "pk", "namespace", "id", "state", "reason", "note", "changed_by", "changed_at", "resume_at", "revision",
    "revision_pk", "state_version", "next_ordinal", "next_due", "held_due", "last_due", "last_local", "used",
    "open_count", "skip_count", "failures", "last_failure", "attention", "owner", "created_at",
)  # fmt: skip
_ATTEMPT = (
    "number", "epoch", "state", "started_at", "ended_at", "elapsed", "uncertain", "late", "error_type", "error",
    "traceback",
)  # fmt: skip
_OCCURRENCE = (
    "series", "ordinal", "due", "run_at", "state", "reason", "note", "represents_first", "represents_last",
    "represents_first_due", "attempt", "elapsed", "epoch", "executor", "deadline", "expires_at", "cancel",
    "created_at", "claimed_at", "started_at", "finished_at", "error_type", "error", "result",
)  # fmt: skip
_RANGE = (
    "first", "last", "first_due", "last_due", "verdict", "reason", "note", "occurrence_pk", "counted", "created_at",
)  # fmt: skip


def definition_text(definition: Definition) -> str:
    """The stored form of a definition."""
    return canonical_json(definition.material())


def definition_of(text: str) -> Definition:
    return Definition.from_material(json.loads(text))


def material_of(text: str) -> dict[str, Any]:
    material: dict[str, Any] = json.loads(text)
    return material


def schedule(row: Any, compiled: CompiledRevision | Unloadable | None = None, **more: Any) -> ScheduleView:
    values = {name: getattr(row, name) for name in _SCHEDULE}
    if isinstance(compiled, CompiledRevision):
        more = {"definition": compiled.definition, "digest": compiled.definition.digest(), **more}
    elif compiled is not None:
        more = {"problem": compiled.problem, **more}
    return ScheduleView(**values, **more)


def attempt(row: Any) -> AttemptView:
    return AttemptView(*(getattr(row, name) for name in _ATTEMPT))


def occurrence(
    row: Any, installation: str, schedule_: Any, number: int, attempts: Iterable[Any] = ()
) -> OccurrenceView:
    series: Series = row.series
    key = OccurrenceKey(installation, schedule_.namespace, schedule_.id, number, row.ordinal, series)
    values: dict[str, Any] = {name: getattr(row, name) for name in _OCCURRENCE}
    values["attempts"] = tuple(attempt(one) for one in attempts)
    return OccurrenceView(pk=row.pk, key=str(key), revision=number, **values)


def range_(row: Any, number: int) -> RangeView:
    return RangeView(row.pk, number, *(getattr(row, name) for name in _RANGE))


def decision(row: Any) -> DecisionView:
    evidence = json.loads(row.evidence) if row.evidence is not None else None
    return DecisionView(
        row.pk, row.namespace, row.id, row.revision, row.state_version, row.action, row.from_state, row.to_state,
        row.principal, row.at, row.note, evidence,
    )  # fmt: skip


def revision(row: Any) -> RevisionView:
    try:
        definition = definition_of(row.definition)
    except (ValueError, KeyError, TypeError):
        definition = None
    return RevisionView(
        row.pk, row.number, definition, row.digest, row.created_at, row.created_by, row.tzdata, row.first_due,
        row.final_ordinal, row.final_state, row.pruned_before,
    )  # fmt: skip


def skip(row: Any) -> SkipView:
    return SkipView(row.due, row.note, row.principal, row.created_at)


def by_key(rows: Iterable[Any], name: str) -> Mapping[int, list[Any]]:
    out: dict[int, list[Any]] = {}
    for row in rows:
        out.setdefault(getattr(row, name), []).append(row)
    return out
