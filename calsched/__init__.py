"""calsched: every instant at which a schedule was due ends in exactly one recorded verdict.

Names are loaded when they are first used, so that ``import calsched`` costs an app next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calsched.app import App as App
    from calsched.clock import Clock as Clock
    from calsched.clock import SystemClock as SystemClock
    from calsched.errors import CalschedError as CalschedError
    from calsched.errors import InvalidInput as InvalidInput
    from calsched.errors import Refused as Refused
    from calsched.errors import StoreUnusable as StoreUnusable
    from calsched.model import OccurrenceKey as OccurrenceKey
    from calsched.runtime.current import RunningOccurrence as RunningOccurrence
    from calsched.runtime.current import current_occurrence as current_occurrence
    from calsched.runtime.durable import durable as durable
    from calsched.stores.jobstore import OccurrenceJobStore as OccurrenceJobStore
    from calsched.triggers.any_of import AnyOfTrigger as AnyOfTrigger
    from calsched.triggers.calendar import CalendarTrigger as CalendarTrigger
    from calsched.triggers.cron import CronTrigger as CronTrigger
    from calsched.triggers.interval import IntervalTrigger as IntervalTrigger
    from calsched.triggers.once import OnceTrigger as OnceTrigger
    from calsched.triggers.rrule import RRuleTrigger as RRuleTrigger

_HOMES = {
    "AnyOfTrigger": "triggers.any_of",
    "App": "app",
    "CalendarTrigger": "triggers.calendar",
    "CalschedError": "errors",
    "Clock": "clock",
    "CronTrigger": "triggers.cron",
    "IntervalTrigger": "triggers.interval",
    "InvalidInput": "errors",
    "OccurrenceJobStore": "stores.jobstore",
    "OccurrenceKey": "model",
    "OnceTrigger": "triggers.once",
    "RRuleTrigger": "triggers.rrule",
    "Refused": "errors",
    "RunningOccurrence": "runtime.current",
    "StoreUnusable": "errors",
    "SystemClock": "clock",
    "current_occurrence": "runtime.current",
    "durable": "runtime.durable",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'calsched' has no attribute {name!r}")
    found = getattr(import_module(f"calsched.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
