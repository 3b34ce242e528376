"""Long work tells how far it has come: a bar on a terminal, few lines elsewhere, nothing beside JSON."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from calsched.cli.progress import Lines, progress
from calsched.cli.render import Output
from calsched.testing import SettableClock


class Writer:
    """Lines, with the second in which each was written."""

    def __init__(self) -> None:
        self.clock = SettableClock(0)
        self.lines: list[tuple[int, str]] = []
        self.progress = Lines("prune", lambda text: self.lines.append((self.clock.now() // 1000, text)), self.clock)

    def work(self, total: int | None, steps: int, seconds: float, each: int = 1) -> list[tuple[int, str]]:
        for step in range(1, steps + 1):
            self.clock.advance(seconds)
            self.progress.tell(step * each, total)
        self.progress.end()
        return self.lines


def test_a_line_comes_with_each_tenth_and_the_last_one_once() -> None:
    lines = Writer().work(total=1_000, steps=1_000, seconds=0.2)
    assert lines == [(20 * n, f"prune: {100 * n:,} of 1,000 ({10 * n} %)") for n in range(1, 11)]


def test_fast_work_writes_no_more_than_a_line_a_second() -> None:
    assert Writer().work(total=50, steps=50, seconds=0.01) == [(0, "prune: 50 of 50 (100 %)")]
    lines = Writer().work(total=100, steps=100, seconds=0.035)
    assert [second for second, _ in lines] == [1, 2, 3, 3]  # the last line ends it, and may come sooner
    assert lines[-1][1] == "prune: 100 of 100 (100 %)"


def test_slow_work_shows_that_it_lives() -> None:
    lines = Writer().work(total=10_000, steps=3, seconds=31)
    assert lines == [
        (31, "prune: 1 of 10,000 (0 %)"),
        (62, "prune: 2 of 10,000 (0 %)"),
        (93, "prune: 3 of 10,000 (0 %)"),
    ]


def test_work_of_unknown_size_counts_up_once_a_second() -> None:
    assert Writer().work(total=None, steps=4, seconds=0.5, each=1_000) == [(1, "prune: 2,000"), (2, "prune: 4,000")]


def test_work_that_did_nothing_says_nothing() -> None:
    writer = Writer()
    writer.progress.tell(0, 100)
    writer.progress.end()
    assert writer.lines == []


def test_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(Output(), "restore") as tell:
        tell(3, 3)
    out, err = capsys.readouterr()
    assert (out, err) == ("", "restore: 3 of 3 (100 %)\n")


def test_beside_json_there_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(Output(as_json=True), "restore") as tell:
        tell(3, 3)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar_and_no_escapes_of_others() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, color_system=None, legacy_windows=False)
    with progress(Output(), "backfill \x1b[31mx", console=console) as tell:
        tell(0, None)
        tell(40, 80)
        tell(80, 80)
    shown = screen.getvalue()
    assert "backfill \\x1b[31mx" in shown
    assert "━" in shown
    assert "80/80" in shown


def test_what_goes_wrong_inside_goes_on_and_leaves_the_terminal_as_it_was() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, legacy_windows=False)
    with pytest.raises(KeyboardInterrupt), progress(Output(), "backfill", console=console) as tell:
        tell(1, 2)
        raise KeyboardInterrupt
    assert screen.getvalue().rfind("\x1b[?25h") > screen.getvalue().rfind("\x1b[?25l")  # the cursor is shown again
