"""The jobs of docs/examples/weekday do what their schedules say."""

from __future__ import annotations

import importlib.util
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import calsched
from calsched.model import OccurrenceKey
from calsched.runtime.current import CancelFlag, RunningOccurrence

WEEKDAY = Path(__file__).parents[2] / "docs" / "examples" / "weekday"
DUE = datetime(2026, 10, 12, 14, tzinfo=UTC)


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("CALSCHED_DEMO_DIR", str(tmp_path))
    spec = importlib.util.spec_from_file_location("weekday_jobs", WEEKDAY / "jobs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _run_as(monkeypatch: pytest.MonkeyPatch, attempt: int) -> None:
    key = OccurrenceKey("i", "default", "weekday-report", 1, 3)
    run = RunningOccurrence(key, DUE, attempt, 2, 3, DUE, None, CancelFlag())
    monkeypatch.setattr(calsched, "current_occurrence", lambda: run)


def test_a_report_is_one_file_for_a_due_time_however_often_it_is_written(
    jobs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run_as(monkeypatch, 1)
    assert jobs.add_figures("figures.csv") == 1
    assert jobs.write_report() == jobs.write_report()
    (report,) = tmp_path.glob("report-*.txt")
    assert report.read_text() == "Report for Monday 12 October 2026, 14:00:00 UTC\nlines of figures: 1\n"


def test_an_upload_fails_once_and_then_succeeds(jobs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run_as(monkeypatch, 1)
    with pytest.raises(ConnectionError):
        jobs.upload_report()
    _run_as(monkeypatch, 2)
    assert Path(jobs.upload_report()).parent == tmp_path / "uploaded"
    assert list(tmp_path.glob("report-*.txt")) == []


def test_a_beat_touches_a_file(jobs: Any, tmp_path: Path) -> None:
    jobs.beat()
    assert (tmp_path / "heartbeat").exists()


def test_outside_of_an_occurrence_they_say_so(jobs: Any) -> None:
    with pytest.raises(RuntimeError, match="let calsched run them"):
        jobs.write_report()
