"""Declarations without files: from Python and the agent, of a stored definition, and of partial updates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from calsched.clock import to_rfc3339
from calsched.declare.check import check
from calsched.declare.declaration import Checked, Declaration
from calsched.declare.document import Document
from calsched.declare.partial import GROUPS, RETRY, RULE, said_of
from calsched.declare.paths import shown
from calsched.declare.place import Found, Place
from calsched.declare.resolve import BOUNDED, blackouts, flat, settled
from calsched.declare.shapes import Body
from calsched.declare.validate import validated
from calsched.declare.wording import expected, known_keys
from calsched.errors import InvalidInput, Problem
from calsched.model import Definition
from calsched.triggers import build

#: Keys for which null is a value of its own: no limit, whatever defaults say.
_NULLABLE = frozenset(key for key in known_keys(Body, ()) if "null" in expected(Body, (key,)).split(" or "))
#: Keys that make a definition when ``was`` renames or a keyword names a job; no policies.
_NOT_POLICIES = frozenset(
    {"id", "namespace", "enabled", "timezone", "was", "trigger", "task", "cron", "every", "at", "allowedProviders",
     "scheduleId", "revision", "firstTick", "intervalMs"}
)  # fmt: skip


def check_plain(body: Mapping[str, Any], *, now: int, **lent: Any) -> Declaration:
    """The declaration of one schedule given as a mapping, with the keys of the files.

    Keywords are the fields of ``declaration.Host``. Arguments of the task are in the stored form
    (``calsched.values.encode``). Raises InvalidInput with every problem.
    """
    return _only(check([_document(body)], now=now, **lent))


def check_update(
    definition: Definition, document: Document, *, now: int, **lent: Any
) -> tuple[Declaration, frozenset[str]]:
    """The declaration that a file with some keys makes of a definition, and the keys that the file had.

    The file is one schedule, whole or in part, or a file of several that has the definition's id among them; what it
    says for all of its schedules is among the keys. Raises InvalidInput with every problem, with the file's lines.
    """
    document.raise_if_bad()
    partial, path = said_of(document, definition)
    merged = merge_partial(definition, partial)
    moved = Document(merged, document.file, single=True, lines=lambda: _node_at(document, path))
    declaration = _only(check([moved], now=now, **{**lent, "namespace": definition.namespace}))
    return declaration, frozenset(partial)


def merge_partial(definition: Definition, partial: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a definition with some keys replaced; a null takes a key away.

    A rule that says no zone keeps the one of the rule that it replaces, whatever the host's own is.
    Raises InvalidInput where it would become another schedule.
    """
    for keys, own in ((("id", "scheduleId"), definition.id), (("namespace",), definition.namespace)):
        for key in keys:
            if key in partial and partial[key] != own:
                hint = "an update changes what a schedule does, not its name"
                raise InvalidInput([Problem(f"expected {shown(own)}, got {shown(partial[key])}", key, hint=hint)])
    base = to_declaration(definition)
    base |= {"graceSeconds": _seconds(definition.grace), "overlap": definition.overlap, "backlog": definition.backlog}
    for group in GROUPS:
        if group & set(partial):
            base = {key: value for key, value in base.items() if key not in group}
    _clear_replaced(base, partial)
    if "timezone" in partial and "timezone" in base.get("trigger", {}):
        base["trigger"] = {**base["trigger"], "timezone": partial["timezone"]}
    if RULE & set(partial):
        base |= _kept_zone(definition.trigger)
    merged = {**base, **partial}
    return {key: value for key, value in merged.items() if value is not None or key in _NULLABLE}


def _kept_zone(trigger: Mapping[str, Any]) -> dict[str, str]:
    """The zone of a trigger as a key of the body; none where it has none, or where its parts differ."""
    zones = set(_zones(trigger))
    return {"timezone": zones.pop()} if len(zones) == 1 else {}


def _zones(spec: Any) -> Iterator[str]:
    """Every ``timezone`` in a trigger and its parts."""
    if isinstance(spec, Mapping):
        for key, value in spec.items():
            if key == "timezone" and isinstance(value, str):
                yield value
            else:
                yield from _zones(value)
    elif isinstance(spec, list | tuple):
        for value in spec:
            yield from _zones(value)


def _clear_replaced(base: dict[str, Any], partial: Mapping[str, Any]) -> None:
    misfire = partial.get("misfire", partial.get("catchUp", base.get("misfire")))
    if misfire not in BOUNDED:
        base.pop("replayLimit", None)
    if "rateLimit" in partial and (partial["rateLimit"] is None or isinstance(partial["rateLimit"], Mapping)):
        base.pop("rateWindowSeconds", None)
    if partial.get("overlap", "allow") != "allow":
        base.pop("maxConcurrent", None)
    for key in partial["retry"] if isinstance(partial.get("retry"), Mapping) else ():
        base.pop(RETRY.get(key, ""), None)


def from_keywords(policies: Mapping[str, Any]) -> dict[str, Any]:
    """Policies in the words of the files as attributes of a Definition; for ``durable()``.

    Raises InvalidInput with every problem. ``description`` and ``owner`` count as policies here; what names, times and
    does a schedule does not.
    """
    found = Found()
    place = Place(_document(policies), (), found)
    known = {key: value for key, value in policies.items() if key not in _NOT_POLICIES}
    for key in policies:
        if key in _NOT_POLICIES:
            place.problem("this is no policy", key)
    body = validated(Body, known, place)
    own = flat(body, place)
    out = settled(own, type(own)(), body, place, once=False)
    if "blackouts" in own.values:
        out["blackouts"] = blackouts(own.values["blackouts"], place.at("blackouts"), _built)
    if "description" in body.model_fields_set:
        out["description"] = body.description
    if found.problems:
        raise InvalidInput(found.problems)
    return out


def _built(spec: Mapping[str, Any], place: Place) -> Any:
    try:
        return build(spec)
    except InvalidInput as invalid:
        place.take(invalid.problems)
    return None


#: Attribute of the Definition -> key; lengths of time are seconds in files.
_MILLIS = {
    "grace": "graceSeconds",
    "max_lateness": "maxLatenessSeconds",
    "rate_window": "rateWindowSeconds",
    "retry_delay": "retryDelaySeconds",
    "retry_max_delay": "retryMaxDelaySeconds",
    "timeout": "timeoutSeconds",
    "max_elapsed": "maxElapsedSeconds",
    "deadline": "deadlineSeconds",
    "jitter": "jitterSeconds",
}
_SAME = {
    "description": "description",
    "owner": "owner",
    "misfire": "misfire",
    "replay_limit": "replayLimit",
    "max_catch_up": "maxCatchUp",
    "overlap": "overlap",
    "max_queued": "maxQueued",
    "max_concurrent": "maxConcurrent",
    "max_occurrences": "maxOccurrences",
    "rate_limit": "rateLimit",
    "admission": "admission",
    "max_retries": "maxRetries",
    "max_attempts": "maxAttempts",
    "max_repeated_failures": "maxRepeatedFailures",
    "retry_backoff": "retryBackoff",
    "on_interrupted": "onInterrupted",
    "pause_after_failures": "pauseAfterFailures",
    "backlog": "backlog",
}


def to_declaration(definition: Definition) -> dict[str, Any]:
    """The body that checks back to an equal definition: what is not the default, in the words of the files."""
    bare = Definition(id="", trigger={}, task=definition.task)
    out: dict[str, Any] = {"id": definition.id, "namespace": definition.namespace}
    for attribute, key in (*_SAME.items(), *_MILLIS.items()):
        value = getattr(definition, attribute)
        if value != getattr(bare, attribute) or attribute in _moved(definition):
            out[key] = _seconds(value) if attribute in _MILLIS else value
    if definition.expires_at is not None:
        out["expiresAt"] = to_rfc3339(definition.expires_at)
    if definition.blackouts:
        out["blackouts"] = [dict(window) for window in definition.blackouts]
    if definition.apscheduler is not None:
        out["apscheduler"] = dict(definition.apscheduler)
    return {**out, "trigger": dict(definition.trigger), "task": _task(definition)}


def _moved(definition: Definition) -> set[str]:
    """Attributes whose default other keys move away from the usual one."""
    moved = {"max_concurrent"} if definition.overlap == "allow" else set()
    return moved | ({"retry_max_delay"} if definition.retry_delay > 3_600_000 else set())


def _task(definition: Definition) -> str | dict[str, Any]:
    material = {key: value for key, value in definition.task.material().items() if value is not None}
    if definition.task.kind == "ready":
        return material
    material = {key: value for key, value in material.items() if value not in ([], {}) and key != "kind"}
    if material["executor"] == "default":
        del material["executor"]
    return str(material["callable"]) if set(material) == {"callable"} else material


def _seconds(millis: int | None) -> int | float | None:
    if millis is None:
        return None
    return millis // 1000 if millis % 1000 == 0 else millis / 1000


def _document(body: Mapping[str, Any]) -> Document:
    return Document(dict(body), "", single=True)


def _only(checked: Checked) -> Declaration:
    checked.raise_if_bad()
    return checked.declarations[0]


def _node_at(document: Document, path: tuple[str | int, ...]) -> Any:
    node = document.lines()
    for step in path:
        if node is None or isinstance(node, int) or step not in node[1]:
            break
        node = node[1][step]
    return node
