"""What every trigger is: an APScheduler trigger, whose types are fought in this file only, and a source of slots."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.combining import AndTrigger

from calsched.clock import LAST_INSTANT, to_datetime, to_millis

#: 0001-01-01T00:00:00Z; no search looks further back.
FIRST_INSTANT = -62_135_596_800_000


@runtime_checkable
class BusinessCalendar(Protocol):
    """What a trigger needs of a business calendar."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    def is_open(self, day: date) -> bool: ...


@dataclass(frozen=True, slots=True)
class Context:
    """What a stored form leaves to its surroundings."""

    default_zone: str | None = None
    calendars: Mapping[str, BusinessCalendar] = field(default_factory=dict)
    schedule_id: str | None = None
    zone_source: str = "package"


class Trigger(BaseTrigger):  # type: ignore[misc]
    """A rule that yields slots: instants in milliseconds since the Unix epoch, strictly increasing.

    Every search is arithmetic or bounded, and answers None past 9999-12-31T23:59:59.999Z. Triggers are immutable
    values: equal when their stored forms are.
    """

    __slots__ = ("_calendars", "_zone_source")

    kind: ClassVar[str]
    _calendars: Mapping[str, BusinessCalendar]
    _zone_source: str

    @classmethod
    @abstractmethod
    def from_spec(cls, spec: Mapping[str, Any], context: Context) -> Self:
        """The trigger of a stored or declared form; raises TriggerInvalid with every problem of it."""

    @abstractmethod
    def first_at_or_after(self, instant: int) -> int | None:
        """The first slot that is not before ``instant``."""

    @abstractmethod
    def last_at_or_before(self, instant: int) -> int | None:
        """The last slot that is not after ``instant``."""

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """The canonical stored form, of plain JSON values: ``build(trigger.spec())`` equals the trigger."""

    def next_after(self, instant: int) -> int | None:
        """The first slot after ``instant``."""
        return self.first_at_or_after(instant + 1)

    def count(self, first: int, last: int) -> int:
        """How many slots lie in ``first`` … ``last``, both included."""
        return sum(1 for _ in self.between(first, last))

    def nth_after(self, instant: int, n: int) -> int | None:
        """The slot that has ``n`` slots before it at or after ``instant``: n = 0 is ``first_at_or_after``."""
        slot = self.first_at_or_after(instant)
        for _ in range(n):
            if slot is None:
                return None
            slot = self.next_after(slot)
        return slot

    def between(self, first: int, last: int) -> Iterator[int]:
        """The slots in ``first`` … ``last``, both included, in order, computed one by one."""
        slot = self.first_at_or_after(first)
        while slot is not None and slot <= last:
            yield slot
            slot = self.next_after(slot)

    @property
    def zone(self) -> str | None:
        """The IANA name of the zone that the rule's wall times are of; None for rules in UTC."""
        return None

    def local(self, instant: int) -> str | None:
        """The wall time, ``2026-03-08T09:00:00``, that the rule names for a slot; None for rules in UTC.

        It is the nominal one: for a slot that was shifted out of a gap, the time that does not exist.
        """
        return None

    def first_after_local(self, local: str) -> int | None:
        """The first slot, in time, whose nominal wall time is after ``local``; for rules in UTC ``local`` is UTC."""
        return self.next_after(to_millis(datetime.fromisoformat(local + "+00:00")))

    def resume_after(self, instant: int, local: str | None) -> int | None:
        """The first slot that is not yet judged, where the last judged one was ``instant`` and nominally ``local``.

        They differ from what this trigger computes when the zone's data has changed since: then the wall time decides,
        so that 09:00 which has run is not due again because its instant moved. Nor is an instant that was judged due
        again because its wall time moved: where a zone went east, a minutely rule waits for its clock to catch up.
        """
        if local is None or self.local(instant) == local:
            return self.next_after(instant)
        found = self.first_after_local(local)
        return found if found is None or found > instant else self.next_after(instant)

    def explain(self, instant: int) -> str | None:
        """None for a slot, else one sentence that says why ``instant`` is none."""
        if self.first_at_or_after(instant) == instant:
            return None
        return "the rule does not name this instant"

    def marks(self, instant: int) -> tuple[str, ...]:
        """What is remarkable about a slot (a fold, a gap, a rolled day), for previews."""
        return ()

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        """For APScheduler: an aware UTC time after ``previous_fire_time``, or, without one, not before ``now``."""
        if previous_fire_time is None:
            slot = self.first_at_or_after(_ceil(now))
            return None if slot is None else to_datetime(slot)
        slot = self.next_after(to_millis(previous_fire_time))
        if slot is None:
            return None
        found = to_datetime(slot)
        if found < now and _and_trigger_moves_on():
            slot = self.first_at_or_after(_ceil(now))
            return None if slot is None else to_datetime(slot)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {"version": 1, "spec": self.spec(), "calendars": dict(self._calendars), "zoneSource": self._zone_source}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["version"] > 1:
            raise ValueError(
                f"a {type(self).__name__} of version {state['version']} cannot be read; this calsched knows version 1:"
                " upgrade calsched here"
            )
        context = Context(calendars=state["calendars"], zone_source=state["zoneSource"])
        self._adopt(type(self).from_spec(state["spec"], context))

    def _adopt(self, other: Self) -> None:
        for owner in type(self).__mro__:
            slots = owner.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if hasattr(other, name):
                    setattr(self, name, getattr(other, name))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.spec() == self.spec()

    def __hash__(self) -> int:
        return hash((self.kind, repr(self.spec())))

    def __repr__(self) -> str:
        inside = ", ".join(f"{key}={value!r}" for key, value in self.spec().items() if key != "kind")
        return f"<{type(self).__name__} ({inside})>"

    def __str__(self) -> str:
        inside = ", ".join(f"{key}={value}" for key, value in self.spec().items() if key != "kind")
        return f"{self.kind}[{inside}]"


def within(instant: int) -> int | None:
    """``instant``, or None past the last instant there is."""
    return instant if instant <= LAST_INSTANT else None


def _ceil(moment: datetime) -> int:
    """The first millisecond that is not before ``moment``."""
    return to_millis(moment) + (moment.microsecond % 1000 != 0)


def _and_trigger_moves_on() -> bool:
    """Whether an AndTrigger asks again because its members disagreed.

    It then hands the latest of their answers as ``now``, with the same previous time, and loops until they agree: a
    trigger that ignores ``now`` (as it must when APScheduler collects missed runs) would hang the scheduler for ever.
    Nothing but the caller tells the two apart.
    """
    frame = sys._getframe(2)
    for _ in range(2):  # up to Python 3.11 a comprehension has a frame of its own
        if frame.f_code is _AND_CODE:
            return "fire_times" in frame.f_locals
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False


_AND_CODE = AndTrigger.get_next_fire_time.__code__
