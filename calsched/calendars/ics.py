"""Closed days from an iCalendar file (RFC 5545), read with the ``icalendar`` package (extra ``ics``).

Such files come from strangers. The file is measured before it is read and scanned line by line before it is parsed. Of
what it holds, only the properties that matter of all-day events reach the parser; time zones, alarms and unknown parts
do not. Recurrence rules are expanded by our own bounded search, within a horizon of years.
"""

from __future__ import annotations

import importlib
import os
import re
import stat
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from calsched.calendars.definition import MOST_DATES
from calsched.calendars.holidays import default_years
from calsched.errors import Problem
from calsched.recurrence import Recurrence, from_wall, parse, to_wall

MOST_BYTES = 2_000_000
MOST_LINES = 60_000
MOST_EVENTS = 1_000
MOST_NESTING = 8
_LONGEST_LINE = 8_000
_LONGEST_SPAN = 366
_DATED = ("DTSTART", "DTEND", "EXDATE", "RDATE", "RECURRENCE-ID")
_WANTED = (*_DATED, "DURATION", "RRULE", "SUMMARY", "UID", "STATUS")
_PLAIN = ("DURATION", "RRULE", "STATUS")
#: Under this name a rule passes the parser as it stands; it is read by `calsched.recurrence`.
_RULE = "X-RULE"
_DATES_ONLY = re.compile(r"[0-9]{8}(?:,[0-9]{8})*", re.ASCII)


class _Refused(Exception):
    """The file cannot be used; the text says why."""


def read_file(name: str, base: Path | None, this_year: int, path: str, problems: list[Problem]) -> dict[str, str]:
    """The closed days of a file as ISO dates with the events' summaries, ascending; adds a problem where it cannot."""
    if base is None:
        problems.append(Problem("an .ics file can only be named in a declaration file", path))
        return {}
    try:
        return read_bytes(_read(base / name), this_year)
    except _Refused as refused:
        problems.append(Problem(f"{name}: {refused}", path))
    except ModuleNotFoundError:
        hint = "install it: pip install 'apscheduler-calsched[ics]'"
        problems.append(Problem("ICS files need the 'icalendar' package, which is not installed", path, hint=hint))
    return {}


def read_bytes(content: bytes, this_year: int) -> dict[str, str]:
    """The closed days of an iCalendar text. Raises _Refused, or ModuleNotFoundError without the extra."""
    icalendar = importlib.import_module("icalendar")
    text = "\r\n".join(["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-", *_scan(content), "END:VCALENDAR", ""])
    try:
        years = default_years(this_year)
        events = [_Event(event, *years) for event in icalendar.Calendar.from_ical(text).walk("VEVENT")]
        return _closed_days(events)
    except _Refused:
        raise
    except Exception as error:  # whatever a parser of other people's making throws at a hostile file
        raise _Refused(f"no valid iCalendar: {error}") from error


def _read(path: Path) -> bytes:
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise _Refused("not a regular file")
            if found.st_size > MOST_BYTES:
                raise _Refused(f"{found.st_size} bytes are too many; at most {MOST_BYTES}")
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise _Refused(f"cannot be read: {error.strerror or error}") from error
    if len(content) > MOST_BYTES:
        raise _Refused(f"more than {MOST_BYTES} bytes")
    return content


def _scan(content: bytes) -> Iterator[str]:
    """The lines of its all-day events, only the properties that matter; refuses what is too large or too deep."""
    try:
        lines = _unfolded(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise _Refused(f"not UTF-8: byte {error.start}") from error
    nesting: list[str] = []
    event: list[str] = []
    events = 0
    for number, line in lines:
        name, _, value = line.partition(":")
        keyword = name.upper()
        if keyword == "BEGIN":
            nesting.append(value.strip().upper())
            if len(nesting) > MOST_NESTING:
                raise _Refused(f"line {number}: more than {MOST_NESTING} components inside each other")
            if nesting[-1] == "VEVENT":
                events, event = events + 1, []
                if events > MOST_EVENTS:
                    raise _Refused(f"more than {MOST_EVENTS} events")
        elif keyword == "END":
            if not nesting or nesting.pop() != value.strip().upper():
                raise _Refused(f"line {number}: END:{value.strip()} does not close what is open")
            if value.strip().upper() == "VEVENT" and any(kept.startswith("DTSTART;") for kept in event):
                yield from ("BEGIN:VEVENT", *event, "END:VEVENT")
        elif not nesting or nesting[0] != "VCALENDAR":
            raise _Refused(f"line {number} is outside of a VCALENDAR; this is no iCalendar file")
        elif nesting[-1] == "VEVENT" and (kept := _wanted(line)):
            event.append(kept)
    if nesting:
        raise _Refused(f"it ends inside {nesting[-1]}")


def _unfolded(text: str) -> Iterator[tuple[int, str]]:
    """Content lines with the number of their first line (RFC 5545, 3.1: a line that begins with a blank continues)."""
    lines = re.split(r"\r?\n", text)
    if len(lines) > MOST_LINES:
        raise _Refused(f"more than {MOST_LINES} lines")
    whole, first = "", 0
    for number, line in enumerate(lines, start=1):
        if line[:1] in (" ", "\t") and first:
            whole += line[1:]
            if len(whole) > _LONGEST_LINE:
                raise _Refused(f"line {first}: more than {_LONGEST_LINE} characters")
            continue
        if whole:
            yield first, whole
        whole, first = line, number
        if len(whole) > _LONGEST_LINE:
            raise _Refused(f"line {first}: more than {_LONGEST_LINE} characters")
    if whole:
        yield first, whole


def _wanted(line: str) -> str | None:
    """The line if it matters, in the form that the parser takes for dates; None for times of day and all else."""
    name = re.split("[;:]", line, maxsplit=1)[0].upper()
    if name not in _WANTED:
        return None
    if name not in _DATED:
        return f"{_RULE if name == 'RRULE' else name}:{line.partition(':')[2]}" if name in _PLAIN else line
    values = line.rpartition(":")[2].strip()
    return f"{name};VALUE=DATE:{values}" if _DATES_ONLY.fullmatch(values) else None


class _Event:
    """An all-day event: when it begins, how long it lasts, how it repeats between two years."""

    def __init__(self, component: Any, first_year: int, last_year: int) -> None:
        self.start = _date(component, "DTSTART")
        self.days = self._length(component)
        self.summary = " ".join(str(component.get("SUMMARY", "")).split())[:200]
        self.uid = str(component.get("UID", ""))
        self.cancelled = str(component.get("STATUS", "")).upper() == "CANCELLED"
        self.replaces = _date(component, "RECURRENCE-ID") if "RECURRENCE-ID" in component else None
        self._without = set(self._dates(component, "EXDATE"))
        self._further = list(self._dates(component, "RDATE"))
        self._from = to_wall(_midnight(date(first_year, 1, 1)))
        self._to = to_wall(_midnight(date(last_year, 12, 31)))
        self._rule = self._recurrence(str(component[_RULE])) if _RULE in component else None

    def _length(self, component: Any) -> int:
        days: int = 1
        if "DTEND" in component:
            days = (_date(component, "DTEND") - self.start).days
        elif "DURATION" in component:
            days = component.decoded("DURATION").days
        if not 0 <= days <= _LONGEST_SPAN:
            raise _Refused(f"the event of {self.start} lasts {days} days; expected at most {_LONGEST_SPAN}")
        return max(1, days)

    def _recurrence(self, text: str) -> Recurrence:
        rule, problems = parse(text)
        if rule is None:
            raise _Refused(f"the event of {self.start}: {problems[0].message}")
        if rule.freq in ("HOURLY", "MINUTELY", "SECONDLY"):
            raise _Refused(f"the event of {self.start}: FREQ={rule.freq} does not repeat whole days")
        return Recurrence(rule, _midnight(self.start), self._to)

    @staticmethod
    def _dates(component: Any, name: str) -> Iterator[date]:
        lists = component.get(name, [])
        for listed in lists if isinstance(lists, list) else [lists]:
            yield from (item.dt for item in listed.dts)

    @property
    def most_days(self) -> int:
        """How many days it closes at most, known before they are listed."""
        begins = 1 if self._rule is None else self._rule.count(self._from, self._to)
        return (begins + len(self._further)) * self.days

    def starts(self) -> Iterator[date]:
        """The days on which it begins, those of a rule between the two years only."""
        yield from (day for day in (*self._ruled(), *self._further) if day not in self._without)

    def _ruled(self) -> Iterator[date]:
        if self._rule is None:
            yield self.start
            return
        wall = self._rule.first_at_or_after(self._from)
        while wall is not None:
            yield from_wall(wall).date()
            wall = self._rule.first_at_or_after(wall + 1)


def _closed_days(events: list[_Event]) -> dict[str, str]:
    events = [event for event in events if not event.cancelled]
    if sum(event.most_days for event in events) > MOST_DATES:
        raise _Refused(f"more than {MOST_DATES} closed days")
    replaced = {(event.uid, event.replaces) for event in events if event.replaces is not None}
    days: dict[str, str] = {}
    for event in events:
        for start in event.starts():
            if event.replaces is None and (event.uid, start) in replaced:
                continue
            for number in range(event.days):
                day = (start + timedelta(days=number)).isoformat()
                days[day] = days.get(day) or event.summary
    return dict(sorted(days.items()))


def _date(component: Any, name: str) -> date:
    """A date property. What the parser could not read it hands on in forms that differ by its version."""
    value = component[name]
    try:
        day = value.dt
    except Exception:
        day = None
    if not isinstance(day, date) or isinstance(day, datetime):
        raise _Refused(f"{name}: there is no day {str(value)[:40]!r}")
    return day


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)  # noqa: DTZ001 - a wall time of no zone
