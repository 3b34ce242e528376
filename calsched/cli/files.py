"""Commands about declaration files: check, preview, create, schema."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from calsched.app.plain import preview_plain, schedule_plain
from calsched.cli.common import Files, InputFormat, Note, Session, command, format_of, instant, invalid, sources
from calsched.cli.main import app as root
from calsched.cli.render import Output, json_text, problem_plain, styled
from calsched.clock import to_rfc3339
from calsched.errors import Problem
from calsched.words import WEEKDAYS, counted


@command(root, "check")
def check(session: Session, files: Files, input_format: InputFormat = None) -> None:
    """Read declarations and name every problem at once. Nothing is written."""
    format = format_of(input_format)
    checked = session.app().check(sources(files, format), format)
    out = session.out
    if out.as_json:
        out.json(_checked_plain(checked))
    else:
        for problem in checked.problems:
            out.error(problem)
        warn(out, checked.warnings)
    if checked.problems:
        raise typer.Exit(2)
    if not out.as_json:
        out.line(f"{_count(checked.declarations)} fine")


def warn(out: Output, warnings: Iterable[Problem]) -> None:
    for warning in warnings:
        out.note(f"warning: {warning}")


def _count(declarations: Sequence[object]) -> str:
    number = len(declarations)
    return f"{number} schedule is" if number == 1 else f"{number} schedules are"


def _checked_plain(checked: Any) -> dict[str, Any]:
    return {
        "ok": not checked.problems,
        "schedules": [
            {
                "namespace": found.definition.namespace,
                "id": found.definition.id,
                "enabled": found.enabled,
                "digest": found.definition.digest(),
                "file": found.file,
                "line": found.line,
            }
            for found in checked.declarations
        ],
        "problems": [problem_plain(problem) for problem in checked.problems],
        "warnings": [problem_plain(problem) for problem in checked.warnings],
    }


@command(root, "preview")
def preview(
    session: Session,
    files: Files,
    count: Annotated[int | None, typer.Option(min=1, max=100_000, help="How many slots a schedule (10).")] = None,
    start: Annotated[str | None, typer.Option("--from", help="First instant (RFC 3339); now if left out.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Last instant (RFC 3339).")] = None,
    month: Annotated[str | None, typer.Option(help="A month view, such as 2026-11.")] = None,
    ics: Annotated[Path | None, typer.Option(help="Also write the slots as an iCalendar file.")] = None,
    input_format: InputFormat = None,
) -> None:
    """The coming slots of declarations in UTC and wall time, with gaps, folds, rolled and excluded days marked."""
    from calsched.app.files import Span

    if month is not None and (start or end or count):
        raise invalid("a month has its own span", "--month", "leave out --count, --from and --to")
    first = None if start is None else instant(start, "--from")
    last = None if end is None else instant(end, "--to")
    if count is None and last is None and month is None:
        count = 10
    if first is not None and last is not None and last < first:
        raise invalid("the end is before the start", "--to")
    app = session.app()
    format = format_of(input_format)
    report = app.preview(sources(files, format), Span(count, first, last, month), format)
    if ics is not None:
        _write_ics(ics, report, app.now())
    out = session.out
    if out.as_json:
        out.json(preview_plain(report))
        return
    for one in report.previews:
        _show_preview(out, one, month)
    warn(out, report.warnings)
    out.line(f"digest {report.digest}", style="dim")


def _write_ics(file: Path, report: Any, now: int) -> None:
    from calsched.app.ics import calendar_text

    for one in report.previews:
        if one.total is not None:
            raise invalid(
                f"{one.id!r} has {counted(one.total, 'slot')} in that span, too many for a file", f"--ics {file}"
            )
    try:
        file.write_text(calendar_text(report.previews, now), encoding="utf-8", newline="")
    except OSError as error:
        raise invalid(f"cannot be written: {error.strerror}", f"--ics {file}") from None


def _show_preview(out: Output, one: Any, month: str | None) -> None:
    where = one.zone or "UTC"
    out.text(
        (one.id, "bold"), f"  {where}", ("" if one.enabled else "  disabled", "yellow"), (f"  {one.description}", "dim")
    )
    out.line(f"  {one.rule}", style="dim")
    if one.total is not None:
        shorter = "--count, or --from and --to" if month else "a shorter span, or --count"
        out.line(f"  {counted(one.total, 'slot')} in that span, too many to show; ask for {shorter}", style="yellow")
    elif month is not None:
        month_view(out, one, month)
    elif one.slots:
        out.table(["UTC", "WALL TIME", "DAY", "REMARKS"], (_slot_row(slot) for slot in one.slots))
    else:
        out.line("  no slot in that span", style="yellow")
    if one.more and one.total is None:
        out.line("  … and more", style="dim")
    out.line()


def _slot_row(slot: Any) -> list[Any]:
    style = "dim strike" if slot.left_out else ""
    local = (slot.local or "").replace("T", " ")
    remarks = f"left out: {slot.left_out}" if slot.left_out else "; ".join(slot.marks)
    cells = [to_rfc3339(slot.due), local, slot.weekday]
    return [*(styled((cell, style)) for cell in cells), styled((remarks, "yellow"))]


def month_view(out: Output, one: Any, month: str) -> None:
    """A month as a calendar on the wall: how many slots each day has, ``x`` where one was left out."""
    from calsched.app.preview import day_of

    slots = Counter(day_of(slot) for slot in one.slots if not slot.left_out)
    gone = Counter(day_of(slot) for slot in one.slots if slot.left_out)
    first = date.fromisoformat(f"{month}-01")
    width = 4 + max([2, *(len(_mark(number, 0)) for number in slots.values())])  # a day in two digits, and its mark
    out.line(f"{f'{first:%B} {first.year}':^{7 * width}}".rstrip(), style="dim")
    out.line("".join(f" {day.capitalize():<{width - 1}}" for day in WEEKDAYS).rstrip(), style="dim")
    day = first - timedelta(days=first.weekday())
    while day <= first or day.month == first.month:
        out.text(*(_day_cell(day + timedelta(days=n), first.month, slots, gone, width) for n in range(7)))
        day += timedelta(days=7)
    for slot in one.slots:
        if slot.left_out or slot.marks:
            why = slot.left_out or "; ".join(slot.marks)
            out.text("  " if why.startswith(day_of(slot)) else f"  {day_of(slot)}  ", (why, "yellow"))


def _day_cell(day: date, month: int, slots: Counter[str], gone: Counter[str], width: int) -> tuple[str, str]:
    if day.month != month:
        return (" " * width, "")
    number = slots[day.isoformat()]
    mark = _mark(number, gone[day.isoformat()])
    return (f"{day.day:>3}{mark:<{width - 3}}", "bold green" if number else "yellow" if mark else "dim")


def _mark(number: int, gone: int) -> str:
    return f"×{number}" if number > 1 else "*" if number else "x" if gone else ""


@command(root, "create")
def create(
    session: Session,
    files: Files,
    expect: Annotated[str | None, typer.Option(help="Refuse unless this is the digest that preview printed.")] = None,
    note: Note = None,
    input_format: InputFormat = None,
) -> None:
    """Register declarations, all or none. What exists already with the same material is left as it is."""
    format = format_of(input_format)
    report = session.app().create(sources(files, format), expect=expect, note=note, format=format)
    out = session.out
    if out.as_json:
        out.json(
            {
                "schedules": [schedule_plain(one) for one in report.schedules],
                "created": sorted(report.created),
                "warnings": [problem_plain(warning) for warning in report.warnings],
            }
        )
        return
    warn(out, report.warnings)
    for one in report.schedules:
        due = f", next due {to_rfc3339(one.next_due)}" if one.next_due is not None else ""
        what = "created" if one.id in report.created else "exists already, left as it is"
        out.text((one.id, "bold"), f": {what}; revision {one.revision}, {one.state}{due}")


@command(root, "schema", json=False)
def schema(session: Session) -> None:
    """Print the JSON Schema of declaration files, for editors."""
    sys.stdout.write(json_text(session.app().schema()) + "\n")
