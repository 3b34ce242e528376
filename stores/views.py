"""What readers get: frozen values without a connection behind them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from calsched.model import Definition


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule as it stands. ``definition`` is None where the stored one cannot be loaded; ``problem`` says why."""

    pk: int
    namespace: str
    id: str
    state: str
    reason: str | None
    note: str | None
    changed_by: str | None
    changed_at: int
    resume_at: int | None
    revision: int
    revision_pk: int
    state_version: int
    next_ordinal: int
    next_due: int | None  # None: no further slot, or not collecting
    held_due: int | None  # the next due of a schedule that does not collect
    last_due: int | None
    last_local: str | None
    used: int
    open_count: int
    skip_count: int
    failures: int
    last_failure: str | None
    attention: str | None
    owner: str | None
    created_at: int
    definition: Definition | None = None
    digest: str | None = None
    problem: str | None = None
    created: bool = False  # by the call that returned this


@dataclass(frozen=True, slots=True)
class AttemptView:
    number: int
    epoch: int | None
    state: str
    started_at: int | None
    ended_at: int
    elapsed: int
    uncertain: bool
    late: bool
    error_type: str | None
    error: str | None
    traceback: str | None


@dataclass(frozen=True, slots=True)
class OccurrenceView:
    pk: int
    key: str  # the occurrence key as text
    revision: int
    series: str
    ordinal: int
    due: int
    run_at: int
    state: str
    reason: str | None
    note: str | None
    represents_first: int
    represents_last: int
    represents_first_due: int
    attempt: int
    elapsed: int
    epoch: int | None
    executor: str
    deadline: int | None
    expires_at: int | None
    cancel: bool
    created_at: int
    claimed_at: int | None
    started_at: int | None
    finished_at: int | None
    error_type: str | None
    error: str | None
    result: str | None
    attempts: tuple[AttemptView, ...] = ()


@dataclass(frozen=True, slots=True)
class RangeView:
    pk: int
    revision: int
    first: int
    last: int
    first_due: int
    last_due: int
    verdict: str  # skipped or represented
    reason: str | None
    note: str | None
    occurrence_pk: int | None
    counted: bool
    created_at: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class DecisionView:
    pk: int
    namespace: str
    id: str
    revision: int | None
    state_version: int | None
    action: str
    from_state: str | None
    to_state: str | None
    principal: str
    at: int
    note: str | None
    evidence: Any


@dataclass(frozen=True, slots=True)
class RevisionView:
    pk: int
    number: int
    definition: Definition | None
    digest: str
    created_at: int
    created_by: str | None
    tzdata: str | None
    first_due: int | None
    final_ordinal: int | None
    final_state: str | None
    pruned_before: int


@dataclass(frozen=True, slots=True)
class SkipView:
    due: int
    note: str | None
    principal: str
    created_at: int


@dataclass(frozen=True, slots=True)
class OwnerView:
    epoch: int
    name: str
    host: str
    pid: int
    started_at: int
    heartbeat_at: int
    lease_until: int
    state: str
    tzdata: str | None
    version: str | None
    alive: bool  # live, and its lease has not run out


@dataclass(frozen=True, slots=True)
class ClockView:
    high_water: int | None
    hold: str | None
    hold_since: int | None
    hold_note: str | None


@dataclass(frozen=True, slots=True)
class HistoryView:
    """A page of verdicts, newest first: occurrences and ranges in one order, by their last due instant."""

    entries: tuple[OccurrenceView | RangeView, ...]
    next_page: str | None  # hand it in again for the entries that follow; None: that was all


@dataclass(frozen=True, slots=True)
class ShowView:
    """Everything about one schedule, from one snapshot."""

    schedule: ScheduleView
    revisions: tuple[RevisionView, ...]
    history: HistoryView
    pending: tuple[OccurrenceView, ...]
    skips: tuple[SkipView, ...]
    decisions: tuple[DecisionView, ...]
    at: int
    extra: dict[str, Any] = field(default_factory=dict)
