"""``tick_once``: what ``calsched tick`` does, for hosts that cron or a timer wakes instead of running a daemon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from calsched.runtime.callables import AllowList
from calsched.runtime.host import owner_settings, pools, scheduler_for
from calsched.runtime.once import Collector, OncePump, Ticked
from calsched.runtime.problems import Problem
from calsched.settings import Settings as HostSettings

if TYPE_CHECKING:
    from calsched.stores.engine import Store


@dataclass(frozen=True, slots=True)
class TickReport:
    """What one pass committed. ``left_running`` tasks did not end within the limit and are recorded as interrupted."""

    at: int
    schedules: tuple[Ticked, ...]
    left_running: int = 0
    problems: tuple[Problem, ...] = ()  # what a person has to mend; each was logged, too
    hold: str | None = None  # why nothing was dispatched; logged, too


def tick_once(
    store: Store,
    settings: HostSettings | None = None,
    *,
    allow: AllowList,
    limit: float | None = None,
) -> TickReport:
    """Advance, run what is ready, record, leave. Tasks run in the pools that the settings name.

    ``limit`` bounds the pass in seconds; what still runs then is asked to stop, and given up a moment later. Raises
    OwnedElsewhere where another process owns the store, and StoreUnusable errors.
    """
    from calsched.stores.jobstore import OccurrenceJobStore

    settings = settings or HostSettings()
    collector = Collector()
    jobstore = OccurrenceJobStore(
        store=store, settings=owner_settings(settings, allow), pump_class=OncePump, observers=[collector]
    )
    scheduler = scheduler_for(jobstore, pools(settings))
    at = store.clock.now()
    scheduler.start()
    pump = jobstore.pump
    assert pump is not None
    try:
        if not pump.join(limit):
            jobstore.stop(2.0)
    finally:
        scheduler.shutdown(wait=not pump.left_running)
    if isinstance(pump, OncePump) and pump.gave_up is not None:
        raise pump.gave_up
    return TickReport(at, tuple(collector.schedules.values()), pump.left_running, pump.problems.all(), pump.hold)
