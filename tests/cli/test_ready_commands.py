from __future__ import annotations

import time
from typing import Any

import pytest

from tests.cli.conftest import CommandLine

REVIEW = """\
    scheduleId: review
    firstTick: "2026-01-01T00:00:00.000Z"
    intervalMs: 3600000
    catchUp: COALESCE_ONE
    task: {workOrderId: order-1, runId: run-1, taskClass: review, payload: {documentRef: doc-9}}
    """


@pytest.fixture
def review(cli: CommandLine) -> CommandLine:
    cli.write("review.yaml", REVIEW)
    cli("create", "review.yaml")
    cli("tick", "--allow", "jobs:*")
    return cli


def claimed(cli: CommandLine, *args: str) -> Any:
    (task,) = cli.json("ready", "claim", *args)["tasks"]
    return task


def test_a_host_claims_a_task_with_its_schedule_and_input_and_completes_it(review: CommandLine) -> None:
    task = claimed(review, "--class", "review")
    assert (task["workOrderId"], task["runId"], task["attempt"]) == ("order-1", "run-1", 1)
    assert set(task["payload"]) == {"schedule", "input"}
    assert task["payload"]["input"] == {"documentRef": "doc-9"}
    assert task["payload"]["schedule"]["represented"]["first"] == "0"
    assert review.lines("ready", "claim") == ["nothing is ready"]
    number = str(task["task"])
    assert review.lines("ready", "heartbeat", number, task["token"]) == ["go on"]
    assert review.json("ready", "complete", number, task["token"], "--result", '{"pages": 3}') == {
        "state": "succeeded", "retryAt": None,
    }  # fmt: skip
    entry = review.json("history", "review")["entries"][0]
    assert (entry["state"], entry["result"]) == ("succeeded", '{"pages": 3}')


def test_nobody_ends_a_task_without_its_token(review: CommandLine) -> None:
    task = claimed(review)
    (line,) = review.errors("ready", "complete", str(task["task"]), "guess", code=1)
    assert line == "the claim is over (it is running); the report changes nothing and is kept as evidence"
    (line,) = review.errors("ready", "complete", "77", "guess", code=1)
    assert line == "there is no such task; the report changes nothing"
    assert "the claim of ready task" in review.errors("ready", "heartbeat", str(task["task"]), "guess", code=1)[0]
    assert "there is nothing to give back" in review.errors("ready", "give-back", str(task["task"]), "x", code=1)[0]
    assert review.json("history", "review")["entries"][0]["state"] == "running"


def test_a_failure_is_recorded_with_its_kind(review: CommandLine) -> None:
    task = claimed(review)
    told = review.json("ready", "fail", str(task["task"]), task["token"], "--kind", "NoDocument", "--message", "gone")
    assert told["state"] == "failed"
    assert "NoDocument: gone" in review("why", "review", task["payload"]["schedule"]["dueTime"]).stdout


def test_a_task_that_was_not_begun_can_be_given_back(review: CommandLine) -> None:
    task = claimed(review)
    review("ready", "give-back", str(task["task"]), task["token"])
    assert claimed(review)["task"] == task["task"]


def test_a_task_whose_lease_ran_out_is_interrupted(review: CommandLine) -> None:
    task = claimed(review, "--lease", "1s")
    end = time.monotonic() + 1.2
    while time.monotonic() < end:
        time.sleep(0.05)
    review("tick", "--allow", "jobs:*")
    assert review.json("history", "review")["entries"][0]["state"] == "interrupted"
    (line,) = review.errors("ready", "complete", str(task["task"]), task["token"], code=1)
    assert "kept as evidence" in line


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("{", "--result: expected JSON: "),
        ("NaN", "--result: expected JSON: NaN is no JSON number"),
        ("@/no/such", "--result: cannot be read: No such file or directory"),
        ("[" * 100_000, "--result: expected JSON: "),
    ],
)
def test_a_result_that_is_no_json_is_refused(review: CommandLine, result: str, message: str) -> None:
    assert review.errors("ready", "complete", "1", "x", "--result", result, code=2)[0].startswith(message)


def test_a_lease_out_of_bounds_is_refused(review: CommandLine) -> None:
    assert review.errors("ready", "claim", "--lease", "1ms", code=2) == ["--lease: expected 1s to 7d"]
