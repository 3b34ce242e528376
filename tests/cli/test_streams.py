"""Output that cannot be written: tasks that take the standard streams away, readers that leave, a full disk. None of it
ends an owner or a tick, or turns what a command has done into a failure."""

from __future__ import annotations

import logging
import os
import queue
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from apscheduler.schedulers.background import BackgroundScheduler

from calsched import App, OccurrenceJobStore, logs
from calsched.cli import streams
from calsched.cli.serve import _Lines

TASKS = {
    "closed": "sys.stdout.close(); sys.stderr.close()",
    "without_buffers": "sys.stdout.buffer.close(); sys.stderr.buffer.close()",
    "detached": "sys.stdout.detach(); sys.stderr.detach()",
    "without_descriptors": "os.close(1); os.close(2)",
    "none": "sys.stdout = sys.stderr = None",
    "no_streams": "sys.stdout = sys.stderr = object()",
}
JOBS = "import os, sys, pathlib\n\ndef take():\n    {}\n\ndef touch():\n    pathlib.Path('touched').touch()\n"
FILE = (
    "schedules:\n  a: {{trigger: {0}, backlog: fromStart, task: jobs:take}}\n  b: {{trigger: {1}, task: jobs:touch}}\n"
)
OVERDUE = "{kind: interval, days: 1, firstTick: '2026-01-01T00:00:00Z'}"
RAN: queue.SimpleQueue[None] = queue.SimpleQueue()
SERVE = [sys.executable, "-m", "calsched", "serve", "--allow", "jobs:*", "--poll-seconds", "0.1"]


@pytest.fixture(params=TASKS)
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    (tmp_path / "jobs.py").write_text(JOBS.format(TASKS[request.param]))
    (tmp_path / "s.yaml").write_text(FILE.format(OVERDUE, "{kind: interval, seconds: 1}"))
    return tmp_path


def create(folder: Path, text: str) -> None:
    """In the store that a command finds in this folder. How it came there is not what is tested here."""
    with App(f"sqlite:///{folder}/calsched.db") as app:
        app.create(text.encode(), format="yaml")


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CALSCHED_")}
    script = script.replace("calsched", f"{sys.executable} -m calsched")
    return subprocess.run(["bash", "-c", script], cwd=folder, env=clean, capture_output=True, text=True, timeout=60)


def test_a_tick_survives_a_task_that_takes_its_streams(folder: Path) -> None:
    create(folder, (folder / "s.yaml").read_text())
    done = run(folder, "calsched tick --allow 'jobs:*'")
    assert (done.returncode, done.stderr) == (0, "")
    assert "slot" in done.stdout or "os.close" in (folder / "jobs.py").read_text()
    with App(f"sqlite:///{folder}/calsched.db") as app:
        assert [entry.state for entry in app.history("a").entries if hasattr(entry, "state")] == ["succeeded"]


def test_an_owner_survives_a_task_that_takes_its_streams_and_goes_on_telling(folder: Path) -> None:
    with (folder / "log").open("w") as log:
        owner = subprocess.Popen([*SERVE, "s.yaml"], cwd=folder, stdout=subprocess.DEVNULL, stderr=log)
    try:
        _until(lambda: "a #" in (folder / "log").read_text() and "succeeded" in (folder / "log").read_text(), owner)
        (folder / "touched").unlink(missing_ok=True)
        _until((folder / "touched").exists, owner)
        owner.terminate()
        assert owner.wait(20) == 0
    finally:
        owner.kill()
        owner.wait()
    assert (folder / "log").read_text().endswith("stopped\n")


def _until(happened: Callable[[], bool], owner: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 40
    while not happened():
        assert owner.poll() is None, "the owner has ended"
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store that commands only look at."""
    made = tmp_path_factory.mktemp("looked-at")
    create(made, f"schedules: {{a: {{trigger: {OVERDUE}, task: jobs:run}}}}")
    return made


@pytest.mark.parametrize("command", ["list", "list --json", "--help", "--version", "history a"])
def test_a_reader_that_leaves_at_once_is_no_failure(looked_at: Path, command: str) -> None:
    done = run(looked_at, f"calsched {command} | true; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", ["list", "list --json", "history a", "--help", "--version"])
def test_a_full_disk_under_little_output_is_one_line(looked_at: Path, command: str) -> None:
    done = run(looked_at, f"calsched {command} > /dev/full")
    assert (done.returncode, done.stderr) == (1, "nothing more can be written: No space left on device\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("where", ["/dev/full", " >(true)", "&-"])
@pytest.mark.parametrize(("command", "code"), [("list --nonsense", 2), ("show x", 1), ("show x --json", 1), ("", 2)])
def test_an_error_that_cannot_be_told_still_has_its_exit_code(
    looked_at: Path, where: str, command: str, code: int
) -> None:
    assert run(looked_at, f"calsched {command} 2>{where}").returncode == code


def test_an_owner_whose_log_nobody_reads_stops_in_good_order(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(JOBS.format("pass"))
    (tmp_path / "s.yaml").write_text(FILE.format(OVERDUE, "{kind: interval, seconds: 1}"))
    reading, writing = os.pipe()
    owner = subprocess.Popen([*SERVE, "s.yaml"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=writing)
    os.close(writing)
    os.close(reading)
    try:
        _until((tmp_path / "touched").exists, owner)
        owner.terminate()
        assert owner.wait(20) == 0
    finally:
        owner.kill()
        owner.wait()


class _Raises(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise RuntimeError("a handler of somebody else")


@pytest.fixture
def broken_root() -> Iterator[None]:
    handler = _Raises()
    logging.getLogger().addHandler(handler)
    yield
    logging.getLogger().removeHandler(handler)


@pytest.mark.usefixtures("broken_root")
def test_a_handler_that_raises_does_not_reach_who_logs() -> None:
    log = logs.get("calsched.tests.broken")
    log.error("nobody hears it")
    logs.guard(log)
    log.error("guarded once only")
    assert not isinstance(log.handle._handle, type(log.handle))  # type: ignore[attr-defined]


def test_every_logger_of_ours_is_guarded() -> None:
    ours = [name for name in logging.Logger.manager.loggerDict if name.startswith("calsched.") and "tests" not in name]
    unguarded = [name for name in ours if type(logging.getLogger(name).handle).__name__ != "_Guarded"]
    assert unguarded == []


def test_an_app_goes_on_whatever_its_log_handlers_raise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    apscheduler = logging.getLogger("apscheduler")
    monkeypatch.setattr(apscheduler, "level", logging.INFO)
    scheduler = BackgroundScheduler(jobstores={"default": OccurrenceJobStore(f"sqlite:///{tmp_path}/a.db")})
    scheduler.start()
    try:
        request.getfixturevalue("broken_root")
        scheduler.add_listener(refuse)
        scheduler.add_job(fail, "interval", seconds=0.2, id="a")
        for _ in range(4):
            RAN.get(timeout=30)
    finally:
        scheduler.shutdown()


def fail() -> None:
    RAN.put(None)
    raise ValueError("told by APScheduler's executor, in the worker")


def refuse(event: object) -> None:
    raise ValueError("told by APScheduler's scheduler, in the pump")


def test_a_line_for_a_closed_stream_is_dropped() -> None:
    with open(os.devnull, "w") as stream:
        handler = _Lines(stream)
    handler.handle(logging.makeLogRecord({"msg": "x", "levelno": logging.ERROR}))


def test_a_lost_stream_is_opened_again_on_its_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    for lost in (None, object()):
        monkeypatch.setattr(sys, "stdout", lost)
        streams.mend()
        assert sys.stdout.fileno() == 1
