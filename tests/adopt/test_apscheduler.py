"""What stored jobs of APScheduler become, and what is said of those that become nothing."""

from __future__ import annotations

import datetime as dt
import pickle
import sqlite3
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from calsched import triggers
from calsched.adopt.apscheduler import adopt_apscheduler
from calsched.adopt.oldpolicies import policies_of
from calsched.adopt.result import Adopted
from calsched.clock import to_datetime, to_millis
from tests.adopt._jobs import NEXT, row

START = datetime(2026, 3, 1, tzinfo=UTC)


class MoonTrigger(BaseTrigger):  # type: ignore[misc]
    def get_next_fire_time(self, previous_fire_time: Any, now: Any) -> Any:
        return None

    def __getstate__(self) -> Any:
        return {"version": 1}


class Order:
    pass


class Evil:
    def __reduce__(self) -> Any:
        import os

        return (os.system, ("touch /tmp/owned",))


def adopted(trigger: BaseTrigger, **changes: Any) -> Adopted:
    adoption = adopt_apscheduler([row(trigger, **changes)])
    assert adoption.refused == []
    return adoption.schedules[0]


HOURLY = IntervalTrigger(hours=1, timezone=UTC)


def refused(trigger: BaseTrigger | Any = HOURLY, **changes: Any) -> list[str]:
    adoption = adopt_apscheduler([row(trigger, **changes)])
    assert adoption.schedules == []
    return [str(problem) for problem in adoption.refused]


def cron(zone: str = "Europe/Berlin", **fields: Any) -> CronTrigger:
    return CronTrigger(timezone=zone, **fields)


CRON_SPECS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"hour": 9, "minute": 30}, {"kind": "cron", "expression": "30 9 * * *"}),
    ({"day_of_week": "mon-fri", "hour": 9}, {"kind": "cron", "expression": "0 9 * * mon-fri"}),
    ({"day_of_week": "0,6", "hour": 9}, {"kind": "cron", "expression": "0 9 * * mon,sun"}),
    ({"day_of_week": "wed-sun", "hour": 9}, {"kind": "cron", "expression": "0 9 * * wed-sat,sun"}),
    ({"minute": "*/15"}, {"kind": "cron", "expression": "*/15 * * * *"}),
    ({"hour": "8-18/2", "minute": "5,35"}, {"kind": "cron", "expression": "5,35 8,10,12,14,16,18 * * *"}),
    ({"month": "jan-mar", "day": 1}, {"kind": "cron", "expression": "0 0 1 1-3 *"}),
    ({"second": "*/10"}, {"kind": "cron", "expression": "*/10 * * * * *", "seconds": "first"}),
    ({"second": 30, "minute": 0}, {"kind": "cron", "expression": "30 0 * * * *", "seconds": "first"}),
    ({"day": "last", "hour": 18}, {"kind": "calendar", "at": ["18:00"], "daysOfMonth": [-1]}),
    ({"day": "2nd fri,last mon", "hour": 6}, {"kind": "calendar", "at": ["06:00"], "nthWeekdays": ["2fri", "-1mon"]}),
    (
        {"day": 13, "day_of_week": "fri", "month": "1,7", "hour": 0, "minute": 0, "second": 1},
        {"kind": "calendar", "at": ["00:00:01"], "weekdays": ["fri"], "daysOfMonth": [13], "months": [1, 7]},
    ),
    (
        {"day": "1-7", "day_of_week": "mon", "minute": "*/30"},
        {
            "kind": "calendar",
            "hour": None,
            "minute": [0, 30],
            "second": [0],
            "fold": "both",
            "weekdays": ["mon"],
            "daysOfMonth": [1, 2, 3, 4, 5, 6, 7],
        },
    ),
]


@pytest.mark.parametrize(("fields", "spec"), CRON_SPECS)
def test_a_cron_trigger_becomes_the_rule_that_one_would_write(fields: dict[str, Any], spec: dict[str, Any]) -> None:
    assert adopted(cron(**fields)).body["trigger"] == {**spec, "timezone": "Europe/Berlin"}


def slots_of(trigger: BaseTrigger, start: datetime, count: int) -> list[datetime]:
    """As APScheduler hands them out, one after the other."""
    out: list[datetime] = []
    previous = None
    now = start
    while len(out) < count and (previous := trigger.get_next_fire_time(previous, now)) is not None:
        out.append(previous.astimezone(UTC))
        now = previous
    return out


def our_slots(spec: dict[str, Any], start: datetime, count: int) -> list[datetime]:
    trigger = triggers.build(spec)
    out: list[datetime] = []
    at = trigger.first_at_or_after(to_millis(start))
    while at is not None and len(out) < count:
        out.append(to_datetime(at))
        at = trigger.next_after(at)
    return out


def numbers(low: int, high: int) -> st.SearchStrategy[str]:
    one = st.integers(low, high).map(str)
    pair = st.tuples(st.integers(low, high), st.integers(low, high)).map(lambda p: f"{min(p)}-{max(p)}")
    step = st.integers(2, max(2, (high - low) // 2)).map(lambda n: f"*/{n}")
    return st.lists(one | pair | step, min_size=1, max_size=3).map(",".join) | st.just("*")


@settings(max_examples=60)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "month": numbers(1, 12),
            "day": numbers(1, 28) | st.sampled_from(["last", "1st mon", "last fri,2nd tue"]),
            "day_of_week": numbers(0, 6),
            "hour": numbers(0, 23),
            "minute": numbers(0, 59),
            "second": st.just("0") | st.integers(0, 59).map(str),
        },
    )
)
def test_the_rule_has_the_slots_that_apscheduler_computes(fields: dict[str, str]) -> None:
    trigger = CronTrigger(timezone=UTC, **fields)  # without clock changes, where APScheduler can be trusted
    assume(slots_of(trigger, START, 1))  # a last Friday that is a Monday never comes: such a rule is refused
    spec = adopted(trigger).body["trigger"]
    assert spec["kind"] != "apscheduler"
    assert our_slots(spec, START, 12) == slots_of(trigger, START, 12)


def test_the_bounds_of_a_cron_trigger_are_kept() -> None:
    trigger = CronTrigger(hour=9, timezone="Europe/Berlin", start_date="2026-04-01", end_date="2026-04-03 09:00:00")
    spec = adopted(trigger).body["trigger"]
    assert (spec["start"], spec["end"]) == ("2026-03-31T22:00:00Z", "2026-04-03T07:00:00Z")
    assert our_slots(spec, START, 9) == [datetime(2026, 4, d, 7, tzinfo=UTC) for d in (1, 2, 3)]


def test_a_start_within_a_millisecond_admits_no_earlier_slot() -> None:
    start = datetime(2026, 4, 1, 9, 0, 0, 1, tzinfo=ZoneInfo("UTC"))
    spec = adopted(CronTrigger(hour=9, timezone="UTC", start_date=start)).body["trigger"]
    assert our_slots(spec, START, 1) == [datetime(2026, 4, 2, 9, tzinfo=UTC)]


def test_an_interval_keeps_its_first_tick_and_its_end() -> None:
    bounds = {"start_date": "2026-03-01 00:15:00", "end_date": "2026-03-10", "timezone": "Europe/Berlin"}
    trigger = IntervalTrigger(minutes=90, **bounds)
    assert adopted(trigger, next_run=datetime(2026, 3, 8, 23, 15, tzinfo=UTC)).body["trigger"] == {
        "kind": "interval",
        "intervalMs": 5_400_000,
        "firstTick": "2026-02-28T23:15:00Z",
        "end": "2026-03-09T23:00:00Z",
    }


def test_an_interval_that_left_its_start_is_counted_from_its_next_run() -> None:
    trigger = IntervalTrigger(hours=1, start_date="2026-03-01 00:00:00", timezone=UTC)
    found = adopted(trigger, next_run=datetime(2026, 3, 9, 9, 20, tzinfo=UTC))
    assert found.body["trigger"]["firstTick"] == "2026-03-09T09:20:00Z"
    assert any("counted from the next one" in note for note in found.notes)


def test_a_date_becomes_once_and_a_moved_one_says_so() -> None:
    trigger = DateTrigger("2026-03-09 10:00:00", timezone="Europe/Berlin")
    assert adopted(trigger).body["trigger"] == {"kind": "once", "at": "2026-03-09T09:00:00Z"}
    moved = adopted(trigger, next_run=NEXT + timedelta(days=1))
    assert moved.body["trigger"] == {"kind": "once", "at": "2026-03-10T09:00:00Z"}
    assert any("was moved" in note for note in moved.notes)


@pytest.mark.parametrize(
    ("arguments", "spec"),
    [
        (
            {"days": 1, "hour": 3},
            {"kind": "calendar", "at": ["03:00:00"], "start": "2026-01-31T00:00:00", "end": "2026-12-31T23:59:59"},
        ),
        (
            {"weeks": 1, "hour": 3},
            {
                "kind": "calendar",
                "at": ["03:00:00"],
                "weekdays": ["sat"],
                "start": "2026-01-31T00:00:00",
                "end": "2026-12-31T23:59:59",
            },
        ),
        (
            {"months": 2, "hour": 3},
            {
                "kind": "rrule",
                "rrule": "FREQ=MONTHLY;INTERVAL=2;UNTIL=20261231T235959",
                "dtstart": "2026-01-31T03:00:00",
            },
        ),
        (
            {"weeks": 1, "days": 3, "minute": 5},
            {
                "kind": "rrule",
                "rrule": "FREQ=DAILY;INTERVAL=10;UNTIL=20261231T235959",
                "dtstart": "2026-01-31T00:05:00",
            },
        ),
    ],
)
def test_a_calendar_interval_has_the_same_slots(arguments: dict[str, Any], spec: dict[str, Any]) -> None:
    bounds = {"start_date": "2026-01-31", "end_date": "2026-12-31", "timezone": "Europe/Berlin"}
    trigger = CalendarIntervalTrigger(**bounds, **arguments)
    found = adopted(trigger).body["trigger"]
    assert found == {**spec, "timezone": "Europe/Berlin"}
    first = datetime(2026, 1, 1, tzinfo=UTC)
    assert our_slots(found, first, 40) == slots_of(trigger, first, 40)


def test_or_becomes_any_of() -> None:
    trigger = OrTrigger([cron(hour=9), DateTrigger("2026-03-09 10:00:00", timezone=UTC)])
    assert adopted(trigger).body["trigger"] == {
        "kind": "anyOf",
        "triggers": [
            {"kind": "cron", "expression": "0 9 * * *", "timezone": "Europe/Berlin"},
            {"kind": "once", "at": "2026-03-09T10:00:00Z"},
        ],
    }


def test_jitter_is_kept_and_explained() -> None:
    found = adopted(cron(hour=9, jitter=30))
    assert found.body["jitterSeconds"] == 30
    assert any(note.startswith("jitter of 30 s") for note in found.notes)


# --- task, policies, state ---------------------------------------------------------------------------------


def test_a_job_without_arguments_is_one_line_and_one_with_arguments_keeps_them() -> None:
    assert adopted(cron(hour=9)).body["task"] == "jobs:report"
    day = dt.date(2026, 3, 9)
    with_arguments = adopted(cron(hour=9), args=(1, "a", [True, None]), kwargs={"day": day}, executor="procs")
    assert with_arguments.body["task"] == {
        "callable": "jobs:report",
        "args": [1, "a", [True, None]],
        "kwargs": {"day": {"$date": "2026-03-09"}},
        "executor": "procs",
    }
    assert any("executor 'procs' must exist" in note for note in with_arguments.notes)


def test_a_name_of_its_own_becomes_the_description() -> None:
    assert "description" not in adopted(cron(hour=9)).body
    assert adopted(cron(hour=9), name="Morning figures").body["description"] == "Morning figures"


def test_a_paused_job_is_disabled() -> None:
    found = adopted(cron(hour=9), next_run=None)
    assert found.body["enabled"] is False
    assert any("was paused" in note for note in found.notes)


def test_an_overdue_job_says_so() -> None:
    rows = [row(cron("UTC", hour=9))]
    [found] = adopt_apscheduler(rows, now=to_millis(NEXT) + 1).schedules
    assert any("was due at 2026-03-09T09:00:00Z and had not run" in note for note in found.notes)
    [on_time] = adopt_apscheduler(rows, now=to_millis(NEXT)).schedules
    assert not any("had not run" in note for note in on_time.notes)


def test_a_next_run_that_is_no_slot_is_told() -> None:
    found = adopted(cron("UTC", hour=9), next_run=NEXT + timedelta(minutes=5))
    assert any("by its rule it is due at 2026-03-10T09:00:00Z" in note for note in found.notes)


@pytest.mark.parametrize(
    ("coalesce", "grace", "instances", "policies"),
    [
        (True, 1, 1, {"misfire": "runOnce", "overlap": "skip"}),
        (True, None, 1, {"misfire": "runOnce", "graceSeconds": 0, "overlap": "skip"}),
        (True, 3600, 1, {"misfire": "skip", "graceSeconds": 3600, "overlap": "skip"}),
        (True, 90_000, 1, {"misfire": "runOnce", "graceSeconds": 0, "overlap": "skip"}),
        (False, 1, 1, {"misfire": "skip", "overlap": "skip"}),
        (False, 30, 1, {"misfire": "skip", "graceSeconds": 30, "overlap": "skip"}),
        (False, None, 1, {"misfire": "catchUp", "maxCatchUp": 100, "overlap": "queue"}),
        (False, None, 4, {"misfire": "catchUp", "maxCatchUp": 100, "overlap": "allow", "maxConcurrent": 4}),
        (True, 1, 5000, {"misfire": "runOnce", "overlap": "allow", "maxConcurrent": 1000}),
    ],
)
def test_policies_for_a_ledger(coalesce: bool, grace: int | None, instances: int, policies: dict[str, Any]) -> None:
    assert policies_of(coalesce, grace, instances)[0] == policies


@pytest.mark.parametrize("protocol", range(6))
def test_every_pickle_protocol_is_read(protocol: int) -> None:
    assert adopted(cron(hour=9, day="last"), protocol=protocol).body["trigger"]["daysOfMonth"] == [-1]


# --- what cannot be carried over ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"func": "__main__:run"}, "move the function into a module"),
        ({"func": "jobs:<lambda>"}, "expected module:name of a plain function"),
        ({"func": "jobs:Report.send"}, "expected module:name of a plain function"),
        ({"func": 5}, "expected a reference module:name"),
        ({"args": (Order(),)}, "args[0]: an object of tests.adopt.test_apscheduler.Order has no form in JSON"),
        ({"kwargs": {"x": {1, 2}}}, "kwargs.x: an object of builtins.set has no form in JSON"),
        ({"kwargs": {"x": float("nan")}}, "kwargs.x"),
        ({"args": ("half \ud800",)}, "args[0]"),
        ({"args": "text"}, "args: expected a list"),
        ({"kwargs": []}, "kwargs: expected a dictionary"),
        ({"max_instances": "1"}, "max_instances: expected a whole number"),
        ({"misfire_grace_time": 1.5}, "misfire_grace_time: expected a whole number"),
        ({"misfire_grace_time": -1}, "expected positive numbers"),
        ({"executor": None}, "executor: expected an alias"),
        ({"trigger": None}, "trigger: expected a trigger, got nothing"),
        ({"trigger": "cron"}, "trigger: expected a trigger"),
        ({"trigger": MoonTrigger()}, "a trigger of class tests.adopt.test_apscheduler.MoonTrigger"),
        ({"version": 2}, "expected a job of version 1"),
        ({"id": " x "}, "printable characters"),
        ({"id": "x" * 201}, "printable characters"),
    ],
)
def test_what_cannot_be_carried_over_is_named(changes: dict[str, Any], message: str) -> None:
    assert message in "\n".join(refused(**changes))


def test_a_hostile_pickle_is_reported_with_its_job_and_not_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    bad = row(cron(hour=9), id="bad", args=(Evil(),))
    ran: list[object] = []
    monkeypatch.setattr(os, "system", ran.append)
    adoption = adopt_apscheduler([bad, row(cron(hour=9), id="good")])
    assert [schedule.id for schedule in adoption.schedules] == ["good"]
    assert "jobs[bad].job_state: the pickle would call posix.system when it is loaded" in str(adoption.refused[0])
    assert ran == []


def test_a_hostile_name_that_is_not_used_is_reported_too() -> None:
    good = row(cron(hour=9))[2]
    assert good is not None
    hidden = b"\x80\x05cposix\nsystem\n0" + good[2:]
    assert pickle.loads(hidden)["id"] == "job"
    adoption = adopt_apscheduler([("job", 0.0, hidden, len(hidden))])
    assert adoption.schedules == []
    assert "posix.system" in str(adoption.refused[0])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x80\x05N.", "expected the state of a job, got nothing"),
        (b"not a pickle", "not a job that APScheduler stored"),
        (None, "expected a pickled job, got no bytes"),
        (b"cos\nsystem\n(S'id'\ntR.", "posix"),
    ],
)
def test_rows_that_hold_no_job_are_reported(data: bytes | None, message: str) -> None:
    adoption = adopt_apscheduler([("x\x1b[2J", None, data and data.replace(b"cos", b"cposix"), len(data or b""))])
    text = "\n".join(str(problem) for problem in adoption.refused)
    assert message in text
    assert "\x1b" not in text


def test_and_is_kept_with_advice() -> None:
    trigger = AndTrigger([cron("UTC", hour="9,10"), cron("UTC", day_of_week="mon", hour="*")])
    found = adopted(trigger, next_run=NEXT)
    assert found.body["trigger"]["class"] == "and"
    assert any("consider one calendar rule" in note for note in found.notes)
    assert our_slots(found.body["trigger"], START, 3) == [datetime(2026, 3, d, h, tzinfo=UTC) for d, h in _MONDAYS]


_MONDAYS = [(2, 9), (2, 10), (9, 9)]

FOREIGN: list[BaseTrigger] = [
    cron(week="1,9-12", day_of_week="tue", hour=6),
    cron(year="2026-2027", month=6, day=1),
    cron(day="15,2nd fri", hour=6),
    CronTrigger(hour=9, timezone=dt.timezone(timedelta(hours=5, minutes=30))),
    CalendarIntervalTrigger(months=1, days=1, hour=3, start_date="2026-01-31", timezone="UTC"),
    CalendarIntervalTrigger(days=2, hour=3, start_date="2026-01-31", timezone=dt.timezone(timedelta(minutes=90))),
]


@pytest.mark.parametrize("trigger", FOREIGN, ids=str)
def test_what_no_rule_of_ours_says_stays_apschedulers_own(trigger: BaseTrigger) -> None:
    found = adopted(trigger)
    assert found.body["trigger"]["kind"] == "apscheduler"
    assert any("APScheduler's own computes it" in note for note in found.notes)
    assert our_slots(found.body["trigger"], START, 5) == [s for s in slots_of(trigger, START, 40) if s >= START][:5]


def test_every_reason_of_a_job_is_told_at_once() -> None:
    told = refused(func="__main__:x", args=(Order(),), max_instances="many", executor=3)
    assert {line.split(":")[0] for line in told} == {
        "jobs[job].job_state",
        "jobs[job].func",
        "jobs[job].args[0]",
        "jobs[job].max_instances",
        "jobs[job].executor",
    }


# --- from a store ------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A store that a real scheduler has written."""
    path = tmp_path / "jobs.db"
    scheduler = BackgroundScheduler(timezone="Europe/Berlin")
    scheduler.add_jobstore("sqlalchemy", url=f"sqlite:///{path}")
    scheduler.start(paused=True)
    scheduler.add_job("builtins:print", "cron", hour=9, id="report", args=["x", uuid.UUID(int=1)], name="Report")
    scheduler.add_job("builtins:print", "interval", minutes=5, id="poll", max_instances=2)
    scheduler.add_job("builtins:print", "date", run_date="2199-01-01", id="later").pause()
    scheduler.shutdown()
    yield f"sqlite:///{path}", path


def test_a_real_store_is_read_in_pages_without_being_touched(store: tuple[str, Path]) -> None:
    from calsched.stores.adopt_source import stored_jobs

    url, path = store
    before = path.read_bytes()
    adoption = adopt_apscheduler(stored_jobs(url, limit=100_000, page=2))
    assert adoption.refused == []
    assert [(s.id, s.was.partition("[")[0]) for s in adoption.schedules] == [
        ("later", "date"),
        ("poll", "interval"),
        ("report", "cron"),
    ]
    assert adoption.schedules[0].body["enabled"] is False
    assert adoption.schedules[2].body["task"]["args"] == ["x", {"$uuid": str(uuid.UUID(int=1))}]
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["jobs.db"]


def test_a_state_that_is_too_large_stays_in_the_database(store: tuple[str, Path]) -> None:
    from calsched.stores.adopt_source import stored_jobs

    assert [job.state for job in stored_jobs(store[0], limit=10)] == [None, None, None]


def test_a_column_of_another_kind_is_reported(store: tuple[str, Path]) -> None:
    from calsched.stores.adopt_source import stored_jobs

    with sqlite3.connect(store[1]) as connection:
        connection.execute("UPDATE apscheduler_jobs SET job_state = 'text', next_run_time = 'soon' WHERE id = 'poll'")
    connection.close()
    adoption = adopt_apscheduler(stored_jobs(store[0], limit=100_000))
    assert [s.id for s in adoption.schedules] == ["later", "report"]
    assert "jobs[poll].job_state: expected a pickled job" in str(adoption.refused[0])


def test_sources_that_are_none_are_named(store: tuple[str, Path], tmp_path: Path) -> None:
    from calsched.errors import InvalidInput, StoreNotOurs
    from calsched.stores.adopt_source import stored_jobs

    def read(url: str, table: str = "apscheduler_jobs") -> None:
        list(stored_jobs(url, table=table, limit=1))

    with pytest.raises(InvalidInput, match="there is no file"):
        read(f"sqlite:///{tmp_path}/none.db")
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(InvalidInput, match="expected a database URL"):
        read("jobs.db")
    with pytest.raises(InvalidInput, match="its tables: apscheduler_jobs"):
        read(store[0], "jobs")
    (tmp_path / "text.db").write_text("hello " * 1000)
    with pytest.raises(StoreNotOurs, match="cannot be read"):
        read(f"sqlite:///{tmp_path}/text.db")
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE apscheduler_jobs (id TEXT)")
    connection.close()
    with pytest.raises(StoreNotOurs, match="no column next_run_time, job_state"):
        read(f"sqlite:///{tmp_path}/other.db")
