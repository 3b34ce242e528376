"""Commands of a deploy: plan says what files would change, apply changes it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calsched.cli.common import Files, InputFormat, Note, Session, command, format_of, invalid, sources
from calsched.cli.files import warn
from calsched.cli.main import app as root
from calsched.cli.render import Output
from calsched.clock import to_rfc3339
from calsched.words import counted

if TYPE_CHECKING:
    from calsched.changes import Change, ChangeSet

#: Exit code of `plan` when there is something to apply.
CHANGES = 10
#: Due instants that are named of one change; of the others only the number is told.
NAMED = 5

_STYLES = {"create": "green", "restore": "green", "enable": "green", "retire": "red", "disable": "red"}

Prune = Annotated[
    bool, typer.Option("--prune", help="Retire schedules of the same declared owner that the files no longer name.")
]


@command(root, "plan")
def plan(
    session: Session,
    files: Files,
    days: Annotated[int, typer.Option(min=0, max=366, help="How far ahead due instants are compared.")] = 7,
    prune: Prune = False,
    out: Annotated[Path | None, typer.Option(help="Save the plan, for `apply`.")] = None,
    input_format: InputFormat = None,
) -> None:
    """What applying these files would change, and which due instants appear, disappear or move. Nothing is written.

    Exit code 0: nothing to do; 10: changes.
    """
    format = format_of(input_format)
    app = session.app()
    found, checked = app.plan(sources(files, format), days=days, prune=prune, format=format)
    if out is not None:
        _save(out, app.saved_plan(found, checked, prune=prune))
    screen = session.out
    if screen.as_json:
        screen.json(_plain(found))
    else:
        warn(screen, checked.warnings)
        show(screen, found, days)
        if out is not None:
            screen.note(f"saved; `calsched apply {out}` does it, as long as the store stays as it is")
    if found.pending or found.calendars:
        raise typer.Exit(CHANGES)


@command(root, "apply")
def apply(
    session: Session,
    files: Files,
    prune: Prune = False,
    catch_up: Annotated[
        bool, typer.Option("--catch-up", help="What a retired schedule missed is left to its misfire policy.")
    ] = False,
    note: Note = None,
    input_format: InputFormat = None,
) -> None:
    """Make the store equal to these files, or do what a saved plan says: all or nothing.

    What an operator paused stays paused; unchanged files write nothing.
    """
    from calsched.app.deploy import is_plan, read_plan

    app = session.app()
    if is_plan(files):
        if prune:
            raise invalid("a saved plan says itself whether to prune", "--prune", "plan again with --prune")
        found = app.apply_saved(read_plan(Path(files[0])), catch_up=catch_up, note=note, file=files[0])
    else:
        format = format_of(input_format)
        found = app.apply(sources(files, format), prune=prune, catch_up=catch_up, note=note, format=format)
    out = session.out
    if out.as_json:
        out.json(_plain(found))
        return
    show(out, found, 0)


def _save(file: Path, text: str) -> None:
    try:
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise invalid(f"{file} cannot be written: {error.strerror}", "--out") from None


def _plain(found: ChangeSet) -> dict[str, Any]:
    return {
        "store": found.store,
        "calendars": list(found.calendars),
        "changes": [_change_plain(change) for change in found.pending],
        "unchanged": len(found.changes) - len(found.pending),
        "undeclared": list(found.undeclared),
    }


def _change_plain(change: Change) -> dict[str, Any]:
    effects = change.effects
    return {
        "namespace": change.namespace,
        "id": change.id,
        "was": change.known.id if change.known is not None and change.known.id != change.id else None,
        "steps": list(change.steps),
        "keys": list(change.keys),
        "added": [to_rfc3339(due) for due in effects.added],
        "removed": [to_rfc3339(due) for due in effects.removed],
        "moved": [[to_rfc3339(before), to_rfc3339(after)] for before, after in effects.moved],
        "more": effects.more,
    }


def show(out: Output, found: ChangeSet, days: int) -> None:
    for name in found.calendars:
        out.text(("calendar ", "yellow"), (name, "bold"), " gets a new version")
    for change in found.pending:
        _show_change(out, change, days)
    if found.undeclared:
        names = ", ".join(found.undeclared[:NAMED]) + (" …" if len(found.undeclared) > NAMED else "")
        out.note(f"no longer declared, and left as it is without --prune: {names}")
    told = [_counted(found.pending), f"{counted(len(found.calendars), 'calendar')} to renew" if found.calendars else ""]
    todo = ", ".join(one for one in told if one) or "nothing to do"
    out.line(f"{todo}; {len(found.changes) - len(found.pending)} unchanged", style="bold")


def _show_change(out: Output, change: Change, days: int) -> None:
    steps = ", ".join(change.steps) or "follow the calendar"
    style = next((_STYLES[step] for step in change.steps if step in _STYLES), "yellow")
    was = f" (was {change.known.id})" if change.known is not None and change.known.id != change.id else ""
    keys = f": {', '.join(change.keys)}" if change.keys else ""
    out.text((steps, style), " ", (change.id, "bold"), was, keys)
    effects = change.effects
    _instants(out, "+", "green", [to_rfc3339(due) for due in effects.added], days)
    _instants(out, "-", "red", [to_rfc3339(due) for due in effects.removed], days)
    _instants(out, "~", "yellow", [f"{to_rfc3339(a)} to {to_rfc3339(b)}" for a, b in effects.moved], days)
    if effects and effects.more:
        out.line("    and others, beyond what is compared", style="dim")


def _instants(out: Output, sign: str, style: str, texts: list[str], days: int) -> None:
    for text in texts[:NAMED]:
        out.text("    ", (f"{sign} {text}", style))
    if len(texts) > NAMED:
        out.text("    ", (f"{sign} {len(texts) - NAMED} more in {days} days", style))


def _counted(changes: Iterable[Change]) -> str:
    counts: dict[str, int] = {}
    for change in changes:
        for step in change.steps or ("follow",):
            counts[step] = counts.get(step, 0) + 1
    return ", ".join(f"{number} to {step}" for step, number in counts.items())
