"""RFC 5545 recurrence rules as sets of wall times, without zones.

A wall time is an ``int`` of seconds: ``date.toordinal() * 86_400 + second of the day``. `Recurrence` answers the first
at or after, the last at or before and how many between, by arithmetic and within a fixed number of steps. The zone, the
gap and the fold belong to whoever resolves the wall times (`calsched.triggers.rrule`).

dateutil is not used to expand rules, because it cannot be bounded: inside one ``next()`` it looks for a match until the
year 9999, each search starts at DTSTART, and ``BYDAY=MO,1FR`` is read as both at once instead of either. The tests
compare with it wherever it is right.
"""

from calsched.recurrence.parts import FREQUENCIES, Rule, parse
from calsched.recurrence.search import Recurrence, WallSet, from_wall, to_wall

__all__ = ["FREQUENCIES", "Recurrence", "Rule", "WallSet", "from_wall", "parse", "to_wall"]
