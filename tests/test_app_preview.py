from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from calsched.app.ics import calendar_text
from calsched.app.preview import Preview, PreviewSlot, count_of_month, month_bounds, of_month, preview_slots
from calsched.clock import to_millis, to_rfc3339
from calsched.errors import InvalidInput
from calsched.triggers import build

NEW_YORK: dict[str, Any] = {"kind": "calendar", "at": ["02:30"], "timezone": "America/New_York"}


def ms(text: str) -> int:
    return to_millis(datetime.fromisoformat(text))


def slots(start: str, count: int, **spec: Any) -> list[tuple[str, str | None, str]]:
    found, _ = preview_slots(build({**NEW_YORK, **spec}), ms(start), None, count)
    return [(to_rfc3339(one.due), one.local, one.left_out or "; ".join(one.marks)) for one in found]


def test_an_excluded_day_and_a_gap_are_shown_as_left_out() -> None:
    assert slots("2026-03-07T12:00:00Z", 2, exclude=["2026-03-10"]) == [
        (
            "2026-03-08T07:30:00Z",
            "2026-03-08T02:30:00",
            "02:30 does not exist on 2026-03-08 in America/New_York; gap: skip",
        ),
        ("2026-03-09T06:30:00Z", "2026-03-09T02:30:00", ""),
        ("2026-03-10T06:30:00Z", "2026-03-10T02:30:00", "2026-03-10 is excluded"),
        ("2026-03-11T06:30:00Z", "2026-03-11T02:30:00", ""),
    ]


def test_a_shifted_wall_time_is_marked() -> None:
    assert slots("2026-03-08T00:00:00Z", 1, gap="shift") == [
        ("2026-03-08T07:30:00Z", "2026-03-08T02:30:00", "shifted from 02:30: gap")
    ]


def test_both_passes_of_a_repeated_hour_are_marked() -> None:
    found = slots("2026-11-01T00:00:00Z", 2, at=["01:30"], fold="both")
    assert [remark for _, _, remark in found] == ["fold: first of two 01:30", "fold: second of two 01:30"]


def test_a_count_says_whether_there_are_more() -> None:
    trigger = build({"kind": "interval", "seconds": 10})
    start = ms("2026-01-01T00:00:00Z")
    assert preview_slots(trigger, start, None, 3)[1] is True
    assert preview_slots(trigger, start, start + 20_000, 3)[1] is False
    assert len(preview_slots(trigger, start, start + 20_000, None)[0]) == 3


def test_a_span_with_too_many_slots_is_refused() -> None:
    trigger = build({"kind": "interval", "seconds": 1})
    with pytest.raises(InvalidInput, match="more than 100,000 slots"):
        preview_slots(trigger, 0, 10**9, None)


def test_a_month_is_that_of_the_wall_clock() -> None:
    first, last = month_bounds("2026-11")
    assert (to_rfc3339(first), to_rfc3339(last)) == ("2026-11-01T00:00:00Z", "2026-11-30T23:59:59.999Z")
    trigger = build({**NEW_YORK, "at": ["22:00"]})
    found = of_month(preview_slots(trigger, first - 10**8, last + 10**8, None)[0], "2026-11")
    assert (found[0].local, to_rfc3339(found[-1].due)) == ("2026-11-01T22:00:00", "2026-12-01T03:00:00Z")


@pytest.mark.parametrize("month", ["2026-13", "2026", "november", "2026-11-01", ""])
def test_what_is_no_month_is_refused(month: str) -> None:
    with pytest.raises(InvalidInput, match="--month: expected a month such as 2026-11"):
        month_bounds(month)


def preview(**changes: Any) -> Preview:
    due = ms("2026-03-09T14:00:00Z")
    plain: dict[str, Any] = {
        "namespace": "default",
        "id": "report",
        "description": "",
        "digest": "sha256:0",
        "zone": None,
        "enabled": True,
        "slots": (PreviewSlot(due, None, "Monday"), PreviewSlot(due + 1, None, "Monday", left_out="excluded")),
        "more": False,
    }
    return Preview(**{**plain, **changes})


def test_a_calendar_file_has_an_event_for_each_slot_that_is_kept() -> None:
    text = calendar_text([preview()], now=0)
    assert text.split("\r\n") == [
        "BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//calsched//preview//EN", "CALSCALE:GREGORIAN",
        "BEGIN:VEVENT", "UID:1773064800000.report.default@calsched", "DTSTAMP:19700101T000000Z",
        "DTSTART:20260309T140000Z", "DURATION:PT15M", "SUMMARY:report", "TRANSP:TRANSPARENT", "END:VEVENT",
        "END:VCALENDAR", "",
    ]  # fmt: skip


def test_a_calendar_file_is_escaped_and_folded_so_that_programs_read_it_back() -> None:
    icalendar = pytest.importorskip("icalendar")
    description = "commas, semicolons; back\\slash\nnew line ünï" + "日" * 80
    text = calendar_text([preview(id="a,b;c", description=description)], now=0)
    assert all(len(line.encode()) <= 75 for line in text.split("\r\n"))
    event = next(iter(icalendar.Calendar.from_ical(text).walk("VEVENT")))
    assert (str(event["SUMMARY"]), str(event["DESCRIPTION"])) == ("a,b;c", description)
    assert event["DTSTART"].dt == datetime.fromisoformat("2026-03-09T14:00:00Z")


@pytest.mark.parametrize(
    ("spec", "total"),
    [
        ({"kind": "interval", "milliseconds": 1}, 30 * 86_400_000),
        ({"kind": "calendar", "hour": "*", "minute": "*", "second": "*", "timezone": "America/New_York"}, 30 * 86_400),
        ({"kind": "calendar", "at": ["09:00"], "timezone": "Asia/Tokyo"}, 30),
    ],
)
def test_the_slots_of_a_wall_clock_month_are_counted_exactly(spec: dict[str, Any], total: int) -> None:
    assert count_of_month(build(spec), "2026-09", 26 * 3_600_000) == total
