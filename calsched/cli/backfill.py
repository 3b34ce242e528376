"""The command `backfill`: run what is past, beside the schedule's own slots; and hold, go on or cancel that."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calsched.app.plain import plain, schedule_plain
from calsched.cli.common import Note, Revision, ScheduleId, Session, command, instant, invalid
from calsched.cli.main import app as root
from calsched.cli.progress import progress
from calsched.cli.render import Output
from calsched.clock import LAST_INSTANT, to_rfc3339
from calsched.words import counted

if TYPE_CHECKING:
    from calsched.app import App
    from calsched.stores.backfill import Candidates, Only

#: Due instants that a dry run lists; of more it tells the number.
LISTED = 50

_VERDICTS = {"underway": "another backfill will run it", "unjudged": "left to the schedule itself"}


@command(root, "backfill")
def backfill(
    session: Session,
    id: ScheduleId,
    first: Annotated[
        str | None, typer.Option("--from", metavar="INSTANT", help="The first instant (RFC 3339).")
    ] = None,
    last: Annotated[str | None, typer.Option("--to", metavar="INSTANT", help="The last instant, now at most.")] = None,
    only: Annotated[
        str | None, typer.Option(metavar="missing|failed", help="Where nothing ran, or where the last run failed.")
    ] = None,
    newest_first: Annotated[bool, typer.Option("--newest-first", help="Begin with the newest.")] = False,
    max_concurrent: Annotated[int, typer.Option(min=1, max=1_000, help="How many run at once, slots not counted.")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show which, and write nothing.")] = False,
    hold: Annotated[bool, typer.Option("--pause", help="Hold the backfills of the schedule.")] = False,
    go_on: Annotated[bool, typer.Option("--resume", help="Let held backfills go on.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel what has not started.")] = False,
    revision: Revision = None,
    note: Note = None,
) -> None:
    """Run a schedule for due instants that are past: occurrences of the live revision, in a series of their own.

    The slots keep their verdicts and their budget. --pause, --resume and --cancel act on backfills that are under way.
    """
    app = session.app()
    moves = [name for name, wanted in (("--pause", hold), ("--resume", go_on), ("--cancel", cancel)) if wanted]
    if moves:
        _move(session, app, id, moves, note, spanned=first is not None or last is not None)
        return
    start, end, which = _span(first, last), LAST_INSTANT if last is None else instant(last, "--to"), _only(only)
    if end < start:
        raise invalid("expected an instant that is not before --from", "--to")
    if dry_run:
        _show(session, id, app.backfill_candidates(id, start, end, only=which))
        return
    with progress(session.out, f"backfill of {id}") as tell:
        made = app.backfill(
            id,
            start,
            end,
            only=which,
            newest_first=newest_first,
            max_concurrent=max_concurrent,
            revision=revision,
            note=note,
            progress=tell,
        )
    _tell(session, made, max_concurrent)


def _span(first: str | None, last: str | None) -> int:
    if first is None:
        raise invalid("say where it begins", "--from", "--from 2026-03-01T00:00:00Z [--to 2026-04-01T00:00:00Z]")
    return instant(first, "--from")


def _only(text: str | None) -> Only:
    known: dict[str | None, Only] = {None: "all", "missing": "missing", "failed": "failed"}
    if text not in known:
        raise invalid(f"expected missing or failed, got {str(text)[:40]!r}", "--only")
    return known[text]


def _move(session: Session, app: App, id: str, moves: list[str], note: str | None, *, spanned: bool) -> None:
    if len(moves) > 1 or spanned:
        raise invalid(f"{' and '.join(moves)} cannot stand together{' with a span' if spanned else ''}", moves[0])
    (move,) = moves
    if move == "--cancel":
        count, done = app.cancel_backfill(id, note=note), "cancelled"
    else:
        count, done = app.hold_backfill(id, hold=move == "--pause", note=note), _HELD[move]
    if session.as_json:
        session.out.json({"id": id, "move": move.removeprefix("--"), "occurrences": count})
    else:
        session.out.text((id, "bold"), f": {counted(count, 'occurrence')} of its backfills {done}")


_HELD = {"--pause": "held", "--resume": "let go on"}


def _show(session: Session, id: str, found: Candidates) -> None:
    if session.as_json:
        session.out.json({"id": id, **plain(found)})
        return
    out: Output = session.out
    for one in found.found[:LISTED]:
        out.line(f"{to_rfc3339(one.due)}  {_became(one.verdict)}")
    if len(found.found) > LISTED:
        rest = len(found.found) - LISTED
        out.line(f"and {rest:,} more, the last one {to_rfc3339(found.found[-1].due)}")
    counts = Counter(one.verdict for one in found.found)
    parts = ", ".join(f"{count:,} {_became(verdict)}" for verdict, count in counts.items())
    out.text((id, "bold"), f": {counted(len(found.found), 'due instant')} would run{f' ({parts})' if parts else ''}")
    _tell_left_out(out, found)


def _became(verdict: str) -> str:
    return {"none": "never judged"}.get(verdict, verdict)


def _tell(session: Session, made: Any, max_concurrent: int) -> None:
    if session.as_json:
        told = {"occurrences": made.made, "leftOut": plain(made.candidates.left_out)}
        session.out.json({**told, "schedule": schedule_plain(made.schedule)})
        return
    at_once = "one at a time" if max_concurrent == 1 else f"{max_concurrent} at once"
    found = made.candidates.found
    span = " to ".join(dict.fromkeys((to_rfc3339(found[0].due), to_rfc3339(found[-1].due))))
    session.out.text(
        (made.schedule.id, "bold"), f": backfill of {counted(made.made, 'occurrence')}, {at_once}, due {span}"
    )
    _tell_left_out(session.out, made.candidates)


def _tell_left_out(out: Output, found: Candidates) -> None:
    for verdict, count in sorted(found.left_out.items()):
        why = f": {_VERDICTS[verdict]}" if verdict in _VERDICTS else ""
        out.line(f"left out: {count:,} {_became(verdict)}{why}", style="dim")
