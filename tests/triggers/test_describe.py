"""A trigger in words: what ``show``, ``preview`` and ``why`` print of a rule."""
# ruff: noqa: E501 (a table has one line a case)

from __future__ import annotations

import re
from datetime import date
from typing import Any

import pytest
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger as TheirSteps
from apscheduler.triggers.combining import AndTrigger
from apscheduler.triggers.cron import CronTrigger as TheirCron
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger as TheirInterval

from calsched.triggers import build
from calsched.triggers.describe import describe, length_text
from calsched.triggers.foreign import wrap
from tests.triggers._vectors import lines, spec_of


class Office:
    name, version = "office", 1

    def is_open(self, day: date) -> bool:
        return day.weekday() < 5


WINNIPEG = {"timezone": "America/Winnipeg"}
NINE = {"kind": "calendar", "at": "09:00", **WINNIPEG}
CRON = {"kind": "cron", "timezone": "Europe/Berlin"}
RRULE = {"kind": "rrule", "timezone": "Europe/Berlin", "dtstart": "2026-01-01T09:00:00", "rrule": "FREQ=DAILY"}

SAID: list[tuple[dict[str, Any], str]] = [
    ({"kind": "interval", "minutes": 15}, "every 15m"),
    ({"kind": "interval", "minutes": 15, "firstTick": "2026-01-01T00:00:00Z"}, "every 15m from 2026-01-01T00:00Z"),
    ({"kind": "interval", "hours": 36, "end": "2026-01-01T00:00:30Z"}, "every 1d 12h up to 2026-01-01T00:00:30Z"),
    ({"kind": "interval", "intervalMs": 90_500, "firstTick": "2026-01-01T00:00:00Z", "start": "2026-02-01T00:00:00Z"},
     "every 1m 30s 500ms from 2026-02-01T00:00Z, counted from 2026-01-01T00:00Z"),
    ({"kind": "once", "at": "2026-10-12T09:00:00Z"}, "once at 2026-10-12T09:00Z"),
    ({"kind": "once", "at": "2026-10-12T09:00:00", **WINNIPEG, "fold": "second"}, "once at 2026-10-12T09:00 in America/Winnipeg, fold second"),
    (NINE, "at 09:00 every day in America/Winnipeg"),
    ({**NINE, "weekdays": "mon-fri"}, "at 09:00 on mon-fri in America/Winnipeg"),
    ({**NINE, "weekdays": [0, 2, 6]}, "at 09:00 on mon, wed, sun in America/Winnipeg"),
    ({**NINE, "at": ["09:00", "12:30", "17:00:05"]}, "at 09:00, 12:30 and 17:00:05 every day in America/Winnipeg"),
    ({**NINE, "daysOfMonth": [1, 22, -1]}, "at 09:00 on the 1st, 22nd and last day of the month in America/Winnipeg"),
    ({**NINE, "daysOfMonth": 31, "ifDayMissing": "last"}, "at 09:00 on the 31st day of the month (its last day where it is shorter) in America/Winnipeg"),
    ({**NINE, "daysOfMonth": 13, "weekdays": "fri"}, "at 09:00 on fri that is the 13th day of the month in America/Winnipeg"),
    ({**NINE, "nthWeekdays": ["2tue", "-1fri"]}, "at 09:00 on the 2nd tue and last fri of the month in America/Winnipeg"),
    ({**NINE, "daysOfMonth": 1, "months": ["jan", "jul"]}, "at 09:00 on the 1st day of jan, jul in America/Winnipeg"),
    ({**NINE, "months": [1, 2, 3, 12]}, "at 09:00 on every day of jan-mar, dec in America/Winnipeg"),
    ({**NINE, "weekdays": "mon-fri", "months": "jul"}, "at 09:00 on mon-fri of jul in America/Winnipeg"),
    ({**NINE, "weekdays": "mon", "everyWeeks": 2, "weekAnchor": "2026-01-05"}, "at 09:00 on mon of every 2nd week counted from 2026-01-05 in America/Winnipeg"),
    ({**NINE, "everyWeeks": 3, "weekAnchor": "2026-01-05"}, "at 09:00 on every day of every 3rd week counted from 2026-01-05 in America/Winnipeg"),
    ({**NINE, "businessDays": [1, -2], "calendar": "office"}, "at 09:00 on the 1st and 2nd last open day of the month in America/Winnipeg, days that calendar 'office' closes left out"),
    ({**NINE, "calendar": "office", "roll": "following"}, "at 09:00 every day in America/Winnipeg, days that calendar 'office' closes moved to the following open day"),
    ({**NINE, "roll": "preceding"}, "at 09:00 every day in America/Winnipeg, weekends moved to the preceding open day"),
    ({**NINE, "gap": "shift", "fold": "both"}, "at 09:00 every day in America/Winnipeg, gap shift, fold both"),
    ({**NINE, "exclude": ["2026-07-01", "2026-12-25"]}, "at 09:00 every day in America/Winnipeg, except 2026-07-01, 2026-12-25"),
    ({**NINE, "exclude": [f"2026-07-0{day}" for day in range(1, 7)]}, "at 09:00 every day in America/Winnipeg, except 2026-07-01, 2026-07-02, 2026-07-03, 2026-07-04 and 2 more"),
    ({**NINE, "start": "2026-01-01", "end": "2026-12-31T12:00:00Z"}, "at 09:00 every day in America/Winnipeg from 2026-01-01T00:00 up to 2026-12-31T12:00Z"),
    ({"kind": "calendar", "hour": None, **WINNIPEG}, "every hour in America/Winnipeg"),
    ({"kind": "calendar", "hour": None, "minute": 30, "weekdays": "sat", **WINNIPEG}, "every hour at minute 30 on sat in America/Winnipeg"),
    ({"kind": "calendar", "hour": list(range(9, 18)), "minute": [0, 15, 30, 45], **WINNIPEG}, "at minute 0, 15, 30, 45 of hour 9-17 every day in America/Winnipeg"),
    ({"kind": "calendar", "hour": None, "minute": None, **WINNIPEG}, "every minute in America/Winnipeg"),
    ({"kind": "calendar", "hour": None, "minute": None, "second": None, **WINNIPEG}, "every second in America/Winnipeg"),
    ({"kind": "calendar", "hour": [9], "minute": None, "second": [0, 30], **WINNIPEG}, "at second 0, 30 of every minute of hour 9 every day in America/Winnipeg"),
    ({**CRON, "expression": "0 9 * * 1-5"}, "cron 0 9 * * 1-5 in Europe/Berlin"),
    ({**CRON, "expression": "*/5 * * * *"}, "cron */5 * * * * in Europe/Berlin"),
    ({**CRON, "expression": "*/5 * * * *", "fold": "first"}, "cron */5 * * * * in Europe/Berlin, fold first"),
    ({**CRON, "expression": "0 9 * * *", "fold": "both", "gap": "boundary"}, "cron 0 9 * * * in Europe/Berlin, gap boundary, fold both"),
    ({**CRON, "expression": "30 0 9 * * *", "seconds": "first"}, "cron 30 0 9 * * * (seconds first) in Europe/Berlin"),
    ({**CRON, "expression": "H 9 * * *", "hashId": "a"}, "cron H 9 * * * in Europe/Berlin, H spread by 'a'"),
    (RRULE, "rrule FREQ=DAILY in Europe/Berlin from 2026-01-01T09:00"),
    ({**RRULE, "exdate": ["2026-01-02T09:00:00"], "rdate": ["2026-01-02T10:00:00"], "gap": "shift"},
     "rrule FREQ=DAILY in Europe/Berlin from 2026-01-01T09:00, also on 2026-01-02T10:00, except 2026-01-02T09:00, gap shift"),
    ({"kind": "anyOf", "triggers": [{"kind": "interval", "hours": 1}, {**CRON, "expression": "5 9 * * *"}]}, "any of (every 1h), (cron 5 9 * * * in Europe/Berlin)"),
    ({"kind": "startingAt", "first": "2026-01-01T00:00:07Z", "then": {"kind": "interval", "hours": 1}}, "first at 2026-01-01T00:00:07Z, then every 1h"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "words"), SAID, ids=[words for _, words in SAID])
def test_a_trigger_is_told_as_a_person_would_say_it(spec: dict[str, Any], words: str) -> None:
    assert describe(build(spec, calendars={"office": Office()}).spec()) == words


FOREIGN = [
    (TheirInterval(minutes=5, start_date="2026-01-01T00:00:00+00:00", timezone="UTC"), "every 5m from 2026-01-01T00:00Z"),
    (DateTrigger("2026-01-01T00:00:00+00:00", timezone="UTC"), "once at 2026-01-01T00:00Z"),
    (TheirCron(hour=9, day_of_week="mon-fri", timezone="Europe/Berlin"), "APScheduler's cron day_of_week='mon-fri' hour='9' in Europe/Berlin"),
    (TheirSteps(months=2, hour=9, start_date="2026-01-01", timezone="Europe/Berlin"), "every 2 months at 09:00 in Europe/Berlin from 2026-01-01"),
    (AndTrigger([TheirCron(hour=9, timezone="UTC"), TheirCron(day=1, timezone="UTC")]), "where all agree: (APScheduler's cron hour='9' in UTC), (APScheduler's cron day='1' in UTC)"),
]  # fmt: skip


@pytest.mark.parametrize(("trigger", "words"), FOREIGN, ids=[words for _, words in FOREIGN])
def test_a_trigger_of_an_apscheduler_app_is_told_too(trigger: Any, words: str) -> None:
    assert describe(wrap(trigger).spec()) == words


RULES = [case for case in lines("triggers.jsonl", "calendar", "cron", "interval", "rrule") if case["expect"]]


@pytest.mark.parametrize("case", RULES, ids=lambda case: case["id"])
def test_no_rule_of_the_vectors_is_told_as_raw_material(case: dict[str, Any]) -> None:
    words = describe(build(spec_of(case)).spec())
    assert not re.search(r"[\[\]{}]|None|intervalMs|\w+Of\w+|: ", words), words


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"kind": "lunar", "phase": "full"}, "lunar: phase full"),
        ({"kind": "interval", "intervalMs": "soon"}, "interval: intervalMs soon"),
        ({"kind": ["x"]}, "['x']"),
        ({"kind": "calendar"}, "calendar"),
        ({}, ""),
    ],
)
def test_a_form_that_this_release_does_not_know_is_shown_as_it_stands(spec: dict[str, Any], words: str) -> None:
    assert describe(spec) == words


def test_a_length_is_written_as_declarations_write_it() -> None:
    assert [length_text(ms) for ms in (1, 90_000, 86_400_000, 604_800_000, 691_200_000)] == ["1ms", "1m 30s", "1d", "1w", "8d"]  # fmt: skip
