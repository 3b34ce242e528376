"""Every command with rubbish: a clear line, the right exit code, never a traceback, and the store as it was."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from calsched.cli.main import app
from tests.cli.conftest import BUILT, CommandLine

TEXTS = ["", "\x1b[31m\u202e[bold]", "../" * 40 + "x", "-5", "null", "9" * 400, "ü\ud800"]
FEW = ["\x1b[31m\u202e[bold]", "9" * 400, "ü\ud800"]
SHARED = {"--store", "--namespace", "--config", "--json", "--debug", "--help"}


def _commands(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name in group.list_commands(None):
        command = group.commands[name]
        if hasattr(command, "commands"):
            yield from _commands(command, (*before, name))
        else:
            yield (*before, name), command


COMMANDS = list(_commands(BUILT))


def _arguments(command: Any) -> list[Any]:
    return [param for param in command.params if param.param_type_name == "argument"]


def _options(command: Any) -> list[Any]:
    return [p for p in command.params if p.param_type_name == "option" and not SHARED.intersection(p.opts)]


def _lines(command: Any) -> Iterator[list[str]]:
    """Arguments of a command line, each of them wrong in one way."""
    needed = max(len(_arguments(command)), 1)
    yield []
    yield ["--no-such-option"]
    for text in TEXTS:
        yield [text] * needed
    for option in _options(command):
        if not option.is_flag:
            for text in FEW:
                yield ["x"] * len(_arguments(command)) + [option.opts[0], text]


@pytest.mark.parametrize(("words", "command"), COMMANDS, ids=[" ".join(words) for words, _ in COMMANDS])
def test_rubbish_ends_in_a_clear_line(cli: CommandLine, words: tuple[str, ...], command: Any) -> None:
    runner = CliRunner()
    for line in _lines(command):
        result = runner.invoke(app, [*words, *line], input="")
        told = f"calsched {' '.join([*words, *line])!a}\n{result.output!a}"
        assert "Traceback" not in result.output and "internal error:" not in result.output, told
        assert isinstance(result.exception, SystemExit | None), told
        assert result.exit_code in (0, 1, 2, 3), told
        assert "\x1b" not in result.output and "\u202e" not in result.output, told
        if line == ["--no-such-option"]:
            assert result.exit_code == 2, told
        if result.exit_code:
            assert result.output.strip(), told


ON_A_STORE = [["show", "BAD"], ["pause", "BAD"], ["run", "BAD"], ["delete", "BAD", "--yes"], ["list", "--owner", "BAD"],
              ["--namespace", "BAD", "list"], ["--config", "BAD", "list"], ["--store", "sqlite:///BAD", "list"],
              ["why", "BAD", "2027-01-01T00:00:00Z"], ["pause", "a", "--note", "BAD"], ["backup", "BAD"],
              ["calendars", "show", "BAD"], ["agent", "--json-lines"]]  # fmt: skip


@pytest.mark.parametrize("bad", ["\udcff", "\ud800"], ids=ascii)
@pytest.mark.parametrize("words", ON_A_STORE, ids=" ".join)
def test_text_that_cannot_be_encoded_is_refused_where_there_is_a_store(
    cli: CommandLine, words: list[str], bad: str
) -> None:
    cli("create", "-", "--input-format", "yaml", input="schedules: {a: {every: 1h, task: 'jobs:run'}}")
    asked = '{"id": 1, "method": "schedule_show", "params": {"id": "\\ud800"}}\n'
    result = CliRunner().invoke(app, [word.replace("BAD", f"ü{bad}") for word in words], input=asked)
    told = ascii(result.output)
    assert "Traceback" not in told and "nternal" not in told and "fault of" not in told, told
    assert result.exit_code in (0, 1, 2, 3), told


@pytest.mark.parametrize("words", [words for words, c in COMMANDS if any(a.required for a in _arguments(c))], ids=str)
def test_a_missing_argument_is_misuse(cli: CommandLine, words: tuple[str, ...]) -> None:
    assert "Missing argument" in cli(*words, code=2).stderr


READING = [["list"], ["show", "a"], ["history", "a"], ["why", "a", "2026-01-01T00:00:00Z"], ["doctor"], ["clock"],
           ["tzdata"], ["forecast"]]  # fmt: skip


@pytest.mark.parametrize("words", READING, ids=lambda words: words[0])
def test_reading_makes_no_store_and_says_that_there_is_none(cli: CommandLine, words: list[str]) -> None:
    (line,) = cli.errors(*words, code=3)
    assert line.startswith("there is no store at sqlite:///")
    assert list(cli.folder.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [b"", b"not a database at all" * 100, b"SQLite format 3\0" + bytes(range(256)) * 40, b"\0" * 5_000],
    ids=["empty", "text", "broken", "zeros"],
)
def test_a_file_that_is_not_ours_is_refused_and_untouched(cli: CommandLine, content: bytes) -> None:
    file = cli.folder / "calsched.db"
    file.write_bytes(content)
    before = _fingerprint(cli.folder)
    cli.write("a.yaml", "schedules: {x: {every: 5m, task: jobs:run}}")
    for words in (["list"], ["doctor"], ["pause", "x"], *([["create", "a.yaml"]] if content else [])):
        result = cli(*words, code=3)
        assert len(result.stderr.splitlines()) == 1
    (cli.folder / "a.yaml").unlink()
    assert _fingerprint(cli.folder) == before


def _fingerprint(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def test_somebody_elses_database_is_refused_and_untouched(cli: CommandLine) -> None:
    import sqlite3

    with sqlite3.connect(cli.folder / "calsched.db") as conn:
        conn.execute("CREATE TABLE users (a)")
    conn.close()
    before = _fingerprint(cli.folder)
    cli("list", code=3)
    assert _fingerprint(cli.folder) == before


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("nonsense", 2),
        ("oracle://x/y", 2),
        ("postgresql://nobody:secret@127.0.0.1:1/none", 3),
        ("sqlite:////no/such/folder/x.db", 3),
        ("://", 2),
        ("", 2),
    ],
)
def test_a_store_that_cannot_be_had_is_told_without_its_password(cli: CommandLine, url: str, code: int) -> None:
    result = cli("--store", url, "list", code=code)
    assert "secret" not in result.output


def test_a_bad_configuration_is_told_with_its_line(cli: CommandLine) -> None:
    cli.write("calsched.toml", "worker = 3\n")
    (line,) = cli.errors("list", code=2)
    assert line.endswith("calsched.toml:1: worker: unknown setting (did you mean 'workers'?)")


def test_errors_as_json_go_to_standard_error(cli: CommandLine) -> None:
    import json

    told = json.loads(cli("list", "--json", code=3).stderr)
    assert (told["error"]["exit"], told["error"]["message"][:20]) == (3, "there is no store at")


def test_a_fault_of_ours_is_one_line_and_debug_tells_where(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    from calsched.app import App

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by \x1b zero")

    monkeypatch.setattr(App, "list", broken)
    result = CliRunner().invoke(app, ["list"])
    assert result.exit_code == 1
    assert result.stderr.startswith("internal error: ZeroDivisionError: by \\x1b zero; this is a fault of calsched")
    assert len(result.stderr.splitlines()) == 1
    assert "broken" in CliRunner().invoke(app, ["list", "--debug"]).stderr


def test_a_failing_database_is_no_fault_of_ours(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    from sqlalchemy.exc import DatabaseError

    from calsched.app import App

    def broken(*_: object, **__: object) -> None:
        raise DatabaseError("SELECT 1", {}, Exception("disk image is malformed"))

    monkeypatch.setattr(App, "list", broken)
    (line,) = cli.errors("list", code=3)
    assert line == "the store failed: disk image is malformed"


def test_help_and_version_are_there(cli: CommandLine) -> None:
    assert "Usage: calsched" in cli("--help").stdout
    assert cli("--version").stdout.startswith("calsched ")
    assert "Usage: calsched" in cli(code=2).stderr


@pytest.mark.parametrize("words", [words for words, _ in COMMANDS], ids=" ".join)
def test_every_command_has_help(cli: CommandLine, words: tuple[str, ...]) -> None:
    text = cli(*words, "--help").stdout
    assert text.startswith(f"Usage: calsched {' '.join(words)}")
    assert len(text.splitlines()) > 3
