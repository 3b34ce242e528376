"""Settings of a host: ``calsched.toml``, ``CALSCHED_*`` variables and flags, each overriding the one before.

``calsched.toml`` is looked for in the working directory and its parents; relative paths in it start from its folder.
A schedule's own options are not settings; they live in its declaration.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from calsched.errors import InvalidInput, Problem
from calsched.reading import Unreadable, real
from calsched.reading import text as read_text

FILE_NAME = "calsched.toml"
DEFAULT_STORE = "sqlite:///calsched.db"
MAX_FILE_BYTES = 1_000_000

_SQLITE_RELATIVE = re.compile(r"^(sqlite(?:\+\w+)?:///)(?!/|:memory:|file:)([^?]+)(\?.*)?$")
_PASSWORD = re.compile(r"^([\w+]+://[^/@]*?):[^/]*@")
_NAME = re.compile(r"^[^\x00-\x1f\x7f-\x9f]{1,128}$")
_PREFIX = re.compile(r"^[A-Za-z_][A-Za-z0-9_]{0,31}$")
_CALLABLE = re.compile(r"^[^\W\d]\w*(\.[^\W\d]\w*)*:([^\W\d]\w*|\*)$")


class ExecutorSetting(NamedTuple):
    """One pool of workers that ``serve`` starts, under the alias that a task's ``executor`` names."""

    kind: str  # threads, processes or asyncio
    workers: int


@dataclass(frozen=True, slots=True)
class Settings:
    """What a host says about itself. Durations are milliseconds, as everywhere."""

    store: str = DEFAULT_STORE
    namespace: str = "default"
    timezone: str | None = None  # of schedules that name none
    zone_source: str = "package"
    allow: tuple[str, ...] | None = None  # None: not stated; serve and tick then run nothing of kind python
    schedules: tuple[Path, ...] = ()  # what `serve` applies at its start when no files are named
    python_path: tuple[Path, ...] = ()  # where jobs are imported from, before sys.path
    workers: int = 10
    executors: Mapping[str, ExecutorSetting] = field(default_factory=dict)
    owner_name: str | None = None
    poll_interval: int = 1_000
    lease: int = 30_000
    stop_timeout: int = 30_000  # how long a stopping `serve` waits for running tasks
    schedule_batch: int = 100
    occurrence_batch: int = 100
    table_prefix: str = "calsched_"
    table_schema: str | None = None
    workspaces: Path | None = None
    minimum_interval: Mapping[str, int] = field(default_factory=dict)  # namespace -> least distance of two slots
    clock_tolerance: int = 5_000
    approvals: str | None = None  # who approves controls: "operator", or the path of a file of trusted keys
    keep_days: int | None = None  # history older than this may be pruned
    keep_count: int | None = None  # newest verdicts of a schedule that are kept whatever their age
    file: Path | None = None  # the calsched.toml that was read

    def minimum_interval_of(self, namespace: str) -> int:
        """The least distance of two slots in a namespace, in milliseconds; 0 where nothing is stated."""
        return self.minimum_interval.get(namespace, self.minimum_interval.get("*", 0))


class _Key(NamedTuple):
    attribute: str
    parse: Callable[[Any, Path], Any]
    help: str
    environment: bool = True


def load(
    directory: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """Settings as they hold in a directory. ``flags`` are keyed as in the file; a ``None`` is a flag not given.

    Raises ``InvalidInput`` with every problem of the file, the variables and the flags at once.
    """
    directory = _working_directory() if directory is None else directory
    environ = os.environ if environ is None else environ
    flags = {key: value for key, value in (flags or {}).items() if value is not None}
    problems: list[Problem] = []
    file = _chosen_file(directory, environ, flags.pop("config", None), problems)
    values: dict[str, Any] = {"file": file}
    if file is not None:
        values.update(_from_file(file, problems))
    values.update(_from_environment(environ, directory, problems))
    values.update(_from_flags(flags, directory, problems))
    if problems:
        raise InvalidInput(problems)
    return Settings(**_with_places(values, directory, file))


def find_file(directory: Path) -> Path | None:
    """The ``calsched.toml`` of a directory or of its nearest parent that has one.

    Whatever has that name is chosen: passing over what cannot be read would mean other settings, and another store.
    Raises OSError where a folder cannot be looked into.
    """
    for folder in (directory, *directory.parents):
        try:
            (folder / FILE_NAME).lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        return folder / FILE_NAME
    return None


def shown_url(url: str) -> str:
    """A store's URL for people: its password is three stars."""
    return _PASSWORD.sub(r"\1:***@", url)


def _chosen_file(directory: Path, environ: Mapping[str, str], flag: Any, problems: list[Problem]) -> Path | None:
    named, where = (flag, "--config") if flag else (environ.get("CALSCHED_CONFIG"), "CALSCHED_CONFIG")
    try:
        if not named:
            return find_file(real(directory))
        path = real(directory / Path(str(named)))
        path.stat()
        return path
    except (FileNotFoundError, NotADirectoryError):
        problems.append(Problem(f"there is no file {str(named)!r}", where))
    except ValueError:
        problems.append(Problem("no name that a file can have", where))
    except OSError as error:
        shown = str(error.filename or directory)
        why = (error.strerror or str(error)).lower()
        problems.append(Problem(f"cannot be read: {why}", where if named else "", "" if named else shown))
    return None


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        hint = "change to a folder that is there"
        raise InvalidInput([Problem(f"the working directory cannot be read: {error.strerror}", hint=hint)]) from None


def _from_file(file: Path, problems: list[Problem]) -> dict[str, Any]:
    shown = str(file)
    try:
        text = read_text(file, MAX_FILE_BYTES)
        plain = tomllib.loads(text)
    except Unreadable as error:
        problems.append(Problem(str(error), file=shown, line=error.line))
        return {}
    except RecursionError:
        problems.append(Problem("nested too deeply", file=shown))
        return {}
    except ValueError as error:  # TOMLDecodeError, and numbers and dates that are none
        found = re.search(r"\s*\(at line (\d+), column \d+\)", str(error))
        message = str(error).replace(found[0], "") if found else str(error)
        problems.append(Problem(f"not TOML: {message}", file=shown, line=int(found[1]) if found else None))
        return {}

    def report(key: str, message: str, hint: str = "") -> None:
        problems.append(Problem(message, key, shown, _line_of(text, key), hint))

    return _parsed(plain, file.parent, report)


def _parsed(plain: Mapping[str, Any], base: Path, report: Callable[..., None]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in plain.items():
        key = _KEYS.get(name)
        if key is None:
            near = difflib.get_close_matches(name, _KEYS, 1)
            report(name, "unknown setting", f"did you mean {near[0]!r}?" if near else "")
            continue
        try:
            out[key.attribute] = key.parse(value, base)
        except ValueError as error:
            report(name, str(error))
    return out


def _from_environment(environ: Mapping[str, str], directory: Path, problems: list[Problem]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, key in _KEYS.items():
        variable = variable_of(name)
        if key.environment and environ.get(variable):
            try:
                out[key.attribute] = key.parse(environ[variable], directory)
            except ValueError as error:
                problems.append(Problem(str(error), variable))
    return out


def _from_flags(flags: Mapping[str, Any], directory: Path, problems: list[Problem]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in flags.items():
        key = _KEYS[name]
        try:
            out[key.attribute] = key.parse(value, directory)
        except ValueError as error:
            problems.append(Problem(str(error), flag_of(name)))
    return out


def variable_of(key: str) -> str:
    """``stopSeconds`` is ``CALSCHED_STOP_SECONDS``."""
    return "CALSCHED_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).upper()


def flag_of(key: str) -> str:
    """``stopSeconds`` is ``--stop-seconds``."""
    return "--" + re.sub(r"(?<=[a-z])(?=[A-Z])", "-", key).lower()


def documented() -> Iterator[tuple[str, str, str | None]]:
    """Every key of ``calsched.toml`` with its meaning, and the variable that overrides it, if there is one."""
    for name, key in _KEYS.items():
        yield name, key.help, variable_of(name) if key.environment else None


def _with_places(values: dict[str, Any], directory: Path, file: Path | None) -> dict[str, Any]:
    """A store and a place to import jobs from, where nothing names them."""
    values.setdefault("store", _url(DEFAULT_STORE, directory))
    if "python_path" not in values:
        values["python_path"] = (file.parent if file is not None else real(directory),)
    return values


def _line_of(text: str, key: str) -> int | None:
    pattern = re.compile(rf"^\s*(?:\[\s*)?[\"']?{re.escape(key)}[\"']?\s*[=.\]]")
    for number, line in enumerate(text.splitlines(), 1):
        if pattern.match(line):
            return number
    return None


# Readers of one value. Each takes what a file, a variable or a flag says and raises ValueError with the expectation.


def _found(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _url(value: Any, base: Path) -> str:
    if not isinstance(value, str) or "://" not in value:
        raise ValueError(f"expected a database URL such as '{DEFAULT_STORE}', got {_found(value)}")
    relative = _SQLITE_RELATIVE.match(value)
    if relative is None:
        return value
    path = real(base / relative[2])
    return f"{relative[1]}{path}{relative[3] or ''}"


def _name(value: Any, _base: Path) -> str:
    if not isinstance(value, str) or not _NAME.match(value):
        raise ValueError(f"expected 1 to 128 characters without control characters, got {_found(value)}")
    return value


def _prefix(value: Any, _base: Path) -> str:
    if not isinstance(value, str) or not _PREFIX.match(value):
        raise ValueError(f"expected a name of letters, digits and underscores, got {_found(value)}")
    return value


def _one_of(*choices: str) -> Callable[[Any, Path], str]:
    def parse(value: Any, _base: Path) -> str:
        if value not in choices:
            raise ValueError(f"expected {' or '.join(choices)}, got {_found(value)}")
        return str(value)

    return parse


def _integer(low: int, high: int) -> Callable[[Any, Path], int]:
    def parse(value: Any, _base: Path) -> int:
        number = _number(value, f"a whole number from {low:,} to {high:,}")
        if number != int(number) or not low <= number <= high:
            raise ValueError(f"expected a whole number from {low:,} to {high:,}, got {_found(value)}")
        return int(number)

    return parse


def _seconds(low: float, high: float) -> Callable[[Any, Path], int]:
    def parse(value: Any, _base: Path) -> int:
        expected = f"seconds from {low:g} to {high:,g}"
        number = _number(value, expected)
        if not low <= number <= high:
            raise ValueError(f"expected {expected}, got {_found(value)}")
        return round(number * 1000)

    return parse


def _number(value: Any, expected: str) -> float:
    if isinstance(value, str) and len(value) <= 30:  # from a variable or a flag
        try:
            value = float(value)
        except ValueError:
            raise ValueError(f"expected {expected}, got {_found(value)}") from None
    finite = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
    if not finite:  # NaN compares false
        raise ValueError(f"expected {expected}, got {_found(value)}")
    return float(value)


def _callables(value: Any, _base: Path) -> tuple[str, ...]:
    names = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(names, list | tuple):
        raise ValueError(f"expected a list such as ['jobs:*', 'billing.tasks:send'], got {_found(value)}")
    bad = [name for name in names if not isinstance(name, str) or not _CALLABLE.match(name)]
    if bad:
        raise ValueError(f"expected 'module:name' or 'module:*', got {', '.join(map(_found, bad[:5]))}")
    return tuple(names)


def _paths(value: Any, base: Path) -> tuple[Path, ...]:
    names = value.split(os.pathsep) if isinstance(value, str) else value
    if not isinstance(names, list | tuple):
        raise ValueError(f"expected a list of paths, got {_found(value)}")
    return tuple(_path(name, base) for name in names)


def _path(value: Any, base: Path) -> Path:
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise ValueError(f"expected a path, got {_found(value)}")
    try:
        return real(base / Path(value).expanduser())
    except RuntimeError:  # whose home is not known
        raise ValueError(f"expected a path, got {_found(value)}: there is no such user's home") from None


def _approvals(value: Any, base: Path) -> str:
    return "operator" if value == "operator" else str(_path(value, base))


def _executors(value: Any, base: Path) -> dict[str, ExecutorSetting]:
    if not isinstance(value, dict):
        raise ValueError(f"expected a table such as default = {{kind = 'threads', workers = 10}}, got {_found(value)}")
    return {_name(alias, base): _executor(alias, entry, base) for alias, entry in value.items()}


def _executor(alias: str, entry: Any, base: Path) -> ExecutorSetting:
    if not isinstance(entry, dict) or set(entry) - {"kind", "workers"}:
        raise ValueError(f"{alias}: expected a table with kind and workers, got {_found(entry)}")
    try:
        kind = _one_of("threads", "processes", "asyncio")(entry.get("kind", "threads"), base)
        return ExecutorSetting(kind, _integer(1, 10_000)(entry.get("workers", 10), base))
    except ValueError as error:
        raise ValueError(f"{alias}: {error}") from None


def _minimum_intervals(value: Any, base: Path) -> dict[str, int]:
    read = _seconds(0, 366 * 86_400)
    if not isinstance(value, dict):
        return {"*": read(value, base)}
    out = {}
    for namespace, seconds in value.items():
        try:
            out[_name(namespace, base)] = read(seconds, base)
        except ValueError as error:
            raise ValueError(f"{namespace}: {error}") from None
    return out


_KEYS: dict[str, _Key] = {
    "store": _Key("store", _url, "Database URL. Default `sqlite:///calsched.db` in the working directory"),
    "namespace": _Key("namespace", _name, "Namespace of the schedules that commands are about. Default `default`"),
    "timezone": _Key("timezone", _name, "IANA zone of schedules that name none"),
    "zoneSource": _Key(
        "zone_source", _one_of("package", "system"), "`package` (the `tzdata` package, the default) or `system`"
    ),
    "allow": _Key(
        "allow", _callables, "What schedules may call: `module:name`, `module:*`. `serve` and `tick` need it"
    ),
    "schedules": _Key(
        "schedules", _paths, "Files and directories that `serve` applies at its start when it is given none"
    ),
    "pythonPath": _Key(
        "python_path",
        _paths,
        "Where jobs are imported from. Default: the folder of `calsched.toml`, else the working directory",
    ),
    "workers": _Key("workers", _integer(1, 10_000), "Threads of the executor `default`. Default 10"),
    "executors": _Key(
        "executors",
        _executors,
        'Further executors: `cpu = {kind = "processes", workers = 2}`; kinds `threads`, `processes`, `asyncio`',
        environment=False,
    ),
    "ownerName": _Key("owner_name", _name, "Name of this owner in messages. Default: host and process id"),
    "pollSeconds": _Key(
        "poll_interval", _seconds(0.01, 3_600), "How often an owner looks for changes of others. Default 1"
    ),
    "leaseSeconds": _Key(
        "lease", _seconds(1, 3_600), "How long an owner counts as alive after its last heartbeat. Default 30"
    ),
    "stopSeconds": _Key(
        "stop_timeout", _seconds(0, 86_400), "How long a stopping `serve` waits for running tasks. Default 30"
    ),
    "scheduleBatch": _Key("schedule_batch", _integer(1, 100_000), "Schedules that one tick advances. Default 100"),
    "occurrenceBatch": _Key(
        "occurrence_batch", _integer(1, 100_000), "Occurrences of a schedule that one tick makes. Default 100"
    ),
    "tablePrefix": _Key("table_prefix", _prefix, "Prefix of the tables. Default `calsched_`"),
    "tableSchema": _Key("table_schema", _prefix, "Schema of the tables (servers only)"),
    "workspaces": _Key(
        "workspaces", _path, "Folder below which each occurrence gets a workspace of its own. Default: none"
    ),
    "minimumIntervalSeconds": _Key(
        "minimum_interval",
        _minimum_intervals,
        'Least distance of two due instants: a number, or a table by namespace (`"*"` for the others)',
    ),
    "clockToleranceSeconds": _Key(
        "clock_tolerance", _seconds(0, 86_400), "How far the wall clock may step before dispatch is held. Default 5"
    ),
    "approvals": _Key(
        "approvals",
        _approvals,
        "Who has to approve controls: `operator`, or the path of a file of trusted keys. Default: nobody",
        environment=False,
    ),
    "keepDays": _Key("keep_days", _integer(1, 36_500), "History that is older may be pruned. Default: kept for ever"),
    "keepCount": _Key(
        "keep_count", _integer(1, 1_000_000_000), "Newest verdicts of a schedule that are kept whatever their age"
    ),
}
