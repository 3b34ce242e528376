"""A place in a document, and the problems that are found from there on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from calsched.declare.document import MAX_PROBLEMS, Document
from calsched.declare.paths import Path, parse_path, path_text
from calsched.declare.wording import Said
from calsched.errors import Problem


class Found:
    """Problems and warnings of one check, over all its documents."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    @property
    def full(self) -> bool:
        """Whether further problems are not worth looking for."""
        return len(self.problems) >= MAX_PROBLEMS


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands: the document, the path of the value, and where to put what is wrong."""

    document: Document
    path: Path
    found: Found

    def at(self, *steps: str | int) -> Place:
        return Place(self.document, (*self.path, *steps), self.found)

    @property
    def line(self) -> int | None:
        return self.document.line(self.path)

    @property
    def text(self) -> str:
        """``schedules.yaml:12``, for references from another place."""
        line = self.line
        return f"{self.document.file}:{line}" if line is not None else self.document.file or path_text(self.path)

    def problem(self, message: str, *steps: str | int, hint: str = "") -> None:
        self.found.problems.append(self.document.problem((*self.path, *steps), message, hint))

    def warn(self, message: str, *steps: str | int, hint: str = "") -> None:
        self.found.warnings.append(self.document.problem((*self.path, *steps), message, hint))

    def say(self, complaints: Iterable[Said]) -> None:
        for complaint in complaints:
            self.problem(complaint.message, *complaint.path, hint=complaint.hint)

    def take(self, problems: Iterable[Problem]) -> None:
        """Problems of another room, whose paths are relative to here."""
        for problem in problems:
            self.problem(problem.message, *parse_path(problem.path), hint=problem.hint)
