"""A trigger in words: what a person would say, from the form that is stored.

``describe`` reads ``Trigger.spec()`` and builds nothing, so that a rule of another release can be told too. What goes
without saying (``gap: skip``, ``fold: first``) is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from calsched.triggers.calendar_fields import MONTH_NAMES, SHORT_DAYS

Spec = Mapping[str, Any]
_MOST_LISTED: Final = 4
_UNITS: Final = ((604_800_000, "w"), (86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms"))
_WEEK: Final = 604_800_000


def describe(spec: Spec) -> str:
    """The rule of a stored form, such as ``at 09:00 on mon-fri in America/Winnipeg``. Never raises.

    A form that this release cannot put in words is shown as it stands.

    >>> describe({"kind": "interval", "intervalMs": 900_000, "firstTick": "2026-01-01T00:00:00Z"})
    'every 15m from 2026-01-01T00:00Z'
    """
    try:
        return _SAID[spec["kind"]](spec)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError):
        return _as_it_stands(spec)


def length_text(millis: int) -> str:
    """A length of time as declarations write it: ``15m``, ``1h 30m``, ``1w``."""
    parts = []
    for size, unit in _UNITS if millis % _WEEK == 0 else _UNITS[1:]:
        number, millis = divmod(millis, size)
        if number:
            parts.append(f"{number}{unit}")
    return " ".join(parts)


# --- kinds -----------------------------------------------------------------------------------------------------------


def _interval(spec: Spec) -> str:
    first, start = spec.get("firstTick"), spec.get("start")
    begin = start or first
    counted = f", counted from {_short(first)}" if first and start else ""
    return f"every {length_text(spec['intervalMs'])}{_span(begin, spec.get('end'))}{counted}"


def _once(spec: Spec) -> str:
    return f"once at {_short(spec['at'])}{_zone(spec)}{_clock_rules(spec)}"


def _cron(spec: Spec) -> str:
    seconds = f" (seconds {spec['seconds']})" if spec.get("seconds") else ""
    spread = f", H spread by {spec['hashId']!r}" if spec.get("hashId") else ""
    usual = "both" if _names_every_hour(spec) else "first"
    return f"cron {spec['expression']}{seconds}{_zone(spec)}{spread}{_common(spec, usual)}"


def _names_every_hour(spec: Spec) -> bool:
    """Whether the hour field is a cadence, for which ``fold: both`` goes without saying."""
    from calsched.triggers.cron_fields import CronInvalid, parse

    try:
        return len(parse(spec["expression"], seconds=spec.get("seconds"), hash_id=spec.get("hashId")).hours) == 24
    except CronInvalid:
        return False


def _rrule(spec: Spec) -> str:
    dates = f"{_dates(', also on ', spec.get('rdate'))}{_dates(', except ', spec.get('exdate'))}"
    rule = re.sub(r"^RRULE:", "", spec["rrule"], flags=re.IGNORECASE)
    return f"rrule {rule}{_zone(spec)} from {_short(spec['dtstart'])}{dates}{_common(spec)}"


def _calendar(spec: Spec) -> str:
    times, days = _times(spec), _days(spec)
    every = "" if days or times.startswith("every") else " every day"
    return f"{times}{every}{days}{_zone(spec)}{_common(spec)}"


def _any_of(spec: Spec) -> str:
    return "any of " + _members(spec)


def _starting_at(spec: Spec) -> str:
    return f"first at {_short(spec['first'])}, then {describe(spec['then'])}"


def _members(spec: Spec) -> str:
    return ", ".join(f"({describe(member)})" for member in spec["triggers"])


def _apscheduler(spec: Spec) -> str:
    return _FOREIGN[spec["class"]](spec)


def _foreign_cron(spec: Spec) -> str:
    names = ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second")
    fields = " ".join(f"{name}={spec[name]!r}" for name in names if name in spec)
    return f"APScheduler's cron {fields}{_zone(spec)}{_span(spec.get('start'), spec.get('end'))}"


def _foreign_steps(spec: Spec) -> str:
    steps = [f"{spec[name]} {name}" for name in ("years", "months", "weeks", "days") if spec.get(name)]
    time = _times({"at": [f"{spec.get('hour', 0):02d}:{spec.get('minute', 0):02d}:{spec.get('second', 0):02d}"]})
    return f"every {' '.join(steps)} {time}{_zone(spec)}{_span(spec['startDate'], spec.get('endDate'))}"


_FOREIGN: Final[Mapping[str, Callable[[Spec], str]]] = {
    "interval": lambda spec: _interval({**spec, "firstTick": spec.get("start"), "start": None}),
    "date": lambda spec: f"once at {_short(spec['at'])}",
    "cron": _foreign_cron,
    "calendarinterval": _foreign_steps,
    "and": lambda spec: "where all agree: " + _members(spec),
    "or": _any_of,
}
_SAID: Final[Mapping[str, Callable[[Spec], str]]] = {
    "interval": _interval,
    "once": _once,
    "cron": _cron,
    "rrule": _rrule,
    "calendar": _calendar,
    "anyOf": _any_of,
    "startingAt": _starting_at,
    "apscheduler": _apscheduler,
}


# --- times of day ----------------------------------------------------------------------------------------------------


def _times(spec: Spec) -> str:
    if "at" not in spec:
        return _parts(spec)
    times = [re.sub(r"(\d\d:\d\d):00$", r"\1", time) for time in spec["at"]]
    if len(times) == 24 and len({time[2:] for time in times}) == 1:
        past = times[0][3:]
        return "every hour" if past == "00" else f"every hour at minute {past}"
    return f"at {_listed(times, 'and')}"


def _parts(spec: Spec) -> str:
    """Hours, minutes and seconds that are too many to list: ``at minute 0, 15 of hour 9-17``."""
    parts = [(name, spec[name]) for name in ("second", "minute", "hour")]
    if parts[0][1] == [0]:
        parts = parts[1:]
    while len(parts) > 1 and parts[-1][1] is None and parts[-2][1] is None:
        parts.pop()
    said = " of ".join(f"every {name}" if values is None else f"{name} {_runs(values)}" for name, values in parts)
    return said if parts[0][1] is None else f"at {said}"


def _runs(numbers: Sequence[int], name: Callable[[int], str] = str) -> str:
    """Ascending numbers, three or more in a row as a range: ``0, 9-17``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    said = [[f"{name(run[0])}-{name(run[-1])}"] if len(run) > 2 else [name(number) for number in run] for run in runs]
    return ", ".join(part for run in said for part in run)


# --- days ------------------------------------------------------------------------------------------------------------


def _days(spec: Spec) -> str:
    """The conditions of a day, the first with ``on``, further ones as something that has to hold too."""
    months = _runs(spec["months"], lambda number: MONTH_NAMES[number - 1][:3]) if "months" in spec else ""
    word = "or" if sum(name in spec for name in _CONDITIONS) > 1 else "and"
    said = [say(spec[name], months or "the month", word) for name, say in _CONDITIONS.items() if name in spec]
    if not said and months:
        said = [f"every day of {months}"]
    elif months and set(spec) & set(_CONDITIONS) == {"weekdays"}:
        said[0] += f" of {months}"
    elif not said and "everyWeeks" in spec:
        said = ["every day"]
    text = f" on {said[0]}" + "".join(f" that is {more}" for more in said[1:]) if said else ""
    if spec.get("ifDayMissing") == "last":
        text += " (its last day where it is shorter)"
    if "everyWeeks" in spec:
        text += f" of every {_nth(spec['everyWeeks'])} week counted from {spec['weekAnchor']}"
    return text


def _weekdays(days: Sequence[int], month: str, word: str) -> str:
    return _runs(days, lambda day: SHORT_DAYS[day])


def _days_of_month(days: Sequence[int], month: str, word: str) -> str:
    return f"the {_listed([_nth(day) for day in days], word)} day of {month}"


def _nth_weekdays(days: Sequence[str], month: str, word: str) -> str:
    return f"the {_listed([f'{_nth(int(day[:-3]))} {day[-3:]}' for day in days], word)} of {month}"


def _business_days(days: Sequence[int], month: str, word: str) -> str:
    return f"the {_listed([_nth(day) for day in days], word)} open day of {month}"


_CONDITIONS: Final[Mapping[str, Callable[[Any, str, str], str]]] = {
    "weekdays": _weekdays,
    "daysOfMonth": _days_of_month,
    "nthWeekdays": _nth_weekdays,
    "businessDays": _business_days,
}


def _nth(number: int) -> str:
    """``1st``, ``22nd``; from the end ``last``, ``2nd last``."""
    if number < 0:
        return "last" if number == -1 else f"{_nth(-number)} last"
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


# --- what several kinds share ----------------------------------------------------------------------------------------


def _common(spec: Spec, usual_fold: str = "first") -> str:
    """Span, closed days, excluded days and clock rules, each only where it is declared."""
    span = _span(spec.get("start"), spec.get("end"))
    return f"{span}{_closed(spec)}{_dates(', except ', spec.get('exclude'))}{_clock_rules(spec, usual_fold)}"


def _closed(spec: Spec) -> str:
    calendar, roll = spec.get("calendar"), spec.get("roll")
    if calendar is None and roll is None:
        return ""
    where = f"days that calendar {calendar!r} closes" if calendar is not None else "weekends"
    return f", {where} {_ROLLED[roll]}"


_ROLLED: Final[Mapping[Any, str]] = {
    None: "left out",
    "skip": "left out",
    "following": "moved to the following open day",
    "preceding": "moved to the preceding open day",
    "modifiedFollowing": "moved to the following open day of the same month, else to the preceding one",
}


def _clock_rules(spec: Spec, usual_fold: str = "first") -> str:
    gap, fold = spec.get("gap", "skip"), spec.get("fold", usual_fold)
    return (f", gap {gap}" if gap != "skip" else "") + (f", fold {fold}" if fold != usual_fold else "")


def _zone(spec: Spec) -> str:
    return f" in {spec['timezone']}" if spec.get("timezone") else ""


def _span(start: str | None, end: str | None) -> str:
    return (f" from {_short(start)}" if start else "") + (f" up to {_short(end)}" if end else "")


def _dates(lead: str, dates: Sequence[str] | None) -> str:
    if not dates:
        return ""
    shown = [_short(day) for day in dates[:_MOST_LISTED]]
    more = f" and {len(dates) - _MOST_LISTED} more" if len(dates) > _MOST_LISTED else ""
    return f"{lead}{', '.join(shown)}{more}"


def _short(instant: str) -> str:
    """A time without its seconds where they are zero: ``2026-01-01T00:00Z``."""
    return re.sub(r"(T\d\d:\d\d):00(?=Z|[+-]|$)", r"\1", instant)


def _listed(words: Sequence[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def _as_it_stands(spec: object) -> str:
    if isinstance(spec, Mapping):
        pairs = [f"{key} {value}" for key, value in spec.items() if key != "kind"]
        return ": ".join(part for part in (str(spec.get("kind", "")), ", ".join(pairs)) if part)
    return str(spec)
