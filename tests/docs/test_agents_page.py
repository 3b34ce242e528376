"""docs/agents.md: its table is that of the methods, and its requests are answered as printed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from calsched.agent.methods import METHODS

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()


def block(kind: str) -> str:
    (one,) = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    return str(one)


def test_the_table_names_every_method_with_its_arguments() -> None:
    rows = [f"| `{m.name}` | {m.description.rstrip('.')} | {_arguments(m.schema())} |" for m in METHODS.values()]
    printed = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert printed == [row.replace("|  |", "| |") for row in rows]


def _arguments(schema: dict[str, object]) -> str:
    known = schema["properties"]
    assert isinstance(known, dict)
    return ", ".join(f"`{name}`" for name in known)


def test_the_requests_are_answered_as_printed(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("def send_digest(): ...\n")
    answered = subprocess.run(
        [sys.executable, "-m", "calsched", "agent", "--json-lines", "--allow", "jobs:*"],
        input=block("json requests"), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    made, listed, refused = (json.loads(line) for line in answered.stdout.splitlines())
    assert made["result"]["schedule"]["definition"]["maxOccurrences"] == 100
    assert [one["id"] for one in listed["result"]["schedules"]] == ["digest"]
    assert refused == json.loads(block("json refusal"))
