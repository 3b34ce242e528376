"""occurrences: the durable rows. Open ones are work; final ones are the verdicts and never change again.

A condition on ``state`` is written out word for word as in the partial indexes of ``schema.py``; with parameters in it
the databases would not use them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, Update, and_, bindparam, func, or_, select, text, update

from calsched.stores.schema import CLAIMABLE, HELD, OPEN, Tables
from calsched.stores.tables.sql import EXCLUDED, KEYS, Rows, by_primary_key, insert_many, update_many, walk

IDLE = "state IN ('waiting', 'ready', 'retrying')"
#: What an advance or an extra run inserts, in this order.
NEW = (
    "schedule_pk", "revision_pk", "series", "ordinal", "due", "slot_due", "run_at", "state", "executor", "expires_at",
    "deadline", "active_slot", "represents_first", "represents_last", "represents_first_due", "created_at",
)  # fmt: skip
#: What it inserts where an owner begins an occurrence at once.
BEGUN = (*NEW, "epoch", "attempt", "claimed_at", "started_at")
#: What an ended attempt writes.
SETTLED = (
    "state", "reason", "active_slot", "run_at", "epoch", "elapsed", "finished_at", "error_type", "error", "result",
)  # fmt: skip
#: What the end of an attempt needs to know.
WORK = (
    "pk", "schedule_pk", "revision_pk", "series", "ordinal", "due", "run_at", "state", "executor", "expires_at",
    "deadline", "active_slot", "attempt", "elapsed", "epoch", "token", "lease_until", "started_at", "error_type",
    "error",
)  # fmt: skip
#: What a claim hands out, in this order.
CLAIMED = (
    "pk", "schedule_pk", "revision_pk", "series", "ordinal", "due", "run_at", "attempt", "represents_first",
    "represents_last", "represents_first_due", "deadline", "active_slot", "elapsed", "expires_at", "executor",
)  # fmt: skip


def add(conn: Connection, t: Tables, rows: Rows) -> None:
    insert_many(conn, t.occurrences, NEW, rows)


def add_begun(conn: Connection, t: Tables, rows: Rows) -> None:
    insert_many(conn, t.occurrences, BEGUN, rows)


@cache
def _just_begun(t: Tables) -> Select[Any]:
    o = t.occurrences.c
    found = select(o.pk, o.revision_pk, o.ordinal).where(o.epoch == bindparam("owner"), text(HELD))
    return found.where(o.created_at == bindparam("now"), o.series == text("'slot'")).order_by(o.pk)


def just_begun(conn: Connection, t: Tables, epoch: int, now: int) -> Sequence[Any]:
    """(key, revision, ordinal) of what an owner began when it was written, at ``now``."""
    return conn.execute(_just_begun(t), {"owner": epoch, "now": now}).all()


# --- pending work -----------------------------------------------------------------------------------------------------


@cache
def _counts(t: Tables, dialect: str) -> Select[Any]:
    o = t.occurrences.c
    found = select(o.schedule_pk, o.state, func.count()).where(KEYS.holds(o.schedule_pk, dialect), text(OPEN))
    return found.where(o.series.in_(text("'slot', 'manual'"))).group_by(o.schedule_pk, o.state)


def counts(conn: Connection, t: Tables, dialect: str, schedule_pks: Iterable[int]) -> Sequence[Any]:
    """(schedule, state, how many) of the open occurrences, backfills aside."""
    return conn.execute(_counts(t, dialect), KEYS.given(schedule_pks, dialect)).all()


@cache
def _heads(t: Tables, dialect: str) -> Select[Any]:
    o = t.occurrences.c
    found = select(o.schedule_pk, o.active_slot).where(KEYS.holds(o.schedule_pk, dialect))
    return found.where(text("active_slot IS NOT NULL"), text(OPEN))


def heads(conn: Connection, t: Tables, dialect: str, schedule_pks: Iterable[int]) -> Sequence[Any]:
    """(schedule, active slot) of what is ready, running or waiting to retry; a backfill's slots are negative."""
    return conn.execute(_heads(t, dialect), KEYS.given(schedule_pks, dialect)).all()


@cache
def _foldable(t: Tables, dialect: str) -> Select[Any]:
    o = t.occurrences.c
    found = select(o.schedule_pk, o.pk, o.revision_pk, o.ordinal, o.represents_last, o.state)
    found = found.where(KEYS.holds(o.schedule_pk, dialect), text("state IN ('waiting', 'ready')"), text(OPEN))
    return found.where(o.series == text("'slot'"), o.attempt == 0).order_by(o.ordinal)


def foldable(conn: Connection, t: Tables, dialect: str, schedule_pks: Iterable[int]) -> Sequence[Any]:
    """Occurrences of the slot series that nobody has claimed, oldest first."""
    return conn.execute(_foldable(t, dialect), KEYS.given(schedule_pks, dialect)).all()


@cache
def _keys_of(t: Tables, dialect: str) -> Select[Any]:
    o = t.occurrences.c
    found = select(o.revision_pk, o.ordinal, o.pk).where(KEYS.holds(o.revision_pk, dialect), text(OPEN))
    return found.where(o.series == text("'slot'"), o.created_at == bindparam("now"))


def just_written(conn: Connection, t: Tables, dialect: str, revision_pks: Iterable[int], now: int) -> dict[Any, int]:
    """The keys that the database gave to rows written at ``now``, by (revision, ordinal)."""
    found = conn.execute(_keys_of(t, dialect), {**KEYS.given(revision_pks, dialect), "now": now})
    return {(revision, ordinal): pk for revision, ordinal, pk in found}


@cache
def _newest(t: Tables) -> Select[Any]:
    o = t.occurrences.c
    found = select(o.created_at).where(o.schedule_pk == bindparam("schedule"), o.series == "slot")
    return found.order_by(o.due.desc()).limit(bindparam("most"))


def admitted(conn: Connection, t: Tables, schedule_pk: int, since: int, most: int) -> tuple[int, ...]:
    """When the newest ``most`` occurrences were planned, as far as that was after ``since``."""
    found = conn.execute(_newest(t), {"schedule": schedule_pk, "most": most}).scalars()
    return tuple(at for at in found if at > since)


def grow(conn: Connection, t: Tables, rows: Rows) -> int:
    """(represents last, key) each: what folds into an occurrence while nobody has claimed it."""
    return update_many(conn, t.occurrences, ("represents_last",), rows, where="state IN ('waiting', 'ready')")


@cache
def _next_waiting(t: Tables, dialect: str, backfill: bool) -> Select[Any]:
    o = t.occurrences.c
    series = o.series == text("'backfill'") if backfill else o.series.in_(text("'slot', 'manual'"))
    found = select(o.schedule_pk, func.min(o.pk)).where(KEYS.holds(o.schedule_pk, dialect))
    return found.where(text("state = 'waiting'"), text(OPEN), series).group_by(o.schedule_pk)


def next_waiting(conn: Connection, t: Tables, dialect: str, schedule_pks: Iterable[int], *, backfill: bool) -> Any:
    """(schedule, key) of the first in each queue."""
    return conn.execute(_next_waiting(t, dialect, backfill), KEYS.given(schedule_pks, dialect)).all()


def promote(conn: Connection, t: Tables, rows: Rows) -> int:
    """(state, active slot, key) each: a waiting occurrence becomes a head."""
    return update_many(conn, t.occurrences, ("state", "active_slot"), rows, where="state = 'waiting'")


# --- claims -----------------------------------------------------------------------------------------------------------


def _claimable(t: Tables, dialect: str, state: str, executor: bool, excluding: bool) -> Select[Any]:
    o, s = t.occurrences.c, t.schedules.c
    found = select(o.pk, o.run_at, o.schedule_pk).join_from(t.occurrences, t.schedules, s.pk == o.schedule_pk)
    found = found.where(text(f"{t.occurrences.name}.state = '{state}'"), text(_qualified(t, CLAIMABLE)))
    found = found.where(o.executor == bindparam("executor") if executor else o.executor > text("''"))
    found = found.where(o.run_at <= bindparam("now"), _may_start(t))
    if excluding:
        found = found.where(~EXCLUDED.holds(s.pk, dialect))
    return found.order_by(o.run_at, o.pk).limit(bindparam("most"))


def _qualified(t: Tables, condition: str) -> str:
    """A predicate on the occurrences' state in a join, where the schedules have a state too."""
    return condition.replace("state", f"{t.occurrences.name}.state")


def _may_start(t: Tables) -> Any:
    """What a claim looks at again: the schedule's state, its hold, and the occurrence's own limits."""
    o, s = t.occurrences.c, t.schedules.c
    return and_(
        or_(s.state.in_(text("'enabled', 'ended'")), and_(s.state == text("'cancelled'"), o.executor == text("''"))),
        s.held_by.is_(None),
        or_(o.expires_at.is_(None), o.expires_at >= bindparam("now")),
        or_(o.deadline.is_(None), o.deadline >= bindparam("now")),
    )


@cache
def _candidates(t: Tables, dialect: str, state: str, executor: bool, excluding: bool) -> Select[Any]:
    found = _claimable(t, dialect, state, executor, excluding)
    return found.with_for_update(of=t.schedules, skip_locked=True) if dialect == "postgresql" else found


def candidates(
    conn: Connection,
    t: Tables,
    dialect: str,
    state: str,
    executor: str | None,
    now: int,
    most: int,
    exclude: Collection[int] = (),
) -> Sequence[Any]:
    """(key, run at, schedule) of what may be claimed, oldest first.

    On PostgreSQL their schedules are locked, and those that another owner holds are passed by.
    """
    given: dict[str, Any] = {"now": now, "most": most}
    if executor is not None:
        given["executor"] = executor
    if exclude:
        given |= EXCLUDED.given(exclude, dialect)
    statement = _candidates(t, dialect, state, executor is not None, bool(exclude))
    return conn.execute(statement, given).all()


@cache
def _decide(t: Tables, dialect: str) -> Select[Any]:
    o, s, r = t.occurrences.c, t.schedules.c, t.revisions.c
    found = select(*(o[name] for name in CLAIMED), s.namespace, s.id, r.number)
    joined = found.join_from(t.occurrences, t.schedules, s.pk == o.schedule_pk).join(t.revisions, r.pk == o.revision_pk)
    return joined.where(KEYS.holds(o.pk, dialect), text(_qualified(t, CLAIMABLE)), _may_start(t)).order_by(
        o.run_at, o.pk
    )


def decide(conn: Connection, t: Tables, dialect: str, pks: Iterable[int], now: int) -> Sequence[Any]:
    """What of the candidates still may start, read anew after their schedules were locked."""
    return conn.execute(_decide(t, dialect), {**KEYS.given(pks, dialect), "now": now}).all()


@cache
def _claim(t: Tables, dialect: str, starting: bool) -> Update:
    o = t.occurrences.c
    changed = update(t.occurrences).where(KEYS.holds(o.pk, dialect), text(CLAIMABLE))
    changed = changed.values(state="claimed", epoch=bindparam("owner"), claimed_at=bindparam("now"))
    if starting:
        changed = changed.values(state="running", started_at=bindparam("now"), attempt=o.attempt + 1)
    return changed


def claim(
    conn: Connection, t: Tables, dialect: str, pks: Sequence[int], epoch: int, now: int, *, starting: bool = False
) -> int:
    given = {**KEYS.given(pks, dialect), "owner": epoch, "now": now}
    return conn.execute(_claim(t, dialect, starting), given).rowcount


def _owned(t: Tables) -> Any:
    """The row is this owner's. Written so that no database looks it up by the epoch: the keys are given."""
    return t.occurrences.c.epoch + text("0") == bindparam("owner")


@cache
def _start(t: Tables, dialect: str) -> Any:
    o = t.occurrences.c
    changed = update(t.occurrences).where(KEYS.holds(o.pk, dialect), text("state = 'claimed'"))
    changed = changed.where(_owned(t))
    changed = changed.values(state="running", attempt=o.attempt + 1, started_at=bindparam("now"))
    return changed if dialect == "mysql" else changed.returning(o.pk)


@cache
def _claimed_by(t: Tables, dialect: str) -> Select[Any]:
    o = t.occurrences.c
    found = select(o.pk).where(KEYS.holds(o.pk, dialect), text("state = 'claimed'"), _owned(t))
    return by_primary_key(found, t.occurrences).with_for_update()


def start(conn: Connection, t: Tables, dialect: str, pks: Sequence[int], epoch: int, now: int) -> set[int]:
    """The keys of those that moved. MariaDB's UPDATE returns no rows, so they are locked and read before it."""
    given = {**KEYS.given(pks, dialect), "owner": epoch}
    if dialect != "mysql":
        return set(conn.execute(_start(t, dialect), given | {"now": now}).scalars().all())
    mine = set(conn.execute(_claimed_by(t, dialect), given).scalars().all())
    if mine:
        conn.execute(_start(t, dialect), {**KEYS.given(mine, dialect), "owner": epoch, "now": now})
    return mine


@cache
def _give_back(t: Tables, dialect: str, state: str) -> Update:
    o = t.occurrences.c
    changed = update(t.occurrences).where(KEYS.holds(o.pk, dialect), o.state == text(f"'{state}'"))
    begun = o.attempt - 1 if state == "running" else o.attempt
    return changed.where(_owned(t)).values(
        state="ready", epoch=None, claimed_at=None, token=None, lease_until=None, attempt=begun
    )


def give_back(conn: Connection, t: Tables, dialect: str, pks: Sequence[int], epoch: int, state: str) -> int:
    return conn.execute(_give_back(t, dialect, state), {**KEYS.given(pks, dialect), "owner": epoch}).rowcount


@cache
def _take_back(t: Tables, dialect: str) -> Update:
    o = t.occurrences.c
    changed = update(t.occurrences).where(KEYS.holds(o.pk, dialect), text("state = 'claimed'"))
    return changed.values(state="ready", epoch=None, claimed_at=None, token=None, lease_until=None)


def take_back(conn: Connection, t: Tables, dialect: str, pks: Sequence[int]) -> int:
    """Claims of any owner become ready again: their schedule was paused, or their owner is gone."""
    return conn.execute(_take_back(t, dialect), KEYS.given(pks, dialect)).rowcount if pks else 0


def claimed_of(conn: Connection, t: Tables, schedule_pk: int) -> list[int]:
    """What owners have claimed of a schedule and not started."""
    o = t.occurrences.c
    found = select(o.pk).where(o.schedule_pk == schedule_pk, text("state = 'claimed'"), text(OPEN))
    return list(conn.execute(found).scalars().all())


def ask_to_stop(conn: Connection, t: Tables, dialect: str, pks: Sequence[int]) -> None:
    if pks:
        asked = update(t.occurrences).where(KEYS.holds(t.occurrences.c.pk, dialect), text("state = 'running'"))
        conn.execute(asked.values(cancel=True), KEYS.given(pks, dialect))


def defer(conn: Connection, t: Tables, rows: Rows) -> int:
    """(run at, key) each: not yet, because a blackout or an unusable definition stands in the way."""
    return update_many(conn, t.occurrences, ("run_at",), rows, where=CLAIMABLE)


@cache
def _next_run(t: Tables, state: str) -> Select[Any]:
    o = t.occurrences.c
    return select(func.min(o.run_at)).where(text(f"state = '{state}'"), text(CLAIMABLE), o.run_at > bindparam("now"))


@cache
def _next_runs(t: Tables) -> Select[Any]:
    return select(*(_next_run(t, state).scalar_subquery() for state in ("ready", "retrying")))


def next_run(conn: Connection, t: Tables, now: int) -> int | None:
    """When the next head may be claimed, those that may be already aside."""
    found = conn.execute(_next_runs(t), {"now": now}).one()
    return min((at for at in found if at is not None), default=None)


# --- outcomes ---------------------------------------------------------------------------------------------------------


@cache
def _rows(t: Tables, dialect: str, locking: bool) -> Select[Any]:
    o = t.occurrences.c
    found = select(*(o[name] for name in WORK)).where(KEYS.holds(o.pk, dialect)).order_by(o.pk)
    return by_primary_key(found, t.occurrences).with_for_update() if locking else found


def rows(conn: Connection, t: Tables, dialect: str, pks: Iterable[int], *, locking: bool = False) -> dict[int, Any]:
    return {row[0]: row for row in conn.execute(_rows(t, dialect, locking), KEYS.given(pks, dialect)).all()}


def whole(conn: Connection, t: Tables, pk: int) -> Any:
    """One row with all of its columns, or None."""
    return conn.execute(select(t.occurrences).where(t.occurrences.c.pk == pk)).first()


def settle(conn: Connection, t: Tables, rows: Rows, where: str) -> int:
    """The columns of ``SETTLED`` and the key each; ``where`` repeats the state that the decision was made on."""
    return update_many(conn, t.occurrences, SETTLED, rows, where=where)


@cache
def _flags(t: Tables) -> Select[Any]:
    o = t.occurrences.c
    found = select(o.pk).where(o.epoch == bindparam("owner"), text("state = 'running'"), text(HELD))
    return found.where(o.cancel)


def cancel_flags(conn: Connection, t: Tables, epoch: int) -> set[int]:
    return set(conn.execute(_flags(t), {"owner": epoch}).scalars().all())


@cache
def _held_by(t: Tables, dialect: str) -> Select[Any]:
    o = t.occurrences.c
    return select(o.pk, o.schedule_pk).where(KEYS.holds(o.epoch, dialect), text(HELD)).order_by(o.pk)


def held_by(conn: Connection, t: Tables, dialect: str, epochs: Iterable[int]) -> Sequence[Any]:
    """(key, schedule) of what these owners have claimed or run."""
    return conn.execute(_held_by(t, dialect), KEYS.given(epochs, dialect)).all()


# --- limits that pass while work waits --------------------------------------------------------------------------------


@cache
def _past(t: Tables, column: str) -> Select[Any]:
    o = t.occurrences.c
    found = select(o.pk, o.schedule_pk).where(text(f"{column} IS NOT NULL"), text(IDLE), text(OPEN))
    return found.where(o[column] < bindparam("now")).limit(bindparam("most"))


def past_limit(conn: Connection, t: Tables, now: int, most: int = 500) -> dict[int, int]:
    """Idle occurrences (key: schedule) whose expiry or deadline has passed."""
    out: dict[int, int] = {}
    for column in ("expires_at", "deadline"):
        out |= {pk: schedule for pk, schedule in conn.execute(_past(t, column), {"now": now, "most": most})}
    return out


@cache
def _next_limit(t: Tables, column: str) -> Select[Any]:
    limit = t.occurrences.c[column]
    found = select(func.min(limit)).where(text(f"{column} IS NOT NULL"), text(IDLE), text(OPEN))
    return found.where(limit >= bindparam("now"))


def next_limit(conn: Connection, t: Tables, now: int) -> int | None:
    """The first instant at which an expiry or a deadline of idle work has passed: on time until then, over after it."""
    found = [conn.execute(_next_limit(t, column), {"now": now}).scalar() for column in ("expires_at", "deadline")]
    return min((at + 1 for at in found if at is not None), default=None)


# --- all open work of a schedule --------------------------------------------------------------------------------------


@cache
def _open(t: Tables) -> Select[Any]:
    o = t.occurrences.c
    found = select(t.occurrences).where(o.schedule_pk == bindparam("schedule"), text(OPEN))
    # no bare key: a database would walk along all keys until it has found so many
    return found.order_by(o.pk + text("0")).limit(bindparam("most"))


def open_of(conn: Connection, t: Tables, schedule_pk: int, most: int) -> Sequence[Any]:
    """What is open of one schedule, oldest first."""
    return conn.execute(_open(t), {"schedule": schedule_pk, "most": most}).all()


def heads_of(conn: Connection, t: Tables, schedule_pk: int) -> Sequence[Any]:
    """Whole rows of what holds an active slot, in the order of their keys: as many as may run at once."""
    o = t.occurrences.c
    found = select(t.occurrences).where(o.schedule_pk == schedule_pk, text("active_slot IS NOT NULL"), text(OPEN))
    return conn.execute(found.order_by(o.pk)).all()


def has_own(conn: Connection, t: Tables, schedule_pk: int) -> bool:
    """Whether some open work is not a ready task, left to a host."""
    o = t.occurrences.c
    found = select(o.pk).where(o.schedule_pk == schedule_pk, text(OPEN), o.executor > text("''"))
    return conn.execute(found.limit(1)).first() is not None


def end_waiting(
    conn: Connection,
    t: Tables,
    schedule_pk: int,
    state: str,
    reason: str,
    now: int,
    *,
    series: str = "",
    host: bool = True,
) -> int:
    """End what waits behind the heads of a schedule, however much, in one statement; how many.

    Nothing of it has begun, so that the end is all there is to write. ``series``: of that one only; without ``host``
    ready tasks stay.
    """
    o = t.occurrences.c
    ended = walk(update(t.occurrences), t.occurrences, f"{t.prefix}ix_occurrence_open")
    ended = ended.where(o.schedule_pk == schedule_pk, text("state = 'waiting'"), text(OPEN))
    if series:
        ended = ended.where(o.series == series)
    if not host:
        ended = ended.where(o.executor > text("''"))
    return conn.execute(ended.values(state=state, reason=reason, finished_at=now)).rowcount


@cache
def _last_ordinal(t: Tables) -> Select[Any]:
    o = t.occurrences.c
    found = select(func.max(o.ordinal)).where(o.revision_pk == bindparam("revision"))
    return found.where(o.series == bindparam("wanted"))


def last_ordinal(conn: Connection, t: Tables, revision_pk: int, series: str) -> int:
    """The newest ordinal of a series; -1 for none."""
    found = conn.execute(_last_ordinal(t), {"revision": revision_pk, "wanted": series}).scalar()
    return -1 if found is None else int(found)


def key_of(conn: Connection, t: Tables, revision_pk: int, series: str, ordinal: int) -> int:
    o = t.occurrences.c
    found = select(o.pk).where(o.revision_pk == revision_pk, o.series == series, o.ordinal == ordinal)
    return int(conn.execute(found).scalar_one())


def change(conn: Connection, t: Tables, pk: int, values: Mapping[str, Any], where: str = "") -> bool:
    statement = update(t.occurrences).where(t.occurrences.c.pk == pk).values(**values)
    if where:
        statement = statement.where(text(where))
    return conn.execute(statement).rowcount == 1
