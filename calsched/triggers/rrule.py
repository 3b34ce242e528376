"""RFC 5545 recurrence rules: RRULE with RDATE and EXDATE, on the wall clock of a zone."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, tzinfo
from typing import Any, ClassVar, Final, Self

from calsched.clock import LAST_INSTANT
from calsched.policies import day_rule
from calsched.policies.clock_change import FOLD_RULES, GAP_RULES, FoldRule, GapRule
from calsched.recurrence import Recurrence, Rule, parse
from calsched.triggers.base import BusinessCalendar, Context
from calsched.triggers.closed_days import OpenWalls, SearchedWalls, month_mask
from calsched.triggers.days import EPOCH_DAY, without
from calsched.triggers.engine import DAY, Engine, WallTimes
from calsched.triggers.fields import (
    Bad,
    Fields,
    as_instant,
    as_list,
    as_wall,
    expected,
    is_wall,
    one_of,
    shown,
    wall_datetime,
    wall_seconds,
    wall_text,
)
from calsched.triggers.wallclock import WallClockTrigger, clock_text, day_text, era, resolve_local
from calsched.zones import END_OF_TIME, WIDEST_OFFSET, Zone

_FIELDS: Final = frozenset(
    ("rrule", "dtstart", "timezone", "exdate", "rdate", "exclude", "calendar", "roll", "gap", "fold")
)
_MOST_DATES: Final = 10_000
_FEW: Final = 16
_MS_PER_DAY: Final = DAY * 1000
_CYCLE: Final = 146_097 * DAY
#: Recurrences count seconds from the year 0, the engine from 1970.
_SHIFT: Final = EPOCH_DAY * DAY
_BASIC: Final = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?", re.ASCII)


class RecurrenceWalls(SearchedWalls):
    """The wall times of a rule and of RDATE, less those of EXDATE, for the engine (which needs only these searches)."""

    __slots__ = ("_added", "_removed", "_removed_days", "rule")

    def __init__(
        self, rule: Recurrence, added: Sequence[int], removed: frozenset[int], removed_days: frozenset[int]
    ) -> None:
        """All in wall seconds since 1970; ``removed_days`` in days since then."""
        self.rule = rule
        self._removed, self._removed_days = removed, removed_days
        self._added = sorted({wall for wall in added if not self.removes(wall) and not self.named(wall)})

    def removes(self, wall: int) -> bool:
        """Whether EXDATE names the wall time, or its day."""
        return wall in self._removed or wall // DAY in self._removed_days

    def named(self, wall: int) -> bool:
        """Whether the rule itself names the wall time."""
        return self.rule.first_at_or_after(wall + _SHIFT) == wall + _SHIFT

    def __contains__(self, wall: int) -> bool:
        place = bisect_left(self._added, wall)
        listed = place < len(self._added) and self._added[place] == wall
        return listed or (self.named(wall) and not self.removes(wall))

    def next(self, wall: int) -> int | None:
        place = bisect_left(self._added, wall)
        listed = self._added[place] if place < len(self._added) else None
        found = self.rule.first_at_or_after(wall + _SHIFT)
        while found is not None and self.removes(found - _SHIFT):
            found = self.rule.first_at_or_after(found + 1)
        if found is None or listed is None:
            return listed if found is None else found - _SHIFT
        return min(listed, found - _SHIFT)

    def previous(self, wall: int) -> int | None:
        place = bisect_right(self._added, wall)
        listed = self._added[place - 1] if place else None
        found = self.rule.last_at_or_before(wall + _SHIFT)
        while found is not None and self.removes(found - _SHIFT):
            found = self.rule.last_at_or_before(found - 1)
        if found is None or listed is None:
            return listed if found is None else found - _SHIFT
        return max(listed, found - _SHIFT)

    def count(self, start: int, stop: int) -> int:
        if stop <= start:
            return 0
        listed = bisect_left(self._added, stop) - bisect_left(self._added, start)
        return listed + self.rule.count(start + _SHIFT, stop - 1 + _SHIFT) - self._removed_between(start, stop)

    def _removed_between(self, start: int, stop: int) -> int:
        single = sum(
            1
            for wall in self._removed
            if start <= wall < stop and wall // DAY not in self._removed_days and self.named(wall)
        )
        whole = (
            (max(start, day * DAY) + _SHIFT, min(stop, day * DAY + DAY) - 1 + _SHIFT) for day in self._removed_days
        )
        return single + sum(self.rule.count(first, last) for first, last in whole if first <= last)


class RRuleTrigger(WallClockTrigger):
    """An RRULE from ``dtstart`` on, with ``rdate`` added and ``exdate`` taken out (after COUNT has counted).

    ``dtstart`` is a wall time of the zone, and an occurrence only where it matches the rule. An UNTIL in UTC is an
    instant, one without ``Z`` a wall time, a date alone includes its whole day. ``exdate`` and ``rdate`` are lists of
    wall times (or of instants with ``Z``); a date alone takes out its whole day, or adds it at the time of ``dtstart``.

    ``exclude``, ``calendar`` and ``roll`` drop closed days or move them to open ones, after COUNT has counted too.
    """

    __slots__ = ("_dtstart", "_exdate", "_rdate", "_rule", "_rule_walls")
    kind: ClassVar[str] = "rrule"

    _dtstart: int
    _exdate: tuple[str, ...]
    _rule_walls: RecurrenceWalls
    _rdate: tuple[str, ...]
    _rule: Rule

    def __init__(
        self,
        rrule: str,
        *,
        dtstart: datetime | date | str,
        timezone: str | tzinfo | None = None,
        exdate: Any = (),
        rdate: Any = (),
        exclude: Any = (),
        calendar: BusinessCalendar | str | None = None,
        calendars: Mapping[str, BusinessCalendar] | None = None,
        roll: str | None = None,
        gap: GapRule = "skip",
        fold: FoldRule = "first",
    ) -> None:
        given = {
            "rrule": rrule,
            "dtstart": dtstart,
            "timezone": timezone,
            "exdate": list(as_list(exdate)),
            "rdate": list(as_list(rdate)),
            "exclude": list(as_list(exclude)),
            "calendar": calendar,
            "roll": roll,
            "gap": gap,
            "fold": fold,
        }
        self._load(Fields(_present(given), _FIELDS, Context(calendars=calendars or {})))

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], context: Context) -> Self:
        made = cls.__new__(cls)
        made._load(Fields(_present(spec), _FIELDS, context))
        return made

    def _load(self, fields: Fields) -> None:
        zone = self._read_common(fields)
        gap: GapRule = fields.read("gap", one_of(*GAP_RULES), "skip")
        fold: FoldRule = fields.read("fold", one_of(*FOLD_RULES), "first")
        rule, problems = parse(fields.given.get("rrule"))
        fields.problems += problems
        if not fields.has("dtstart"):
            fields.fail("dtstart", "a recurrence rule needs its start", "for example dtstart: '2026-01-05T09:00:00'")
        if zone is None:
            fields.check()
            return
        start = fields.read("dtstart", lambda value: _start(value, zone), 0)
        none: list[tuple[int, bool]] = []
        exdate = fields.read("exdate", lambda value: _dates(value, zone, gap, fold), none)
        rdate = fields.read("rdate", lambda value: _dates(value, zone, gap, fold), none)
        fields.check()
        assert rule is not None
        self._dtstart, self._rule = start, rule
        self._exdate, self._rdate = (tuple(sorted({_text(*item) for item in dates})) for dates in (exdate, rdate))
        self._rule_walls = walls = RecurrenceWalls(
            Recurrence(rule, wall_datetime(start)),
            [wall + (start % DAY if whole else 0) for wall, whole in rdate],
            frozenset(wall for wall, whole in exdate if not whole),
            frozenset(wall // DAY for wall, whole in exdate if whole),
        )
        high = wall_seconds(rule.until) if rule.until is not None and rule.until_utc else END_OF_TIME
        if (last := walls.previous(1 << 60)) is not None:  # so that no search goes on after the rule has ended
            high = min(high, last + WIDEST_OFFSET + (0 if self._open is None else DAY * day_rule.REACH))
        self._base = without(month_mask(walls), self._excluded)
        self._engine = Engine(zone, self._opened(walls), gap, fold, None, high)
        self._prove_rule(fields, walls)
        fields.check()

    def _opened(self, walls: RecurrenceWalls) -> WallTimes:
        if self._open is None and not self._excluded:
            return walls
        excluded = frozenset(day.toordinal() - EPOCH_DAY for day in self._excluded)
        return OpenWalls(walls, self._roll or "skip", self._open or _always_open, excluded)

    def _prove_rule(self, fields: Fields, walls: RecurrenceWalls) -> None:
        """Refuses what can never fire: at all, or in the era of the zone data where nothing ends the rule."""
        engine, rule = self._engine, self._rule
        endless = rule.count is None and rule.until is None
        if self._fires(max(engine.low, era(self._zone_source), self._dtstart - DAY) if endless else engine.low):
            return
        first = walls.rule.first_at_or_after(0)
        if first is None and rule.until is not None:
            fields.fail("rrule", f"UNTIL: no date of the rule lies between dtstart and {dict(rule.written)['UNTIL']}")
        elif first is None:
            fields.fail("rrule", f"{rule.selectors or rule.text}: no date ever matches; the rule can never fire")
        elif walls.next(first - _SHIFT) is None:
            fields.fail("exdate", "every occurrence of the rule is excluded: it can never fire")
        elif engine.high < first - _SHIFT - DAY:
            fields.fail("rrule", "UNTIL: no occurrence of the rule comes before it")
        elif engine.walls.next(first - _SHIFT - DAY * day_rule.REACH) is None:
            name = "exclude" if self._open is None else "calendar" if self._calendar else "roll"
            fields.fail(name, "every day of the rule is closed: it can never fire")
        else:
            where = f"every wall time of the rule falls into a gap in {engine.zone.name}: it can never fire"
            fields.fail("rrule", where, "gap: shift or gap: boundary would give it a place")

    def _fires(self, since: int) -> bool:
        """Whether a slot comes from ``since`` on. Zones repeat like the calendar: 400 years in gaps are for ever."""
        engine, walls = self._engine, self._engine.walls
        soon = Engine(engine.zone, walls, engine.gap, engine.fold, None, min(engine.high, since + _CYCLE))
        if soon.first(since) is not None:
            return True
        wall = walls.next(since)
        return (wall is None or wall > since + _CYCLE) and engine.first(since) is not None

    def nth_after(self, instant: int, n: int) -> int | None:
        """By halving a span that holds it, with counts, so that a far slot costs little more than a near one."""
        low, high = instant, instant + _MS_PER_DAY
        while self.count(low, high) <= n:
            if high >= LAST_INSTANT:
                return None
            high = min(2 * high - instant, LAST_INSTANT)
        while n > _FEW:
            middle = (low + high) // 2
            here = self.count(low, middle)
            if here > n:
                high = middle
            else:
                low, n = middle + 1, n - here
        return super(WallClockTrigger, self).nth_after(low, n)

    def _why_not(self, second: int) -> str:
        walls = self._rule_walls
        wall = second + self._engine.zone.offset_at(second)
        when = f"{clock_text(wall)} on {day_text(wall)}"
        if wall < self._dtstart:
            return f"{when} is before dtstart, {wall_text(self._dtstart)}"
        if walls.named(wall) and walls.removes(wall):
            return f"{when} is excluded by exdate"
        if closed := self._why_closed(wall_datetime(wall).date()):
            return closed
        if wall + _SHIFT > walls.rule.end or second > self._engine.high:
            return f"{when} is after the end of {self._rule.text}"
        return f"{self._rule.text} does not name {when}"

    def _why_not_day(self, day: date) -> str | None:
        return None

    def _why_not_time(self, second: int) -> str:
        return f"{self._rule.text} does not name {clock_text(second)}"

    def spec(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "kind": self.kind,
            "timezone": self._engine.zone.name,
            "dtstart": wall_text(self._dtstart),
            "rrule": self._rule.text,
        }
        out |= {name: list(dates) for name, dates in (("exdate", self._exdate), ("rdate", self._rdate)) if dates}
        return out | self._common_spec()


def _present(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None and value != []}


def _always_open(ordinal: int) -> bool:
    return True


def _start(value: Any, zone: Zone) -> int:
    value = _extended(value)
    if is_wall(value):
        return as_wall(value)
    if zone.name in ("UTC", "Etc/UTC"):
        return as_instant(value) // 1000
    hint = "dtstart is the wall time of the zone, without Z or offset"
    expected("a local time such as '2026-01-05T09:00:00'", value, hint=hint)


def _dates(value: Any, zone: Zone, gap: GapRule, fold: FoldRule) -> list[tuple[int, bool]]:
    """Wall times, each with whether it stands for its whole day."""
    given = as_list(value)
    if len(given) > _MOST_DATES:
        raise Bad(f"{len(given)} dates are too many; at most {_MOST_DATES}")
    return list(_each_date(given, zone, gap, fold))


def _each_date(given: list[Any], zone: Zone, gap: GapRule, fold: FoldRule) -> Iterator[tuple[int, bool]]:
    for place, item in enumerate(given):
        moment = _extended(item)
        try:
            if is_wall(moment):
                whole = len(moment) == 10 if isinstance(moment, str) else not isinstance(moment, datetime)
                yield as_wall(moment), whole
                continue
            second = as_instant(moment) // 1000
        except Bad as bad:
            raise Bad(bad.message, f"[{place}]", bad.hint) from None
        wall = second + zone.offset_at(second)
        if second * 1000 not in resolve_local(zone, wall, gap, fold):
            hint = f"write the wall time; fold: {fold} says which pass of it counts"
            raise Bad(f"{shown(item)} is not what {wall_text(wall)} means here", f"[{place}]", hint)
        yield wall, False


def _extended(value: Any) -> Any:
    """A time in iCalendar's basic form (``20260105T090000``) as ISO 8601 writes it; all else as it is."""
    found = _BASIC.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    day, clock = "-".join(found.groups()[:3]), found.groups()[3:6]
    return f"{day}T{':'.join(clock)}{found[7]}" if found[4] else day


def _text(wall: int, whole: bool) -> str:
    return wall_text(wall)[:10] if whole else wall_text(wall)
