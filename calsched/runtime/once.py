"""One pass for hosts without a daemon: judge what is due, run what is ready, record how it ended, leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from calsched.errors import StoreNotOurs, StoreVersionDiffers
from calsched.model import TickPlan
from calsched.runtime.pump import Port, Pump, Settings
from calsched.runtime.work import Work

#: So many verbs of one pass may fail; the next pass tries again.
MOST_FAULTS = 5


class OncePump(Pump):
    """An owner that judges what was due when it began, and leaves when nothing is ready any more.

    A slot that falls due meanwhile, and a retry that is to wait, are for the next pass.
    """

    def __init__(self, store: Any, port: Port, settings: Settings) -> None:
        super().__init__(store, port, settings)
        self._judged = False
        self._faults = 0
        self.gave_up: Exception | None = None  # what a pass could not get past

    def _grace(self) -> float:
        """It will not be here when a lease is over."""
        return 0.0

    def _poll(self, mono: int) -> None:
        if not self._judged:
            super()._poll(mono)

    def _own(self) -> None:
        super()._own()
        if self._next_due is None or self._next_due > self.wall():
            self._judged = True
        if self._judged:
            self._next_due = self._next_run = None
            if self._is_idle() and not self._wanted(self.clock.monotonic()) and not self.stopping:
                with self.store.read() as conn:
                    self._look_for_strays(conn, self.store.now(conn))
                self.begin_stop()

    def _act(self) -> None:
        """A pass has an end: it waits for a store that may come back, and not for one that is lost."""
        try:
            super()._act()
        except (StoreNotOurs, StoreVersionDiffers) as exc:
            self.gave_up = exc
            self.role = "stopped"

    def _after_a_fault(self, exc: Exception, mono: int) -> bool:
        """A verb that fails each time is no reason to stay for ever; what has ended is recorded before it leaves."""
        met = super()._after_a_fault(exc, mono)
        self._faults += met
        if met and self._faults >= MOST_FAULTS:
            self.gave_up = exc
            self._judged = True
            self.begin_stop()
        return met

    def _learn_limit(self) -> None:
        """It will not be here."""

    def _kicked(self) -> None:
        if not self._judged:
            super()._kicked()


@dataclass(frozen=True, slots=True)
class Ran:
    """One attempt of this pass."""

    series: str
    ordinal: int
    due: int
    attempt: int
    state: str
    elapsed: int
    retry_at: int | None = None
    error: str | None = None


@dataclass(slots=True)
class Ticked:
    """What one pass committed for one schedule."""

    namespace: str
    id: str
    revision: int
    plans: list[TickPlan] = field(default_factory=list)
    ran: list[Ran] = field(default_factory=list)


class Collector:
    """An observer that keeps what was committed, schedule by schedule, in the order in which it began."""

    def __init__(self) -> None:
        self.schedules: dict[tuple[str, str], Ticked] = {}

    def _of(self, namespace: str, schedule_id: str, revision: int) -> Ticked:
        return self.schedules.setdefault((namespace, schedule_id), Ticked(namespace, schedule_id, revision))

    def started(self, works: Sequence[Work]) -> None:
        return None

    def ended(self, works: Sequence[Work], report: Any) -> None:
        for work in works:
            c, outcome = work.claimed, work.outcome
            if outcome is None:
                continue
            error = None if outcome.failure is None else f"{outcome.failure.type}: {outcome.failure.message}"
            self._of(c.namespace, c.schedule_id, c.revision).ran.append(
                Ran(
                    c.series, c.ordinal, c.due, c.attempt, outcome.state, outcome.elapsed,
                    report.retrying.get(c.occurrence), error,
                )
            )  # fmt: skip

    def advanced(self, schedules: Sequence[Any]) -> None:
        for one in schedules:
            self._of(one.namespace, one.id, one.revision).plans.append(one.plan)
