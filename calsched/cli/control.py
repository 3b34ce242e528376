"""Commands that change what a schedule does: each one a decision with who, when and why."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from calsched.app.plain import plain, schedule_plain
from calsched.cli.common import (
    InputFormat,
    Note,
    Revision,
    ScheduleId,
    Session,
    command,
    format_of,
    instant,
    invalid,
    sources,
)
from calsched.cli.main import app as root
from calsched.cli.render import Output, state
from calsched.clock import to_rfc3339
from calsched.words import counted

Version = Annotated[int | None, typer.Option(min=1, help="Refuse unless this is the state version.")]
Instant = Annotated[str, typer.Argument(metavar="INSTANT", help="RFC 3339, such as 2026-03-09T09:00:00-06:00.")]


def told(session: Session, view: Any, what: str) -> None:
    """The schedule as it is after a control."""
    if session.as_json:
        session.out.json(schedule_plain(view))
        return
    out: Output = session.out
    version = f" (state version {view.state_version})"
    due = _next_due(view, session.app().due_after_skips(view))
    out.text((f"{view.id}", "bold"), f": {what}", *_parts(view, due, said=what.split()[0] == view.state), version)


def _next_due(view: Any, after_skips: int | None) -> str:
    """The next due instant; where it is to be skipped, also the one that follows."""
    if view.next_due is None:
        return ""
    due = f", next due {to_rfc3339(view.next_due)}"
    if after_skips == view.next_due:
        return due
    then = to_rfc3339(after_skips) if after_skips is not None else "never again"
    return f"{due} (to be skipped), then {then}"


def _parts(view: Any, due: str, *, said: bool) -> list[tuple[str, str]]:
    """State and next due; of a state that is ``said`` already only the reason."""
    if said:
        return [(f" ({view.reason})" if view.reason else "", ""), (due, "")]
    now = state(view.state, view.reason)
    return [("; it is ", ""), (now.plain, str(now.spans[0].style) if now.spans else ""), (due, "")]


def _simple(name: str, done: str, summary: str) -> Callable[..., None]:
    """A control that takes an id, a revision and a note, and nothing else."""

    def control(
        session: Session, id: ScheduleId, revision: Revision = None, expect_version: Version = None, note: Note = None
    ) -> None:
        act = getattr(session.app(), name)
        told(session, act(id, revision=revision, version=expect_version, note=note), done)

    control.__doc__ = summary
    return command(root, name, help=summary)(control)


_simple("resume", "resumed", "Take up a paused schedule where it stood; its misfire policy judges what accumulated.")
_simple("enable", "enabled", "Enable a disabled or failed schedule; it computes from now and replays nothing.")
_simple("disable", "disabled", "Stop a schedule: nothing is due any more, what waits is skipped, what runs ends.")
_simple("cancel", "cancelled", "End this revision for good: what waits is cancelled, what runs is asked to stop.")


@command(root, "pause")
def pause(
    session: Session,
    id: ScheduleId,
    until: Annotated[str | None, typer.Option(help="Resume by itself at this instant (RFC 3339).")] = None,
    revision: Revision = None,
    expect_version: Version = None,
    note: Note = None,
) -> None:
    """Hold a schedule: its cursor stays, what waits is held, and due times accumulate until it is resumed."""
    end = None if until is None else instant(until, "--until")
    view = session.app().pause(id, until=end, revision=revision, version=expect_version, note=note)
    told(session, view, "paused" if end is None else f"paused until {to_rfc3339(end)}")


@command(root, "delete")
def delete(
    session: Session,
    id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Id; without one, a whole --namespace.")] = None,
    revision: Revision = None,
    expect_version: Version = None,
    note: Note = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a whole namespace is deleted.")] = False,
) -> None:
    """Remove a schedule and its occurrences; decisions stay. Refused while work is pending."""
    if id is None:
        _delete_namespace(session, note, yes)
        return
    session.app().delete(id, revision=revision, version=expect_version, note=note)
    if session.as_json:
        session.out.json({"deleted": [id]})
    else:
        session.out.line(f"{id}: deleted; its decisions and the number of its last revision stay")


def _delete_namespace(session: Session, note: str | None, yes: bool) -> None:
    name = session.flags.get("namespace")
    if name is None:
        raise invalid("name a schedule, or a whole namespace with --namespace", "ID")
    app = session.app()
    if not yes:
        if not sys.stdin.isatty():
            raise invalid(f"say --yes to delete every schedule of namespace {name!r}", "--yes")
        typer.confirm(
            f"Delete every schedule of namespace {name!r} ({len(app.list(limit=10_000).schedules)} of them)?",
            abort=True,
        )
    gone = app.delete_namespace(note=note)
    if session.as_json:
        session.out.json({"deleted": gone})
    else:
        session.out.line(f"namespace {name}: {counted(len(gone), 'schedule')} deleted")


@command(root, "update")
def update(
    session: Session,
    id: ScheduleId,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Keys that replace those of the definition; - reads them.")
    ],
    revision: Revision = None,
    expect_version: Version = None,
    note: Note = None,
    input_format: InputFormat = None,
    cancel_pending: Annotated[
        bool, typer.Option("--cancel-pending", help="Cancel work that waits, then revise.")
    ] = False,
) -> None:
    """Make a new revision of a schedule. FILE may be partial: its keys replace those of the definition.

    Of a file of several schedules the one with this id counts, with the file's defaults, owner and zone.

    Where it says what the live revision says already, nothing changes as long as the schedule is enabled, nothing of
    its budget is used, no failures are counted and no attention is asked for; otherwise it is a fresh revision, which
    reactivates the schedule with a fresh budget.
    """
    format = format_of(input_format)
    app = session.app()
    before = app.get(id).revision
    view = app.update(
        id,
        sources([file], format),
        format=format,
        revision=revision,
        version=expect_version,
        note=note,
        cancel_pending=cancel_pending,
    )
    same = view.revision == before
    told(
        session,
        view,
        f"nothing to change, revision {before} says the same" if same else f"revision {view.revision} is live",
    )


@command(root, "run")
def run_now(session: Session, id: ScheduleId, note: Note = None) -> None:
    """Ask for an extra occurrence now, in its own series; the slots of the schedule are not touched."""
    made = session.app().run(id, note=note)
    if session.as_json:
        session.out.json(plain(made))
    else:
        session.out.text((id, "bold"), f": extra occurrence {made.ordinal} is {made.state}")


@command(root, "skip")
def skip(session: Session, id: ScheduleId, at: Instant, note: Note = None) -> None:
    """Skip one due instant that is still to come; the ledger says who and why."""
    due = instant(at, "INSTANT")
    view = session.app().skip(id, [due], note=note)
    told(session, view, f"{to_rfc3339(due)} will be skipped")


@command(root, "skip-next")
def skip_next(session: Session, id: ScheduleId, note: Note = None) -> None:
    """Skip the next due instant of a schedule; the ledger says who and why."""
    view, due = session.app().skip_next(id, note=note)
    told(session, view, f"{to_rfc3339(due)} will be skipped")


@command(root, "unskip")
def unskip(session: Session, id: ScheduleId, at: Instant, note: Note = None) -> None:
    """Take back a skip that is not judged yet."""
    due = instant(at, "INSTANT")
    told(session, session.app().unskip(id, due, note=note), f"{to_rfc3339(due)} will not be skipped")
