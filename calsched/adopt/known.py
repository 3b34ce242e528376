"""What the few known names in a job's pickle mean: zones, dates and times, durations, decimals, UUIDs.

Inert records in, plain values out. Every function looks at fixed places of a record and builds a value of the standard
library from numbers and texts that it has checked itself; whatever else is found raises NotKnown, which says what.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

from calsched import zones
from calsched.adopt.pickles import Name, Pairs, Thing, describe, shorten
from calsched.clock import to_millis
from calsched.errors import CalschedError
from calsched.policies.clock_change import Fold, Gap, Unambiguous

#: How many values the arguments of a job may have, and how deep they may nest.
MAX_VALUES: Final = 100_000
MAX_DEPTH: Final = 64

_ZONEINFO: Final = {Name("zoneinfo", "ZoneInfo._unpickle"), Name("backports.zoneinfo", "ZoneInfo._unpickle")}
_UTC_CALLS: Final = {Name("pytz", "_UTC"), Name("dateutil.tz.tz", "tzutc"), Name("tzlocal.utils", "utc")}
_PYTZ: Final = Name("pytz", "_p")
_PYTZ_FIXED: Final = Name("pytz", "_FixedOffset")
_DATEUTIL_FILE: Final = Name("dateutil.tz.tz", "tzfile")
_FIXED: Final = Name("datetime", "timezone")
#: Every name that this module understands, or that its things are made of.
KNOWN_NAMES: Final = (
    _ZONEINFO
    | _UTC_CALLS
    | {_PYTZ, _PYTZ_FIXED, _DATEUTIL_FILE, _FIXED, Name("collections", "OrderedDict")}
    | {Name("datetime", cls) for cls in ("datetime", "date", "time", "timedelta")}
    | {Name("decimal", "Decimal"), Name("uuid", "UUID"), Name("uuid", "SafeUUID")}
)
_ZONE_FILE: Final = re.compile(r".*/zoneinfo/(?:posix/)?(?P<key>[A-Za-z0-9_+\-/]+)")


class NotKnown(Exception):
    """Something that is not one of the few known things. ``path`` says where, relative to what was asked for."""

    def __init__(self, message: str, path: str = "") -> None:
        self.message, self.path = message, path
        super().__init__(f"{path}: {message}" if path else message)


@dataclass(frozen=True, slots=True)
class ZoneName:
    """A zone as a pickle names it: a key, or a fixed offset in seconds (pytz gives both, for one moment)."""

    key: str | None
    offset: int | None = None

    @property
    def spelt(self) -> str | None:
        """The IANA name to declare; None for a fixed offset that has none."""
        if self.key is not None:
            return self.key
        return "UTC" if self.offset == 0 else _whole_hours(self.offset)


    def offset_text(self) -> str:
        """A fixed offset as ``+05:30``, which only triggers of APScheduler's take. Raises NotKnown."""
        if self.offset is None or self.offset % 60 or not -86_400 < self.offset < 86_400:
            raise NotKnown(f"a fixed offset of {self.offset} s, which is no zone; expected an IANA zone")
        hours, minutes = divmod(abs(self.offset) // 60, 60)
        return f"{'-' if self.offset < 0 else '+'}{hours:02d}:{minutes:02d}"


def _whole_hours(offset: int | None) -> str | None:
    if offset is None or offset % 3600 or not -12 * 3600 <= offset <= 14 * 3600:
        return None
    return f"Etc/GMT{-offset // 3600:+d}"  # these names count westwards


@dataclass(frozen=True, slots=True)
class Moment:
    """A ``datetime`` as it was written: the wall time with its fold, and the zone it is in."""

    wall: datetime
    zone: ZoneName | None

    def aware(self) -> datetime:
        """With its offset from UTC; raises NotKnown for a time without a zone, or with one that is not known here."""
        if self.zone is None:
            raise NotKnown(f"{self.wall.isoformat()} says no zone")
        seconds = self.zone.offset if self.zone.offset is not None else _offset(self.wall, self.zone.key)
        if not -86_400 < seconds < 86_400:
            raise NotKnown(f"an offset of {seconds} s from UTC")
        return self.wall.replace(fold=0, tzinfo=timezone(timedelta(seconds=seconds)) if seconds else UTC)

    def instant(self) -> int:
        """Milliseconds since the Unix epoch; parts of a millisecond are dropped."""
        return to_millis(self.aware())


def _offset(wall: datetime, key: str | None) -> int:
    try:
        zone = zones.load(key)
    except CalschedError as unknown:
        raise NotKnown(str(unknown)) from None
    second = to_millis(wall.replace(tzinfo=UTC, microsecond=0)) // 1000
    match zone.local(second):
        case Unambiguous(instant) | Gap(instant, _):
            return second - instant
        case Fold(first, later):
            return second - (later if wall.fold else first)


@contextmanager
def within(path: str) -> Iterator[None]:
    """Put a path in front of whatever a block does not know."""
    try:
        yield
    except NotKnown as unknown:
        joint = "" if not unknown.path or unknown.path.startswith("[") else "."
        raise NotKnown(unknown.message, f"{path}{joint}{unknown.path}") from None


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise NotKnown(f"expected a text, got {describe(value)}")
    return value


def whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise NotKnown(f"expected a whole number, got {describe(value)}")
    return value


def sequence(value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise NotKnown(f"expected a list, got {describe(value)}")
    return list(value)


def pairs(value: Any) -> Pairs:
    if not isinstance(value, Pairs):
        raise NotKnown(f"expected a dictionary, got {describe(value)}")
    return value


def zone_of(value: Any) -> ZoneName:
    """The zone that zoneinfo, pytz, dateutil or the standard library wrote."""
    if not isinstance(value, Thing):
        raise NotKnown(f"expected a time zone, got {describe(value)}")
    name, args = value.name, value.args
    if name in _ZONEINFO and args:
        return ZoneName(_key(args[0]))
    if not args and name in _UTC_CALLS:
        return ZoneName("UTC")
    if not args:
        raise NotKnown(f"{describe(value)} is no time zone that is known here")
    if name == _PYTZ:
        return ZoneName(_key(args[0]), whole(args[1]) if len(args) >= 3 else None)
    if name == _PYTZ_FIXED:
        return ZoneName(None, whole(args[0]) * 60)
    if name == _FIXED:
        return ZoneName(None, round(duration(args[0]).total_seconds()))
    if name == _DATEUTIL_FILE and isinstance(args[-1], str) and (file := _ZONE_FILE.fullmatch(args[-1])):
        return ZoneName(_key(file["key"]))
    raise NotKnown(f"{describe(value)} is no time zone that is known here")


def _key(value: Any) -> str:
    key = text(value)
    try:
        return zones.load(key).name
    except CalschedError as unknown:
        raise NotKnown(shorten(str(unknown))) from None


def moment(value: Any) -> Moment:
    """A ``datetime``."""
    if not isinstance(value, Thing) or value.name != Name("datetime", "datetime"):
        raise NotKnown(f"expected a datetime, got {describe(value)}")
    raw, *rest = value.args or (None,)
    if not isinstance(raw, bytes) or len(raw) != 10:
        raise NotKnown("a datetime that is not ten bytes")
    fold, month, (day, hour, minute, second) = raw[2] >> 7, raw[2] & 0x7F, raw[3:7]
    micro = int.from_bytes(raw[7:10], "big")
    with _numbers("datetime"):
        wall = datetime(raw[0] * 256 + raw[1], month, day, hour, minute, second, micro, fold=fold)  # noqa: DTZ001
    return Moment(wall, zone_of(rest[0]) if rest else None)


def day(value: Any) -> date:
    if not isinstance(value, Thing) or value.name != Name("datetime", "date"):
        raise NotKnown(f"expected a date, got {describe(value)}")
    raw = value.args[0] if value.args else None
    if not isinstance(raw, bytes) or len(raw) != 4:
        raise NotKnown("a date that is not four bytes")
    with _numbers("date"):
        return date(raw[0] * 256 + raw[1], raw[2], raw[3])


def duration(value: Any) -> timedelta:
    if not isinstance(value, Thing) or value.name != Name("datetime", "timedelta"):
        raise NotKnown(f"expected a timedelta, got {describe(value)}")
    with _numbers("timedelta"):
        return timedelta(*(whole(part) for part in value.args[:3]))


def clock_time(value: Any) -> time:
    raw = value.args[0] if isinstance(value, Thing) and value.args else None
    if not isinstance(raw, bytes) or len(raw) != 6 or len(value.args) != 1:
        raise NotKnown(f"expected a time of day without a zone, got {describe(value)}")
    with _numbers("time"):
        return time(raw[0] & 0x7F, raw[1], raw[2], int.from_bytes(raw[3:6], "big"))


@contextmanager
def _numbers(what: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, OverflowError) as wrong:
        raise NotKnown(f"a {what} that cannot be: {wrong}") from None


def _decimal(value: Thing) -> Decimal:
    with _numbers("Decimal"):
        try:
            return Decimal(text(value.args[0]) if value.args else "0")
        except InvalidOperation:
            raise NotKnown("a Decimal that is no number") from None


def _uuid(value: Thing) -> UUID:
    number = value.state.get("int") if isinstance(value.state, Pairs) else None
    with _numbers("UUID"):
        return UUID(int=whole(number))


_BUILDERS: Final[dict[Name, Any]] = {
    Name("datetime", "datetime"): lambda value: _wall_or_aware(moment(value)),
    Name("datetime", "date"): day,
    Name("datetime", "time"): clock_time,
    Name("decimal", "Decimal"): _decimal,
    Name("uuid", "UUID"): _uuid,
}


def _wall_or_aware(value: Moment) -> datetime:
    return value.wall if value.zone is None else value.aware()


class Arguments:
    """Turns recorded arguments into values; collects every problem with its path instead of stopping at the first."""

    def __init__(self) -> None:
        self.problems: list[tuple[str, str]] = []
        self.changed: list[str] = []
        self._left = MAX_VALUES
        self._told = False

    def value(self, value: Any, path: str, depth: int = 0) -> Any:
        self._left -= 1
        if depth > MAX_DEPTH:
            self._refuse(path, f"nested more than {MAX_DEPTH} deep")
            return None
        if isinstance(value, (str, bytes)):
            self._left -= len(value) // 16  # one long text named a thousand times is written a thousand times
            return value
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, (list, tuple)):
            if isinstance(value, tuple):
                self._note(f"{path} was a tuple and is a list now")
            return self._each(value, path, depth)
        if isinstance(value, Pairs):
            return self._keys(value.pairs, path, depth)
        return self._thing(value, path, depth)

    def _each(self, values: Any, path: str, depth: int) -> list[Any]:
        out = []
        for index, item in enumerate(values):
            if self._exhausted(path):
                break
            out.append(self.value(item, f"{path}[{index}]", depth + 1))
        return out

    def _keys(self, found: list[tuple[Any, Any]], path: str, depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, item in found:
            if self._exhausted(path):
                break
            if not isinstance(key, str):
                self._refuse(path, f"expected keys that are texts, got {describe(key)}")
                continue
            out[key] = self.value(item, f"{path}.{shorten(key, 40)}", depth + 1)
        return out

    def _thing(self, value: Any, path: str, depth: int) -> Any:
        if isinstance(value, Thing) and value.name == Name("collections", "OrderedDict") and not value.args:
            self._note(f"{path} was an OrderedDict and is a plain mapping now")
            return self._keys(value.pairs, path, depth)
        builder = _BUILDERS.get(value.name) if isinstance(value, Thing) else None
        if builder is None:
            self._refuse(path, f"{describe(value)} has no form in JSON")
            return None
        self._left -= sum(len(part) for part in value.args if isinstance(part, (str, bytes))) // 16
        try:
            return builder(value)
        except NotKnown as unknown:
            self._refuse(path, unknown.message)
            return None

    def _exhausted(self, path: str) -> bool:
        if self._left >= 0:
            return False
        if not self._told:
            self.problems.append((path, f"more than {MAX_VALUES} values, or as many texts of 16 characters"))
            self._told = True
        return True

    def _note(self, text: str) -> None:
        if len(self.changed) < 20:
            self.changed.append(text)

    def _refuse(self, path: str, message: str) -> None:
        if len(self.problems) < 20:
            self.problems.append((path, message))
