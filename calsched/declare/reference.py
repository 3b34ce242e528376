"""The tables of ``docs/declarations.md``, generated from the shapes. ``python -m calsched.declare.reference`` rewrites
them in place; a test compares.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from calsched.declare.schema import TRIGGERS
from calsched.declare.shapes import (
    UNDOCUMENTED,
    Body,
    File,
    OnceBlackout,
    PythonTask,
    RateShape,
    ReadyTask,
    RecurringBlackout,
    RetryShape,
    Shape,
)
from calsched.declare.wording import expected

PAGE = Path("docs/declarations.md")
#: The keys of a schedule by what they are about, in the order of the page.
GROUPS: dict[str, tuple[str, ...]] = {
    "identity": ("id", "namespace", "owner", "was", "description", "enabled"),
    "timing": ("trigger", "cron", "every", "at", "timezone", "backlog", "jitterSeconds", "blackouts"),
    "work": ("task", "allowedProviders"),
    "lateness": ("misfire", "graceSeconds", "replayLimit", "maxCatchUp"),
    "overlap": ("overlap", "maxQueued", "maxConcurrent"),
    "limits": ("maxOccurrences", "expiresAt", "maxLatenessSeconds", "rateLimit", "rateWindowSeconds", "admission"),
    "failure": (
        "maxRetries",
        "maxAttempts",
        "maxRepeatedFailures",
        "retry",
        "retryDelaySeconds",
        "retryBackoff",
        "retryMaxDelaySeconds",
        "timeoutSeconds",
        "maxElapsedSeconds",
        "deadlineSeconds",
        "onInterrupted",
        "pauseAfterFailures",
    ),
    "seeds": (
        "objective",
        "timeoutPerStageSeconds",
        "scheduleId",
        "revision",
        "firstTick",
        "intervalMs",
        "catchUp",
    ),
}
_SHAPES: dict[str, type[Shape]] = {
    "file": File,
    "python-task": PythonTask,
    "ready-task": ReadyTask,
    "retry": RetryShape,
    "rate-limit": RateShape,
    "once-blackout": OnceBlackout,
    "recurring-blackout": RecurringBlackout,
}
#: What wall-clock triggers have in common.
_COMMON = ("timezone", "gap", "fold", "start", "end", "exclude", "calendar", "roll")
_BLOCK = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def tables() -> dict[str, str]:
    """Every table of the page by its name."""
    out = {name: _table(Body, keys) for name, keys in GROUPS.items()}
    for name, shape in _SHAPES.items():
        out[name] = _table(shape, [str(field.alias) for field in shape.model_fields.values()])
    out["wall-clock"] = _short_table(TRIGGERS["calendar"], _COMMON)
    for kind, shape in TRIGGERS.items():
        keys = [str(field.alias) for field in shape.model_fields.values()]
        left_out = {"kind", *(_COMMON if kind in ("calendar", "cron", "rrule") else ("timezone",))}
        if kind in ("cron", "once"):
            left_out -= {"fold", "timezone"}
        out[f"trigger-{kind}"] = _short_table(shape, [key for key in keys if key not in left_out])
    return out


def undocumented() -> set[str]:
    """Keys of a schedule that no table has, though one should."""
    known = {str(field.alias) for field in Body.model_fields.values()}
    return known - {key for keys in GROUPS.values() for key in keys} - UNDOCUMENTED


def filled(page: str) -> str:
    """A page with each of its tables as it is now. A name that is no table raises KeyError."""
    made = tables()
    return _BLOCK.sub(lambda found: f"{found[1]}{made[found[2]]}{found[3]}", page)


def _table(shape: type[Shape], keys: Iterable[str]) -> str:
    fields = {str(field.alias): field for field in shape.model_fields.values()}
    rows = ["| key | takes | default | meaning |", "|---|---|---|---|"]
    for key in keys:
        field = fields[key]
        default = "required" if field.is_required() else _default(field.default)
        meaning = (field.description or "").replace("|", "\\|")
        rows.append(f"| `{key}` | {_takes(shape, key)} | {default} | {meaning} |".replace("  ", " "))
    return "\n".join(rows) + "\n"


def _short_table(shape: type[Shape], keys: Iterable[str]) -> str:
    fields = {str(field.alias): field for field in shape.model_fields.values()}
    rows = ["| key | meaning |", "|---|---|"]
    for key in keys:
        field = fields[key]
        default = "; required" if field.is_required() else f" (default {_default(field.default)})"
        note = default if field.is_required() or field.default else ""
        rows.append(f"| `{key}` | {field.description}{note} |")
    return "\n".join(rows) + "\n"


def _takes(shape: type[Shape], key: str) -> str:
    text = expected(shape, (key,)).replace(" printable characters without space at the ends", " characters")
    return text.replace("one of ", "").removesuffix(" or null")


def _default(value: Any) -> str:
    if value is None or value == "" or (isinstance(value, list | dict) and not value):
        return ""
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    return f"`{value}`"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    target.write_text(filled(target.read_text()))
