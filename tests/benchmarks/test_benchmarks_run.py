"""The benchmarks run, and say what they are to say. Nothing is timed here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def run(tmp_path: Path, only: str) -> str:
    """The page that a quick run writes; without PostgreSQL, which has its own tests."""
    page = tmp_path / "page.md"
    command = [sys.executable, str(HERE / "run.py"), "--quick", "--only", only, "--to", str(page)]
    elsewhere = {**os.environ, "CALSCHED_TEST_POSTGRES_URL": "postgresql+psycopg://nobody@127.0.0.1:1/none"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, env=elsewhere)
    assert done.returncode == 0, done.stderr
    return page.read_text()


def test_drain_counts_and_deploy(tmp_path: Path) -> None:
    page = run(tmp_path, "drain,counts,deploy")
    assert "calsched / `SQLAlchemyJobStore`, SQLite" in page
    # counted: they change only when the verbs do
    assert "started at once, SQLite | 5.00 rows, 0.14 statements, 0.02 transactions" in page
    assert "claimed, SQLite | 6.00 rows, 0.17 statements, 0.02 transactions" in page
    assert page.count("| none | yes |") == 2


def test_the_other_benchmarks(tmp_path: Path) -> None:
    page = run(tmp_path, "lateness,idle,triggers,planner,verbs")
    assert "two at most | yes |" in page
    assert page.count("\n## ") == 5
