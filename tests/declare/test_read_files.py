"""Bytes to plain values: what each format means, and where everything stands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from calsched.declare.document import Format
from calsched.declare.read import read, read_all

YAML = """\
timezone: Europe/Berlin
schedules:
  - id: first
    trigger:
      kind: calendar
      weekdays: [mon,
                 tue]
  - {id: second}
"""
JSON = """\
{
  "timezone": "Europe/Berlin",
  "schedules": [
    {"id": "first",
     "trigger": {
       "kind": "calendar", "weekdays": ["mon",
         "tue"]}},
    {"id": "second"}
  ]
}
"""
TOML = """\
timezone = "Europe/Berlin"
[[schedules]]
id = "first"
[schedules.trigger]
kind = "calendar"
weekdays = ["mon", "tue"]

[[schedules]]
id = "second"
"""


@pytest.mark.parametrize(("format", "text"), [("yaml", YAML), ("json", JSON), ("toml", TOML)])
def test_the_three_formats_say_the_same(format: Format, text: str) -> None:
    document = read(text.encode(), format)
    assert document.problems == ()
    assert document.plain == {
        "timezone": "Europe/Berlin",
        "schedules": [
            {"id": "first", "trigger": {"kind": "calendar", "weekdays": ["mon", "tue"]}},
            {"id": "second"},
        ],
    }


@pytest.mark.parametrize(
    ("format", "text", "lines"),
    [("yaml", YAML, (1, 3, 5, 7, 8)), ("json", JSON, (2, 4, 6, 7, 8)), ("toml", TOML, (1, 3, 5, 6, 9))],
)
def test_every_value_has_its_line(format: Format, text: str, lines: tuple[int, ...]) -> None:
    document = read(text.encode(), format)
    paths = (
        "timezone",
        "schedules[0].id",
        "schedules[0].trigger.kind",
        "schedules[0].trigger.weekdays[1]",
        "schedules[1].id",
    )
    assert tuple(document.line(path) for path in paths) == lines


def test_a_path_that_is_not_there_gets_the_line_of_what_is_around_it() -> None:
    document = read(YAML.encode(), "yaml")
    assert document.line("schedules[0].trigger.hour") == 4
    assert document.line("schedules[1].trigger.kind") == 8


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("yes", "yes"),
        ("NO", "NO"),
        ("on", "on"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-3", -3),
        ("010", 10),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("09:30", "09:30"),
        ('"9:30"', "9:30"),
        ("2026-02-30", "2026-02-30"),
        ("2026-03-08 02:30:00", "2026-03-08 02:30:00"),
        ("2026-03-08T02:30:00Z", "2026-03-08T02:30:00Z"),
        ("'12'", "12"),
        ("1.2.3", "1.2.3"),
        ("-", None),
        ("mon-fri", "mon-fri"),
        ("'*/5 * * * *'", "*/5 * * * *"),
    ],
)
def test_a_plain_yaml_value_means_what_it_looks_like(written: str, meant: object) -> None:
    if written == "-":
        meant = [None]
    document = read(f"a:\n  {written}\n".encode(), "yaml")
    assert document.problems == ()
    assert document.plain == {"a": meant}
    assert type(document.plain["a"]) is type(meant)


def test_dates_and_times_of_toml_become_their_text() -> None:
    text = "day = 2026-03-01\ntime = 09:30:00\nutc = 2026-03-01T00:00:00Z\nlocal = 2026-03-01 09:30:00\n"
    assert read(text.encode(), "toml").plain == {
        "day": "2026-03-01",
        "time": "09:30:00",
        "utc": "2026-03-01T00:00:00+00:00",
        "local": "2026-03-01T09:30:00",
    }


def test_tables_inside_arrays_of_tables_keep_their_lines() -> None:
    text = "[[s]]\nid = 1\n[[s.w]]\na = 1\n[[s.w]]\na = 2\n[[s]]\nid = 2\n[[s.w]]\na = 3\n"
    document = read(text.encode(), "toml")
    assert [document.line(path) for path in ("s[0].w[1].a", "s[1].id", "s[1].w[0].a")] == [6, 8, 10]


def test_the_suffix_says_the_format_and_another_may_be_named(tmp_path: Path) -> None:
    named = tmp_path / "a.yml"
    named.write_text("a: 1")
    odd = tmp_path / "a.txt"
    odd.write_text('{"a": 1}')
    assert read(named).plain == {"a": 1}
    assert read(odd, "json").plain == {"a": 1}
    assert "--input-format" in str(read(odd).problems[0])


def test_standard_input_without_a_format_is_json_or_yaml_by_its_first_character() -> None:
    assert read(b'  {"a": "\\u00e9"}').plain == {"a": "é"}
    assert read(b"a: 1").plain == {"a": 1}


def test_a_directory_gives_its_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.json", "c.toml", "d.yml", "calsched.toml", "pyproject.toml", ".hidden.yaml", "jobs.py"):
        (tmp_path / name).write_text("{}" if name.endswith("json") else "")
    (tmp_path / "sub.yaml").mkdir()
    assert [Path(document.file).name for document in read_all([tmp_path])] == ["a.json", "b.yaml", "c.toml", "d.yml"]


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1")
    assert len(read_all([tmp_path, tmp_path / "a.yaml", tmp_path / "." / "a.yaml"])) == 1


def test_one_unreadable_file_does_not_keep_the_others_from_being_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [1,")
    (tmp_path / "b.yaml").write_text("b: 1")
    first, second = read_all([tmp_path])
    assert not first.readable and first.problems
    assert second.plain == {"b": 1}


def test_a_missing_file_an_empty_directory_and_a_pipe_are_each_one_problem(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    empty = tmp_path / "empty"
    empty.mkdir()
    missing, nothing, pipe = read_all([tmp_path / "no.yaml", empty, tmp_path / "pipe.yaml"])
    assert str(missing.problems[0]) == f"{tmp_path / 'no.yaml'}: cannot be read: no such file or directory"
    assert "no declaration files" in str(nothing.problems[0])
    assert "not an ordinary file" in str(pipe.problems[0])


@pytest.mark.parametrize(("format", "text"), [("yaml", "a: 1\na: 2"), ("json", '{"a": 1, "a": 2}')])
def test_of_duplicate_keys_the_first_is_judged_further(format: Format, text: str) -> None:
    document = read(text.encode(), format)
    assert document.plain == {"a": 1} and len(document.problems) == 1


@pytest.mark.parametrize("format", ["yaml", "json"])
def test_depth_counts_what_is_open_not_what_was(format: Format) -> None:
    assert read(b"[" + b"[[1], {}]," * 100 + b"[]]", format).problems == ()
    assert read(b"[" * 50 + b"]" * 50, format).problems == ()
    assert read(b"[" * 51 + b"]" * 51, format).problems != ()


def test_a_byte_order_mark_is_not_part_of_the_text() -> None:
    assert read(b"\xef\xbb\xbfa: 1", "yaml").plain == {"a": 1}
