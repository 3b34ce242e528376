"""A crontab, as declarations. Comments stay with the line that they stand above; each command needs a callable.

Read are the crontabs of Vixie cron and cronie: five fields, names, ``@daily`` and its like, environment lines,
``CRON_TZ``, ``%`` for standard input, and with ``system`` the user column of ``/etc/crontab``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from calsched import triggers, zones
from calsched.adopt.result import Adopted, Adoption
from calsched.errors import CalschedError, InvalidInput, Problem

MAX_BYTES: Final = 1024 * 1024
#: Where the listed functions are expected when the caller does not say.
DEFAULT_MODULE: Final = "crontab_jobs"

NICKNAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
    "@every_minute": "*/1 * * * *",
}
_ASSIGNMENT: Final = re.compile(r"""(?P<q>["']?)(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P=q)\s*=\s*(?P<value>.*)""", re.ASCII)
_FIELD: Final = r"[0-9A-Za-z*/,\-?#~]+"
_ENTRY: Final = re.compile(rf"(?P<quiet>-)?(?P<fields>{_FIELD}(?:[ \t]+{_FIELD}){{4}})[ \t]+(?P<rest>\S.*)", re.ASCII)
_NICKNAME: Final = re.compile(r"(?P<name>@\w+)[ \t]+(?P<rest>\S.*)", re.ASCII)
_USER: Final = re.compile(r"(?P<user>[^\s:]+)(?::\S*)?[ \t]+(?P<rest>\S.*)")
#: Words of a command line that name no job.
_NO_NAME: Final = {"usr", "bin", "sh", "bash", "env", "sudo", "cd", "dev", "null", "exec", "nice", "ionice", "flock"}
_WORD: Final = re.compile(r"[a-z][a-z0-9]*")

_NOTES: Final = (
    "a crontab starts a command although the last one still runs; here it waits for that one (overlap: coalesce)",
    "a crontab forgets what was due while the machine was off; here it runs once afterwards (misfire: runOnce)",
    "cron mails what a command prints; here the outcome of every run is in the ledger",
)
#: Environment lines that mean something to cron itself and have no equal here.
_MEANT_FOR_CRON: Final = {
    "MAILTO": "nothing is mailed; see `calsched list --attention`",
    "MAILFROM": "nothing is mailed",
    "CONTENT_TYPE": "nothing is mailed",
    "RANDOM_DELAY": "declare jitterSeconds instead",
    "START_HOURS_RANGE": "declare the hours in the trigger instead",
    "CRON_WITHIN": "declare graceSeconds instead",
}


@dataclass(slots=True)
class _State:
    """What earlier lines of the file say about later ones."""

    zone: str | None
    module: str
    callable: str | None
    system: bool
    environment: dict[str, str] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    adoption: Adoption = field(default_factory=lambda: Adoption(notes=list(_NOTES)))

    def refuse(self, line: int, message: str, hint: str = "") -> None:
        self.adoption.comments.extend(self.comments)  # they stood above a line that is not there any more
        self.comments = []
        self.adoption.refused.append(Problem(message, line=line, hint=hint))


def adopt_crontab(
    text: str,
    *,
    timezone: str | None = None,
    system: bool = False,
    callable: str | None = None,
    module: str = DEFAULT_MODULE,
) -> Adoption:
    """What each line becomes; a line without an equal is refused with its number, and the others stand.

    ``timezone`` is the zone of lines above any ``CRON_TZ``; cron takes the machine's, which no file knows.
    ``callable`` (``module:name``) runs every command and is handed its text as keyword arguments; without it each
    command gets the name of a function that you write into ``module``. Raises InvalidInput for an unusable argument.
    """
    if len(text) > MAX_BYTES:
        raise InvalidInput([Problem(f"more than {MAX_BYTES} characters; expected a crontab")])
    state = _State(_checked_zone(timezone), module, callable, system)
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        _line(state, number, line.strip(" \t"))
    state.adoption.comments.extend(state.comments)  # below the last entry
    return _finished(state, timezone)


def _checked_zone(name: str | None) -> str | None:
    return None if name is None else zones.load(name).name


def _finished(state: _State, timezone: str | None) -> Adoption:
    adoption = state.adoption
    if any("timezone" not in adopted.body["trigger"] for adopted in adoption.schedules):
        missing = "no CRON_TZ, and cron takes the machine's zone: state it with --timezone, or in this file"
        adoption.notes.insert(0, missing)
    return Adoption(adoption.schedules, adoption.refused, adoption.notes, adoption.comments, timezone)


def _line(state: _State, number: int, line: str) -> None:
    if not line:
        if state.comments and not state.adoption.schedules and not state.ids:
            state.adoption.comments.extend(state.comments)  # a heading of the whole file
            state.comments = []
    elif line.startswith("#"):
        state.comments.append(line.lstrip("#").strip())
    elif not line.isprintable() and _unprintable(line):
        state.refuse(number, "control characters; expected a line of text")
    elif (assignment := _ASSIGNMENT.fullmatch(line)) is not None:
        _assign(state, number, assignment["name"], _unquoted(assignment["value"]))
    elif line.startswith("@"):
        _nickname(state, number, line)
    elif (entry := _ENTRY.fullmatch(line)) is not None:
        _entry(state, number, line, entry["fields"], entry["rest"], quiet=entry["quiet"] is not None)
    else:
        state.refuse(number, f"expected five fields and a command, got {_shown(line)}", _hint(line))


def _unprintable(line: str) -> bool:
    return any(not character.isprintable() and character != "\t" for character in line)


def _hint(line: str) -> str:
    if re.match(r"@?\d+\s+\d+\s+\S+\s+\S+", line):
        return "a line of an anacrontab (period, delay, name, command) has no equal: declare the days of its period"
    return ""


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _assign(state: _State, number: int, name: str, value: str) -> None:
    if name == "CRON_TZ":
        _zone(state, number, value)
        return
    if name not in _MEANT_FOR_CRON:
        state.environment[name] = value
    if name == "TZ" and state.zone is None:
        state.adoption.notes.append(
            f"line {number}: TZ is taken as the zone of the schedules; where cron keeps to CRON_TZ alone,"
            " state the machine's zone with --timezone"
        )
        _zone(state, number, value)
    elif name in _MEANT_FOR_CRON:
        state.adoption.notes.append(f"line {number}: {name}={_bare(value)} has no equal here: {_MEANT_FOR_CRON[name]}")


def _zone(state: _State, number: int, value: str) -> None:
    try:
        state.zone = zones.load(value.removeprefix(":")).name
    except CalschedError as unknown:
        state.refuse(number, f"CRON_TZ: {unknown}", "the lines below it keep the zone from above")


def _nickname(state: _State, number: int, line: str) -> None:
    found = _NICKNAME.fullmatch(line)
    if found is None:
        state.refuse(number, f"expected a nickname such as @daily and a command, got {_shown(line)}")
    elif found["name"].lower() == "@reboot":
        state.refuse(
            number,
            f"@reboot has no equal, because a schedule is due at instants: {_shown(found['rest'])}",
            "start it from the service manager",
        )
    elif (fields := NICKNAMES.get(found["name"].lower())) is None:
        known = ", ".join(NICKNAMES)
        state.refuse(number, f"expected one of {known}, got {_shown(found['name'])}")
    else:
        _entry(state, number, line, fields, found["rest"])


def _entry(state: _State, number: int, line: str, fields: str, rest: str, *, quiet: bool = False) -> None:
    user = None
    if state.system:
        column = _USER.fullmatch(rest)
        if column is None:
            hint = "is it the crontab of one user? then leave out --system"
            state.refuse(number, f"expected a user and a command, got {_shown(rest)}", hint)
            return
        user, rest = column["user"], column["rest"]
    if "~" in fields:
        hint = "write one value; jitterSeconds spreads runs"
        state.refuse(number, f"a random value has no equal: {_shown(line)}", hint)
        return
    trigger: dict[str, Any] = {"kind": "cron", "expression": " ".join(fields.split())}
    if state.zone is not None:
        trigger["timezone"] = state.zone
    if _usable(state, number, trigger):
        _adopt(state, number, line, trigger, _Command.read(rest, user, quiet))


def _usable(state: _State, number: int, trigger: Mapping[str, Any]) -> bool:
    try:
        triggers.build(trigger, default_zone="UTC")
    except InvalidInput as invalid:
        for problem in invalid.problems:
            state.refuse(number, problem.message, problem.hint)
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Command:
    """A command line as cron reads it: the first bare ``%`` begins its standard input, the others are line breaks."""

    text: str
    stdin: str | None
    user: str | None
    quiet: bool

    @classmethod
    def read(cls, rest: str, user: str | None, quiet: bool) -> _Command:
        parts = [part.replace("\\%", "%") for part in re.split(r"(?<!\\)%", rest)]
        return cls(parts[0].strip(), "\n".join(parts[1:]) + "\n" if len(parts) > 1 else None, user, quiet)

    def words(self) -> Iterator[str]:
        """What a person would call it by: the program and its plain arguments."""
        for part in self.text.split():
            if part.startswith((">", "<", "|", "2>", "&>")):
                return
            if "=" in part or part.startswith(("-", "&", ";")):
                continue
            yield from _WORD.findall(part.rsplit("/", 1)[-1].lower())

    def notes(self) -> Iterator[str]:
        if self.user is not None:
            yield f"cron runs it as {self.user}; here it runs as the account of the owner process"
        if self.stdin is not None:
            yield f"cron hands it on standard input: {_shown(self.stdin)}"
        if self.quiet:
            yield "the dash before it kept cron from logging it; here every run is recorded"


def _adopt(state: _State, number: int, line: str, trigger: dict[str, Any], command: _Command) -> None:
    words = [word for word in command.words() if word not in _NO_NAME]
    schedule_id = _free(state, "-".join(words[:4])[:60] or f"line-{number}")
    function = schedule_id.replace("-", "_")
    if not function[0].isalpha():
        function = f"job_{function}"
    body: dict[str, Any] = {"description": command.text[:500], "trigger": trigger}
    body["task"] = _task(state, function, command)
    environment = [f"environment: {name}={_bare(value)}" for name, value in state.environment.items()]
    needs = f"needs a callable: write {state.module}:{function}, which does what the command did"
    told = command.notes() if state.callable else (needs, *command.notes(), *environment)
    notes = tuple(told)
    state.adoption.schedules.append(Adopted(schedule_id, line, body, number, notes, tuple(state.comments)))
    state.comments = []


def _task(state: _State, function: str, command: _Command) -> Any:
    if state.callable is None:
        return f"{state.module}:{function}"
    kwargs: dict[str, Any] = {"command": command.text}
    optional = {"stdin": command.stdin, "user": command.user, "environment": dict(state.environment) or None}
    kwargs.update({name: value for name, value in optional.items() if value is not None})
    return {"callable": state.callable, "kwargs": kwargs}


def _free(state: _State, wanted: str) -> str:
    """The id, or the id with a number behind it; stable, because lines are read in order."""
    count = state.ids.get(wanted, 0) + 1
    state.ids[wanted] = count
    if count == 1:
        return wanted
    return _free(state, f"{wanted}-{count}")


def _bare(value: str) -> str:
    return value if len(value) <= 80 else f"{value[:79]}…"


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 80 else f"{text[:79]!r}…"
