"""An owner as a process of its own: it serves, stops, is killed, replaced, controlled, and loses its store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from calsched.cli.common import instant
from calsched.clock import SystemClock
from calsched.stores.lock import is_owned
from tests.cli.conftest import CommandLine

JOBS = """\
    import pathlib, time
    import calsched

    def quick():
        with pathlib.Path("ran.txt").open("a") as out:
            out.write(str(calsched.current_occurrence().key) + chr(10))

    def slow():
        pathlib.Path("slow.txt").touch()
        time.sleep(60)

    def patient():
        flag = calsched.current_occurrence().cancelled
        pathlib.Path("slow.txt").touch()
        while not flag.is_set():
            time.sleep(0.01)

    def failing():
        raise ValueError("\\x1b[31mno figures\\nat all")
    """
SETTINGS = 'store = "sqlite:///calsched.db"\nallow = ["jobs:*"]\npollSeconds = 0.2\nstopSeconds = 5\n'


class Host:
    """A folder with a `calsched.toml` and jobs, and the processes that a test starts in it."""

    def __init__(self, cli: CommandLine) -> None:
        self.cli, self.folder = cli, cli.folder
        self.processes: list[subprocess.Popen[str]] = []
        cli.write("calsched.toml", SETTINGS)
        cli.write("jobs.py", JOBS)

    def serve(self, *args: str) -> subprocess.Popen[str]:
        log = (self.folder / f"log{len(self.processes)}.txt").open("w")
        command = [sys.executable, "-m", "calsched", "serve", *args]
        process = subprocess.Popen(
            command, cwd=self.folder, stderr=log, stdout=subprocess.DEVNULL, text=True, env=_environment()
        )
        log.close()
        self.processes.append(process)
        return process

    def log(self, number: int = 0) -> str:
        return (self.folder / f"log{number}.txt").read_text()

    def until(self, happened: Callable[[], Any], what: str) -> Any:
        """Wait for what a process does; a failure shows the logs."""
        end = time.monotonic() + 40
        while time.monotonic() < end:
            found = happened()
            if found:
                return found
            time.sleep(0.05)
        logs = "\n".join(self.log(number) for number in range(len(self.processes)))
        pytest.fail(f"{what} did not happen\n{logs}")

    def entries(self, id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.cli.json("history", id, "--limit", "1000")["entries"]
        return found

    def states(self, id: str) -> list[str]:
        return [entry["state"] for entry in self.entries(id) if entry["kind"] == "occurrence"]

    def owned(self) -> bool:
        return is_owned(self.folder / "calsched.db")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("CALSCHED_")}


@pytest.fixture
def host(cli: CommandLine) -> Iterator[Host]:
    made = Host(cli)
    yield made
    for process in made.processes:
        if process.poll() is None:
            process.kill()
        process.wait()


def test_an_owner_applies_files_runs_what_is_due_and_stops_in_good_order(host: Host) -> None:
    host.cli.write("s.yaml", "schedules: {fast: {every: 1s, task: jobs:quick}, bad: {every: 1s, task: jobs:failing}}")
    owner = host.serve("s.yaml")
    host.until(lambda: (host.folder / "ran.txt").exists() and "succeeded" in host.states("fast"), "a run")
    host.until(lambda: "failed" in host.states("bad"), "a failure")
    owner.send_signal(signal.SIGTERM)
    assert owner.wait(20) == 0
    log = host.log()
    assert "fast: create" in log and "succeeded after" in log and log.rstrip().endswith("stopped")
    assert "\x1b" not in log and "ValueError: \\x1b[31mno figures" in log
    assert all(line[:4].isdigit() for line in log.splitlines())
    assert host.cli.json("doctor", "--slack", "1h")["ok"] is True
    keys = (host.folder / "ran.txt").read_text().splitlines()
    assert len(set(keys)) == len(keys)
    assert json.loads(keys[0])[1:] == ["default", "fast", 1, "0"]


def test_a_second_owner_is_refused_and_a_standby_takes_over(host: Host) -> None:
    host.cli.write("s.yaml", "schedules: {fast: {every: 1s, task: jobs:quick}}")
    first = host.serve("s.yaml", "--owner-name", "first")
    host.until(host.owned, "ownership")
    refused = host.serve()
    assert refused.wait(20) == 1
    assert f"is owned by first (pid {first.pid}); stop it, or start this one with standby" in host.log(1)
    assert f"is owned by first (pid {first.pid})" in host.cli.errors("tick", code=1)[0]
    waiting = host.serve("--standby", "--owner-name", "second")
    host.until(lambda: "as standby" in host.log(2), "a standby")
    first.kill()
    first.wait()
    host.until(lambda: "second is owner of" in host.log(2), "a takeover")
    before = len(host.states("fast"))
    host.until(lambda: len(host.states("fast")) > before, "a run by the new owner")
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(20) == 0
    assert host.cli.json("doctor", "--slack", "1h")["ok"] is True


def test_a_killed_owner_leaves_an_interrupted_occurrence_that_never_runs_again(host: Host) -> None:
    host.cli.write("s.yaml", "schedules: {slow: {every: 1s, task: jobs:slow}}")
    first = host.serve("s.yaml")
    host.until((host.folder / "slow.txt").exists, "a start")
    first.kill()
    first.wait()
    assert host.cli.json("list")["owned"] is False  # its lease has not run out, but its lock is gone
    (host.folder / "slow.txt").unlink()
    second = host.serve()
    host.until(lambda: "interrupted" in host.states("slow"), "the interruption")
    oldest = host.entries("slow")[-1]
    assert (oldest["ordinal"], oldest["state"], oldest["attempts"][0]["uncertain"]) == (0, "interrupted", True)
    assert "It was interrupted: it had started, and its owner was lost" in host.cli("why", "slow", oldest["due"]).stdout
    second.kill()


def test_controls_of_another_process_are_obeyed(host: Host) -> None:
    host.cli.write("s.yaml", "schedules: {wait: {every: 1h, task: jobs:patient}}")
    host.serve("s.yaml")
    host.until(host.owned, "ownership")
    host.cli("run", "wait")
    host.until((host.folder / "slow.txt").exists, "the extra run")
    host.cli("cancel", "wait", "--note", "enough")
    host.until(lambda: host.states("wait") == ["cancelled"], "the cancellation")


def test_a_clean_stop_asks_running_tasks_to_stop(host: Host) -> None:
    host.cli.write("s.yaml", "schedules: {wait: {every: 1h, task: jobs:patient}}")
    owner = host.serve("s.yaml")
    host.until(host.owned, "ownership")
    host.cli("run", "wait")
    host.until((host.folder / "slow.txt").exists, "the extra run")
    owner.send_signal(signal.SIGTERM)
    assert owner.wait(20) == 0
    assert host.states("wait") == ["interrupted"]


def test_an_owner_that_lost_its_store_ends_with_three(host: Host) -> None:
    owner = host.serve()
    host.until(lambda: "serves" in host.log(), "serving")
    for file in host.folder.glob("calsched.db*"):
        file.unlink()
    assert owner.wait(20) == 3
    assert "was lost" in host.log()


def test_bad_files_keep_an_owner_from_starting_and_write_nothing(host: Host) -> None:
    host.cli.write("s.yaml", "schedules: {fast: {every: 1s, task: jobs:quick}, bad: {every: 0s, task: jobs:nope}}")
    told = host.cli.errors("serve", "s.yaml", code=2)
    assert {line.split(": ")[1] for line in told} == {"schedules.bad.every", "schedules.bad.task"}
    assert host.cli.json("list")["schedules"] == []


def test_a_host_that_allows_nothing_by_name_does_not_start(cli: CommandLine) -> None:
    for command in ("serve", "tick"):
        (line,) = cli.errors(command, code=2)
        assert line.startswith("--allow: this host has not said what schedules may call (--allow 'jobs:*'")
    assert cli.errors("serve", "--allow", "os.system", code=2) == [
        "--allow: expected 'module:name' or 'module:*', got 'os.system'"
    ]


def test_a_tick_runs_what_is_due_and_tells_what_it_committed(host: Host) -> None:
    host.cli.write("s.yaml", "schedules: {fast: {every: 1s, task: jobs:quick}, bad: {every: 1s, task: jobs:failing}}")
    host.cli("create", "s.yaml")
    due = host.cli.json("show", "fast")["schedule"]["nextDue"]
    host.until(lambda: SystemClock().now() > instant(due, "due"), "being due")
    told = {one["id"]: one for one in host.cli.json("tick")["schedules"]}
    assert told["fast"]["occurrences"][0]["due"] == due
    assert [(ran["ordinal"], ran["state"]) for ran in told["fast"]["ran"]] == [(0, "succeeded")]
    assert told["bad"]["ran"][0]["error"].startswith("ValueError: ")
    assert host.states("fast") == ["succeeded"]
    assert (host.folder / "ran.txt").exists()
    assert host.cli.json("doctor", "--slack", "1h")["ok"] is True


def test_a_tick_names_extra_runs_by_their_series_and_a_hold_that_keeps_it_from_running(host: Host) -> None:
    host.cli.write("s.yaml", "schedules: {fast: {cron: '0 0 1 1 *', timezone: UTC, task: jobs:quick}}")
    host.cli("create", "s.yaml")
    host.cli("run", "fast")
    host.cli("backup", "b.jsonl")
    assert host.cli("tick").stdout.startswith("fast\n  manual 0 succeeded after ")
    restored = ("--store", "sqlite:///restored.db")
    host.cli(*restored, "restore", "b.jsonl")
    held = host.cli(*restored, "tick")
    assert (held.stdout, "nothing is dispatched: a backup was restored" in held.stderr) == ("", True)
    assert host.cli.json(*restored, "tick")["hold"] == "restored"


@pytest.mark.parametrize("command", ["serve", "tick"])
def test_jobs_of_a_script_are_left_to_that_script(cli: CommandLine, command: str) -> None:
    assert cli.errors(command, "--allow", "__main__:*", code=2) == [
        "--allow: jobs of __main__ run in the script that added them, nowhere else"
        " (start that script: it owns the store while it runs)"
    ]
    assert not (cli.folder / "calsched.db").exists()


def test_a_list_names_the_script_where_a_command_could_not_run_its_jobs(cli: CommandLine) -> None:
    cli.write("a.yaml", "id: a\nevery: 1h\ntask: __main__:run\n")
    cli("create", "a.yaml")
    told = cli.errors("list", code=0)[1]
    assert told == "  python YOUR_SCRIPT.py  # jobs of __main__ run in the script that added them, nowhere else"
