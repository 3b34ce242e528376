"""Files that are there and cannot be read: settings, declarations, keys. Each is one problem and exit code 2."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from calsched.declare.read import read_all
from calsched.errors import InvalidInput
from calsched.reading import Unreadable, content
from calsched.settings import load
from tests.cli.conftest import CommandLine

NOBODY = 65534


def _huge(file: Path) -> None:
    with file.open("wb") as out:
        out.truncate(10_000_000)


def _device(file: Path) -> None:
    file.symlink_to("/dev/zero")


MADE: dict[str, tuple[Callable[[Path], object], str]] = {
    "directory": (Path.mkdir, "cannot be read: is a directory"),
    "dangling": (lambda file: file.symlink_to("nowhere"), "cannot be read: no such file or directory"),
    "looping": (lambda file: file.symlink_to(file.name), "cannot be read: too many levels of symbolic links"),
    "pipe": (os.mkfifo, "cannot be read: not an ordinary file"),
    "device": (_device, "cannot be read: not an ordinary file"),
    "not_text": (lambda file: file.write_bytes(b"a: 1\n\xff\xfe"), "not UTF-8 text"),
    "huge": (_huge, "larger than "),
}


@pytest.fixture
def unprivileged() -> Iterator[None]:
    """Root may read everything."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("kind", MADE)
def test_a_settings_file_that_cannot_be_read_is_never_passed_over(cli: CommandLine, kind: str) -> None:
    make, why = MADE[kind]
    make(cli.folder / "calsched.toml")
    below = cli.folder / "below"
    below.mkdir()
    os.chdir(below)
    [line] = cli.errors("list", code=2)
    assert line.startswith(f"{cli.folder}/calsched.toml:")
    assert why in line
    assert not list(cli.folder.rglob("*.db"))


@pytest.mark.parametrize("kind", MADE)
def test_a_named_settings_file_that_cannot_be_read_is_told(cli: CommandLine, kind: str) -> None:
    make, why = MADE[kind]
    make(cli.folder / "own.toml")
    [line] = cli.errors("list", "--config", "own.toml", code=2)
    assert why in line or (kind == "dangling" and line == "--config: there is no file 'own.toml'")


@pytest.mark.parametrize("kind", [kind for kind in MADE if kind != "directory"])
def test_a_declaration_file_that_cannot_be_read_is_told_alone_and_in_a_folder(cli: CommandLine, kind: str) -> None:
    make, why = MADE[kind]
    folder = cli.folder / "plans"
    folder.mkdir()
    make(folder / "a.yaml")
    cli.write("plans/b.yaml", "schedules: {b: {every: 1h, task: jobs:run}}")
    [line] = cli.errors("create", "plans", code=2)
    assert "a.yaml" in line and why in line
    [line] = cli.errors("create", "plans/a.yaml", code=2)
    assert "a.yaml" in line and (why in line or (kind == "looping" and "symbolic links" in line))


@pytest.mark.parametrize("kind", MADE)
def test_a_file_of_trusted_keys_that_cannot_be_read_is_told(cli: CommandLine, kind: str) -> None:
    pytest.importorskip("cryptography")
    cli.write("calsched.toml", 'approvals = "keys.json"')
    cli.write("b.yaml", "schedules: {b: {every: 1h, task: jobs:run}}")
    make, why = MADE[kind]
    make(cli.folder / "keys.json")
    [line] = cli.errors("create", "b.yaml", code=2)
    assert why in line or (kind == "not_text" and "keys.json: expected JSON" in line)


@pytest.mark.parametrize("forbidden", ["calsched.toml", "."])
def test_without_permission_the_settings_are_told_and_not_guessed(
    tmp_path: Path, forbidden: str, request: pytest.FixtureRequest
) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "calsched.toml").write_text("")
    (folder / forbidden).chmod(0)
    request.getfixturevalue("unprivileged")
    for flags in ({}, {"config": str(folder / "calsched.toml")}):
        with pytest.raises(InvalidInput) as caught:
            load(folder, {}, flags)
        [problem] = caught.value.problems
        assert problem.message == "cannot be read: permission denied"
        assert problem.file.endswith("calsched.toml") or (flags and problem.path == "--config")


def test_without_permission_a_folder_of_declarations_is_told(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    folder.chmod(0)
    request.getfixturevalue("unprivileged")
    for source in (folder, folder / "a.yaml", folder / "below"):
        [document] = read_all([source])
        assert document.problems[0].message.lower() == "cannot be read: permission denied"


def test_a_working_directory_that_is_gone_is_told(cli: CommandLine) -> None:
    gone = cli.folder / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    [line] = cli.errors("list", code=2)
    assert line.startswith("the working directory cannot be read: ")


def test_paths_of_settings_may_go_round_in_a_circle_or_to_nobodys_home(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert load(tmp_path, {}, {"store": "sqlite:///loop/a.db"}).store == f"sqlite:///{tmp_path}/loop/a.db"
    with pytest.raises(InvalidInput, match="there is no such user's home"):
        load(tmp_path, {"CALSCHED_WORKSPACES": "~no-such-user/x"})


def test_a_settings_file_of_a_windows_editor_is_read(tmp_path: Path) -> None:
    (tmp_path / "calsched.toml").write_bytes(b"\xef\xbb\xbfworkers = 3\r\n")
    assert load(tmp_path, {}).workers == 3


def test_a_name_that_no_file_can_have_is_told() -> None:
    with pytest.raises(Unreadable, match="no name that a file can have"):
        content(Path("a\0b"), 10)
