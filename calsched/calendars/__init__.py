"""Business calendars: named sets of closed days.

A definition is plain JSON values, as under ``calendars:`` in a declaration file. `check` turns definitions into their
*resolved* form, which holds everything that is needed to answer for a day: explicit dates for the holidays of a
country and for imported ICS files, with the years they cover. It is what a store keeps, so that whoever runs the
schedules needs neither the ``holidays`` nor the ``icalendar`` package, nor the file. `BusinessCalendar` answers from
it.

What is closed:

- without ``union`` or ``difference``: the days of the ``weekend`` (Saturday and Sunday unless said otherwise), the
  ``yearly`` dates, the ``dates``, the ``holidays`` and the days of the ``ics`` file;
- ``union: [a, b, …]``: what is closed in any of them; ``difference: [a, b, …]``: what is closed in the first and in
  none of the others. The weekend is then theirs, unless ``weekend`` adds one; further dates may be added;
- ``open`` names exceptions: those days are open whatever else is said in the same calendar;
- ``through: 2030`` says up to which year everything is known. Without it that is the last year of ``holidays`` and of
  the ``ics`` file or, with neither, of ``dates``; a calendar of weekends and yearly dates alone holds for ever.
  `runs_out` warns when that year ends within 90 days.
"""

from typing import Any

from calsched.calendars.calendar import BusinessCalendar, Resolved, runs_out
from calsched.calendars.resolve import check, resolve
from calsched.clock import SystemClock

__all__ = ["BusinessCalendar", "Resolved", "check", "define", "resolve", "runs_out"]


def define(name: str, **definition: Any) -> BusinessCalendar:
    """A calendar for triggers that are made in Python, from what a file says of it under ``calendars:``.

    ``define("de", holidays={"country": "DE"})``. Raises InvalidInput with every problem.
    """
    return resolve({name: definition}, now=SystemClock().now())[name].calendar()
