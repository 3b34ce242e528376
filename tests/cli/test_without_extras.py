"""Commands where the extra that they need is not installed: one line that names the extra, never an internal error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: What the extras bring, as a base install does not have it.
BROUGHT = ("psycopg", "pymysql", "holidays", "icalendar", "cryptography", "mcp", "anyio", "watchfiles")
WHOLE = """
calendars: {c: {%s}}
schedules: {a: {trigger: {kind: calendar, at: "09:00", timezone: UTC, calendar: c}, task: "jobs:run"}}
"""


def bare(folder: Path, *args: str, input: str = "") -> subprocess.CompletedProcess[str]:
    """The command in an interpreter that has none of the extras."""
    code = f"import sys; sys.modules.update(dict.fromkeys({BROUGHT!r})); from calsched.cli.main import run; run()"
    command = [sys.executable, "-c", code, *args]
    return subprocess.run(command, cwd=folder, input=input, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("args", "extra"),
    [
        (("agent",), "agent"),
        (("keygen", "k"), "signing"),
        (("--store", "postgresql://127.0.0.1/none", "list"), "postgres"),
        (("--store", "mysql://127.0.0.1/none", "list"), "mysql"),
        (("check", "holidays.yaml"), "holidays"),
        (("check", "ics.yaml"), "ics"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_command_without_its_extra_names_it(tmp_path: Path, args: tuple[str, ...], extra: str) -> None:
    (tmp_path / "holidays.yaml").write_text(WHOLE % "holidays: {country: CA}")
    (tmp_path / "ics.yaml").write_text(WHOLE % "ics: c.ics")
    (tmp_path / "c.ics").write_text("BEGIN:VCALENDAR\nEND:VCALENDAR\n")
    done = bare(tmp_path, *args)
    assert done.returncode in (1, 2)
    assert "internal error" not in done.stderr and "Traceback" not in done.stderr
    assert f"`{extra}`" in done.stderr or f"[{extra}]" in done.stderr
    assert "install" in done.stderr


def test_an_agent_over_json_lines_needs_no_extra(tmp_path: Path) -> None:
    done = bare(tmp_path, "agent", "--json-lines", input='{"id": 1, "method": "none"}\n')
    assert (done.returncode, done.stderr) == (0, "")
    assert '"id": 1' in done.stdout or '"id":1' in done.stdout
