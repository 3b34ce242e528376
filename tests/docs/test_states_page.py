"""docs/states.md is drawn from the table that the code obeys."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_drawn_state_machines_are_the_table_of_moves() -> None:
    page = runpy.run_path(str(DOCS / "make_states.py"))["page"]
    assert (DOCS / "states.md").read_text() == page()
