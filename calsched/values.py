"""Arguments and results as JSON, exactly: what goes in comes out, or is refused with its path.

Besides what JSON has, dates, times, datetimes, decimals, UUIDs and bytes are kept. Such a value is written as an object
with the tag as its only key (``{"$date": "2026-03-08"}``). An object of the user's own that has one key beginning with
``$`` is wrapped (``{"$object": {…}}``), so that nothing a user stores can be taken for a tag. No pickle is written or
read, so that a stored value can never run code.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from calsched.errors import InvalidInput, Problem

#: Deeper nesting is refused: neither json nor a reader of the ledger gains from it.
MAX_DEPTH = 100
#: Python refuses to print integers of more than 4 300 digits; stay clear of that.
MAX_DIGITS = 4_000
_MAX_BITS = int(MAX_DIGITS * math.log2(10))

_OBJECT = "$object"
_EXPECTED = "a JSON value, a date, time, datetime, Decimal, UUID or bytes"


def encode(value: Any, path: str = "") -> Any:
    """The plain JSON form of a value. Raises InvalidInput with every problem and its path."""
    problems: list[Problem] = []
    plain = _encode(value, path, 0, problems)
    if problems:
        raise InvalidInput(problems)
    return plain


def check(value: Any, path: str = "") -> list[Problem]:
    """All that keeps a value from being stored; empty where it can be."""
    problems: list[Problem] = []
    _encode(value, path, 0, problems)
    return problems


def decode(plain: Any, path: str = "") -> Any:
    """The value that ``encode`` was given. Raises InvalidInput where the form is not one that ``encode`` writes."""
    if isinstance(plain, list):
        return [decode(item, f"{path}[{i}]") for i, item in enumerate(plain)]
    if not isinstance(plain, Mapping):
        return plain
    if len(plain) == 1:
        ((tag, inner),) = plain.items()
        if tag == _OBJECT:
            return _decode_object(inner, path)
        if tag.startswith("$"):
            return _decode_tag(tag, inner, path)
    return _decode_object(plain, path)


def _decode_object(plain: Any, path: str) -> dict[str, Any]:
    if not isinstance(plain, Mapping):
        raise InvalidInput([Problem(f"expected an object under {_OBJECT!r}, got {_shown(plain)}", path)])
    return {key: decode(item, _under(path, key)) for key, item in plain.items()}


def _decode_tag(tag: str, inner: Any, path: str) -> Any:
    reader = _READERS.get(tag)
    if reader is None:
        raise InvalidInput([Problem(f"unknown tag {tag!r}; this value was written by another release", path)])
    try:
        return reader(inner)
    except (ValueError, TypeError, InvalidOperation, binascii.Error, KeyError) as exc:
        raise InvalidInput([Problem(f"{tag} cannot be read from {_shown(inner)}: {exc}", path)]) from None


def _encode(value: Any, path: str, depth: int, problems: list[Problem]) -> Any:
    kind = type(value)
    if value is None or kind is bool:
        return value
    if depth > MAX_DEPTH:
        problems.append(Problem(f"nested deeper than {MAX_DEPTH} levels", path))
        return None
    writer = _WRITERS.get(kind)
    if writer is not None:
        return _write(writer, value, path, problems)
    if kind is list:
        return [_encode(item, f"{path}[{i}]", depth + 1, problems) for i, item in enumerate(value)]
    if kind is dict:
        return _encode_dict(value, path, depth, problems)
    problems.append(Problem(f"expected {_EXPECTED}, got {_shown(value)}", path, hint=_HINTS.get(kind, "")))
    return None


def _write(writer: Callable[[Any], Any], value: Any, path: str, problems: list[Problem]) -> Any:
    try:
        return writer(value)
    except ValueError as exc:
        problems.append(Problem(str(exc), path))
        return None


def _encode_dict(value: dict[Any, Any], path: str, depth: int, problems: list[Problem]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, item in value.items():
        if type(key) is not str:
            problems.append(Problem(f"expected text as key, got {_shown(key)}", path))
            continue
        _write(_write_text, key, _under(path, key), problems)
        out[key] = _encode(item, _under(path, key), depth + 1, problems)
    if len(out) == 1 and next(iter(out)).startswith("$"):
        return {_OBJECT: out}
    return out


def _under(path: str, key: str) -> str:
    shown = key if key.isprintable() and len(key) <= 60 else ascii(key[:60])
    return f"{path}.{shown}" if path else shown


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = "…"
    return f"{type(value).__name__} {ascii(text[:60])[1:-1]}"


def _write_text(value: str) -> str:
    if "\x00" in value:
        raise ValueError("text with a NUL character cannot be stored")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("text with half a surrogate pair cannot be stored") from None
    return value


def _write_int(value: int) -> int:
    if value.bit_length() > _MAX_BITS:
        raise ValueError(f"an integer of more than {MAX_DIGITS} digits cannot be stored")
    return value


def _write_float(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {value!r}")
    return value


def _write_decimal(value: Decimal) -> dict[str, str]:
    if not value.is_finite():
        raise ValueError(f"expected a finite number, got {value!r}")
    return {"$decimal": str(value)}


def _write_datetime(value: datetime) -> dict[str, str]:
    return {"$datetime": value.isoformat() + _suffix(value.tzinfo, value.fold)}


def _write_time(value: time) -> dict[str, str]:
    return {"$time": value.isoformat() + _suffix(value.tzinfo, value.fold)}


def _suffix(zone: tzinfo | None, fold: int) -> str:
    """The zone's name as RFC 9557 writes it; the second of two equal wall times where no offset tells."""
    if zone is None or isinstance(zone, timezone):
        return "#1" if fold else ""
    key = getattr(zone, "key", None)
    if not isinstance(zone, ZoneInfo) or not isinstance(key, str):
        raise ValueError(f"expected a zone of zoneinfo or datetime.timezone, got {_shown(zone)}")
    return f"[{key}]#1" if fold else f"[{key}]"


def _split(text: str) -> tuple[str, str | None, int]:
    text, fold = (text[:-2], 1) if text.endswith("#1") else (text, 0)
    if not text.endswith("]"):
        return text, None, fold
    stamp, _, key = text[:-1].partition("[")
    return stamp, key, fold


def _read_datetime(text: str) -> datetime:
    stamp, key, fold = _split(text)
    moment = _canonical_utc(datetime.fromisoformat(stamp))
    return moment.replace(tzinfo=ZoneInfo(key), fold=fold) if key else moment.replace(fold=fold)


def _canonical_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.utcoffset() == timedelta(0) else moment


def _read_time(text: str) -> time:
    stamp, key, fold = _split(text)
    moment = time.fromisoformat(stamp)
    return moment.replace(tzinfo=ZoneInfo(key), fold=fold) if key else moment.replace(fold=fold)


_WRITERS: dict[type, Callable[[Any], Any]] = {
    str: _write_text,
    int: _write_int,
    float: _write_float,
    date: lambda value: {"$date": value.isoformat()},
    datetime: _write_datetime,
    time: _write_time,
    Decimal: _write_decimal,
    UUID: lambda value: {"$uuid": str(value)},
    bytes: lambda value: {"$bytes": base64.b64encode(value).decode("ascii")},
}
_READERS: dict[str, Callable[[Any], Any]] = {
    "$date": date.fromisoformat,
    "$datetime": _read_datetime,
    "$time": _read_time,
    "$decimal": Decimal,
    "$uuid": UUID,
    "$bytes": lambda text: base64.b64decode(text, validate=True),
}
_HINTS: dict[type, str] = {
    tuple: "write it as a list",
    set: "write it as a list",
    frozenset: "write it as a list",
    timedelta: "write it as a number of seconds",
    bytearray: "write it as bytes",
}
