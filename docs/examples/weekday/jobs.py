"""Small jobs that really do something: they write into ``CALSCHED_DEMO_DIR``, or into the working directory."""

from __future__ import annotations

import csv
import os
import shutil
from pathlib import Path

import calsched


def _here() -> Path:
    return Path(os.environ.get("CALSCHED_DEMO_DIR", "."))


def _run() -> calsched.RunningOccurrence:
    run = calsched.current_occurrence()
    if run is None:
        raise RuntimeError("these jobs ask for which due time they run; let calsched run them")
    return run


def write_report(name: str = "report") -> str:
    """A report over the figures so far, in a file of its own for each due time: a second run writes the same file."""
    run = _run()
    day = f"{run.due:%Y-%m-%d-%H%M%S}"
    with (_here() / f"{name}-{day}.txt").open("w") as out:
        out.write(f"Report for {run.due:%A %d %B %Y, %H:%M:%S} UTC\n")
        out.write(f"lines of figures: {len(_figures('figures.csv'))}\n")
    return out.name


def add_figures(file: str) -> int:
    """One line of figures for each due time that this run stands for."""
    run = _run()
    with (_here() / file).open("a", newline="") as out:
        csv.writer(out).writerow([run.due.isoformat(), run.represents_first, run.represents_last])
    return len(_figures(file))


def upload_report() -> str:
    """Copies a report into ``uploaded/``. The network is down whenever an occurrence is tried for the first time."""
    run = _run()
    report = Path(write_report())
    if run.attempt == 1:
        raise ConnectionError("the network is down")
    target = _here() / "uploaded"
    target.mkdir(exist_ok=True)
    return str(shutil.move(report, target / report.name))


def beat() -> None:
    (_here() / "heartbeat").touch()


def _figures(file: str) -> list[str]:
    path = _here() / file
    return path.read_text().splitlines() if path.exists() else []
