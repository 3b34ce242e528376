"""Files that change are applied again, on SIGHUP too; bad ones are told, and nothing else happens to them."""

from __future__ import annotations

import logging
import os
import queue
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calsched.errors import InvalidInput, Problem, Refused, StoreUnreachable
from calsched.runtime import reload
from calsched.runtime.reload import Reloader, fingerprint

PATIENCE = 20.0


class Applied:
    """Stands for applying: says what the files were each time, and raises what it is told to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.raises: list[Exception] = []

    def __call__(self) -> None:
        self.seen.put(" ".join(sorted(file.read_text() for file in self.folder.glob("*.yaml"))))
        if self.raises:
            raise self.raises.pop(0)

    def next(self) -> str:
        return self.seen.get(timeout=PATIENCE)

    def until(self, expected: str) -> None:
        """An editor's or a copy's steps may be seen one by one; the last one counts."""
        while self.next() != expected:
            pass


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change between the start and the first notification is seen by looking; tests do not wait five seconds."""
    monkeypatch.setattr(reload, "LOOK", 0.2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "schedules"
    made.mkdir()
    (made / "a.yaml").write_text("one")
    return made


@pytest.fixture
def applied(folder: Path) -> Applied:
    return Applied(folder)


@pytest.fixture
def reloader(folder: Path, applied: Applied, caplog: pytest.LogCaptureFixture) -> Iterator[Reloader]:
    caplog.set_level(logging.INFO, "calsched.serve")
    with Reloader([folder], applied).running() as made:
        yield made


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "calsched.serve"]


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_file_that_is_written_added_or_removed_is_a_change(
    reloader: Reloader, applied: Applied, folder: Path
) -> None:
    (folder / "a.yaml").write_text("two")
    applied.until("two")
    (folder / "b.yaml").write_text("more")
    applied.until("more two")
    (folder / "a.yaml").unlink()
    applied.until("more")


def test_a_notification_is_enough(folder: Path, applied: Applied, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload, "LOOK", 3_600.0)
    with Reloader([folder], applied).running() as reloader:
        for number in range(int(PATIENCE / 0.2)):  # until the watch stands
            (folder / "a.yaml").write_text(f"version {number}")
            try:
                applied.seen.get(timeout=0.2)
                break
            except queue.Empty:
                continue
        else:
            pytest.fail("no notification came")
        assert reloader._threads[1].is_alive()


def test_a_file_that_an_editor_puts_in_place_of_another_is_a_change(folder: Path, applied: Applied) -> None:
    with Reloader([folder / "a.yaml"], applied).running():
        (folder / "a.yaml.new").write_text("two")
        os.replace(folder / "a.yaml.new", folder / "a.yaml")
        applied.until("two")


def test_a_directory_that_is_swapped_by_a_link_is_a_change(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.yaml").write_text(name)
    mount = tmp_path / "mount"
    mount.mkdir()
    os.symlink(tmp_path / "first", mount / "..data")
    os.symlink("..data/a.yaml", mount / "a.yaml")
    applied = Applied(mount)
    with Reloader([mount], applied).running():
        os.symlink(tmp_path / "second", mount / "..new")
        os.replace(mount / "..new", mount / "..data")
        applied.until("second")


def test_a_directory_that_is_replaced_by_another_is_watched_again(folder: Path, applied: Applied) -> None:
    with Reloader([folder], applied).running():
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / "a.yaml").write_text("two")
        applied.until("two")
        (folder / "a.yaml").write_text("three")
        applied.until("three")


def test_a_change_before_the_start_is_not_missed(folder: Path, applied: Applied) -> None:
    reloader = Reloader([folder], applied)
    (folder / "a.yaml").write_text("two, before anybody watched")
    with reloader.running():
        applied.until("two, before anybody watched")


@pytest.mark.parametrize("name", ["calsched.db", "calsched.db-wal", ".a.yaml.swp", "a.yaml~", "calsched.toml", ".git"])
def test_files_that_declare_nothing_are_no_change(folder: Path, name: str) -> None:
    before = fingerprint([folder])
    (folder / name).write_text("x")
    assert fingerprint([folder]) == before


def test_a_calendar_beside_the_declarations_is_a_change(folder: Path) -> None:
    before = fingerprint([folder])
    (folder / "holidays.ics").write_text("x")
    assert fingerprint([folder]) != before
    assert fingerprint([folder / "nothing", folder / "nothing" / "here.yaml"]) == (
        (str(folder / "nothing"), 0, 0, 0), (str(folder / "nothing" / "here.yaml"), 0, 0, 0),
    )  # fmt: skip


# --- asked ------------------------------------------------------------------------------------------------------------


def test_a_hangup_applies_though_nothing_has_changed(
    reloader: Reloader, applied: Applied, caplog: pytest.LogCaptureFixture
) -> None:
    os.kill(os.getpid(), signal.SIGHUP)
    assert applied.next() == "one"
    reloader.stop()
    assert told(caplog) == ["the files have been applied"]


def test_a_hangup_is_what_it_was_when_it_is_over(folder: Path, applied: Applied) -> None:
    before = signal.getsignal(signal.SIGHUP)
    with Reloader([folder], applied).running():
        assert signal.getsignal(signal.SIGHUP) is not before
    assert signal.getsignal(signal.SIGHUP) is before


def test_without_watchfiles_a_hangup_is_the_way(
    folder: Path, applied: Applied, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "calsched.serve")
    monkeypatch.setattr(reload, "_can_watch", lambda: False)
    with Reloader([folder], applied).running():
        assert told(caplog) == ["the extra `watch` is not installed: files are applied again on SIGHUP only"]
        (folder / "a.yaml").write_text("two")
        os.kill(os.getpid(), signal.SIGHUP)
        assert applied.next() == "two"


# --- what goes wrong --------------------------------------------------------------------------------------------------


def failing(reloader: Reloader, applied: Applied, *errors: Exception) -> None:
    applied.raises = [*errors]
    reloader.request()
    applied.next()


def test_bad_files_are_told_whole_and_once_and_good_ones_are_applied_after_them(
    reloader: Reloader, applied: Applied, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = InvalidInput([Problem("unknown key", "a.x", "a.yaml", 3), Problem("task is required", "b", "b.yaml", 1)])
    failing(reloader, applied, bad)
    (folder / "a.yaml").write_text("mended")
    applied.until("mended")
    reloader.stop()
    assert told(caplog) == [
        "a.yaml:3: a.x: unknown key",
        "b.yaml:1: b: task is required",
        "2 problems: nothing was applied, the schedules stay as they were",
    ]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (Refused("no"), "nothing was applied, the schedules stay as they were: no"),
        (RuntimeError("?"), "nothing was applied, by a fault of calsched; the schedules stay as they were"),
    ],
)
def test_nothing_that_goes_wrong_ends_the_reloading(
    reloader: Reloader, applied: Applied, caplog: pytest.LogCaptureFixture, error: Exception, line: str
) -> None:
    failing(reloader, applied, error)
    failing(reloader, applied)
    reloader.stop()
    assert told(caplog) == [line, "the files have been applied"]


def test_a_store_that_is_away_is_tried_again_until_it_answers_and_told_of_once(
    reloader: Reloader, applied: Applied, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload, "AGAIN", 0.01)
    gone: list[Exception] = [StoreUnreachable("gone") for _ in range(3)]
    failing(reloader, applied, *gone)
    for _ in range(3):
        assert applied.next() == "one"
    reloader.stop()
    assert told(caplog) == [
        "the files are applied as soon as the store answers: gone", "the files have been applied",
    ]  # fmt: skip


def test_what_cannot_be_watched_is_looked_at(folder: Path, applied: Applied, monkeypatch: pytest.MonkeyPatch) -> None:
    import watchfiles

    def no_watches_left(*paths: Any, **options: Any) -> Any:
        raise OSError("no space left on device")

    monkeypatch.setattr(watchfiles, "watch", no_watches_left)
    with Reloader([folder], applied).running():
        (folder / "a.yaml").write_text("two")
        applied.until("two")
