"""What an RRULE may say: each wrong part is named, all of them at once."""

from __future__ import annotations

from datetime import datetime

import pytest

from calsched.recurrence import parse

WRONG = [
    ("", "expected a rule like 'FREQ=WEEKLY;BYDAY=MO', got ''"),
    (5, "expected a rule like 'FREQ=WEEKLY;BYDAY=MO', got 5"),
    ("X" * 4_001, "4001 characters are too many"),
    ("COUNT=3", "FREQ: required; one of YEARLY, MONTHLY"),
    ("FREQ=FORTNIGHTLY", "FREQ: expected one of YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY, MINUTELY, SECONDLY, got"),
    ("FREQ=DAILY;FREQ=WEEKLY", "FREQ: given twice"),
    ("FREQ=DAILY;", "expected NAME=VALUE between semicolons, got ''"),
    ("FREQ=DAILY; COUNT=3", "unknown part ' COUNT'; did you mean COUNT?"),
    ("FREQ=DAILY;BYEASTER=0", "unknown part 'BYEASTER'"),
    ("FREQ=DAILY;EXRULE=FREQ", "EXRULE: was removed from iCalendar"),
    ("FREQ=DAILY;EXDATE=20260101", "EXDATE: not a part of the rule; give it beside it, as 'exdate'"),
    ("FREQ=DAILY;INTERVAL=0", "INTERVAL: expected a whole number from 1 to"),
    ("FREQ=DAILY;INTERVAL=-1", "INTERVAL: expected a whole number"),
    ("FREQ=DAILY;INTERVAL=", "INTERVAL: expected a whole number"),
    ("FREQ=DAILY;COUNT=0", "COUNT: expected a whole number from 1 to 100000, got '0'"),
    ("FREQ=DAILY;COUNT=1000001", "COUNT: expected a whole number from 1 to 100000"),
    ("FREQ=DAILY;COUNT=3;UNTIL=20270101T000000Z", "COUNT, UNTIL: only one of them may be given"),
    ("FREQ=DAILY;UNTIL=20270230T000000Z", "UNTIL: expected a time like 20261231T235959Z"),
    ("FREQ=DAILY;UNTIL=tomorrow", "UNTIL: expected a time like 20261231T235959Z"),
    ("FREQ=MONTHLY;BYMONTHDAY=32", "BYMONTHDAY: expected 1 to 31 or -31 to -1, got '32'"),
    ("FREQ=MONTHLY;BYMONTHDAY=0", "BYMONTHDAY: expected 1 to 31 or -31 to -1, got '0'"),
    ("FREQ=MONTHLY;BYMONTHDAY=1,,2", "BYMONTHDAY: expected 1 to 31 or -31 to -1, got ''"),
    ("FREQ=YEARLY;BYMONTH=13", "BYMONTH: expected 1 to 12, got '13'"),
    ("FREQ=YEARLY;BYMONTH=-1", "BYMONTH: expected 1 to 12, got '-1'"),
    ("FREQ=YEARLY;BYYEARDAY=367", "BYYEARDAY: expected 1 to 366 or -366 to -1, got '367'"),
    ("FREQ=YEARLY;BYWEEKNO=54", "BYWEEKNO: expected 1 to 53 or -53 to -1, got '54'"),
    ("FREQ=DAILY;BYHOUR=24", "BYHOUR: expected 0 to 23, got '24'"),
    ("FREQ=DAILY;BYHOUR=٣", "BYHOUR: expected 0 to 23, got"),
    ("FREQ=DAILY;BYMINUTE=60", "BYMINUTE: expected 0 to 59, got '60'"),
    ("FREQ=DAILY;BYSECOND=60", "BYSECOND: expected 0 to 59, got '60'; the 60th second is a leap second"),
    ("FREQ=DAILY;BYHOUR=9;BYSETPOS=0", "BYSETPOS: expected 1 to 366 or -366 to -1, got '0'"),
    ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS: needs another BY part"),
    ("FREQ=MONTHLY;BYDAY=XX", "BYDAY: expected a weekday like MO, 1MO or -1FR (MO, TU, WE, TH, FR, SA, SU), got 'XX'"),
    ("FREQ=MONTHLY;BYDAY=0MO", "BYDAY: expected a weekday"),
    ("FREQ=MONTHLY;BYDAY=6MO", "BYDAY: a month has no weekday more than five times"),
    ("FREQ=WEEKLY;BYDAY=1MO", "BYDAY: a number before the weekday needs FREQ=MONTHLY"),
    ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=1MO", "BYDAY: a number before the weekday needs FREQ=MONTHLY"),
    ("FREQ=DAILY;WKST=0", "WKST: expected one of MO, TU"),
    ("FREQ=WEEKLY;BYMONTHDAY=3", "BYMONTHDAY: not with FREQ=WEEKLY"),
    ("FREQ=MONTHLY;BYYEARDAY=3", "BYYEARDAY: not with FREQ=MONTHLY"),
    ("FREQ=MONTHLY;BYWEEKNO=3", "BYWEEKNO: only with FREQ=YEARLY, not MONTHLY"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_wrong_rule_is_refused_with_the_part_named(text: object, message: str) -> None:
    rule, problems = parse(text)
    assert rule is None
    assert [problem.path for problem in problems] == ["rrule"]
    assert message in problems[0].message


def test_all_wrong_parts_are_told_at_once() -> None:
    _, problems = parse("FREQ=SOMETIMES;INTERVAL=0;BYDAY=XX;BYMONTH=0")
    assert [problem.message.partition(":")[0] for problem in problems] == ["FREQ", "INTERVAL", "BYDAY", "BYMONTH"]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("RRULE:freq=daily;interval=1", "FREQ=DAILY"),
        ("BYDAY=FR,MO,-1SU,MO;FREQ=MONTHLY", "FREQ=MONTHLY;BYDAY=MO,FR,-1SU"),
        ("FREQ=WEEKLY;WKST=MO;BYDAY=MO", "FREQ=WEEKLY;BYDAY=MO"),
        ("FREQ=MONTHLY;BYMONTHDAY=+5,-1,05", "FREQ=MONTHLY;BYMONTHDAY=-1,5"),
        ("UNTIL=20261231T120000Z;FREQ=DAILY;WKST=SU", "FREQ=DAILY;UNTIL=20261231T120000Z;WKST=SU"),
        ("FREQ=DAILY;UNTIL=20261231", "FREQ=DAILY;UNTIL=20261231T235959"),
    ],
)
def test_equal_rules_have_one_text_and_it_reads_back(text: str, canonical: str) -> None:
    rule, problems = parse(text)
    assert rule is not None and not problems
    assert rule.text == canonical
    assert parse(canonical)[0] == rule


def test_until_tells_utc_from_local_time() -> None:
    utc, _ = parse("FREQ=DAILY;UNTIL=20261231T120000Z")
    local, _ = parse("FREQ=DAILY;UNTIL=20261231T120000")
    assert utc and local
    assert (utc.until, utc.until_utc) == (datetime(2026, 12, 31, 12), True)  # noqa: DTZ001
    assert (local.until, local.until_utc) == (datetime(2026, 12, 31, 12), False)  # noqa: DTZ001
