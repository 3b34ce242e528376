"""Where a value stands in a document: a tuple of keys and positions, and the text that people read.

``("schedules", 2, "trigger", "weekdays", 0)`` is written ``schedules[2].trigger.weekdays[0]``; a key that is no plain
word is written in brackets and quotes: ``schedules["a.b"].trigger``.
"""

from __future__ import annotations

import json
import re

Path = tuple[str | int, ...]

_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]{0,199}\Z")
_STEP = re.compile(r'\.?([^.\[\]"]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]')
_LONGEST_KEY = 60


def path_text(path: Path) -> str:
    """A path as messages show it; control characters and odd keys are escaped."""
    out = ""
    for step in path:
        if isinstance(step, int):
            out += f"[{step}]"
        elif _WORD.match(step):
            out += f".{step}" if out else step
        else:
            out += f"[{_quoted(step)}]"
    return out


def parse_path(text: str) -> Path:
    """The inverse of ``path_text``; what cannot be read is kept as one key."""
    steps: list[str | int] = []
    position = 0
    while position < len(text):
        found = _STEP.match(text, position)
        if found is None:
            return (text,)
        word, number, quoted = found.groups()
        steps.append(word if word is not None else int(number) if number is not None else json.loads(quoted))
        position = found.end()
    return tuple(steps)


def _quoted(key: str) -> str:
    short = key if len(key) <= _LONGEST_KEY else key[: _LONGEST_KEY - 1] + "…"
    return '"' + escaped(short).replace('"', '\\"') + '"'


def escaped(text: str) -> str:
    """A text without control characters: a terminal obeys none of it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def shown(value: object) -> str:
    """A value as messages show it: short, on one line, without control characters."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, int) and abs(value) >= 10**20:
        return "a number of more than 20 digits"
    text = repr(value[:80] if isinstance(value, str) else value)
    return text if len(text) <= 60 else text[:57] + "…'"
