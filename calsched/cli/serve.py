"""Commands that run things: serve and tick."""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import Annotated, Any

import typer

from calsched.app.plain import plain
from calsched.cli import streams
from calsched.cli.common import Session, command, invalid, readable
from calsched.cli.main import app as root
from calsched.cli.render import Output, printable, state
from calsched.clock import to_rfc3339
from calsched.words import counted, spell

Allow = Annotated[
    list[str] | None,
    typer.Option("--allow", metavar="MODULE:NAME", help="What schedules may call; module:* is every name. Repeatable."),
]
PythonPath = Annotated[
    list[str] | None, typer.Option("--python-path", metavar="DIR", help="Where jobs are imported from; repeatable.")
]
Workers = Annotated[int | None, typer.Option(min=1, max=10_000, help="Threads of the executor `default` (10).")]


def _flags(allow: list[str] | None, python_path: list[str] | None, workers: int | None, **more: Any) -> dict[str, Any]:
    given = {"allow": allow or None, "pythonPath": python_path or None, "workers": workers, **more}
    return {key: value for key, value in given.items() if value is not None}


def _refuse_main(app: Any) -> None:
    """A job of ``__main__`` is a function of the script that added it; here it would be looked for in this command."""
    if any(ref.startswith("__main__:") for ref in app.settings.allow or ()):
        hint = "start that script: it owns the store while it runs"
        raise invalid("jobs of __main__ run in the script that added them, nowhere else", "allow", hint)


@command(root, "serve", json=False)
def serve(
    session: Session,
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE...]", help="Files and directories to apply first.")
    ] = None,
    standby: Annotated[
        bool, typer.Option("--standby", help="Where another process owns the store, wait to take its place.")
    ] = False,
    allow: Allow = None,
    workers: Workers = None,
    python_path: PythonPath = None,
    owner_name: Annotated[str | None, typer.Option(help="This owner's name in messages.")] = None,
    poll_seconds: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="How often it looks for changes of others (1).")
    ] = None,
    stop_seconds: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="How long it waits for running tasks when it stops (30).")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log warnings and errors only.")] = False,
) -> None:
    """Own the store: tick, run what is ready, record how it ended, until SIGTERM or SIGINT. One log line an event.

    FILE… (else `schedules` of calsched.toml) are applied first; where one is bad, nothing is and it does not start.
    SIGHUP applies them again; without files it ends `serve` as SIGTERM does.
    """
    app = session.app(
        **_flags(allow, python_path, workers, ownerName=owner_name, pollSeconds=poll_seconds, stopSeconds=stop_seconds)
    )
    _refuse_main(app)
    sources = [readable(file) for file in files or ()]
    with _Logging(quiet):
        code = app.serve(sources, standby=standby, on_applied=_log_applied)
    if code:
        raise typer.Exit(code)


def _log_applied(found: Any) -> None:
    log = logging.getLogger("calsched.serve")
    for name in found.calendars:
        log.info("calendar %s: new version", name)
    for change in found.pending:
        was = "" if change.known is None or change.known.id == change.id else f" (was {change.known.id})"
        log.info("%s%s: %s", change.id, was, ", ".join(change.steps))
    if found.undeclared:
        log.info("no longer declared, and left as it is (`calsched apply --prune`): %s", ", ".join(found.undeclared))


class _Line(logging.Formatter):
    """One line a record: instant, level where it matters, text; a terminal obeys none of it."""

    def format(self, record: logging.LogRecord) -> str:
        at = to_rfc3339(int(record.created * 1000))
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        text = f"{at} {level}{printable(record.getMessage())}"
        return f"{text}\n{printable(self.formatException(record.exc_info), lines=True)}" if record.exc_info else text


class _Lines(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes the lines. One that cannot be written is dropped: there is nowhere to tell of it."""

    def handleError(self, record: logging.LogRecord) -> None:
        pass


class _Logging:
    """The loggers of calsched write to standard error while a command runs; APScheduler's say what is wrong.

    Failures of tasks are events of ours; APScheduler's executors would tell them again, with tracebacks.
    """

    def __init__(self, quiet: bool) -> None:
        level = logging.WARNING if quiet else logging.INFO
        self.levels = {"calsched": level, "apscheduler": logging.ERROR, "apscheduler.executors": logging.CRITICAL}
        self.given = sys.stdout, sys.stderr
        self.handler = _Lines(streams.own(sys.stderr))
        self.handler.setFormatter(_Line())

    def __enter__(self) -> None:
        for name, level in self.levels.items():
            logger = logging.getLogger(name)
            logger.setLevel(level)
            if "." not in name:
                logger.addHandler(self.handler)
                logger.propagate = False

    def __exit__(self, *_: object) -> None:
        for name in self.levels:
            logger = logging.getLogger(name)
            logger.removeHandler(self.handler)
            logger.setLevel(logging.NOTSET)
            logger.propagate = True
        sys.stdout, sys.stderr = self.given  # whatever tasks have put there
        if self.handler.stream is not sys.stderr:
            with contextlib.suppress(OSError, ValueError):
                self.handler.stream.close()


@command(root, "tick")
def tick(
    session: Session,
    limit: Annotated[
        float | None, typer.Option(min=0.1, max=86_400, help="Seconds after which running tasks are stopped.")
    ] = None,
    allow: Allow = None,
    workers: Workers = None,
    python_path: PythonPath = None,
) -> None:
    """One pass for hosts without a daemon: judge what is due, run what is ready, leave; tells what was committed.

    Exit code 1 where a schedule could not be judged or was paused as invalid, or where work waits for an executor that
    this process does not have, or for an owner that can load it.
    """
    app = session.app(**_flags(allow, python_path, workers))
    _refuse_main(app)
    with _Logging(quiet=True):
        report = app.tick(limit=limit)
    out = session.out
    if out.as_json:
        out.json(_tick_plain(report))
    else:
        _show_tick(out, report)
    if report.problems:  # they are on standard error already
        raise typer.Exit(1)


def _tick_plain(report: Any) -> dict[str, Any]:
    return {
        "at": to_rfc3339(report.at),
        "leftRunning": report.left_running,
        "hold": report.hold,
        "problems": [one._asdict() for one in report.problems],
        "schedules": [
            {
                "namespace": one.namespace,
                "id": one.id,
                "revision": one.revision,
                "occurrences": [plain(o) for made in one.plans for o in made.occurrences],
                "ranges": [_range_plain(r) for made in one.plans for r in made.ranges],
                "ended": next((made.ended for made in one.plans if made.ended), None),
                "refused": next((made.refused for made in one.plans if made.refused), None),
                "ran": [plain(ran) for ran in one.ran],
            }
            for one in report.schedules
        ],
    }


def _range_plain(planned: Any) -> dict[str, Any]:
    return {
        "first": planned.first,
        "last": planned.last,
        "firstDue": to_rfc3339(planned.first_due),
        "lastDue": to_rfc3339(planned.last_due),
        "reason": planned.reason,
        "representedBy": planned.represented_by,
    }


def _show_tick(out: Output, report: Any) -> None:
    if not report.schedules and not report.problems and report.hold is None:  # else the log has told why
        out.line("nothing was due, and nothing was ready")
    for one in report.schedules:
        planned = sum(len(made.occurrences) for made in one.plans)
        slots = sum(r.last - r.first + 1 for made in one.plans for r in made.ranges)
        told = [counted(planned, "occurrence")] if one.plans else []
        told += [f"{counted(slots, 'slot')} in ranges"] if slots else []
        out.text((one.id, "bold"), f": {', '.join(told)}" if told else "")
        for ran in one.ran:
            again = f"; next attempt at {to_rfc3339(ran.retry_at)}" if ran.retry_at is not None else ""
            error = f": {ran.error}" if ran.error else ""
            how = f"{state(ran.state).plain} after {spell(ran.elapsed)}{error}{again}"
            out.text(f"  {ran.series} {ran.ordinal} {how}")
    if report.left_running:
        out.note(f"{counted(report.left_running, 'task')} did not end in time, recorded as interrupted")
