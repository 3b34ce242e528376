"""Commands about the tables: db current, upgrade, check."""

from __future__ import annotations

import typer

from calsched.cli.common import Session, command
from calsched.cli.main import app as root
from calsched.words import counted

group = typer.Typer(name="db", help="The tables of the store.", no_args_is_help=True, rich_markup_mode=None)
root.add_typer(group)


@command(group, "current")
def current(session: Session) -> None:
    """Which schema the store has, and which one this program needs."""
    found = session.app().schema_current()
    out = session.out
    if out.as_json:
        out.json(
            {
                "revision": found.revision,
                "version": found.version,
                "newest": found.newest,
                "upToDate": found.up_to_date,
            }
        )
        return
    if found.version is None:
        out.line("no tables of calsched yet")
    elif found.up_to_date:
        out.line(f"schema version {found.version} ({found.revision}), the newest")
    else:
        out.line(
            f"schema version {found.version} ({found.revision}); the newest is {found.newest}: `calsched db upgrade`"
        )


@command(group, "upgrade")
def upgrade(session: Session) -> None:
    """Bring the tables to the schema of this program. Stop the owners first, and take a backup."""
    steps = session.app().schema_upgrade()
    out = session.out
    if out.as_json:
        out.json({"steps": steps})
        return
    for step in steps:
        out.line(step)
    out.line(f"{counted(len(steps), 'step')} taken" if steps else "nothing to do: the schema is the newest")


@command(group, "check")
def check(session: Session) -> None:
    """Compare the tables with those that this program knows. Exit code 1 where they differ."""
    differences = session.app().schema_check()
    out = session.out
    if out.as_json:
        out.json({"ok": not differences, "differences": differences})
    else:
        for line in differences:
            out.error(line)
        if not differences:
            out.line("the tables are as they should be", style="green")
    if differences:
        raise typer.Exit(1)
