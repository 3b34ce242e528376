"""A calendar's definition as it is written, every problem with its path."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from typing import Any

from calsched.calendars.calendar import WEEKDAYS
from calsched.errors import Problem

KEYS = ("weekend", "yearly", "dates", "holidays", "ics", "union", "difference", "open", "through")
HOLIDAY_KEYS = ("country", "subdivision", "years", "from", "to", "categories", "language")
#: More closed days than this are no calendar of a business.
MOST_DATES = 20_000
_LONGEST_SPAN = 366
_FIRST_YEAR, _LAST_YEAR = 1900, 2200
_MOST_YEARS = 50
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MONTH_DAY = re.compile(r"\d\d-\d\d", re.ASCII)
_SHORT = {day[:3].lower(): number for number, day in enumerate(WEEKDAYS)}
_LONG = {day.lower(): number for number, day in enumerate(WEEKDAYS)}


@dataclass(frozen=True, slots=True)
class HolidaySource:
    """Public holidays of a country; ``years`` are the first and the last; None: counted from the day of reading."""

    country: str
    subdivision: str | None = None
    years: tuple[int, int] | None = None
    categories: tuple[str, ...] = ()
    language: str | None = None


@dataclass(frozen=True, slots=True)
class CalendarDefinition:
    """One definition, read but not yet resolved."""

    weekend: tuple[int, ...]
    yearly: Mapping[str, str] = field(default_factory=dict)
    dates: Mapping[str, str] = field(default_factory=dict)
    open: tuple[str, ...] = ()
    holidays: HolidaySource | None = None
    ics: str | None = None
    union: tuple[str, ...] = ()
    difference: tuple[str, ...] = ()
    through: int | None = None

    @property
    def members(self) -> tuple[str, ...]:
        return self.union or self.difference


Problems = list[Problem]


def read_definition(value: Any, path: str, problems: Problems) -> CalendarDefinition | None:
    """The definition that ``value`` says; None, and at least one more problem, where it cannot be used."""
    before = len(problems)
    if not isinstance(value, Mapping):
        problems.append(Problem(f"expected a mapping with some of {', '.join(KEYS)}, got {value!r}", path))
        return None
    _unknown_keys(value, KEYS, path, problems)
    given = {key: value[key] for key in KEYS if value.get(key) is not None}
    read = {key: _READERS[key](item, f"{path}.{key}", problems) for key, item in given.items()}
    if "union" in given and "difference" in given:
        problems.append(Problem("either union or difference; name one of the two as a calendar of its own", path))
    if len(problems) > before:
        return None
    read.setdefault("weekend", () if "union" in given or "difference" in given else (5, 6))
    return CalendarDefinition(**read)


def valid_name(name: Any) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _unknown_keys(value: Mapping[str, Any], known: tuple[str, ...], path: str, problems: Problems) -> None:
    for key in value:
        if key not in known:
            near = get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            problems.append(Problem("unknown key", f"{path}.{key}", hint=hint))


def _weekend(value: Any, path: str, problems: Problems) -> tuple[int, ...]:
    days = {_weekday(item, f"{path}[{index}]", problems) for index, item in enumerate(_list(value, path, problems))}
    return tuple(sorted(days - {-1}))


def _weekday(item: Any, path: str, problems: Problems) -> int:
    if isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= 6:
        return item
    text = item.lower() if isinstance(item, str) else ""
    if text in _SHORT or text in _LONG:
        return _SHORT.get(text, _LONG.get(text, -1))
    hint = "Sunday is 6" if item == 7 else ""
    problems.append(Problem(f"expected 0 to 6 or a day name, got {item!r}", path, hint=hint))
    return -1


def _list(value: Any, path: str, problems: Problems) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return list(value)
    problems.append(Problem(f"expected a list, got {value!r}", path))
    return []


def _yearly(value: Any, path: str, problems: Problems) -> dict[str, str]:
    return dict(_named(value, path, problems, _month_day))


def _dates(value: Any, path: str, problems: Problems) -> dict[str, str]:
    return dict(_named(value, path, problems, _date_or_span))


def _open(value: Any, path: str, problems: Problems) -> tuple[str, ...]:
    return tuple(sorted({text for text, _ in _named(value, path, problems, _date_or_span)}))


def _named(
    value: Any, path: str, problems: Problems, read: Callable[[Any, str, Problems], list[str]]
) -> Iterator[tuple[str, str]]:
    """Dates with their names, from a list (``"2026-12-24"`` or ``{date: …, name: …}``) or a mapping of date to name."""
    if isinstance(value, Mapping):
        items = [(f"{path}.{key}", key, name) for key, name in value.items()]
    else:
        entries = enumerate(_list(value, path, problems))
        items = [_entry(item, f"{path}[{index}]", problems) for index, item in entries]
    left = MOST_DATES
    for place, written, name in items:
        if name is not None and not isinstance(name, str):
            problems.append(Problem(f"expected a name, got {name!r}", place))
        days = read(written, place, problems)
        left -= len(days)
        if left < 0:
            problems.append(Problem(f"more than {MOST_DATES} days", path))
            return
        yield from ((day, name if isinstance(name, str) else "") for day in days)


def _entry(item: Any, path: str, problems: Problems) -> tuple[str, Any, Any]:
    if not isinstance(item, Mapping):
        return path, item, None
    _unknown_keys(item, ("date", "name"), path, problems)
    return path, item.get("date"), item.get("name")


def _month_day(item: Any, path: str, problems: Problems) -> list[str]:
    if isinstance(item, str) and _MONTH_DAY.fullmatch(item):
        try:
            date.fromisoformat(f"2000-{item}")
            return [item]
        except ValueError:
            problems.append(Problem(f"there is no {item} in any year", path))
            return []
    problems.append(Problem(f"expected a month and day like '12-25', got {item!r}", path))
    return []


def _date_or_span(item: Any, path: str, problems: Problems) -> list[str]:
    """One date, or both ends of a span: ``2026-12-24/2026-12-31``."""
    ends = item.split("/") if isinstance(item, str) and item.count("/") <= 1 else [item]
    found = [_date(end, path, problems) for end in ends]
    if None in found:
        return []
    first, last = (day for day in (found[0], found[-1]) if day is not None)
    length = (last - first).days + 1
    if not 1 <= length <= _LONGEST_SPAN:
        problems.append(Problem(f"expected a span of 1 to {_LONGEST_SPAN} days, got {item!r}", path))
        return []
    return [(first + timedelta(days=number)).isoformat() for number in range(length)]


def _date(item: Any, path: str, problems: Problems) -> date | None:
    if isinstance(item, date) and not isinstance(item, datetime):
        return item
    if isinstance(item, str) and _DATE.fullmatch(item):
        try:
            return date.fromisoformat(item)
        except ValueError as error:
            problems.append(Problem(f"there is no {item}: {error}", path))
            return None
    problems.append(Problem(f"expected a date like '2026-12-25' or a span '2026-12-24/2026-12-31', got {item!r}", path))
    return None


def _holidays(value: Any, path: str, problems: Problems) -> HolidaySource | None:
    if isinstance(value, str):
        value = {"country": value}
    if not isinstance(value, Mapping):
        problems.append(Problem(f"expected a country such as 'US', or {{country: US, …}}, got {value!r}", path))
        return None
    _unknown_keys(value, HOLIDAY_KEYS, path, problems)
    texts = {key: value.get(key) for key in ("country", "subdivision", "language")}
    for key, text in texts.items():
        if (text is None and key == "country") or (text is not None and (not isinstance(text, str) or not text)):
            problems.append(Problem(f"expected a code, got {text!r}", f"{path}.{key}"))
    categories = value.get("categories") or ()
    listed = (categories,) if isinstance(categories, str) else tuple(_list(categories, f"{path}.categories", problems))
    for index, name in enumerate(listed):
        if not isinstance(name, str):
            problems.append(Problem(f"expected a category, got {name!r}", f"{path}.categories[{index}]"))
    years = _years(value, path, problems)
    return HolidaySource(str(texts["country"]), texts["subdivision"], years, listed, texts["language"])


def _years(value: Mapping[str, Any], path: str, problems: Problems) -> tuple[int, int] | None:
    """``years: 2026``, ``years: [2026, 2027]``, ``years: {from: …, to: …}`` or ``from``/``to`` beside the country."""
    years = value.get("years")
    if isinstance(years, Mapping):
        _unknown_keys(years, ("from", "to"), f"{path}.years", problems)
        return _year_span(years, f"{path}.years", problems)
    if years is None:
        return _year_span(value, path, problems) if "from" in value or "to" in value else None
    if "from" in value or "to" in value:
        problems.append(Problem("either years, or from and to", f"{path}.years"))
        return None
    listed = years if isinstance(years, (list, tuple)) else [years]
    found = [_year(year, f"{path}.years", problems) for year in listed]
    if not found or sorted(set(found)) != list(range(min(found), max(found) + 1)):
        problems.append(Problem(f"expected years without a hole between them, got {years!r}", f"{path}.years"))
        return None
    return _bounded_years(min(found), max(found), f"{path}.years", problems)


def _year_span(value: Mapping[str, Any], path: str, problems: Problems) -> tuple[int, int] | None:
    missing = [key for key in ("from", "to") if value.get(key) is None]
    for key in missing:
        problems.append(Problem("required: from and to belong together", f"{path}.{key}"))
    if missing:
        return None
    first, last = (_year(value[key], f"{path}.{key}", problems) for key in ("from", "to"))
    return _bounded_years(first, last, path, problems)


def _bounded_years(first: int, last: int, path: str, problems: Problems) -> tuple[int, int] | None:
    if not 0 <= last - first < _MOST_YEARS:
        problems.append(Problem(f"expected 1 to {_MOST_YEARS} years, got {first} to {last}", path))
        return None
    return first, last


def _year(value: Any, path: str, problems: Problems) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and _FIRST_YEAR <= value <= _LAST_YEAR:
        return value
    problems.append(Problem(f"expected a year from {_FIRST_YEAR} to {_LAST_YEAR}, got {value!r}", path))
    return _FIRST_YEAR


def _file(value: Any, path: str, problems: Problems) -> str | None:
    if isinstance(value, str) and value and "\0" not in value:
        return value
    problems.append(Problem(f"expected the name of an .ics file, got {value!r}", path))
    return None


def _names(value: Any, path: str, problems: Problems) -> tuple[str, ...]:
    names = _list(value, path, problems)
    for index, name in enumerate(names):
        if not valid_name(name):
            problems.append(Problem(f"expected the name of a calendar, got {name!r}", f"{path}[{index}]"))
        elif name in names[:index]:
            problems.append(Problem(f"{name!r} is named twice", f"{path}[{index}]"))
    if len(names) < 2:
        problems.append(Problem(f"expected at least two calendars, got {value!r}", path))
    return tuple(str(name) for name in names)


_READERS: dict[str, Callable[[Any, str, Problems], Any]] = {
    "weekend": _weekend,
    "yearly": _yearly,
    "dates": _dates,
    "open": _open,
    "holidays": _holidays,
    "ics": _file,
    "union": _names,
    "difference": _names,
    "through": _year,
}
