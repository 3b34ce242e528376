"""Run by Alembic: migrate the tables of one prefix over a connection that the caller holds."""

from __future__ import annotations

from alembic import context

attributes = context.config.attributes
context.configure(
    connection=attributes["connection"],
    version_table=f"{attributes['prefix']}alembic_version",
    version_table_schema=attributes["schema"],
    transaction_per_migration=False,
    transactional_ddl=attributes["connection"].dialect.name != "mysql",
)
context.run_migrations()
