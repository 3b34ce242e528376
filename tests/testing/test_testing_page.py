"""The examples of docs/testing.md are tests, and pass with pytest and the plugin as a user has them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
#: Enough for a run of pytest that knows nothing of this repository's own settings.
INI = "[pytest]\naddopts = --strict-markers\nfilterwarnings = error\n"


def run_pytest(folder: Path, *args: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    return ran.stdout + ran.stderr


def test_every_example_of_the_page_passes(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "test_examples.py").write_text("\n".join(EXAMPLES))
    tests = len(re.findall(r"^def test_", "\n".join(EXAMPLES), re.MULTILINE))
    assert tests >= 7
    assert f"{tests} passed" in run_pytest(tmp_path)


def test_the_message_on_the_page_is_the_one_that_its_example_gives(tmp_path: Path) -> None:
    message = next(text for text in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL) if "AssertionError" in text)
    wrong = re.sub(r'"succeeded"\)  # one run.*', '"skipped")', "\n".join(EXAMPLES))
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "test_examples.py").write_text(wrong)
    said = run_pytest(tmp_path, "-k", "long_weekend")
    told = [line.removeprefix("E").strip() for line in said.splitlines() if line.startswith("E ")]
    assert told == [line.strip() for line in message.splitlines()]
