"""An agent drives schedules: with a real Model Context Protocol client, and with plain JSON lines."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from calsched.agent import json_lines
from calsched.agent.answers import answer
from calsched.agent.methods import METHODS
from calsched.app import App
from tests.stores._helpers import T0, SteppedClock

SEED = {
    "id": "publish",
    "objective": "Publish the captured engineering workflow each weekday",
    "task": {"callable": "jobs:publish"},
    "trigger": {
        "kind": "calendar",
        "start": "2026-10-12T00:00:00-05:00",
        "timezone": "America/Winnipeg",
        "hour": 9,
        "minute": 0,
        "weekdays": [0, 1, 2, 3, 4],
    },
}


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    (tmp_path / "jobs.py").write_text("def publish(): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "jobs", raising=False)
    clock = SteppedClock(T0)
    with App(f"sqlite:///{tmp_path / 'agent.db'}", namespace="agents", allow=["jobs:*"], clock=clock) as made:
        yield made


def result(app: App, method: str, **arguments: Any) -> Any:
    told, error = answer(app, method, arguments)
    assert error is None, error
    return told


def error(app: App, method: Any, arguments: Any) -> dict[str, Any]:
    told, found = answer(app, method, arguments)
    assert told is None
    assert found is not None
    return found


def test_each_method_of_seed_003_is_there_with_a_schema_of_its_arguments(app: App) -> None:
    names = ["create", "preview", "list", "get", "update", "pause", "resume", "cancel", "delete"]
    assert set(METHODS) == {"methods", *(f"schedule_{name}" for name in names)}
    told = result(app, "methods")["methods"]
    assert all(one["arguments"]["type"] == "object" for one in told)
    assert {one["name"] for one in told} == set(METHODS)


def test_a_schedule_made_by_an_agent_gets_100_occurrences_unless_it_says_how_many(app: App) -> None:
    made = result(app, "schedule_create", declaration=SEED)
    assert made["schedule"]["definition"]["maxOccurrences"] == 100
    other = result(app, "schedule_create", declaration={**SEED, "id": "b", "maxOccurrences": 7})
    assert other["schedule"]["definition"]["maxOccurrences"] == 7


def test_an_agent_is_confined_to_its_namespace(app: App) -> None:
    made = result(app, "schedule_create", declaration=SEED)
    assert made["schedule"]["namespace"] == "agents"
    refused = error(app, "schedule_create", {"declaration": {**SEED, "namespace": "default"}})
    assert refused["problems"][0]["path"] == "declaration.namespace"


def test_a_callable_outside_the_allow_list_is_refused(app: App) -> None:
    refused = error(app, "schedule_create", {"declaration": {**SEED, "task": {"callable": "os:system"}}})
    assert "os:system" in refused["message"]
    assert result(app, "schedule_preview", declaration=SEED)["schedules"][0]["slots"]


def test_a_host_that_allows_nothing_lets_an_agent_register_no_callable(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path / 'x.db'}", clock=SteppedClock(T0)) as app:
        refused = error(app, "schedule_create", {"declaration": SEED})
    assert "allows no callables" in refused["message"]
    assert not (tmp_path / "x.db").exists()


def test_a_stale_control_is_refused_with_both_revisions(app: App) -> None:
    result(app, "schedule_create", declaration=SEED)
    result(app, "schedule_update", id="publish", changes={"graceSeconds": 5}, expectedRevision=1)
    refused = error(app, "schedule_pause", {"id": "publish", "expectedRevision": 1})
    assert refused["kind"] == "StaleVersion"
    assert "expected revision 1, but it is 2" in refused["message"]


def test_a_preview_that_changed_is_not_created(app: App) -> None:
    seen = result(app, "schedule_preview", declaration=SEED)["digest"]
    changed = {**SEED, "graceSeconds": 1}
    assert error(app, "schedule_create", {"declaration": changed, "expect": seen})["kind"] == "Refused"
    assert result(app, "schedule_create", declaration=SEED, expect=seen)["created"] is True


def test_the_whole_life_of_a_schedule(app: App) -> None:
    result(app, "schedule_create", declaration=SEED)
    assert result(app, "schedule_pause", id="publish", expectedRevision=1, note="holiday")["state"] == "paused"
    assert result(app, "schedule_resume", id="publish", expectedRevision=1)["state"] == "enabled"
    assert result(app, "schedule_cancel", id="publish", expectedRevision=1)["state"] == "cancelled"
    got = result(app, "schedule_get", id="publish")
    assert [decision["action"] for decision in got["decisions"]] == ["cancel", "resume", "pause", "create"]
    assert result(app, "schedule_delete", id="publish", expectedRevision=1) == {"deleted": "publish"}
    assert result(app, "schedule_list")["schedules"] == []


@pytest.mark.parametrize(
    ("method", "arguments", "path"),
    [
        ("schedule_pause", {"id": "x"}, "expectedRevision"),
        ("schedule_pause", {"id": "x", "expectedRevision": "1"}, "expectedRevision"),
        ("schedule_pause", {"id": "x", "expectedRevision": 1, "force": True}, "force"),
        ("schedule_list", {"limit": 0}, "limit"),
        ("schedule_create", {"declaration": "text"}, "declaration"),
        ("schedule_create", {}, "declaration"),
        ("schedule_create", {"declaration": {"schedules": {}}}, "declaration"),
        ("schedule_update", {"id": "x", "changes": {"id": "y"}, "expectedRevision": 1}, "changes"),
        ("rm", {}, "method"),
        (None, {}, "method"),
        ("schedule_get", ["x"], ""),
    ],
)
def test_arguments_that_the_schema_does_not_describe_are_named(
    app: App, method: Any, arguments: Any, path: str
) -> None:
    found = error(app, method, arguments)
    assert found["kind"] == "InvalidInput"
    assert path in [problem["path"] for problem in found["problems"]]


def exchange(app: App, *lines: bytes) -> list[dict[str, Any]]:
    out = io.BytesIO()
    json_lines.serve(app, io.BytesIO(b"".join(line + b"\n" for line in lines)), out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_json_lines_answer_each_request_under_its_id(app: App) -> None:
    first = json.dumps({"id": 1, "method": "schedule_create", "params": {"declaration": SEED}}).encode()
    answers = exchange(app, first, b"", b'{"id": "b", "method": "schedule_list"}')
    assert [one["id"] for one in answers] == [1, "b"]
    assert answers[1]["result"]["schedules"][0]["id"] == "publish"


@pytest.mark.parametrize(
    "line",
    [b"rubbish", b"[]", b'{"id": {}, "method": "list"}', b'{"x": 1}', b"[" * 100_000, b"\xff\xfe", b"9" * 5_000],
)
def test_a_line_that_cannot_be_read_is_answered_and_the_next_one_is_read(app: App, line: bytes) -> None:
    result(app, "schedule_create", declaration=SEED)
    answers = exchange(app, line, b'{"id": 2, "method": "schedule_list", "params": {}}')
    assert [("error" in one, one["id"]) for one in answers] == [(True, None), (False, 2)]


def test_a_line_that_is_too_long_is_skipped_whole(app: App) -> None:
    result(app, "schedule_create", declaration=SEED)
    answers = exchange(app, b"x" * (json_lines.MOST * 2), b'{"id": 2, "method": "schedule_list"}')
    assert [one["id"] for one in answers] == [None, 2]


def test_a_real_mcp_client_drives_the_server(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("def publish(): ...\n")
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "calsched", "--store", f"sqlite:///{tmp_path / 'a.db'}", "agent", "--allow", "jobs:*"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=str(tmp_path),
    )

    async def drive() -> tuple[list[str], Any, Any, Any]:
        async with Client(server) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            made = await client.call_tool("schedule_create", {"declaration": SEED})
            got = await client.call_tool("schedule_get", {"id": "publish"})
            bad = await client.call_tool("schedule_pause", {"id": "publish", "expectedRevision": 5})
            return tools, made, got, bad

    tools, made, got, bad = asyncio.run(drive())
    assert set(tools) == set(METHODS)
    assert made.structured_content["created"] is True
    assert got.structured_content["schedule"]["state"] == "enabled"
    assert bad.is_error
    assert bad.structured_content["error"]["kind"] == "StaleVersion"
