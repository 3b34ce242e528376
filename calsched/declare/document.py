"""A file as it was read: plain values, the line of each of them, and what was wrong already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from calsched.declare.paths import Path, parse_path, path_text
from calsched.errors import InvalidInput, Problem

Format = Literal["yaml", "json", "toml"]
FORMATS: tuple[Format, ...] = ("yaml", "json", "toml")

#: Bounds of one file. Ten thousand ordinary schedules fit.
MAX_BYTES = 4 * 1024 * 1024
MAX_BYTES_TOML = 1024 * 1024  # the standard library's reader is slow
MAX_DEPTH = 50
MAX_NODES = 250_000  # keys and values
#: Problems of one file beyond this many are counted, not listed.
MAX_PROBLEMS = 1_000
#: Decimal digits of a number; the widest that a schedule can mean has 15.
MAX_DIGITS = 100

#: A node of the line index: the line of a value, and for a container the nodes of what is inside.
Inside = dict[str | int, "LineNode"]
LineNode = int | tuple[int, Inside]


@dataclass(frozen=True, slots=True)
class Document:
    """Plain values (JSON types only) of one file.

    ``readable`` is false when the text is not what its format says or is out of bounds; ``plain`` is then ``None``.
    ``problems`` may be there all the same for a readable one (a duplicate key, say).
    """

    plain: Any
    file: str
    problems: tuple[Problem, ...] = ()
    readable: bool = True
    single: bool = False  # the whole is one schedule, whatever keys it has
    lines: Callable[[], LineNode | None] = field(default=lambda: None, repr=False, compare=False)

    @property
    def stem(self) -> str:
        """The file's name without folder and suffix; empty for standard input and for values from Python."""
        name = self.file.replace("\\", "/").rsplit("/", 1)[-1]
        return "" if name.startswith("<") else name.rsplit(".", 1)[0]

    def line(self, path: Path | str) -> int | None:
        """The line of a value, or of the nearest one around it."""
        node = self.lines()
        if node is None:
            return None
        for step in parse_path(path) if isinstance(path, str) else path:
            if isinstance(node, int) or step not in node[1]:
                break
            node = node[1][step]
        return line_of(node)

    def problem(self, path: Path, message: str, hint: str = "") -> Problem:
        return Problem(message, path_text(path), self.file, self.line(path), hint)

    def raise_if_bad(self) -> None:
        """Raises InvalidInput with every problem that reading found."""
        if self.problems:
            raise InvalidInput(self.problems)


def line_of(node: LineNode) -> int:
    return node if isinstance(node, int) else node[0]


def unreadable(file: str, *problems: Problem) -> Document:
    return Document(None, file, problems, readable=False)
