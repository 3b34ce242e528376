"""Schedules whose definition or task an owner cannot load.

It passes them over, and another owner that can load them takes their work. Where there is no other one they are paused,
after one more lease: in a deploy that goes from host to host, or from one process to the next, the owner that brings
the new code may be about to come. A pass (``calsched tick``) has no next lease, and judges at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from calsched.runtime.problems import Problems

if TYPE_CHECKING:
    from calsched.runtime.verbs import Verbs
    from calsched.stores.advance import Failed

#: For how long a schedule is passed over before this owner tries again (milliseconds).
ABSTAIN = 60_000


class Unusable:
    """``grace`` is in seconds. Used by the thread of the owner alone."""

    def __init__(self, verbs: Verbs, problems: Problems, grace: float) -> None:
        self._verbs, self._problems, self._grace = verbs, problems, int(grace * 1000)
        self._clock = verbs.store.clock
        self._until: dict[int, int] = {}
        self._alone: dict[int, tuple[int, int]] = {}  # met while nobody else was there: first and last; monotonic

    def passed_over(self, now: int) -> Mapping[int, int]:
        """The schedules that this owner leaves alone, and until when."""
        if self._until:
            self._until = {pk: until for pk, until in self._until.items() if until > now}
        return self._until

    def sooner(self, at: int | None) -> int | None:
        """``at``, or the end of an abstention before it."""
        return min((*self._until.values(), *(() if at is None else (at,))), default=None)

    def met(self, conn: Any, now: int, schedule_pk: int, namespace: str, id: str, what: str, problem: str) -> None:
        """One whose ``what`` (definition or task) cannot be loaded here: pause it, or leave it to others for a while;
        said either way."""
        because = f"because its {what} cannot be loaded: {problem}"
        self._until[schedule_pk] = now + ABSTAIN
        if not self._verbs.is_only_owner(conn, now):
            self._alone.pop(schedule_pk, None)
            told = f"left to other owners, {because}"
        elif (left := self._grace - self._alone_for(schedule_pk)) > 0:
            self._until[schedule_pk] = now + min(left, ABSTAIN)
            told = f"left for {self._grace / 1000:g} s to an owner that may come, {because}"
        elif self._verbs.pause_invalid(conn, schedule_pk, problem, now):
            self._problems.over("unloadable", [(namespace, id)])
            self._problems.met("invalid", namespace, id, f"paused, {because}")
            return
        else:
            told = f"its work waits, {because}"
        self._problems.met("unloadable", namespace, id, told)

    def failed(self, conn: Any, now: int, one: Failed) -> None:
        """One that could not be judged: what cannot be loaded is met; the rest is tried again soon."""
        if one.unloadable:
            self.met(conn, now, one.schedule_pk, one.namespace, one.id, "definition", one.error)
        else:
            why = f"it could not be judged, and is tried again soon: {one.error}"
            self._problems.met("failed", one.namespace, one.id, why)

    def _alone_for(self, schedule_pk: int) -> int:
        """For how long nobody else was there when it was met. What was not met for long is met for the first time."""
        mono = self._clock.monotonic()
        first, last = self._alone.get(schedule_pk, (mono, mono))
        if mono - last > 2 * ABSTAIN:
            first = mono
        self._alone[schedule_pk] = first, mono
        return mono - first

    def over(self, found: Iterable[tuple[int, str, str]]) -> None:
        """(key, namespace, id) of schedules whose work has begun here."""
        if not self._until and not self._alone:
            return
        begun = list(found)
        for pk, _, _ in begun:
            self._alone.pop(pk, None)
        self._problems.over("unloadable", ((namespace, id) for _, namespace, id in begun))
