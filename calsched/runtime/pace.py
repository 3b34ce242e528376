"""How far ahead an owner claims: about as fast as its executors finish, measured, never guessed.

A pool that is busy with hour-long tasks must not hold work that another owner could start; a pool of no-ops must not
wait for the next claim. Both follow from one measure: how many tasks ended in the last moments. Pure: the monotonic
time (in milliseconds) comes in from outside.
"""

from __future__ import annotations

#: Claim for this long ahead.
HORIZON = 250
#: Never hold more than this.
MOST = 1_000
#: A measure shorter than this says nothing.
SAMPLE = 40
#: How many started occurrences a worker may be given, by the mean time (ms) of a task. What is marked running but has
#: not begun is called interrupted after a crash, so it is two while a task takes any time at all; more only where the
#: whole window is over before the next commit.
WINDOWS = ((3, 4), (500, 2))
#: While the workers run dry before the next commit, each may be given four times as many, up to this: some 80 ms of
#: tasks that do nothing. Tasks that take any time never get there: no commit takes as long as that many of them.
WIDEST = 64
#: No task that takes longer (ms) waits in a widened window.
SHORT = 30


class Pace:
    """Completions of one executor over time."""

    __slots__ = ("_count", "_each", "_elapsed", "_known", "_last", "_rate", "_since")

    def __init__(self, now: int) -> None:
        self._since = now
        self._count = 0
        self._rate = 0.0  # completions in a millisecond
        self._elapsed = 0.0  # mean time of a task
        self._known = False
        self._each = 1
        self._last = now

    def finished(self, n: int, elapsed: int, now: int) -> None:
        """``n`` tasks ended, together they took ``elapsed`` milliseconds."""
        mean = elapsed / n
        if now - self._last > 1_000:
            self._each = 1
        self._last = now
        self._elapsed = mean if not self._known else (3 * self._elapsed + mean) / 4
        self._known = True
        self._count += n
        span = now - self._since
        if span < SAMPLE:
            return
        measured = self._count / span
        self._rate = measured if span > 1_000 or not self._rate else (self._rate + measured) / 2
        self._since, self._count = now, 0

    def woke(self, now: int) -> None:
        """Work begins after a lull: the time without work says nothing about the pace."""
        if not self._count:
            self._since = now

    def look_ahead(self, now: int) -> int:
        """How many occurrences beyond the start window to hold."""
        span = now - self._since
        rate = self._rate
        if not rate:
            return min(MOST, 2 * self._count) if span < 1_000 else 0
        if span > SAMPLE:
            rate = min(rate, max(self._count / span, rate * 0.5 ** (span / 200)))
        return min(MOST, int(rate * HORIZON))

    def window(self, workers: int) -> int:
        """How many occurrences may be marked running: one for each worker while nothing is known, or tasks are long."""
        if not self._known:
            return workers
        each = next((each for longest, each in WINDOWS if self._elapsed < longest), 1)
        return workers * (max(each, self._each) if self._elapsed < SHORT else each)

    def ran_dry(self, workers: int) -> None:
        """The whole window was over before anybody looked."""
        self._each = min(WIDEST, 4 * self.window(workers) // workers)

    def forget(self) -> None:
        """What was known of its tasks is true no more: one for each worker, until one has ended."""
        self._known, self._each = False, 1

    def falls_behind(self) -> None:
        """Much of the window waits still."""
        self._each = max(1, self._each // 2)
