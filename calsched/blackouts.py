"""The blackouts that a definition declares: windows in which nothing of its schedule is dispatched.

Two forms, both with an optional ``note`` and ``whenDue`` (``hold``, the default, or ``skip``)::

    {"from": INSTANT, "to": INSTANT}                        once; INSTANT is milliseconds or RFC 3339
    {"trigger": {…}, "durationSeconds": 7200}               from each instant of the trigger on, for two hours

A window is over at its end: work may start exactly then.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from calsched.clock import to_millis
from calsched.model import Definition
from calsched.plan_writer import SlotSource
from calsched.policies.blackout import WhenDue, Window, covering

#: Windows of one recurring blackout that one look reaches over.
MAX_WINDOWS = 1000


def held_until(d: Definition, instant: int) -> int:
    """The instant itself, or the end of the blackouts that hold it (of ``MAX_WINDOWS`` at most, one after another)."""
    for _ in range(MAX_WINDOWS):
        window = blackout_at(d, instant)
        if window is None or window.when_due != "hold":
            break
        instant = window.end
    return instant


def blackout_at(d: Definition, instant: int) -> Window | None:
    """The declared blackout around an instant, the one that ends last where there are several."""
    return covering(windows(d, instant, instant)[0], instant)


def windows(d: Definition, first: int, last: int, only: WhenDue | None = None) -> tuple[list[Window], int | None]:
    """The blackouts that reach into [first, last]; and the instant from which on none was looked up, if any."""
    found: list[Window] = []
    stop: int | None = None
    for plain in d.blackouts:
        if only not in (None, plain.get("whenDue", "hold")):
            continue
        if "trigger" not in plain:
            found.append(_window(plain, instant_of(plain["from"]), instant_of(plain["to"])))
            continue
        starts, ended = _starts(plain, first, last)
        length = round(plain["durationSeconds"] * 1000)
        found += [_window(plain, start, start + length) for start in starts]
        stop = ended if stop is None else stop if ended is None else min(stop, ended)
    return [window for window in found if window.end > first and window.start <= last], stop


def _starts(plain: Mapping[str, Any], first: int, last: int) -> tuple[list[int], int | None]:
    """Starts of a recurring blackout, from the last one at or before ``first``; and the first one left out, if any."""
    from calsched.triggers import build

    trigger: SlotSource = build(plain["trigger"])
    starts: list[int] = []
    start = trigger.last_at_or_before(first)
    if start is None:
        start = trigger.first_at_or_after(first)
    while start is not None and start <= last:
        if len(starts) == MAX_WINDOWS:
            return starts, start
        starts.append(start)
        start = trigger.next_after(start)
    return starts, None


def _window(plain: Mapping[str, Any], start: int, end: int) -> Window:
    return Window(start, end, plain.get("whenDue", "hold"), plain.get("note", ""))


def instant_of(value: int | str) -> int:
    """An instant of a stored blackout: milliseconds, or RFC 3339."""
    return value if isinstance(value, int) else to_millis(datetime.fromisoformat(value))
