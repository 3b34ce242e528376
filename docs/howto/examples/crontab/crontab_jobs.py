"""The functions that the adopted crontab names, and one that runs any command as cron would."""

import os
import subprocess
from collections.abc import Mapping

from calsched import current_occurrence


def fetch_rates() -> str:
    return "rates"


def shell(command: str, stdin: str | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Run a command; what it prints is the result that the ledger keeps, and a bad end is a failure there."""
    occurrence = current_occurrence()
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        input=stdin,
        env={**os.environ, **(environment or {}), "OCCURRENCE": str(occurrence.key)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout[-10_000:]
