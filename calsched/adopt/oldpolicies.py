"""What ``coalesce``, ``misfire_grace_time`` and ``max_instances`` become.

APScheduler's settings decide what a timer in memory drops; ours decide what a ledger does with a due time that nobody
can lose sight of. Where somebody chose a setting, it is kept; where it is the default that everybody has, our default
takes its place and the note says so.
"""

from __future__ import annotations

from typing import Any, Final

#: APScheduler's defaults: what nearly every stored job has without anybody having asked for it.
DEFAULT_GRACE: Final = 1
MAX_GRACE: Final = 86_400
MAX_CONCURRENT: Final = 1_000


def policies_of(coalesce: bool, grace: int | None, max_instances: int) -> tuple[dict[str, Any], list[str]]:
    """Declaration keys and notes. ``grace`` is in seconds; None never counts a run as missed."""
    misfire, notes = _misfire(coalesce, grace)
    overlap, more = _overlap(coalesce or misfire.get("misfire") != "catchUp", max_instances)
    return {**misfire, **overlap}, notes + more


def _misfire(coalesce: bool, grace: int | None) -> tuple[dict[str, Any], list[str]]:
    if grace is None or grace > MAX_GRACE:
        shown = "without limit" if grace is None else f"of {grace} s, which is more than a day,"
        if coalesce:
            return {"misfire": "runOnce", "graceSeconds": 0}, [
                f"misfire_grace_time {shown} with coalesce: late runs become one (misfire: runOnce)"
            ]
        return {"misfire": "catchUp", "maxCatchUp": 100}, [
            f"misfire_grace_time {shown} without coalesce: every late run is made up for (misfire: catchUp)"
        ]
    if grace == DEFAULT_GRACE:
        return _default_grace(coalesce)
    return {"misfire": "skip", "graceSeconds": grace}, [
        f"misfire_grace_time of {grace} s: what is later is skipped and recorded (misfire: skip)"
    ]


def _default_grace(coalesce: bool) -> tuple[dict[str, Any], list[str]]:
    if coalesce:
        return {"misfire": "runOnce"}, [
            "misfire_grace_time was the default of 1 s, which loses a run at every pause; here a late run is made up"
            " for once (misfire: runOnce); declare misfire: skip to go on losing it"
        ]
    return {"misfire": "skip"}, [
        "misfire_grace_time was the default of 1 s; what is later than 60 s is skipped and recorded (misfire: skip)"
    ]


def _overlap(one_at_a_time: bool, max_instances: int) -> tuple[dict[str, Any], list[str]]:
    if max_instances > 1:
        return {"overlap": "allow", "maxConcurrent": min(max_instances, MAX_CONCURRENT)}, [
            f"max_instances of {max_instances}: as many run at once, and the next waits instead of being dropped"
        ]
    if one_at_a_time:
        return {"overlap": "skip"}, []
    return {"overlap": "queue"}, ["max_instances of 1: runs wait for each other instead of being dropped"]
