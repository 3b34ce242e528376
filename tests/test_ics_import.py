"""Closed days from iCalendar files: what counts, and what hostile files get."""

from __future__ import annotations

import os
import sys
import time
import tracemalloc
from datetime import date
from pathlib import Path

import pytest

from calsched.calendars import check, resolve

NOW = 1_780_315_200_000  # 2026-06-01T12:00:00Z


def event(*lines: str) -> str:
    return "\r\n".join(["BEGIN:VEVENT", *lines, "END:VEVENT"])


def ics(*events: str) -> str:
    return "\r\n".join(["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//test//EN", *events, "END:VCALENDAR", ""])


def closed(folder: Path, content: str | bytes) -> dict[str, str]:
    (folder / "days.ics").write_bytes(content.encode() if isinstance(content, str) else content)
    resolved = resolve({"it": {"weekend": [], "ics": "days.ics"}}, now=NOW, base=folder)
    return dict(resolved["it"].material["dates"])


def refusal(folder: Path, content: str | bytes) -> str:
    (folder / "days.ics").write_bytes(content.encode() if isinstance(content, str) else content)
    return refusal_of(folder)


def refusal_of(folder: Path) -> str:
    begin = time.process_time()
    check({"it": {"ics": "days.ics"}}, now=NOW, base=folder)
    assert time.process_time() - begin < 1
    tracemalloc.start()
    _, problems = check({"it": {"ics": "days.ics"}}, now=NOW, base=folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60_000_000
    assert [problem.path for problem in problems] == ["calendars.it.ics"]
    return problems[0].message


FILES = [
    ("one day", [event("DTSTART;VALUE=DATE:20261225", "SUMMARY:Christmas\\, again")],
     {"2026-12-25": "Christmas, again"}),
    ("a date without VALUE=DATE", [event("DTSTART:20261225", "SUMMARY:X")], {"2026-12-25": "X"}),
    ("several days, DTEND is the day after", [event("DTSTART;VALUE=DATE:20261224", "DTEND;VALUE=DATE:20261227")],
     {"2026-12-24": "", "2026-12-25": "", "2026-12-26": ""}),
    ("several days by duration", [event("DTSTART;VALUE=DATE:20261224", "DURATION:P2D", "SUMMARY:Off")],
     {"2026-12-24": "Off", "2026-12-25": "Off"}),
    ("events with a time of day are no closed days", [event("DTSTART:20261225T090000Z", "SUMMARY:Meeting"),
     event("DTSTART;TZID=Europe/Berlin:20261226T090000")], {}),
    ("cancelled events are none", [event("DTSTART;VALUE=DATE:20261225", "STATUS:CANCELLED")], {}),
    ("a yearly rule reaches from last year five years ahead",
     [event("DTSTART;VALUE=DATE:20001225", "RRULE:FREQ=YEARLY", "SUMMARY:C", "EXDATE;VALUE=DATE:20271225")],
     {f"{year}-12-25": "C" for year in (2025, 2026, 2028, 2029, 2030, 2031)}),
    ("a rule of spans", [event("DTSTART;VALUE=DATE:20261101", "DTEND;VALUE=DATE:20261103",
     "RRULE:FREQ=MONTHLY;COUNT=2")], {"2026-11-01": "", "2026-11-02": "", "2026-12-01": "", "2026-12-02": ""}),
    ("an until of a date", [event("DTSTART;VALUE=DATE:20261101", "RRULE:FREQ=DAILY;UNTIL=20261102")],
     {"2026-11-01": "", "2026-11-02": ""}),
    ("further dates", [event("DTSTART;VALUE=DATE:20261101", "RDATE;VALUE=DATE:20261105,20261107",
     "EXDATE;VALUE=DATE:20261107")], {"2026-11-01": "", "2026-11-05": ""}),
    ("one of a series moved", [
        event("UID:a", "DTSTART;VALUE=DATE:20261101", "RRULE:FREQ=DAILY;COUNT=3", "SUMMARY:S"),
        event("UID:a", "RECURRENCE-ID;VALUE=DATE:20261102", "DTSTART;VALUE=DATE:20261109", "SUMMARY:Moved")],
     {"2026-11-01": "S", "2026-11-03": "S", "2026-11-09": "Moved"}),
    ("folded lines, alarms, zones and other parts", [
        "BEGIN:VTIMEZONE\r\nTZID:X\r\nBEGIN:STANDARD\r\nDTSTART:19700101T000000\r\nRRULE:FREQ=SECONDLY\r\n"
        "TZOFFSETFROM:+0100\r\nTZOFFSETTO:+0100\r\nEND:STANDARD\r\nEND:VTIMEZONE",
        "BEGIN:VTODO\r\nDTSTART;VALUE=DATE:20260101\r\nEND:VTODO",
        event("DTSTART;VALUE=DA\r\n TE:202612\r\n\t25", "SUMMARY:Chri\r\n stmas", "BEGIN:VALARM", "TRIGGER:-P1D",
              "DTSTART;VALUE=DATE:20260102", "END:VALARM", "X-UNKNOWN;A=B:c")], {"2026-12-25": "Christmas"}),
]  # fmt: skip


@pytest.mark.parametrize(("events", "expected"), [case[1:] for case in FILES], ids=[case[0] for case in FILES])
def test_all_day_events_become_closed_days(tmp_path: Path, events: list[str], expected: dict[str, str]) -> None:
    assert closed(tmp_path, ics(*events)) == expected


def test_a_file_with_a_mark_of_byte_order_and_bare_line_feeds_is_read(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf" + ics(event("DTSTART;VALUE=DATE:20261225", "SUMMARY:Weihnacht \u00fc")).encode()
    assert closed(tmp_path, content.replace(b"\r\n", b"\n")) == {"2026-12-25": "Weihnacht ü"}


def test_the_resolved_calendar_stands_without_the_file_and_knows_its_years(tmp_path: Path) -> None:
    (tmp_path / "days.ics").write_text(ics(event("DTSTART;VALUE=DATE:20271225", "SUMMARY:C")), newline="")
    resolved = resolve({"it": {"ics": "days.ics", "dates": {"2026-01-02": "Own"}}}, now=NOW, base=tmp_path)["it"]
    (tmp_path / "days.ics").unlink()
    found = resolved.calendar()
    assert "ics" not in resolved.material
    assert (found.closed_reason(date(2027, 12, 25)), found.closed_reason(date(2026, 1, 2))) == ("C", "Own")
    assert found.last_covered_day == date(2027, 12, 31)


def test_a_calendar_of_a_file_and_of_holidays_is_known_as_far_as_both_are(tmp_path: Path) -> None:
    (tmp_path / "days.ics").write_text(ics(event("DTSTART;VALUE=DATE:20301225")), newline="")
    definition = {"ics": "days.ics", "holidays": {"country": "US", "years": 2026}}
    found = resolve({"it": definition}, now=NOW, base=tmp_path)["it"].calendar()
    assert found.last_covered_day == date(2026, 12, 31)


START = "DTSTART;VALUE=DATE:20260101"
HOSTILE = [
    ("components inside each other", "BEGIN:VCALENDAR\r\n" * 50_000, "line 9: more than 8 components inside each"),
    ("too many events", ics(*[event(START)] * 1_001), "more than 1000 events"),
    ("too many lines", ics(*["X-A:1"] * 100_000), "more than 60000 lines"),
    ("a line without an end", ics("X-A:" + "a" * 500_000), "line 4: more than 8000 characters"),
    ("a folded line without an end", ics("X-A:", *[" " + "a" * 70] * 20_000), "line 4: more than 8000 characters"),
    ("a million instances", ics(event(START, "RRULE:FREQ=DAILY;COUNT=1000000")),
     "the event of 2026-01-01: COUNT: expected a whole number from 1 to 100000, got '1000000'"),
    ("every second", ics(event(START, "RRULE:FREQ=SECONDLY")),
     "the event of 2026-01-01: FREQ=SECONDLY does not repeat whole days"),
    ("every day, a hundred times over", ics(*[event(START, "RRULE:FREQ=DAILY")] * 900), "more than 20000 closed days"),
    ("spans of a year, a hundred times over", ics(*[event(START, "DURATION:P366D")] * 900),
     "more than 20000 closed days"),
    ("a span of centuries", ics(event(START, "DTEND;VALUE=DATE:99991231")), "lasts 2912442 days"),
    ("an end before the start", ics(event(START, "DTEND;VALUE=DATE:20250101")), "lasts -365 days"),
    ("a rule that is none", ics(event(START, "RRULE:FREQ=DAILY;BYDAY=XX")),
     "the event of 2026-01-01: BYDAY: expected a weekday like MO"),
    ("two starts", ics(event(START, START)), "DTSTART: there is no day"),
    ("a date that does not exist", ics(event("DTSTART;VALUE=DATE:20260230")), "DTSTART: there is no day '20260230'"),
    ("no iCalendar at all", "root:x:0:0:root:/root:/bin/sh\n", "line 1 is outside of a VCALENDAR"),
    ("a file that is cut off", ics(event(START))[:-15], "it ends inside VCALENDAR"),
    ("an END that closes nothing", "END:VCALENDAR\r\n", "line 1: END:VCALENDAR does not close what is open"),
    ("not text", b"BEGIN:VCALENDAR\r\n\xff\xfe\x00", "not UTF-8: byte 17"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
def test_a_hostile_file_is_refused_within_a_second_and_in_little_memory(
    tmp_path: Path, content: str | bytes, message: str
) -> None:
    assert message in refusal(tmp_path, content)


def test_a_file_of_a_gigabyte_is_refused_unread(tmp_path: Path) -> None:
    with open(tmp_path / "days.ics", "wb") as file:
        file.truncate(1_000_000_000)
    assert refusal_of(tmp_path) == "days.ics: 1000000000 bytes are too many; at most 2000000"


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "days.ics")
    assert refusal_of(tmp_path) == "days.ics: not a regular file"
    os.unlink(tmp_path / "days.ics")
    os.symlink("/dev/zero", tmp_path / "days.ics")
    assert refusal_of(tmp_path) == "days.ics: not a regular file"
    os.unlink(tmp_path / "days.ics")
    assert refusal_of(tmp_path) == "days.ics: cannot be read: No such file or directory"


def test_the_largest_file_allowed_is_read_within_two_seconds(tmp_path: Path) -> None:
    events = [event(f"UID:{number}", START, "SUMMARY:S", "RRULE:FREQ=YEARLY") for number in range(1000)]
    begin = time.process_time()
    assert len(closed(tmp_path, ics(*events))) == 6
    assert time.process_time() - begin < 2


def test_without_the_package_the_message_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "icalendar", None)
    (tmp_path / "days.ics").write_text(ics(event(START)))
    _, problems = check({"it": {"ics": "days.ics"}}, now=NOW, base=tmp_path)
    assert str(problems[0]).endswith("(install it: pip install 'apscheduler-calsched[ics]')")
