from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calsched.words import counted, spell

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("number", "told"), [(0, "0 slots"), (1, "1 slot"), (2, "2 slots"), (1200, "1,200 slots")])
def test_a_number_stands_with_the_singular_or_the_plural(number: int, told: str) -> None:
    assert counted(number, "slot") == told


def test_a_plural_that_takes_more_than_an_s_is_given() -> None:
    assert counted(2, "entry", few="entries") == "2 entries"


@pytest.mark.parametrize(
    ("millis", "text"),
    [(0, "0 ms"), (999, "999 ms"), (1_000, "1 s"), (3_240, "3.24 s"), (59_949, "59.9 s"), (59_960, "1 min"),
     (245_000, "4 min 5 s"), (11_520_000, "3 h 12 min"), (187_200_000, "2 d 4 h"), (86_400_000, "1 d")],
)  # fmt: skip
def test_durations_are_told_in_two_units(millis: int, text: str) -> None:
    assert spell(millis) == text


@given(st.integers(0, 10**13))
def test_any_duration_can_be_told(millis: int) -> None:
    assert spell(millis)


def test_nothing_that_is_printed_leaves_the_plural_to_the_reader() -> None:
    sources = [path for top in ("calsched", "stores", "policies") for path in (ROOT / top).glob("**/*.py")]
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sources
        for line in path.read_text().splitlines()
        if re.search(r"\{[^{}]+\} [a-z ]+\((?:s|es)\)|%d [a-z ]+\(s\)", line)
    ]
    assert found == []
