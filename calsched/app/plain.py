"""JSON shapes of what commands print and agents are told: camelCase keys, instants RFC 3339 in UTC, lengths in ``…Ms``.

A shape may gain keys in a later release; it never loses or renames one. ``docs/cli.md`` lists them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from calsched.clock import to_rfc3339
from calsched.runtime.workspace import folder

_INSTANTS = re.compile(r"(^|_)(due|at|until|instant|start|end|deadline|high_water|now)$")
_DURATIONS = frozenset({"elapsed", "lateness", "grace", "tolerance"})
_HIDDEN = re.compile(r"(^|_)pk$")


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def plain(value: Any, name: str = "") -> Any:
    """A view as JSON values. Instants, known by their names, become RFC 3339; keys of the database are left out."""
    if isinstance(value, bool) or value is None or isinstance(value, str | float):
        return value
    if isinstance(value, int):
        return to_rfc3339(value) if _INSTANTS.search(name) else value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _object({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _object(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): plain(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner, name) for inner in value]
    return str(value)


def _object(fields: Mapping[str, Any]) -> dict[str, Any]:
    out = {}
    for name, value in fields.items():
        if not _HIDDEN.search(name):
            out[camel(name) + ("Ms" if name in _DURATIONS else "")] = plain(value, name)
    return out


def preview_plain(report: Any) -> dict[str, Any]:
    schedules = []
    for one in report.previews:
        told = plain(one)
        del told["rule"]  # words; a program has the declaration
        told["slots"] = [slot for slot in told["slots"] if slot["leftOut"] is None]
        told["leftOut"] = [plain(slot) for slot in one.slots if slot.left_out is not None]
        for slot in told["slots"]:
            del slot["leftOut"]
        schedules.append(told)
    return {"digest": report.digest, "schedules": schedules, "warnings": plain(report.warnings)}


def schedule_plain(view: Any) -> dict[str, Any]:
    told: dict[str, Any] = plain(view)
    told["definition"] = None if view.definition is None else definition_plain(view.definition)
    return told


def definition_plain(definition: Any) -> dict[str, Any]:
    """A definition in the words of the declaration files."""
    material: dict[str, Any] = definition.material()
    expires = material.pop("expiresAtMs", None)
    if expires is not None:
        material["expiresAt"] = to_rfc3339(expires)
    return material


def history_plain(history: Any, workspaces: Any = None) -> dict[str, Any]:
    """Verdicts; ``workspaces`` is the folder of the host's workspaces, where it keeps any."""
    entries = []
    for entry in history.entries:
        kind = "range" if hasattr(entry, "verdict") else "occurrence"
        told = {"kind": kind, **plain(entry)}
        if workspaces is not None and kind == "occurrence" and entry.executor:  # a host's tasks have none
            told["workspace"] = str(folder(str(workspaces), entry.key))
        entries.append(told)
    return {"entries": entries, "nextPage": history.next_page}
