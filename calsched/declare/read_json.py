"""JSON to plain values, with duplicate keys refused and a line for every value.

The text is measured before it is parsed (depth, number of values), so that the parser's recursion never matters. Lines
are worked out only when somebody asks for one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from math import isfinite
from typing import Any

from calsched.declare.document import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_NODES,
    MAX_PROBLEMS,
    Document,
    Inside,
    LineNode,
    line_of,
    unreadable,
)
from calsched.declare.paths import Path
from calsched.declare.values_walk import TOO_DEEP, TOO_MANY, TooMuch, Unusable, faults
from calsched.errors import Problem

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
#: A lone quote ends the scan: the text is no JSON, and the parser says so.
_MARKS = re.compile(rf'{_STRING}|["\[\]{{}},:]', re.DOTALL)
_TOKENS = re.compile(rf"{_STRING}|[\[\]{{}},:]|[^\s\[\]{{}},:\"]+|\n", re.DOTALL)


def read_json(text: str, file: str) -> Document:
    """The document of a text. Never raises: what is wrong is in ``problems``."""
    duplicates = False

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal duplicates
        out: dict[str, Any] = {}
        for key, value in items:
            out.setdefault(key, value)  # the first of duplicates stands
        duplicates = duplicates or len(out) != len(items)
        return out

    try:
        _measure(text)
        plain = json.loads(
            text, object_pairs_hook=pairs, parse_int=_whole, parse_float=_real, parse_constant=_constant
        )
        index = lru_cache(maxsize=1)(lambda: _Index(text))
        return _judged(plain, file, index, duplicates)
    except json.JSONDecodeError as error:
        message = f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}, at column {error.colno}"
        return unreadable(file, Problem(message, "", file, error.lineno))
    except TooMuch as error:
        return unreadable(file, Problem(str(error), "", file))


def _judged(plain: Any, file: str, index: Callable[[], _Index], duplicates: bool) -> Document:
    document = Document(plain, file, lines=lambda: index().root)
    wrong = islice(faults(plain), MAX_PROBLEMS)
    bad = tuple(document.problem(path, f"expected a value that can be stored, got {why}") for path, why in wrong)
    twice: tuple[Problem, ...] = ()
    if duplicates:
        twice = tuple(
            Problem(f"this key is already there, at line {first}", document.problem(path, "").path, file, line,
                    "remove one of them")
            for path, line, first in index().duplicates[:MAX_PROBLEMS]
        )
    return Document(None if bad else plain, file, (*bad, *twice), not bad, lines=document.lines)


def _measure(text: str) -> None:
    depth = 0
    for count, mark in enumerate(_MARKS.finditer(text), 1):
        sign = mark[0]
        if sign in ("[", "{"):
            depth += 1
            if depth > MAX_DEPTH:
                raise TooMuch(TOO_DEEP)
        elif sign in ("]", "}"):
            depth -= 1
        elif sign == '"':
            return
        if count > 3 * MAX_NODES:  # a value comes with at most three marks: its key, a colon, a comma
            raise TooMuch(TOO_MANY)
            raise TooMuch(TOO_MANY)


def _whole(text: str) -> Any:
    return int(text) if len(text) <= MAX_DIGITS else Unusable(f"a number of {len(text):,} digits")


def _real(text: str) -> Any:
    value = float(text)
    return value if isfinite(value) else Unusable(f"{text[:20]}, which is not finite")


def _constant(text: str) -> Unusable:
    return Unusable(f"{text}, which is no JSON")


class _Index:
    """Lines of every value in a text that is JSON, and the duplicate keys in it."""

    def __init__(self, text: str) -> None:
        self.root: LineNode | None = None
        self.duplicates: list[tuple[Path, int, int]] = []
        self._stack: list[tuple[Inside, list[str | int | None]]] = []
        self._line = 1
        for token in _TOKENS.finditer(text):
            self._take(token[0])

    def _take(self, token: str) -> None:
        if token == "\n":
            self._line += 1
        elif token in ("]", "}"):
            self._stack.pop()
        elif token == ",":
            at = self._stack[-1][1]
            at[0] = at[0] + 1 if isinstance(at[0], int) else None
        elif token != ":":
            self._value_or_key(token)

    def _value_or_key(self, token: str) -> None:
        if self._stack and self._stack[-1][1][0] is None:
            self._key(json.loads(token))
            return
        if token in ("[", "{"):
            inside: Inside = {}
            self._place((self._line, inside))
            self._stack.append((inside, [0 if token == "[" else None]))
        else:
            self._place(self._line)

    def _key(self, key: str) -> None:
        inside, at = self._stack[-1]
        at[0] = key
        if key in inside:
            path = tuple(step for _, steps in self._stack if (step := steps[0]) is not None)
            self.duplicates.append((path, self._line, line_of(inside[key])))

    def _place(self, node: LineNode) -> None:
        if not self._stack:
            self.root = node
            return
        inside, at = self._stack[-1]
        assert at[0] is not None
        inside.setdefault(at[0], node)
