from __future__ import annotations

import re
from pathlib import Path

import pytest

from calsched.words import counted

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("number", "told"), [(0, "0 slots"), (1, "1 slot"), (2, "2 slots"), (1200, "1,200 slots")])
def test_a_number_stands_with_the_singular_or_the_plural(number: int, told: str) -> None:
    assert counted(number, "slot") == told


def test_a_plural_that_takes_more_than_an_s_is_given() -> None:
    assert counted(2, "entry", few="entries") == "2 entries"


def test_nothing_that_is_printed_leaves_the_plural_to_the_reader() -> None:
    sources = [path for top in ("calsched", "stores", "policies") for path in (ROOT / top).glob("**/*.py")]
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sources
        for line in path.read_text().splitlines()
        if re.search(r"\{[^{}]+\} [a-z ]+\((?:s|es)\)|%d [a-z ]+\(s\)", line)
    ]
    assert found == []
