"""A fixed interval in UTC: slot n = first tick + n × interval, for ever or up to an end. All arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, ClassVar, Self

from calsched.clock import LAST_INSTANT
from calsched.triggers.base import FIRST_INSTANT, Context, Trigger
from calsched.triggers.fields import Fields, as_instant, expected, instant_text

_UNITS: dict[str, int] = {
    "milliseconds": 1,
    "seconds": 1000,
    "minutes": 60_000,
    "hours": 3_600_000,
    "days": 86_400_000,
    "weeks": 604_800_000,
}
_FIELDS = frozenset(("intervalMs", "firstTick", "start", "end", *_UNITS))


class IntervalTrigger(Trigger):
    """Every so many milliseconds of elapsed time, whatever any wall clock does.

    Without ``first_tick`` the ticks are counted from ``start``, and without that from the Unix epoch, so that a restart
    or a second host changes nothing. With both, ticks before ``start`` are not slots. ``end`` is included. ``timezone``
    is accepted because APScheduler always passes it, and means nothing here.
    """

    __slots__ = ("_end", "_first", "_highest", "_interval", "_lowest", "_start")
    kind: ClassVar[str] = "interval"

    _end: int | None
    _first: int | None  # None: ticks are aligned to the epoch, in both directions
    _highest: int
    _interval: int
    _lowest: int
    _start: int | None

    def __init__(
        self,
        weeks: int = 0,
        days: int = 0,
        hours: int = 0,
        minutes: int = 0,
        seconds: int = 0,
        milliseconds: int = 0,
        *,
        first_tick: datetime | str | None = None,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        timezone: object = None,
    ) -> None:
        units = {
            "weeks": weeks,
            "days": days,
            "hours": hours,
            "minutes": minutes,
            "seconds": seconds,
            "milliseconds": milliseconds,
        }
        times = {"firstTick": first_tick, "start": start, "end": end}
        given: dict[str, Any] = {name: value for name, value in units.items() if value != 0 or value is False}
        given |= {name: value for name, value in times.items() if value is not None}
        self._load(Fields(given, _FIELDS, Context()))

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], context: Context) -> Self:
        made = cls.__new__(cls)
        given = {name: value for name, value in spec.items() if value is not None or name in (*_UNITS, "intervalMs")}
        given.pop("timezone", None)
        made._load(Fields(given, _FIELDS, context))
        return made

    def _load(self, fields: Fields) -> None:
        self._calendars, self._zone_source = {}, fields.context.zone_source
        self._interval = _length(fields)
        first, start = fields.read("firstTick", as_instant, None), fields.read("start", as_instant, None)
        if first is None:
            first, start = start, None
        self._first, self._start = first, start
        self._end = fields.read("end", as_instant, None)
        fields.check()
        self._lowest = self._up(
            max(FIRST_INSTANT if first is None else first, FIRST_INSTANT if start is None else start)
        )
        self._highest = self._down(LAST_INSTANT if self._end is None else self._end)
        if self._end is not None and self._highest < self._lowest:
            fields.fail("end", f"there is no tick up to {instant_text(self._end)}; the first is {_far(self._lowest)}")
        elif self._highest < self._lowest:
            fields.fail("start", "there is no tick up to the end of the year 9999")
        fields.check()

    def _up(self, instant: int) -> int:
        """The tick at or after an instant, as if ticks had neither beginning nor end."""
        return instant + (self._anchor() - instant) % self._interval

    def _down(self, instant: int) -> int:
        return instant - (instant - self._anchor()) % self._interval

    def _anchor(self) -> int:
        return 0 if self._first is None else self._first

    def first_at_or_after(self, instant: int) -> int | None:
        tick = self._lowest if instant <= self._lowest else self._up(instant)
        return tick if tick <= self._highest else None

    def last_at_or_before(self, instant: int) -> int | None:
        tick = self._highest if instant >= self._highest else self._down(instant)
        return tick if tick >= self._lowest else None

    def count(self, first: int, last: int) -> int:
        low, high = self.first_at_or_after(first), self.last_at_or_before(last)
        return 0 if low is None or high is None or high < low else (high - low) // self._interval + 1

    def nth_after(self, instant: int, n: int) -> int | None:
        slot = self.first_at_or_after(instant)
        if slot is None or slot + n * self._interval > self._highest:
            return None
        return slot + n * self._interval

    def explain(self, instant: int) -> str | None:
        if self.first_at_or_after(instant) == instant:
            return None
        if instant < self._lowest:
            return f"the first tick is at {instant_text(self._lowest)}"
        if instant > self._highest:
            return f"the last tick is at {instant_text(self._highest)}"
        before = self._down(instant)
        after = _far(before + self._interval)
        return f"it lies between two ticks, {instant_text(before)} and {after}"

    def spec(self) -> dict[str, Any]:
        out: dict[str, Any] = {"kind": self.kind, "intervalMs": self._interval}
        for name, instant in (("firstTick", self._first), ("start", self._start), ("end", self._end)):
            if instant is not None:
                out[name] = instant_text(instant)
        return out


def _far(instant: int) -> str:
    return instant_text(instant) if instant <= LAST_INSTANT else "past the year 9999"


def _milliseconds(value: Any) -> int:
    if isinstance(value, str) and len(value.split()) in (5, 6):
        hint = "a cron expression is no interval; use a trigger of kind cron"
        expected("a whole number of milliseconds", value, hint=hint)
    return _positive(value, "a whole number of milliseconds")


def _length(fields: Fields) -> int:
    """The interval in milliseconds: ``intervalMs``, or the sum of the units given."""
    units = [name for name in _UNITS if fields.has(name)]
    if fields.has("intervalMs"):
        for name in units:
            fields.fail(name, f"there is {name!r} besides intervalMs; give one of them")
        return fields.read("intervalMs", _milliseconds, 1)
    if not units:
        fields.fail(
            "intervalMs", "an interval needs its length", f"intervalMs, or any of {', '.join(reversed(_UNITS))}"
        )
        return 1
    total = sum(fields.read(name, _part(name), 0) for name in units)
    if not fields.problems and not 1 <= total <= LAST_INSTANT:
        fields.fail(units[0], f"expected an interval of 1 ms up to {LAST_INSTANT} ms in all, got {total} ms")
    return total or 1


def _part(name: str) -> Callable[[Any], int]:
    return lambda value: _positive(value, f"a whole number of {name}") * _UNITS[name]


def _positive(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        hint = "without quotes" if isinstance(value, str) and value.isascii() and value.isdigit() else ""
        expected(what, value, hint=hint)
    if value < 1:
        expected(f"{what} above zero", value)
    if value > LAST_INSTANT:
        expected(f"{what} up to {LAST_INSTANT}", value)
    return value
