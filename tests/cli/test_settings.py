from __future__ import annotations

from pathlib import Path

import pytest

from calsched.errors import InvalidInput
from calsched.settings import ExecutorSetting, Settings, documented, flag_of, load, shown_url, variable_of

LEASE = "leaseSeconds: expected seconds from 1 to 3,600"


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "calsched.toml"
    file.write_text(text)
    return file


def problems(directory: Path, environ: dict[str, str] | None = None, **flags: object) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        load(directory, environ or {}, flags)
    return [str(problem).replace(f"{directory}/", "") for problem in caught.value.problems]


def test_without_any_word_the_store_is_a_file_in_the_working_directory(tmp_path: Path) -> None:
    assert load(tmp_path, {}) == Settings(store=f"sqlite:///{tmp_path}/calsched.db", python_path=(tmp_path,))


def test_the_file_of_a_parent_is_found_and_its_paths_lie_beside_it(tmp_path: Path) -> None:
    file = write(tmp_path, 'store = "sqlite:///data/own.db"\nschedules = ["plans"]\nworkspaces = "ws"\n')
    got = load(_below(tmp_path), {})
    assert got.file == file
    assert got.store == f"sqlite:///{tmp_path}/data/own.db"
    assert got.schedules == (tmp_path / "plans",)
    assert got.workspaces == tmp_path / "ws"
    assert got.python_path == (tmp_path,)


def _below(folder: Path) -> Path:
    below = folder / "a" / "b"
    below.mkdir(parents=True)
    return below


def test_a_variable_overrides_the_file_and_a_flag_overrides_both(tmp_path: Path) -> None:
    write(tmp_path, 'namespace = "file"\nworkers = 3\npollSeconds = 2.5\n')
    environ = {"CALSCHED_NAMESPACE": "variable", "CALSCHED_WORKERS": "4", "CALSCHED_ALLOW": "jobs:*, other:run"}
    got = load(tmp_path, environ, {"namespace": "flag", "workers": None})
    assert (got.namespace, got.workers, got.poll_interval) == ("flag", 4, 2_500)
    assert got.allow == ("jobs:*", "other:run")


def test_a_store_of_a_variable_is_relative_to_the_working_directory(tmp_path: Path) -> None:
    write(tmp_path, "")
    below = _below(tmp_path)
    assert load(below, {"CALSCHED_STORE": "sqlite:///x.db"}).store == f"sqlite:///{below}/x.db"


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:////abs/x.db", "postgresql://h/db"])
def test_urls_that_are_not_relative_files_stay_as_they_are(tmp_path: Path, url: str) -> None:
    assert load(tmp_path, {"CALSCHED_STORE": url}).store == url


def test_executors_and_minimum_intervals_are_tables(tmp_path: Path) -> None:
    write(
        tmp_path, 'executors.cpu = {kind = "processes", workers = 2}\n[minimumIntervalSeconds]\n"*" = 60\nops = 0.5\n'
    )
    got = load(tmp_path, {})
    assert got.executors == {"cpu": ExecutorSetting("processes", 2)}
    assert (got.minimum_interval_of("ops"), got.minimum_interval_of("other")) == (500, 60_000)


def test_every_problem_is_told_at_once_with_its_place(tmp_path: Path) -> None:
    write(
        tmp_path,
        'stor = "sqlite:///x.db"\nworkers = 0\nallow = ["os", "jobs:*"]\nzoneSource = "local"\n'
        '[executors]\ncpu = {kind = "gpu"}\n',
    )
    assert problems(tmp_path, {"CALSCHED_LEASE_SECONDS": "soon", "CALSCHED_STORE": "nonsense"}, namespace="") == [
        "calsched.toml:1: stor: unknown setting (did you mean 'store'?)",
        "calsched.toml:2: workers: expected a whole number from 1 to 10,000, got 0",
        "calsched.toml:3: allow: expected 'module:name' or 'module:*', got 'os'",
        "calsched.toml:4: zoneSource: expected package or system, got 'local'",
        "calsched.toml:5: executors: cpu: expected threads or processes or asyncio, got 'gpu'",
        "CALSCHED_STORE: expected a database URL such as 'sqlite:///calsched.db', got 'nonsense'",
        "CALSCHED_LEASE_SECONDS: expected seconds from 1 to 3,600, got 'soon'",
        "--namespace: expected 1 to 128 characters without control characters, got ''",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("store = ", "calsched.toml: not TOML: Invalid value (at end of document)"),
        ("a = " + "[" * 5_000, "calsched.toml: nested too deeply"),
        ("workers = nan", "calsched.toml:1: workers: expected a whole number from 1 to 10,000, got nan"),
        ("pollSeconds = inf", "calsched.toml:1: pollSeconds: expected seconds from 0.01 to 3,600, got inf"),
        ("workers = true", "calsched.toml:1: workers: expected a whole number from 1 to 10,000, got True"),
        # a number that no setting means, cut short
        (f"leaseSeconds = {'9' * 99}", f"calsched.toml:1: {LEASE}, got {'9' * 57}…"),
        ("#" + " " * 1_000_000, "calsched.toml: larger than 1,000,000 bytes"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, text)
    assert problems(tmp_path) == [message]


def test_a_file_that_is_not_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "calsched.toml").write_bytes(b"\xff\xfe")
    assert problems(tmp_path) == ["calsched.toml:1: not UTF-8 text; save it as UTF-8"]


def test_a_config_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert problems(tmp_path, config="nowhere.toml") == ["--config: there is no file 'nowhere.toml'"]


def test_a_password_is_not_shown() -> None:
    assert shown_url("postgresql+psycopg://app:s3c:ret@host/db") == "postgresql+psycopg://app:***@host/db"
    assert shown_url("sqlite:////x.db") == "sqlite:////x.db"


def test_names_of_variables_and_flags_follow_the_key() -> None:
    assert (variable_of("stopSeconds"), flag_of("stopSeconds")) == ("CALSCHED_STOP_SECONDS", "--stop-seconds")
    assert ("store", "CALSCHED_STORE") in [(name, variable) for name, _, variable in documented()]
    assert ("executors", None) in [(name, variable) for name, _, variable in documented()]
