"""docs/time.md is what its script writes, and calsched is right in every row."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "make_time_table.py"))


def test_calsched_gives_the_answer_from_outside_in_every_row(script: dict[str, Any]) -> None:
    cases = script["cases"]()
    assert len(cases) >= 20
    for case in cases:
        assert script["shown"](script["by_calsched"](case)) == list(case.expected), case.vector


def test_the_page_is_what_the_script_writes(script: dict[str, Any]) -> None:
    page = (DOCS / "time.md").read_text(encoding="utf-8")
    assert page.startswith(script["BEFORE"])
    if script["versions"]() in page:  # other versions of the others may answer otherwise
        assert page == script["page"]()
