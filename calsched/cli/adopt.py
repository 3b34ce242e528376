"""The command ``adopt``: what an existing job store or crontab becomes, shown, written to a file, or created."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from calsched.adopt.result import Adopted, Adoption
from calsched.adopt.yaml_text import to_yaml
from calsched.cli.common import Session, command, invalid, readable
from calsched.cli.main import app as root
from calsched.cli.render import Output, printable, problem_plain
from calsched.errors import InvalidInput
from calsched.settings import shown_url


@command(root, "adopt")
def adopt(
    session: Session,
    file: Annotated[str | None, typer.Argument(metavar="[FILE]", help="The crontab; - for standard input.")] = None,
    source: Annotated[
        str, typer.Option("--from", help="Database URL of an APScheduler SQLAlchemyJobStore, or crontab.")
    ] = "crontab",
    table: Annotated[str, typer.Option(help="Table of the job store.")] = "apscheduler_jobs",
    executor: Annotated[
        list[str] | None, typer.Option(help="Alias of an executor that will exist here; may be repeated.")
    ] = None,
    timezone: Annotated[str | None, typer.Option(help="Zone of crontab lines above any CRON_TZ.")] = None,
    system: Annotated[bool, typer.Option("--system", help="The crontab has a user column, as /etc/crontab.")] = False,
    callable: Annotated[
        str | None, typer.Option(help="module:name that runs every command of the crontab (keyword arguments).")
    ] = None,
    module: Annotated[str, typer.Option(help="Module of the functions that you will write.")] = "crontab_jobs",
    out_file: Annotated[Path | None, typer.Option("--out", help="A declaration file to write.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Create the schedules in the store.")] = False,
) -> None:
    """Show what the jobs of an APScheduler job store, or the lines of a crontab, become here.

    A job store is read without loading its pickles. What --write creates can be approved (`calsched approve adopt …`).
    Exit code 1: something could not be carried over.
    """
    adoption = _crontab(file, timezone, system, callable, module) if source == "crontab" else None
    if adoption is None:
        if file is not None:
            raise invalid(f"a job store is named by --from alone, got {file!r}", "FILE")
        adoption = _jobs(session, source, table, executor)
    title = f"Adopted from {file or '-'}." if source == "crontab" else f"Adopted from {shown_url(source)}, {table}."
    text = to_yaml(adoption, title=title)
    if out_file is not None and out_file.exists():
        raise _exists(out_file)
    created = session.app().create(text.encode(), note=title, format="yaml") if write and adoption.schedules else None
    if out_file is not None:  # after what may be refused, or only be asked for (`calsched approve adopt …`)
        _write(out_file, text)
    _tell(session.out, adoption, out_file, created)
    if adoption.refused:
        raise typer.Exit(1)


def _jobs(session: Session, url: str, table: str, executor: list[str] | None) -> Adoption:
    from calsched.app.adoption import adopt_store

    return adopt_store(session.app(), url, table=table, executors=("default", *(executor or ())))


def _crontab(file: str | None, timezone: str | None, system: bool, callable: str | None, module: str) -> Adoption:
    from calsched.adopt.crontab import MAX_BYTES
    from calsched.app.adoption import adopt_crontab_file

    if file is None:
        raise invalid("expected the crontab's path, or - for standard input", "FILE", "`crontab -l | calsched adopt -`")
    data = sys.stdin.buffer.read(MAX_BYTES + 1) if file == "-" else readable(file)
    return adopt_crontab_file(data, timezone=timezone, system=system, callable=callable, module=module)


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError:
        raise _exists(file) from None
    except OSError as error:
        raise invalid(f"cannot be written: {error.strerror}", f"--out {file}") from None


def _exists(file: Path) -> InvalidInput:
    return invalid("exists already; nothing is written over it", f"--out {file}")


def _tell(out: Output, adoption: Adoption, file: Path | None, created: Any) -> None:
    if out.as_json:
        out.json(_plain(adoption, file, created))
        return
    for note in adoption.notes:
        out.note(note)
    for adopted in adoption.schedules:
        _show(out, adopted)
    for problem in adoption.refused:
        out.error(f"not carried over: {problem}")
    out.line(_summary(adoption, file, created))


def _show(out: Output, adopted: Adopted) -> None:
    place = f"line {adopted.line}: " if adopted.line is not None else ""
    out.text((adopted.id, "bold"), f"  {place}", (adopted.was, "dim"))
    body = dict(adopted.body)
    trigger, task = body.pop("trigger"), body.pop("task")
    out.line(f"  trigger: {_in_words(trigger)}")
    out.line(f"  task: {_brief(task)}")
    if body:
        out.line("  " + ", ".join(f"{name}: {_brief(value)}" for name, value in body.items()))
    for note in adopted.notes:
        out.line(f"  - {note}", style="yellow")


def _in_words(trigger: dict[str, Any]) -> str:
    """As `show` will say it; without a zone where the host's will count. --out and --json have it as it is declared."""
    from calsched.triggers import build
    from calsched.triggers.describe import describe

    try:
        stored = build(trigger, default_zone="UTC").spec()
    except InvalidInput:
        return describe(trigger)
    zoned = "timezone" in trigger or "timezone" not in stored
    return describe(stored if zoned else {key: value for key, value in stored.items() if key != "timezone"})


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_brief(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return f"[{', '.join(_brief(inner) for inner in value)}]"
    text = printable(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= 160 else f"{text[:159]}…"


def _summary(adoption: Adoption, file: Path | None, created: Any) -> str:
    lost = {problem.path.partition("]")[0] or problem.line for problem in adoption.refused}
    parts = [f"{len(adoption.schedules)} of {len(adoption.schedules) + len(lost)} can be carried over"]
    if file is not None:
        parts.append(f"written to {file}; look at it, then `calsched check {file}`")
    if created is not None:
        parts.append(f"{len(created.created)} created")
    if file is None and created is None:
        parts.append("nothing was written: --out FILE writes declarations, --write creates the schedules")
    return "; ".join(parts)


def _plain(adoption: Adoption, file: Path | None, created: Any) -> dict[str, Any]:
    return {
        "schedules": [
            {"id": a.id, "was": a.was, "line": a.line, "declaration": a.body, "notes": list(a.notes)}
            for a in adoption.schedules
        ],
        "refused": [problem_plain(problem) for problem in adoption.refused],
        "notes": adoption.notes,
        "comments": adoption.comments,
        "file": None if file is None else str(file),
        "created": None if created is None else sorted(created.created),
    }
