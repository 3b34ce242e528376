"""Commands about business calendars: list, show, set with the effect shown first."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from calsched.app.plain import plain
from calsched.cli.common import Files, InputFormat, Note, Session, command, format_of, invalid, sources
from calsched.cli.main import app as root
from calsched.cli.render import Output
from calsched.clock import to_rfc3339
from calsched.errors import Refused
from calsched.words import WEEKDAYS, counted

group = typer.Typer(
    name="calendars", help="The business calendars of the store.", no_args_is_help=True, rich_markup_mode=None
)
root.add_typer(group)
_SHOWN = 12


@command(group, "list")
def list_calendars(session: Session) -> None:
    """Every calendar with its version, the last day it knows, and the schedules that use it."""
    found = session.app().calendars()
    out = session.out
    if out.as_json:
        out.json({"calendars": [_plain(one) for one in found]})
        return
    if not found:
        out.line("no calendars here")
        return
    rows = [
        [one.calendar.name, one.calendar.version, one.calendar.last_covered_day or "for ever", ", ".join(one.schedules)]
        for one in found
    ]
    out.table(["NAME", "VERSION", "KNOWN TO", "SCHEDULES"], rows, right=["VERSION"])
    for one in found:
        if one.runs_out:
            out.note(one.runs_out)


def _plain(one: Any) -> dict[str, Any]:
    last = one.calendar.last_covered_day
    return {
        "name": one.calendar.name,
        "version": one.calendar.version,
        "knownTo": None if last is None else last.isoformat(),
        "schedules": list(one.schedules),
        "runsOut": one.runs_out,
    }


@command(group, "show")
def show_calendar(session: Session, name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """The resolved material of one calendar."""
    one = next((one for one in session.app().calendars() if one.calendar.name == name), None)
    if one is None:
        raise Refused(f"no calendar {name!r}; `calsched calendars list` shows what there is")
    out = session.out
    if out.as_json:
        out.json({**_plain(one), "material": plain(one.calendar.material)})
        return
    out.fields({key: value for key, value in _plain(one).items() if not isinstance(value, list)})
    out.line()
    _show_material(out, one.calendar.material)


def _show_material(out: Output, material: Mapping[str, Any], indent: str = "") -> None:
    """What is not empty, a day a line."""
    for key, value in material.items():
        if key == "union":
            for part in value:
                out.line(f"{indent}closed too where this is closed")
                _show_material(out, part, f"{indent}  ")
        elif isinstance(value, Mapping):
            for day, name in value.items():
                out.line(f"{indent}{key}  {day}  {name}".rstrip())
        elif key == "weekend" and "union" not in material:
            out.line(f"{indent}weekend  {', '.join(WEEKDAYS[day] for day in value) or 'none'}")
        elif value:
            value = ", ".join(map(str, value)) if isinstance(value, list) else value
            out.line(f"{indent}{key}  {value}")


@command(group, "set")
def set_calendars(
    session: Session,
    files: Files,
    days: Annotated[int, typer.Option(min=1, max=3660, help="How far the effect is shown.")] = 365,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    note: Note = None,
    input_format: InputFormat = None,
) -> None:
    """Store the calendars of files, after showing which coming due instants of which schedules that moves."""
    format = format_of(input_format)
    app = session.app()
    change = app.calendar_change(sources(files, format), days=days, format=format)
    out = session.out
    if out.as_json:
        followed = app.set_calendars(change, note=note) if yes and change.versions else None
        out.json({"versions": dict(change.versions), "effects": plain(change.effects), "schedules": followed})
        return
    _show_change(out, change)
    if not change.versions:
        return
    if not yes:
        if not sys.stdin.isatty():
            raise invalid("nothing was changed; say --yes to do this", "--yes")
        typer.confirm("Do this?", abort=True)
    followed = app.set_calendars(change, note=note)
    out.line(f"done; {counted(followed, 'schedule')} {'follows' if followed == 1 else 'follow'}")


def _show_change(out: Output, change: Any) -> None:
    if not change.versions:
        out.line("nothing would change")
        return
    out.line("new versions: " + ", ".join(f"{name} {version}" for name, version in change.versions.items()))
    for effect in change.effects:
        found = effect.changes
        if not found:
            out.text((effect.id, "bold"), f": nothing moves within {change.days} days")
            continue
        out.text((effect.id, "bold"))
        for due in found.removed[:_SHOWN]:
            out.line(f"  - {to_rfc3339(due)}", style="red")
        for due in found.added[:_SHOWN]:
            out.line(f"  + {to_rfc3339(due)}", style="green")
        for move in found.moved[:_SHOWN]:
            out.line(f"  ~ {to_rfc3339(move.before)} → {to_rfc3339(move.after)}", style="yellow")
        hidden = sum(max(len(some) - _SHOWN, 0) for some in (found.removed, found.added, found.moved))
        if hidden or found.more:
            out.line(f"  … and {hidden or 'more'}", style="dim")
