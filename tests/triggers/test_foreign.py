"""APScheduler's own triggers as sources of slots, and APScheduler's combining triggers around ours."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger as NativeCron
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger as NativeInterval

from calsched.clock import to_datetime
from calsched.errors import TriggerInvalid
from calsched.triggers import build
from calsched.triggers.any_of import AnyOfTrigger
from calsched.triggers.calendar import CalendarTrigger
from calsched.triggers.cron import CronTrigger
from calsched.triggers.fields import parse_rfc3339 as at
from calsched.triggers.foreign import ForeignTrigger, wrap
from calsched.triggers.interval import IntervalTrigger
from tests.triggers._vectors import firings

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")

NATIVE: dict[str, tuple[BaseTrigger, list[str]]] = {
    "interval": (
        NativeInterval(minutes=90, start_date=START, timezone=UTC),
        ["2026-01-05T09:00:00Z", "2026-01-05T10:30:00Z", "2026-01-05T12:00:00Z"],
    ),
    "interval with an end": (
        NativeInterval(days=1, start_date=START, end_date=START + timedelta(days=1), timezone=UTC),
        ["2026-01-05T09:00:00Z", "2026-01-06T09:00:00Z"],
    ),
    "date": (DateTrigger(START, timezone=UTC), ["2026-01-05T09:00:00Z"]),
    "cron": (
        NativeCron(day_of_week="mon-fri", hour=9, minute=30, timezone=BERLIN),
        ["2026-01-02T08:30:00Z", "2026-01-05T08:30:00Z", "2026-01-06T08:30:00Z"],
    ),
    "cron with a start": (
        NativeCron(day="last", hour=0, timezone=BERLIN, start_date=START),
        ["2026-01-30T23:00:00Z", "2026-02-27T23:00:00Z", "2026-03-30T22:00:00Z"],
    ),
    "calendarinterval": (
        CalendarIntervalTrigger(months=1, hour=7, start_date=date(2026, 1, 31), timezone=BERLIN),
        ["2026-01-31T06:00:00Z", "2026-03-31T05:00:00Z", "2026-05-31T05:00:00Z"],
    ),
    "or": (
        OrTrigger([DateTrigger(START, timezone=UTC), NativeInterval(hours=24, start_date=START, timezone=UTC)]),
        ["2026-01-05T09:00:00Z", "2026-01-06T09:00:00Z", "2026-01-07T09:00:00Z"],
    ),
    "and": (
        AndTrigger(
            [NativeCron(day=1, hour=9, timezone=UTC), CalendarTrigger(at="09:00", weekdays="mon", timezone="UTC")]
        ),
        ["2026-06-01T09:00:00Z", "2027-02-01T09:00:00Z", "2027-03-01T09:00:00Z"],
    ),
}


@pytest.mark.parametrize("name", NATIVE)
def test_a_trigger_of_apscheduler_yields_its_slots(name: str) -> None:
    native, slots = NATIVE[name]
    trigger = wrap(native)
    assert firings(trigger, "2026-01-01T12:00:00Z", 3) == slots


@pytest.mark.parametrize("name", NATIVE)
def test_a_trigger_of_apscheduler_counts_and_looks_back(name: str) -> None:
    native, texts = NATIVE[name]
    trigger, slots = wrap(native), [at(text) for text in texts]
    assert trigger.count(at("2026-01-01T12:00:00Z"), slots[-1]) == len(slots)
    assert trigger.nth_after(at("2026-01-01T12:00:00Z"), len(slots) - 1) == slots[-1]
    assert trigger.last_at_or_before(slots[-1]) == slots[-1]
    for earlier, later in pairwise(slots):
        assert trigger.last_at_or_before(later - 1) == earlier


@pytest.mark.parametrize("name", NATIVE)
def test_a_trigger_of_apscheduler_survives_json_and_pickle(name: str) -> None:
    trigger = wrap(NATIVE[name][0])
    stored = json.loads(json.dumps(trigger.spec()))
    assert build(stored) == trigger
    assert pickle.loads(pickle.dumps(trigger)) == trigger
    assert firings(build(stored), "2026-01-01T12:00:00Z", 3) == NATIVE[name][1]


def test_the_native_trigger_comes_back_without_its_jitter() -> None:
    native = NativeInterval(seconds=30, start_date=START, timezone=BERLIN, jitter=5)
    trigger = ForeignTrigger(native)
    assert isinstance(trigger.native, NativeInterval)
    assert trigger.native.jitter is None
    assert str(trigger.native) == str(native)
    assert trigger.first_at_or_after(at("2026-01-05T09:00:01Z")) == at("2026-01-05T09:00:30Z")


def test_a_zone_that_is_only_an_offset_is_kept_as_one() -> None:
    east = timezone(timedelta(hours=5, minutes=30))
    trigger = wrap(NativeCron(hour=0, timezone=east))
    assert trigger.spec()["timezone"] == "+05:30"
    assert firings(build(trigger.spec()), "2026-01-01T00:00:00Z", 1) == ["2026-01-01T18:30:00Z"]


class Mine(BaseTrigger):  # type: ignore[misc]
    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        return now


def test_a_class_that_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(TriggerInvalid, match=r"a trigger of class .*Mine cannot be kept as data"):
        wrap(Mine())


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"class": "solar"}, "class: expected one of interval, date"),
        ({"class": "cron", "minute": "61", "timezone": "UTC"}, "class: APScheduler refuses it"),
        ({"class": "cron", "minute": "1"}, "timezone: a cron trigger needs its zone"),
        ({"class": "cron", "minutes": "1", "timezone": "UTC"}, "did you mean 'minute'"),
        ({"class": "interval", "intervalMs": 0}, "intervalMs: expected"),
        ({"class": "calendarinterval", "startDate": "2026-01-01", "timezone": "UTC"}, "a step of at least one day"),
        ({"class": "and", "triggers": []}, "triggers: expected a list of 1 to 100"),
        ({"class": "or", "triggers": [{"kind": "once"}]}, r"triggers\[0\].at"),
    ],
)
def test_a_stored_form_that_makes_no_sense_is_refused(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(TriggerInvalid, match=message):
        build({"kind": "apscheduler"} | spec)


def test_members_that_never_agree_end_instead_of_hanging() -> None:
    never = {
        "kind": "apscheduler",
        "class": "and",
        "triggers": [
            {"kind": "interval", "hours": 2},
            {"kind": "interval", "hours": 2, "firstTick": "2026-01-01T01:00:00Z"},
        ],
    }
    assert build(never).first_at_or_after(at("2026-01-01T00:00:00Z")) is None


# --- APScheduler around ours ---------------------------------------------------------------------------------------


def _chain(trigger: BaseTrigger, now: datetime, count: int) -> list[str]:
    """What a scheduler sees that asks with the same ``now`` again and again, as when it collects missed runs."""
    out: list[str] = []
    previous = None
    for _ in range(count):
        previous = trigger.get_next_fire_time(previous, now)
        assert previous is not None and previous.utcoffset() == timedelta(0)
        out.append(previous.isoformat())
    return out


@pytest.mark.timeout(10)
def test_an_and_trigger_around_ours_moves_on_after_the_first_time() -> None:
    both = AndTrigger(
        [CronTrigger("0 9 1 * *", timezone="UTC"), CalendarTrigger(at="09:00", weekdays="mon", timezone="UTC")]
    )
    expected = ["2026-06-01T09:00:00+00:00", "2027-02-01T09:00:00+00:00", "2027-03-01T09:00:00+00:00"]
    assert _chain(both, datetime(2026, 1, 1, tzinfo=UTC), 3) == expected


@pytest.mark.timeout(10)
def test_an_and_trigger_around_ours_does_not_lose_missed_runs() -> None:
    both = AndTrigger([IntervalTrigger(hours=2), IntervalTrigger(hours=3)])
    now = datetime(2026, 1, 2, 12, 30, tzinfo=UTC)
    first = both.get_next_fire_time(datetime(2026, 1, 1, 0, tzinfo=UTC), now)
    assert first == datetime(2026, 1, 1, 6, tzinfo=UTC)


def test_an_or_trigger_around_ours_takes_the_earlier() -> None:
    either = OrTrigger([IntervalTrigger(hours=12), CalendarTrigger(at="09:00", timezone="UTC")])
    expected = ["2026-01-01T00:00:00+00:00", "2026-01-01T09:00:00+00:00", "2026-01-01T12:00:00+00:00"]
    assert _chain(either, datetime(2026, 1, 1, tzinfo=UTC), 3) == expected


def test_a_combining_trigger_around_ours_pickles() -> None:
    both = AndTrigger([CronTrigger("0 9 1 * *", timezone="UTC"), AnyOfTrigger([IntervalTrigger(hours=3)])])
    again = pickle.loads(pickle.dumps(both))
    assert again.triggers == both.triggers


def test_the_time_before_and_after_a_part_of_a_millisecond() -> None:
    every = IntervalTrigger(milliseconds=1)
    asked = to_datetime(1_000_000) + timedelta(microseconds=1)
    assert every.get_next_fire_time(None, asked) == to_datetime(1_000_001)
    assert every.get_next_fire_time(asked, asked) == to_datetime(1_000_001)


def test_our_triggers_run_in_a_plain_scheduler_by_their_aliases() -> None:
    scheduler = BackgroundScheduler(jobstores={"default": MemoryJobStore()}, timezone="Europe/Berlin")
    scheduler.start(paused=True)
    try:
        interval = scheduler.add_job(print, "utc-interval", minutes=5)
        weekdays = scheduler.add_job(print, "business-calendar", hour=9, weekdays="mon-fri")
        assert interval.trigger == IntervalTrigger(minutes=5)
        assert weekdays.trigger == CalendarTrigger(hour=9, weekdays="mon-fri", timezone="Europe/Berlin")
        assert weekdays.next_run_time.astimezone(BERLIN).hour == 9
    finally:
        scheduler.shutdown()
