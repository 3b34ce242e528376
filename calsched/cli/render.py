"""What the command line prints: tables and sentences for people, JSON for programs, nothing that a terminal obeys.

Every text that came from a file, a store or an exception passes ``printable``: control characters, terminal escapes and
characters that turn the reading direction are shown as escapes, and rich markup is shown as it is written.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import IO, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from calsched.cli import streams
from calsched.errors import Problem

# C0 without newline, DEL, C1, line and paragraph separators, marks and isolates of reading direction, surrogates
_UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_UNSAFE_OR_NEWLINE = re.compile(f"{_UNSAFE.pattern}|\n")
_WIDE = 100_000  # columns where nobody looks: a pipe must not get lines broken at 80

STATE_STYLES = {
    "enabled": "green",
    "succeeded": "green",
    "running": "cyan",
    "claimed": "cyan",
    "retrying": "yellow",
    "paused": "yellow",
    "skipped": "yellow",
    "interrupted": "red",
    "failed": "red",
    "timed_out": "red",
    "cancelled": "magenta",
    "represented": "blue",
}


def _escape(match: re.Match[str]) -> str:
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(match[0]) or (
        f"\\x{ord(match[0]):02x}" if ord(match[0]) < 0x100 else f"\\u{ord(match[0]):04x}"
    )


def printable(value: object, *, lines: bool = False) -> str:
    """A text that no terminal obeys. With ``lines`` a newline stays one."""
    return (_UNSAFE if lines else _UNSAFE_OR_NEWLINE).sub(_escape, str(value))


def json_text(value: Any) -> str:
    """JSON for people's eyes and programs alike; what a terminal might obey is a ``\\u`` escape of JSON."""
    text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def problem_plain(problem: Problem) -> dict[str, Any]:
    """One problem as JSON; what it does not say is null."""
    told = {"file": problem.file, "path": problem.path, "message": problem.message, "hint": problem.hint}
    return {name: text or None for name, text in told.items()} | {"line": problem.line}


class Output:
    """The two streams of one command."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        streams.mend()
        self._out = _console(sys.stdout)
        self._err = _console(sys.stderr)

    @property
    def terminal(self) -> bool:
        return self._out.is_terminal

    @property
    def columns(self) -> int:
        return self._out.width if self.terminal else 100

    def json(self, value: Any) -> None:
        print(json_text(value), file=self._out.file)

    def line(self, text: object = "", style: str = "") -> None:
        """One line, or several where the text has newlines of ours."""
        self._out.print(Text(printable(text, lines=True), style=style), soft_wrap=True)

    def text(self, *parts: str | tuple[str, str]) -> None:
        """One line of parts, each plain or with a style."""
        self._out.print(styled(*parts), soft_wrap=True)

    def error(self, text: object, style: str = "red") -> None:
        """What cannot be told is dropped: the exit code says it too."""
        with suppress(OSError, ValueError):
            self._err.print(Text(printable(text, lines=True), style=style), soft_wrap=True)

    def plain_error(self, text: str) -> None:
        """A text that is printable already, as it is."""
        with suppress(OSError, ValueError):
            print(text, file=self._err.file)

    def note(self, text: object) -> None:
        """A hint beside the result, on standard error, so that a pipe stays clean."""
        self.error(text, style="yellow")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> None:
        """Rows under small headings; a cell is a text, or a ready ``Text`` of ``styled``."""
        grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold dim")
        for name in columns:
            grid.add_column(name, justify="right" if name in right else "left", overflow="fold")
        for row in rows:
            grid.add_row(*(cell if isinstance(cell, Text) else Text(printable(cell)) for cell in row))
        for line in self._out.render_lines(grid, pad=False):
            self._out.print(_without_tail(line), soft_wrap=True)

    def fields(self, values: Mapping[str, object]) -> None:
        """A name and its value a line; a value that is ``None`` is left out."""
        width = max((len(name) for name, value in values.items() if value is not None), default=0)
        for name, value in values.items():
            if value is not None:
                cell = value if isinstance(value, Text) else Text(printable(value))
                self._out.print(Text.assemble((f"{name:<{width}}  ", "bold dim"), cell), soft_wrap=True)

    def paged(self, long: bool) -> AbstractContextManager[Any]:
        """On a terminal, long output goes through the user's pager."""
        return self._out.pager() if long and self.terminal else nullcontext()


def styled(*parts: str | tuple[str, str]) -> Text:
    out = Text()
    for part in parts:
        text, style = part if isinstance(part, tuple) else (part, "")
        out.append(printable(text), style=style or None)
    return out


def state(name: str, reason: str | None = None) -> Text:
    return styled((name, STATE_STYLES.get(name, "")), f" ({reason})" if reason and reason != name else "")


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to ``CommandLine.main``; rich would end the process with 1."""
        raise


def _console(stream: IO[str]) -> Console:
    console = _Console(file=stream, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    return console


def _without_tail(line: Iterable[Any]) -> Text:
    text = Text()
    for segment in line:
        text.append(segment.text, style=segment.style)
    text.rstrip()
    return text
