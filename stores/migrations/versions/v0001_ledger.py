"""The ledger's first tables."""
# ruff: noqa: E501

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.INTEGER(), "sqlite")
DOCUMENT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
MYSQL: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin", "mysql_engine": "InnoDB"}
ONCE: dict[str, Any] = {"sqlite_autoincrement": True, **MYSQL}


def where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def upgrade() -> None:
    name = context.config.attributes["prefix"].__add__
    schema: str | None = context.config.attributes["schema"]

    def key(short: str) -> str:
        return f"{schema}.{name(short)}.pk" if schema else f"{name(short)}.pk"

    op.create_table(
        name("attempts"),
        sa.Column("pk", KEY, autoincrement=True, nullable=False),
        sa.Column("occurrence_pk", KEY, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.Column("elapsed", sa.BigInteger(), nullable=False),
        sa.Column("uncertain", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("late", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("error_type", sa.String(length=255), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("traceback", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("pk"),
        schema=schema,
        **MYSQL,
    )
    op.create_index(name("ix_attempt_occurrence"), name("attempts"), ["occurrence_pk", "number"], schema=schema)
    op.create_table(
        name("calendars"),
        sa.Column("pk", KEY, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("definition", DOCUMENT, nullable=False),
        sa.Column("digest", sa.String(length=80), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=255), nullable=True),
        sa.PrimaryKeyConstraint("pk"),
        sa.UniqueConstraint("name", "version", name=name("uq_calendar")),
        schema=schema,
        **MYSQL,
    )
    op.create_table(
        name("clock"),
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("high_water", sa.BigInteger(), nullable=False),
        sa.Column("boot_time", sa.BigInteger(), nullable=True),
        sa.Column("boot_id", sa.String(length=64), nullable=True),
        sa.Column("hold", sa.String(length=32), nullable=True),
        sa.Column("hold_since", sa.BigInteger(), nullable=True),
        sa.Column("hold_note", sa.Text(), nullable=True),
        sa.CheckConstraint("id = 1", name=name("ck_clock_single")),
        sa.PrimaryKeyConstraint("id"),
        schema=schema,
        **MYSQL,
    )
    op.create_table(
        name("decisions"),
        sa.Column("pk", KEY, autoincrement=True, nullable=False),
        sa.Column("namespace", sa.String(length=128), nullable=False),
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=True),
        sa.Column("state_version", sa.BigInteger(), nullable=True),
        sa.Column("action", sa.String(length=32), nullable=False),
        sa.Column("from_state", sa.String(length=16), nullable=True),
        sa.Column("to_state", sa.String(length=16), nullable=True),
        sa.Column("principal", sa.String(length=255), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("evidence", DOCUMENT, nullable=True),
        sa.Column("nonce", sa.String(length=128), nullable=True),
        sa.PrimaryKeyConstraint("pk"),
        sa.UniqueConstraint("nonce", name=name("uq_nonce")),
        schema=schema,
        **ONCE,
    )
    op.create_index(name("ix_decision_schedule"), name("decisions"), ["namespace", "id", "pk"], schema=schema)
    op.create_table(
        name("meta"),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("name"),
        schema=schema,
        **MYSQL,
    )
    op.create_table(
        name("occurrences"),
        sa.Column("pk", KEY, autoincrement=True, nullable=False),
        sa.Column("schedule_pk", KEY, nullable=False),
        sa.Column("revision_pk", KEY, nullable=False),
        sa.Column("series", sa.String(length=16), nullable=False),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("due", sa.BigInteger(), nullable=False),
        sa.Column("slot_due", sa.BigInteger(), nullable=True),
        sa.Column("run_at", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("executor", sa.String(length=128), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("deadline", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("active_slot", sa.Integer(), nullable=True),
        sa.Column("represents_first", sa.BigInteger(), nullable=False),
        sa.Column("represents_last", sa.BigInteger(), nullable=False),
        sa.Column("represents_first_due", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("elapsed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=True),
        sa.Column("token", sa.String(length=64), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.Column("cancel", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("claimed_at", sa.BigInteger(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("error_type", sa.String(length=255), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("result", DOCUMENT, nullable=True),
        sa.CheckConstraint(
            "(state = 'ready' OR state = 'claimed' OR state = 'running' OR state = 'retrying') = (active_slot IS NOT NULL)",
            name=name("ck_occurrence_slot"),
        ),
        sa.CheckConstraint(
            "(state = 'succeeded' OR state = 'failed' OR state = 'timed_out' OR state = 'interrupted' OR state = 'cancelled' OR state = 'skipped') = (finished_at IS NOT NULL)",
            name=name("ck_occurrence_final"),
        ),
        sa.CheckConstraint("(state IN ('claimed', 'running')) = (epoch IS NOT NULL)", name=name("ck_occurrence_held")),
        sa.CheckConstraint(
            "state = 'waiting' OR state = 'ready' OR state = 'claimed' OR state = 'running' OR state = 'retrying' OR state = 'succeeded' OR state = 'failed' OR state = 'timed_out' OR state = 'interrupted' OR state = 'cancelled' OR state = 'skipped'",
            name=name("ck_occurrence_state"),
        ),
        sa.PrimaryKeyConstraint("pk"),
        sa.UniqueConstraint("revision_pk", "series", "ordinal", name=name("uq_occurrence")),
        sa.UniqueConstraint("revision_pk", "slot_due", name=name("uq_slot_due")),
        schema=schema,
        **ONCE,
    )
    op.create_index(
        name("ix_occurrence_deadline"),
        name("occurrences"),
        ["state", "deadline"],
        schema=schema,
        **where("deadline IS NOT NULL AND finished_at IS NULL"),
    )
    op.create_index(
        name("ix_occurrence_epoch"), name("occurrences"), ["epoch"], schema=schema, **where("epoch IS NOT NULL")
    )
    op.create_index(
        name("ix_occurrence_expires"),
        name("occurrences"),
        ["state", "expires_at"],
        schema=schema,
        **where("expires_at IS NOT NULL AND finished_at IS NULL"),
    )
    op.create_index(name("ix_occurrence_history"), name("occurrences"), ["schedule_pk", "due"], schema=schema)
    op.create_index(
        name("ix_occurrence_open"),
        name("occurrences"),
        ["schedule_pk", "state", "series", "pk"],
        schema=schema,
        **where("finished_at IS NULL"),
    )
    op.create_index(
        name("ix_occurrence_run"),
        name("occurrences"),
        ["state", "executor", "run_at", "pk"],
        schema=schema,
        **where("state IN ('ready', 'retrying')"),
    )
    op.create_index(
        name("uq_active_slot"),
        name("occurrences"),
        ["schedule_pk", "active_slot"],
        unique=True,
        schema=schema,
        **where("active_slot IS NOT NULL"),
    )
    op.create_table(
        name("owners"),
        sa.Column("epoch", KEY, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("heartbeat_at", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("tzdata", sa.String(length=32), nullable=True),
        sa.Column("version", sa.String(length=32), nullable=True),
        sa.CheckConstraint("state = 'live' OR state = 'stopped' OR state = 'fenced'", name=name("ck_owner_state")),
        sa.PrimaryKeyConstraint("epoch"),
        schema=schema,
        **ONCE,
    )
    op.create_index(name("ix_owner_state"), name("owners"), ["state"], schema=schema)
    op.create_table(
        name("ranges"),
        sa.Column("pk", KEY, autoincrement=True, nullable=False),
        sa.Column("schedule_pk", KEY, nullable=False),
        sa.Column("revision_pk", KEY, nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("first_due", sa.BigInteger(), nullable=False),
        sa.Column("last_due", sa.BigInteger(), nullable=False),
        sa.Column("verdict", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("occurrence_pk", KEY, nullable=True),
        sa.Column("counted", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "(verdict = 'represented' AND occurrence_pk IS NOT NULL AND reason IS NULL) OR (verdict = 'skipped' AND occurrence_pk IS NULL AND reason IS NOT NULL)",
            name=name("ck_range_verdict"),
        ),
        sa.CheckConstraint("first <= last AND first_due <= last_due", name=name("ck_range_order")),
        sa.PrimaryKeyConstraint("pk"),
        sa.UniqueConstraint("revision_pk", "first", name=name("uq_range")),
        schema=schema,
        **MYSQL,
    )
    op.create_index(name("ix_range_history"), name("ranges"), ["schedule_pk", "last_due"], schema=schema)
    op.create_index(name("ix_range_last"), name("ranges"), ["revision_pk", "last"], schema=schema)
    op.create_table(
        name("schedules"),
        sa.Column("pk", KEY, autoincrement=True, nullable=False),
        sa.Column("namespace", sa.String(length=128), nullable=False),
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("changed_by", sa.String(length=255), nullable=True),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("resume_at", sa.BigInteger(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("revision_pk", KEY, nullable=False),
        sa.Column("state_version", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("next_ordinal", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("next_due", sa.BigInteger(), nullable=True),
        sa.Column("look_at", sa.BigInteger(), nullable=True),
        sa.Column("held_due", sa.BigInteger(), nullable=True),
        sa.Column("last_due", sa.BigInteger(), nullable=True),
        sa.Column("last_local", sa.String(length=32), nullable=True),
        sa.Column("zoned", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("used", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("open_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("skip_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("last_failure", sa.Text(), nullable=True),
        sa.Column("held_by", sa.BigInteger(), nullable=True),
        sa.Column("attention", sa.String(length=255), nullable=True),
        sa.Column("owner", sa.String(length=128), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "(state IN ('paused', 'disabled')) = (reason IS NOT NULL) OR state IN ('ended', 'cancelled')",
            name=name("ck_schedule_reason"),
        ),
        sa.CheckConstraint("state = 'enabled' OR next_due IS NULL", name=name("ck_schedule_due")),
        sa.CheckConstraint(
            "state = 'enabled' OR state = 'disabled' OR state = 'paused' OR state = 'ended' OR state = 'cancelled'",
            name=name("ck_schedule_state"),
        ),
        sa.CheckConstraint("(next_due IS NULL) = (look_at IS NULL)", name=name("ck_schedule_look")),
        sa.CheckConstraint("next_ordinal >= 0 AND used >= 0", name=name("ck_schedule_counts")),
        sa.PrimaryKeyConstraint("pk"),
        sa.UniqueConstraint("namespace", "id", name=name("uq_schedule")),
        schema=schema,
        **ONCE,
    )
    if op.get_bind().dialect.name == "postgresql":
        table = f"{schema}.{name('schedules')}" if schema else name("schedules")
        op.execute(f"ALTER TABLE {table} SET (fillfactor = 70)")
    op.create_index(
        name("ix_schedule_held"), name("schedules"), ["held_by"], schema=schema, **where("held_by IS NOT NULL")
    )
    op.create_index(name("ix_schedule_look"), name("schedules"), ["look_at", "pk"], schema=schema)
    op.create_index(
        name("ix_schedule_resume"), name("schedules"), ["resume_at"], schema=schema, **where("resume_at IS NOT NULL")
    )
    op.create_table(
        name("revisions"),
        sa.Column("pk", KEY, autoincrement=True, nullable=False),
        sa.Column("schedule_pk", KEY, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("definition", DOCUMENT, nullable=False),
        sa.Column("digest", sa.String(length=80), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=255), nullable=True),
        sa.Column("tzdata", sa.String(length=32), nullable=True),
        sa.Column("first_due", sa.BigInteger(), nullable=True),
        sa.Column("final_ordinal", sa.BigInteger(), nullable=True),
        sa.Column("final_state", sa.String(length=16), nullable=True),
        sa.Column("pruned_before", sa.BigInteger(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(["schedule_pk"], [key("schedules")], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("pk"),
        sa.UniqueConstraint("schedule_pk", "number", name=name("uq_revision")),
        schema=schema,
        **ONCE,
    )
    op.create_table(
        name("skips"),
        sa.Column("pk", KEY, autoincrement=True, nullable=False),
        sa.Column("schedule_pk", KEY, nullable=False),
        sa.Column("due", sa.BigInteger(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("principal", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["schedule_pk"], [key("schedules")], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("pk"),
        sa.UniqueConstraint("schedule_pk", "due", name=name("uq_skip")),
        schema=schema,
        **MYSQL,
    )


def downgrade() -> None:
    raise NotImplementedError("the first tables have nothing before them; drop them instead")
