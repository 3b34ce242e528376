"""Cron expressions, read strictly.

Every part of every field is checked and put into the one spelling that croniter cannot misread; croniter then expands
it. Closed here, because croniter 6 and 7 take them otherwise: ``30-30`` and ``mon-mon`` (the whole field there),
``59/15``, ``R``, steps out of bounds, wrapped minutes, ``L`` as a weekday, white space that is not ASCII. ``L``, ``W``,
``LW``, ``L-n``, ``d#n`` and ``dL`` are read here, croniter never sees them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, cast

from croniter import croniter

_DAYS: Final = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}
ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_LONGEST: Final = 1000


class CronInvalid(Exception):
    """``problems`` are pairs of a message, which begins with the field's name, and a hint."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__(problems)
        self.problems = problems


class Kind(NamedTuple):
    """One of the fields of an expression."""

    name: str
    low: int
    high: int
    names: dict[str, int]
    wraps: bool  # whether a range may run over the field's end

    def expectation(self) -> str:
        names = f" or {next(iter(self.names))} to {list(self.names)[-1]}" if self.names else ""
        return f"{self.low} to {7 if self.names is _DAYS else self.high}{names}"


SECOND: Final = Kind("second", 0, 59, {}, False)
MINUTE: Final = Kind("minute", 0, 59, {}, False)
HOUR: Final = Kind("hour", 0, 23, {}, True)
DAY: Final = Kind("day of month", 1, 31, {}, True)
MONTH: Final = Kind("month", 1, 12, _MONTHS, True)
WEEKDAY: Final = Kind("day of week", 0, 6, _DAYS, True)
_FIELDS: Final = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)


class Cron(NamedTuple):
    """What an expression names. Weekdays are cron's: Sunday = 0. ``texts`` are the fields as written, by name."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    from_end: tuple[int, ...]  # L is 0, L-3 is 3
    nearest: tuple[int, ...]  # 15W
    nearest_from_end: tuple[int, ...]  # LW is 0, L-3W is 3
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    nth: tuple[tuple[int, int], ...]  # (n, weekday) of the month; n = -1 is the last
    both: bool  # whether a day must match day of month and day of week, or only one of them
    texts: dict[str, str]


class _Special(NamedTuple):
    """The parts of a day field that are no plain numbers."""

    from_end: list[int]
    nearest: list[int]
    nearest_from_end: list[int]
    nth: list[tuple[int, int]]


def parse(expression: str, *, seconds: str | None, hash_id: str | None) -> Cron:
    """Reads five fields, or six with ``seconds`` first or last; raises CronInvalid with the problems of every field."""
    texts = _split(expression, seconds)
    special = _Special([], [], [], [])
    problems: list[tuple[str, str]] = []
    plain: dict[str, str] = {}
    for kind in (*_FIELDS, SECOND):
        try:
            plain[kind.name] = _field(kind, texts[kind.name], special, hash_id)
        except CronInvalid as invalid:
            problems += invalid.problems
    if problems:
        raise CronInvalid(problems)
    return _expanded(plain, special, texts)


def _expanded(plain: dict[str, str], special: _Special, texts: dict[str, str]) -> Cron:
    fields = [plain[kind.name] or "*" for kind in (*_FIELDS, SECOND)]
    values, _ = croniter.expand(" ".join(fields))
    named = {
        kind.name: tuple(range(kind.low, kind.high + 1)) if found == ["*"] else cast("tuple[int, ...]", tuple(found))
        for kind, found in zip((*_FIELDS, SECOND), values, strict=True)
    }
    return Cron(
        seconds=named["second"],
        minutes=named["minute"],
        hours=named["hour"],
        days=named["day of month"] if plain["day of month"] else (),
        from_end=tuple(special.from_end),
        nearest=tuple(special.nearest),
        nearest_from_end=tuple(special.nearest_from_end),
        months=named["month"],
        weekdays=named["day of week"] if plain["day of week"] else (),
        nth=tuple(special.nth),
        both=any(texts[kind.name][0] in "*?" for kind in (DAY, WEEKDAY)),
        texts=texts,
    )


# --- fields ----------------------------------------------------------------------------------------------------------


def _split(expression: str, seconds: str | None) -> dict[str, str]:
    """The text of each field by its name; without a seconds field it is ``0``."""
    if len(expression) > _LONGEST:
        raise CronInvalid([(f"expected at most {_LONGEST} characters, got {len(expression)}", "")])
    expression = expression.strip(" \t\r\n")
    if not expression:
        raise CronInvalid([("expected five fields, minute hour day-of-month month day-of-week, got none", "")])
    for character in expression:
        if character != "\t" and not (character.isascii() and character.isprintable()):
            what = f"expected ASCII characters with spaces or tabs between the fields, got {character!r}"
            raise CronInvalid([(f"{_name_at(expression, character, seconds)}: {what}", f"U+{ord(character):04X}")])
    if expression.startswith("@"):
        return _split(_alias(expression), None)
    fields = expression.split()
    kinds = _order(seconds)
    if len(fields) != len(kinds):
        raise CronInvalid([_wrong_number(fields, kinds)])
    return {SECOND.name: "0"} | {kind.name: field for kind, field in zip(kinds, fields, strict=True)}


def _order(seconds: str | None) -> tuple[Kind, ...]:
    if seconds is None:
        return _FIELDS
    return (SECOND, *_FIELDS) if seconds == "first" else (*_FIELDS, SECOND)


def _name_at(expression: str, character: str, seconds: str | None) -> str:
    """The name of the field in which a character stands."""
    kinds, before = _order(seconds), expression[: expression.index(character)]
    complete = len(before.split()) - (not before[-1:].isspace() and before != "")
    return kinds[min(complete, len(kinds) - 1)].name


def _alias(expression: str) -> str:
    known = ALIASES.get(expression.lower())
    if known is not None:
        return known
    hint = f"known: {', '.join(ALIASES)}"
    if expression.lower().startswith("@every"):
        hint = "a fixed interval is a trigger of kind interval"
    elif expression.lower() == "@reboot":
        hint = "a start of the machine is no instant that a calendar knows"
    raise CronInvalid([(f"there is no {expression!r}", hint)])


def _wrong_number(fields: list[str], kinds: tuple[Kind, ...]) -> tuple[str, str]:
    names = " ".join(kind.name.replace(" ", "-") for kind in kinds)
    hint = ""
    if len(fields) == len(kinds) + 1 and re.fullmatch(r"[12]\d{3}(-[12]\d{3})?", fields[-1]):
        hint = "there is no field for the year"
    elif len(kinds) == 5 and len(fields) == 6:
        hint = "for six, say where the seconds stand: seconds: first, or seconds: last"
    elif len(fields) == len(kinds) + 1:
        hint = "there is no field for the year"
    return f"expected {len(kinds)} fields, {names}, got {len(fields)}", hint


def _field(kind: Kind, text: str, special: _Special, hash_id: str | None) -> str:
    """The field's plain parts in croniter's spelling; the others go to ``special``."""
    if text == "?" and kind in (DAY, WEEKDAY):
        return "*"
    plain: list[str] = []
    problems: list[tuple[str, str]] = []
    for part in text.split(","):
        try:
            if not _read_special(kind, part.lower(), special):
                plain.append(_plain(kind, part, hash_id))
        except _Wrong as wrong:
            place = "" if repr(text) in wrong.message else f" in {text!r}"
            problems.append((f"{kind.name}: {wrong.message}{place}", wrong.hint))
    if problems:
        raise CronInvalid(problems)
    return "*" if "*" in plain else ",".join(plain)


class _Wrong(Exception):
    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


# --- the parts of a field --------------------------------------------------------------------------------------------

_HASH: Final = re.compile(r"H(?:\((\d{1,2})-(\d{1,2})\))?(?:/(\d{1,2}))?", re.ASCII)
_PLAIN: Final = re.compile(r"(\*|[a-z]+|\d{1,4})(?:-([a-z]+|\d{1,4}))?(?:/(\d{1,4}))?", re.ASCII)


def _plain(kind: Kind, part: str, hash_id: str | None) -> str:
    if not part:
        raise _Wrong("there is an empty part")
    if found := _HASH.fullmatch(part):
        return _joined(_hashed(kind, part, found, hash_id))
    if kind is DAY and re.fullmatch(r"\d{1,2}-[lL](/\d{1,4})?", part):  # up to the last day, whichever it is
        part = part.lower().replace("l", str(DAY.high))
    found = _PLAIN.fullmatch(part.lower())
    if found is None or (found[1] == "*" and found[2] is not None):
        raise _Wrong(f"expected {kind.expectation()}, a range, a step or '*', got {part!r}", _hint(part))
    step = _step(kind, found[3])
    if found[1] == "*":
        return "*" if step == 1 else f"{kind.low}-{kind.high}/{step}"
    low = _value(kind, found[1])
    if found[2] is None:
        return str(low % 7 if kind is WEEKDAY else low) if found[3] is None else _stepped(kind, low, step)
    return _range(kind, low, _value(kind, found[2]), step, part)


def _stepped(kind: Kind, low: int, step: int) -> str:
    """``7/20``: from 7 to the end of the field."""
    if low > kind.high:
        raise _Wrong(f"expected a start from {kind.low} to {kind.high}, got '{low}/{step}'")
    return str(low) if low + step > kind.high else f"{low}-{kind.high}/{step}"


def _range(kind: Kind, low: int, high: int, step: int, part: str) -> str:
    if low == high or (kind is WEEKDAY and low % 7 == high % 7 and low > high):
        return str(low % 7 if kind is WEEKDAY else low)
    if low < high <= kind.high:
        return str(low) if low + step > high else f"{low}-{high}/{step}"
    if not kind.wraps:
        raise _Wrong(
            f"the range {part!r} runs backwards", f"write {part.partition('-')[0]}-{kind.high},{kind.low}-{high}"
        )
    size = kind.high - kind.low + 1
    length = (high - low) % size if low > high else high - low
    return _joined((low - kind.low + past) % size + kind.low for past in range(0, length + 1, step))


def _joined(values: Iterable[int]) -> str:
    return ",".join(str(value) for value in values)


def _value(kind: Kind, text: str) -> int:
    if text.isdigit():
        value = int(text)
        if kind.low <= value <= kind.high or (kind is WEEKDAY and value == 7):
            return value
    elif text in kind.names:
        return kind.names[text]
    raise _Wrong(f"expected {kind.expectation()}, got {text!r}", _hint(text))


def _step(kind: Kind, text: str | None) -> int:
    if text is None:
        return 1
    size = kind.high - kind.low + 1
    step = int(text)
    if not 1 <= step <= size:
        hint = "a longer step is an interval: a trigger of kind interval" if step > size else ""
        raise _Wrong(f"expected a step from 1 to {size}, got '/{text}'", hint)
    return step


def _hint(text: str) -> str:
    lowered = text.lower()
    if re.fullmatch(r"r(\(.*\))?(/.*)?", lowered):
        return "random fields would differ at every start; H spreads schedules by their ids"
    if lowered.startswith("h"):
        return "H is a capital letter, alone, with a range H(0-29) or with a step H/15"
    if lowered[:3] in _DAYS or lowered[:3] in _MONTHS:
        return f"names have three letters: {lowered[:3]}"
    if lowered == "l":
        return "5L is the last Friday of the month"
    return ""


def _hashed(kind: Kind, part: str, found: re.Match[str], hash_id: str | None) -> range:
    """The values of an ``H`` part: spread by the schedule's id, the same on every host and at every start."""
    if hash_id is None:
        raise _Wrong(f"{part!r} is spread by the schedule's id, and there is none here", "declare it in a schedule")
    low, high = kind.low, 28 if kind is DAY else kind.high  # the 29th and later are not in every month
    if found[1] is not None:
        low, high = int(found[1]), int(found[2])
        if not kind.low <= low <= high <= kind.high:
            raise _Wrong(f"expected a range within {kind.low} to {kind.high}, got {part!r}")
    drawn = int.from_bytes(hashlib.sha256(f"{kind.name}\n{hash_id}".encode()).digest()[:8])
    if found[3] is None:
        value = low + drawn % (high - low + 1)
        return range(value, value + 1)
    step = _step(kind, found[3])
    return range(low + drawn % min(step, high - low + 1), high + 1, step)


# --- L, W and # ------------------------------------------------------------------------------------------------------


def _read_special(kind: Kind, part: str, special: _Special) -> bool:
    readers: dict[str, Callable[[str, _Special], bool]] = {DAY.name: _read_day, WEEKDAY.name: _read_weekday}
    reader: Any = readers.get(kind.name)
    return reader is not None and bool(reader(part, special))


def _read_day(part: str, special: _Special) -> bool:
    if found := re.fullmatch(r"l(?:-(\d{1,2}))?(w)?", part, re.ASCII):
        back = int(found[1] or 0)
        if back > 30:
            raise _Wrong(f"expected L-1 to L-30, got 'L-{back}'")
        (special.nearest_from_end if found[2] else special.from_end).append(back)
        return True
    if found := re.fullmatch(r"(\d{1,2})w", part, re.ASCII):
        special.nearest.append(_value(DAY, found[1]))
        return True
    return False


def _read_weekday(part: str, special: _Special) -> bool:
    if found := re.fullmatch(r"([a-z]{3}|\d)#(\d{1,4})", part, re.ASCII):
        if not 1 <= int(found[2]) <= 5:
            raise _Wrong(f"expected #1 to #5, got '#{found[2]}'", "no month has six of a weekday")
        special.nth.append((int(found[2]), _value(WEEKDAY, found[1]) % 7))
        return True
    if found := re.fullmatch(r"([a-z]{3}|\d)l|l(\d)", part, re.ASCII):
        special.nth.append((-1, _value(WEEKDAY, found[1] or found[2]) % 7))
        return True
    return False
