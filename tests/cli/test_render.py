from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calsched.cli.render import Output, json_text, printable

DANGEROUS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode 日本", "plain ünïcode 日本"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\x9b31m", "\\x9b31m"),
        ("abc\u202edef", "abc\\u202edef"),
        ("[bold red]no markup[/]", "[bold red]no markup[/]"),
        ("\udce4", "\\udce4"),
    ],
)
def test_a_terminal_obeys_nothing_that_is_shown(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_no_text_leaves_a_control_character(text: str) -> None:
    assert not DANGEROUS.search(printable(text))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_says_the_same_text_without_a_control_character(text: str) -> None:
    shown = json_text({"id": text})
    assert json.loads(shown) == {"id": text}
    assert not DANGEROUS.search(shown)


def test_a_table_in_a_pipe_is_not_broken_and_has_no_colour(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table(["ID", "NOTE"], [["[red]a[/red]", "x" * 300], ["b\x1b[2J", ":smile:"]])
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["ID            NOTE", f"[red]a[/red]  {'x' * 300}", "b\\x1b[2J      :smile:"]


def test_fields_are_aligned_and_absent_ones_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    Output().fields({"state": "paused", "note": None, "next due": "never"})
    assert capsys.readouterr().out == "state     paused\nnext due  never\n"


def test_problems_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    Output().error("[b]\x1b")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "[b]\\x1b\n")
