"""Time zones by IANA name, read from a declared source, as tables of offset changes that a search can bisect.

The default source is the ``tzdata`` package, so that every host with the same lock file gives the same answers;
``system`` reads the host's database, an absolute path any other compiled tree (to compare versions). ``zoneinfo``'s
process-wide search path is read for ``system`` and never changed.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.resources
import re
import struct
import threading
import zoneinfo
from bisect import bisect_right
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Final, NamedTuple

from calsched.errors import Problem, TriggerInvalid
from calsched.policies.clock_change import Fold, Gap, LocalTime, Unambiguous

#: Seconds from 1970-01-01 to the end of 9999-12-31: no table reaches further.
END_OF_TIME: Final = 253_402_300_800
#: Before every instant that can be asked for.
BEGINNING: Final = -(1 << 60)
#: No zone was ever further than this from UTC (Manila was, by 15:56, until 1844).
WIDEST_OFFSET: Final = 86_400

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_FIRST_HORIZON: Final = 2_272_147_200  # 2042-01-01: enough for most questions, cheap to compute
_HORIZON_STEP: Final = 3_155_760_000  # a hundred years
_NAME = re.compile(r"[A-Za-z0-9_+\-]+(/[A-Za-z0-9_+\-]+)*", re.ASCII)
_NO_ZONES: Final = frozenset({"Factory", "localtime", "posixrules"})


class ZoneInvalid(TriggerInvalid):
    """A zone that cannot be used; its one problem has the path ``timezone``."""


class Spans(NamedTuple):
    """Spans of constant offset: span i begins at UTC second ``starts[i]``; complete up to ``until``."""

    starts: list[int]
    offsets: list[int]
    until: int


class Zone:
    """One zone of one source. Offsets and times are whole seconds; its table grows when a later time is asked for."""

    __slots__ = ("_lock", "_rule", "_spans", "name", "source", "timelines")

    def __init__(self, name: str, source: str, spans: Spans, rule: Rule | None) -> None:
        self.name, self.source = name, source
        self._spans, self._rule = spans, rule
        self._lock = threading.Lock()
        #: What searches have compiled from this zone; theirs to fill, here so that it lives as long as the zone.
        self.timelines: dict[tuple[str, str], object] = {}

    def __repr__(self) -> str:
        return f"Zone({self.name!r})" if self.source == "package" else f"Zone({self.name!r}, {self.source!r})"

    def spans(self, until: int = 0) -> Spans:
        """The table, complete at least up to UTC second ``until`` (and never past the year 9999)."""
        spans = self._spans
        wanted = min(until, END_OF_TIME)
        if wanted <= spans.until:
            return spans
        with self._lock:
            if wanted > self._spans.until:
                horizon = _FIRST_HORIZON if wanted <= _FIRST_HORIZON else min(END_OF_TIME, wanted + _HORIZON_STEP)
                self._spans = _extended(self._spans, self._rule, horizon)
            return self._spans

    def offset_at(self, second: int) -> int:
        """Seconds east of UTC at a UTC second."""
        spans = self.spans(second + 1)
        return spans.offsets[bisect_right(spans.starts, second) - 1]

    def local(self, wall: int) -> LocalTime:
        """What the wall time ``wall`` is: seconds since 1970-01-01T00:00:00 as a clock on the wall counts them."""
        spans = self.spans(wall + 2 * WIDEST_OFFSET)
        starts, offsets = spans.starts, spans.offsets
        index = max(bisect_right(starts, wall - WIDEST_OFFSET) - 1, 0)
        found: list[int] = []
        gap: Gap | None = None
        while index < len(starts) and starts[index] <= wall + WIDEST_OFFSET:
            start, offset = starts[index], offsets[index]
            end = starts[index + 1] if index + 1 < len(starts) else END_OF_TIME + WIDEST_OFFSET
            if start <= wall - offset < end:
                found.append(wall - offset)
            if gap is None and index and start + offsets[index - 1] <= wall < start + offset:
                gap = Gap(wall - offsets[index - 1], start)
            index += 1
        if not found:
            assert gap is not None
            return gap
        return Unambiguous(found[0]) if len(found) == 1 else Fold(found[0], found[-1])


def load(name: object, source: str = "package") -> Zone:
    """The zone of that IANA name.

    Raises ZoneInvalid for names that are unknown, misspelt in case, or of no place: ``Factory``, ``localtime``,
    ``right/…``, ``posix/…``, directories, and anything that is not a string.
    """
    if not isinstance(name, str):
        raise _invalid(f"expected an IANA zone name such as 'Europe/Berlin', got {name!r}")
    return _load(name, source)


@functools.lru_cache(maxsize=1024)
def _load(name: str, source: str) -> Zone:
    if name in _NO_ZONES or name.startswith(("right/", "posix/")):
        raise _invalid(f"{name!r} is not a zone to schedule in; expected an IANA zone name such as 'Europe/Berlin'")
    data = _read(name, source) if len(name) <= 100 and _NAME.fullmatch(name) else None
    if data is None or data[:4] != b"TZif":
        raise _unknown(name, source)
    try:
        spans, rule = parse(data)
    except (ValueError, IndexError, struct.error) as error:
        raise _invalid(f"the data of {name!r} in {source} cannot be read: {error}") from None
    return Zone(name, source, spans, rule)


def _invalid(message: str, hint: str = "") -> ZoneInvalid:
    return ZoneInvalid([Problem(message, path="timezone", hint=hint)])


def _unknown(name: str, source: str) -> ZoneInvalid:
    by_folded = {known.lower(): known for known in sorted(available(source))}
    near = by_folded.get(name.strip().lower())
    if near is None and (close := difflib.get_close_matches(name.lower(), by_folded, n=1, cutoff=0.75)):
        near = by_folded[close[0]]
    shown = name if len(name) <= 60 else f"{name[:60]}…"
    if found := re.fullmatch(r"(?:UTC|GMT)?([+-])0?(\d{1,2})(?::?00)?", name, re.ASCII | re.IGNORECASE):
        sign = "-" if found[1] == "+" else "+"  # these names count west of Greenwich
        return _invalid(f"there is no zone {shown!r}", hint=f"a fixed offset is 'Etc/GMT{sign}{found[2]}'")
    return _invalid(f"there is no zone {shown!r}", hint=f"did you mean {near!r}?" if near else "")


# --- sources --------------------------------------------------------------------------------------------------------


def roots(source: str) -> tuple[Path, ...]:
    """The directories of a source that is not the package."""
    if source == "system":
        return tuple(Path(root) for root in zoneinfo.TZPATH)
    if Path(source).is_absolute():
        return (Path(source),)
    raise ValueError(f"expected a zone source 'package', 'system' or an absolute path, got {source!r}")


def _read(name: str, source: str) -> bytes | None:
    if source == "package":
        if name not in available(source):
            return None
        return importlib.resources.files("tzdata.zoneinfo").joinpath(*name.split("/")).read_bytes()
    for root in roots(source):
        path = root.joinpath(*name.split("/"))
        if path.is_file() and _spelt(root, name):
            return path.read_bytes()
    return None


def _spelt(root: Path, name: str) -> bool:
    """Whether every part of the name is spelt so on disk, also where the file system ignores case."""
    for part in name.split("/"):
        if part not in {entry.name for entry in root.iterdir()}:
            return False
        root /= part
    return True


@functools.lru_cache(maxsize=16)
def available(source: str = "package") -> frozenset[str]:
    """The names that ``load`` takes."""
    if source == "package":
        listed = importlib.resources.files("tzdata").joinpath("zones").read_text(encoding="utf-8").split()
        return frozenset(listed) - _NO_ZONES
    return frozenset(name for root in roots(source) if root.is_dir() for name in _walk(root))


def _walk(root: Path) -> Iterator[str]:
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if (
            _NAME.fullmatch(name)
            and name not in _NO_ZONES
            and not name.startswith(("right/", "posix/"))
            and path.is_file()
        ):
            with path.open("rb") as file:
                if file.read(4) == b"TZif":
                    yield name


def version(source: str = "package") -> str:
    """The version of the source's data, such as ``2026f``; ``unknown`` where it does not say."""
    if source == "package":
        return str(importlib.import_module("tzdata").IANA_VERSION)
    for root in roots(source):
        for file, pattern in (("+VERSION", r"(\w+)"), ("tzdata.zi", r"# version (\w+)"), ("version", r"(\w+)")):
            path = root / file
            if path.is_file():
                with path.open(encoding="utf-8", errors="replace") as text:
                    if found := re.match(pattern, text.readline()):
                        return found[1]
    return "unknown"


# --- TZif (RFC 9636) ------------------------------------------------------------------------------------------------


def parse(data: bytes) -> tuple[Spans, Rule | None]:
    """The explicit changes of a TZif file, and the rule of its footer for all later years (None: no more changes)."""
    wide = data[4:5] >= b"2"
    at = 44 + _body_size(data, 0, 4) if wide else 0
    size = 8 if wide else 4
    leaps, times, types = struct.unpack_from(">3l", data, at + 28)
    if leaps:
        raise ValueError("it counts leap seconds")
    body = at + 44
    changes = struct.unpack_from(f">{times}{'q' if wide else 'l'}", data, body)
    kinds = data[body + times * size : body + times * (size + 1)]
    local = [struct.unpack_from(">l?B", data, body + times * (size + 1) + 6 * kind) for kind in range(types)]
    footer = data[at + 44 + _body_size(data, at, size) :].strip(b"\n").decode("ascii") if wide else ""
    before = next((offset for offset, is_dst, _ in local if not is_dst), local[0][0])
    spans = _merged([BEGINNING, *changes], [before, *(local[kind][0] for kind in kinds)])
    rule = _rule(footer) if footer else None
    if rule is None:
        return Spans(spans.starts, spans.offsets, END_OF_TIME), None
    if isinstance(rule, int):
        last = changes[-1] if changes else BEGINNING
        if rule != spans.offsets[-1]:
            raise ValueError(f"its last offset at {last} contradicts its footer {footer!r}")
        return Spans(spans.starts, spans.offsets, END_OF_TIME), None
    return Spans(spans.starts, spans.offsets, changes[-1] if changes else BEGINNING), rule


def _body_size(data: bytes, at: int, size: int) -> int:
    isut, isstd, leaps, times, types, chars = struct.unpack_from(">6l", data, at + 20)
    return int(times * (size + 1) + types * 6 + chars + leaps * (size + 4) + isstd + isut)


def _merged(starts: list[int], offsets: list[int]) -> Spans:
    """Without changes that change nothing (of the name or of the daylight flag alone)."""
    kept_starts, kept_offsets = starts[:1], offsets[:1]
    for start, offset in zip(starts[1:], offsets[1:], strict=True):
        if offset != kept_offsets[-1] or start == kept_starts[-1]:
            _append(kept_starts, kept_offsets, start, offset)
    return Spans(kept_starts, kept_offsets, kept_starts[-1])


def _append(starts: list[int], offsets: list[int], start: int, offset: int) -> None:
    if start == starts[-1]:  # of two changes at once the later counts
        starts.pop()
        offsets.pop()
    if not offsets or offset != offsets[-1]:
        starts.append(start)
        offsets.append(offset)


# --- the footer: a POSIX TZ rule ------------------------------------------------------------------------------------


class Change(NamedTuple):
    """When a yearly change happens: ``month``/``week``/``weekday`` (0 = Sunday), or a day of the year."""

    month: int  # 0: day_of_year counts from 0 with leap days; -1: from 1, and 29 February is never counted
    week: int
    weekday: int
    day_of_year: int
    time: int  # seconds after local midnight; may be negative or beyond a day

    def day(self, year: int) -> int:
        """The ordinal of its day."""
        if self.month == 0:
            return date(year, 1, 1).toordinal() + self.day_of_year
        if self.month < 0:
            leap_day_passed = self.day_of_year >= 60 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
            return date(year, 1, 1).toordinal() + self.day_of_year - 1 + leap_day_passed
        first = date(year, self.month, 1).toordinal()
        day = first + (self.weekday - first) % 7 + 7 * (self.week - 1)  # ordinals count Sundays as multiples of 7
        return day if date.fromordinal(day).month == self.month else day - 7


class Rule(NamedTuple):
    """Two changes a year, for ever."""

    standard: int
    daylight: int
    to_daylight: Change
    to_standard: Change

    def year(self, year: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """The changes of a year as (UTC second, new offset), in time order."""
        up = (self.to_daylight.day(year) - _EPOCH_DAY) * 86_400 + self.to_daylight.time - self.standard
        down = (self.to_standard.day(year) - _EPOCH_DAY) * 86_400 + self.to_standard.time - self.daylight
        changes = ((up, self.daylight), (down, self.standard))
        return changes if up <= down else (changes[1], changes[0])


_ABBREVIATION = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+\-]+>)"
_CLOCK = r"[+-]?\d{1,3}(?::\d{1,2}(?::\d{1,2})?)?"
_FOOTER = re.compile(
    rf"{_ABBREVIATION}(?P<std>{_CLOCK})"
    rf"(?:{_ABBREVIATION}(?P<dst>{_CLOCK})?,(?P<up>[^,/]+)(?:/(?P<up_at>{_CLOCK}))?,(?P<down>[^,/]+)(?:/(?P<down_at>{_CLOCK}))?)?",
    re.ASCII,
)


def _rule(footer: str) -> Rule | int | None:
    found = _FOOTER.fullmatch(footer)
    if found is None:
        raise ValueError(f"its footer is {footer!r}")
    standard = -_clock(found["std"])  # POSIX counts west of Greenwich
    if found["up"] is None:
        return standard
    daylight = -_clock(found["dst"]) if found["dst"] else standard + 3600
    return Rule(
        standard,
        daylight,
        _change(found["up"], _clock(found["up_at"] or "2")),
        _change(found["down"], _clock(found["down_at"] or "2")),
    )


def _clock(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    parts = [int(part) for part in text.lstrip("+-").split(":")] + [0, 0]
    return sign * (parts[0] * 3600 + parts[1] * 60 + parts[2])


def _change(text: str, time: int) -> Change:
    if found := re.fullmatch(r"M(\d{1,2})\.([1-5])\.([0-6])", text, re.ASCII):
        return Change(int(found[1]), int(found[2]), int(found[3]), 0, time)
    if found := re.fullmatch(r"J(\d{1,3})", text, re.ASCII):
        return Change(-1, 0, 0, int(found[1]), time)
    if found := re.fullmatch(r"(\d{1,3})", text, re.ASCII):
        return Change(0, 0, 0, int(found[1]), time)
    raise ValueError(f"its footer has the date {text!r}")


def _extended(spans: Spans, rule: Rule | None, horizon: int) -> Spans:
    if rule is None:
        return Spans(spans.starts, spans.offsets, END_OF_TIME)
    starts, offsets = list(spans.starts), list(spans.offsets)
    first_year = 1 if spans.until <= _second_of_year(2) else _year_of(spans.until)
    for year in range(first_year, min(_year_of(horizon) + 1, 9999) + 1):
        for start, offset in rule.year(year):
            if spans.until < start <= horizon:
                _append(starts, offsets, start, offset)
    return Spans(starts, offsets, horizon)


def _year_of(second: int) -> int:
    return date.fromordinal(max(1, min(3_652_059, second // 86_400 + _EPOCH_DAY))).year


def _second_of_year(year: int) -> int:
    return (date(year, 1, 1).toordinal() - _EPOCH_DAY) * 86_400
