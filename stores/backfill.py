"""Runs for due instants that are past: found on a snapshot, written in pages, in a series of their own.

A backfill neither blocks the slots nor is blocked by them: its active slots lie below zero, and its ordinals are its
own, so it can never take a slot's verdict or give it one. It may start what the schedule's own work may start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack

from sqlalchemy import Connection

from calsched.clock import LAST_INSTANT, to_rfc3339
from calsched.errors import InvalidInput, MoveNotAllowed, Problem, Refused, UnknownSchedule
from calsched.model import OPEN_STATES, digest
from calsched.stores import moves, wake
from calsched.stores.compiled import CompiledRevision
from calsched.stores.control import Ask, by, locked, view
from calsched.stores.extra import opened, refuse_extra, row_of
from calsched.stores.settle import fill_backfill
from calsched.stores.tables import backfill as rows
from calsched.stores.tables import occurrences, revisions, schedules
from calsched.stores.views import ScheduleView
from calsched.words import counted

if TYPE_CHECKING:
    from calsched.stores.engine import Store

#: Due instants of one backfill.
MOST = 10_000
#: Occurrences that are written in one transaction.
PAGE = 500
#: At once, of all backfills of a schedule together.
MOST_CONCURRENT = 1_000

Only = Literal["all", "missing", "failed"]
_FAILED = frozenset({"failed", "timed_out", "interrupted"})
#: Verdicts that say that nothing ran.
_NOTHING = frozenset({"none", "skipped", "cancelled"})


# --- which due instants -----------------------------------------------------------------------------------------------


class Candidate(NamedTuple):
    """A past due instant, and what became of it: the state of its last run, ``represented``, ``skipped``, ``none``.

    ``represented``: another occurrence stood for it, and ran. ``none``: no revision ever judged it.
    """

    due: int
    verdict: str


class Candidates(NamedTuple):
    """What a backfill would run, oldest first, and how many due instants it leaves out, by verdict.

    Left out as ``underway`` is what another backfill will run, as ``unjudged`` what the schedule will judge itself.
    """

    revision: int
    found: tuple[Candidate, ...]
    left_out: Mapping[str, int]


def candidates(
    store: Store,
    conn: Connection,
    namespace: str,
    schedule_id: str,
    first: int,
    last: int,
    *,
    only: Only = "all",
    limit: int = MOST,
) -> Candidates:
    """The due instants of the live revision's rule in ``[first, last]`` that are past and fit. Nothing is written.

    ``missing``: nothing ran there. ``failed``: the last run there failed, timed out or was interrupted. Raises
    InvalidInput for more than ``limit`` due instants, Refused below the watermark of pruned history.
    """
    row = schedules.by_id(conn, store.tables, namespace, schedule_id)
    if row is None:
        raise UnknownSchedule(namespace, schedule_id)
    trigger = store.compiled.get(conn, row.revision_pk).trigger
    last = min(last, store.now(conn))
    _refuse_pruned(store, conn, row, first, last)
    dues = list(islice(trigger.between(first, last), limit + 1))
    if len(dues) > limit:
        raise InvalidInput([Problem(f"more than {limit:,} due instants lie in this span", "from", hint="take a part")])
    cursor = moves.cursor_of(row).next_due
    judged = [due for due in dues if cursor is None or due < cursor]
    verdicts = _Verdicts(store, conn, row.pk, judged)
    found, left_out = [], Counter({"unjudged": len(dues) - len(judged)})
    for due in judged:
        verdict = verdicts.of(due)
        if _fits(verdict, only):
            found.append(Candidate(due, verdict))
        else:
            left_out[verdict] += 1
    return Candidates(row.revision, tuple(found), {name: count for name, count in left_out.items() if count})


def _fits(verdict: str, only: Only) -> bool:
    if verdict == "underway":
        return False
    return only == "all" or verdict in (_NOTHING if only == "missing" else _FAILED)


def _refuse_pruned(store: Store, conn: Connection, row: Any, first: int, last: int) -> None:
    following = (row.last_due or 0) + 1
    for revision in revisions.of(conn, store.tables, row.pk):  # newest first
        begun = revision.first_due
        if revision.pruned_before and begun is not None:
            kept = rows.oldest_kept(conn, store.tables, revision.pk)
            end = following if kept is None else kept
            if first < end and last >= begun:
                raise Refused(
                    f"the history of {row.id!r}, revision {revision.number}, before {to_rfc3339(end)} has been pruned:"
                    " what ran there is not known any more; begin later"
                )
        following = begun if begun is not None else following


class _Verdicts:
    """What became of due instants, by all revisions of a schedule and by its backfills."""

    def __init__(self, store: Store, conn: Connection, schedule_pk: int, dues: Sequence[int]) -> None:
        self._slots: dict[int, str] = {}
        self._backfills: dict[int, str] = {}
        self._ranges: list[tuple[int, int, str]] = []
        if not dues:
            return
        for chunk in pages(dues, PAGE):
            for series, due, state in rows.runs_at(conn, store.tables, store.dialect, schedule_pk, chunk):
                (self._slots if series == "slot" else self._backfills)[due] = state
        self._ranges = rows.spans(conn, store.tables, schedule_pk, dues[0], dues[-1])
        self._at = 0

    def of(self, due: int) -> str:
        """Asked in ascending order."""
        backfilled = self._backfills.get(due, "none")
        if backfilled in OPEN_STATES:
            return "underway"
        if backfilled not in _NOTHING:
            return backfilled
        return self._slots.get(due) or self._in_a_range(due)

    def _in_a_range(self, due: int) -> str:
        while self._at < len(self._ranges) and self._ranges[self._at][1] < due:
            self._at += 1
        if self._at == len(self._ranges) or self._ranges[self._at][0] > due:
            return "none"
        stood_for_it = self._ranges[self._at][2]
        return "skipped" if stood_for_it in _NOTHING else "represented"


def pages(dues: Sequence[int], size: int = PAGE) -> Iterator[Sequence[int]]:
    for start in range(0, len(dues), size):
        yield dues[start : start + size]


# --- writing them -----------------------------------------------------------------------------------------------------


class Begun(NamedTuple):
    """A backfill of which a first part is written; ``more`` goes on with it."""

    schedule: ScheduleView
    decision: int
    max_concurrent: int
    made: int


def backfill(
    store: Store,
    conn: Connection,
    namespace: str,
    schedule_id: str,
    dues: Sequence[int],
    *,
    max_concurrent: int = 1,
    newest_first: bool = False,
    most: int | None = None,
    **ask: Unpack[Ask],
) -> Begun:
    """Occurrences for past due instants of the live revision, ``max_concurrent`` of its backfills at once.

    One decision for all; only the first ``most`` are written now. Raises InvalidInput for an instant that is no slot or
    not past, MoveNotAllowed where nothing of the schedule would start.
    """
    row = locked(store, conn, namespace, schedule_id, ask)
    compiled = _startable(store, conn, row, ask["now"])
    ordered = sorted(set(dues), reverse=newest_first)
    page = ordered[:most]
    _refuse_bad(compiled, page, ask["now"], max_concurrent, len(ordered))
    arguments = {"dues": digest(ordered), "maxConcurrent": max_concurrent, "newestFirst": newest_first}
    ends = {"first": to_rfc3339(min(ordered)), "last": to_rfc3339(max(ordered))}
    evidence = {"series": "backfill", "count": len(ordered), "maxConcurrent": max_concurrent, **ends}
    control = by(store, conn, row, ask, "backfill", arguments=arguments, evidence=evidence)
    version = _write(store, conn, row, compiled, page, max_concurrent, control.now)
    moves.decide(store, conn, row, "backfill", control, row.state, version)
    wake.notify(store, conn)
    decision = rows.newest_decision(conn, store.tables, namespace, schedule_id)
    return Begun(view(store, conn, row.pk), decision, max_concurrent, len(page))


def more(store: Store, conn: Connection, begun: Begun, dues: Sequence[int], now: int) -> Begun:
    """The next page of a backfill, in the order of its instants.

    Raises Refused where it was cancelled meanwhile, or its schedule revised or stopped; what is written stays.
    """
    seen = begun.schedule
    row = schedules.by_id(conn, store.tables, seen.namespace, seen.id, locking=True)
    stopped = f"the backfill of {seen.id!r} ended after {counted(begun.made, 'occurrence')}"
    if row is None or row.revision_pk != seen.revision_pk:
        raise Refused(f"{stopped}: the schedule has another revision now")
    if rows.cancelled_since(conn, store.tables, seen.namespace, seen.id, begun.decision):
        raise Refused(f"{stopped}: it was cancelled")
    try:
        compiled = _startable(store, conn, row, now)
    except Refused as error:
        raise Refused(f"{stopped}: {error}") from None
    _refuse_bad(compiled, dues, now, begun.max_concurrent, len(dues))
    _write(store, conn, row, compiled, dues, begun.max_concurrent, now)
    wake.notify(store, conn)
    return begun._replace(made=begun.made + len(dues))


def _startable(store: Store, conn: Connection, row: Any, now: int) -> CompiledRevision:
    refuse_extra(row, "backfill")
    compiled = store.compiled.get(conn, row.revision_pk)
    expires_at = compiled.definition.expires_at
    if expires_at is not None and now > expires_at:
        raise MoveNotAllowed(row.id, row.state, "backfill", f"it expired at {to_rfc3339(expires_at)}")
    return compiled


def _refuse_bad(compiled: CompiledRevision, dues: Iterable[int], now: int, max_concurrent: int, count: int) -> None:
    problems = []
    if not 1 <= max_concurrent <= MOST_CONCURRENT:
        expected = f"expected 1 to {MOST_CONCURRENT:,}, got {max_concurrent}"
        problems.append(Problem(expected, "maxConcurrent"))
    if not 1 <= count <= MOST:
        problems.append(Problem(f"expected 1 to {MOST:,} due instants, got {count:,}", "dues"))
    for index, due in enumerate(dues):
        if due > now:
            problems.append(Problem(f"{to_rfc3339(due)} is not past", f"dues[{index}]"))
        elif compiled.trigger.first_at_or_after(due) != due:
            problems.append(Problem(f"{to_rfc3339(due)} is not a due instant of the rule", f"dues[{index}]"))
    if problems:
        raise InvalidInput(problems)


def _write(
    store: Store,
    conn: Connection,
    row: Any,
    compiled: CompiledRevision,
    dues: Sequence[int],
    max_concurrent: int,
    now: int,
) -> int:
    """Queue them behind what waits of earlier backfills, and fill the active slots; the new state version."""
    t = store.tables
    start = occurrences.last_ordinal(conn, t, row.revision_pk, "backfill") + 1
    at = LAST_INSTANT if rows.is_held(conn, t, row.pk) else now
    made = [
        row_of(row, compiled, "backfill", start + index, due, now, None, run_at=at) for index, due in enumerate(dues)
    ]
    occurrences.add(conn, t, made)
    taken = {slot for _, slot in occurrences.heads(conn, t, store.dialect, (row.pk,))}
    fill_backfill(store, conn, row.pk, [-n for n in range(1, max_concurrent + 1) if -n not in taken])
    return opened(store, conn, row, len(made))


# --- holding and cancelling -------------------------------------------------------------------------------------------


def hold_backfill(
    store: Store, conn: Connection, namespace: str, schedule_id: str, *, hold: bool, **ask: Unpack[Ask]
) -> int:
    """Pause the backfills of a schedule, or let them go on; how many occurrences that concerns.

    What runs ends as it will; a backfill that is added meanwhile is held with the others.
    """
    row = locked(store, conn, namespace, schedule_id, ask)
    action = "holdBackfill" if hold else "goOnBackfill"
    control = by(store, conn, row, ask, action)
    concerned = rows.hold(conn, store.tables, row.pk) if hold else rows.let_go(conn, store.tables, row.pk, control.now)
    moves.decide(store, conn, row, action, control, row.state, row.state_version)
    wake.notify(store, conn)
    return concerned


def cancel_backfill(store: Store, conn: Connection, namespace: str, schedule_id: str, **ask: Unpack[Ask]) -> int:
    """Cancel what a schedule's backfills have not started yet, and ask what runs to stop; how many were cancelled."""
    row = locked(store, conn, namespace, schedule_id, ask)
    control = by(store, conn, row, ask, "cancelBackfill")
    cancelled = moves.end_idle(store, conn, row, control, "cancelled", "cancelled", stop=True, series="backfill")
    moves.decide(store, conn, row, "cancelBackfill", control, row.state, row.state_version)
    wake.notify(store, conn)
    return cancelled
