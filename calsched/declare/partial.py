"""What a file says of one schedule that there is already: its own keys, and what the file says for all of them.

A default counts as said: it replaces what the definition has, unless the schedule says otherwise (the order of
``schedule.py``: the schedule, the file, its defaults).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from calsched.declare.document import Document
from calsched.declare.layout import Entry, Layout, alone, laid_out
from calsched.declare.paths import shown
from calsched.declare.place import Found, Place
from calsched.declare.resolve import withheld
from calsched.errors import InvalidInput
from calsched.model import Definition

#: Any of these is a rule.
RULE = frozenset({"trigger", "cron", "every", "at", "firstTick", "intervalMs"})
#: Words for the same thing: what the first is written as, the others need not be.
GROUPS: tuple[frozenset[str], ...] = (
    RULE,
    frozenset({"description", "objective"}),
    frozenset({"timeoutSeconds", "timeoutPerStageSeconds"}),
    frozenset({"misfire", "catchUp"}),
    frozenset({"id", "scheduleId"}),
)
#: Keys of ``retry`` -> the same by themselves.
RETRY = {"delaySeconds": "retryDelaySeconds", "backoff": "retryBackoff", "maxDelaySeconds": "retryMaxDelaySeconds"}

#: Fields of ``resolve.withheld`` -> the keys of a file.
_WRITTEN = {"misfire": "misfire", "replay_limit": "replayLimit"}

Path = tuple[str | int, ...]


def said_of(document: Document, definition: Definition) -> tuple[dict[str, Any], Path]:
    """The keys that a file has for a schedule, and where its own ones stand. Raises InvalidInput with every problem."""
    plain, found = document.plain, Found()
    if not isinstance(plain, Mapping):
        raise InvalidInput([document.problem((), f"expected one schedule, whole or in part, got {shown(plain)}")])
    place = Place(document, (), found)
    layout = laid_out(place) if "schedules" in plain else alone(place, dict(plain))
    if found.problems:
        raise InvalidInput(found.problems)
    defaults = plain.get("defaults") or {}
    entry = _entry(document, layout, defaults, definition)
    under = {**defaults, **{key: value for key, value in layout.file.items() if value is not None}}
    return {**_beneath(under, entry.plain, definition), **entry.plain}, entry.place.path


def _entry(document: Document, layout: Layout, defaults: Mapping[str, Any], definition: Definition) -> Entry:
    """The one that is about the definition, by id and namespace."""
    if layout.place is None or "schedules" not in document.plain:
        named = list(layout.entries)
    else:
        named = [one for one in layout.entries if definition.id in _ids(one)]
    if not named:
        raise InvalidInput([document.problem(("schedules",), f"there is no {shown(definition.id)} in this file")])
    elsewhere: list[tuple[Path, Any]] = []
    for one in named:
        path, namespace = _namespace(one, layout, defaults)
        if namespace in (None, definition.namespace):
            return one
        elsewhere.append((path, namespace))
    _refuse_namespace(document, *elsewhere[0], definition)


def _ids(entry: Entry) -> Iterator[Any]:
    yield from (entry.id, entry.plain.get("id"), entry.plain.get("scheduleId"))


def _namespace(entry: Entry, layout: Layout, defaults: Mapping[str, Any]) -> tuple[Path, Any]:
    """Where the namespace of an entry stands, and what it is; None where the host's counts."""
    places: tuple[tuple[Path, Mapping[str, Any]], ...] = (
        (entry.place.path, entry.plain), ((), layout.file), (("defaults",), defaults),
    )  # fmt: skip
    for path, said in places:
        if said.get("namespace") is not None:
            return (*path, "namespace"), said["namespace"]
    return (), None


def _refuse_namespace(document: Document, path: Path, namespace: Any, definition: Definition) -> NoReturn:
    hint = "an update changes what a schedule does, not its name"
    said = f"expected {shown(definition.namespace)}, got {shown(namespace)}"
    raise InvalidInput([document.problem(path, said, hint=hint)])


def _beneath(under: Mapping[str, Any], own: Mapping[str, Any], definition: Definition) -> dict[str, Any]:
    """What of the file and its defaults holds for a schedule, beneath its own keys."""
    out = _apart(under)
    gone = {"namespace", "enabled", *_apart(own)}
    for group in GROUPS:
        if group & set(own):
            gone |= group
    if not RULE & set(own):
        gone.add("timezone")  # it holds for the rule that an entry brings, not for one that the store has
    own_misfire = own.get("misfire", own.get("catchUp"))
    gone |= {_WRITTEN[name] for name in withheld(own_misfire, once=_is_once(own, definition))}
    if "rateLimit" in own:
        gone.add("rateWindowSeconds")
    return {key: value for key, value in out.items() if key not in gone}


def _is_once(own: Mapping[str, Any], definition: Definition) -> bool:
    if not RULE & set(own):
        return definition.trigger.get("kind") == "once"
    trigger = own.get("trigger")
    return "at" in own or (isinstance(trigger, Mapping) and trigger.get("kind") == "once")


def _apart(said: Mapping[str, Any]) -> dict[str, Any]:
    """Keys that hold several values, as the keys that hold one each."""
    out = dict(said)
    retry, rate = out.get("retry"), out.get("rateLimit")
    if isinstance(retry, Mapping):
        del out["retry"]
        out |= {RETRY[key]: value for key, value in retry.items() if key in RETRY}
    if isinstance(rate, Mapping):
        out |= {"rateLimit": rate.get("count"), "rateWindowSeconds": rate.get("windowSeconds")}
    return out
