"""What is kept of an occurrence beside the ledger, whichever executor runs it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED
from apscheduler.executors.pool import ProcessPoolExecutor, ThreadPoolExecutor
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from calsched import OccurrenceKey, OnceTrigger, current_occurrence, durable
from calsched.runtime.workspace import folder
from tests.jobstore import _jobs
from tests.jobstore._jobs import now
from tests.jobstore.conftest import WAIT, Ledger

Make = Callable[..., Any]
OUTCOME = EVENT_JOB_EXECUTED | EVENT_JOB_ERROR


def writes(word: str) -> str:
    """A task that logs, and leaves a file of its own."""
    occurrence = current_occurrence()
    assert occurrence is not None and occurrence.workspace is not None
    logging.getLogger("jobs").warning("there are %d papers", 3)
    (occurrence.workspace / "own.txt").write_text(word)
    return word


async def writes_async(word: str) -> str:
    return writes(word)


def fails_once() -> str:
    occurrence = current_occurrence()
    assert occurrence is not None
    if occurrence.attempt == 1:
        raise RuntimeError("no paper")
    return "at last"


def once(**policies: Any) -> Any:
    return durable(OnceTrigger(now() + timedelta(milliseconds=200)), **policies)


def place(scheduler: Any, root: Path, schedule_id: str) -> Path:
    return folder(str(root), OccurrenceKey(scheduler.ours.store.installation, "default", schedule_id, 1, 0))


def receipts(path: Path) -> list[tuple[Any, ...]]:
    lines = [json.loads(line) for line in (path / "receipts.jsonl").read_text().splitlines()]
    return [(line["attempt"], line["event"], line.get("state"), line.get("verified")) for line in lines]


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_input_log_receipts_and_result_are_kept(run: Make, tmp_path: Path, executor: str) -> None:
    scheduler = run(
        store={"workspaces": tmp_path / "ws"},
        executors={"threads": ThreadPoolExecutor(1), "processes": ProcessPoolExecutor(1)},
    )
    scheduler.add_job(writes, once(verify=is_long), id="a", args=["a long word"], executor=executor)
    scheduler.start()
    scheduler.events.wait(OUTCOME)
    path = place(scheduler, tmp_path / "ws", "a")
    given = json.loads((path / "input.json").read_text())
    (row,) = Ledger(scheduler.ours).occurrences("a")
    assert row.state == "succeeded", row.error
    assert given["key"] == [scheduler.ours.store.installation, "default", "a", 1, "0"]
    assert (given["ordinal"], given["represents"]["first"], given["represents"]["last"]) == ("0", "0", "0")
    assert given["task"]["callable"] == "tests.jobstore.test_workspaces:writes"
    assert given["task"]["args"] == ["a long word"]
    assert receipts(path) == [(1, "began", None, None), (1, "ended", "succeeded", True)]
    assert json.loads((path / "result.json").read_text()) == "a long word"
    assert (path / "own.txt").read_text() == "a long word"
    log = (path / "log.txt").read_text().splitlines()
    assert [line.partition(" ")[2] for line in log] == [
        "calsched: attempt 1 begins",
        "WARNING jobs: there are 3 papers",
        "calsched: attempt 1 ended: succeeded",
    ]


def is_long(value: str) -> bool:
    return len(value) > 5


def test_a_coroutine_has_one_too(tmp_path: Path, url: str) -> None:
    import asyncio

    from calsched import OccurrenceJobStore

    async def main() -> Path:
        jobstore = OccurrenceJobStore(url, workspaces=tmp_path / "ws", poll_interval=0.2)
        scheduler = AsyncIOScheduler(jobstores={"default": jobstore}, timezone="UTC")
        ended = asyncio.Event()
        scheduler.add_listener(lambda event: ended.set(), OUTCOME)
        scheduler.add_job(writes_async, once(), id="a", args=["word"])
        scheduler.start()
        await asyncio.wait_for(ended.wait(), WAIT)
        scheduler.shutdown()
        await asyncio.sleep(0)
        assert jobstore._pump is not None and jobstore._pump.join(WAIT)
        path = folder(str(tmp_path / "ws"), OccurrenceKey(jobstore.store.installation, "default", "a", 1, 0))
        jobstore.store.dispose()
        return path

    path = asyncio.run(main())
    assert receipts(path) == [(1, "began", None, None), (1, "ended", "succeeded", None)]
    assert "WARNING jobs: there are 3 papers" in (path / "log.txt").read_text()


def test_where_workspaces_are_does_not_change_with_the_working_directory(
    run: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scheduler = run(store={"workspaces": "ws"})
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    scheduler.add_job(writes, once(), id="a", args=["word"])
    scheduler.start()
    scheduler.events.wait(OUTCOME)
    assert (place(scheduler, tmp_path / "ws", "a") / "log.txt").exists()
    assert not (tmp_path / "elsewhere" / "ws").exists()


def test_every_attempt_has_its_receipts(run: Make, tmp_path: Path) -> None:
    scheduler = run(store={"workspaces": tmp_path / "ws"})
    scheduler.add_job(fails_once, once(max_retries=1, retry_delay=0.05), id="a")
    scheduler.start()
    scheduler.events.wait(OUTCOME, 2)
    path = place(scheduler, tmp_path / "ws", "a")
    assert receipts(path) == [
        (1, "began", None, None),
        (1, "ended", "failed", None),
        (2, "began", None, None),
        (2, "ended", "succeeded", None),
    ]
    assert "RuntimeError: no paper" in (path / "log.txt").read_text()


def test_a_result_that_was_not_accepted_is_no_result(run: Make, tmp_path: Path) -> None:
    scheduler = run(store={"workspaces": tmp_path / "ws"})
    scheduler.add_job(_jobs.tell, once(verify=_jobs.is_even), id="a", args=[3])
    scheduler.start()
    scheduler.events.wait(OUTCOME)
    path = place(scheduler, tmp_path / "ws", "a")
    assert receipts(path)[-1] == (1, "ended", "failed", False)
    assert not (path / "result.json").exists()


def test_what_a_timed_out_thread_returns_later_is_told_as_late(run: Make, tmp_path: Path) -> None:
    scheduler = run(store={"workspaces": tmp_path / "ws"})
    scheduler.add_job(_jobs.wait_for_gate, once(timeout=0.2), id="a")
    scheduler.start()
    scheduler.events.wait(OUTCOME)
    path = place(scheduler, tmp_path / "ws", "a")
    assert receipts(path)[-1][2] == "timed_out"
    _jobs.gate.set()
    scheduler.shutdown()
    assert scheduler.ours._pump.join(WAIT)
    last = json.loads((path / "receipts.jsonl").read_text().splitlines()[-1])
    assert (last["state"], last["late"]) == ("succeeded", True)
    assert not (path / "result.json").exists()


def test_a_folder_that_cannot_be_written_to_stops_no_task(
    run: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "ws").write_text("a file, not a folder")
    scheduler = run(store={"workspaces": tmp_path / "ws"})
    scheduler.add_job(_jobs.tell, once(), id="a", args=[3])
    scheduler.start()
    scheduler.events.wait(OUTCOME)
    assert Ledger(scheduler.ours).states("a") == ["succeeded"]
    assert "cannot be written to" in caplog.text


def test_no_id_leaves_the_folder_and_no_two_share_one() -> None:
    ids = ["../../etc", "a/b", "a%2fb", "A", "a", "x" * 255, "\x00", "é"]
    found = {folder("/ws", OccurrenceKey("i", "default", one, 1, 0)) for one in ids}
    assert len(found) == len(ids)
    for path in found:
        assert path.parent.parent == Path("/ws/occurrences")
        assert len(path.name) == 64
