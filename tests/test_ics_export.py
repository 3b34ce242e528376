"""The iCalendar file of a preview, read back by another program."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import icalendar

from calsched.app.ics import calendar_text
from calsched.app.preview import Preview, PreviewSlot

NOW = 1_780_315_200_000  # 2026-06-01T12:00:00Z
DUE = 1_783_083_600_000  # 2026-07-03T13:00:00Z


def preview(schedule_id: str = "close-books", description: str = "", *slots: PreviewSlot) -> Preview:
    due = slots or (PreviewSlot(DUE, "2026-07-03T09:00:00", "Friday"),)
    return Preview("default", schedule_id, description, "digest", "America/New_York", True, due, False)


def test_another_program_reads_what_was_written() -> None:
    description = "Backslash \\, semicolon; comma, and\na second line with ünïcödé 日本語 " * 3
    text = calendar_text([preview("close;books,x", description)], NOW)
    (event,) = icalendar.Calendar.from_ical(text).walk("VEVENT")
    assert str(event["SUMMARY"]) == "close;books,x"
    assert str(event["DESCRIPTION"]) == description
    assert event.decoded("DTSTART") == datetime(2026, 7, 3, 13, tzinfo=UTC)
    assert event.decoded("DTSTAMP") == datetime(2026, 6, 1, 12, tzinfo=UTC)
    assert event.decoded("DURATION") > timedelta(0)


def test_lines_end_with_crlf_and_none_is_longer_than_75_octets() -> None:
    text = calendar_text([preview("x" * 64, "日本語" * 60)], NOW)
    assert text.endswith("END:VCALENDAR\r\n")
    lines = text.split("\r\n")
    assert not any("\n" in line or "\r" in line for line in lines)
    assert max(len(line.encode()) for line in lines) <= 75


def test_every_slot_has_a_uid_of_its_own_that_stays_the_same() -> None:
    slots = tuple(PreviewSlot(DUE + number, None, "Friday") for number in range(3))
    texts = [calendar_text([preview("a", "", *slots), preview("b", "", *slots)], now) for now in (NOW, NOW + 5_000)]
    uids = [[str(event["UID"]) for event in icalendar.Calendar.from_ical(text).walk("VEVENT")] for text in texts]
    assert uids[0] == uids[1]
    assert len(set(uids[0])) == 6


def test_days_that_the_rule_leaves_out_are_no_events() -> None:
    skipped = PreviewSlot(DUE, None, "Friday", (), "2026-07-03 is closed")
    assert "VEVENT" not in calendar_text([preview("a", "", skipped)], NOW)
