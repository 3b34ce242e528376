"""A resolved calendar, and what it says about a day."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from calsched.clock import to_datetime

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
#: A calendar that knows no more years than this is worth a warning.
NOTICE_DAYS = 90


def digest(material: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON text of a resolved definition, in hexadecimal."""
    text = json.dumps(material, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Resolved:
    """A definition with everything looked up: ``material`` is plain JSON and stands on its own.

    Its keys: ``weekend`` (0 Monday … 6), ``yearly`` (``MM-DD`` to name), ``dates`` (ISO date to name), ``open`` (ISO
    dates), ``through`` (last year that is known, or null) and at most one of ``union`` and ``difference`` (lists of
    such materials). Names may be empty.
    """

    name: str
    material: Mapping[str, Any]

    @property
    def digest(self) -> str:
        return digest(self.material)

    def calendar(self, version: int = 1) -> BusinessCalendar:
        return BusinessCalendar(self.name, version, self.material)


class BusinessCalendar:
    """A set of closed days. An immutable value: equal when name, version and material are."""

    __slots__ = (
        "_dates",
        "_members",
        "_open",
        "_union",
        "_weekend",
        "_yearly",
        "digest",
        "material",
        "name",
        "version",
    )

    def __init__(self, name: str, version: int, material: Mapping[str, Any]) -> None:
        self.name, self.version, self.material = name, version, material
        self.digest = digest(material)
        self._weekend = frozenset(material.get("weekend", ()))
        self._yearly = {_month_day(text): reason for text, reason in material.get("yearly", {}).items()}
        self._dates = {_ordinal(text): reason for text, reason in material.get("dates", {}).items()}
        self._open = frozenset(_ordinal(text) for text in material.get("open", ()))
        self._union = "difference" not in material
        members = material.get("union") or material.get("difference") or ()
        self._members = tuple(BusinessCalendar(name, version, member) for member in members)

    def is_open(self, day: date) -> bool:
        return self._why(day.toordinal(), day) is None

    def is_open_day(self, ordinal: int) -> bool:
        """`is_open` for ``date.toordinal()``, the form in which `calsched.policies.day_rule` asks."""
        return self._why(ordinal, date.fromordinal(ordinal)) is None

    def closed_reason(self, day: date) -> str | None:
        """Why a day is closed (the holiday's name, else what made it so); None for an open day."""
        return self._why(day.toordinal(), day)

    @property
    def last_covered_day(self) -> date | None:
        """The last day about which the calendar knows everything; None when it holds for ever."""
        year = self._through()
        return None if year is None else date(year, 12, 31)

    def covers(self, year: int) -> bool:
        """Whether the calendar still knows that year's closed days."""
        through = self._through()
        return through is None or year <= through

    def _through(self) -> int | None:
        years = [self.material.get("through"), *(member._through() for member in self._members)]
        return min((year for year in years if year is not None), default=None)

    def _why(self, ordinal: int, day: date) -> str | None:
        if ordinal in self._open:
            return None
        if (reason := self._dates.get(ordinal)) is not None:
            return reason or "closed on this date"
        if (reason := self._yearly.get((day.month, day.day))) is not None:
            return reason or f"closed every year on {day:%m-%d}"
        return self._members_say(ordinal, day) or (WEEKDAYS[day.weekday()] if day.weekday() in self._weekend else None)

    def _members_say(self, ordinal: int, day: date) -> str | None:
        if not self._members:
            return None
        reasons = [member._why(ordinal, day) for member in self._members]
        if self._union:
            named = [reason for reason in reasons if reason is not None]
            return next((reason for reason in named if reason not in WEEKDAYS), named[0] if named else None)
        return reasons[0] if not any(reasons[1:]) else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BusinessCalendar):
            return NotImplemented
        return (self.name, self.version, self.digest) == (other.name, other.version, other.digest)

    def __hash__(self) -> int:
        return hash((self.name, self.version, self.digest))

    def __repr__(self) -> str:
        return f"BusinessCalendar({self.name!r}, version {self.version})"

    def __reduce__(self) -> tuple[type[BusinessCalendar], tuple[str, int, Mapping[str, Any]]]:
        return (BusinessCalendar, (self.name, self.version, self.material))


def runs_out(calendar: BusinessCalendar, now: int, notice_days: int = NOTICE_DAYS) -> str | None:
    """A sentence of warning when the calendar knows nothing after a day less than ``notice_days`` away; else None."""
    last, today = calendar.last_covered_day, to_datetime(now).date()
    if last is None or last - today > timedelta(days=notice_days):
        return None
    if last < today:
        return (
            f"calendar {calendar.name!r} has run out: it knows no closed days after {last}, so that later holidays"
            " count as open; add years to it and apply it again"
        )
    days = (last - today).days
    return (
        f"calendar {calendar.name!r} runs out in {days} day{'' if days == 1 else 's'}: it knows no closed days after"
        f" {last}; add years to it and apply it again"
    )


def _ordinal(text: str) -> int:
    return date.fromisoformat(text).toordinal()


def _month_day(text: str) -> tuple[int, int]:
    month, day = text.split("-")
    return int(month), int(day)
