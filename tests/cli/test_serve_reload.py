"""serve DIR follows its files: what changes is applied, what is bad is told and changes nothing, SIGHUP asks for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.cli.conftest import CommandLine
from tests.cli.test_serve import Host

ONE = "schedules: {one: {every: 1h, task: jobs:quick}}\n"
TWO = "schedules: {one: {every: 1h, task: jobs:quick}, two: {every: 1s, task: jobs:quick}}\n"
BAD = "schedules:\n  one: {every: 1h, task: jobs:quick}\n  two: {every: 1x, task: jobs:quick}\n"


@pytest.fixture
def host(cli: CommandLine) -> Iterator[Host]:
    made = Host(cli)
    cli.write("schedules/s.yaml", ONE)
    yield made
    for process in made.processes:
        if process.poll() is None:
            process.kill()
        process.wait()


def put(host: Host, text: str) -> None:
    """In one step: an owner may look between the two of an ordinary write."""
    host.cli.write("schedules/s.yaml.new", text)
    os.replace(host.folder / "schedules/s.yaml.new", host.folder / "schedules/s.yaml")


def test_files_that_change_are_applied_and_bad_ones_leave_all_as_it_was(host: Host) -> None:
    owner = host.serve("schedules")
    host.until(lambda: "serves sqlite" in host.log(), "a start")
    host.cli("pause", "one")
    put(host, BAD)
    host.until(lambda: "s.yaml:3: schedules.two.every:" in host.log(), "the problem of the bad file")
    host.until(lambda: "nothing was applied, the schedules stay as they were" in host.log(), "its end")
    assert [one["id"] for one in host.cli.json("list")["schedules"]] == ["one"]
    put(host, TWO)
    host.until(lambda: "two: create" in host.log(), "the mended file")
    host.until(lambda: "succeeded" in host.states("two"), "a run of the new schedule")
    assert host.cli.json("show", "one")["schedule"]["state"] == "paused"
    assert host.cli.json("show", "two")["decisions"][0]["note"] == "applied by serve, because the files changed"
    assert host.log().count("1 problem: nothing was applied") == 1
    owner.send_signal(signal.SIGTERM)
    assert owner.wait(20) == 0


def test_a_hangup_applies_the_files_and_does_not_end_the_owner(host: Host) -> None:
    owner = host.serve("schedules")
    host.until(lambda: "serves sqlite" in host.log(), "a start")
    owner.send_signal(signal.SIGHUP)
    host.until(lambda: "the files have been applied" in host.log(), "an answer to the signal")
    owner.send_signal(signal.SIGTERM)
    assert owner.wait(20) == 0


def test_a_task_that_goes_to_another_folder_takes_no_file_away(host: Host) -> None:
    host.cli.write("jobs.py", "import os\ndef quick(): pass\ndef away(): os.chdir('/')\n")
    host.cli.write("later.py", "def quick(): pass\n")
    put(host, "schedules: {away: {every: 1s, task: jobs:away}}\n")
    host.serve("schedules", "--allow", "jobs:*", "--allow", "later:*")
    host.until(lambda: "away #0" in host.log() and "succeeded" in host.states("away"), "a run that changes the folder")
    put(host, "schedules: {away: {every: 1h, task: jobs:away}, two: {every: 1s, task: later:quick}}\n")
    host.until(lambda: "two: create" in host.log(), "the changed file")
    host.until(lambda: "succeeded" in host.states("two"), "a run of the new schedule")
