"""The text of an RRULE and what it says (RFC 5545, section 3.3.10), every problem at once."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any

from calsched.errors import Problem

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
#: A rule with more instances than this is one without COUNT, as far as anybody will live to see.
MOST_COUNT = 100_000
_MOST_INTERVAL = 999_999_999
_LONGEST_TEXT = 4_000

_INTEGER = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)
_UNTIL = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:T([0-9]{2})([0-9]{2})([0-9]{2})(Z?))?", re.ASCII)
_BYDAY = re.compile(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rule:
    """A parsed RRULE. ``by_day`` holds ``(n, weekday)`` with n 0 for every such weekday, weekday 0 for Monday.

    ``until`` is naive; ``until_utc`` says whether it is UTC or the wall time of the rule's zone. A date alone stands
    for the end of that day, so that an instance on it is the last one.
    """

    freq: str
    interval: int = 1
    count: int | None = None
    until: datetime | None = None
    until_utc: bool = False
    wkst: int = 0
    by_month: tuple[int, ...] = ()
    by_week_no: tuple[int, ...] = ()
    by_year_day: tuple[int, ...] = ()
    by_month_day: tuple[int, ...] = ()
    by_day: tuple[tuple[int, int], ...] = ()
    by_hour: tuple[int, ...] = ()
    by_minute: tuple[int, ...] = ()
    by_second: tuple[int, ...] = ()
    by_set_pos: tuple[int, ...] = ()
    #: The parts in canonical order and spelling, for `text` and for messages.
    written: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @property
    def text(self) -> str:
        """The rule as RFC 5545 writes it, parts in one fixed order, so that equal rules have equal texts."""
        return ";".join(f"{name}={value}" for name, value in self.written)

    @property
    def selectors(self) -> str:
        """The BY parts as written, for a message that names what does not go together."""
        return ";".join(f"{name}={value}" for name, value in self.written if name.startswith("BY"))


class _Wrong(Exception):
    """One part that cannot be read; the text says what was expected."""


def parse(text: Any, path: str = "rrule") -> tuple[Rule | None, list[Problem]]:
    """The rule that ``text`` says, or None and everything that is wrong with it, with ``path`` as the place."""
    if not isinstance(text, str) or not text:
        got = "nothing" if text is None else repr(text)
        return None, [Problem(f"expected a rule like 'FREQ=WEEKLY;BYDAY=MO', got {got}", path)]
    if len(text) > _LONGEST_TEXT:
        return None, [Problem(f"{len(text)} characters are too many for a rule; at most {_LONGEST_TEXT}", path)]
    values, problems = _read_parts(text.upper().removeprefix("RRULE:"), path)
    if not problems:
        problems = [Problem(message, path) for message in _clashes(values)]
    return (None, problems) if problems else (_rule(values), [])


def _read_parts(text: str, path: str) -> tuple[dict[str, Any], list[Problem]]:
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for part in text.split(";"):
        name, equals, value = part.partition("=")
        try:
            if not equals:
                raise _Wrong(f"expected NAME=VALUE between semicolons, got {part!r}")
            if name not in _READERS:
                raise _Wrong(_unknown(name))
            if name in values:
                raise _Wrong(f"{name}: given twice")
            values[name] = _READERS[name](name, value)
        except _Wrong as wrong:
            values.setdefault(name, None)
            problems.append(Problem(str(wrong), path))
    if "FREQ" not in values:
        problems.append(Problem(f"FREQ: required; one of {', '.join(FREQUENCIES)}", path))
    return values, problems


def _unknown(name: str) -> str:
    if name in ("DTSTART", "EXDATE", "RDATE"):
        return f"{name}: not a part of the rule; give it beside it, as {name.lower()!r}"
    if name == "EXRULE":
        return "EXRULE: was removed from iCalendar (RFC 5545) and is not supported; list the dates as 'exdate'"
    near = get_close_matches(name, _READERS, 1)
    return f"unknown part {name!r}" + (f"; did you mean {near[0]}?" if near else f"; known are {', '.join(_READERS)}")


def _clashes(values: dict[str, Any]) -> list[str]:
    """What RFC 5545 forbids between parts (section 3.3.10, the notes on each part and the table of BYxxx)."""
    freq, given = values["FREQ"], values.keys()
    numbered = any(number for number, _ in values.get("BYDAY", ()))
    within_month = freq == "MONTHLY" or (freq == "YEARLY" and "BYMONTH" in given)
    rules: list[tuple[bool, str]] = [
        ("COUNT" in given and "UNTIL" in given, "COUNT, UNTIL: only one of them may be given"),
        ("BYWEEKNO" in given and freq != "YEARLY", f"BYWEEKNO: only with FREQ=YEARLY, not {freq}"),
        (
            "BYYEARDAY" in given and freq in ("DAILY", "WEEKLY", "MONTHLY"),
            f"BYYEARDAY: not with FREQ={freq}; use FREQ=YEARLY",
        ),
        ("BYMONTHDAY" in given and freq == "WEEKLY", "BYMONTHDAY: not with FREQ=WEEKLY; use FREQ=MONTHLY"),
        (
            numbered and (freq not in ("MONTHLY", "YEARLY") or "BYWEEKNO" in given),
            "BYDAY: a number before the weekday needs FREQ=MONTHLY, or FREQ=YEARLY without BYWEEKNO",
        ),
        (
            within_month and any(abs(number) > 5 for number, _ in values.get("BYDAY", ())),
            "BYDAY: a month has no weekday more than five times",
        ),
        (
            "BYSETPOS" in given and not any(name.startswith("BY") and name != "BYSETPOS" for name in given),
            "BYSETPOS: needs another BY part to choose from",
        ),
    ]
    return [message for broken, message in rules if broken]


def _rule(values: dict[str, Any]) -> Rule:
    until, utc = values.get("UNTIL", (None, False))
    named = {_FIELDS[name]: value for name, value in values.items() if name in _FIELDS}
    names = [name for name in _READERS if name in values and (name, values[name]) not in (("INTERVAL", 1), ("WKST", 0))]
    written = tuple((name, _write(name, values[name])) for name in names)
    return Rule(freq=values["FREQ"], until=until, until_utc=utc, written=written, **named)


def _write(name: str, value: Any) -> str:
    if name == "UNTIL":
        return f"{value[0]:%Y%m%dT%H%M%S}".rjust(15, "0") + ("Z" if value[1] else "")
    if name == "WKST":
        return WEEKDAYS[value]
    if name == "BYDAY":
        return ",".join(f"{number or ''}{WEEKDAYS[weekday]}" for number, weekday in value)
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _freq(name: str, value: str) -> str:
    if value not in FREQUENCIES:
        near = get_close_matches(value, FREQUENCIES, 1)
        raise _Wrong(
            f"{name}: expected one of {', '.join(FREQUENCIES)}, got {value!r}" + (f"; {near[0]}?" if near else "")
        )
    return value


def _number(least: int, most: int) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        if not _INTEGER.fullmatch(value) or value[0] in "+-" or not least <= int(value) <= most:
            raise _Wrong(f"{name}: expected a whole number from {least} to {most}, got {value!r}")
        return int(value)

    return read


def _numbers(least: int, most: int, *, signed: bool = False) -> Callable[[str, str], tuple[int, ...]]:
    """A list of numbers; with ``signed`` also their negatives, which count from the end."""
    expected = f"{least} to {most}" + (f" or -{most} to -{least}" if signed else "")

    def read(name: str, value: str) -> tuple[int, ...]:
        return tuple(sorted({one(name, item) for item in value.split(",")}))

    def one(name: str, item: str) -> int:
        good = _INTEGER.fullmatch(item) and (signed or item[0] not in "+-")
        number = int(item) if good else -1
        if not good or not least <= (abs(number) if signed else number) <= most:
            hint = "; the 60th second is a leap second, which no wall clock here shows" if item == "60" else ""
            raise _Wrong(f"{name}: expected {expected}, got {item!r}{hint}")
        return number

    return read


def _weekday(name: str, value: str) -> int:
    if value not in WEEKDAYS:
        raise _Wrong(f"{name}: expected one of {', '.join(WEEKDAYS)}, got {value!r}")
    return WEEKDAYS.index(value)


def _by_day(name: str, value: str) -> tuple[tuple[int, int], ...]:
    return tuple(sorted({_one_day(name, item) for item in value.split(",")}, key=lambda pair: (pair[1], pair[0])))


def _one_day(name: str, item: str) -> tuple[int, int]:
    match = _BYDAY.fullmatch(item)
    number = int(match[1] or 0) if match else 0
    if match is None or (match[1] and not 1 <= abs(number) <= 53):
        raise _Wrong(f"{name}: expected a weekday like MO, 1MO or -1FR ({', '.join(WEEKDAYS)}), got {item!r}")
    return number, WEEKDAYS.index(match[2])


def _until(name: str, value: str) -> tuple[datetime, bool]:
    match = _UNTIL.fullmatch(value)
    try:
        if match is None:
            raise ValueError
        numbers = [int(group) for group in match.groups()[:6] if group is not None]
        moment = datetime(*numbers)  # type: ignore[arg-type]  # noqa: DTZ001 - a wall time, naive on purpose
    except (ValueError, TypeError):
        raise _Wrong(
            f"{name}: expected a time like 20261231T235959Z (UTC), 20261231T235959 (local) or 20261231, got {value!r}"
        ) from None
    return (moment, match[7] == "Z") if match[4] else (moment + timedelta(hours=23, minutes=59, seconds=59), False)


_READERS: dict[str, Callable[[str, str], Any]] = {
    "FREQ": _freq,
    "INTERVAL": _number(1, _MOST_INTERVAL),
    "COUNT": _number(1, MOST_COUNT),
    "UNTIL": _until,
    "WKST": _weekday,
    "BYMONTH": _numbers(1, 12),
    "BYWEEKNO": _numbers(1, 53, signed=True),
    "BYYEARDAY": _numbers(1, 366, signed=True),
    "BYMONTHDAY": _numbers(1, 31, signed=True),
    "BYDAY": _by_day,
    "BYHOUR": _numbers(0, 23),
    "BYMINUTE": _numbers(0, 59),
    "BYSECOND": _numbers(0, 59),
    "BYSETPOS": _numbers(1, 366, signed=True),
}
_SNAKE = {f.name.replace("_", "").upper(): f.name for f in fields(Rule)}
_FIELDS = {name: _SNAKE[name] for name in _READERS if name not in ("FREQ", "UNTIL")}
