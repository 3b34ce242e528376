"""One log line for every event of an owner (logger ``calsched.events``, level INFO and up), after it has committed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from calsched import logs
from calsched.clock import to_rfc3339
from calsched.model import PlannedRange
from calsched.policies import clock_hold
from calsched.runtime.work import Work

events = logs.get("calsched.events")


def printable(text: str, most: int = 300) -> str:
    """Text of somebody else's for a terminal or a log: one line, and no control character acts."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


class Narrator:
    """Writes the lines. Asked by the pump only while somebody listens."""

    @property
    def listens(self) -> bool:
        return events.isEnabledFor(logging.INFO)

    def started(self, works: Sequence[Work]) -> None:
        for work in works:
            attempt = f", attempt {work.claimed.attempt}" if work.claimed.attempt > 1 else ""
            events.info("%s started%s%s", _name(work), attempt, _represents(work))

    def ended(self, works: Sequence[Work], report: Any) -> None:
        for work in works:
            outcome = work.outcome
            if outcome is None:
                continue
            level = logging.INFO if outcome.state == "succeeded" else logging.WARNING
            why = ""
            if outcome.failure is not None:
                why = f": {printable(outcome.failure.type)}: {printable(outcome.failure.message)}"
            again = report.retrying.get(work.claimed.occurrence)
            then = f"; next attempt at {to_rfc3339(again)}" if again is not None else ""
            late = "; kept as evidence only" if work.claimed.occurrence in report.late else ""
            seconds = outcome.elapsed / 1000
            events.log(level, "%s %s after %.3f s%s%s%s", _name(work), outcome.state, seconds, why, then, late)
        claims = {work.claimed.schedule: work.claimed for work in works}
        for pk in report.paused:
            if pk in claims:
                _paused(claims[pk].namespace, claims[pk].schedule_id)

    def cut_off(self, found: Sequence[Any]) -> None:
        """Attempts whose owner, or host, was gone (``stores.finish.CutOff``)."""
        for one in found:
            then = f"; next attempt at {to_rfc3339(one.retry_at)}" if one.retry_at is not None else ""
            name = _occurrence(one.namespace, one.id, one.series, one.ordinal, one.due)
            events.warning("%s interrupted: whoever ran it is gone%s", name, then)
        for namespace, id in dict.fromkeys((one.namespace, one.id) for one in found if one.paused):
            _paused(namespace, id)

    def hold(self, hold: str | None) -> None:
        if hold is None:
            events.info("the hold on dispatch has ended")
        else:
            events.warning("nothing is dispatched: %s", clock_hold.WHY[hold])

    def advanced(self, schedules: Sequence[Any]) -> None:
        for one in schedules:
            name = _schedule(one.namespace, one.id)
            for r in one.plan.ranges:
                if r.reason is not None:
                    events.info("%s skipped %s: %s", name, _slots(r), r.reason)
            if one.plan.ended:
                events.info("%s ended: %s", name, one.plan.ended)
            if one.plan.refused:
                events.warning("%s refused the whole batch: %s", name, printable(one.plan.refused))


def _paused(namespace: str, schedule_id: str) -> None:
    events.warning("%s paused: too many failures in a row", _schedule(namespace, schedule_id))


def _slots(r: PlannedRange) -> str:
    count = r.last - r.first + 1
    if count == 1:
        return f"the slot of {to_rfc3339(r.first_due)}"
    return f"{count} slots from {to_rfc3339(r.first_due)} to {to_rfc3339(r.last_due)}"


def _schedule(namespace: str, schedule_id: str) -> str:
    name = printable(schedule_id, 100)
    return name if namespace == "default" else f"{printable(namespace, 60)}/{name}"


def _name(work: Work) -> str:
    c = work.claimed
    return _occurrence(c.namespace, c.schedule_id, c.series, c.ordinal, c.due)


def _occurrence(namespace: str, schedule_id: str, series: str, ordinal: int, due: int) -> str:
    aside = "" if series == "slot" else f" ({series})"
    return f"{_schedule(namespace, schedule_id)} #{ordinal}{aside} due {to_rfc3339(due)}"


def _represents(work: Work) -> str:
    count = work.claimed.represents_last - work.claimed.represents_first + 1
    return f", for {count} due times" if count > 1 else ""
