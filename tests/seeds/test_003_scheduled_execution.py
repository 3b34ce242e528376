"""Seed 003, durable scheduled execution: one test a statement (docs/seeds.md says which)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError

from calsched.app.files import Span
from calsched.clock import to_rfc3339
from calsched.errors import (
    CalschedError,
    InvalidInput,
    MoveNotAllowed,
    OwnedElsewhere,
    PendingWork,
    Refused,
    StaleVersion,
    StoreUnusable,
)
from calsched.runtime.callables import AllowList
from calsched.runtime.serve import Server
from calsched.runtime.workspace import folder
from calsched.settings import Settings
from calsched.stores.engine import Store
from tests.cli.conftest import CommandLine
from tests.seeds import _tasks
from tests.seeds._helpers import Desk
from tests.stores._helpers import HOUR, MINUTE, SECOND, T0, failed, instant, succeeded

ROOT = Path(__file__).parents[2]

#: The declaration of the text; a task stands where the text has a document (which is the task's argument here).
DOCUMENT = {"version": "schemaxis.freecad/1", "nodes": [{"id": "body", "filter": "box"}], "output": "body"}
DECLARATION: dict[str, Any] = {
    "id": "publish",
    "objective": "Publish the captured engineering workflow each weekday",
    "task": {"callable": "tests.seeds._tasks:echo", "args": [DOCUMENT]},
    "allowedProviders": ["tests.seeds._tasks"],
    "trigger": {
        "kind": "calendar",
        "start": "2026-10-12T00:00:00-05:00",
        "timezone": "America/Winnipeg",
        "hour": 9,
        "minute": 0,
        "weekdays": [0, 1, 2, 3, 4],
    },
    "overlap": "coalesce",
    "misfire": "runOnce",
    "graceSeconds": 60,
    "maxCatchUp": 10,
    "maxOccurrences": 100,
    "maxRetries": 0,
    "expiresAt": "2027-01-01T00:00:00-06:00",
}


def minutely(interval: int = MINUTE, **more: Any) -> dict[str, Any]:
    rule = {"kind": "interval", "intervalMs": interval, "firstTick": to_rfc3339(T0)}
    return {"id": "a", "trigger": rule, "task": "tests.seeds._tasks:echo", **more}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    yield
    _tasks.said.clear()
    _tasks.act.clear()


@pytest.fixture
def working(tmp_path: Path) -> Iterator[Desk]:
    """A host that allows the tests' tasks and keeps workspaces."""
    settings = Settings(allow=("tests.seeds._tasks:*",), workspaces=tmp_path / "ws")
    desk = Desk(tmp_path, settings=settings)
    yield desk
    desk.close()


# --- clients and the owner --------------------------------------------------------------------------------------------

TOML = 'allow = ["seed_jobs:*"]\npythonPath = ["."]\n'
FILE = """
    {"id": "a", "task": "seed_jobs:run", "every": "1h"}
"""
JOBS = """
    def run():
        return 3

    def even(value):
        return value % 2 == 0
"""


def ready_cli(cli: CommandLine) -> None:
    cli.write("calsched.toml", TOML)
    cli.write("seed_jobs.py", JOBS)
    cli.write("schedule.json", FILE)


def test_a_client_that_creates_schedules_starts_no_owner(cli: CommandLine) -> None:
    ready_cli(cli)
    cli("create", "schedule.json")
    told = cli.json("list")
    assert (told["owned"], told["owners"]) == (False, [])
    assert "no owner lives" in cli("list").stderr
    assert told["serve"].endswith("serve"), "and it says what to start"


def test_the_commands_of_the_text_preview_create_list_serve_and_control(cli: CommandLine, tmp_path: Path) -> None:
    ready_cli(cli)
    cli("preview", "schedule.json")
    assert not (tmp_path / "calsched.db").exists(), "a preview writes nothing"
    cli("create", "schedule.json")
    assert [one["id"] for one in cli.json("list")["schedules"]] == ["a"]
    cli("pause", "a", "--revision", "1")
    cli("resume", "a", "--revision", "1")
    cli.write("changes.json", '{"every": "2h"}')
    cli("update", "a", "changes.json", "--revision", "1")
    cli.errors("pause", "a", "--revision", "1", code=1)
    assert cli.json("show", "a")["history"]["entries"] == []
    cli("cancel", "a", "--revision", "2")
    cli("delete", "a", "--revision", "2")
    assert cli.json("list")["schedules"] == []


def test_serve_is_a_foreground_process_that_a_supervisor_starts_and_stops(cli: CommandLine, tmp_path: Path) -> None:
    ready_cli(cli)
    command = [sys.executable, "-m", "calsched", "serve", "schedule.json"]
    served = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert served.stderr is not None
    with served.stderr as lines:
        assert any("serves" in line for line in lines), "it logs that it serves, and goes on"
        assert served.poll() is None
        assert cli.json("list")["owned"]
        served.send_signal(signal.SIGTERM)
        for _ in lines:  # until it has gone
            pass
    assert served.wait(30) == 0
    assert not cli.json("list")["owned"]


def test_an_agent_that_leaves_does_not_stop_the_owner(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with _serving(url) as server:
        asked = json.dumps({"id": 1, "method": "schedule_list"}) + "\n"
        agent = subprocess.run(
            [sys.executable, "-m", "calsched", "--store", url, "agent", "--json-lines"],
            input=asked, capture_output=True, text=True, timeout=60, cwd=ROOT,
        )  # fmt: skip
        assert agent.returncode == 0, agent.stderr
        assert json.loads(agent.stdout)["id"] == 1
        assert server.health().role == "owner"


class _serving:
    """A server in a thread of this process."""

    def __init__(self, url: str, **settings: Any) -> None:
        import threading

        self.store = Store(url)
        self.server = Server(
            self.store, Settings(poll_interval=100, **settings), allow=AllowList(["tests.seeds._tasks:*"])
        )
        self.up = threading.Event()
        self.server._on_ready = lambda _: self.up.set()
        self.thread = threading.Thread(target=self.server.run)

    def __enter__(self) -> Server:
        self.thread.start()
        assert self.up.wait(20)
        return self.server

    def __exit__(self, *_: object) -> None:
        self.server.stop()
        self.thread.join(30)
        self.store.dispose()


def test_what_an_owner_left_unfinished_is_interrupted_and_not_replayed_after_a_restart(working: Desk) -> None:
    working.declare(minutely(HOUR, maxRetries=3))
    working.tick(T0)
    working.begin()
    working.now = T0 + MINUTE
    for _ in range(2):
        working.own_again()
        working.tick()
    assert working.work() == []
    assert working.states() == [(0, "interrupted", None)]


def test_pending_work_waits_while_nobody_owns_the_store(working: Desk) -> None:
    working.declare(minutely(HOUR, graceSeconds=86_400))
    working.tick(T0)
    working.now = T0 + 30 * MINUTE
    assert _tasks.said == []
    assert working.states() == [(0, "ready", None)]
    assert working.work() == [("a", 0)]


def test_yaml_files_are_accepted_and_standard_input_says_its_format(cli: CommandLine) -> None:
    ready_cli(cli)
    text = "id: from-stdin\ntask: seed_jobs:run\nevery: 1h\n"
    cli.write("schedule.yaml", text.replace("from-stdin", "from-file"))
    cli("create", "schedule.yaml")
    cli.errors("create", "-", code=2, input=text)
    cli("create", "-", "--input-format", "yaml", input=text)
    assert [one["id"] for one in cli.json("list")["schedules"]] == ["from-file", "from-stdin"]


@pytest.mark.parametrize("key", ["pythonPath", "config", "workspaces", "allow", "store"])
def test_a_declaration_configures_no_worker(desk: Desk, key: str) -> None:
    with pytest.raises(InvalidInput, match=f"{key}: unknown key"):
        desk.declare(minutely() | {key: "/tmp/elsewhere"})


def test_a_document_that_changed_since_its_preview_is_refused_until_it_is_previewed_again(
    working: Desk, tmp_path: Path
) -> None:
    file = tmp_path / "schedule.json"
    file.write_text(json.dumps(minutely()))
    seen = working.app.preview([file], Span(count=3)).digest
    file.write_text(json.dumps(minutely(2 * MINUTE)))
    with pytest.raises(Refused, match="changed since their preview"):
        working.app.create([file], expect=seen)
    again = working.app.preview([file], Span(count=3)).digest
    assert working.app.create([file], expect=again).created == {"a"}


def test_a_later_change_of_the_source_file_does_not_change_what_was_registered(working: Desk, tmp_path: Path) -> None:
    file = tmp_path / "schedule.json"
    file.write_text(json.dumps(minutely(task={"callable": "tests.seeds._tasks:echo", "args": ["captured"]})))
    before = working.app.create([file]).schedules[0]
    file.write_text(json.dumps(minutely(SECOND, task="tests.seeds._tasks:fail")))
    assert working.app.get("a") == before
    working.tick(T0)
    working.work()
    assert _tasks.said == [(("captured",), {})]


# --- the declaration --------------------------------------------------------------------------------------------------


def test_the_declaration_of_the_text_loads_with_a_task_in_place_of_the_document(working: Desk) -> None:
    working.now = instant("2026-10-11T12:00:00Z")
    d = working.declare(DECLARATION).definition
    assert d is not None
    assert d.description == "Publish the captured engineering workflow each weekday"
    assert (d.overlap, d.misfire, d.grace, d.max_catch_up) == ("coalesce", "runOnce", 60_000, 10)
    assert (d.max_occurrences, d.max_retries, d.expires_at) == (100, 0, instant("2027-01-01T06:00:00Z"))
    assert d.task.args == (DOCUMENT,)
    report = working.app.preview(json.dumps(DECLARATION).encode(), Span(count=6), "json")
    assert [to_rfc3339(slot.due) for slot in report.previews[0].slots] == [
        "2026-10-12T14:00:00Z",
        "2026-10-13T14:00:00Z",
        "2026-10-14T14:00:00Z",
        "2026-10-15T14:00:00Z",
        "2026-10-16T14:00:00Z",
        "2026-10-19T14:00:00Z",  # no Saturday, no Sunday
    ]


def test_registered_material_is_a_copy_with_a_digest_over_everything_that_decides(working: Desk) -> None:
    first = working.declare(minutely(task={"callable": "tests.seeds._tasks:echo", "args": [DOCUMENT]}))
    assert first.digest is not None and first.digest.startswith("sha256:")
    changed = {**DOCUMENT, "output": "other"}
    second = working.declare(minutely(task={"callable": "tests.seeds._tasks:echo", "args": [changed]}) | {"id": "b"})
    with working.store.read() as conn:
        r = working.store.tables.revisions.c
        stored = {row.digest: json.loads(row.definition) for row in conn.execute(select(r.digest, r.definition))}
    assert second.digest != first.digest
    assert stored[first.digest]["task"]["args"] == [DOCUMENT]
    assert first.digest == working.app.get("a").digest


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("os:getpid", "allow list"),
        ("tests.seeds._tasks:nothing_of_that_name", "nothing_of_that_name"),
        ("tests.seeds.no_such_module:run", "allow list"),
    ],
)
def test_registration_checks_the_callable_against_what_the_host_allows(working: Desk, task: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        working.declare(minutely(task=task))


def test_a_declaration_narrows_the_hosts_allow_list_and_never_widens_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path, settings=Settings(allow=("tests.seeds._tasks:*", "tests.jobstore._jobs:*")))
    with pytest.raises(InvalidInput, match="allowedProviders"):
        desk.declare(minutely(allowedProviders=["tests.jobstore._jobs"]))
    with pytest.raises(InvalidInput, match="allow list"):
        desk.declare(minutely(task="os:getpid", allowedProviders=["os"]))
    desk.close()


def test_registration_and_preview_call_nothing(working: Desk) -> None:
    _tasks.act["run"] = lambda: _tasks.said.append("ran")
    working.app.preview(json.dumps(minutely(task="tests.seeds._tasks:run")).encode(), Span(count=3), "json")
    working.declare(minutely(task="tests.seeds._tasks:run"))
    assert _tasks.said == []


def test_paths_in_arguments_stay_what_they_are_and_nothing_is_read_from_them(working: Desk, tmp_path: Path) -> None:
    path = tmp_path / "not-there-yet.csv"
    working.declare(minutely(HOUR, task={"callable": "tests.seeds._tasks:echo", "args": [str(path)]}))
    working.tick(T0)
    working.work()
    assert _tasks.said == [((str(path),), {})]


def test_what_may_be_called_is_decided_again_when_it_is_dispatched(working: Desk, tmp_path: Path) -> None:
    working.declare(minutely(HOUR))
    working.tick(T0)
    working.app.settings = Settings(allow=("tests.jobstore._jobs:*",))  # the host has changed its mind
    assert working.work() == []
    assert (working.view().state, working.view().reason) == ("paused", "invalid")
    assert _tasks.said == []


@pytest.mark.parametrize(
    "task",
    [
        "ls -l",
        "os:system.ls",
        "jobs:Class.method",
        {"shell": "ls"},
        {"python": "print(1)"},
        {"callable": "tests.seeds._tasks:echo", "template": "newest"},
        {"callable": "tests.seeds._tasks:echo", "resources": ["file"]},
    ],
)
def test_there_are_no_shell_commands_no_code_and_no_templates_in_declarations(desk: Desk, task: Any) -> None:
    with pytest.raises(InvalidInput):
        desk.declare(minutely(task=task))


# --- triggers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trigger", "path"),
    [
        ({"kind": "calendar", "timezone": "UTC", "hour": 9, "weekday": [0]}, "trigger.weekday"),
        ({"kind": "interval", "seconds": 60, "weekdays": [0]}, "trigger.weekdays"),
        ({"kind": "calendar", "timezone": "UTC", "hour": 24}, "trigger.hour"),
        ({"kind": "calendar", "timezone": "UTC", "hour": 9, "weekdays": [7]}, "trigger.weekdays[0]"),
        ({"kind": "calendar", "timezone": "UTC", "hour": "9"}, "trigger.hour"),
        ({"kind": "interval", "seconds": 0}, "trigger"),
        ({"kind": "sometimes"}, "trigger.kind"),
    ],
)
def test_triggers_have_exact_fields(desk: Desk, trigger: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        desk.declare({"id": "a", "task": "jobs:run", "trigger": trigger})
    assert any(problem.path.startswith(path) for problem in refused.value.problems)


def first_dues(desk: Desk, trigger: dict[str, Any], start: str, count: int = 2) -> list[str]:
    said = {"id": "a", "task": "tests.seeds._tasks:echo", "trigger": trigger}
    report = desk.app.preview(json.dumps(said).encode(), Span(count=count, start=instant(start)), "json")
    return [to_rfc3339(slot.due) for slot in report.previews[0].slots if slot.left_out is None]


@pytest.mark.parametrize(("number", "day"), [(0, "04"), (1, "05"), (4, "08"), (5, "09"), (6, "10")])
def test_monday_is_0_and_sunday_is_6(desk: Desk, number: int, day: str) -> None:
    rule = {"kind": "calendar", "timezone": "UTC", "hour": 12, "weekdays": [number]}
    assert first_dues(desk, rule, "2027-01-04T00:00:00Z", 1) == [f"2027-01-{day}T12:00:00Z"]  # a Monday


def test_a_wall_time_that_does_not_exist_is_left_out(desk: Desk) -> None:
    rule = {"kind": "calendar", "timezone": "America/New_York", "hour": 2, "minute": 30}
    assert first_dues(desk, rule, "2027-03-13T12:00:00Z") == ["2027-03-15T06:30:00Z", "2027-03-16T06:30:00Z"]


def test_of_a_repeated_wall_time_the_first_counts(desk: Desk) -> None:
    rule = {"kind": "calendar", "timezone": "America/New_York", "hour": 1, "minute": 30}
    assert first_dues(desk, rule, "2027-11-07T00:00:00Z") == ["2027-11-07T05:30:00Z", "2027-11-08T06:30:00Z"]


def test_an_interval_measures_elapsed_seconds_through_a_change_of_the_clocks(desk: Desk) -> None:
    rule = {"kind": "interval", "hours": 24, "firstTick": "2027-03-13T02:30:00-05:00"}  # New York, before its gap
    assert first_dues(desk, rule, "2027-03-13T00:00:00Z", 3) == [
        "2027-03-13T07:30:00Z",
        "2027-03-14T07:30:00Z",
        "2027-03-15T07:30:00Z",
    ]


def test_a_preview_tells_utc_instants_and_changes_no_state(desk: Desk) -> None:
    before = desk.rows()
    rule = {"kind": "calendar", "timezone": "America/New_York", "hour": 9}
    assert first_dues(desk, rule, "2027-01-04T00:00:00Z", 1) == ["2027-01-04T14:00:00Z"]
    assert desk.rows() == before


# --- budgets ----------------------------------------------------------------------------------------------------------


def test_one_occurrence_of_a_schedule_runs_at_a_time_and_one_of_all_where_there_is_one_worker(working: Desk) -> None:
    running: list[int] = []

    def work() -> None:
        running.append(1)
        assert len(running) == 1
        working_states = [one.state for name in ("a", "b") for one in working.occurrences(name)]
        assert working_states.count("running") == 1
        running.pop()

    _tasks.act["run"] = work
    for name in ("a", "b"):
        working.declare(minutely(overlap="queue", graceSeconds=600, task="tests.seeds._tasks:run") | {"id": name})
    working.tick(T0 + 2 * MINUTE)
    assert len(working.work()) == 6
    assert {one.state for name in ("a", "b") for one in working.occurrences(name)} == {"succeeded"}


def test_each_occurrence_has_a_fresh_budget_of_attempts_and_time(working: Desk) -> None:
    working.declare(minutely(overlap="queue", maxRetries=1, retry={"delaySeconds": 0}, maxElapsedSeconds=0.008))
    for n in range(2):
        working.tick(T0 + n * MINUTE)
        working.run(fail=True)  # 5 ms
        working.tick()
        working.run(fail=True)
    assert [(one.attempt, one.elapsed, one.state, one.reason) for one in working.occurrences()] == [
        (2, 10, "failed", "retries")
    ] * 2


BUDGETS = [
    # key, default in a definition, least, most, in a file
    ("maxAttempts", "max_attempts", 20, 1, 100),
    ("maxRepeatedFailures", "max_repeated_failures", None, 1, 100),
    ("maxElapsedSeconds", "max_elapsed", None, 0.001, 2_678_400),
    ("timeoutPerStageSeconds", "timeout", None, 0.001, 604_800),
    ("maxOccurrences", "max_occurrences", None, 1, 100_000),
    ("maxCatchUp", "max_catch_up", 10, 1, 100),
    ("graceSeconds", "grace", 60_000, 0, 86_400),
    ("maxRetries", "max_retries", 0, 0, 99),
]


@pytest.mark.parametrize(("key", "attribute", "default", "least", "most"), BUDGETS)
def test_every_budget_has_its_default_and_its_bounds(
    desk: Desk, key: str, attribute: str, default: Any, least: Any, most: Any
) -> None:
    d = desk.declare(minutely()).definition
    assert getattr(d, attribute) == default
    more = {"maxAttempts": 100} if key == "maxRetries" else {}
    for n, value in enumerate((least, most)):
        desk.declare(minutely() | {key: value, **more, "id": f"fits-{n}"})
    step = 1 if isinstance(least, int) else 0.001
    for value in (least - step, most + 1, str(least), True):
        with pytest.raises(InvalidInput, match=key):
            desk.declare(minutely() | {key: value, **more, "id": "bad"})


def test_skipped_occurrences_use_the_trigger_budget_too(desk: Desk) -> None:
    desk.declare(minutely(maxOccurrences=2, overlap="skip"))
    desk.tick(T0)
    desk.begin()
    desk.tick(T0 + MINUTE)  # skipped, because the first one still runs
    assert (desk.view().used, desk.view().state, desk.view().reason) == (2, "ended", "maxOccurrences")


def test_every_revision_has_a_trigger_budget_of_its_own(desk: Desk) -> None:
    desk.declare(minutely(maxOccurrences=1))
    desk.tick(T0)
    desk.run()
    assert (desk.view().state, desk.view().reason, desk.view().used) == ("ended", "maxOccurrences", 1)
    desk.now = T0 + MINUTE
    view = desk.app.update("a", b'{"maxOccurrences": 2}', format="json")
    assert (view.state, view.used) == ("enabled", 0)


@pytest.mark.parametrize(("retries", "attempts"), [(3, 3), (5, 4)])
def test_retries_must_be_fewer_than_attempts(desk: Desk, retries: int, attempts: int) -> None:
    with pytest.raises(InvalidInput, match="maxRetries: expected less than maxAttempts"):
        desk.declare(minutely(maxRetries=retries, maxAttempts=attempts))


def test_only_failed_execution_is_retried_with_the_same_pinned_material(working: Desk) -> None:
    said = minutely(
        HOUR, maxRetries=1, retry={"delaySeconds": 1}, task={"callable": "tests.seeds._tasks:echo", "args": ["first"]}
    )
    working.declare(said)
    working.tick(T0)
    (taken,) = working.begin()
    working.finish(failed(taken, working.now))
    _, changed = working.app, minutely(HOUR, task={"callable": "tests.seeds._tasks:echo", "args": ["second"]})
    with pytest.raises(PendingWork):
        working.app.update("a", json.dumps({"task": changed["task"]}).encode(), format="json")
    working.tick(T0 + SECOND)
    assert working.work() == [("a", 0)]
    assert _tasks.said == [(("first",), {})]
    one = working.one()
    assert (one.state, one.revision, [attempt.state for attempt in one.attempts]) == (
        "succeeded",
        1,
        ["failed", "succeeded"],
    )


@pytest.mark.parametrize("ending", ["succeeded", "interrupted", "cancelled"])
def test_what_did_not_fail_is_not_retried(desk: Desk, ending: Any) -> None:
    desk.declare(minutely(HOUR, maxRetries=3))
    desk.tick(T0)
    (taken,) = desk.begin()
    desk.finish(succeeded(taken, desk.now)._replace(state=ending))
    assert desk.states() == [(0, ending, None)]


@pytest.mark.parametrize(
    ("budget", "reason", "made"),
    [
        ({"maxRetries": 9, "maxAttempts": 10, "maxRepeatedFailures": 3}, "repeated", 3),
        ({"maxRetries": 9, "maxElapsedSeconds": 0.02}, "elapsed", 4),  # attempts of 5 ms
        ({"maxRetries": 2}, "retries", 3),
        ({"maxRetries": 9, "deadlineSeconds": 2.5}, "deadline", 3),  # attempts a second apart
    ],
)
def test_a_retry_that_a_budget_rejects_is_a_terminal_failure(
    desk: Desk, budget: dict[str, Any], reason: str, made: int
) -> None:
    desk.declare(minutely(HOUR, retry={"delaySeconds": 1, "backoff": 1}, **budget))
    desk.tick(T0)
    for n in range(9):
        desk.tick(T0 + n * SECOND)
        desk.run(fail=True)
    one = desk.one()
    assert (one.state, one.reason, one.attempt) == ("failed", reason, made)


def test_different_errors_do_not_count_as_repeated(desk: Desk) -> None:
    desk.declare(minutely(HOUR, maxRetries=4, maxRepeatedFailures=2, retry={"delaySeconds": 0}))
    desk.tick(T0)
    for n in range(5):
        (taken,) = desk.begin()
        desk.finish(failed(taken, desk.now, message=f"error {n}"))
        desk.tick()
    assert (desk.one().reason, desk.one().attempt) == ("retries", 5)


# --- overlap and misfire ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overlap", "states", "ranges"),
    [
        ("queue", ["running", "waiting", "waiting", "waiting"], []),
        ("skip", ["running"], [(1, 3, "overlap")]),
        ("coalesce", ["running", "waiting"], [(2, 3, "represented")]),
    ],
)
def test_a_trigger_that_arrives_while_work_is_pending_is_queued_skipped_or_coalesced(
    desk: Desk, overlap: str, states: list[str], ranges: Any
) -> None:
    desk.declare(minutely(overlap=overlap))
    desk.tick(T0)
    desk.begin()
    for n in (1, 2, 3):
        desk.tick(T0 + n * MINUTE)
    assert [one.state for one in desk.occurrences()] == states
    assert desk.ranges() == ranges
    desk.check()


def test_queued_occurrences_run_one_after_the_other_in_order(working: Desk) -> None:
    working.declare(minutely(overlap="queue"))
    working.tick(T0)
    working.begin()
    for n in (1, 2, 3):
        working.tick(T0 + n * MINUTE)
    working.own_again()  # the first one was lost
    assert working.work() == [("a", 1), ("a", 2), ("a", 3)]


@pytest.mark.parametrize(("late", "ordinals"), [(60_000, [0]), (60_001, [])])
def test_an_occurrence_is_late_when_more_than_the_grace_has_passed(desk: Desk, late: int, ordinals: list[int]) -> None:
    desk.declare(minutely(HOUR, misfire="skip"))  # a grace of 60 s
    desk.tick(T0 + late)
    assert [one.ordinal for one in desk.occurrences()] == ordinals


def test_of_several_due_slots_those_within_the_grace_are_not_late(desk: Desk) -> None:
    desk.declare(minutely(misfire="skip", overlap="queue"))  # a grace of 60 s
    desk.tick(T0 + 2 * MINUTE)
    assert desk.ranges() == [(0, 0, "misfire")]
    assert [one.ordinal for one in desk.occurrences()] == [1, 2], "exactly the grace is on time"


def test_skip_records_one_skipped_occurrence_and_goes_on_after_now(desk: Desk) -> None:
    desk.declare(minutely(HOUR, misfire="skip"))
    desk.tick(T0 + 3 * HOUR - 1)
    assert (desk.occurrences(), desk.ranges(), desk.view().used) == ([], [(0, 2, "misfire")], 1)
    assert desk.view().next_due == T0 + 3 * HOUR


def test_run_once_enqueues_one_missed_occurrence_and_goes_on_after_now(desk: Desk) -> None:
    desk.declare(minutely(HOUR, misfire="runOnce"))
    desk.tick(T0 + 3 * HOUR - 1)
    assert [(one.ordinal, one.represents_first, one.state) for one in desk.occurrences()] == [(2, 0, "ready")]
    assert desk.view().next_due == T0 + 3 * HOUR


def test_catch_up_keeps_successive_due_times_so_many_a_tick_within_the_occurrence_limit(desk: Desk) -> None:
    desk.declare(minutely(HOUR, misfire="catchUp", maxCatchUp=2, maxOccurrences=5, overlap="queue"))
    seen = []
    for _ in range(4):
        desk.tick(T0 + 9 * HOUR)
        seen.append([one.ordinal for one in desk.occurrences()])
    assert seen == [[0, 1], [0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    assert (desk.view().state, desk.ranges()) == ("ended", [(5, 9, "maxOccurrences")])


def test_ten_missed_occurrences_a_tick_are_caught_up_with_unless_declared_otherwise(desk: Desk) -> None:
    desk.declare(minutely(HOUR, misfire="catchUp", overlap="queue"))
    desk.tick(T0 + 30 * HOUR)
    assert len(desk.occurrences()) == 10


def test_overlap_applies_to_missed_occurrences_too(desk: Desk) -> None:
    desk.declare(minutely(HOUR, misfire="catchUp", overlap="skip"))
    desk.tick(T0 + 5 * HOUR)
    assert [one.ordinal for one in desk.occurrences()] == [0]
    assert desk.ranges() == [(1, 5, "overlap")]


# --- expiry, pause, resume, cancel ------------------------------------------------------------------------------------


def test_past_its_expiry_nothing_is_dispatched_what_waits_is_skipped_and_what_runs_may_finish(desk: Desk) -> None:
    desk.declare(minutely(overlap="queue", expiresAt=to_rfc3339(T0 + MINUTE)))
    desk.tick(T0)
    (running,) = desk.begin()
    desk.tick(T0 + MINUTE)  # due exactly at the expiry is allowed
    assert [one.state for one in desk.occurrences()] == ["running", "waiting"]
    desk.tick(T0 + MINUTE + 1)
    desk.finish(succeeded(running, desk.now))
    assert desk.states() == [(0, "succeeded", None), (1, "skipped", "expired")]
    assert desk.claim() == []


def test_a_pause_stops_collection_and_queued_dispatch_and_lets_the_active_job_finish(desk: Desk) -> None:
    desk.declare(minutely(overlap="queue"))
    desk.tick(T0)
    (running,) = desk.begin()
    desk.tick(T0 + MINUTE)
    desk.app.pause("a")
    desk.tick(T0 + 2 * MINUTE)
    desk.finish(succeeded(running, desk.now))
    assert desk.claim() == []
    assert [one.state for one in desk.occurrences()] == ["succeeded", "ready"], "and nothing new was collected"


@pytest.mark.parametrize(
    ("misfire", "after"),
    [
        ("skip", []),
        ("runOnce", [2]),
        ("catchUp", [0, 1, 2]),
    ],
)
def test_resume_applies_the_declared_misfire_policy(desk: Desk, misfire: str, after: list[int]) -> None:
    desk.declare(minutely(HOUR, misfire=misfire, overlap="queue"))
    desk.app.pause("a")
    desk.now = T0 + 3 * HOUR - 1
    desk.app.resume("a")
    desk.tick()
    assert [one.ordinal for one in desk.occurrences()] == after


def test_cancel_cancels_queued_work_and_asks_the_active_job_to_stop_at_the_owners_next_look(desk: Desk) -> None:
    from calsched.stores.claim import cancel_requested

    desk.declare(minutely(overlap="queue"))
    desk.tick(T0)
    (running,) = desk.begin()
    desk.tick(T0 + MINUTE)
    desk.app.cancel("a")
    assert desk.states() == [(0, "running", None), (1, "cancelled", "cancelled")]
    with desk.store.read() as conn:
        assert cancel_requested(desk.store, conn, epoch=desk.epoch) == {running.occurrence}
    desk.finish(succeeded(running, desk.now)._replace(state="cancelled"))
    with pytest.raises(MoveNotAllowed, match="stays cancelled"):
        desk.app.enable("a")


@pytest.mark.parametrize("action", ["pause", "cancel", "delete", "update"])
def test_a_stale_revision_is_refused(desk: Desk, action: str) -> None:
    desk.declare(minutely())
    desk.app.update("a", b'{"graceSeconds": 5}', format="json", revision=1)
    before = desk.rows()
    arguments = ("a", b'{"graceSeconds": 6}') if action == "update" else ("a",)
    more = {"format": "json"} if action == "update" else {}
    with pytest.raises(StaleVersion, match="expected revision 1, but it is 2"):
        getattr(desk.app, action)(*arguments, revision=1, **more)
    assert desk.rows() == before


# --- recovery, output, inspection -------------------------------------------------------------------------------------


def test_an_occurrence_has_one_identity_for_its_schedule_revision_and_due_instant(desk: Desk) -> None:
    desk.declare(minutely())
    desk.tick(T0)
    (before,) = desk.occurrences()
    desk.run()
    desk.own_again()
    desk.tick()
    (after,) = desk.occurrences()
    assert (after.key, after.due) == (before.key, before.due)
    o = desk.store.tables.occurrences
    with pytest.raises(IntegrityError), desk.store.write() as conn:  # the database itself knows no second one
        row = conn.execute(select(o)).mappings().one()
        conn.execute(o.insert().values({**row, "pk": None, "ordinal": 7, "active_slot": None}))


def test_a_claim_is_committed_before_its_task_starts(working: Desk) -> None:
    seen: list[str] = []

    def look() -> None:
        other = Store(working.url)  # as another process sees it
        other.open()
        with other.read() as conn:
            seen.append(conn.execute(select(other.tables.occurrences.c.state)).scalar_one())
        other.dispose()

    _tasks.act["run"] = look
    working.declare(minutely(HOUR, task="tests.seeds._tasks:run"))
    working.tick(T0)
    working.work()
    assert seen == ["running"]


def test_a_crash_while_a_task_ran_leaves_an_interrupted_occurrence_and_evidence_and_no_second_run(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    code = f"""
import os, signal
from pathlib import Path
from calsched.settings import Settings
from tests.seeds import _tasks
from tests.seeds._helpers import Desk
from tests.seeds.test_003_scheduled_execution import minutely
from tests.stores._helpers import HOUR, T0
desk = Desk(Path({str(tmp_path)!r}), settings=Settings(workspaces=Path({str(tmp_path / "ws")!r})))
desk.declare(minutely(HOUR, task="tests.seeds._tasks:run"))
_tasks.act["run"] = lambda: os.kill(os.getpid(), signal.SIGKILL)
desk.tick(T0)
desk.work()
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, timeout=60, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    desk = Desk(tmp_path, now=T0 + MINUTE, settings=Settings(workspaces=tmp_path / "ws"))
    assert desk.url == url
    desk.tick()
    assert desk.work() == []
    one = desk.one()
    assert (one.state, one.attempts[0].uncertain) == ("interrupted", True)
    receipts = (folder(str(tmp_path / "ws"), one.key) / "receipts.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in receipts] == ["began"], "it began, and nobody knows how it ended"
    desk.close()


def test_an_execution_workspace_below_occurrences_keeps_input_log_receipts_and_result(
    working: Desk, tmp_path: Path
) -> None:
    task = {"callable": "tests.seeds._tasks:echo", "args": [DOCUMENT], "verify": "tests.seeds._tasks:is_document"}
    working.declare(minutely(HOUR, task=task))
    working.tick(T0)
    working.work()
    path = folder(str(tmp_path / "ws"), working.one().key)
    assert path.is_relative_to(tmp_path / "ws" / "occurrences")
    assert json.loads((path / "input.json").read_text())["task"]["args"] == [DOCUMENT]
    assert json.loads((path / "result.json").read_text()) == DOCUMENT
    began, ended = (json.loads(line) for line in (path / "receipts.jsonl").read_text().splitlines())
    assert (began["event"], ended["event"], ended["state"], ended["verified"]) == ("began", "ended", "succeeded", True)
    assert "attempt 1 ended: succeeded" in (path / "log.txt").read_text()


def test_a_file_that_a_task_leaves_is_not_enough_its_result_must_be_accepted(working: Desk, tmp_path: Path) -> None:
    task = {"callable": "tests.seeds._tasks:log_and_leave", "verify": "tests.seeds._tasks:is_document"}
    working.declare(minutely(HOUR, task=task))
    working.tick(T0)
    working.work()
    one = working.one()
    path = folder(str(tmp_path / "ws"), one.key)
    assert (path / "figures.csv").exists()
    assert one.state == "failed"
    assert one.error is not None and "did not accept the result" in one.error
    assert not (path / "result.json").exists()
    assert "WARNING task: half way" in (path / "log.txt").read_text()


CHECKED = {"callable": "seed_jobs:run", "verify": "seed_jobs:even"}


def test_inspection_tells_task_plan_and_job_the_workspace_the_status_verification_and_faults(
    cli: CommandLine, tmp_path: Path
) -> None:
    ready_cli(cli)
    cli.write("calsched.toml", TOML + 'workspaces = "ws"\n')
    cli.write("schedule.json", json.dumps({"id": "a", "every": "1s", "task": CHECKED}))
    cli("create", "schedule.json")
    while not (told := cli.json("show", "a"))["history"]["entries"]:
        cli("tick")
    assert told["schedule"]["definition"]["task"]["callable"] == "seed_jobs:run"
    assert told["schedule"]["digest"].startswith("sha256:")
    one = told["history"]["entries"][-1]
    assert json.loads(one["key"])[1:] == ["default", "a", 1, str(one["ordinal"])]
    assert one["workspace"] == str(folder(str(tmp_path / "ws"), one["key"]))
    assert Path(one["workspace"], "input.json").exists()
    assert (one["state"], one["attempts"][0]["state"]) == ("failed", "failed")
    assert one["errorType"].endswith("NotVerified")
    assert "did not accept the result 3" in one["error"]


def test_clients_control_schedules_while_an_owner_runs(tmp_path: Path) -> None:
    from calsched.app import App

    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with _serving(url) as server:
        app = App(url)
        app.create(json.dumps({"id": "a", "every": "1h", "task": "tests.seeds._tasks:echo"}).encode(), format="json")
        app.preview(json.dumps({"id": "b", "every": "1h", "task": "jobs:run"}).encode(), Span(count=1), "json")
        assert app.list().owned
        app.show("a")
        app.update("a", b'{"every": "2h"}', format="json")
        app.pause("a")
        app.resume("a")
        app.cancel("a")
        app.delete("a")
        assert app.list().schedules == ()
        assert server.health().role == "owner"
        app.close()


def test_a_deletion_removes_schedule_and_occurrences_and_keeps_the_evidence(working: Desk, tmp_path: Path) -> None:
    working.declare(minutely(HOUR))
    working.tick(T0)
    working.work()
    path = folder(str(tmp_path / "ws"), working.one().key)
    working.app.delete("a")
    t = working.store.tables
    with working.store.read() as conn:
        for table in (t.schedules, t.revisions, t.occurrences, t.attempts, t.ranges):
            assert conn.execute(table.select()).all() == []
    assert {file.name for file in path.iterdir()} == {"input.json", "log.txt", "receipts.jsonl", "result.json"}
    assert working.decisions() == ["create", "delete"]


@pytest.mark.parametrize("state", ["waiting", "running", "retrying"])
def test_pending_work_is_finished_or_cancelled_before_a_deletion_or_a_revision(desk: Desk, state: str) -> None:
    desk.declare(minutely(HOUR, maxRetries=1))
    desk.tick(T0)
    if state != "waiting":
        (taken,) = desk.begin()
    if state == "retrying":
        desk.finish(failed(taken, desk.now))
    before = desk.rows()
    with pytest.raises(PendingWork):
        desk.app.delete("a")
    with pytest.raises(PendingWork):
        desk.app.update("a", b'{"graceSeconds": 5}', format="json")
    assert desk.rows() == before


def test_a_revision_reactivates_with_a_fresh_count_and_the_next_trigger_from_now_on(desk: Desk) -> None:
    desk.declare(minutely(HOUR, maxOccurrences=1))
    desk.tick(T0)
    desk.run()
    assert desk.view().state == "ended"
    desk.now = T0 + 5 * HOUR + MINUTE
    view = desk.app.update("a", b'{"maxOccurrences": 3}', format="json")
    assert (view.revision, view.state, view.used, view.next_due) == (2, "enabled", 0, T0 + 6 * HOUR)
    exactly = desk.app.update("a", json.dumps({"graceSeconds": 3}).encode(), format="json")
    assert exactly.next_due == T0 + 6 * HOUR


# --- a store that is not as it should be ------------------------------------------------------------------------------


def everything(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}


def test_a_damaged_file_stops_controls_and_is_left_as_it_is(cli: CommandLine, tmp_path: Path) -> None:
    ready_cli(cli)
    for n in range(60):
        cli.write(f"many/{n}.json", FILE.replace('"a"', f'"job-{n}"'))
    cli("create", "many")
    file = tmp_path / "calsched.db"
    pages = bytearray(file.read_bytes())
    pages[4096:] = b"\xff" * (len(pages) - 4096)  # all but the header and the schema
    file.write_bytes(pages)
    before = file.read_bytes()
    for command in (["pause", "job-1"], ["cancel", "job-2"], ["delete", "job-3"], ["list"]):
        cli(*command, code=3)
    assert file.read_bytes() == before


def test_an_altered_definition_is_not_run_and_not_enabled_and_nothing_of_it_is_removed(working: Desk) -> None:
    working.declare(minutely(HOUR))
    r = working.store.tables.revisions
    with working.store.write() as conn:
        text = conn.execute(select(r.c.definition)).scalar_one()
        conn.execute(update(r).values(definition=text.replace("_tasks:echo", "_tasks:fail")))
    working.store.compiled.forget()
    working.now = T0 + MINUTE
    assert working.work() == []
    view = working.app.get("a")
    assert (view.state, view.reason, view.definition) == ("paused", "invalid", None)
    assert view.problem is not None and "not the one that was registered" in view.problem
    with pytest.raises(CalschedError, match="cannot be used"):
        working.app.enable("a")
    with working.store.read() as conn:
        assert len(conn.execute(r.select()).all()) == 1
    assert _tasks.said == []


@pytest.mark.parametrize(
    "values",
    [{"state": "asleep"}, {"state": "paused", "reason": None}, {"next_ordinal": -1}, {"state": "disabled"}],
    ids=["unknown state", "paused without a reason", "negative ordinal", "disabled and due"],
)
def test_a_state_that_cannot_be_is_refused_by_the_database(desk: Desk, values: dict[str, Any]) -> None:
    desk.declare(minutely())
    before = desk.rows()
    with pytest.raises(IntegrityError), desk.store.write() as conn:
        conn.execute(update(desk.store.tables.schedules).values(values))
    assert desk.rows() == before


def test_a_store_of_another_version_is_refused(desk: Desk) -> None:
    m = desk.store.tables.meta
    with desk.store.write() as conn:
        for name in ("schema_version", "compatible_since"):
            conn.execute(update(m).where(m.c.name == name).values(value="7"))
    before = desk.rows()
    with pytest.raises(StoreUnusable, match="version"):
        Store(desk.url).open()
    assert desk.rows() == before


def test_one_runner_owns_a_store_while_others_control_it(tmp_path: Path) -> None:
    from calsched.app import App

    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with _serving(url), pytest.raises(OwnedElsewhere):
        other = Store(url)
        try:
            Server(other, Settings(), allow=AllowList(["tests.seeds._tasks:*"])).run()
        finally:
            App(store=other).create(b'{"id": "a", "every": "1h", "task": "jobs:run"}', format="json")
            other.dispose()


def test_the_owners_lock_is_the_operating_systems_and_goes_with_its_process(tmp_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from calsched.stores.lock import OwnerLock
OwnerLock(Path({str(tmp_path / "ledger.db")!r}), "first").acquire()
os.kill(os.getpid(), signal.SIGKILL)
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60)
    assert ran.returncode == -signal.SIGKILL
    from calsched.stores.lock import OwnerLock

    lock = OwnerLock(tmp_path / "ledger.db", "second")
    lock.acquire()
    lock.release()
