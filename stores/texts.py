"""Texts from outside, made fit for every database: an outcome must not get lost because its error message is odd."""

from __future__ import annotations

import re

#: Characters; MariaDB's TEXT holds 65 535 bytes, and a character may take four.
MAX_NAME, MAX_ERROR, MAX_TRACEBACK, MAX_NOTE = 255, 4_000, 16_000, 10_000
#: PostgreSQL stores no NUL, and no encoding of lone surrogates exists.
_UNFIT = re.compile("[\x00\ud800-\udfff]")
_CUT = "…"


def fit(text: str | None, limit: int | None = None, *, keep_end: bool = False) -> str | None:
    """The text without characters that cannot be stored, cut to a length. ``keep_end`` cuts at the front."""
    if text is None:
        return None
    if "\x00" in text or not text.isascii():
        text = _UNFIT.sub("\N{REPLACEMENT CHARACTER}", text)
    if limit is None or len(text) <= limit:
        return text
    return _CUT + text[-(limit - 1) :] if keep_end else text[: limit - 1] + _CUT
