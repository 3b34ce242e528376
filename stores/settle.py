"""What every ending of an occurrence brings with it: a freed slot, the next in the queue, the counts, a pause.

The callers hold the schedules' rows; nothing here waits for a lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection

from calsched import words
from calsched.model import FINAL_STATES, Definition
from calsched.policies import failure
from calsched.stores.compiled import CompiledRevision
from calsched.stores.tables import decisions, occurrences, schedules
from calsched.stores.tables.sql import update_many

if TYPE_CHECKING:
    from calsched.stores.engine import Store

_FINAL = frozenset(FINAL_STATES)
MAX_SUMMARY = 1000


class Change(NamedTuple):
    """What becomes of one open occurrence."""

    pk: int
    schedule_pk: int
    series: str
    slot: int | None  # the active slot that it holds now
    state: str
    run_at: int
    elapsed: int
    reason: str | None = None
    result: str | None = None
    error_type: str | None = None
    error: str | None = None
    counted: str | None = None  # how it ended, for the failure count; None: it does not touch it
    clean_stop: bool = False


class Settled(NamedTuple):
    paused: tuple[int, ...] = ()  # schedules
    promoted: int = 0


def width(definition: Definition) -> int:
    """How many occurrences of a schedule may be heads at once."""
    if definition.overlap == "allow":
        return definition.max_concurrent
    if definition.overlap == "apscheduler":
        return int((definition.apscheduler or {}).get("max_instances", 1))
    return 1


class Tally:
    """What a batch of endings adds up to: rows to write, and by schedule how many ended and which slots they freed."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.closed: dict[int, int] = {}
        self.freed: dict[tuple[int, bool], list[int]] = {}

    def add(self, change: Change, now: int) -> None:
        self.rows.append(_row(change, now))
        if change.state in _FINAL:
            self.close(change.schedule_pk, change.series, change.slot)

    def success(self, pk: int, run_at: int, elapsed: int, result: str | None, now: int) -> None:
        """The plain case, made cheap: ``close`` follows."""
        self.rows.append(("succeeded", None, None, run_at, None, elapsed, now, None, None, result, pk))

    def close(self, schedule_pk: int, series: str, slot: int | None) -> None:
        self.closed[schedule_pk] = self.closed.get(schedule_pk, 0) + 1
        if slot is not None:
            self.freed.setdefault((schedule_pk, series == "backfill"), []).append(slot)


def settle(
    store: Store,
    conn: Connection,
    now: int,
    changes: Sequence[Change],
    rows: Mapping[int, Any],
    *,
    where: str,
    tally: Tally | None = None,
) -> Settled:
    """Write the changes; ``rows`` are their schedules, locked, and ``where`` the states that they were decided on.

    ``tally`` holds successes of schedules without failures, which need no decision.
    """
    tally = tally or Tally()
    for change in changes:
        tally.add(change, now)
    if not tally.rows:
        return Settled()
    written = occurrences.settle(conn, store.tables, tally.rows, where)
    if written != len(tally.rows):
        raise RuntimeError(f"{len(tally.rows)} occurrences were to change, {written} did: their rows were not locked")
    still_open = {pk: rows[pk].open_count - count for pk, count in tally.closed.items()}
    promoted = _promote(store, conn, tally.freed, still_open, rows)
    paused = _count(store, conn, now, changes, still_open, rows)
    return Settled(paused, promoted)


def _row(change: Change, now: int) -> tuple[Any, ...]:
    final = change.state in _FINAL
    return (
        change.state, change.reason, None if final else change.slot, change.run_at, None, change.elapsed,
        now if final else None, change.error_type, change.error, change.result, change.pk,
    )  # fmt: skip


# --- the next in the queue --------------------------------------------------------------------------------------------


def _promote(
    store: Store,
    conn: Connection,
    freed: Mapping[tuple[int, bool], list[int]],
    still_open: Mapping[int, int],
    rows: Mapping[int, Any],
) -> int:
    """Give freed slots to those who wait, first come, first served."""
    promoted = 0
    for backfill in (False, True):
        slots = {pk: sorted(s) for (pk, kind), s in freed.items() if kind == backfill and still_open[pk] > 0}
        while slots:
            waiting = occurrences.next_waiting(conn, store.tables, store.dialect, slots, backfill=backfill)
            if not waiting:
                break
            if not backfill:
                _narrow(store, conn, slots, [pk for pk, _ in waiting], rows)
            heads = [("ready", slots[pk].pop(0), key) for pk, key in waiting if slots.get(pk)]
            promoted += occurrences.promote(conn, store.tables, heads)
            more = {pk for pk, _ in waiting}
            slots = {pk: s for pk, s in slots.items() if s and pk in more}
    return promoted


def _narrow(
    store: Store, conn: Connection, slots: dict[int, list[int]], pks: Iterable[int], rows: Mapping[int, Any]
) -> None:
    """Drop slots that the live revision no longer has (it lets fewer run at once than the one before it)."""
    wide = [pk for pk in pks if slots[pk][-1] > 0]
    if not wide:
        return
    compiled = store.compiled.get_many(conn, {rows[pk].revision_pk for pk in wide})
    for pk in wide:
        found = compiled.get(rows[pk].revision_pk)
        if isinstance(found, CompiledRevision):
            slots[pk] = [slot for slot in slots[pk] if slot < width(found.definition)]


def fill(store: Store, conn: Connection, schedule_pk: int, row: Any, definition: Definition) -> int:
    """Promote into every free slot of one schedule; for revisions that let more run at once."""
    taken = {slot for _, slot in occurrences.heads(conn, store.tables, store.dialect, (schedule_pk,))}
    free = [slot for slot in range(width(definition)) if slot not in taken]
    return _promote(store, conn, {(schedule_pk, False): free}, {schedule_pk: 1}, {schedule_pk: row}) if free else 0


def fill_backfill(store: Store, conn: Connection, schedule_pk: int, slots: Sequence[int]) -> int:
    """Promote waiting backfills of one schedule into these active slots."""
    return _promote(store, conn, {(schedule_pk, True): list(slots)}, {schedule_pk: 1}, {}) if slots else 0


# --- the schedule's row -----------------------------------------------------------------------------------------------


def _count(
    store: Store,
    conn: Connection,
    now: int,
    changes: Sequence[Change],
    still_open: Mapping[int, int],
    rows: Mapping[int, Any],
) -> tuple[int, ...]:
    """Open counts and failure counts, in the order of the changes; pauses where a count is reached."""
    failures: dict[int, int] = {}
    summaries: dict[int, str | None] = {}
    pauses: dict[int, Any] = {}
    thresholds = _thresholds(store, conn, changes, rows)
    for change in changes:
        pk = change.schedule_pk
        if change.counted is None or change.state not in _FINAL or pk in pauses:
            continue
        row = rows[pk]
        before = failures.get(pk, row.failures)
        if change.counted == "succeeded" and before == 0:
            continue
        counted = failure.count(
            before,
            change.counted,  # type: ignore[arg-type]
            threshold=thresholds.get(pk, 0),
            schedule=row.state,
            clean_stop=change.clean_stop,
            series=change.series,  # type: ignore[arg-type]
        )
        failures[pk] = counted.failures
        if counted.failures > before:
            summaries[pk] = _summary(change)
        if counted.pause:
            pauses[pk] = change
    t = store.tables
    update_many(conn, t.schedules, ("open_count",), [(left, pk) for pk, left in still_open.items()])
    failed = [(count, summaries.get(pk, rows[pk].last_failure), pk) for pk, count in failures.items()]
    update_many(conn, t.schedules, ("failures", "last_failure"), failed)
    for pk in pauses:
        _pause(store, conn, now, rows[pk], failures[pk], summaries[pk])
    return tuple(pauses)


def _thresholds(store: Store, conn: Connection, changes: Sequence[Change], rows: Mapping[int, Any]) -> dict[int, int]:
    failed = {c.schedule_pk for c in changes if c.counted is not None and c.counted != "succeeded"}
    if not failed:
        return {}
    compiled = store.compiled.get_many(conn, {rows[pk].revision_pk for pk in failed})
    return {
        pk: found.definition.pause_after_failures
        for pk in failed
        if isinstance(found := compiled.get(rows[pk].revision_pk), CompiledRevision)
    }


def _summary(change: Change) -> str:
    text = f"{change.error_type}: {change.error}" if change.error_type else change.state
    return text[:MAX_SUMMARY]


def _pause(store: Store, conn: Connection, now: int, row: Any, failures: int, summary: str | None) -> None:
    claimed = occurrences.claimed_of(conn, store.tables, row.pk)
    occurrences.take_back(conn, store.tables, store.dialect, claimed)
    version = row.state_version + 1
    schedules.change(
        conn,
        store.tables,
        row.pk,
        {
            "state": "paused",
            "reason": "failures",
            "state_version": version,
            "held_due": row.next_due,
            "next_due": None,
            "look_at": None,
            "changed_at": now,
            "changed_by": decisions.AUTOMATIC,
            "note": None,
            "attention": f"paused after {words.counted(failures, 'failure')} in a row",
        },
    )
    evidence = {"failures": failures, "last": summary}
    made = decisions.row(
        row.namespace, row.id, "fail", at=now, revision=row.revision, state_version=version, from_state=row.state,
        to_state="paused", evidence=evidence,
    )  # fmt: skip
    decisions.add(conn, store.tables, [made])
