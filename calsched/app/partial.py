"""``update ID FILE`` with a partial file: its keys replace those of the stored definition, in the file's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calsched.clock import to_rfc3339
from calsched.model import Definition

#: Keys of the stored material that a declaration does not have.
_NOT_DECLARED = ("format", "calendars", "expiresAtMs")

#: Keys that say the same as others: where a partial file has one, the stored others give way.
_REPLACES: Mapping[str, tuple[str, ...]] = {
    "cron": ("trigger",),
    "every": ("trigger",),
    "at": ("trigger",),
    "firstTick": ("trigger",),
    "intervalMs": ("trigger",),
    "objective": ("description",),
    "catchUp": ("misfire", "replayLimit", "apscheduler"),
    "misfire": ("replayLimit", "apscheduler"),
    "overlap": ("maxConcurrent",),
    "retry": ("retryDelaySeconds", "retryBackoff", "retryMaxDelaySeconds"),
    "timeoutPerStageSeconds": ("timeoutSeconds",),
    "rateLimit": ("rateWindowSeconds",),
    "rateWindowSeconds": (),
    "scheduleId": ("id",),
}

#: What a misfire or overlap that is named again, unchanged, keeps.
_KEPT_WHERE_EQUAL = ("misfire", "overlap")


def merged(definition: Definition, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The declaration that the stored definition is, with the keys of ``changes`` over it. A null takes a key away."""
    body = declared(definition)
    for key in changes:
        if key in _KEPT_WHERE_EQUAL and changes[key] == body.get(key):
            continue
        for other in _REPLACES.get(key, ()):
            if other == "rateWindowSeconds" and not isinstance(changes[key], Mapping | None):
                continue
            body.pop(other, None)
    return {key: value for key, value in {**body, **changes}.items() if value is not None}


def declared(definition: Definition) -> dict[str, Any]:
    """A definition as one schedule of a declaration file."""
    material = definition.material()
    body = {key: value for key, value in material.items() if key not in _NOT_DECLARED and value not in ("", [], {})}
    if definition.expires_at is not None:
        body["expiresAt"] = to_rfc3339(definition.expires_at)
    if definition.task.kind == "ready":
        body["task"] = {key: value for key, value in material["task"].items() if value is not None}
    return body
