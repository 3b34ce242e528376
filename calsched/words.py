"""Words that every room prints alike."""

from __future__ import annotations


def counted(number: int, noun: str, *, few: str = "") -> str:
    """A number with its noun, ``1 schedule`` or ``1,200 schedules``; ``few`` is a plural that takes more than an s.

    >>> counted(1, "slot"), counted(0, "slot"), counted(1200, "try", few="tries")
    ('1 slot', '0 slots', '1,200 tries')
    """
    return f"{number:,} {noun if number == 1 else few or noun + 's'}"
