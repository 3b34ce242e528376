"""Words that every room prints alike."""

from __future__ import annotations

#: Monday first, as files and calendars write them.
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def counted(number: int, noun: str, *, few: str = "") -> str:
    """A number with its noun, ``1 schedule`` or ``1,200 schedules``; ``few`` is a plural that takes more than an s.

    >>> counted(1, "slot"), counted(0, "slot"), counted(1200, "try", few="tries")
    ('1 slot', '0 slots', '1,200 tries')
    """
    return f"{number:,} {noun if number == 1 else few or noun + 's'}"


def spell(millis: int) -> str:
    """A duration for people, in its two largest units: ``340 ms``, ``3.2 s``, ``4 min 5 s``, ``2 d 4 h``."""
    if millis < 1000:
        return f"{millis} ms"
    if millis < 60_000:
        return f"{millis / 1000:.3g} s" if millis < 59_950 else "1 min"
    seconds = round(millis / 1000)
    for size, name, smaller, small_name in _TWO_UNITS:
        if seconds >= size:
            whole, rest = divmod(seconds, size)
            part = rest // smaller
            return f"{whole} {name} {part} {small_name}" if part else f"{whole} {name}"
    raise AssertionError(millis)


_TWO_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))
