"""What tests may write where an instant is meant, and how instants are shown to them."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

from calsched import zones
from calsched.clock import LAST_INSTANT, to_datetime, to_millis
from calsched.policies.clock_change import Fold, Gap, Unambiguous

#: An instant: milliseconds since the Unix epoch, an aware datetime, RFC 3339 text; or a wall time of the zone at hand.
Moment = int | str | date | datetime

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # wall time
_DAY = timedelta(days=1)


def instant(moment: Moment, zone: str | None = None, source: str = "package", *, end: bool = False) -> int:
    """The instant of a moment, in milliseconds.

    Wall times (naive) are those of ``zone``; of a repeated one the first, unless a datetime's ``fold`` says otherwise.
    A date is where its day begins in the zone, or with ``end`` the last millisecond of it. Raises ValueError for what
    is no time, and for wall times without a zone or that do not exist.
    """
    if isinstance(moment, bool) or not isinstance(moment, int | str | date):
        raise TypeError(f"expected a time, got {type(moment).__name__}")
    if isinstance(moment, int):
        return _in_range(moment)
    parsed = _parsed(moment) if isinstance(moment, str) else moment
    if not isinstance(parsed, datetime):
        return _of_day(parsed, zone, source, end)
    if parsed.tzinfo is not None:
        return _in_range(to_millis(parsed))
    return _of_wall(parsed, zone, source)


def _parsed(text: str) -> datetime | date:
    try:
        return date.fromisoformat(text) if len(text) == 10 else datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"expected a time such as 2027-03-01T09:00 or 2027-03-01T09:00:00Z, got {text!r}") from None


def _in_range(millis: int) -> int:
    if not -LAST_INSTANT <= millis <= LAST_INSTANT:
        raise ValueError(f"{millis} is no instant in milliseconds that calsched knows")
    return millis


def _of_day(day: date, zone: str | None, source: str, end: bool) -> int:
    start = _EPOCH + _DAY * (day.toordinal() - _EPOCH.toordinal())
    if end:
        return _of_wall(start + _DAY, zone, source, boundary=True) - 1
    return _of_wall(start, zone, source, boundary=True)


def _of_wall(wall: datetime, zone: str | None, source: str, *, boundary: bool = False) -> int:
    if zone is None:
        raise ValueError(f"{wall.isoformat()} says no zone, and there is none to take it in: write an offset or Z")
    known = zones.load(zone, source)
    since = wall - _EPOCH
    local = known.local(since.days * 86_400 + since.seconds)
    rest = since.microseconds // 1000
    match local:
        case Unambiguous(second):
            return second * 1000 + rest
        case Fold(first, second):
            return (second if wall.fold else first) * 1000 + rest
        case Gap(_, jump):
            if boundary:
                return jump * 1000
            raise ValueError(f"{wall.isoformat()} does not exist in {zone}: clocks went forward over it")


def length(by: timedelta | int | float | None, **parts: float) -> int:
    """A length of time in milliseconds: a timedelta, seconds, or ``days=``, ``hours=``, ``minutes=``, ``seconds=``."""
    whole = timedelta(**parts)
    if by is not None:
        whole += by if isinstance(by, timedelta) else timedelta(seconds=by)
    return whole // timedelta(milliseconds=1)


def shown(at: int, zone: str | None, source: str = "package") -> datetime:
    """An instant on the wall clock of a zone (UTC without one), with a fixed offset.

    A fixed offset, because datetimes of a zone are unequal to everything else in the hours that clocks repeat.
    """
    moment = to_datetime(at)
    if zone is None:
        return moment
    offset = timezone(timedelta(seconds=zones.load(zone, source).offset_at(at // 1000)))
    return moment.astimezone(offset)


def text(at: int, zone: str | None, source: str = "package") -> str:
    """``Fri 2027-02-26 18:00:00 -06:00``; the weekday is what people check first."""
    moment: Any = shown(at, zone, source)
    form = moment.isoformat(sep=" ", timespec="milliseconds" if at % 1000 else "seconds")
    return f"{moment:%a} {form[:-6]} {form[-6:] if zone is not None else 'UTC'}"
