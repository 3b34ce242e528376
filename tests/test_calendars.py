"""Business calendars: what is closed and why, what a definition may say, and what happens when its years run out."""

from __future__ import annotations

import json
import pickle
import sys
from datetime import UTC, date, datetime
from typing import Any

import pytest

from calsched.calendars import BusinessCalendar, check, resolve, runs_out
from calsched.errors import InvalidInput
from calsched.policies.day_rule import land
from calsched.triggers import build

NOW = 1_780_315_200_000  # 2026-06-01T12:00:00Z


def calendar(name: str = "it", **definitions: Any) -> BusinessCalendar:
    return resolve(definitions, now=NOW)[name].calendar()


def closed_in(found: BusinessCalendar, year: int, month: int) -> list[int]:
    days = (
        date.fromordinal(number)
        for number in range(date(year, month, 1).toordinal(), date(year, month, 28).toordinal() + 4)
    )
    return [day.day for day in days if day.month == month and not found.is_open(day)]


# August 2026 begins on a Saturday; its weekends are 1 2, 8 9, 15 16, 22 23, 29 30.
WEEKENDS = [1, 2, 8, 9, 15, 16, 22, 23, 29, 30]

CLOSED = [
    ("an empty definition closes weekends", {"it": {}}, WEEKENDS),
    ("another weekend", {"it": {"weekend": ["fri", "Saturday"]}}, [1, 7, 8, 14, 15, 21, 22, 28, 29]),
    ("no weekend", {"it": {"weekend": [], "dates": ["2026-08-03"]}}, [3]),
    ("a weekend by numbers, Monday 0", {"it": {"weekend": [6]}}, [2, 9, 16, 23, 30]),
    ("dates with and without names, and spans", {"it": {"weekend": [], "dates": [
        "2026-08-03", {"date": "2026-08-05", "name": "Fair"}, "2026-08-10/2026-08-12"]}}, [3, 5, 10, 11, 12]),
    ("yearly dates", {"it": {"weekend": [], "yearly": {"08-04": "Founders", "02-29": ""}}}, [4]),
    ("open days win", {"it": {"dates": ["2026-08-03"], "open": ["2026-08-03", "2026-08-08"]}},
     [day for day in WEEKENDS if day != 8]),
    ("a union is closed where any is", {"it": {"union": ["a", "b"]}, "a": {"weekend": ["sun"], "dates": ["2026-08-04"]},
     "b": {"weekend": ["fri"]}}, [2, 4, 7, 9, 14, 16, 21, 23, 28, 30]),
    ("an open day of one member does not open a union", {"it": {"union": ["a", "b"]}, "a": {"open": ["2026-08-01"]},
     "b": {}}, WEEKENDS),
    ("an open day of the union does", {"it": {"union": ["a", "b"], "open": ["2026-08-01"]}, "a": {}, "b": {}},
     WEEKENDS[1:]),
    ("a difference is closed in the first and in no other", {"it": {"difference": ["a", "b", "c"]},
     "a": {"dates": ["2026-08-04", "2026-08-05"]}, "b": {"weekend": ["sun"]},
     "c": {"weekend": [], "dates": ["2026-08-05"]}}, [1, 4, 8, 15, 22, 29]),
    ("further dates are added to a union", {"it": {"union": ["a", "b"], "dates": ["2026-08-06"]}, "a": {"weekend": []},
     "b": {"weekend": []}}, [6]),
    ("unions of unions", {"it": {"union": ["u", "c"]}, "u": {"union": ["a", "b"]}, "a": {"weekend": ["mon"]},
     "b": {"weekend": ["tue"]}, "c": {"weekend": ["wed"]}}, [3, 4, 5, 10, 11, 12, 17, 18, 19, 24, 25, 26, 31]),
]  # fmt: skip


@pytest.mark.parametrize(("definitions", "expected"), [case[1:] for case in CLOSED], ids=[case[0] for case in CLOSED])
def test_the_closed_days_of_august_2026(definitions: dict[str, Any], expected: list[int]) -> None:
    found = calendar(**definitions)
    assert closed_in(found, 2026, 8) == expected
    assert [day for day in range(1, 32) if not found.is_open_day(date(2026, 8, day).toordinal())] == expected


@pytest.mark.parametrize(
    ("day", "reason"),
    [
        ("2026-08-03", None),
        ("2026-08-04", "Founders"),
        ("2026-08-05", "closed on this date"),
        ("2026-08-08", "Saturday"),
        ("2026-08-09", "closed every year on 08-09"),
        ("2026-08-15", "Assumption"),
    ],
)
def test_a_closed_day_has_a_reason(day: str, reason: str | None) -> None:
    found = calendar(
        it={"union": ["office", "feasts"]},
        office={"dates": {"2026-08-04": "Founders", "2026-08-05": ""}, "yearly": ["08-09"]},
        feasts={"weekend": [], "yearly": {"08-15": "Assumption"}},
    )
    assert found.closed_reason(date.fromisoformat(day)) == reason


WRONG = [
    ({"weekend": ["mo", 7]}, ["calendars.it.weekend[0]: expected 0 to 6 or a day name, got 'mo'",
                              "calendars.it.weekend[1]: expected 0 to 6 or a day name, got 7 (Sunday is 6)"]),
    ({"datse": []}, ["calendars.it.datse: unknown key (did you mean 'dates'?)"]),
    ({"dates": "2026-01-01"}, ["calendars.it.dates: expected a list, got '2026-01-01'"]),
    ({"dates": ["2026-02-30", 5, {"date": "2026-1-1", "nmae": "x"}]},
     ["calendars.it.dates[0]: there is no 2026-02-30: day is out of range for month",
      "calendars.it.dates[1]: expected a date like '2026-12-25' or a span '2026-12-24/2026-12-31', got 5",
      "calendars.it.dates[2].nmae: unknown key (did you mean 'name'?)",
      "calendars.it.dates[2]: expected a date like '2026-12-25' or a span '2026-12-24/2026-12-31', got '2026-1-1'"]),
    ({"dates": ["2026-12-31/2026-01-01"]}, ["calendars.it.dates[0]: expected a span of 1 to 366 days, got"]),
    ({"dates": ["0001-01-01/9999-12-31"]}, ["calendars.it.dates[0]: expected a span of 1 to 366 days, got"]),
    ({"dates": {"2026-01-01": 5}}, ["calendars.it.dates.2026-01-01: expected a name, got 5"]),
    ({"yearly": ["13-01", "1-1"]}, ["calendars.it.yearly[0]: there is no 13-01 in any year",
                                    "calendars.it.yearly[1]: expected a month and day like '12-25', got '1-1'"]),
    ({"open": ["x"]}, ["calendars.it.open[0]: expected a date"]),
    ({"through": "2030"}, ["calendars.it.through: expected a year from 1900 to 2200, got '2030'"]),
    ({"union": ["other"]}, ["calendars.it.union: expected at least two calendars, got ['other']"]),
    ({"union": ["other", "other"]}, ["calendars.it.union[1]: 'other' is named twice"]),
    ({"union": ["other", "nobody"]}, ["calendars.it.union[1]: there is no calendar 'nobody' (there are it, other)"]),
    ({"union": ["other", "it"]}, ["calendars.it.union[1]: calendars that contain themselves: it → it"]),
    ({"union": ["a", "b"], "difference": ["a", "b"]}, ["calendars.it: either union or difference"]),
    ({"ics": ""}, ["calendars.it.ics: expected the name of an .ics file, got ''"]),
    ({"ics": "x.ics"}, ["calendars.it.ics: an .ics file can only be named in a declaration file"]),
    ({"weekend": [0, 1, 2, 3, 4, 5, 6]}, ["calendars.it: closed on every day from 2026-06-01 to 2027-06-02"]),
    ({"holidays": {"country": "ZZ", "years": 2026}}, ["calendars.it.holidays.country: unknown country 'ZZ'"]),
    ({"holidays": {"country": "US", "subdivision": "Texas"}},
     ["calendars.it.holidays.subdivision: unknown subdivision of US 'Texas'"]),
    ({"holidays": {"country": "US", "categories": ["bank"], "language": "xx"}},
     ["calendars.it.holidays.categories[0]: unknown category of US 'bank'",
      "calendars.it.holidays.language: unknown language for US 'xx'"]),
    ({"holidays": {"subdivision": "CA", "land": 1}}, ["calendars.it.holidays.land: unknown key",
                                                      "calendars.it.holidays.country: expected a code, got None"]),
    ({"holidays": {"country": "US", "years": [2026, 2028]}},
     ["calendars.it.holidays.years: expected years without a hole between them, got [2026, 2028]"]),
    ({"holidays": {"country": "US", "from": 2026}}, ["calendars.it.holidays.to: required: from and to belong"]),
    ({"holidays": {"country": "US", "from": 1900, "to": 2200}}, ["calendars.it.holidays: expected 1 to 50 years"]),
]  # fmt: skip


@pytest.mark.parametrize(("definition", "messages"), WRONG)
def test_a_wrong_definition_is_refused_with_every_problem_in_its_place(
    definition: dict[str, Any], messages: list[str]
) -> None:
    _, problems = check({"it": definition, "other": {}}, now=NOW)
    found = [str(problem) for problem in problems]
    assert len(found) == len(messages), found
    for message in messages:
        assert any(text.startswith(message) for text in found), (message, found)


def test_the_problems_of_several_calendars_come_together_and_the_good_ones_are_resolved() -> None:
    definitions = {"a": {"weekend": ["x"]}, "b": {"dates": [1]}, "c d": {}, "e": {}, "f": {"union": ["a", "e"]}}
    resolved, problems = check(definitions, now=NOW)
    assert sorted(resolved) == ["e"]
    assert [problem.path for problem in problems] == ["calendars.a.weekend[0]", "calendars.b.dates[0]", "calendars.c d"]
    with pytest.raises(InvalidInput) as refused:
        resolve(definitions, now=NOW)
    assert refused.value.problems == tuple(problems)


def test_a_ring_of_calendars_is_told_once() -> None:
    definitions = {"a": {"union": ["b", "x"]}, "b": {"union": ["c", "x"]}, "c": {"difference": ["a", "x"]}, "x": {}}
    _, problems = check(definitions, now=NOW)
    assert [str(problem) for problem in problems] == [
        "calendars.c.difference[0]: calendars that contain themselves: a → b → c → a"
    ]


def test_calendars_that_double_with_each_name_are_refused_before_they_fill_the_memory() -> None:
    definitions: dict[str, Any] = {"c0": {}, "d0": {}}
    for number in range(1, 40):
        definitions[f"c{number}"] = {"union": [f"c{number - 1}", f"d{number - 1}"]}
        definitions[f"d{number}"] = {"union": [f"d{number - 1}", f"c{number - 1}"]}
    _, problems = check(definitions, now=NOW)
    assert "made of more than 200 calendars" in str(problems[0])


def test_a_stored_calendar_may_be_named_and_a_declared_one_comes_first() -> None:
    known = {"stored": {"weekend": [0]}, "other": {"weekend": [1]}}
    resolved = resolve({"it": {"union": ["stored", "other"]}, "other": {"weekend": ["wed"]}}, now=NOW, known=known)
    found = resolved["it"].calendar()
    assert [found.is_open(date(2026, 6, day)) for day in (1, 2, 3)] == [False, True, False]


def test_the_resolved_form_is_plain_json_and_equal_definitions_have_one_digest() -> None:
    one = resolve({"it": {"dates": ["2026-01-02", "2026-01-01"], "weekend": ["sun", "sat"]}}, now=NOW)["it"]
    other = resolve({"it": {"weekend": [5, 6], "dates": {"2026-01-01": "", "2026-01-02": ""}}}, now=NOW)["it"]
    assert json.loads(json.dumps(one.material)) == one.material == other.material
    assert one.digest == other.digest
    assert one.digest != resolve({"it": {"dates": ["2026-01-02"]}}, now=NOW)["it"].digest
    found = one.calendar(version=4)
    assert pickle.loads(pickle.dumps(found)) == found == BusinessCalendar("it", 4, json.loads(json.dumps(one.material)))
    assert found != one.calendar(version=5)
    assert len({found, one.calendar(4)}) == 1


def test_public_holidays_become_dates_with_names_and_years() -> None:
    resolved = resolve({"it": {"holidays": {"country": "US", "from": 2026, "to": 2027}}}, now=NOW)["it"]
    found = resolved.calendar()
    assert found.closed_reason(date(2026, 7, 4)) == "Independence Day"  # a Saturday
    assert found.closed_reason(date(2026, 7, 3)) == "Independence Day (observed)"
    assert found.closed_reason(date(2026, 11, 26)) == "Thanksgiving Day"
    assert found.is_open(date(2026, 11, 27))
    assert (found.last_covered_day, found.covers(2027), found.covers(2028)) == (date(2027, 12, 31), True, False)
    assert "holidays" not in resolved.material


def test_holidays_of_a_subdivision_in_a_language() -> None:
    bavaria = {"country": "DE", "subdivision": "BY", "years": 2026, "language": "en_US"}
    found = calendar(it={"holidays": bavaria}, plain={"holidays": {"country": "DE", "years": [2026]}})
    assert found.closed_reason(date(2026, 1, 6)) == "Epiphany"
    assert calendar("plain", plain={"holidays": {"country": "DE", "years": [2026]}}).is_open(date(2026, 1, 6))


def test_without_years_holidays_reach_from_last_year_five_years_ahead() -> None:
    found = calendar(it={"holidays": "GB"})
    assert found.closed_reason(date(2025, 12, 25)) == "Christmas Day"
    assert found.last_covered_day == date(2031, 12, 31)


def test_without_the_package_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holidays", None)
    _, problems = check({"it": {"holidays": {"country": "US"}}}, now=NOW)
    assert [str(problem) for problem in problems] == [
        "calendars.it.holidays: public holidays need the 'holidays' package, which is not installed"
        " (install it: pip install 'apscheduler-calsched[holidays]')"
    ]


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("definition", "now", "expected"),
    [
        ({"yearly": ["12-25"]}, "2999-01-01", None),
        ({"dates": ["2026-12-24"]}, "2026-10-01", None),  # 91 days before the end of the year
        ({"dates": ["2026-12-24"]}, "2026-10-02", "runs out in 90 days: it knows no closed days after 2026-12-31"),
        ({"dates": ["2026-12-24"]}, "2026-12-30", "runs out in 1 day: "),
        ({"dates": ["2026-12-24"]}, "2027-01-01", "has run out: it knows no closed days after 2026-12-31"),
        ({"dates": ["2026-12-24"], "through": 2027}, "2026-12-30", None),
        ({"holidays": {"country": "US", "years": 2026}, "dates": ["2030-01-02"]}, "2026-12-01", "runs out in 30 days"),
    ],
)
def test_a_calendar_warns_when_its_years_run_out(definition: dict[str, Any], now: str, expected: str | None) -> None:
    warning = runs_out(calendar(it=definition), at(now))
    assert (warning is None) if expected is None else (warning is not None and expected in warning)


def test_a_union_is_known_as_far_as_all_of_its_members_are() -> None:
    found = calendar(it={"union": ["a", "b"]}, a={"dates": ["2028-01-03"]}, b={"dates": ["2027-01-04"]})
    assert found.last_covered_day == date(2027, 12, 31)


def test_a_calendar_answers_the_day_rule() -> None:
    found = calendar(it={"holidays": {"country": "US", "years": 2026}})
    landed = land(date(2026, 7, 3).toordinal(), "following", found.is_open_day)
    assert landed == date(2026, 7, 6).toordinal()


def test_a_calendar_trigger_skips_and_rolls_by_it() -> None:
    found = calendar(it={"holidays": {"country": "US", "years": 2026}})
    form = {"kind": "calendar", "timezone": "America/New_York", "at": "09:00", "months": 7, "calendar": "it"}
    skipping = build({**form, "daysOfMonth": [3, 6]}, calendars={"it": found})
    rolling = build({**form, "daysOfMonth": 3, "roll": "following"}, calendars={"it": found})
    assert skipping.first_at_or_after(at("2026-07-01")) == at("2026-07-06T13:00:00")
    assert rolling.first_at_or_after(at("2026-07-01")) == at("2026-07-06T13:00:00")
    assert rolling.marks(at("2026-07-06T13:00:00")) == ("rolled from 2026-07-03",)
