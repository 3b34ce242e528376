"""A rule whose first slot was set by hand (APScheduler's ``next_run_time=``); the rule itself goes on from there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from calsched.clock import to_rfc3339
from calsched.errors import Problem, TriggerInvalid
from calsched.triggers.base import Context, Trigger
from calsched.triggers.fields import Bad, as_instant


class StartingAtTrigger(Trigger):
    """``first``, whether the rule names it or not, and then the rule's slots after it."""

    __slots__ = ("first", "then")
    kind: ClassVar[str] = "startingAt"
    first: int
    then: Trigger

    def __init__(self, first: int, then: Trigger) -> None:
        self.first, self.then = first, then
        self._calendars = getattr(then, "_calendars", {})
        self._zone_source = getattr(then, "_zone_source", "package")

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], context: Context) -> Self:
        from calsched.triggers import build

        problems: list[Problem] = [
            Problem("expected first and then only", key) for key in spec if key not in ("kind", "first", "then")
        ]
        first, then = 0, None
        try:
            first = as_instant(spec.get("first"))
        except Bad as bad:
            problems.append(Problem(bad.message, "first", hint=bad.hint))
        try:
            then = build(
                spec.get("then", {}),
                default_zone=context.default_zone,
                calendars=context.calendars,
                schedule_id=context.schedule_id,
                zone_source=context.zone_source,
            )
        except TriggerInvalid as exc:
            problems += [Problem(p.message, f"then.{p.path}" if p.path else "then", hint=p.hint) for p in exc.problems]
        if problems or then is None:
            raise TriggerInvalid(problems)
        return cls(first, then)

    def first_at_or_after(self, instant: int) -> int | None:
        return self.first if instant <= self.first else self.then.first_at_or_after(instant)

    def last_at_or_before(self, instant: int) -> int | None:
        if instant < self.first:
            return None
        found = self.then.last_at_or_before(instant)
        return self.first if found is None or found < self.first else found

    def count(self, first: int, last: int) -> int:
        own = 1 if first <= self.first <= last else 0
        return own + self.then.count(max(first, self.first + 1), last)

    def nth_after(self, instant: int, n: int) -> int | None:
        if instant > self.first:
            return self.then.nth_after(instant, n)
        return self.first if n == 0 else self.then.nth_after(self.first + 1, n - 1)

    @property
    def zone(self) -> str | None:
        return self.then.zone

    def local(self, instant: int) -> str | None:
        return self.then.local(instant) if self.then.first_at_or_after(instant) == instant else None

    def first_after_local(self, local: str) -> int | None:
        found = self.then.first_after_local(local)
        return self.first_at_or_after(found) if found is not None else None

    def explain(self, instant: int) -> str | None:
        if instant == self.first:
            return None
        if instant < self.first:
            return f"the first run was set to {to_rfc3339(self.first)}"
        return self.then.explain(instant)

    def marks(self, instant: int) -> tuple[str, ...]:
        if self.then.first_at_or_after(instant) == instant:
            return self.then.marks(instant)
        return ("set by hand",)

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "first": to_rfc3339(self.first), "then": self.then.spec()}

    def __str__(self) -> str:
        return str(self.then)
