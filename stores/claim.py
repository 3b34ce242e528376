"""Owners take what may run: lock, then decide in a new statement, and repeat the state in every update."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from calsched.blackouts import blackout_at, held_until
from calsched.errors import Fenced
from calsched.model import Claimed, Unread
from calsched.stores import sweep
from calsched.stores.compiled import CompiledRevision
from calsched.stores.tables import occurrences, owners, schedules

if TYPE_CHECKING:
    from calsched.stores.engine import Store

EXECUTOR = occurrences.CLAIMED.index("executor")
ATTEMPT = occurrences.CLAIMED.index("attempt")
NAMES = slice(len(occurrences.CLAIMED), len(occurrences.CLAIMED) + 2)


def claim(
    store: Store,
    conn: Connection,
    *,
    epoch: int,
    now: int,
    limit: int,
    executors: Mapping[str, int] | None = None,
    kinds: tuple[str, ...] = ("python",),
    exclude: Collection[int] = (),
    starting: bool = False,
    gated: bool = False,
    unread: list[Unread] | None = None,
) -> list[Claimed]:
    """Take up to ``limit`` heads whose time has come, oldest first; none while there is a hold.

    ``executors`` names those that this owner has, and how many more occurrences each may take (None: any).
    ``exclude`` are schedules to pass over: their callable is missing here, or a timed-out worker of theirs still runs.
    ``starting`` marks them running at once, for an owner that hands them to its workers when this has committed; one
    that is never begun is given back. ``gated``: the caller has passed ``gate`` in this transaction. Raises Fenced when
    the epoch is over.
    """
    if not (gated or gate(store, conn, epoch)) or limit <= 0 or "python" not in kinds:
        return []
    pks = _candidates(store, conn, now, limit, executors, exclude)
    if not pks:
        return []
    rows = occurrences.decide(conn, store.tables, store.dialect, pks, now)
    rows = _within(_allowed(store, conn, now, rows, unread), limit, executors)
    taken = [row[0] for row in rows]
    if not taken:
        return []
    written = occurrences.claim(conn, store.tables, store.dialect, taken, epoch, now, starting=starting)
    if written != len(taken):
        raise RuntimeError(f"{len(taken)} occurrences were to be claimed, {written} were: their rows were not locked")
    return [_claimed(row, epoch) for row in rows]


def gate(store: Store, conn: Connection, epoch: int) -> bool:
    """Whether an owner may begin work in this transaction: not while there is a hold.

    Raises Fenced when its epoch is over; a live one cannot end before this transaction does.
    """
    live, hold = owners.gate(conn, store.tables, epoch)
    if not live:
        raise Fenced(f"epoch {epoch} of this owner is over; another process has taken its work over")
    return hold is None


def _candidates(
    store: Store,
    conn: Connection,
    now: int,
    limit: int,
    executors: Mapping[str, int] | None,
    exclude: Collection[int],
) -> list[int]:
    wanted: list[tuple[str | None, int]] = [(None, limit)]
    if executors is not None:
        wanted = [(name, min(limit, capacity)) for name, capacity in executors.items() if capacity > 0]
    found: list[tuple[int, int, int]] = []
    for executor, most in wanted:
        found += _oldest(store, conn, now, executor, most, exclude)
    found.sort()
    if store.dialect != "mysql":
        return [pk for _, pk, _ in found[:limit]]
    return _locked(store, conn, found)


def _oldest(
    store: Store, conn: Connection, now: int, executor: str | None, most: int, exclude: Collection[int]
) -> list[tuple[int, int, int]]:
    """(run at, key, schedule). Two ordered index scans, merged, because one over both states would sort them all."""
    if store.dialect == "mysql":
        most *= 4  # other owners may hold the first ones: see _locked
    found = []
    for state in ("retrying", "ready"):
        rows = occurrences.candidates(conn, store.tables, store.dialect, state, executor, now, most, exclude)
        found += [(run_at, pk, schedule) for pk, run_at, schedule in rows]
    return sorted(found)[:most]


def _locked(store: Store, conn: Connection, found: Sequence[tuple[int, int, int]]) -> list[int]:
    """MariaDB cannot lock one table of a join: candidates are read first, and their schedules locked after that."""
    held = schedules.lock_free(conn, store.tables, store.dialect, {schedule for _, _, schedule in found})
    return [pk for _, pk, schedule in found if schedule in held]


def _within(rows: list[Any], limit: int, executors: Mapping[str, int] | None) -> list[Any]:
    """No more than the owner asked for, in all and for each executor."""
    if executors is None:
        return rows[:limit]
    left = dict(executors)
    out: list[Any] = []
    for row in rows:
        if left[row[EXECUTOR]] > 0 and len(out) < limit:
            left[row[EXECUTOR]] -= 1
            out.append(row)
    return out


def _allowed(store: Store, conn: Connection, now: int, rows: Sequence[Any], unread: list[Unread] | None) -> list[Any]:
    """Leave out what a blackout holds or skips, and what this owner cannot run."""
    compiled = store.compiled.get_many(conn, {row[2] for row in rows})
    allowed, later, skipped = [], [], []
    for row in rows:
        found = compiled.get(row[2])
        if not isinstance(found, CompiledRevision):
            if unread is not None:
                namespace, schedule_id = row[NAMES]
                problem = found.problem if found is not None else "its revision is gone"
                unread.append(Unread(row[1], namespace, schedule_id, problem))
            continue
        window = blackout_at(found.definition, now) if found.definition.blackouts else None
        if window is None:
            allowed.append(row)
        elif window.when_due == "skip" and row[ATTEMPT] == 0:
            skipped.append(row[0])
        else:  # what has begun is held: its verdict is not that it never ran
            later.append((max(window.end, held_until(found.definition, window.end)), row[0]))
    occurrences.defer(conn, store.tables, later)
    sweep.skip_blacked_out(store, conn, now, skipped)
    return allowed


def _claimed(row: Any, epoch: int) -> Claimed:
    (
        pk, schedule, revision_pk, series, ordinal, due, run_at, attempt, first, last, first_due, deadline, slot,
        elapsed, expires_at, _executor, namespace, schedule_id, number,
    ) = row  # fmt: skip
    return Claimed(
        pk, schedule, namespace, schedule_id, number, revision_pk, series, ordinal, due, run_at, attempt + 1, first,
        last, first_due, deadline, slot, epoch, elapsed, expires_at,
    )  # fmt: skip


def start(store: Store, conn: Connection, *, epoch: int, now: int, pks: Sequence[int]) -> set[int]:
    """Mark claims as running, right before their tasks start; the keys of those that were still this owner's."""
    if not pks:
        return set()
    return occurrences.start(conn, store.tables, store.dialect, pks, epoch, now)


def give_back(
    store: Store, conn: Connection, *, epoch: int, pks: Sequence[int], now: int, not_started: bool = True
) -> int:
    """Claims that will not be started here become ready again; how many did.

    Those marked running (for the start window) whose task never began are among them: that attempt does not count.
    """
    if not pks:
        return 0
    given = occurrences.give_back(conn, store.tables, store.dialect, pks, epoch, "claimed")
    if not_started:
        given += occurrences.give_back(conn, store.tables, store.dialect, pks, epoch, "running")
    return given


def next_run_at(store: Store, conn: Connection, now: int) -> int | None:
    """When the next head may be claimed. What may be already (or is held back) is no reason to wake up."""
    return occurrences.next_run(conn, store.tables, now)


def cancel_requested(store: Store, conn: Connection, *, epoch: int) -> set[int]:
    """This owner's running occurrences that are asked to stop."""
    return occurrences.cancel_flags(conn, store.tables, epoch)
