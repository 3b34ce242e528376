"""What cannot be stored is refused: at once on a started scheduler, all together and before any write at its start."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from apscheduler.jobstores.base import ConflictingIdError
from apscheduler.triggers.base import BaseTrigger

from calsched import IntervalTrigger, durable
from calsched.errors import InvalidInput
from tests.jobstore import _jobs

Make = Callable[..., Any]


class Odd(BaseTrigger):  # type: ignore[misc]
    def get_next_fire_time(self, previous_fire_time: Any, now: Any) -> Any:
        return now


def nested() -> Callable[[], None]:
    def inner() -> None: ...

    return inner


BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("lambda", {"func": lambda: None}, "func", "a lambda has no name"),
    ("partial", {"func": functools.partial(_jobs.noop, 1)}, "func", "a partial of noop"),
    ("nested", {"func": nested()}, "func", "the nested function inner"),
    ("method", {"func": _jobs.gate.set}, "func", "the method Event.set"),
    ("set", {"func": _jobs.noop, "args": [{1}]}, "args[0]", "expected a JSON value"),
    ("deep", {"func": _jobs.noop, "kwargs": {"x": {"y": float("nan")}}}, "kwargs.x.y", "finite"),
    ("executor", {"func": _jobs.noop, "executor": "gpu"}, "executor", "this scheduler has default"),
    ("trigger", {"func": _jobs.noop, "trigger": Odd()}, "trigger", "cannot be kept as data"),
]


@pytest.mark.parametrize(("job_id", "given", "path", "message"), BAD)
def test_a_started_scheduler_refuses_it_at_once(
    run: Make, job_id: str, given: dict[str, Any], path: str, message: str
) -> None:
    scheduler = run()
    scheduler.start(paused=True)
    with pytest.raises(InvalidInput) as caught:
        scheduler.add_job(**{"trigger": IntervalTrigger(hours=1), **given}, id=job_id)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert message in str(problem)
    assert scheduler.get_jobs() == []


def test_all_pending_jobs_are_refused_together_before_anything_is_written(run: Make) -> None:
    scheduler = run()
    scheduler.add_job(_jobs.noop, IntervalTrigger(hours=1), id="good")
    for job_id, given, _, _ in BAD:
        scheduler.add_job(**{"trigger": IntervalTrigger(hours=1), **given}, id=job_id)
    with pytest.raises(InvalidInput) as caught:
        scheduler.start()
    assert [problem.path for problem in caught.value.problems] == [f"job {b[0]!r}: {b[2]}" for b in BAD]
    path = scheduler.ours.store.path
    assert not path.exists()
    assert not scheduler.running


def test_a_refused_start_can_be_put_right(run: Make) -> None:
    scheduler = run()
    scheduler.add_job(lambda: None, IntervalTrigger(hours=1), id="bad")
    scheduler.add_job(_jobs.noop, IntervalTrigger(hours=1), id="good")
    with pytest.raises(InvalidInput):
        scheduler.start()
    scheduler.remove_job("bad")
    scheduler.start(paused=True)
    assert [job.id for job in scheduler.get_jobs()] == ["good"]


def test_a_taken_id_stops_the_start_before_a_part_of_it_is_written(run: Make) -> None:
    first = run()
    first.add_job(_jobs.noop, IntervalTrigger(hours=1), id="b")
    first.start(paused=True)
    first.shutdown()
    second = run()
    second.add_job(_jobs.noop, IntervalTrigger(hours=1), id="a")
    second.add_job(_jobs.noop, IntervalTrigger(hours=1), id="b")
    with pytest.raises(ConflictingIdError):
        second.start()
    second.remove_job("b")
    second.start(paused=True)
    assert sorted(job.id for job in second.get_jobs()) == ["a", "b"]


def test_the_allow_list_refuses_what_it_does_not_name(run: Make) -> None:
    scheduler = run(store={"allow": ["tests.jobstore._jobs:tell"]})
    scheduler.start(paused=True)
    scheduler.add_job(_jobs.tell, IntervalTrigger(hours=1), id="a")
    with pytest.raises(InvalidInput, match="not on this host's allow list"):
        scheduler.add_job(_jobs.noop, IntervalTrigger(hours=1), id="b")


@pytest.mark.parametrize(
    ("policies", "path"),
    [
        ({"overlapp": "skip"}, "overlapp"),
        ({"overlap": "skipp"}, "overlap"),
        ({"grace": -1}, "graceSeconds"),
        ({"max_catch_up": 101}, "maxCatchUp"),
        ({"misfire": "boundedReplay"}, "misfire"),
        ({"grace": 1, "graceSeconds": 2}, "graceSeconds"),
        ({"verify": lambda result: True}, "verify"),
    ],
)
def test_a_wrong_policy_is_refused_where_it_is_written(policies: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        durable(IntervalTrigger(hours=1), **policies)
    assert [problem.path for problem in caught.value.problems] == [path]


def test_a_mistyped_policy_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'overlap'"):
        durable(IntervalTrigger(hours=1), overlapp="skip")


def test_a_database_that_is_not_ours_is_refused_and_left_alone(run: Make, tmp_path: Any) -> None:
    path = tmp_path / "app.db"
    path.write_bytes(b"no database at all" * 100)
    before = path.read_bytes()
    from calsched.errors import StoreNotOurs

    scheduler = run()
    with pytest.raises(StoreNotOurs):
        scheduler.start()
    assert path.read_bytes() == before


def test_importing_calsched_loads_nothing_heavy() -> None:
    import subprocess
    import sys

    heavy = ("typer", "rich", "yaml", "alembic", "pydantic", "sqlalchemy", "apscheduler")
    code = f"import calsched, sys; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout.strip() == "[]"


def test_an_app_loads_neither_typer_nor_rich_nor_yaml_nor_alembic(tmp_path: Any) -> None:
    import subprocess
    import sys

    code = (
        "import sys\n"
        "from apscheduler.schedulers.background import BackgroundScheduler\n"
        "from calsched import IntervalTrigger, OccurrenceJobStore, durable\n"
        f"store = OccurrenceJobStore('sqlite:///{tmp_path}/a.db')\n"
        "s = BackgroundScheduler(jobstores={'default': store}, timezone='UTC')\n"
        "s.add_job('tests.jobstore._jobs:noop', durable(IntervalTrigger(hours=1), grace=5), id='a')\n"
        "s.start(); s.shutdown()\n"
        "print([m for m in ('typer','rich','yaml','alembic') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout.strip() == "[]"
