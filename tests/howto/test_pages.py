"""The how-to pages show the files that the tests run, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from calsched.adopt.crontab import adopt_crontab
from calsched.adopt.yaml_text import to_yaml

HOWTO = Path(__file__).resolve().parents[2] / "docs" / "howto"
SHOWN = re.compile(r"<!-- file: (?P<file>\S+) -->\n```\w*\n(?P<text>.*?)```\n", re.DOTALL)
PAGES = sorted(HOWTO.glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_shows_is_the_file(page: Path) -> None:
    found = list(SHOWN.finditer(page.read_text(encoding="utf-8")))
    assert found
    for shown in found:
        assert shown["text"] == (HOWTO / shown["file"]).read_text(encoding="utf-8"), shown["file"]


def test_every_page_of_the_issue_is_there() -> None:
    assert {"flask.md", "fastapi.md", "django.md", "crontab.md", "ready.md"} <= {page.name for page in PAGES}


def test_the_adopted_crontab_is_what_adopt_writes() -> None:
    place = HOWTO / "examples" / "crontab"
    adoption = adopt_crontab((place / "crontab").read_text(), callable="crontab_jobs:shell")
    assert to_yaml(adoption, title="Adopted from crontab.") == (place / "schedules.yaml").read_text()
