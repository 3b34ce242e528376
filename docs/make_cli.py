"""Writes docs/cli.md from the commands and settings that there are: ``python docs/make_cli.py``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from calsched import settings
from calsched.cli.main import app

PAGE = Path(__file__).with_name("cli.md")
SHARED = ("store", "namespace", "config", "json", "debug")

INTRODUCTION = """\
# The command line

`calsched COMMAND --help` tells the same, shorter. This page is written by `python docs/make_cli.py` from the commands
themselves, and a test compares.

A store is named by `--store URL`, else `CALSCHED_STORE`, else `calsched.toml` (in the working directory or one of its
parents), else it is the file `calsched.db` in the working directory. A server that has not let us in after 10 s
does not answer; its address may say otherwise (`?connect_timeout=60`). For PostgreSQL behind a pooler that gives each
transaction another connection, add `?prepare_threshold=none`; owners poll then, nothing wakes them.

Instants on input are RFC 3339 with a zone, such as `2026-03-09T09:00:00-06:00`; lengths of time are written `90s`,
`1h30m`, `250ms`, or as a number of seconds. FILE may be `-` for standard input, with `--input-format`.

Only `serve` and `tick` run anything. Every other command is a client: it works while an owner runs, and the owner obeys
it within one poll interval.

`show`, `history` and `why` find a schedule by a former id too, which it had before a `was:` renamed it, and say on
standard error what it is called now. Every other command refuses a former id and names the present one.

`show`, `preview` and `why` say a trigger in words (`at 09:00 on mon-fri in America/Winnipeg`); JSON has its stored
form.

## Exit codes

| code | meaning |
|---|---|
| 0 | done |
| 1 | refused by the state of things: an unknown id, a stale revision, pending work; `doctor` or `tick` met trouble |
| 2 | invalid input: a file, an option, a setting; each problem has a line with its place |
| 3 | the store cannot be reached, stays busy, is of another version, or is not one of ours |
| 10 | `plan` only: there is something to do |

Errors go to standard error; with `--json` as `{"error": {"kind", "exit", "message", "problems"}}`. What comes from
files, stores and exceptions is shown escaped, so that a terminal obeys none of it.
"""

OPTIONS = """\
## Options that every command understands

They may stand before or after the command.
"""

SETTINGS = """\
## Settings

`calsched.toml` holds the settings of a host; relative paths in it start from its folder. A variable overrides the file,
a flag overrides both. An unknown key, a wrong value: all of them are told at once.
"""

SHAPES = """\
## JSON

With `--json` every reading command prints one object. Keys are camelCase, instants are RFC 3339 in UTC (with
milliseconds where there are any), lengths of time end in `Ms`. A later release may add keys; it removes and renames
none.

| command | keys |
|---|---|
| `check` | `ok`, `schedules`, `problems` and `warnings` (`file`, `line`, `path`, `message`, `hint`) |
| `preview` | `digest`, `schedules` (each with `slots`, `leftOut`, `more`, `total`), `warnings` |
| `create` | `schedules`, `created` (the ids of those that are new), `warnings` |
| `list` | `schedules`, `nextPage`, `owned`, `owners`, `serve` (what gives this store an owner), `warnings` |
| `show` | `schedule`, `zone`, `coming`, `revisions`, `pending`, `history`, `skips`, `decisions`, `owned`, `serve` |
| `history` | `entries` (each with `kind`: `occurrence` or `range`), `nextPage` |
| `why` | `verdict`, `sentences`, `instant`, `revision`, `ordinal`, `occurrence`, `range`, `extra` (backfills, runs) |
| `doctor` | `ok`, `findings` (`kind`, `message`, `facts`), `notes`, `schedules` (how many in each state), `owners` |
| `forecast` | `start`, `end`, `schedules`, `total`, `hours`, `minutesOfHour`, `worst` |
| `tick` | `at`, `leftRunning`, `problems`, `schedules` (`occurrences`, `ranges`, `ended`, `refused`, `ran`) |
| `simulate` | `rows`, `counts`, `paused`, `ended`, `refused`, `holds`, `truncated` |

`list`, `show` and `tick` have `hold` too: null, or why nothing is dispatched (`backward`, `forward`, `restored`).

The `pending` of `show` are the oldest, as many as `--limit` says; the schedule's `openCount` counts all of them.

Where a month or a span (`--from` with `--to`) holds more than 100,000 slots of a schedule, `preview` lists none of them
and says how many there are: the exact number is `total`, and `slots` is empty. Otherwise `total` is null.

The `problems` of `tick` have `kind` (`invalid`: paused, because what is stored of it cannot be used; `failed`: it could
not be judged; `unloadable`: its work is left to owners that can load its definition or task; `executor`: its work waits
for an executor that this process does not have), `namespace`, `id` and `message`.

The verdicts of `why`: a state of the occurrence (`succeeded`, `failed`, `timed_out`, `interrupted`, `cancelled`,
`waiting`, `ready`, `claimed`, `running`, `retrying`), `skipped`, `represented`, `pruned`, `unjudged` (due, and no tick
has come by), `future`, `none` (a due instant of the rule that this revision never had), `notASlot`.
"""


def commands(group: Any, before: str = "calsched") -> Iterator[tuple[str, Any]]:
    """Every command with its full name, in the order of the help."""
    for name in group.list_commands(None):
        command = group.commands[name]
        if hasattr(command, "commands"):
            yield from commands(command, f"{before} {name}")
        elif not command.hidden:
            yield f"{before} {name}", command


def arguments(command: Any) -> Iterator[str]:
    for param in command.params:
        if param.param_type_name == "argument":
            name = param.metavar or param.name.upper()
            yield name if param.required or name.startswith("[") else f"[{name}]"


def options(command: Any) -> Iterator[Any]:
    for param in command.params:
        if param.param_type_name == "option" and param.name not in SHARED and "--help" not in param.opts:
            yield param


def option_row(param: Any) -> str:
    name = param.opts[0] if param.is_flag else f"{param.opts[0]} {param.metavar or param.opts[0].lstrip('-').upper()}"
    return f"| `{name}` | {_cell(param.help or '')}{' (required)' if param.required else ''} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").rstrip(".")


def section(name: str, command: Any) -> str:
    words = " ".join([name, *arguments(command)])
    text = " ".join((command.help or "").split())
    lines = [f"### `{words}`", "", text, ""]
    rows = [option_row(param) for param in options(command)]
    if rows:
        lines += ["| option | |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def shared() -> str:
    root = typer.main.get_command(app)
    rows = [option_row(param) for param in root.params if param.name in (*SHARED, "version")]
    return "\n".join(["| option | |", "|---|---|", *rows, ""])


def settings_table() -> str:
    known = settings.documented()
    rows = [f"| `{name}` | {f'`{variable}`' if variable else ''} | {help} |" for name, help, variable in known]
    return "\n".join(["| key | variable | |", "|---|---|---|", *rows, ""])


def page() -> str:
    root = typer.main.get_command(app)
    sections = [section(name, command) for name, command in commands(root)]
    return (
        "\n".join(
            [INTRODUCTION, "## Commands\n", *sections, OPTIONS, shared(), SETTINGS, settings_table(), SHAPES]
        ).rstrip()
        + "\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page())
