"""YAML to plain values, event by event: no recursion, no constructors, bounded while it reads.

PyYAML does the parsing (libyaml where it was built in). The meaning of plain scalars is that of the YAML 1.2 core
schema (https://yaml.org/spec/1.2.2/#103-core-schema): ``yes``, ``off``, ``0o17`` apart, nothing turns into something
else behind the author's back; dates and times stay text. Refused, each with its line: aliases and merge keys (write the
values out, or use ``defaults``), tags, keys that are no text, duplicate keys, a second document, and what YAML 1.1
readers take for a number in base 60 (``9:30`` is 570 to them).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from typing import Any

import yaml

from calsched.declare.document import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_NODES,
    MAX_PROBLEMS,
    Document,
    Inside,
    LineNode,
    unreadable,
)
from calsched.declare.paths import path_text
from calsched.declare.values_walk import TOO_DEEP, TOO_MANY, TooMuch, bad_text
from calsched.errors import Problem

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = re.compile(r"[-+]?[0-9]+\Z")
_BASED = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_NO_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
#: https://yaml.org/type/int.html and float.html: base 60 in YAML 1.1.
_SEXAGESIMAL = re.compile(r"[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+\Z|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*\Z")


def read_yaml(text: str, file: str) -> Document:
    """The document of a text. Never raises: what is wrong is in ``problems``."""
    build = _Build(file)
    try:
        for event in _events(text):
            build.take(event)
    except (TooMuch, yaml.YAMLError, ValueError, RecursionError) as error:
        return unreadable(file, *build.problems, _as_problem(error, text, file, build))
    return build.document()


def _events(text: str) -> Iterator[Any]:
    loader = _Loader(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


def _as_problem(error: Exception, text: str, file: str, build: _Build) -> Problem:
    if isinstance(error, TooMuch):
        return Problem(str(error), build.here(), file, build.line)
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        return Problem(f"not YAML: {_said(error)}", "", file, mark.line + 1 if mark else None, _tab_hint(error, text))
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1 if isinstance(error.position, int) else None
        return Problem(f"not YAML: a character that YAML does not allow ({error.reason})", "", file, line)
    return Problem(f"not YAML: {str(error)[:200] or type(error).__name__}", "", file, build.line)


def _said(error: yaml.MarkedYAMLError) -> str:
    said = " ".join(part for part in (error.context, error.problem) if part)
    return said.replace("\n", " ")[:200]


def _tab_hint(error: yaml.MarkedYAMLError, text: str) -> str:
    """The C parser does not name the character, so that the place is looked at."""
    mark = error.problem_mark
    lines = text.split("\n")
    at_tab = mark is not None and mark.line < len(lines) and lines[mark.line][mark.column : mark.column + 1] == "\t"
    return "indent with spaces; YAML allows no tabs there" if at_tab else ""


class _Frame:
    """A container that is being filled. ``at`` is the key or position in progress; None: a key comes next."""

    __slots__ = ("at", "key_lines", "lines", "value")

    def __init__(self, value: dict[str, Any] | list[Any], lines: Inside) -> None:
        self.value = value
        self.lines = lines
        self.at: str | int | None = 0 if isinstance(value, list) else None
        self.key_lines: dict[str, int] = {}

    def put(self, value: Any, node: LineNode) -> None:
        at, container = self.at, self.value
        if isinstance(container, list):
            container.append(value)
        elif isinstance(at, str) and at not in container:  # the first of duplicates stands
            container[at] = value
            line = self.key_lines[at]
            node = line if isinstance(node, int) else (line, node[1])
        else:
            return
        assert at is not None
        self.lines[at] = node

    def go_on(self) -> None:
        self.at = self.at + 1 if isinstance(self.at, int) else None


class _Build:
    def __init__(self, file: str) -> None:
        self.file = file
        self.line = 1
        self.problems: list[Problem] = []
        self.readable = True
        self.count = 0
        self.documents = 0
        self.root: Any = None
        self.index: LineNode | None = None
        self.frames: list[_Frame] = []

    def document(self) -> Document:
        index = self.index
        plain = self.root if self.readable else None
        return Document(plain, self.file, tuple(self.problems), self.readable, lines=lambda: index)

    def here(self) -> str:
        return path_text(tuple(frame.at for frame in self.frames if frame.at is not None))

    def report(self, message: str, hint: str = "", *, fatal: bool = False) -> None:
        self.problems.append(Problem(message, self.here(), self.file, self.line, hint))
        self.readable = self.readable and not fatal
        if len(self.problems) >= MAX_PROBLEMS:
            raise TooMuch(f"{MAX_PROBLEMS:,} problems; the rest of the file was not read")

    def take(self, event: Any) -> None:
        self.line = event.start_mark.line + 1
        kind = type(event)
        if kind is yaml.ScalarEvent:
            self._scalar(event)
        elif kind is yaml.MappingStartEvent:
            self._open(event, {})
        elif kind is yaml.SequenceStartEvent:
            self._open(event, [])
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self.frames.pop()
            self._go_on()
        elif kind is yaml.AliasEvent:
            self._alias(event)
        elif kind is yaml.DocumentStartEvent:
            self.documents += 1
            if self.documents > 1:
                raise TooMuch("a second document in one file; write one document a file")

    def _alias(self, event: Any) -> None:
        if self._awaits_key():
            raise TooMuch("expected a key that is text, got an alias")
        self.report(f"an alias (*{event.anchor[:40]}) is not read", _WRITE_OUT, fatal=True)
        self._put(None)
        self._go_on()

    def _open(self, event: Any, value: dict[str, Any] | list[Any]) -> None:
        if self._awaits_key():
            raise TooMuch("expected a key that is text, got a mapping or a list")
        self._no_tag(event)
        lines: Inside = {}
        self._put(value, lines)
        self.frames.append(_Frame(value, lines))
        if len(self.frames) > MAX_DEPTH:
            raise TooMuch(TOO_DEEP)

    def _scalar(self, event: Any) -> None:
        plain = event.implicit[0]
        if self._awaits_key():
            self._key(event.value, plain)
            self._no_tag(event)
            return
        if event.tag is not None:
            self._no_tag(event)
        self._put(self._value(event.value, plain))
        self._go_on()

    def _no_tag(self, event: Any) -> None:
        if event.tag is not None:
            self.report(f"a tag ({event.tag[:60]}) is not read", "write the plain value", fatal=True)

    def _awaits_key(self) -> bool:
        return bool(self.frames) and self.frames[-1].at is None

    def _key(self, text: str, plain: bool) -> None:
        self._count()
        frame = self.frames[-1]
        frame.at = text
        if why := bad_text(text):
            self.report(f"a key is {why}", fatal=True)
        elif plain and text == "<<":
            self.report("a merge key (<<) is not read", _WRITE_OUT, fatal=True)
        elif plain and (text in _WORDS or (text[0] in _NUMERIC and not isinstance(_number(text), str))):
            self.report(f"expected a key that is text, got {text[:40] or 'nothing'}", "quote it", fatal=True)
        elif text in frame.key_lines:
            self.report(f"this key is already there, at line {frame.key_lines[text]}", "remove one of them")
        frame.key_lines.setdefault(text, self.line)

    def _value(self, text: str, plain: bool) -> Any:
        if not plain:
            if why := bad_text(text):
                self.report(why, fatal=True)
            return text
        if text in _WORDS:
            return _WORDS[text]
        return self._plain_number(text) if text[0] in _NUMERIC else text

    def _plain_number(self, text: str) -> Any:
        if _SEXAGESIMAL.match(text):
            message = f"{text[:40]} without quotes is {_base_60(text)} to many YAML readers"
            self.report(message, f'quote it: "{text[:40]}"')
            return text
        number = _number(text)
        if number is None:
            why = f"a number of {len(text):,} digits" if len(text) > MAX_DIGITS else f"{text[:40]}, which is not finite"
            self.report(f"expected a number that fits, got {why}", fatal=True)
        return number

    def _put(self, value: Any, lines: Inside | None = None) -> None:
        self._count()
        node: LineNode = self.line if lines is None else (self.line, lines)
        if self.frames:
            self.frames[-1].put(value, node)
        else:
            self.root, self.index = value, node

    def _count(self) -> None:
        self.count += 1
        if self.count > MAX_NODES:
            raise TooMuch(TOO_MANY)

    def _go_on(self) -> None:
        if self.frames:
            self.frames[-1].go_on()


_NUMERIC = frozenset("+-.0123456789")
_WRITE_OUT = "write the values out, or state them once under `defaults`"


def _number(text: str) -> Any:
    """An int or float; the text itself where it is none; None for a number that cannot be used."""
    if len(text) <= 18 and text.isdecimal() and text.isascii():
        return int(text)
    if _INT.match(text):
        return int(text) if len(text) <= MAX_DIGITS else None
    if _FLOAT.match(text):
        value = float(text)
        return value if isfinite(value) else None
    if _BASED.match(text):
        return int(text, 0) if len(text) <= MAX_DIGITS else None
    return None if _NO_NUMBER.match(text) else text


def _base_60(text: str) -> str:
    """What a YAML 1.1 reader makes of ``9:30``: the number 570."""
    if "." in text or len(text) > 12:
        return "a number in base 60"
    total = 0
    for part in text.lstrip("+-").replace("_", "").split(":"):
        total = total * 60 + int(part)
    return f"the number {total}"
