"""How far long work has come: a bar on a terminal, a few plain lines elsewhere, nothing beside JSON.

::

    with progress(session.out, "prune") as tell:
        app.prune(..., progress=tell)        # calls tell(done, total) as often as it likes

It speaks on standard error, so that results can be piped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from calsched.cli.render import Output, printable
from calsched.clock import Clock, SystemClock

#: ``tell(done, total)``; the total is None while nobody knows it.
Tell = Callable[[int, int | None], None]

#: Between two plain lines lies a second at least, and a part of the whole: so many lines at most.
SECOND, PARTS = 1_000, 10
#: But never more silence than this, so that a log shows that something lives.
LONGEST_SILENCE = 30_000


@contextmanager
def progress(out: Output, what: str, *, console: Console | None = None, clock: Clock | None = None) -> Iterator[Tell]:
    """Show how far ``what`` has come while the block runs."""
    console = console or Console(file=sys.stderr, markup=False, highlight=False, emoji=False)
    if out.as_json:
        yield lambda done, total: None
    elif console.is_terminal:
        with _bar(console, what) as tell:
            yield tell
    else:
        lines = Lines(what, lambda text: out.error(text, style=""), clock or SystemClock())
        yield lines.tell
        lines.end()


@contextmanager
def _bar(console: Console, what: str) -> Iterator[Tell]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bars:
        bar = bars.add_task(printable(what), total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)


class Lines:
    """Plain lines: ``backfill: 1,200 of 10,000 (12 %)``."""

    def __init__(self, what: str, write: Callable[[str], None], clock: Clock) -> None:
        self._what, self._write, self._clock = what, write, clock
        self._at = clock.monotonic()
        self._said = 0
        self._last: tuple[int, int | None] = (0, None)

    def tell(self, done: int, total: int | None) -> None:
        self._last = done, total
        silent = self._clock.monotonic() - self._at
        if done > self._said and silent >= SECOND and (self._is_a_part_more(done, total) or silent >= LONGEST_SILENCE):
            self._say()

    def _is_a_part_more(self, done: int, total: int | None) -> bool:
        return total is None or done * PARTS // max(total, 1) > self._said * PARTS // max(total, 1)

    def end(self) -> None:
        """The last line, unless it stands there already."""
        if self._last[0] > self._said:
            self._say()

    def _say(self) -> None:
        done, total = self._last
        self._at, self._said = self._clock.monotonic(), done
        part = "" if not total else f" of {total:,} ({done * 100 // total} %)"
        self._write(f"{self._what}: {done:,}{part}")
