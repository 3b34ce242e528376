"""What is allowed and yet hardly meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calsched.calendars import BusinessCalendar, runs_out
from calsched.clock import to_rfc3339
from calsched.declare.place import Place
from calsched.declare.resolve import Flat
from calsched.declare.timing import WHEN
from calsched.model import Definition
from calsched.triggers import Trigger


def warn_of(
    d: Definition, trigger: Trigger, own: Flat, place: Place, now: int, calendars: Mapping[str, BusinessCalendar]
) -> None:
    """Reports warnings about a definition that has no problem."""
    _catch_up(d, own, place)
    _admission(d, own, place)
    _without_effect(d, own, place)
    _timing(d, trigger, own, place, now)
    for name in d.calendars:
        sentence = runs_out(calendars[name], now) if name in calendars else None
        if sentence:
            place.warn(sentence, "trigger", "calendar")


def _catch_up(d: Definition, own: Flat, place: Place) -> None:
    if d.misfire == "catchUp" and d.overlap in ("coalesce", "skip"):
        place.warn(
            f"catchUp with overlap {d.overlap} runs two of the missed slots at most",
            *own.keys.get("misfire", ()),
            hint="use overlap: queue to run each of them",
        )


def _admission(d: Definition, own: Flat, place: Place) -> None:
    batch = {"catchUp": d.max_catch_up, "boundedReplay": d.replay_limit or 0}.get(d.misfire, 0)
    if batch < 2:
        return
    outcome = "the whole batch is refused again and again" if d.admission == "strict" else "the excess is skipped"
    if d.rate_limit is not None and batch > d.rate_limit:
        place.warn(
            f"a catch-up batch of {batch} exceeds rateLimit {d.rate_limit}: {outcome}", *own.keys.get("rate_limit", ())
        )
    if d.admission == "strict" and d.overlap == "allow" and batch > d.max_concurrent:
        place.warn(
            f"a catch-up batch of {batch} exceeds maxConcurrent {d.max_concurrent}: {outcome}",
            *own.keys.get("max_concurrent", ()),
        )
    interval = d.trigger.get("intervalMs")
    if d.max_lateness is not None and isinstance(interval, int) and (batch - 1) * interval > d.max_lateness:
        place.warn(
            f"in a catch-up batch of {batch} the oldest slot is later than maxLatenessSeconds allows: {outcome}",
            *own.keys.get("max_lateness", ()),
        )


def _without_effect(d: Definition, own: Flat, place: Place) -> None:
    for attribute, overlap in (("max_concurrent", "allow"), ("max_queued", "queue")):
        if attribute in own.keys and d.overlap != overlap and getattr(d, attribute) != 1:
            key = own.keys[attribute]
            place.warn(f"{key[0]} has no effect with overlap {d.overlap}, only with {overlap}", *key)


def _timing(d: Definition, trigger: Trigger, own: Flat, place: Place, now: int) -> None:
    if d.trigger.get("kind") == "apscheduler" and d.trigger.get("class") == "cron":
        place.warn(
            "APScheduler's CronTrigger computes these times; it loses and doubles some at clock changes",
            "trigger",
            hint="use kind: cron",
        )
    if d.expires_at is not None and d.expires_at < now:
        place.warn(f"expired since {to_rfc3339(d.expires_at)}: nothing will run", *own.keys.get("expires_at", ()))
    first = trigger.first_at_or_after(now)
    if first is None:
        place.warn("there is no due time from now on", *_trigger_key(own, place))
        return
    second = trigger.next_after(first) if "grace" in own.keys else None
    if second is not None and d.grace > second - first:
        place.warn(
            f"a grace of {d.grace / 1000:g} s is longer than the {(second - first) / 1000:g} s between two due times:"
            " a slot counts as on time when the next one is due already",
            *own.keys["grace"],
        )


def _trigger_key(own: Flat, place: Place) -> tuple[Any, ...]:
    plain = place.document.plain
    for step in place.path:
        plain = plain[step]
    return next(((key,) for key in WHEN if key in plain), ())
