"""Policies as they are written, to the attributes of a Definition; and what two keys say together.

``flat`` translates one mapping (a schedule, or ``defaults``) into attributes, in the Definition's units; ``settled``
lays the schedule over the defaults, fills in what the seeds' forms imply, and judges the combinations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from calsched.clock import to_rfc3339
from calsched.declare.place import Place
from calsched.declare.shapes import (
    MAX_CONCURRENT,
    Body,
    OnceBlackout,
    Policies,
    RateShape,
    RecurringBlackout,
    RetryShape,
)

#: Names of the misfire policies in seeds 000 and 002. They imply grace 0 and overlap `allow`, unless declared.
ALIASES = {
    "COALESCE_ONE": "runOnce",
    "LATEST": "runOnce",
    "SKIP": "skip",
    "BOUNDED_REPLAY": "boundedReplay",
    "ALL": "catchUp",
}
#: The misfire policy that has a replayLimit, in both of its spellings.
BOUNDED = ("boundedReplay", "BOUNDED_REPLAY")
#: `allow` without a number: as many as a pool of APScheduler has workers.
CONCURRENT = 10


def _millis(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _refuse_too_fine(seconds: float | None, place: Place, *steps: str | int) -> None:
    if seconds is not None and abs(seconds * 1000 - round(seconds * 1000)) > 1e-6:
        place.problem(f"expected seconds, no finer than a millisecond, got {seconds!r}", *steps)


def _same(value: Any) -> Any:
    return value


#: Field of the shape -> attribute of the Definition, and how the value is translated.
_PLAIN: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "owner": ("owner", _same),
    "grace_seconds": ("grace", _millis),
    "replay_limit": ("replay_limit", _same),
    "max_catch_up": ("max_catch_up", _same),
    "overlap": ("overlap", _same),
    "max_queued": ("max_queued", _same),
    "max_concurrent": ("max_concurrent", _same),
    "max_occurrences": ("max_occurrences", _same),
    "expires_at": ("expires_at", _same),
    "max_lateness_seconds": ("max_lateness", _millis),
    "rate_window_seconds": ("rate_window", _millis),
    "admission": ("admission", _same),
    "max_retries": ("max_retries", _same),
    "max_attempts": ("max_attempts", _same),
    "max_repeated_failures": ("max_repeated_failures", _same),
    "retry_delay_seconds": ("retry_delay", _millis),
    "retry_backoff": ("retry_backoff", float),
    "retry_max_delay_seconds": ("retry_max_delay", _millis),
    "timeout_seconds": ("timeout", _millis),
    "timeout_per_stage_seconds": ("timeout", _millis),
    "max_elapsed_seconds": ("max_elapsed", _millis),
    "deadline_seconds": ("deadline", _millis),
    "on_interrupted": ("on_interrupted", _same),
    "pause_after_failures": ("pause_after_failures", _same),
    "backlog": ("backlog", _same),
    "jitter_seconds": ("jitter", _millis),
}
_RETRY = {"delay_seconds": "retry_delay", "backoff": "retry_backoff", "max_delay_seconds": "retry_max_delay"}


@dataclass(slots=True)
class Flat:
    """Attributes that one mapping gives, and the steps to the key that gave each."""

    values: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    aliased: bool = False  # the misfire policy is under a name of the seeds
    twice: list[tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=list)

    def put(self, attribute: str, value: Any, *steps: str) -> None:
        if attribute in self.keys:
            self.twice.append((steps, self.keys[attribute]))
            return
        self.values[attribute], self.keys[attribute] = value, steps


def flat(shape: Policies, place: Place) -> Flat:
    """The attributes that a mapping gives; keys that give the same one twice are problems."""
    out = Flat()
    for name in sorted(shape.model_fields_set, key=_place_of):
        value, key = getattr(shape, name), _KEYS[name]
        if name in _PLAIN:
            attribute, translate = _PLAIN[name]
            out.put(attribute, translate(value), key)
            if translate is _millis:
                _refuse_too_fine(value, place, key)
        elif name in ("misfire", "catch_up") and value is not None:
            out.put("misfire", ALIASES.get(value, value), key)
            out.aliased = out.aliased or value in ALIASES
        elif name == "retry" and value is not None:
            _retry(value, out, place)
        elif name == "rate_limit":
            _rate(value, out, place)
        elif name == "blackouts":
            out.put("blackouts", value, key)
    for steps, first in out.twice:
        place.problem(f"{'.'.join(first)} says the same; keep one of them", *steps)
    return out


def _place_of(name: str) -> int:
    return _ORDER.get(name, len(_ORDER))


_ORDER = {name: place for place, name in enumerate(Body.model_fields)}


_KEYS = {name: str(field.alias) for name, field in Body.model_fields.items()}


def _retry(value: RetryShape, out: Flat, place: Place) -> None:
    for name in value.model_fields_set:
        given, key = getattr(value, name), str(RetryShape.model_fields[name].alias)
        if name == "backoff":
            out.put(_RETRY[name], float(given), "retry", key)
            continue
        _refuse_too_fine(given, place, "retry", key)
        out.put(_RETRY[name], _millis(given), "retry", key)


def _rate(value: int | RateShape | None, out: Flat, place: Place) -> None:
    if isinstance(value, RateShape):
        _refuse_too_fine(value.window_seconds, place, "rateLimit", "windowSeconds")
        out.put("rate_limit", value.count, "rateLimit")
        out.put("rate_window", _millis(value.window_seconds), "rateLimit", "windowSeconds")
    else:
        out.put("rate_limit", value, "rateLimit")


def settled(own: Flat, under: Flat, body: Body, place: Place, *, once: bool) -> dict[str, Any]:
    """The policies of one schedule: its own over the defaults, implied ones filled in; combinations are judged."""
    values = {**_defaults_for(own, under, once=once), **own.values}
    aliased = own.aliased or ("misfire" not in own.values and under.aliased and not once)
    _imply(values, body, aliased=aliased or _is_definition_form(body))
    for complaint in _complaints(values, own):
        place.problem(complaint[1], *_steps(own, complaint[0]), hint=complaint[2])
    return {name: value for name, value in values.items() if name != "blackouts"}


def _defaults_for(own: Flat, under: Flat, *, once: bool) -> dict[str, Any]:
    gone = withheld(own.values.get("misfire"), once=once)
    return {name: value for name, value in under.values.items() if name not in gone}


def withheld(misfire: Any, *, once: bool) -> tuple[str, ...]:
    """The defaults that do not reach a schedule with this misfire of its own (or None).

    A default misfire never reaches a `once` trigger: it would discard what was to be done one time.
    """
    if misfire is None and not once:
        return ()
    return ("misfire",) if misfire in BOUNDED else ("misfire", "replay_limit")


def _is_definition_form(body: Body) -> bool:
    """Whether it is written as seed 000 writes a definition."""
    return bool({"schedule_id", "first_tick", "interval_ms", "catch_up"} & body.model_fields_set)


def _imply(values: dict[str, Any], body: Body, *, aliased: bool) -> None:
    if aliased:
        values.setdefault("grace", 0)
        values.setdefault("overlap", "allow")
        if values["overlap"] == "allow":
            values.setdefault("max_concurrent", MAX_CONCURRENT)  # those forms bound nothing
    if "first_tick" in body.model_fields_set:
        values.setdefault("backlog", "fromStart")
    if values.get("overlap") == "allow":
        values.setdefault("max_concurrent", CONCURRENT)
    if values.get("retry_delay", 0) > 3_600_000:
        values.setdefault("retry_max_delay", values["retry_delay"])


def _steps(own: Flat, attribute: str) -> tuple[str, ...]:
    return own.keys.get(attribute, ())


def _complaints(values: Mapping[str, Any], own: Flat) -> Iterator[tuple[str, str, str]]:
    """(attribute that is blamed, what is wrong, hint) of every combination that does not hold together."""
    misfire, limit = values.get("misfire", "runOnce"), values.get("replay_limit")
    if misfire == "boundedReplay" and limit is None:
        yield "misfire", "replayLimit is required with boundedReplay", "for example replayLimit: 10"
    if misfire != "boundedReplay" and limit is not None:
        yield "replay_limit", f"replayLimit belongs to misfire boundedReplay, and this one is {misfire}", ""
    attempts = values.get("max_attempts", 20)
    if values.get("max_retries", 0) >= attempts:
        yield "max_retries", f"expected less than maxAttempts ({attempts}), got {values['max_retries']}", ""
    if values.get("rate_limit") is not None and values.get("rate_window") is None:
        yield "rate_limit", "rateWindowSeconds is required with rateLimit", "or write rateLimit: {count, windowSeconds}"
    if values.get("rate_limit") is None and values.get("rate_window") is not None:
        yield "rate_window", "rateWindowSeconds means nothing without rateLimit", ""
    if values.get("retry_max_delay", 3_600_000) < values.get("retry_delay", 10_000):
        blamed = "retry_max_delay" if "retry_max_delay" in own.keys else "retry_delay"
        yield blamed, "the longest delay is shorter than the first", ""
    limits = values.get("rate_limit"), values.get("max_lateness"), own.keys.get("max_concurrent")
    if values.get("admission") == "strict" and limits == (None, None, None):
        hint = "declare rateLimit, maxLatenessSeconds, or maxConcurrent with overlap: allow"
        yield "admission", "strict has no limit to be strict about", hint


def blackouts(shapes: list[Any], place: Place, build: Callable[..., Any]) -> tuple[Mapping[str, Any], ...]:
    """The stored form of blackouts; ``build(spec, place, prefix)`` gives a trigger or None and reports."""
    out: list[Mapping[str, Any]] = []
    for i, shape in enumerate(shapes):
        extra = {"note": shape.note} if shape.note else {}
        if isinstance(shape, OnceBlackout):
            if shape.to <= shape.from_:
                place.problem("the window ends before it begins", i, "to")
            out.append(
                {"from": to_rfc3339(shape.from_), "to": to_rfc3339(shape.to), "whenDue": shape.when_due, **extra}
            )
        elif isinstance(shape, RecurringBlackout):
            trigger = build(shape.trigger, place.at(i, "trigger"))
            seconds = shape.duration_seconds
            _refuse_too_fine(seconds, place, i, "durationSeconds")
            stored = {
                "trigger": trigger.spec() if trigger is not None else {},
                "durationSeconds": int(seconds) if seconds == int(seconds) else seconds,
            }
            out.append({**stored, "whenDue": shape.when_due, **extra})
    return tuple(out)
