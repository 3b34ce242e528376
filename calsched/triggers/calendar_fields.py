"""How the fields of a calendar rule are read: times of day, weekdays, days and months, by number or by name."""

from __future__ import annotations

import re
from datetime import time
from typing import Any, Final

from calsched.triggers.fields import Bad, as_list, each, expected, joined, shown, whole
from calsched.triggers.wallclock import WEEKDAYS

_DAY_NAMES: Final = {name.lower(): number for number, name in enumerate(WEEKDAYS)}
_DAYS: Final = _DAY_NAMES | {name[:3]: number for name, number in _DAY_NAMES.items()}
SHORT_DAYS: Final = tuple(name[:3].lower() for name in WEEKDAYS)
MONTH_NAMES: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTHS: Final = {name: number for number, long in enumerate(MONTH_NAMES, start=1) for name in (long, long[:3])}


def time_text(second: int) -> str:
    return f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


_TIME: Final = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?", re.ASCII)


def parse_times(value: Any) -> tuple[int, ...]:
    return tuple(sorted(each(value, _time, "times of day")))


def _time(value: Any, at: str) -> int:
    what = "a time of day such as '09:00' or '09:00:30'"
    if isinstance(value, time) and value.tzinfo is None and value.microsecond == 0:
        return value.hour * 3600 + value.minute * 60 + value.second
    if isinstance(value, int) and not isinstance(value, bool):
        # YAML 1.1 reads 9:30 as 9 * 60 + 30
        hint = (
            f"write it in quotes: '{value // 60:02d}:{value % 60:02d}'" if 0 <= value < 1440 else "write it in quotes"
        )
        expected(what, value, at, hint)
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        expected(what, value, at)
    hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        hint = "the end of a day is '00:00' of the next" if (hour, minute, second) == (24, 0, 0) else ""
        expected("a time of day from '00:00' to '23:59:59'", value, at, hint)
    return hour * 3600 + minute * 60 + second


def values_up_to(high: int) -> Any:
    """A parser of one number, a list of them, or None or ``"*"`` for every one; the result is ascending."""

    def parse(value: Any) -> tuple[int, ...] | None:
        if value is None or value == "*":
            return None
        found = each(value, lambda member, at: whole(member, 0, high, at), f"0 to {high}")
        return None if len(found) == high + 1 else tuple(sorted(found))

    return parse


def numbers(low: int, high: int, what: str) -> Any:
    """A parser of numbers that count from 1, or from -1 backwards; ``"last"`` is -1."""

    def number(value: Any, at: str) -> int:
        if value == "last":
            return -1
        hint = "they count from 1, or from -1 backwards" if value == 0 and value is not False else ""
        found = whole(value, low, high, at) if value != 0 else expected(f"1 to {high} or {low} to -1", value, at, hint)
        return found

    def parse(value: Any) -> tuple[int, ...]:
        return tuple(sorted(each(value, number, what), key=lambda found: (found < 0, found)))

    return parse


def _weekday(value: Any, at: str) -> int:
    if isinstance(value, str) and value.strip().lower() in _DAYS:
        return _DAYS[value.strip().lower()]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 6:
        return value
    expected("0 to 6 or a day name", value, at, "Sunday is 6" if value == 7 else "")


def parse_weekdays(value: Any) -> tuple[int, ...]:
    """Numbers and names, as a list, or as text with commas and ranges (``mon-fri``)."""
    if isinstance(value, str):
        value = value.split(",")
        members = [day for part in value for day in _weekday_range(part, "")]
        if len(set(members)) < len(members):
            raise Bad(f"{shown(','.join(value))} has a day twice")
        return tuple(sorted(members))
    found: list[int] = []
    for place, member in enumerate(as_list(value)):
        at = f"[{place}]" if isinstance(value, (list, tuple)) else ""
        days = _weekday_range(member, at) if isinstance(member, str) else [_weekday(member, at)]
        if set(days) & set(found):
            raise Bad(f"{shown(member)} is there twice", at)
        found += days
    if not found:
        expected("at least one weekday", value)
    return tuple(sorted(found))


def _weekday_range(text: str, at: str) -> list[int]:
    first, dash, last = text.partition("-")
    if not dash:
        return [_weekday(text, at)]
    low, high = _weekday(first, at), _weekday(last, at)
    return [(low + step) % 7 for step in range((high - low) % 7 + 1)]


def weekdays_text(weekdays: tuple[int, ...]) -> str:
    if len(weekdays) > 2 and weekdays[-1] - weekdays[0] == len(weekdays) - 1:
        return f"{SHORT_DAYS[weekdays[0]]}-{SHORT_DAYS[weekdays[-1]]}"
    return joined(SHORT_DAYS[day] for day in weekdays)


def parse_months(value: Any) -> tuple[int, ...] | None:
    def month(member: Any, at: str) -> int:
        if isinstance(member, str) and member.strip().lower() in _MONTHS:
            return _MONTHS[member.strip().lower()]
        if isinstance(member, int) and not isinstance(member, bool) and 1 <= member <= 12:
            return member
        expected("1 to 12 or a month's name", member, at)

    found = each(value.split(",") if isinstance(value, str) else value, month, "months")
    return None if len(found) == 12 else tuple(sorted(found))


_NTH: Final = re.compile(r"(-?[1-5]) ?([a-z]+)", re.ASCII)


def parse_nth_weekdays(value: Any) -> tuple[tuple[int, int], ...]:
    def nth(member: Any, at: str) -> tuple[int, int]:
        found = _NTH.fullmatch(member.strip().lower().replace("last", "-1")) if isinstance(member, str) else None
        if found is None or found[2] not in _DAYS:
            expected("the n-th weekday of a month such as '2tue', or '-1fri' from its end", member, at)
        return int(found[1]), _DAYS[found[2]]

    found = each(value.split(",") if isinstance(value, str) else value, nth, "weekdays of the month")
    return tuple(sorted(found, key=lambda one: (one[0] < 0, *one)))
