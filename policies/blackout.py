"""Windows in which nothing is dispatched: their slots are skipped, or held until the window ends.

A window begins at its start and is over at its end: work may start exactly at the end. Where windows touch or overlap,
held work waits for the end of the last of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

WhenDue = Literal["hold", "skip"]


class Window(NamedTuple):
    start: int
    end: int  # the first instant after it
    when_due: WhenDue = "hold"
    note: str = ""


def covering(windows: Iterable[Window], instant: int) -> Window | None:
    """The window around an instant, that which ends last where there are several; None when there is none."""
    around = [window for window in windows if window.start <= instant < window.end]
    return max(around, key=lambda window: window.end, default=None)


def merged(windows: Sequence[Window]) -> list[Window]:
    """The same instants as windows that neither touch nor overlap, in order. Notes of the first one win."""
    out: list[Window] = []
    for window in sorted(windows):
        if out and window.start <= out[-1].end:
            out[-1] = out[-1]._replace(end=max(out[-1].end, window.end))
        else:
            out.append(window)
    return out
