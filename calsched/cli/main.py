"""The command ``calsched``. Exit codes: 0 done, 1 refused by the state of things, 2 invalid input, 3 store unusable.

``CommandLine.main`` is the one place where errors become lines and codes; no command catches them.
"""

from __future__ import annotations

import errno
import re
import sys
import traceback
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperGroup

from calsched.cli import streams
from calsched.cli.common import Config, Debug, Json, Namespace, Session, Store
from calsched.cli.render import Output, json_text, printable, problem_plain
from calsched.errors import CalschedError, InvalidInput, Problem, StoreUnreachable, unencodable

REPORT = "this is a fault of calsched: please report it with the output of the same command and --debug"


#: The modules beside this one, in the order of the help, and the commands that each registers when it is imported.
FAMILIES = {
    "files": ("check", "preview", "create", "schema"),
    "schedules": ("list", "show", "history", "why"),
    "control": (
        *("resume", "enable", "disable", "cancel", "pause", "delete", "update"),
        *("run", "skip", "skip-next", "unskip"),
    ),
    "serve": ("serve", "tick"),
    "deploy": ("plan", "apply"),
    "backfill": ("backfill",),
    "calendars": ("calendars",),
    "doctor": ("doctor", "clock", "tzdata", "forecast"),
    "simulate": ("simulate",),
    "ready": ("ready",),
    "approve": ("keygen", "approve"),
    "agent": ("agent",),
    "adopt": ("adopt",),
    "care": ("prune", "backup", "restore", "backlog"),
    "db": ("db",),
}


class CommandLine(TyperGroup):
    """The root group: runs a command and turns whatever it raises into one clear end.

    A command waits for the import of its own family; only the help, and a word that is no command, for that of all.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        self.load(FAMILIES)
        return [name for names in FAMILIES.values() for name in names]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self.load([family for family, names in FAMILIES.items() if cmd_name in names] or FAMILIES)
        return super().get_command(ctx, cmd_name)

    def load(self, families: Iterable[str]) -> None:
        if all(name in self.commands for family in families for name in FAMILIES[family]):
            return
        for family in families:
            import_module(f"calsched.cli.{family}")
        self.commands.update(typer.main.get_group(app).commands)

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, *rest: Any, **extra: Any) -> Any:
        session = extra.setdefault("obj", Session())
        extra["standalone_mode"] = False
        try:
            code = super().main(args, prog_name or "calsched", *rest, **extra)
            streams.flush()
        except Exception as error:
            session.as_json |= "--json" in (sys.argv[1:] if args is None else args)  # it may stand behind the mistake
            code = _ended_by(error, session)
        except SystemExit as ended:  # typer's own end for an output that nobody reads is 1
            if not isinstance(ended.__context__, BrokenPipeError):
                raise
            code = 0
        except KeyboardInterrupt:
            code = 130
        finally:
            session.close()
            streams.let_go()
        sys.exit(code if isinstance(code, int) else 0)


def _ended_by(error: Exception, session: Session) -> int:
    if isinstance(error, CalschedError):
        return _told(error, session)
    if isinstance(error, UnicodeEncodeError):
        return _told(unencodable(error), session)
    if isinstance(error, typer.Abort):
        Output().error("stopped; nothing was changed")
        return 1
    if _is_unheard(error):
        streams.let_go()
        return 0
    if isinstance(error, OSError) and error.errno in _FULL:
        streams.let_go()
        where = f"{printable(str(error.filename))}: " if error.filename else ""
        Output().error(f"{where}nothing more can be written: {error.strerror}")
        return 1
    if type(error).__module__.startswith("sqlalchemy."):
        return _store_failed(error, session)
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # how the command was written
        return _misused(error, session)
    return _internal(error, session)


def _is_unheard(error: Exception) -> bool:
    """The reader of our output has gone, as ``| head`` does, or a task has closed the output under us."""
    return isinstance(error, BrokenPipeError) or (
        isinstance(error, OSError) and error.errno == errno.EBADF and streams.is_gone()
    )


#: No space, no quota, a file that may not grow, a device that fails: the host's trouble, and no fault of ours.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def _told(error: CalschedError, session: Session) -> int:
    out = Output()
    if session.as_json:
        out.plain_error(json_text({"error": error_plain(error)}))
    elif isinstance(error, InvalidInput):
        for problem in error.problems:
            out.error(problem)
    else:
        out.error(error)
    if session.debug:
        out.error("".join(traceback.format_exception(error)), style="dim")
    return error.exit_code


def _store_failed(error: Exception, session: Session) -> int:
    """What the stores did not expect of a database: a damaged file, a full disk, a server that ends."""
    cause = getattr(error, "orig", None) or error
    return _told(StoreUnreachable(f"the store failed: {(str(cause).splitlines() or ['?'])[0]}"), session)


def error_plain(error: CalschedError) -> dict[str, Any]:
    plain: dict[str, Any] = {"kind": type(error).__name__, "exit": error.exit_code, "message": str(error)}
    if isinstance(error, InvalidInput):
        plain["problems"] = [problem_plain(problem) for problem in error.problems]
    return plain


#: How the parser of the command line says that a value is no number, or out of bounds.
_VALUE = re.compile(r"Invalid value for '([^']+)': (.+)", re.DOTALL)
_BOUND = re.compile(r"Input should be (greater|less) than or equal to (\S+)")
_KINDS = {
    "Input should be a valid integer": "expected a whole number",
    "Input should be a valid number": "expected a number",
}


def _misuse(message: str) -> Problem:
    """What the parser says, in the words of every other problem: the option, and what it expects."""
    found = _VALUE.fullmatch(message)
    if found is None:
        return Problem(message)
    bound = _BOUND.fullmatch(found[2])
    if bound is not None:
        return Problem(f"expected {bound[2]} or {'more' if bound[1] == 'greater' else 'less'}", found[1])
    kind = next((said for start, said in _KINDS.items() if found[2].startswith(start)), found[2])
    return Problem(kind, found[1])


def _misused(error: Any, session: Session) -> int:
    context: Any = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        Output().plain_error(context.get_help())
        return 2
    problem = _misuse(error.format_message())
    if session.as_json:
        return _told(InvalidInput([problem]), session)
    Output().error(problem)
    if context is not None:
        Output().error(f"{context.get_usage()}\n{context.command_path} --help tells more", style="dim")
    return 2


def _internal(error: Exception, session: Session) -> int:
    out = Output()
    if session.debug:
        out.error("".join(traceback.format_exception(error)), style="dim")
    first = printable(str(error).partition("\n")[0])[:300]
    out.error(f"internal error: {type(error).__name__}: {first}; {REPORT}")
    return 1


app = typer.Typer(
    name="calsched",
    cls=CommandLine,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Calendar-aware schedules with one recorded verdict for every due time.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        print(f"calsched {version('apscheduler-calsched')}")  # noqa: T201
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    store: Store = None,
    namespace: Namespace = None,
    config: Config = None,
    json: Json = False,
    debug: Debug = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    ctx.obj.take(store=store, namespace=namespace, config=config, json=json, debug=debug)


def run() -> None:
    """The console script."""
    streams.prepare()
    app()
