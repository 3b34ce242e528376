"""What a tick of one schedule costs in the planner, without a store: python tests/benchmarks/bench_planner.py"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import Any

from _report import Scale, Section, printed

from calsched.model import Cursor, Definition, Pending, Task
from calsched.planner import PlanInput, SlotSource, plan
from calsched.triggers import build

EPOCH = 1_767_225_600_000  # 2026-01-01T00:00:00Z
YEAR = 365 * 86_400_000
EVERY_MINUTE = {"kind": "interval", "intervalMs": 60_000}
EVERY_MILLISECOND = {"kind": "interval", "intervalMs": 1}
WEEKDAYS = {"kind": "calendar", "timezone": "America/New_York", "hour": 9, "minute": 0, "weekdays": [0, 1, 2, 3, 4]}


def case(trigger: dict[str, Any], **options: Any) -> PlanInput:
    rule: SlotSource = build(trigger)
    due = rule.first_at_or_after(EPOCH)
    return PlanInput(
        Definition("job", trigger, Task(), **options), rule, Cursor(0, due), 0, options.pop("pending", Pending())
    )


def took(name: str, call: Callable[[], object], number: int) -> None:
    best = min(timeit.repeat(call, number=number, repeat=5)) / number
    print(f"{name:<58} {best * 1e6:10.2f} µs")


def measure(scale: Scale) -> Section:
    section = Section("The planner", "One tick of one schedule, as a pure function, without a store.")
    section.raw = printed(main) if not scale.quick else ""
    return section


def main() -> None:
    minutely, weekdays, fast = case(EVERY_MINUTE), case(WEEKDAYS), case(EVERY_MILLISECOND)
    folding = case(EVERY_MINUTE)._replace(pending=Pending(active=1, free_slots=()))
    due = weekdays.cursor.next_due or 0
    took("one slot on time, nothing pending, interval", lambda: plan(minutely, EPOCH), 50_000)
    took("one slot on time, nothing pending, New York weekdays", lambda: plan(weekdays, due), 50_000)
    took("one slot on time behind running work", lambda: plan(folding, EPOCH), 20_000)
    took("nothing due", lambda: plan(minutely, EPOCH - 1), 50_000)
    took("a year of missed milliseconds", lambda: plan(fast, EPOCH + YEAR), 2_000)
    took("a year of missed New York weekdays", lambda: plan(weekdays, EPOCH + YEAR), 2_000)


if __name__ == "__main__":
    main()
