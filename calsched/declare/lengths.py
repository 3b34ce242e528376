"""Lengths of time as people declare them: ``15m``, ``1h 30m``, ``500ms``."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from calsched.clock import LAST_INSTANT

_PART = re.compile(r"(\d+)\s*(ms|s|m|h|d|w)")
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_LONGEST_DAYS = LAST_INSTANT // _UNITS["d"]


def millis_of(length: str) -> int:
    """``1h 30m`` in milliseconds; the text is one that ``Length`` accepts."""
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(length))


def _within_time(length: str) -> str:
    millis = millis_of(length)
    if millis == 0:
        raise PydanticCustomError("expected", "a length above zero")
    if millis > LAST_INSTANT:
        said = f"expected a length of time of at most {_LONGEST_DAYS}d, got {length!r}"
        raise PydanticCustomError("said", "{said}", {"said": said, "hint": ""})
    return length


Length = Annotated[
    str,
    Field(
        pattern=r"^\s*(\d{1,12}\s*(ms|s|m|h|d|w)\s*)+$",
        json_schema_extra={"x-expected": "a length of time above zero, such as '15m' or '1h 30m' (ms, s, m, h, d, w)"},
    ),
    AfterValidator(_within_time),
]
