"""Commands of upkeep: prune, backup, restore, backlog."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from calsched.cli.common import Note, Session, command, invalid, readable
from calsched.cli.main import app as root
from calsched.cli.progress import progress
from calsched.words import counted


@command(root, "prune")
def prune(
    session: Session,
    id: Annotated[str | None, typer.Argument(metavar="[ID]", help="One schedule; else the whole namespace.")] = None,
    keep_days: Annotated[
        int | None, typer.Option(min=1, max=36_500, help="Keep what is not older (else keepDays of the settings).")
    ] = None,
    keep_count: Annotated[
        int | None, typer.Option(min=1, help="Keep so many verdicts of each schedule (else keepCount).")
    ] = None,
) -> None:
    """Remove old verdicts in small transactions, beside a running owner. What either limit keeps is kept.

    Open work and a schedule's last outcome always stay; `why` says of the rest that it has been pruned.
    """
    app = session.app()
    if id is not None:
        app.get(id)
    with progress(session.out, "prune: schedules") as tell:
        gone = app.prune(id, keep_days=keep_days, keep_count=keep_count, progress=tell)
    if session.as_json:
        session.out.json({"occurrences": gone.occurrences, "ranges": gone.ranges, "extraRuns": gone.extra_runs})
    else:
        rows = f"{gone.occurrences:,} occurrences, {gone.ranges:,} ranges and {gone.extra_runs:,} extra runs"
        session.out.line(f"{rows} went")


@command(root, "backup")
def backup(
    session: Session, file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write; it must be new.")]
) -> None:
    """Write the whole ledger into one file with a checksum, from one snapshot; an owner may go on working."""
    with progress(session.out, "backup: rows") as tell:
        made = session.app().backup(readable(file), progress=tell)
    if session.as_json:
        session.out.json({"file": file, "rows": made.rows, "sha256": made.sha256, "bytes": made.size})
    else:
        session.out.line(f"{file}: {sum(made.rows.values()):,} rows, {made.size:,} bytes, sha256 {made.sha256}")


@command(root, "restore")
def restore(
    session: Session,
    file: Annotated[str, typer.Argument(metavar="FILE", help="What `calsched backup` wrote.")],
    as_new: Annotated[bool, typer.Option("--as-new", help="Give the store another installation id.")] = False,
    note: Note = None,
) -> None:
    """Read a backup into an empty store, of any supported database. The file is checked whole before a row is written.

    Active schedules are paused and dispatch is on hold, until `calsched backlog` says what becomes of what was missed.
    """
    with progress(session.out, "restore: rows") as tell:
        done = session.app().restore(readable(file), as_new=as_new, note=note, progress=tell)
    if session.as_json:
        session.out.json(
            {
                "installation": done.installation,
                "rows": done.rows,
                "paused": done.paused,
                "interrupted": done.interrupted,
            }
        )
        return
    session.out.line(f"restored {counted(done.rows.get('schedules', 0), 'schedule')}, installation {done.installation}")
    if done.interrupted:
        ended = "is" if done.interrupted == 1 else "are"
        session.out.line(f"{counted(done.interrupted, 'occurrence')} that ran {ended} recorded as interrupted")
    session.out.note(f"{counted(done.paused, 'schedule')} paused; decide: calsched backlog release, drop or latest")


@command(root, "backlog")
def backlog(
    session: Session,
    how: Annotated[str, typer.Argument(metavar="release|drop|latest", help="What becomes of what was missed.")],
    id: Annotated[str | None, typer.Argument(metavar="[ID]", help="One schedule; else all of them.")] = None,
    note: Note = None,
) -> None:
    """After a restore: let the schedules go on.

    release: their misfire policies judge what came due meanwhile; drop: it is one skipped range each; latest: as drop,
    but the last slot is left to the misfire policy.
    """
    if how not in ("release", "drop", "latest"):
        raise invalid(f"expected release, drop or latest, got {how[:40]!r}", "backlog")
    chosen: Any = how
    app = session.app()
    if id is not None:
        app.get(id)
    done = app.backlog(chosen, id, namespace=session.flags.get("namespace"), note=note)
    if session.as_json:
        session.out.json({"schedules": [{"namespace": namespace, "id": name} for namespace, name in done]})
    else:
        session.out.line(f"{counted(len(done), 'schedule')} {'goes' if len(done) == 1 else 'go'} on")
