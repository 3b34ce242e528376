"""The tables. Instants and durations are BIGINT milliseconds; text is compared byte by byte on every database.

The schedule's row is the hot one: it holds the live revision's cursor, budget and state, so that an advance writes one
row a schedule. The revision's row is immutable but for ``final_ordinal``, which the cursor leaves behind when the
revision is replaced.

The tables that grow with time have no foreign keys: each would be looked up, and on servers locked, for every row that
is written. Whoever removes a schedule removes what hangs on it (``tables/whole.py``), and the doctor looks for strays.

The tiling invariant (design: every slot has exactly one verdict) reads: for every revision, its slot-series
occurrences and its ranges cover ``[pruned_before, next ordinal)`` without gap or overlap, where next ordinal is
``final_ordinal`` or, for the live revision, the schedule's ``next_ordinal``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    event,
)
from sqlalchemy import text as sql_text
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.schema import SchemaItem

from calsched.model import FINAL_STATES, OPEN_STATES

DEFAULT_PREFIX = "calsched_"
SCHEMA_VERSION = 1
#: The oldest program that may work on this schema, for the time of a rolling deploy.
COMPATIBLE_SINCE = 1
#: The newest Alembic revision; a fresh store is stamped with it.
HEAD = "0001"

_NEVER_AGAIN: dict[str, Any] = {"sqlite_autoincrement": True}
_MYSQL: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin", "mysql_engine": "InnoDB"}

#: SQLite gives a 64-bit rowid to INTEGER PRIMARY KEY only.
Key = BigInteger().with_variant(sqlite.INTEGER(), "sqlite")
Document = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")

#: A schedule's row is rewritten twice for each occurrence. With room on its page PostgreSQL leaves most of its indexes
#: alone (a heap-only tuple), which costs a third.
ROOMY = "ALTER TABLE %(fullname)s SET (fillfactor = 70)"

#: Predicates of the partial indexes. A query repeats them word for word, or the databases do not use the index.
#: They and the checks avoid long IN lists: for each of those SQLite builds a little table whenever it writes a row.
CLAIMABLE = "state IN ('ready', 'retrying')"
HELD = "epoch IS NOT NULL"  # claimed or running
OPEN = "finished_at IS NULL"

HEADS = ("ready", "claimed", "running", "retrying")
SCHEDULE_STATES = ("enabled", "disabled", "paused", "ended", "cancelled")


@dataclass(frozen=True, slots=True)
class Tables:
    """One set of tables under one prefix and schema."""

    metadata: MetaData
    meta: Table
    schedules: Table
    revisions: Table
    occurrences: Table
    ranges: Table
    attempts: Table
    decisions: Table
    owners: Table
    clock: Table
    calendars: Table
    skips: Table
    alembic: Table
    prefix: str = DEFAULT_PREFIX

    def all(self) -> tuple[Table, ...]:
        return tuple(getattr(self, f.name) for f in fields(self) if f.name not in ("metadata", "prefix"))


def _one_of(column: str, values: tuple[str, ...]) -> str:
    return " OR ".join(f"{column} = {value!r}" for value in values)


@lru_cache(maxsize=32)
def tables(prefix: str = DEFAULT_PREFIX, schema: str | None = None) -> Tables:
    """The tables under a prefix (and, on servers, a schema) of the host's choice."""
    md = MetaData(schema=schema)
    name = prefix.__add__
    at = f"{schema}." if schema else ""

    def table(short: str, *args: SchemaItem, reuse: bool = True) -> Table:
        # Without AUTOINCREMENT SQLite gives a deleted row's key to the next one; a late report, a cached definition
        # or a fenced epoch would then speak of something else.
        return Table(name(short), md, *args, **({} if reuse else _NEVER_AGAIN), **_MYSQL)

    def partial(short: str, *columns: str, where: str, unique: bool = False) -> Index:
        # MariaDB has no partial indexes and gets the whole one.
        return Index(
            name(short), *columns, unique=unique, sqlite_where=sql_text(where), postgresql_where=sql_text(where)
        )

    made = Tables(
        metadata=md,
        prefix=prefix,
        # installation id, schema version, material of holds
        meta=table("meta", Column("name", String(64), primary_key=True), Column("value", Document, nullable=False)),
        schedules=table(
            "schedules",
            Column("pk", Key, primary_key=True, autoincrement=True),
            Column("namespace", String(128), nullable=False),
            Column("id", String(255), nullable=False),
            Column("state", String(16), nullable=False),
            Column("reason", String(32)),  # operator, failures, invalid, restored, retired …
            Column("note", Text),
            Column("changed_by", String(255)),
            Column("changed_at", BigInteger, nullable=False),
            Column("resume_at", BigInteger),  # pause --until
            Column("revision", BigInteger, nullable=False),
            Column("revision_pk", Key, nullable=False),
            Column("state_version", BigInteger, nullable=False, server_default="1"),
            # cursor of the live revision
            Column("next_ordinal", BigInteger, nullable=False, server_default="0"),
            Column("next_due", BigInteger),  # set only while the schedule collects (enabled)
            Column("look_at", BigInteger),  # when an advance looks: the next due, or later after a refusal or a fault
            Column("held_due", BigInteger),  # the next due of a schedule paused by an operator, for resume
            Column("last_due", BigInteger),
            Column("last_local", String(32)),
            Column("zoned", Boolean, nullable=False, server_default="0"),
            Column("used", BigInteger, nullable=False, server_default="0"),
            Column("open_count", Integer, nullable=False, server_default="0"),  # open occurrences of any series
            Column("skip_count", Integer, nullable=False, server_default="0"),  # rows in skips
            Column("failures", Integer, nullable=False, server_default="0"),
            Column("last_failure", Text),
            Column("held_by", BigInteger),  # epoch whose worker still runs a timed-out attempt: nothing starts
            Column("attention", String(255)),  # why a person should look: strict refusal, paused by failures …
            Column("owner", String(128)),  # the declared owner (files)
            Column("created_at", BigInteger, nullable=False),
            UniqueConstraint("namespace", "id", name=name("uq_schedule")),
            CheckConstraint(_one_of("state", SCHEDULE_STATES), name=name("ck_schedule_state")),
            CheckConstraint("state = 'enabled' OR next_due IS NULL", name=name("ck_schedule_due")),
            CheckConstraint("(next_due IS NULL) = (look_at IS NULL)", name=name("ck_schedule_look")),
            CheckConstraint(
                "(state IN ('paused', 'disabled')) = (reason IS NOT NULL) OR state IN ('ended', 'cancelled')",
                name=name("ck_schedule_reason"),
            ),
            CheckConstraint("next_ordinal >= 0 AND used >= 0", name=name("ck_schedule_counts")),
            # advance: the due ones, oldest first; with the key, so that nothing sorts all that is due at one instant
            Index(name("ix_schedule_look"), "look_at", "pk"),
            partial("ix_schedule_held", "held_by", where="held_by IS NOT NULL"),
            partial("ix_schedule_resume", "resume_at", where="resume_at IS NOT NULL"),
            reuse=False,
        ),
        revisions=table(
            "revisions",
            Column("pk", Key, primary_key=True, autoincrement=True),
            Column("schedule_pk", Key, ForeignKey(f"{at}{name('schedules')}.pk", ondelete="CASCADE"), nullable=False),
            Column("number", BigInteger, nullable=False),
            Column("definition", Document, nullable=False),
            Column("digest", String(80), nullable=False),
            Column("created_at", BigInteger, nullable=False),
            Column("created_by", String(255)),
            Column("tzdata", String(32)),
            Column("first_due", BigInteger),
            Column("final_ordinal", BigInteger),  # null while live
            Column("final_state", String(16)),
            Column("pruned_before", BigInteger, nullable=False, server_default="0"),
            UniqueConstraint("schedule_pk", "number", name=name("uq_revision")),
            reuse=False,
        ),
        occurrences=table(
            "occurrences",
            Column("pk", Key, primary_key=True, autoincrement=True),
            Column("schedule_pk", Key, nullable=False),
            Column("revision_pk", Key, nullable=False),
            Column("series", String(16), nullable=False),
            Column("ordinal", BigInteger, nullable=False),
            Column("due", BigInteger, nullable=False),  # nominal
            Column("slot_due", BigInteger),  # = due in the slot series, else null
            Column("run_at", BigInteger, nullable=False),  # due with jitter, a retry's time; claims look at this
            Column("state", String(16), nullable=False),
            Column("executor", String(128), nullable=False),  # of a python task; empty: a ready task, left to a host
            Column("expires_at", BigInteger),  # the revision's, for claims and the sweep
            Column("deadline", BigInteger),  # instant: due + deadlineSeconds
            Column("reason", String(32)),
            Column("note", Text),
            Column("active_slot", Integer),  # what may run at once: set from ready to the end
            Column("represents_first", BigInteger, nullable=False),
            Column("represents_last", BigInteger, nullable=False),
            Column("represents_first_due", BigInteger, nullable=False),
            Column("attempt", Integer, nullable=False, server_default="0"),  # attempts begun
            Column("elapsed", BigInteger, nullable=False, server_default="0"),  # execution time so far
            Column("epoch", BigInteger),  # of the owner (or 0 for a host of ready tasks) that claimed it
            Column("token", String(64)),  # fencing token of a ready task's claim
            Column("lease_until", BigInteger),  # of a ready task's claim
            Column("cancel", Boolean, nullable=False, server_default="0"),  # a running attempt is asked to stop
            Column("created_at", BigInteger, nullable=False),
            Column("claimed_at", BigInteger),
            Column("started_at", BigInteger),
            Column("finished_at", BigInteger),
            Column("error_type", String(255)),
            Column("error", Text),
            Column("result", Document),
            UniqueConstraint("revision_pk", "series", "ordinal", name=name("uq_occurrence")),
            UniqueConstraint("revision_pk", "slot_due", name=name("uq_slot_due")),
            CheckConstraint(_one_of("state", (*OPEN_STATES, *FINAL_STATES)), name=name("ck_occurrence_state")),
            CheckConstraint(
                f"({_one_of('state', FINAL_STATES)}) = (finished_at IS NOT NULL)", name=name("ck_occurrence_final")
            ),
            CheckConstraint(
                f"({_one_of('state', HEADS)}) = (active_slot IS NOT NULL)",
                name=name("ck_occurrence_slot"),
            ),
            CheckConstraint("(state IN ('claimed', 'running')) = (epoch IS NOT NULL)", name=name("ck_occurrence_held")),
            partial(
                "uq_active_slot", "schedule_pk", "active_slot", where="active_slot IS NOT NULL", unique=True
            ),  # one head a slot
            partial(
                "ix_occurrence_run", "state", "executor", "run_at", "pk", where=CLAIMABLE
            ),  # claims in their order, and when the next one is possible
            partial(
                "ix_occurrence_open", "schedule_pk", "state", "series", "pk", where=OPEN
            ),  # a schedule's pending work, the next to be promoted
            partial("ix_occurrence_epoch", "epoch", where=HELD),  # an owner's work, recovery
            partial("ix_occurrence_expires", "state", "expires_at", where=f"expires_at IS NOT NULL AND {OPEN}"),
            partial("ix_occurrence_deadline", "state", "deadline", where=f"deadline IS NOT NULL AND {OPEN}"),
            Index(name("ix_occurrence_history"), "schedule_pk", "due"),  # show, why, retention
            reuse=False,
        ),
        ranges=table(
            "ranges",
            Column("pk", Key, primary_key=True, autoincrement=True),
            Column("schedule_pk", Key, nullable=False),
            Column("revision_pk", Key, nullable=False),
            Column("first", BigInteger, nullable=False),
            Column("last", BigInteger, nullable=False),
            Column("first_due", BigInteger, nullable=False),
            Column("last_due", BigInteger, nullable=False),
            Column("verdict", String(16), nullable=False),
            Column("reason", String(32)),
            Column("note", Text),
            Column("occurrence_pk", Key),
            Column("counted", Boolean, nullable=False),
            Column("created_at", BigInteger, nullable=False),
            UniqueConstraint("revision_pk", "first", name=name("uq_range")),
            CheckConstraint("first <= last AND first_due <= last_due", name=name("ck_range_order")),
            CheckConstraint(
                "(verdict = 'represented' AND occurrence_pk IS NOT NULL AND reason IS NULL)"
                " OR (verdict = 'skipped' AND occurrence_pk IS NULL AND reason IS NOT NULL)",
                name=name("ck_range_verdict"),
            ),
            Index(name("ix_range_last"), "revision_pk", "last"),  # the newest range, to extend it
            Index(name("ix_range_history"), "schedule_pk", "last_due"),
        ),
        attempts=table(
            "attempts",
            Column("pk", Key, primary_key=True, autoincrement=True),
            Column("occurrence_pk", Key, nullable=False),
            Column("number", Integer, nullable=False),
            Column("epoch", BigInteger),
            Column("state", String(16), nullable=False),
            Column("started_at", BigInteger),
            Column("ended_at", BigInteger, nullable=False),
            Column("elapsed", BigInteger, nullable=False),
            Column("uncertain", Boolean, nullable=False, server_default="0"),  # elapsed is an upper bound
            Column("late", Boolean, nullable=False, server_default="0"),  # a fenced owner's report: evidence only
            Column("error_type", String(255)),
            Column("error", Text),
            Column("traceback", Text),
            Index(name("ix_attempt_occurrence"), "occurrence_pk", "number"),
        ),
        decisions=table(
            "decisions",
            Column("pk", Key, primary_key=True, autoincrement=True),
            Column("namespace", String(128), nullable=False),
            Column("id", String(255), nullable=False),
            Column("revision", BigInteger),
            Column("state_version", BigInteger),
            Column("action", String(32), nullable=False),
            Column("from_state", String(16)),
            Column("to_state", String(16)),
            Column("principal", String(255), nullable=False),
            Column("at", BigInteger, nullable=False),
            Column("note", Text),
            Column("evidence", Document),  # JSON: approval, digest, what an automatic move saw
            Column("nonce", String(128)),  # of a signed approval; used once
            UniqueConstraint("nonce", name=name("uq_nonce")),
            Index(name("ix_decision_schedule"), "namespace", "id", "pk"),
            reuse=False,
        ),
        owners=table(
            "owners",
            Column("epoch", Key, primary_key=True, autoincrement=True),
            Column("name", String(255), nullable=False),
            Column("host", String(255), nullable=False),
            Column("pid", BigInteger, nullable=False),
            Column("started_at", BigInteger, nullable=False),
            Column("heartbeat_at", BigInteger, nullable=False),
            Column("lease_until", BigInteger, nullable=False),
            Column("state", String(16), nullable=False),  # live, stopped, fenced
            Column("tzdata", String(32)),
            Column("version", String(32)),
            CheckConstraint(_one_of("state", ("live", "stopped", "fenced")), name=name("ck_owner_state")),
            Index(name("ix_owner_state"), "state"),
            reuse=False,
        ),
        clock=table(
            "clock",
            Column("id", Integer, primary_key=True, autoincrement=False),  # always 1
            Column("high_water", BigInteger, nullable=False),
            Column("boot_time", BigInteger),  # boot-time clock when high_water was stored
            Column("boot_id", String(64)),
            Column("hold", String(32)),  # backward, forward, restored; null: none
            Column("hold_since", BigInteger),
            Column("hold_note", Text),
            CheckConstraint("id = 1", name=name("ck_clock_single")),
        ),
        calendars=table(
            "calendars",
            Column("pk", Key, primary_key=True, autoincrement=True),
            Column("name", String(128), nullable=False),
            Column("version", BigInteger, nullable=False),
            Column("definition", Document, nullable=False),
            Column("digest", String(80), nullable=False),
            Column("created_at", BigInteger, nullable=False),
            Column("created_by", String(255)),
            UniqueConstraint("name", "version", name=name("uq_calendar")),
        ),
        skips=table(
            "skips",  # due instants that an operator wants skipped, until their tick judges them
            Column("pk", Key, primary_key=True, autoincrement=True),
            Column("schedule_pk", Key, ForeignKey(f"{at}{name('schedules')}.pk", ondelete="CASCADE"), nullable=False),
            Column("due", BigInteger, nullable=False),
            Column("note", Text),
            Column("principal", String(255), nullable=False),
            Column("created_at", BigInteger, nullable=False),
            UniqueConstraint("schedule_pk", "due", name=name("uq_skip")),
        ),
        alembic=table("alembic_version", Column("version_num", String(32), primary_key=True)),
    )
    event.listen(made.schedules, "after_create", DDL(ROOMY).execute_if(dialect="postgresql"))  # type: ignore[no-untyped-call]
    return made
