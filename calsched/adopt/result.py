"""What an adoption hands back: declarations, what differs, and what could not be carried over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from calsched.errors import Problem


@dataclass(frozen=True, slots=True)
class Adopted:
    """One schedule. ``body`` is its declaration in the words of the files; ``was`` is what the source said.

    ``notes`` say what will be different; ``comments`` stood in the source.
    """

    id: str
    was: str
    body: dict[str, Any]
    line: int | None = None
    notes: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Adoption:
    """All of a source. ``timezone`` is what the declaration file states; ``notes`` are about the source as a whole."""

    schedules: list[Adopted] = field(default_factory=list)
    refused: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    timezone: str | None = None

    def declaration(self) -> dict[str, Any]:
        """A declaration file's plain values."""
        head = {"timezone": self.timezone} if self.timezone is not None else {}
        return {**head, "schedules": {adopted.id: adopted.body for adopted in self.schedules}}


def in_order(*groups: Iterable[str]) -> tuple[str, ...]:
    """All of them once, in order."""
    return tuple(dict.fromkeys(text for group in groups for text in group))
