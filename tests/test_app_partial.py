from __future__ import annotations

from typing import Any

import pytest

from calsched.app.partial import declared, merged
from calsched.declare.check import check
from calsched.declare.document import Document
from calsched.model import Definition

BODY: dict[str, Any] = {
    "id": "report",
    "trigger": {"kind": "calendar", "at": ["09:00"], "timezone": "America/Winnipeg"},
    "task": {"callable": "jobs:send", "kwargs": {"to": "ana"}},
    "description": "Figures",
    "graceSeconds": 5,
    "misfire": "boundedReplay",
    "replayLimit": 3,
    "overlap": "allow",
    "maxConcurrent": 4,
    "expiresAt": "2027-01-01T00:00:00Z",
    "retry": {"delaySeconds": 2, "backoff": 3},
    "rateLimit": {"count": 5, "windowSeconds": 60},
    "blackouts": [{"from": "2026-12-24T00:00:00Z", "to": "2026-12-27T00:00:00Z", "note": "holidays"}],
}


def definition(body: dict[str, Any]) -> Definition:
    checked = check([Document(body, "test.yaml")], now=0)
    checked.raise_if_bad()
    return checked.declarations[0].definition


@pytest.mark.parametrize(
    "body",
    [
        BODY,
        {"id": "poll", "every": "15m", "task": "jobs:poll"},
        {"scheduleId": "old", "firstTick": "2026-01-01T00:00:00.000Z", "intervalMs": 10, "catchUp": "SKIP",
         "task": {"workOrderId": "w", "runId": "r", "taskClass": "c", "payload": {"a": 1}}},
    ],
)  # fmt: skip
def test_a_definition_as_a_declaration_gives_the_same_definition(body: dict[str, Any]) -> None:
    stored = definition(body)
    assert definition(declared(stored)) == stored


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {}),
        ({"graceSeconds": 90}, {"grace": 90_000}),
        ({"cron": "0 9 * * *", "timezone": "UTC"}, {"trigger": {"kind": "cron"}}),
        ({"every": "5m"}, {"trigger": {"kind": "interval", "intervalMs": 300_000}}),
        ({"objective": "New"}, {"description": "New"}),
        ({"misfire": "skip"}, {"misfire": "skip", "replay_limit": None}),
        ({"misfire": "boundedReplay"}, {"misfire": "boundedReplay", "replay_limit": 3}),
        ({"replayLimit": 7}, {"replay_limit": 7}),
        ({"overlap": "queue"}, {"overlap": "queue", "max_concurrent": 1}),
        ({"expiresAt": None}, {"expires_at": None}),
        ({"retry": {"delaySeconds": 1}}, {"retry_delay": 1_000, "retry_backoff": 2.0}),
        ({"rateLimit": {"count": 1, "windowSeconds": 1}}, {"rate_limit": 1, "rate_window": 1_000}),
        ({"rateLimit": None, "rateWindowSeconds": None}, {"rate_limit": None, "rate_window": None}),
        ({"rateLimit": 9}, {"rate_limit": 9, "rate_window": 60_000}),
        ({"blackouts": []}, {"blackouts": ()}),
    ],
)
def test_the_keys_of_a_partial_file_replace_those_of_the_definition(
    changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    stored = definition(BODY)
    got = definition(merged(stored, changes))
    for name, value in expected.items():
        found = getattr(got, name)
        assert (dict(found, **value) == found) if isinstance(value, dict) else (found == value)
    untouched = {"id", "task", "max_retries", "pause_after_failures"}
    assert {name: getattr(got, name) for name in untouched} == {name: getattr(stored, name) for name in untouched}
