"""The fields of APScheduler's ``CronTrigger``, as sets of numbers, and what they become here.

APScheduler demands that day of month and day of week both match, a crontab that one of the two does; so a rule that
restricts both becomes ``calendar``, whose conditions must all match, and the others become ``cron``. Its weekdays count
from Monday = 0. What neither can say (ISO weeks, years, weekday positions beside days) stays APScheduler's trigger.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from calsched.adopt.known import NotKnown, sequence, text, whole, within
from calsched.adopt.pickles import Name, Pairs, Thing, describe
from calsched.words import WEEKDAYS

BOUNDS: Final = {
    "year": (1970, 9999),
    "month": (1, 12),
    "day": (1, 31),
    "week": (1, 53),
    "day_of_week": (0, 6),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
}
POSITIONS: Final = ("1st", "2nd", "3rd", "4th", "5th", "last")
_EXPRESSIONS: Final = "apscheduler.triggers.cron.expressions"
_FIELDS: Final = "apscheduler.triggers.cron.fields"
FIELD_NAMES: Final = {
    Name(_FIELDS, cls) for cls in ("BaseField", "WeekField", "DayOfMonthField", "DayOfWeekField", "MonthField")
}
EXPRESSION_NAMES: Final = {
    Name(_EXPRESSIONS, cls)
    for cls in (
        "AllExpression",
        "RangeExpression",
        "MonthRangeExpression",
        "WeekdayRangeExpression",
        "WeekdayPositionExpression",
        "LastDayOfMonthExpression",
    )
}
#: More times of day than this are written as lists of hours, minutes and seconds.
_TIMES_SHOWN: Final = 12


@dataclass(slots=True)
class Field:
    """One field: the numbers that match, and for days also the last of the month and weekday positions."""

    name: str
    is_default: bool
    texts: list[str] = field(default_factory=list)
    values: set[int] = field(default_factory=set)
    last: bool = False
    nth: set[tuple[int, int]] = field(default_factory=set)  # (index in POSITIONS, weekday)

    @property
    def text(self) -> str:
        """As APScheduler spells it."""
        return ",".join(self.texts)

    @property
    def every(self) -> bool:
        low, high = BOUNDS[self.name]
        return len(self.values) == high - low + 1


def read_fields(value: Any) -> dict[str, Field]:
    """The eight fields by name; raises NotKnown."""
    fields: dict[str, Field] = {}
    for index, thing in enumerate(sequence(value)):
        with within(f"fields[{index}]"):
            found = _field(thing)
            fields[found.name] = found
    if set(fields) != set(BOUNDS):
        raise NotKnown(f"expected the fields {', '.join(BOUNDS)}, got {', '.join(fields) or 'none'}", "fields")
    return fields


def _field(value: Any) -> Field:
    state = value.state if isinstance(value, Thing) and value.name in FIELD_NAMES else None
    if not isinstance(state, Pairs):
        raise NotKnown(f"expected a field of a cron trigger, got {describe(value)}")
    name = text(state.get("name"))
    if name not in BOUNDS:
        raise NotKnown(f"expected one of {', '.join(BOUNDS)}, got {describe(name)}", "name")
    found = Field(name, bool(state.get("is_default") is True))
    for index, expression in enumerate(sequence(state.get("expressions"))):
        with within(f"expressions[{index}]"):
            _add(found, expression)
    return found


def _add(found: Field, value: Any) -> None:
    state = value.state if isinstance(value, Thing) and value.name in EXPRESSION_NAMES else None
    if not isinstance(state, Pairs):
        raise NotKnown(f"expected an expression of a cron field, got {describe(value)}")
    kind = value.name.name
    if kind == "LastDayOfMonthExpression":
        found.last = True
        found.texts.append("last")
    elif kind == "WeekdayPositionExpression":
        _add_position(found, state)
    else:
        _add_range(found, state, everything=kind == "AllExpression")


def _add_position(found: Field, state: Pairs) -> None:
    position, weekday = whole(state.get("option_num")), whole(state.get("weekday"))
    if not (0 <= position < len(POSITIONS) and 0 <= weekday <= 6):
        raise NotKnown(f"no weekday position: {position} of weekday {weekday}")
    found.nth.add((position, weekday))
    found.texts.append(f"{POSITIONS[position]} {WEEKDAYS[weekday]}")


def _add_range(found: Field, state: Pairs, *, everything: bool) -> None:
    low, high = BOUNDS[found.name]
    step = 1 if state.get("step") is None else whole(state.get("step"))
    first = low if everything else whole(state.get("first"))
    last = high if everything or state.get("last") is None else whole(state.get("last"))
    if not (low <= first <= last <= high and 1 <= step <= high):
        raise NotKnown(f"no range of {found.name}: {first}-{last}/{step}")
    found.values.update(range(first, last + 1, step))
    shown = "*" if everything else str(first) if first == last else f"{first}-{last}"
    found.texts.append(shown if step == 1 else f"{shown}/{step}")


def as_text(fields: dict[str, Field]) -> str:
    """What ``print(trigger)`` says in APScheduler."""
    return "cron[" + ", ".join(f"{f.name}='{f.text}'" for f in fields.values() if not f.is_default) + "]"


def convert(fields: dict[str, Field], zone: str) -> dict[str, Any] | None:
    """The equal trigger of ours, without bounds; None where only APScheduler's own can say it."""
    days, weekdays = fields["day"], fields["day_of_week"]
    if not (fields["year"].every and fields["week"].every):
        return None
    if days.every and (days.nth or days.last):
        return None  # every day, and the last one: nobody means this
    if days.nth and (days.values or days.last):
        return None
    if days.nth or days.last or not (days.every or weekdays.every):
        return _calendar(fields, zone)
    return _cron(fields, zone)


def _cron(fields: dict[str, Field], zone: str) -> dict[str, Any]:
    names = ("minute", "hour", "day", "month")
    parts = [_compressed(fields[name].values, name) for name in names] + [_weekdays(fields["day_of_week"])]
    if fields["second"].values == {0}:
        return {"kind": "cron", "expression": " ".join(parts), "timezone": zone}
    seconds = _compressed(fields["second"].values, "second")
    return {"kind": "cron", "expression": " ".join([seconds, *parts]), "seconds": "first", "timezone": zone}


def _compressed(values: Iterable[int], name: str) -> str:
    """``*``, ``*/5``, ``1-5,9``: the shortest usual spelling."""
    low, high = BOUNDS[name]
    numbers = sorted(values)
    if len(numbers) == high - low + 1:
        return "*"
    step = numbers[1] - numbers[0] if len(numbers) > 2 else 0
    if step > 1 and numbers == list(range(low, high + 1, step)):
        return f"*/{step}"
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in _runs(numbers))


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _weekdays(found: Field) -> str:
    if found.every:
        return "*"
    numbers = sorted(found.values)
    runs = _runs([n for n in numbers if n < 6])  # crontabs count Sunday first, so it stays out of ranges
    shown = [WEEKDAYS[a] if a == b else f"{WEEKDAYS[a]}-{WEEKDAYS[b]}" for a, b in runs]
    return ",".join([*shown, "sun"] if 6 in numbers else shown)


def _calendar(fields: dict[str, Field], zone: str) -> dict[str, Any]:
    days, weekdays = fields["day"], fields["day_of_week"]
    spec: dict[str, Any] = {"kind": "calendar", "timezone": zone, **_times(fields)}
    if not weekdays.every:
        spec["weekdays"] = [WEEKDAYS[number] for number in sorted(weekdays.values)]
    if days.nth:
        spec["nthWeekdays"] = [f"{-1 if p == 5 else p + 1}{WEEKDAYS[w]}" for p, w in sorted(days.nth)]
    elif not days.every:
        spec["daysOfMonth"] = [*sorted(days.values), *([-1] if days.last else [])]
    if not fields["month"].every:
        spec["months"] = sorted(fields["month"].values)
    return spec


def _times(fields: dict[str, Field]) -> dict[str, Any]:
    hours, minutes, seconds = (fields[name] for name in ("hour", "minute", "second"))
    count = len(hours.values) * len(minutes.values) * len(seconds.values)
    if count <= _TIMES_SHOWN:
        return {
            "at": [
                f"{h:02d}:{m:02d}" + (f":{s:02d}" if s else "")
                for h in sorted(hours.values)
                for m in sorted(minutes.values)
                for s in sorted(seconds.values)
            ]
        }
    lists = {f.name: None if f.every else sorted(f.values) for f in (hours, minutes, seconds)}
    return {**lists, "fold": "both"} if hours.every else dict(lists)  # a cadence keeps both passes of a repeated hour
