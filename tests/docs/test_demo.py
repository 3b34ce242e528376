"""`make demo` shows what the README promises: runs, a failure that was retried, an outage accounted for."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "docs" / "examples" / "demo.py"


def test_the_demo_shows_runs_a_retried_failure_and_a_missed_range(tmp_path: Path) -> None:
    command = [sys.executable, str(DEMO), str(tmp_path / "demo")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=110)
    told = ran.stdout
    assert ran.returncode == 0, told + ran.stderr
    assert "Traceback" not in told + ran.stderr
    assert re.search(r"weekday-report.*succeeded", told, re.DOTALL)
    assert re.search(r"flaky-upload #\d+ .*failed after .*ConnectionError", told)
    assert re.search(r"succeeded .* 2 attempts", told)
    assert re.search(r"skipped \(misfire\) +\d+ slots", told)
    assert "exactly one verdict" in told
    assert "no owner lives" in told.split("$ calsched show")[0]
    assert list((tmp_path / "demo").glob("report-*.txt"))
