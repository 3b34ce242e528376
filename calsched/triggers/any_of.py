"""Several rules as one: every slot of any of them, each instant once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Self

from calsched import zones
from calsched.clock import LAST_INSTANT
from calsched.errors import Problem, TriggerInvalid
from calsched.triggers.base import Context, Trigger
from calsched.triggers.fields import Fields, as_wall, shown
from calsched.triggers.wallclock import resolve_local

_FIELDS: Final = frozenset(("triggers",))
_MOST: Final = 100
_DEEPEST: Final = 8
_LOOP: Final = 256


class AnyOfTrigger(Trigger):
    """The union of its members. Its zone is that of its first member in a zone."""

    __slots__ = ("_by_density", "members")
    kind: ClassVar[str] = "anyOf"

    members: tuple[Trigger, ...]
    _by_density: tuple[Trigger, ...] | None

    def __init__(self, triggers: Iterable[Trigger]) -> None:
        self._take(tuple(triggers))

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], context: Context) -> Self:
        made = cls.__new__(cls)
        fields = Fields(spec, _FIELDS, context)
        members = read_members(fields)
        fields.check()
        made._take(members)
        return made

    def _take(self, members: tuple[Trigger, ...]) -> None:
        if not members:
            raise TriggerInvalid([Problem("expected at least one trigger", path="triggers")])
        self.members, self._by_density = members, None
        self._calendars = {name: found for member in members for name, found in member._calendars.items()}
        self._zone_source = members[0]._zone_source

    def first_at_or_after(self, instant: int) -> int | None:
        return min(
            (slot for member in self.members if (slot := member.first_at_or_after(instant)) is not None), default=None
        )

    def next_after(self, instant: int) -> int | None:
        return min((slot for member in self.members if (slot := member.next_after(instant)) is not None), default=None)

    def last_at_or_before(self, instant: int) -> int | None:
        return max(
            (slot for member in self.members if (slot := member.last_at_or_before(instant)) is not None), default=None
        )

    def count(self, first: int, last: int) -> int:
        """Arithmetic for the densest member; the slots of the others are looked at one by one, for those shared."""
        counts = sorted(((member.count(first, last), place) for place, member in enumerate(self.members)), reverse=True)
        total = counts[0][0]
        counted = [self.members[counts[0][1]]]
        for number, place in counts[1:]:
            member = self.members[place]
            total += number - _shared(member, counted, first, last)
            counted.append(member)
        return total

    def nth_after(self, instant: int, n: int) -> int | None:
        if n <= _LOOP:
            return super().nth_after(instant, n)
        low, high = instant, instant + 1
        while self.count(instant, high) <= n:
            if high >= LAST_INSTANT:
                return None
            low, high = high, min(LAST_INSTANT, instant + 2 * (high - instant))
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.count(instant, middle) > n else (middle + 1, high)
        return low

    @property
    def zone(self) -> str | None:
        return next((member.zone for member in self.members if member.zone is not None), None)

    def local(self, instant: int) -> str | None:
        """Of the members in this trigger's zone the latest that any of them names."""
        named = [member.local(instant) for member in self._having(instant) if member.zone == self.zone]
        return max((local for local in named if local is not None), default=None)

    def first_after_local(self, local: str) -> int | None:
        """For members of other zones, and in UTC, the wall time is taken as the instant that it is in this zone."""
        name = self.zone
        if name is None:
            return super().first_after_local(local)
        instant = resolve_local(zones.load(name, self._zone_source), as_wall(local), "boundary", "first")[0]
        found = (
            member.first_after_local(local) if member.zone == name else member.next_after(instant)
            for member in self.members
        )
        return min((slot for slot in found if slot is not None), default=None)

    def explain(self, instant: int) -> str | None:
        reasons = [member.explain(instant) for member in self.members]
        if None in reasons:
            return None
        return "; ".join(f"({place}) {reason}" for place, reason in enumerate(reasons, start=1))

    def marks(self, instant: int) -> tuple[str, ...]:
        found = [mark for member in self._having(instant) for mark in member.marks(instant)]
        return tuple(dict.fromkeys(found))

    def _having(self, instant: int) -> Sequence[Trigger]:
        return [member for member in self.members if member.first_at_or_after(instant) == instant]

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "triggers": [member.spec() for member in self.members]}


def _shared(member: Trigger, others: Sequence[Trigger], first: int, last: int) -> int:
    """How many of the member's slots are slots of one of the others too."""
    return sum(
        1 for slot in member.between(first, last) if any(other.first_at_or_after(slot) == slot for other in others)
    )


def read_members(fields: Fields, depth: int = 0) -> tuple[Trigger, ...]:
    """The triggers of the field ``triggers``; what is wrong with them is noted with its place, ``triggers[1].at``."""
    from calsched.triggers import build

    given, context = fields.given.get("triggers"), fields.context
    if not isinstance(given, (list, tuple)) or not 1 <= len(given) <= _MOST:
        fields.fail("triggers", f"expected a list of 1 to {_MOST} triggers, got {shown(given)}")
        return ()
    if _depth(given) > _DEEPEST:
        fields.fail("triggers", f"expected at most {_DEEPEST} levels of triggers within triggers")
        return ()
    members: list[Trigger] = []
    for place, spec in enumerate(given):
        try:
            members.append(
                build(
                    spec,
                    default_zone=context.default_zone,
                    calendars=context.calendars,
                    schedule_id=context.schedule_id,
                    zone_source=context.zone_source,
                )
            )
        except TriggerInvalid as invalid:
            for problem in invalid.problems:
                path = f"triggers[{place}].{problem.path}" if problem.path else f"triggers[{place}]"
                fields.fail(path, problem.message, problem.hint)
    return tuple(members)


def _depth(given: Any) -> int:
    """How many levels of ``triggers`` there are, counted no further than is allowed."""
    level, deepest = [given], 0
    while level and deepest <= _DEEPEST:
        deepest += 1
        level = [
            member["triggers"]
            for members in level
            for member in members
            if isinstance(member, Mapping) and isinstance(member.get("triggers"), (list, tuple))
        ]
    return deepest
