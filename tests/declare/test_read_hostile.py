"""Files that break naive readers: each is refused within bounds, with its line, and never with a traceback."""

from __future__ import annotations

import time

import pytest

from calsched.declare.document import MAX_BYTES, MAX_PROBLEMS, Format
from calsched.declare.read import read
from tests.declare._helpers import problems


def _said(text: str | bytes, format: Format) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    document = read(data, format, file="f")
    assert document.problems, "it was accepted"
    return str(document.problems[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3", "f:3: a: this key is already there, at line 1 (remove one of them)"),
        ("a:\n  at: 9:30", 'f:2: a.at: 9:30 without quotes is the number 570 to many YAML readers (quote it: "9:30")'),
        ("a: [1, 10:30:15]", "a[1]: 10:30:15 without quotes is the number 37815"),
        ("x: &x [1]\ny: *x", "f:2: y: an alias (*x) is not read (write the values out, or state them once"),
        ("a: &x\n  b: *x", "f:2: a.b: an alias (*x) is not read"),
        ("d: &d {t: 1}\ns:\n  <<: *d", 'f:3: s["<<"]: a merge key (<<) is not read'),
        ("a: !!python/object/apply:os.system [ls]", "f:1: a: a tag (tag:yaml.org,2002:python/object/apply:os.system)"),
        ("a: !!int 3", "is not read (write the plain value)"),
        ("a: 1\n---\nb: 2", "f:2: a second document in one file"),
        ("? [1]\n: 2", "f:1: expected a key that is text, got a mapping or a list"),
        ("a: {1: x}", 'f:1: a["1"]: expected a key that is text, got 1 (quote it)'),
        ("a: {true: x}", "expected a key that is text, got true (quote it)"),
        ("a:\n- 1\n- " + "9" * 5000, "f:3: a[1]: expected a number that fits, got a number of 5,000 digits"),
        ("a: 1e999", "got 1e999, which is not finite"),
        ("a: .inf", "got .inf, which is not finite"),
        ("a: .NaN", "got .NaN, which is not finite"),
        ('a: "x\\0y"', "f:1: a: text with a NUL character"),
        ('a: "\\ud800"', "f:1: not YAML: "),
        ("a: \x07", "f:1: not YAML: a character that YAML does not allow"),
        ("a: 1\n\t- b", "f:2: not YAML: "),
        ("a: [1,\nb", "not YAML: "),
        ("a: 'x", "not YAML: "),
        ("%YAML 3.0\n---\na: 1", "f:1: not YAML: "),
        ("- " * 4000, "nested more than 50 levels deep"),
    ],
)
def test_yaml_that_is_refused(text: str, expected: str) -> None:
    assert expected in _said(text, "yaml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1,\n "b": [{"x": 1,\n "x": 2}]}', "f:3: b[0].x: this key is already there, at line 2"),
        ('{"overlap": "skip", "overlap": "skip"}', "overlap: this key is already there, at line 1"),
        ('{"a":\n NaN}', "f:2: a: expected a value that can be stored, got NaN, which is no JSON"),
        ("[1, -Infinity]", "[1]: expected a value that can be stored, got -Infinity"),
        ("[1e400]", "[0]: expected a value that can be stored, got 1e400, which is not finite"),
        ("[1,\n" + "9" * 5000 + "]", "f:2: [1]: expected a value that can be stored, got a number of 5,000 digits"),
        ('["\\ud800"]', "[0]: expected a value that can be stored, got text with half a surrogate pair"),
        ('["\\u0000"]', "[0]: expected a value that can be stored, got text with a NUL character"),
        ('{"a\\u0000": 1}', "a key is text with a NUL character"),
        ('{"a": 1,}', "f:1: not JSON: "),
        ("", "f:1: not JSON: expecting value, at column 1"),
        ("{} {}", "f:1: not JSON: extra data, at column 4"),
        ('{"a": "x\ny"}', "not JSON: "),
    ],
)
def test_json_that_is_refused(text: str, expected: str) -> None:
    assert expected in _said(text, "json")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1\na = 2", "f:2: not TOML: cannot overwrite a value"),
        ("a = 2026-02-30", "f:1: not TOML: invalid date or datetime"),
        ("b = 1\na = nan", "f:2: a: expected a value that can be stored, got not a finite number"),
        ("b = 1\na = " + "9" * 5000, "f:2: expected a value that can be stored, got a number of 5,000 digits"),
        ("a = ", "f:1: not TOML: invalid value"),
    ],
)
def test_toml_that_is_refused(text: str, expected: str) -> None:
    assert expected in _said(text, "toml")


HOSTILE: dict[str, tuple[Format, str]] = {
    "a million values in YAML": ("yaml", "a: [" + "1," * 1_000_000 + "]"),
    "three hundred thousand keys in YAML": ("yaml", "\n".join(f"k{i}: 1" for i in range(300_000))),
    "aliases that multiply": (
        "yaml",
        "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9)),
    ),
    "deep YAML in brackets": ("yaml", "a: " + "[" * 100_000),
    "deep YAML in braces": ("yaml", "{" * 100_000),
    "deep YAML by indentation": ("yaml", "\n".join(" " * i + "a:" for i in range(2_000))),
    "deep JSON": ("json", "[" * 1_000_000),
    "deep JSON that is closed": ("json", "[" * 100_000 + "]" * 100_000),
    "a million values in JSON": ("json", "[" + "1," * 1_000_000 + "1]"),
    "four million quotes": ("json", '"' * (MAX_BYTES - 1)),
    "a string of escapes that never ends": ("json", '["' + '\\"' * 1_500_000),
    "a hundred thousand duplicate keys": ("json", "{" + ",".join(['"k":0'] * 100_000) + "}"),
    "a dotted key without end": ("toml", ".".join("a" * 100_000) + " = 1"),
    "a dotted key inside a table": ("toml", "a = {" + ".".join(["'a'"] * 50_000) + " = 1}"),
    "deep TOML": ("toml", "a = " + "[" * 100_000),
    "deep inline tables": ("toml", "a = " + "{a = " * 50_000),
    "half a million values in TOML": ("toml", "a = [" + "1," * 500_000 + "]"),
    "quotes in TOML": ("toml", 'a = "' + '\\"' * 500_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_soon(name: str) -> None:
    format, text = HOSTILE[name]
    before = time.process_time()
    document = read(text.encode(), format)
    assert time.process_time() - before < 3  # a second on an idle machine; nothing here grows with the square
    assert not document.readable or document.problems
    assert 1 <= len(document.problems) <= MAX_PROBLEMS + 1


def test_a_file_of_more_than_four_megabytes_is_not_parsed() -> None:
    assert _said(b"a" * (MAX_BYTES + 1), "yaml") == "f: larger than 4 MiB"
    assert _said(b"#" * (1024 * 1024 + 1), "toml") == "f: larger than 1 MiB"


@pytest.mark.parametrize("format", ["yaml", "json", "toml"])
def test_what_is_not_text_is_refused(format: Format) -> None:
    assert _said(b"a\n\x00", format) == "f:2: not text: it has a NUL byte"
    assert _said(b"a\n\xff\xfe", format) == "f:2: not UTF-8 text (save it as UTF-8)"


def test_an_escape_sequence_in_a_key_is_shown_escaped() -> None:
    (line,) = problems('"\\e[2Jbad": 1\nid: a\ntask: jobs:run\nevery: 1h')
    assert "\x1b" not in line and '["\\x1b[2Jbad"]: unknown key' in line


def test_a_file_that_was_refused_is_not_judged_further() -> None:
    assert problems("x: &x 1\nschedules: *x\nnonsense: 1") == [
        "file.yaml:2: schedules: an alias (*x) is not read (write the values out, or state them once under `defaults`)"
    ]
