"""docs/operations.md, typed as it is printed, on the schedules of the quick start."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "operations.md").read_text()
QUICKSTART = (DOCS / "quickstart.md").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("operations")
    declared = re.findall(r"```yaml\n(.*?)```", QUICKSTART, re.DOTALL)
    (made / "schedules.yaml").write_text(next(text for text in declared if "weekday-report" in text))
    types(made, "calsched create schedules.yaml")
    return made


def types(folder: Path, line: str) -> str:
    words = shlex.split(line, comments=True)
    assert words[0] == "calsched"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CALSCHED_")}
    ran = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


@pytest.mark.parametrize("section", re.findall(r"\n## (.*)\n", PAGE))
def test_the_commands_of_each_section_do_what_they_are_printed_for(folder: Path, section: str) -> None:
    text = PAGE.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    for line in "".join(re.findall(r"```console\n(.*?)```", text, re.DOTALL)).splitlines():
        types(folder, line)


def test_the_lines_of_the_log_are_those_that_the_code_writes() -> None:
    runtime = Path(__file__).parents[2] / "calsched" / "runtime"
    code = "".join(file.read_text() for file in runtime.glob("*.py"))
    for said in ("paused: too many failures in a row", "interrupted: whoever ran it is gone", "nothing is dispatched: ",
                 "the hold on dispatch has ended", "due times", "it answers again after", "left behind"):  # fmt: skip
        assert said in code
        assert said.removeprefix("it ").strip() in PAGE
