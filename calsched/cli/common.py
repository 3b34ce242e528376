"""What all commands share: the options that each understands, the session that carries them, and how input is read."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calsched import settings as host
from calsched.cli import start
from calsched.cli.render import Output
from calsched.clock import LAST_INSTANT, to_millis
from calsched.declare.document import FORMATS, MAX_BYTES, Format
from calsched.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from calsched.app import App

Store = Annotated[
    str | None,
    typer.Option(help="Database URL of the store (CALSCHED_STORE; else calsched.toml, else sqlite:///calsched.db)."),
]
Namespace = Annotated[str | None, typer.Option(help="Namespace of the schedules (CALSCHED_NAMESPACE).")]
Config = Annotated[str | None, typer.Option(help="The calsched.toml to read (else: here, then in the parents).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Approval = Annotated[str | None, typer.Option(help="A signed approval to present (see `calsched approve`).")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

_SHARED: dict[str, tuple[Any, Any]] = {
    "store": (Store, None),
    "namespace": (Namespace, None),
    "config": (Config, None),
    "json": (Json, False),
    "debug": (Debug, False),
    "approval": (Approval, None),
}
#: The commands that a host may want approved; these alone understand --approval.
APPROVABLE = frozenset(
    {"create", "update", "pause", "resume", "enable", "disable", "cancel", "delete", "run", "skip", "skip-next"}
    | {"unskip", "backfill", "set", "apply", "adopt", "backlog"}
)

ScheduleId = Annotated[str, typer.Argument(metavar="ID", help="Id of the schedule.")]
Files = Annotated[list[str], typer.Argument(metavar="FILE...", help="Files or directories; - is standard input.")]
InputFormat = Annotated[str | None, typer.Option(help="yaml, json or toml; needed for standard input.")]
Note = Annotated[str | None, typer.Option(help="Why; kept with the decision.")]
Revision = Annotated[
    int | None,
    typer.Option(min=1, help="Refuse unless this is the live revision."),
]

_INSTANT = re.compile(
    r"^(?P<day>\d{4}-\d{2}-\d{2})[Tt ](?P<time>\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)(?P<zone>[Zz]|[+-]\d{2}:\d{2})?$"
)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


@dataclass(slots=True)
class Session:
    """One invocation: what its options said, and the app and output that follow from it."""

    flags: dict[str, Any] = field(default_factory=dict)
    as_json: bool = False
    debug: bool = False
    approval: str | None = None
    verifier: Any = None  # instead of the one that the settings name
    _app: App | None = None
    _output: Output | None = None

    def take(self, *, json: bool = False, debug: bool = False, approval: str | None = None, **flags: Any) -> None:
        """Options may stand before or after the command; the later one wins."""
        self.approval = approval or self.approval
        self.as_json, self.debug = self.as_json or json, self.debug or debug
        self.flags.update({name: value for name, value in flags.items() if value is not None})

    @property
    def out(self) -> Output:
        if self._output is None:
            self._output = Output(as_json=self.as_json)
        return self._output

    def settings(self, **flags: Any) -> host.Settings:
        return host.load(flags={**self.flags, **flags})

    def app(self, **flags: Any) -> App:
        """The app of this invocation; ``flags`` are settings that a command's own options give."""
        if self._app is None:
            from calsched.app import App

            credential = None if self.approval is None else Path(self.approval)
            self._app = App.from_settings(self.settings(**flags), verifier=self.verifier, credential=credential)
            start.over()
        return self._app

    def close(self) -> None:
        if self._app is not None:
            self._app.close()


def command(app: typer.Typer, name: str, *, json: bool = True, **options: Any) -> Callable[..., Callable[..., None]]:
    """Register ``function(session, …)`` as a command that also understands the shared options."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        hints = typing.get_type_hints(function, include_extras=True)
        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
            for parameter in list(inspect.signature(function).parameters.values())[1:]
        ]
        shared = [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for key, (annotation, default) in _SHARED.items()
            if (json or key != "json") and (key != "approval" or name in APPROVABLE)
        ]
        names = [parameter.name for parameter in shared]

        @functools.wraps(function)
        def run(ctx: typer.Context, **values: Any) -> None:
            session: Session = ctx.find_root().obj
            session.take(**{key: values.pop(key) for key in names})
            try:
                function(session, **values)
            except InvalidInput as error:
                _retell(error, own)
                raise

        context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        run.__signature__ = inspect.Signature([context, *own, *shared])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in (context, *own, *shared)}
        app.command(name, **options)(run)
        return function

    return register


#: Arguments of the app that the command line calls otherwise.
_TYPED = {"dues": "INSTANT", "durations": "--duration", "fails": "--fail", "downs": "--down", "steps": "--clock-step"}


def _retell(error: InvalidInput, parameters: Sequence[inspect.Parameter]) -> None:
    error.problems = tuple(_as_typed(problem, parameters) for problem in error.problems)
    error.args = ("\n".join(map(str, error.problems)),)


def _as_typed(problem: Problem, parameters: Sequence[inspect.Parameter]) -> Problem:
    """The app names its arguments (``until``); who typed an option is told of the option (``--until``)."""
    name = re.split(r"[.\[]", problem.path, maxsplit=1)[0]
    options = {one.name for one in parameters if one.default is not inspect.Parameter.empty}
    typed = _TYPED.get(name) or (f"--{name.replace('_', '-')}" if name in options - {"id"} else None)
    return problem if problem.file or typed is None else replace(problem, path=typed)


def invalid(message: str, path: str = "", hint: str = "") -> InvalidInput:
    return InvalidInput([Problem(message, path, hint=hint)])


def instant(text: str, where: str) -> int:
    """An RFC 3339 instant. Without a zone it is refused; seconds may be left out."""
    found = _INSTANT.match(text.strip())
    expected = "expected an instant such as 2026-03-09T09:00:00-06:00"
    if found is None:
        raise invalid(f"{expected}, got {text[:60]!r}", where)
    if found["zone"] is None:
        raise invalid(f"{text!r} says no zone", where, "end it with Z, or with an offset such as -06:00")
    try:
        moment = datetime.fromisoformat(f"{found['day']}T{_milliseconds(found['time'])}{found['zone'].upper()}")
        millis = to_millis(moment)
    except (ValueError, OverflowError) as error:
        raise invalid(f"{text!r} is no time: {error}", where) from None
    if not abs(millis) <= LAST_INSTANT:
        raise invalid(f"{text!r} is out of range", where)
    return millis


def _milliseconds(time: str) -> str:
    """``datetime.fromisoformat`` reads three or six digits of a second on 3.11, not any number of them."""
    whole, dot, fraction = time.partition(".")
    return f"{whole}.{fraction[:6]:0<6}" if dot else whole


def duration(text: str, where: str) -> int:
    """``90s``, ``1h30m``, ``250ms`` or a plain number of seconds, in milliseconds."""
    plain = text.strip()
    if re.fullmatch(r"\d{1,12}(\.\d{1,3})?", plain):
        return round(float(plain) * 1000)
    parts = _PART.findall(plain)
    if not parts or len(plain) > 60 or "".join(number + unit for number, unit in parts) != plain:
        raise invalid(f"expected a duration such as 90s, 1h30m or 250ms, got {text[:60]!r}", where)
    return round(sum(float(number) * _UNITS[unit] for number, unit in parts))


def format_of(text: str | None) -> Format | None:
    """What ``--input-format`` says."""
    if text is None or text in FORMATS:
        return text
    raise invalid(f"expected yaml, json or toml, got {text[:40]!r}", "--input-format")


def readable(file: str) -> Path:
    """A path that the system can at least look for; whether there is anything is the reader's to say."""
    try:
        Path(file).stat()
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no name that a file can have"
        raise invalid(f"cannot be read: {why}", file[:80]) from None
    return Path(file)


def sources(files: Sequence[str], input_format: Format | None) -> Sequence[Path] | bytes:
    """What the files of a command line are to the app. ``-`` is standard input, and stands alone."""
    if "-" not in files:
        return [readable(file) for file in files]
    if len(files) > 1:
        raise invalid("standard input cannot be mixed with files", "FILE")
    if input_format is None:
        raise invalid("standard input has no name that tells its format", "--input-format", "yaml, json or toml")
    return sys.stdin.buffer.read(MAX_BYTES + 1)
