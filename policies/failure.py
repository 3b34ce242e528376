"""An attempt has ended. Is it tried again, or is that the outcome? And when does a schedule that keeps failing pause?

Only failed and timed-out attempts are tried again, and interrupted ones where the schedule says so. Every limit that
stands in the way makes the outcome final, and the first of these names itself as the reason:

    ==========  =======================================================================
    disabled    the schedule is disabled: what fails there is not tried again
    cancelled   the schedule is cancelled
    retries     ``maxRetries`` are used up
    attempts    ``maxAttempts`` are used up
    repeated    ``maxRepeatedFailures`` attempts in a row failed with the same error
    elapsed     the attempts together ran for ``maxElapsedSeconds`` (delays not counted)
    deadline    the next one would start after the deadline
    expired     the next one would start after ``expiresAt``
    ==========  =======================================================================

A paused schedule still decides for a retry. Nothing of it starts before the schedule is resumed, and it is looked at
again when its time has come: see ``at_retry``.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Ending = Literal["succeeded", "failed", "timed_out", "interrupted", "cancelled"]
ScheduleState = Literal["enabled", "disabled", "paused", "ended", "cancelled"]
Reason = Literal["disabled", "cancelled", "retries", "attempts", "repeated", "elapsed", "deadline", "expired"]


class Rules(NamedTuple):
    """What a revision declares about retries; durations in milliseconds."""

    max_retries: int = 0
    max_attempts: int = 20
    max_repeated_failures: int | None = None
    max_elapsed: int | None = None
    delay: int = 10_000
    backoff: float = 2.0
    max_delay: int = 3_600_000
    retry_interrupted: bool = False


class Attempts(NamedTuple):
    """An occurrence's attempts so far, the last one included."""

    made: int  # how many
    elapsed: int = 0  # their execution time
    repeated: int = 1  # how many of the last ones failed with the same error


class Limits(NamedTuple):
    """What else may forbid another attempt."""

    schedule: ScheduleState = "enabled"
    deadline: int | None = None  # instant
    expires_at: int | None = None


class Retry(NamedTuple):
    at: int


class Final(NamedTuple):
    state: Ending
    reason: Reason | None = None  # why it is not tried again, where it could have been


class Hold(NamedTuple):
    """A retry is due while its schedule is paused: look again when that has changed."""


class Start(NamedTuple):
    """A retry may start."""


def after_attempt(rules: Rules, ending: Ending, attempts: Attempts, now: int, limits: Limits) -> Retry | Final:
    """What follows an attempt that ended at ``now``."""
    if ending in ("succeeded", "cancelled") or (ending == "interrupted" and not rules.retry_interrupted):
        return Final(ending)
    at = now + delay(rules, attempts.made)
    reason = _forbidden(limits.schedule) or _used_up(rules, attempts) or _too_late(at, limits)
    if reason is None:
        return Retry(at)
    return Final(ending, None if reason == "retries" and rules.max_retries == 0 else reason)


def at_retry(now: int, limits: Limits) -> Start | Hold | Final:
    """What becomes of a retry whose time has come. Pauses and outages may have delayed it past its limits."""
    reason = _forbidden(limits.schedule) or _too_late(now, limits)
    if reason is not None:
        return Final("cancelled" if reason == "cancelled" else "failed", reason)
    return Hold() if limits.schedule == "paused" else Start()


def delay(rules: Rules, made: int) -> int:
    """How long to wait after the ``made``-th attempt: the declared delay, times the backoff for each one after it."""
    try:
        wanted = rules.delay * rules.backoff ** (made - 1)
    except OverflowError:
        return rules.max_delay
    return round(min(wanted, rules.max_delay))


def _forbidden(schedule: ScheduleState) -> Reason | None:
    return "disabled" if schedule == "disabled" else "cancelled" if schedule == "cancelled" else None


def _used_up(rules: Rules, attempts: Attempts) -> Reason | None:
    if attempts.made > rules.max_retries:
        return "retries"
    if attempts.made >= rules.max_attempts:
        return "attempts"
    if rules.max_repeated_failures is not None and attempts.repeated >= rules.max_repeated_failures:
        return "repeated"
    if rules.max_elapsed is not None and attempts.elapsed >= rules.max_elapsed:
        return "elapsed"
    return None


def _too_late(at: int, limits: Limits) -> Reason | None:
    """Exactly at the deadline or the expiry an attempt may still start."""
    if limits.deadline is not None and at > limits.deadline:
        return "deadline"
    if limits.expires_at is not None and at > limits.expires_at:
        return "expired"
    return None


class Count(NamedTuple):
    failures: int
    pause: bool = False  # the schedule is to be paused, with reason ``failures``


def count(
    failures: int,
    ending: Ending | Literal["skipped"],
    *,
    threshold: int,
    schedule: ScheduleState = "enabled",
    clean_stop: bool = False,
    series: Literal["slot", "manual", "backfill"] = "slot",
) -> Count:
    """The consecutive failures of a schedule after one of its occurrences has ended for good.

    Called once an occurrence, in the order in which outcomes commit. Occurrences of the slot series count only. A
    success starts anew; skipped and cancelled ones leave the count; an interrupted one counts, unless its owner stopped
    in good order. Only an enabled schedule is paused, and only on a failure; a ``threshold`` of 0 never pauses.
    """
    if series != "slot" or ending in ("skipped", "cancelled") or (ending == "interrupted" and clean_stop):
        return Count(failures)
    if ending == "succeeded":
        return Count(0)
    failures += 1
    return Count(failures, pause=0 < threshold <= failures and schedule == "enabled")
