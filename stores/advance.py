"""One pass over the schedules that are due: the planner judges, this commits.

Everything that a plan says about a schedule is written together, as compare-and-set on the next ordinal. A batch goes
in one savepoint; if the database refuses it, each schedule is tried in one of its own, so that a bad row holds up
nobody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from calsched.model import Claimed, Cursor, Definition, Pending, PlannedRange, TickPlan
from calsched.planner import LastRange, PlanInput, key_for, plan, run_at
from calsched.policies import lifecycle
from calsched.stores import damage, moves, ready, sweep
from calsched.stores.compiled import CompiledRevision
from calsched.stores.express import Express
from calsched.stores.finish import CutOff
from calsched.stores.pending import idle, pending_work
from calsched.stores.tables import occurrences, overdue, ranges, schedules, skips
from calsched.stores.tables.sql import is_refusal

if TYPE_CHECKING:
    from calsched.stores.engine import Store

#: After a refusal or a fault a schedule is looked at again this much later, so that it does not hold up the others.
LOOK_AGAIN = 5_000
_NUMBERS = frozenset({int, type(None)})


class Advanced(NamedTuple):
    """What one tick did to one schedule."""

    schedule_pk: int
    namespace: str
    id: str
    revision: int
    revision_pk: int
    plan: TickPlan
    state_version: int


class Failed(NamedTuple):
    """A schedule that could not be advanced; ``unloadable`` when its definition is the reason."""

    schedule_pk: int
    namespace: str
    id: str
    error: str
    unloadable: bool = False


@dataclass(slots=True)
class AdvanceReport:
    schedules: list[Advanced] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    more: bool = False  # something is due still: call again
    next_due: int | None = None  # when the next schedule becomes due, or the next pause is over
    resumed: list[int] = field(default_factory=list)  # schedules whose pause was over
    ended: dict[int, str] = field(default_factory=dict)  # idle occurrences that a limit ended, with the reason
    interrupted: list[CutOff] = field(default_factory=list)  # ready tasks whose host let its lease run out
    limited: bool = False  # what was planned has a deadline or an expiry
    begun: list[Claimed] = field(default_factory=list)  # started by way of ``express``, in this transaction


class _Job(NamedTuple):
    row: Any
    definition: Definition
    plan: TickPlan
    skips: Sequence[Any]  # rows: what an operator wants skipped


def advance(
    store: Store,
    conn: Connection,
    now: int,
    *,
    schedule_batch: int = 100,
    occurrence_batch: int = 100,
    only: Sequence[int] | None = None,
    express: Express | None = None,
) -> AdvanceReport:
    """Judge what is due at ``now``, oldest schedules first; and end pauses and waiting work whose time is over.

    With ``express``, what its owner can start is begun at once.
    """
    report = AdvanceReport()
    over = overdue.look(conn, store.tables, now)
    if only is None:
        if over.pause:
            report.resumed = sweep.resume_paused(store, conn, now)
        if over.limit:
            report.ended = sweep.end_overdue_work(store, conn, now)
        if over.lease:
            report.interrupted = ready.expire(store, conn, now)
    # an owner with older zone data than the store has seen leaves zone-based schedules to the others
    zoned = over.tzdata is None or store.tzdata >= over.tzdata
    due = schedules.due(conn, store.tables, store.dialect, now, schedule_batch, only=only, zoned=zoned)
    jobs = _plan_all(store, conn, due, now, occurrence_batch, report)
    _commit_all(store, conn, now, jobs, report, express)
    if express is not None:
        report.begun = express.begun(store, conn, now)
    _look_again(store, conn, now, due, jobs, report)
    report.limited = any(d.deadline is not None or d.expires_at is not None for _, d, _, _ in jobs)
    report.more = len(due) == schedule_batch or any(made.plan.more for made in report.schedules)
    report.next_due = schedules.next_look(conn, store.tables, now)
    return report


# --- judge ------------------------------------------------------------------------------------------------------------


def _plan_all(
    store: Store, conn: Connection, due: Sequence[Any], now: int, batch: int, report: AdvanceReport
) -> list[_Job]:
    if not due:
        return []
    compiled = store.compiled.get_many(conn, [row.revision_pk for row in due])
    usable = []
    for row in due:
        found = compiled.get(row.revision_pk)
        misread = damage.misread(row, schedules.ADVANCED_KINDS)
        if misread:
            problem = damage.told(store.tables.schedules.name, row.pk, misread)
        elif isinstance(found, CompiledRevision):
            usable.append((row, found))
            continue
        else:
            problem = found.problem if found is not None else "its revision is gone"
        # a pause computes with the numbers; where one of them is none, the schedule stays as it is
        pausable = not any(schedules.ADVANCED_KINDS[schedules.ADVANCED.index(name)] <= _NUMBERS for name in misread)
        report.failed.append(Failed(row.pk, row.namespace, row.id, problem, unloadable=pausable))
    pending = pending_work(store, conn, usable)
    marked = [row.pk for row, _ in usable if row.skip_count]
    wanted = skips.of(conn, store.tables, store.dialect, marked) if marked else {}
    inputs = [_input(store, conn, row, found, now, pending, wanted) for row, found in usable]
    judged = _judge(inputs, now, batch, report)
    _extend(store, conn, now, batch, judged)
    return [_Job(row, inp.definition, made, wanted.get(row.pk, ())) for row, inp, made in judged]


def _input(
    store: Store,
    conn: Connection,
    row: Any,
    found: CompiledRevision,
    now: int,
    pending: Mapping[int, Pending],
    wanted: Mapping[int, Sequence[Any]],
) -> tuple[Any, PlanInput]:
    (pk, _, _, _, _, _, _, ordinal, next_due, last_due, last_local, used, _, skipped, _) = row
    d = found.definition
    return row, PlanInput(
        d,
        found.trigger,
        Cursor(ordinal, next_due, last_due, last_local),
        used,
        pending.get(pk) or idle(d),
        None,
        frozenset(skip.due for skip in wanted.get(pk, ())) if skipped else frozenset(),
        _admitted(store, conn, pk, d, now) if d.rate_limit is not None else (),
    )


def _admitted(store: Store, conn: Connection, pk: int, d: Definition, now: int) -> tuple[int, ...]:
    assert d.rate_limit is not None
    return occurrences.admitted(conn, store.tables, pk, now - (d.rate_window or 0), d.rate_limit)


def _judge(
    inputs: Iterable[tuple[Any, PlanInput]], now: int, batch: int, report: AdvanceReport
) -> list[tuple[Any, PlanInput, TickPlan]]:
    judged = []
    for row, inp in inputs:
        try:
            made = plan(inp, now, occurrence_batch=batch)
        except Exception as error:  # a trigger may be anybody's code: it must not stop the others
            report.failed.append(Failed(row.pk, row.namespace, row.id, f"{type(error).__name__}: {error}"))
            continue
        judged.append((row, inp, made))
    return judged


def _extend(
    store: Store, conn: Connection, now: int, batch: int, judged: list[tuple[Any, PlanInput, TickPlan]]
) -> None:
    """Judge again where the plan begins with a skipped range that may extend the one before it.

    Looking that one up is left until here, because hardly any tick needs it.
    """
    again = {row.pk for row, inp, made in judged if inp.cursor.next_ordinal and _begins_skipped(inp, made)}
    if again:
        before = ranges.at_cursor(conn, store.tables, store.dialect, again)
        for at, (row, inp, _) in enumerate(judged):
            last = before.get(row.pk)
            if row.pk in again and last is not None and last.reason is not None:
                inp = inp._replace(last_range=LastRange(last.pk, last.last, last.reason))
                judged[at] = (row, inp, plan(inp, now, occurrence_batch=batch))


def _begins_skipped(inp: PlanInput, made: TickPlan) -> bool:
    return bool(made.ranges) and made.ranges[0].reason is not None and made.ranges[0].first == inp.cursor.next_ordinal


# --- commit -----------------------------------------------------------------------------------------------------------


def _commit_all(
    store: Store, conn: Connection, now: int, jobs: Sequence[_Job], report: AdvanceReport, express: Express | None
) -> None:
    jobs = [job for job in jobs if job.plan.cursor is not None]
    if not jobs:
        return
    try:
        with conn.begin_nested():
            report.schedules += _commit(store, conn, now, jobs, express)
    except _Lost:
        _commit_each(store, conn, now, jobs, report)
    except DBAPIError as error:
        if not is_refusal(error):
            raise
        _commit_each(store, conn, now, jobs, report)


def _commit_each(store: Store, conn: Connection, now: int, jobs: Sequence[_Job], report: AdvanceReport) -> None:
    for job in jobs:
        try:
            with conn.begin_nested():
                report.schedules += _commit(store, conn, now, [job])
        except _Lost:
            continue
        except DBAPIError as error:
            if not is_refusal(error):
                raise
            text = (str(error.orig).splitlines() or [""])[0]
            report.failed.append(Failed(job.row.pk, job.row.namespace, job.row.id, text))


class _Lost(Exception):
    """Another owner advanced a schedule in between: the plan is void."""


def _commit(
    store: Store, conn: Connection, now: int, jobs: Sequence[_Job], express: Express | None = None
) -> list[Advanced]:
    t = store.tables
    rows: list[tuple[Any, ...]] = []
    begun: list[tuple[Any, ...]] = []
    for job in jobs:
        _occurrence_rows(store, job, now, express, rows, begun)
    occurrences.add(conn, t, rows)
    occurrences.add_begun(conn, t, begun)
    _commit_ranges(store, conn, now, [job for job in jobs if job.plan.ranges])
    cursors = [_cursor_row(job) for job in jobs]
    if schedules.write_cursors(conn, t, cursors) != len(jobs):
        raise _Lost
    for job in jobs:
        if job.skips:
            _drop_skips(store, conn, job)
    _record_ends(store, conn, now, [job for job in jobs if job.plan.ended is not None])
    return [
        Advanced(row.pk, row.namespace, row.id, row.revision, row.revision_pk, made, row.state_version + 1)
        for row, _, made, _ in jobs
    ]


def _occurrence_rows(
    store: Store,
    job: _Job,
    now: int,
    express: Express | None,
    rows: list[tuple[Any, ...]],
    begun: list[tuple[Any, ...]],
) -> None:
    row, d, made, _ = job
    schedule, revision = row.pk, row.revision_pk
    executor = d.task.executor if d.task.kind == "python" else ""
    plain = not d.jitter and not d.blackouts
    for planned in made.occurrences:
        ordinal, due, state, slot, first, last, first_due = planned
        at = due if plain else _run_at(store, job, ordinal, due)
        deadline = None if d.deadline is None else due + d.deadline
        if express is not None and express.takes(row, d, planned, at, deadline, now):
            begun.append(
                (
                    schedule, revision, "slot", ordinal, due, due, at, "running", executor, d.expires_at, deadline,
                    slot, first, last, first_due, now, express.epoch, 1, now, now,
                )
            )  # fmt: skip
        else:
            rows.append(
                (
                    schedule, revision, "slot", ordinal, due, due, at, state, executor, d.expires_at, deadline, slot,
                    first, last, first_due, now,
                )
            )  # fmt: skip


def _run_at(store: Store, job: _Job, ordinal: int, due: int) -> int:
    row, d, made, _ = job
    later = [planned.due for planned in made.occurrences if planned.ordinal > ordinal]
    following = later[0] if later else made.cursor.next_due if made.cursor is not None else None
    return run_at(d, str(key_for(store.installation, d, row.revision, ordinal)), due, following)


def _cursor_row(job: _Job) -> tuple[Any, ...]:
    row, _, made, _ = job
    cursor = made.cursor
    assert cursor is not None
    state, reason = ("ended", made.ended) if made.ended is not None else ("enabled", None)
    due = None if made.ended is not None else cursor.next_due
    return (
        state, reason, row.state_version + 1, cursor.next_ordinal, due, due, cursor.last_due, cursor.last_local,
        row.used + made.used, row.open_count + len(made.occurrences), None, row.pk, row.state_version,
        row.next_ordinal,
    )  # fmt: skip


def _commit_ranges(store: Store, conn: Connection, now: int, jobs: Sequence[_Job]) -> None:
    if not jobs:
        return
    t = store.tables
    own = {job.row.revision_pk for job in jobs if any(r.represented_by is not None for r in job.plan.ranges)}
    keys = occurrences.just_written(conn, t, store.dialect, own, now) if own else {}
    new, longer, folds = [], [], []
    for row, _, made, wanted in jobs:
        for planned in made.ranges:
            by = _represented_by(row, planned, keys)
            if planned.extends is not None:
                longer.append((planned.last, planned.last_due, planned.extends))
            else:
                note = _note(planned, wanted) if planned.reason == "operator" else None
                new.append(ranges.row(row.pk, row.revision_pk, planned, by, now, note))
            if planned.folded_into is not None:
                folds.append((planned.last, planned.folded_into))
    ranges.add(conn, t, new)
    if ranges.extend(conn, t, longer) != len(longer) or occurrences.grow(conn, t, folds) != len(folds):
        raise _Lost


def _note(planned: PlannedRange, wanted: Sequence[Any]) -> str | None:
    """Who wanted these slots skipped, and why."""
    said = [skip for skip in wanted if planned.first_due <= skip.due <= planned.last_due]
    notes = {f"{skip.note} ({skip.principal})" if skip.note else skip.principal for skip in said}
    return "; ".join(sorted(notes)) or None


def _represented_by(row: Any, planned: PlannedRange, keys: Mapping[Any, int]) -> int | None:
    if planned.represented_by is not None:
        return keys[row.revision_pk, planned.represented_by]
    return planned.folded_into


def _drop_skips(store: Store, conn: Connection, job: _Job) -> None:
    cursor = job.plan.cursor
    assert cursor is not None
    left = skips.drop(conn, store.tables, job.row.pk, up_to=cursor.last_due)
    if left != job.row.skip_count:
        schedules.change(conn, store.tables, job.row.pk, {"skip_count": left})


def _record_ends(store: Store, conn: Connection, now: int, jobs: Sequence[_Job]) -> None:
    for job in jobs:
        move = lifecycle.move(job.row.state, "end")
        assert isinstance(move, lifecycle.Move)
        control = moves.Control(now, evidence={"reason": job.plan.ended})
        moves.decide(store, conn, job.row, "end", control, move.target, job.row.state_version + 1)


# --- what stays due ---------------------------------------------------------------------------------------------------


def _look_again(
    store: Store, conn: Connection, now: int, due: Sequence[Any], jobs: Sequence[_Job], report: AdvanceReport
) -> None:
    """Refused and faulty schedules stay due; they are looked at a little later, and say why."""
    moved = {made.schedule_pk for made in report.schedules}
    if len(moved) == len(due):
        return
    why = {job.row.pk: job.plan.refused for job in jobs if job.plan.refused is not None}
    why |= {failed.schedule_pk: failed.error for failed in report.failed}
    for row in due:
        if row.pk not in moved:
            note = why.get(row.pk)
            schedules.change(conn, store.tables, row.pk, _later(now, note))


def _later(now: int, note: str | None) -> dict[str, Any]:
    return {"look_at": now + LOOK_AGAIN, "attention": note[:255] if note else None}
