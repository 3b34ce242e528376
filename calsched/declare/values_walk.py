"""What no format may smuggle in: NUL, surrogates, numbers that are none, too many nodes, too much depth."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from typing import Any, NamedTuple

from calsched.declare.document import MAX_DEPTH, MAX_NODES
from calsched.declare.paths import Path

_BAD_TEXT = re.compile("[\\x00\\ud800-\\udfff]")


class Unusable(NamedTuple):
    """Stands in a tree of values for one that has no plain form."""

    why: str


class TooMuch(Exception):
    """Out of bounds; the message says which."""


TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"
TOO_MANY = f"more than {MAX_NODES:,} keys and values in one file"


def bad_text(text: str) -> str | None:
    """Why a text cannot be stored everywhere, or None."""
    found = _BAD_TEXT.search(text)
    if found is None:
        return None
    return "text with a NUL character" if found[0] == "\0" else "text with half a surrogate pair"


def faults(tree: Any) -> Iterator[tuple[Path, str]]:
    """Every value of a tree that cannot be used, with its path. Raises TooMuch. Never recurses."""
    pending: list[tuple[Any, Path]] = [(tree, ())]
    seen = 0
    while pending:
        value, path = pending.pop()
        seen += 1
        if seen > MAX_NODES:
            raise TooMuch(TOO_MANY)
        if len(path) > MAX_DEPTH:
            raise TooMuch(TOO_DEEP)
        if isinstance(value, dict):
            seen += len(value)
            yield from ((path, f"a key is {why}") for key in value if (why := bad_text(key)))
            pending.extend((inner, (*path, key)) for key, inner in reversed(value.items()))
        elif isinstance(value, list):
            pending.extend((inner, (*path, i)) for i, inner in reversed(list(enumerate(value))))
        elif why := _fault(value):
            yield path, why


def _fault(value: Any) -> str | None:
    if isinstance(value, Unusable):
        return value.why
    if isinstance(value, str):
        return bad_text(value)
    if isinstance(value, float) and not isfinite(value):
        return "not a finite number"
    return None
