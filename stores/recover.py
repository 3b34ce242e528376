"""Owners come and go: registering, heartbeats, taking over from the dead; and the clock that they all trust, or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from calsched.model import Outcome
from calsched.policies import clock_hold, lease, lifecycle
from calsched.stores import moves, recompute
from calsched.stores.damage import is_damaged
from calsched.stores.finish import CutOff, cut_off, decide
from calsched.stores.settle import settle
from calsched.stores.tables import attempts, clock, occurrences, owners, schedules

if TYPE_CHECKING:
    from calsched.stores.engine import Store

#: How far the wall clock may be off before dispatch holds.
TOLERANCE = 5_000


# --- owners -----------------------------------------------------------------------------------------------------------


def register_owner(
    store: Store,
    conn: Connection,
    name: str,
    host: str,
    pid: int,
    now: int,
    lease_ms: int,
    *,
    version: str | None = None,
    lost: list[CutOff] | None = None,
) -> int:
    """A new epoch. On SQLite the caller holds the file's lock, so whoever was live before is dead: it is taken over.

    What it ran is appended to ``lost``.
    """
    if store.dialect == "sqlite":
        found = _bury(store, conn, now, [row.epoch for row in owners.live(conn, store.tables)])
        if lost is not None:
            lost += found
    recompute.adopt_zone_data(store, conn, now)
    values = {
        "name": name[:255],
        "host": host[:255],
        "pid": pid,
        "started_at": now,
        "heartbeat_at": now,
        "lease_until": now + lease_ms,
        "state": "live",
        "tzdata": store.tzdata,
        "version": version,
    }
    return owners.add(conn, store.tables, values)


def heartbeat(store: Store, conn: Connection, epoch: int, now: int, lease_ms: int) -> bool:
    """Renew the lease; False when the epoch is over."""
    return owners.beat(conn, store.tables, epoch, now, now + lease_ms)


def stop_owner(store: Store, conn: Connection, epoch: int, now: int) -> None:
    """An owner leaves in good order. What it still holds is given back or recorded as interrupted, uncounted."""
    _recover(store, conn, now, (epoch,), clean_stop=True)
    owners.end(conn, store.tables, store.dialect, (epoch,), "stopped")


def heartbeats(store: Store, conn: Connection) -> dict[int, int]:
    """The live owners' last heartbeats, by epoch: what ``take_over`` is to have observed."""
    return {row.epoch: row.heartbeat_at for row in owners.live(conn, store.tables)}


def take_over(
    store: Store, conn: Connection, now: int, observed: Mapping[int, int], lost: list[CutOff] | None = None
) -> list[int]:
    """Fence owners whose lease has run out and whose heartbeat still is the ``observed`` one; their epochs.

    The caller has watched those heartbeats stand still for one whole lease. What a dead owner had claimed becomes ready
    again; what it ran is interrupted, with its time recorded as an upper bound, and appended to ``lost``.
    """
    dead = [
        row.epoch
        for row in owners.live(conn, store.tables, locking=True)
        if lease.is_expired(row.lease_until, now) and observed.get(row.epoch) == row.heartbeat_at
    ]
    found = _bury(store, conn, now, dead)
    if lost is not None:
        lost += found
    return dead


def _bury(store: Store, conn: Connection, now: int, epochs: list[int]) -> list[CutOff]:
    if not epochs:
        return []
    owners.end(conn, store.tables, store.dialect, epochs, "fenced")
    return _recover(store, conn, now, epochs, clean_stop=False)


def _recover(store: Store, conn: Connection, now: int, epochs: Iterable[int], *, clean_stop: bool) -> list[CutOff]:
    t, dialect = store.tables, store.dialect
    epochs = list(epochs)
    schedules.release_all(conn, t, dialect, epochs)
    lost = occurrences.held_by(conn, t, dialect, epochs)
    if not lost:
        return []
    held = schedules.lock(conn, t, dialect, {schedule for _, schedule in lost})
    rows = occurrences.rows(conn, t, dialect, [pk for pk, _ in lost])
    mine = [row for row in rows.values() if row.epoch in epochs]
    occurrences.take_back(conn, t, dialect, [row.pk for row in mine if row.state == "claimed"])
    seen = clock.row(conn, t)
    latest = now if seen is None else max(now, seen.high_water)  # the wall clock may have been set back since
    running = [(row, _interrupted(row, now, latest, clean_stop)) for row in mine if row.state == "running"]
    changes = decide(store, conn, now, running, held)
    attempts.add(conn, t, [_attempt(row, outcome) for row, outcome in running])
    settled = settle(store, conn, now, changes, held, where="state = 'running'")
    return cut_off([row for row, _ in running], held, changes, settled)


def _interrupted(row: Any, now: int, latest: int, clean_stop: bool) -> Outcome:
    """Nobody knows how long it ran: no longer than until ``latest``, and that is what counts against its limits."""
    longest = max(1, latest - row.started_at) if row.started_at is not None else 1
    return Outcome(
        row.pk, row.attempt, "interrupted", now, longest, clean_stop=clean_stop, started_at=row.started_at
    )  # fmt: skip


def _attempt(row: Any, outcome: Outcome) -> tuple[Any, ...]:
    return (
        row.pk, outcome.attempt, row.epoch, "interrupted", row.started_at, outcome.ended_at, outcome.elapsed, True,
        False, None, None, None,
    )  # fmt: skip


# --- the clock --------------------------------------------------------------------------------------------------------


def boot_id() -> str | None:
    """Names this run of the machine, so that boot-time clocks of two runs are not compared."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def observe_clock(
    store: Store,
    conn: Connection,
    now: int,
    boot_time: int | None = None,
    boot: str | None = None,
    tolerance: int = TOLERANCE,
) -> clock_hold.Clock:
    """Judge the wall clock, keep the high water, and begin or end the hold on dispatch. Plan at the answer's ``now``.

    Servers decide by their own clock; there only backward steps are noticed, because a boot-time clock is a host's own.
    """
    row = clock.row(conn, store.tables, locking=True)
    stored = None if row is None else clock_hold.Reading(row.high_water, row.boot_time, row.boot_id)
    held = None if row is None else row.hold
    if store.dialect != "sqlite":
        boot_time = boot = None
    verdict = clock_hold.judge(stored, now, tolerance=tolerance, boot_time=boot_time, boot_id=boot, held=held)
    _store_reading(store, conn, now, verdict, stored, held)
    return verdict


def _store_reading(
    store: Store,
    conn: Connection,
    now: int,
    verdict: clock_hold.Clock,
    stored: clock_hold.Reading | None,
    held: str | None,
) -> None:
    values: dict[str, Any] = {}
    if verdict.reading != stored:
        reading = verdict.reading
        values |= {"high_water": reading.high_water, "boot_time": reading.boot_time, "boot_id": reading.boot_id}
    if verdict.hold != held:
        note = f"the wall clock is off by {verdict.off_by} ms" if verdict.hold in ("backward", "forward") else None
        values |= {"hold": verdict.hold, "hold_since": now if verdict.hold else None, "hold_note": note}
    if values:
        clock.put(conn, store.tables, values)


# --- definitions that nobody can load ---------------------------------------------------------------------------------


def pause_invalid(store: Store, conn: Connection, schedule_pk: int, problem: str, now: int) -> bool:
    """Pause a schedule whose stored definition no live owner can use; False when it is not enabled any more."""
    row = schedules.by_pk(conn, store.tables, schedule_pk)
    before: lifecycle.State = "enabled" if is_damaged(row.state) else row.state  # only such a one was looked at
    found = lifecycle.move(before, "invalidate", row.reason)
    if isinstance(found, lifecycle.Refusal):
        return False
    summary = problem[:1000]
    extra = {"last_failure": summary, "attention": f"its definition cannot be used: {summary}"[:255]}
    moves.apply(store, conn, row, found, moves.Control(now, evidence={"problem": summary}), extra)
    return True
