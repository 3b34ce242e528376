"""The vectors' own forms, put into calsched's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from calsched.clock import to_rfc3339
from calsched.triggers import Trigger
from calsched.triggers.fields import parse_rfc3339

_FOLDER = Path(__file__).parent.parent / "vectors"


def lines(file: str, *kinds: str) -> list[dict[str, Any]]:
    cases = [json.loads(line) for line in (_FOLDER / file).read_text(encoding="utf-8").splitlines()]
    return [case for case in cases if case["kind"] in kinds]


def spec_of(case: dict[str, Any]) -> dict[str, Any]:
    """The stored form of a line of triggers.jsonl."""
    spec = case["spec"]
    return {"calendar": _calendar, "cron": _cron, "interval": _interval, "rrule": _rrule}[case["kind"]](spec, case)


def _calendar(spec: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    names = {"days": "daysOfMonth", "weeks": "everyWeeks", "week_anchor": "weekAnchor"}
    out = {"kind": "calendar", "timezone": case["zone"], "hour": [0], "minute": [0], "second": [0]}
    return out | {names.get(name, name): value for name, value in spec.items()}


def _cron(spec: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    out = {"kind": "cron", "timezone": case["zone"], "expression": spec["cron"]}
    if "seconds_field" in spec:
        out["seconds"] = spec["seconds_field"]
    families = case["semantics"].split("+")
    if "any" not in families:
        if "wall" in families:
            return out | {"gap": "skip", "fold": "first"}
        return out | ({"gap": "skip", "fold": "both"} if "wall-both" in families else {"gap": "shift", "fold": "first"})
    return out


def _interval(spec: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "interval", "intervalMs": spec["every_ms"], "firstTick": to_rfc3339(spec["anchor_ms"])}


def _rrule(spec: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    said = [part.split("=") for part in case["semantics"].split() if "=" in part]
    return {"kind": "rrule", "timezone": case["zone"]} | spec | dict(said)


def reported_spec(trigger: dict[str, Any]) -> dict[str, Any]:
    """The stored form of the trigger of a line of reported.jsonl."""
    names = {
        "type": "kind",
        "tz": "timezone",
        "expr": "expression",
        "times": "at",
        "day_of_month": "daysOfMonth",
        "if_day_missing": "ifDayMissing",
        "exclude_dates": "exclude",
        "every_seconds": "seconds",
        "anchor": "firstTick",
    }
    return {names.get(name, name): value for name, value in trigger.items()}


def firings(trigger: Trigger, after: str, count: int) -> list[str]:
    """The next slots strictly after a time, as RFC 3339."""
    out: list[str] = []
    slot: int | None = parse_rfc3339(after)
    while len(out) < count and slot is not None:
        slot = trigger.next_after(slot)
        if slot is not None:
            out.append(to_rfc3339(slot))
    return out
