"""What a check lends from its host, and what it hands back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from calsched.calendars import BusinessCalendar, Resolved
from calsched.errors import InvalidInput, Problem
from calsched.model import Definition
from calsched.triggers import Trigger


@dataclass(frozen=True, slots=True)
class Declaration:
    """One schedule as it was declared, resolved. ``revision`` is set where the declaration numbers it (seed 000)."""

    definition: Definition
    trigger: Trigger = field(compare=False)
    enabled: bool = True
    was: str | None = None
    revision: int | None = None
    file: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """What documents declare. With ``problems``, ``declarations`` holds only what had none; use nothing of it then."""

    declarations: list[Declaration]
    problems: list[Problem]
    warnings: list[Problem]
    calendars: Mapping[str, BusinessCalendar]  # those that were known, and those declared here over them
    declared_calendars: Mapping[str, Resolved]

    def raise_if_bad(self) -> None:
        """Raises InvalidInput with every problem."""
        if self.problems:
            raise InvalidInput(self.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a host lends to a check.

    ``allow``: patterns ``module:name`` and ``module:*``, or anything that answers ``in`` for a reference; None: not
    stated, callables are then judged by their form. ``load`` imports an allowed callable and raises InvalidInput where
    that fails; None: nothing is imported. ``defaults``: body keys below those of every file. ``minimum_interval``: the
    least distance of two slots in milliseconds, by namespace (``*``: any other).
    """

    now: int
    allow: Collection[str] | None = None
    load: Callable[[str], Any] | None = None
    default_zone: str | None = None
    zone_source: str = "package"
    calendars: Mapping[str, BusinessCalendar] = field(default_factory=dict)
    namespace: str = "default"
    defaults: Mapping[str, Any] = field(default_factory=dict)
    minimum_interval: Mapping[str, int] = field(default_factory=dict)
