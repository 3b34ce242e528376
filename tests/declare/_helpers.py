"""Checking a text as a file would be checked, and reading what came of it."""

from __future__ import annotations

from typing import Any

from calsched.declare.check import check
from calsched.declare.declaration import Checked, Declaration
from calsched.declare.document import Format
from calsched.declare.read import read
from calsched.model import Definition

NOW = 1_790_000_000_000  # 2026-09-21T14:13:20Z


def checked(text: str, format: Format = "yaml", *, file: str = "file.yaml", **host: Any) -> Checked:
    return check([read(text.encode(), format, file=file)], now=NOW, **host)


def problems(text: str, format: Format = "yaml", **host: Any) -> list[str]:
    """The problems of a text, one line each; none of them ever has a line break or a control character."""
    lines = [str(problem) for problem in checked(text, format, **host).problems]
    assert all(line.isprintable() for line in lines)
    return lines


def warnings(text: str, format: Format = "yaml", **host: Any) -> list[str]:
    found = checked(text, format, **host)
    found.raise_if_bad()
    return [str(warning) for warning in found.warnings]


def declarations(text: str, format: Format = "yaml", **host: Any) -> list[Declaration]:
    found = checked(text, format, **host)
    found.raise_if_bad()
    return found.declarations


def declared(text: str, format: Format = "yaml", **host: Any) -> Definition:
    """The definition of a text with one schedule."""
    (declaration,) = declarations(text, format, **host)
    return declaration.definition
