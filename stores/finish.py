"""Attempts have ended: what follows is the failure policy's to say and ours to commit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection

from calsched.model import Definition, Outcome
from calsched.policies import failure
from calsched.stores.compiled import CompiledRevision
from calsched.stores.settle import Change, Settled, Tally, settle
from calsched.stores.tables import attempts, occurrences, schedules
from calsched.stores.texts import MAX_ERROR, MAX_NAME, MAX_TRACEBACK, fit

if TYPE_CHECKING:
    from calsched.stores.engine import Store

_NO_RULES = failure.Rules()


class CutOff(NamedTuple):
    """A running attempt whose owner, or host, is gone: recorded as interrupted."""

    occurrence: int
    namespace: str
    id: str
    series: str
    ordinal: int
    due: int
    retry_at: int | None  # where its schedule says `onInterrupted: retry`
    paused: bool  # its schedule paused because of it


class FinishReport(NamedTuple):
    """What became of the reported attempts, by the occurrence's key."""

    final: dict[int, str]
    retrying: dict[int, int]  # when the next attempt may start
    late: set[int]  # fenced, final already, or gone: kept as evidence where there is something to attach it to
    paused: tuple[int, ...] = ()  # schedules that paused because of it
    promoted: int = 0


def finish(
    store: Store,
    conn: Connection,
    *,
    epoch: int,
    now: int,
    outcomes: Sequence[Outcome],
    lingering: Collection[int] = (),
) -> FinishReport:
    """Record how attempts ended, in the order given.

    ``lingering`` names occurrences whose worker could not be stopped and still runs: nothing of their schedules starts
    until ``let_go``. A report that does not come from the owner of the running attempt changes no outcome.
    """
    t, dialect = store.tables, store.dialect
    pks = [outcome.occurrence for outcome in outcomes]
    held = schedules.lock_of(conn, t, dialect, pks)
    rows = occurrences.rows(conn, t, dialect, pks)
    report, tally = FinishReport({}, {}, set()), Tally()
    evidence, own = _sort(outcomes, rows, held, epoch, now, report, tally)
    changes = decide(store, conn, now, own, held)
    attempts.add(conn, t, evidence)
    settled = settle(store, conn, now, changes, held, where="state = 'running'", tally=tally)
    _hold(store, conn, epoch, {rows[pk].schedule_pk for pk in lingering if pk in rows})
    return _told(report, changes, settled)


def _sort(
    outcomes: Sequence[Outcome],
    rows: Mapping[int, Any],
    held: Mapping[int, Any],
    epoch: int,
    now: int,
    report: FinishReport,
    tally: Tally,
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, Outcome]]]:
    """Attempts to record, and outcomes that need a decision.

    Most are successes of schedules that have no failures to forget: those go into the tally at once.
    """
    evidence: list[tuple[Any, ...]] = []
    own: list[tuple[Any, Outcome]] = []
    troubled = _troubled(outcomes, rows, held)
    for outcome in outcomes:
        row = rows.get(outcome.occurrence)
        if row is None:
            report.late.add(outcome.occurrence)
            continue
        (
            pk, schedule, _, series, _, _, run_at, state, _, _, _, slot, attempt, elapsed, owner, _, _, started, _, _,
        ) = row  # fmt: skip
        if state != "running" or owner != epoch or attempt != outcome.attempt or pk in report.final:
            report.late.add(pk)
            evidence.append(attempt_row(row, outcome, epoch, late=True))
        elif outcome.state == "succeeded" and schedule not in troubled:
            took, began = max(0, outcome.elapsed), outcome.started_at if outcome.started_at is not None else started
            evidence.append(
                (pk, attempt, epoch, "succeeded", began, outcome.ended_at, took, False, False, None, None, None)
            )  # fmt: skip
            tally.success(pk, run_at, elapsed + took, fit(outcome.result), now)
            tally.close(schedule, series, slot)
            report.final[pk] = "succeeded"
        else:
            report.final[pk] = outcome.state
            own.append((row, outcome))
            evidence.append(attempt_row(row, outcome, epoch))
    return evidence, own


def _troubled(outcomes: Sequence[Outcome], rows: Mapping[int, Any], held: Mapping[int, Any]) -> set[int]:
    """Schedules whose failure count may change."""
    troubled = {pk for pk, schedule in held.items() if schedule.failures}
    for outcome in outcomes:
        if outcome.state != "succeeded" and outcome.occurrence in rows:
            troubled.add(rows[outcome.occurrence].schedule_pk)
    return troubled


def _told(report: FinishReport, changes: Iterable[Change], settled: Settled) -> FinishReport:
    for change in changes:
        if change.state == "retrying":
            del report.final[change.pk]
            report.retrying[change.pk] = change.run_at
        else:
            report.final[change.pk] = change.state
    return report._replace(paused=settled.paused, promoted=settled.promoted)


def cut_off(rows: Iterable[Any], held: Mapping[int, Any], changes: Iterable[Change], settled: Settled) -> list[CutOff]:
    """What an owner tells of attempts that it found cut off; their rows, schedules and changes."""
    again = {change.pk: change.run_at for change in changes if change.state == "retrying"}
    told = []
    for row in rows:
        of = held[row.schedule_pk]
        paused = row.schedule_pk in settled.paused
        told.append(
            CutOff(row.pk, of.namespace, of.id, row.series, row.ordinal, row.due, again.get(row.pk), paused)
        )  # fmt: skip
    return told


def let_go(store: Store, conn: Connection, *, epoch: int, schedules_: Iterable[int]) -> None:
    """The workers that lingered have ended; their schedules may start again."""
    for pk in schedules_:
        schedules.release(conn, store.tables, pk, epoch)


def _hold(store: Store, conn: Connection, epoch: int, pks: Iterable[int]) -> None:
    for pk in pks:
        schedules.change(conn, store.tables, pk, {"held_by": epoch})


def decide(
    store: Store, conn: Connection, now: int, own: Sequence[tuple[Any, Outcome]], held: Mapping[int, Any]
) -> list[Change]:
    """Ask the failure policy about each attempt that did not succeed."""
    definitions = _definitions(store, conn, own)
    return [_change(store, conn, now, row, outcome, held[row.schedule_pk], definitions) for row, outcome in own]


def _definitions(store: Store, conn: Connection, own: Sequence[tuple[Any, Outcome]]) -> dict[int, Definition]:
    pks = {row.revision_pk for row, outcome in own if outcome.state != "succeeded"}
    found = store.compiled.get_many(conn, pks) if pks else {}
    return {pk: made.definition for pk, made in found.items() if isinstance(made, CompiledRevision)}


def _change(
    store: Store,
    conn: Connection,
    now: int,
    row: Any,
    outcome: Outcome,
    schedule: Any,
    definitions: Mapping[int, Definition],
) -> Change:
    elapsed = row.elapsed + max(0, outcome.elapsed)
    if outcome.state == "succeeded":
        return Change(
            row.pk, row.schedule_pk, row.series, row.active_slot, "succeeded", row.run_at, elapsed,
            result=fit(outcome.result), counted="succeeded",
        )  # fmt: skip
    definition = definitions.get(row.revision_pk)
    rules = _rules(definition) if definition is not None else _NO_RULES
    repeated = _repeated(store, conn, row, outcome) if rules.max_repeated_failures is not None else 1
    made = failure.Attempts(row.attempt, elapsed, repeated)
    limits = failure.Limits(schedule.state, row.deadline, row.expires_at)
    then = failure.after_attempt(rules, outcome.state, made, now, limits)
    kind, message = _error(outcome)
    if isinstance(then, failure.Retry):
        return Change(
            row.pk, row.schedule_pk, row.series, row.active_slot, "retrying", then.at, elapsed, error_type=kind,
            error=message,
        )  # fmt: skip
    return Change(
        row.pk, row.schedule_pk, row.series, row.active_slot, then.state, row.run_at, elapsed, reason=then.reason,
        result=fit(outcome.result), counted=then.state, clean_stop=outcome.clean_stop, error_type=kind, error=message,
    )  # fmt: skip


def _rules(d: Definition) -> failure.Rules:
    return failure.Rules(
        d.max_retries, d.max_attempts, d.max_repeated_failures, d.max_elapsed, d.retry_delay, d.retry_backoff,
        d.retry_max_delay, d.on_interrupted == "retry",
    )  # fmt: skip


def _repeated(store: Store, conn: Connection, row: Any, outcome: Outcome) -> int:
    """How many attempts in a row, this one included, failed with the same error."""
    same = _error(outcome)
    count = 1
    earlier = attempts.of(conn, store.tables, store.dialect, (row.pk,))
    for attempt in reversed([a for a in earlier if not a.late]):
        if (attempt.error_type, attempt.error) != same:
            break
        count += 1
    return count


def _error(outcome: Outcome) -> tuple[str | None, str | None]:
    if outcome.failure is None:
        return None, None
    return fit(outcome.failure.type, MAX_NAME), fit(outcome.failure.message, MAX_ERROR)


def attempt_row(row: Any, outcome: Outcome, epoch: int, *, late: bool = False) -> tuple[Any, ...]:
    """A row of attempts, as ``tables.attempts.COLUMNS`` has it."""
    kind, message = _error(outcome)
    started = outcome.started_at if outcome.started_at is not None else row.started_at
    told = outcome.failure.traceback if outcome.failure is not None else ""
    traceback = fit(told, MAX_TRACEBACK, keep_end=True) or None
    return (
        row.pk, outcome.attempt, epoch, outcome.state, started, outcome.ended_at, max(0, outcome.elapsed), False, late,
        kind, message, traceback,
    )  # fmt: skip


def refine(row: tuple[Any, ...], *, uncertain: bool) -> tuple[Any, ...]:
    """The same attempt, its time being an upper bound."""
    at = attempts.COLUMNS.index("uncertain")
    return (*row[:at], uncertain, *row[at + 1 :])
