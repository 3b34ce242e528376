"""Commands of upkeep: prune."""

from __future__ import annotations

from typing import Annotated

import typer

from calsched.cli.common import Session, command
from calsched.cli.main import app as root
from calsched.cli.progress import progress


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
        session.out.line(
            f"{gone.occurrences:,} occurrences, {gone.ranges:,} ranges and {gone.extra_runs:,} extra runs went"
        )
