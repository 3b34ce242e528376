"""Documents to declarations, or every problem at once.

Nothing is written and no clock is read. What depends on the host (its allow list, how a callable is imported, its zone,
the calendars of its store) is handed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from calsched import calendars as business
from calsched.calendars import BusinessCalendar, Resolved
from calsched.declare.declaration import Checked, Declaration, Host
from calsched.declare.document import MAX_PROBLEMS, Document
from calsched.declare.layout import Layout, laid_out
from calsched.declare.place import Found, Place
from calsched.declare.schedule import Checker
from calsched.errors import Problem

__all__ = ["Checked", "Declaration", "Host", "check"]

#: Stands in for a calendar that is declared and faulty, so that what uses it is judged for itself.
_NEVER_CLOSED: dict[str, Any] = {"weekend": [], "yearly": {}, "dates": {}, "open": [], "through": None}


def check(documents: Iterable[Document], *, now: int, host: Host | None = None, **lent: Any) -> Checked:
    """Every declaration of some documents, with every problem and warning. Raises nothing for what they say.

    Keywords are the fields of ``Host``: ``check(documents, now=…, allow=…, default_zone=…, calendars=…)``.
    """
    host = host or Host(now=now, **lent)
    found = Found()
    layouts = [(document, _layout(document, found)) for document in documents]
    calendars, declared = _calendars(layouts, host, found)
    checker = Checker(replace(host, calendars=calendars), found)
    declarations: list[Declaration] = []
    for _, layout in layouts:
        declarations += checker.layout(layout)
    checker.together()
    order = {document.file: i for i, (document, _) in reversed(list(enumerate(layouts)))}
    problems, warnings = _bounded(_sorted(found.problems, order)), _sorted(found.warnings, order)
    return Checked(declarations, problems, warnings, calendars, declared)


def _sorted(problems: list[Problem], order: Mapping[str, int]) -> list[Problem]:
    unique = dict.fromkeys(problems)
    return sorted(unique, key=lambda problem: (order.get(problem.file, 0), problem.line or 0))


def _bounded(problems: list[Problem]) -> list[Problem]:
    if len(problems) <= MAX_PROBLEMS:
        return problems
    rest = len(problems) - MAX_PROBLEMS
    return [*problems[:MAX_PROBLEMS], Problem(f"and more problems, at least {rest:,}; mend these first")]


def _layout(document: Document, found: Found) -> Layout:
    found.problems += document.problems
    return laid_out(Place(document, (), found)) if document.readable else Layout()


def _calendars(
    layouts: list[tuple[Document, Layout]], host: Host, found: Found
) -> tuple[dict[str, BusinessCalendar], dict[str, Resolved]]:
    """The calendars of all files, each name once, over those that are known."""
    known = dict(host.calendars)
    declared: dict[str, Resolved] = {}
    places: dict[str, Place] = {}
    for document, layout in layouts:
        if not layout.calendars or layout.calendars_place is None:
            continue
        for name in layout.calendars:
            if name in places:
                layout.calendars_place.problem(f"this calendar is declared at {places[name].text} already", name)
            places.setdefault(name, layout.calendars_place.at(name))
        base = Path(document.file).parent if document.stem else None
        materials = {name: calendar.material for name, calendar in known.items()}
        resolved, problems = business.check(layout.calendars, now=host.now, base=base, path="", known=materials)
        layout.calendars_place.take(replace(problem, path=problem.path.lstrip(".")) for problem in problems)
        declared.update(resolved)
        known.update({name: _versioned(calendar, known.get(name)) for name, calendar in resolved.items()})
        for name in layout.calendars:
            known.setdefault(name, Resolved(name, _NEVER_CLOSED).calendar())  # its own problem refuses the file
    return known, declared


def _versioned(calendar: Resolved, known: BusinessCalendar | None) -> BusinessCalendar:
    """A declared calendar under the version that a store would give it."""
    if known is None:
        return calendar.calendar(1)
    return known if known.digest == calendar.digest else calendar.calendar(known.version + 1)
