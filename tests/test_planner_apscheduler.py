"""The planner's ``apscheduler`` policies against APScheduler itself: the same run times run, the same are dropped."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.events import EVENT_JOB_MISSED
from apscheduler.executors.base import BaseExecutor, MaxInstancesReachedError, run_job
from apscheduler.job import Job
from apscheduler.schedulers.base import BaseScheduler
from apscheduler.triggers.interval import IntervalTrigger
from freezegun import freeze_time
from hypothesis import given as law
from hypothesis import settings
from hypothesis import strategies as st

from calsched.clock import to_datetime, to_millis
from calsched.model import Pending
from calsched.planner import plan
from tests._ticks import Every, given

START = datetime(2026, 1, 1, tzinfo=UTC)
START_MS = to_millis(START)


class Stopped(BaseScheduler):  # type: ignore[misc]
    """A scheduler that only lends its locks."""

    def shutdown(self, wait: bool = True) -> None: ...
    def wakeup(self) -> None: ...


class InPlace(BaseExecutor):  # type: ignore[misc]
    """Runs what is submitted at once, as APScheduler's executors do in their workers."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []

    def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:
        self.events += run_job(job, "default", run_times, "apscheduler.test")


def apscheduler_says(
    seconds: int, behind: float, coalesce: bool, grace: int | None, running: int, most: int
) -> dict[int, str]:
    """What becomes of each due run time, by ordinal, as ``BaseScheduler._process_jobs`` goes about it."""
    now = START + timedelta(seconds=behind)
    scheduler = Stopped(timezone=UTC)
    job = Job(
        scheduler,
        id="job",
        func=print,
        trigger=IntervalTrigger(seconds=seconds, start_date=START, timezone=UTC),
        args=(),
        kwargs={},
        executor="default",
        misfire_grace_time=grace,
        coalesce=coalesce,
        max_instances=most,
        next_run_time=START,
    )
    due = job._get_run_times(now)
    run_times = due[-1:] if coalesce else due
    executor = InPlace()
    executor.start(scheduler, "default")
    executor._instances["job"] = running
    ordinal = {run_time: n for n, run_time in enumerate(due)}
    try:
        with freeze_time(now):
            executor.submit_job(job, run_times)
    except MaxInstancesReachedError:
        return dict.fromkeys(ordinal.values(), "maxInstances")
    found = {}
    for event in executor.events:
        found[ordinal[event.scheduled_run_time]] = "misfire" if event.code == EVENT_JOB_MISSED else "run"
    return found


@settings(max_examples=60, deadline=None)
@law(
    st.integers(1, 20),
    st.integers(0, 120_000).map(lambda ms: ms / 1000) | st.integers(0, 120),
    st.booleans(),
    st.none() | st.integers(1, 60),
    st.integers(0, 2),
    st.integers(1, 3),
)
def test_the_same_run_times_run_and_the_same_are_dropped(
    seconds: int, behind: float, coalesce: bool, grace: int | None, running: int, most: int
) -> None:
    running = min(running, most)
    options = {
        "coalesce": coalesce,
        "misfire_grace_time": None if grace is None else grace * 1000,
        "max_instances": most,
    }
    inp = given(Every(seconds * 1000, START_MS), misfire="apscheduler", overlap="apscheduler", apscheduler=options)
    inp = inp._replace(pending=Pending(active=running, free_slots=tuple(range(running, most))))
    made = plan(inp, round(START_MS + behind * 1000))
    ours: dict[int, str] = {row.ordinal: "run" for row in made.occurrences}
    for part in made.ranges:
        for ordinal in range(part.first, part.last + 1):
            ours[ordinal] = part.reason or "represented"
    theirs = apscheduler_says(seconds, behind, coalesce, grace, running, most)
    # what coalescing leaves out APScheduler does not tell; ours has a verdict for it
    assert {n: verdict for n, verdict in ours.items() if n in theirs} == theirs
    untold = {verdict for n, verdict in ours.items() if n not in theirs}
    assert untold <= ({"represented"} if "run" in theirs.values() else {"misfire"})
    assert len(ours) == len(range(0, round(behind * 1000) + 1, seconds * 1000))


def test_the_first_run_of_a_batch_holds_the_instance_and_the_others_follow_it() -> None:
    options = {"coalesce": False, "misfire_grace_time": None, "max_instances": 2}
    inp = given(Every(1000, START_MS), misfire="apscheduler", overlap="apscheduler", apscheduler=options)
    inp = inp._replace(pending=Pending(active=1, free_slots=(1,)))
    made = plan(inp, START_MS + 2500)
    assert [(row.state, row.active_slot) for row in made.occurrences] == [
        ("ready", 1), ("waiting", None), ("waiting", None),
    ]  # fmt: skip
    assert to_datetime(made.occurrences[-1].due) == START + timedelta(seconds=2)
