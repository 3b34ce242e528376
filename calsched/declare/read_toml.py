"""TOML to plain values. The standard library parses; lines are found by looking for headers and keys (best effort)."""

from __future__ import annotations

import re
import tomllib
from datetime import date, datetime, time
from functools import lru_cache
from itertools import islice
from typing import Any

from calsched.declare.document import MAX_DEPTH, MAX_NODES, MAX_PROBLEMS, Document, Inside, LineNode, unreadable
from calsched.declare.values_walk import TOO_DEEP, TOO_MANY, TooMuch, faults
from calsched.errors import Problem

_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
#: tomllib's work grows with the square of the parts of a dotted key.
_LONG_KEY = re.compile(rf"(?<![\w-])(?:{_PART}[ \t]*+\.[ \t]*+){{{MAX_DEPTH}}}")
_LONG_NUMBER = re.compile(r"(?<![\w.])[+-]?\d[\d_]{100,}")
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_PART}(?:\s*\.\s*{_PART})*)\s*\]")
_KEY = re.compile(rf"\s*({_PART}(?:[ \t]*\.[ \t]*{_PART})*)[ \t]*=")
_PARTS = re.compile(_PART)
_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)")


def read_toml(text: str, file: str) -> Document:
    """The document of a text. Never raises: what is wrong is in ``problems``."""
    if found := _LONG_KEY.search(text):
        return unreadable(file, Problem(TOO_DEEP, "", file, text.count("\n", 0, found.start()) + 1))
    if text.count(",") + text.count("\n") > MAX_NODES:  # there are no more values than that
        return unreadable(file, Problem(TOO_MANY, "", file))
    try:
        plain = _plain(tomllib.loads(text.replace("\r\n", "\n")))
        index = lru_cache(maxsize=1)(lambda: _index(text))
        document = Document(plain, file, lines=index)
        wrong = islice(faults(plain), MAX_PROBLEMS)
        bad = tuple(document.problem(path, f"expected a value that can be stored, got {why}") for path, why in wrong)
    except TooMuch as error:
        return unreadable(file, Problem(str(error), "", file))
    except RecursionError:
        return unreadable(file, Problem(TOO_DEEP, "", file))
    except ValueError as error:  # TOMLDecodeError, and int() on thousands of digits
        return unreadable(file, _as_problem(error, text, file))
    return Document(None if bad else plain, file, bad, not bad, lines=document.lines)


def _as_problem(error: ValueError, text: str, file: str) -> Problem:
    if not isinstance(error, tomllib.TOMLDecodeError):
        found = _LONG_NUMBER.search(text)
        line = text.count("\n", 0, found.start()) + 1 if found else None
        what = f"a number of {len(found[0]):,} digits" if found else "a value that is out of range"
        return Problem(f"expected a value that can be stored, got {what}", "", file, line)
    said = str(error)
    place = _PLACE.search(said)
    line = int(place[1]) if place and place[1] else text.count("\n") + 1
    said = _PLACE.sub("", said)
    return Problem(f"not TOML: {said[:1].lower()}{said[1:200]}", "", file, line)


def _plain(tree: Any) -> Any:
    """Dates and times become their text, in place; everything else is plain already."""
    pending = [tree]
    seen = 0
    while pending:
        container = pending.pop()
        items = list(container.items() if isinstance(container, dict) else enumerate(container))
        seen += len(items)
        if seen > MAX_NODES:
            raise TooMuch(TOO_MANY)
        for key, value in items:
            if isinstance(value, dict | list):
                pending.append(value)
            elif isinstance(value, datetime | date | time):
                container[key] = value.isoformat()
    return tree


def _index(text: str) -> LineNode:
    root: Inside = {}
    table = root
    counts: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _table(root, _split(header[2]), header[1] == "[[", counts, number)
        elif key := _KEY.match(line):
            inside = table
            for part in _split(key[1]):
                inside = _inside(inside, part, number)
    return 1, root


def _split(text: str) -> list[str]:
    return [part[1:-1] if part[0] in "\"'" else part for part in _PARTS.findall(text)]


def _table(root: Inside, parts: list[str], array: bool, counts: dict[tuple[str, ...], int], line: int) -> Inside:
    """What is inside a header's table; one in an array of tables belongs to the array's newest element."""
    table = root
    for depth in range(1, len(parts) + 1):
        path = tuple(parts[:depth])
        table = _inside(table, path[-1], line)
        if array and depth == len(parts):
            counts[path] = counts.get(path, -1) + 1
            for inner in [known for known in counts if len(known) > depth and known[:depth] == path]:
                del counts[inner]  # the new element starts its own arrays
        if path in counts:
            table = _inside(table, counts[path], line)
    return table


def _inside(table: Inside, step: str | int, line: int) -> Inside:
    node = table.setdefault(step, (line, {}))
    assert isinstance(node, tuple)
    return node[1]
