"""docs/cli.md is written from the commands that there are."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_cli_page_tells_the_commands_and_settings_that_there_are() -> None:
    page = runpy.run_path(str(DOCS / "make_cli.py"))["page"]
    assert (DOCS / "cli.md").read_text() == page(), "run `python docs/make_cli.py`"
