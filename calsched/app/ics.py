"""Coming slots as an iCalendar file (RFC 5545) that calendar programs open. Writing only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from calsched.app.preview import Preview
from calsched.clock import to_datetime

_MINUTES = 15  # how long an event looks; a schedule does not say how long its task takes


def calendar_text(previews: Iterable[Preview], now: int) -> str:
    """One event a slot; lines end with CRLF and are folded at 75 octets. ``now`` is the stamp of the file."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//calsched//preview//EN", "CALSCALE:GREGORIAN"]
    for preview in previews:
        for slot in preview.slots:
            if slot.left_out is None:
                lines += _event(preview, slot.due, now)
    lines.append("END:VCALENDAR")
    return "".join(f"{part}\r\n" for line in lines for part in _folded(line))


def _event(preview: Preview, due: int, now: int) -> list[str]:
    return [
        "BEGIN:VEVENT",
        f"UID:{_escaped(f'{due}.{preview.id}.{preview.namespace}')}@calsched",
        f"DTSTAMP:{_stamp(now)}",
        f"DTSTART:{_stamp(due)}",
        f"DURATION:PT{_MINUTES}M",
        f"SUMMARY:{_escaped(preview.id)}",
        *([f"DESCRIPTION:{_escaped(preview.description)}"] if preview.description else []),
        "TRANSP:TRANSPARENT",
        "END:VEVENT",
    ]


def _stamp(instant: int) -> str:
    moment = to_datetime(instant)
    return f"{moment.year:04d}{moment:%m%dT%H%M%SZ}"


def _escaped(text: str) -> str:
    for plain, escaped in (("\\", "\\\\"), (";", "\\;"), (",", "\\,"), ("\r\n", "\\n"), ("\n", "\\n"), ("\r", "\\n")):
        text = text.replace(plain, escaped)
    return "".join(sign for sign in text if sign == "\t" or sign.isprintable() or ord(sign) > 0x9F)


def _folded(line: str) -> Iterator[str]:
    """Pieces of at most 75 octets, none of which splits a character; each further one begins with a space."""
    piece, room = "", 75
    for sign in line:
        size = len(sign.encode("utf-8", "replace"))
        if size > room:
            yield piece
            piece, room = " ", 74
        piece += sign
        room -= size
    yield piece
