"""What `why` says, case by case. The sentences are the product: each is written out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from calsched.clock import to_millis
from calsched.explain import (
    AttemptFacts,
    BlackoutFacts,
    OccurrenceFacts,
    RangeFacts,
    SkipFacts,
    WhyFacts,
    explain,
)
from calsched.model import Definition, Task


def ms(text: str) -> int:
    from datetime import datetime

    return to_millis(datetime.fromisoformat(text))


DUE = ms("2026-03-09T14:00:00Z")
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
DEFINITION = Definition(
    id="report",
    trigger={"kind": "calendar", "at": ["09:00:00"], "timezone": "Europe/Berlin"},
    task=Task(callable="jobs:send"),
)
BASE = WhyFacts(
    instant=DUE,
    now=DUE + HOUR,
    definition=DEFINITION,
    kind="occurrence",
    revision=2,
    live_revision=2,
    state="enabled",
    zone="America/Winnipeg",
    local="2026-03-09T09:00:00",
    ordinal=41,
)
RAN = OccurrenceFacts(
    ordinal=41,
    due=DUE,
    state="succeeded",
    represents_first=41,
    represents_last=41,
    started_at=DUE + 400,
    finished_at=DUE + 3_600,
    elapsed=3_200,
    attempts=(AttemptFacts(1, "succeeded", DUE + 400, DUE + 3_600, 3_200),),
)
PLACE = "2026-03-09T14:00:00Z (Monday 2026-03-09 09:00:00 in America/Winnipeg) is slot 41 of 'report', revision 2."


def facts(definition: dict[str, Any] | None = None, **changes: Any) -> WhyFacts:
    return replace(BASE, definition=replace(DEFINITION, **(definition or {})), **changes)


def interrupted(late: str) -> OccurrenceFacts:
    """Cut off after 4 s at most, and reported later by whoever ran it."""
    return replace(
        RAN,
        state="interrupted",
        elapsed=4_000,
        attempts=(
            AttemptFacts(1, "interrupted", DUE + 400, DUE + 4_400, 4_000, uncertain=True),
            AttemptFacts(1, late, DUE + 400, DUE + 9_000, 8_600, late=True),
        ),
    )


def covering(reason: str | None = None, **changes: Any) -> RangeFacts:
    plain = RangeFacts(
        first=38,
        last=42,
        first_due=DUE - 3 * HOUR,
        last_due=DUE + HOUR,
        reason=reason,
        created_at=DUE + 2 * HOUR + 12 * MINUTE,
    )
    return replace(plain, **changes)


ONE_SLOT = {"first": 41, "last": 41}

CASES: list[tuple[str, WhyFacts, str, tuple[str, ...]]] = [
    (
        "a plain success",
        facts(occurrence=RAN),
        "succeeded",
        (PLACE, "It ran and succeeded; started 400 ms after it was due and the run took 3.2 s."),
    ),
    (
        "a success that represents the slots of an outage",
        facts(occurrence=replace(RAN, represents_first=38)),
        "succeeded",
        (
            PLACE,
            "It ran and succeeded; started 400 ms after it was due and the run took 3.2 s.",
            "It represents slots 38–41 (4 of them): misfire runOnce made one occurrence of all that were due.",
        ),
    ),
    (
        "a failure after its retries",
        facts(
            {"max_retries": 1},
            occurrence=replace(
                RAN,
                state="failed",
                reason="retries",
                started_at=DUE + 15_000,
                elapsed=2_500,
                error_type="ValueError",
                error="no figures",
                attempts=(
                    AttemptFacts(1, "timed_out", DUE, DUE + 2_000, 2_000),
                    AttemptFacts(
                        2, "failed", DUE + 15_000, DUE + 15_500, 500, error_type="ValueError", error="no figures"
                    ),
                ),
            ),
        ),
        "failed",
        (
            PLACE,
            "It ran and failed for good; no retry is left (maxRetries 1); the last attempt started 15 s after it was"
            " due and the run took 2.5 s: ValueError: no figures.",
            "Attempt 1 timed out after 2 s.",
            "Attempt 2 failed after 500 ms (ValueError: no figures).",
        ),
    ),
    (
        "an interruption, with the time as an upper bound",
        facts(
            occurrence=interrupted("succeeded")
        ),
        "interrupted",
        (
            PLACE,
            "It was interrupted: it had started, and its owner was lost or stopped before it ended;"
            " started 400 ms after it was due and the run took at most 4 s.",
            "A fenced owner reported later that attempt 1 succeeded after 8.6 s: evidence only.",
            "It is not run again by itself (onInterrupted never); `calsched backfill report --from"
            " 2026-03-09T14:00:00Z --to 2026-03-09T14:00:00Z` runs it.",
        ),
    ),
    (
        "a host that let its lease run out, and reported too late; a backfill has made up for it",
        facts(
            {"task": Task(kind="ready", task_class="review")},
            occurrence=interrupted("failed"),
            extra=(replace(RAN, series="backfill", ordinal=3, started_at=DUE + HOUR),),
        ),
        "interrupted",
        (
            PLACE,
            "It was interrupted: a host had claimed it, and its lease ran out before it was done;"
            " started 400 ms after it was due and the run took at most 4 s.",
            "Its host reported too late that attempt 1 failed after 8.6 s: evidence only.",
            "Backfill 3 ran and succeeded; started 1 h after it was due and the run took 3.2 s.",
        ),
    ),
    (
        "running",
        facts(occurrence=replace(RAN, state="running", attempts=(), started_at=DUE + HOUR - 90 * SECOND)),
        "running",
        (PLACE, "It has been running for 1 min 30 s."),
    ),
    (
        "cancelled before it began",
        facts(occurrence=OccurrenceFacts(ordinal=41, due=DUE, state="cancelled", note="not this month")),
        "cancelled",
        (PLACE, "It was cancelled before it started.", "Note: not this month"),
    ),
    (
        "waiting in a queue",
        facts({"overlap": "queue"}, occurrence=OccurrenceFacts(ordinal=41, due=DUE, state="waiting")),
        "waiting",
        (PLACE, "It waits behind earlier work of the schedule (overlap queue)."),
    ),
    (
        "held by a pause",
        facts(
            state="paused",
            reason="operator",
            changed_by="ana",
            changed_at=DUE,
            note="stocktaking",
            occurrence=OccurrenceFacts(ordinal=41, due=DUE, state="ready"),
        ),
        "ready",
        (
            PLACE,
            "It is ready and held, because the schedule is paused by ana since 2026-03-09T14:00:00Z (stocktaking).",
        ),
    ),
    (
        "ready with jitter",
        facts(
            {"jitter": 90_000},
            now=DUE,
            occurrence=OccurrenceFacts(ordinal=41, due=DUE, state="ready", run_at=DUE + 42_000),
        ),
        "ready",
        (PLACE, "It is ready and will run at 2026-03-09T14:00:42Z, 42 s after its due instant (jitterSeconds 90)."),
    ),
    (
        "ready, and no owner",
        facts(owner_lives=False, occurrence=OccurrenceFacts(ordinal=41, due=DUE, state="ready", run_at=DUE)),
        "ready",
        (PLACE, "It is ready to run; no owner lives, so nobody claims it."),
    ),
    (
        "skipped as an occurrence, by an overlap",
        facts({"overlap": "skip"}, occurrence=OccurrenceFacts(ordinal=41, due=DUE, state="skipped", reason="overlap")),
        "skipped",
        (
            PLACE,
            "It did not run: the schedule still had pending work, and overlap skip skips what comes meanwhile.",
        ),
    ),
    (
        "late under misfire skip",
        facts({"misfire": "skip"}, kind="skipped", range=covering("misfire")),
        "skipped",
        (
            PLACE,
            "It did not run: the tick at 2026-03-09T16:12:00Z came 2 h 12 min late, and misfire skip drops slots that"
            " are later than graceSeconds 60. It is one of slots 38–42 (5 of them), skipped together.",
        ),
    ),
    (
        "beyond the replay limit",
        facts(
            {"misfire": "boundedReplay", "replay_limit": 2}, kind="skipped", range=covering("replayLimit", **ONE_SLOT)
        ),
        "skipped",
        (
            PLACE,
            "It did not run: misfire boundedReplay runs the oldest 2 of what is due (replayLimit 2)"
            " and drops the remainder.",
        ),
    ),
    (
        "passed over by a disable, without use of the budget",
        facts({"max_occurrences": 100}, kind="skipped", range=covering("disabled", counted=False, **ONE_SLOT)),
        "skipped",
        (
            PLACE,
            "It did not run: the schedule was disabled or paused by failures, and enabling it replays nothing."
            " It used nothing of maxOccurrences.",
        ),
    ),
    (
        "skipped by an operator, with the note",
        facts(kind="skipped", range=covering("operator", note="audit day", **ONE_SLOT)),
        "skipped",
        (PLACE, "It did not run: an operator asked for it to be skipped.", "Note: audit day"),
    ),
    (
        "represented by the last slot of an outage",
        facts(
            kind="represented",
            range=covering(first=38, last=43),
            occurrence=replace(
                RAN,
                ordinal=44,
                due=DUE + 2 * HOUR,
                represents_first=38,
                represents_last=44,
                started_at=DUE + 2 * HOUR + 13 * MINUTE,
            ),
        ),
        "represented",
        (
            PLACE,
            "It had no run of its own: the tick at 2026-03-09T16:12:00Z came 2 h 12 min late, and misfire runOnce made"
            " one occurrence of all that were due: slot 44 (due 2026-03-09T16:00:00Z), which represents slots 38–44"
            " (7 of them).",
            "That occurrence ran and succeeded; started 13 min after it was due and the run took 3.2 s.",
        ),
    ),
    (
        "folded into one that waited",
        facts(
            kind="represented",
            range=covering(first=41, last=42),
            occurrence=OccurrenceFacts(
                ordinal=40, due=DUE - HOUR, state="waiting", represents_first=40, represents_last=42
            ),
        ),
        "represented",
        (
            PLACE,
            "It had no run of its own: overlap coalesce folded it into slot 40 (due 2026-03-09T13:00:00Z), which was"
            " still waiting and represents slots 40–42 (3 of them).",
            "That occurrence waits behind earlier work of the schedule (overlap coalesce).",
        ),
    ),
    (
        "pruned",
        facts(kind="pruned", revision=1),
        "pruned",
        (
            PLACE.replace("revision 2.", "revision 1 (revision 2 is the live one)."),
            "It was judged, but its history has been pruned; only the ordinal is left.",
        ),
    ),
    (
        "due and not judged, because nobody ticks",
        facts(kind="unjudged", owner_lives=False, ordinal=None),
        "unjudged",
        (
            PLACE.replace("slot 41", "a due instant of the rule"),
            "It has been due for 1 h and is not judged yet; no owner lives, so nobody ticks.",
        ),
    ),
    (
        "due and not judged while paused",
        facts(kind="unjudged", state="paused", reason="operator", changed_by="ana"),
        "unjudged",
        (
            PLACE,
            "It has been due for 1 h and is not judged: the schedule is paused by ana."
            " Resuming it applies misfire runOnce to what accumulated.",
        ),
    ),
    (
        "passed while disabled",
        facts(kind="unjudged", state="disabled", reason="retired", changed_by="deploy", changed_at=DUE - HOUR),
        "unjudged",
        (
            PLACE,
            "Nothing was due then: the schedule is disabled because the files of its owner declare it no longer since"
            " 2026-03-09T13:00:00Z. Enabling it records what was passed over as one skipped range.",
        ),
    ),
    (
        "past the end of the budget",
        facts({"max_occurrences": 7}, kind="none", state="ended", reason="maxOccurrences", changed_by="ana"),
        "none",
        (PLACE, "No verdict is due: the schedule is ended because maxOccurrences 7 is used up."),
    ),
    (
        "not judged while paused by failures",
        facts(kind="unjudged", state="paused", reason="failures", changed_at=DUE - HOUR),
        "unjudged",
        (
            PLACE,
            "It has been due for 1 h and is not judged: the schedule is paused after 5 failures in a row"
            " (pauseAfterFailures) since 2026-03-09T13:00:00Z. Enabling it computes from now and records what was"
            " passed over as one skipped range.",
        ),
    ),
    (
        "to come",
        facts({"max_occurrences": 50}, kind="future", now=DUE - 90 * MINUTE, used=12),
        "future",
        (
            PLACE,
            "It is not due yet (1 h 30 min from now). It will run then. Should the tick come more than graceSeconds 60"
            " late, misfire runOnce runs one occurrence for the last slot that is due, which represents the others."
            " Should work still be pending, overlap coalesce keeps one waiting and folds further ones into it."
            " maxOccurrences has 38 of 50 left.",
        ),
    ),
    (
        "to come, while nothing is dispatched",
        facts({"misfire": "apscheduler"}, kind="future", now=DUE - MINUTE, hold="restored"),
        "future",
        (
            PLACE,
            "It is not due yet (1 min from now). It will run then, unless APScheduler's misfire_grace_time, coalesce"
            " or max_instances drops it.",
            "Nothing is dispatched at present: a backup was restored, until `calsched backlog` decides on what was"
            " missed.",
        ),
    ),
    (
        "to come, but an operator does not want it",
        facts(kind="future", now=DUE - MINUTE, skip=SkipFacts("ana", "public holiday")),
        "future",
        (
            PLACE,
            "It is not due yet (1 min from now). It will not run: ana asked for it to be skipped (public holiday).",
        ),
    ),
    (
        "to come, in a blackout that holds",
        facts(kind="future", now=DUE - MINUTE, blackout=BlackoutFacts(DUE + HOUR, skips=False, note="month end")),
        "future",
        (
            PLACE,
            "It is not due yet (1 min from now). It falls into a declared blackout (month end) and will be held until"
            " 2026-03-09T15:00:00Z.",
        ),
    ),
    (
        "to come, in a blackout that skips",
        facts(kind="future", now=DUE - MINUTE, blackout=BlackoutFacts(DUE + HOUR, skips=True)),
        "future",
        (
            PLACE,
            "It is not due yet (1 min from now). It will not run: it falls into a declared blackout, whose whenDue is"
            " skip.",
        ),
    ),
    (
        "to come, past the expiry",
        facts({"expires_at": DUE - 1}, kind="future", now=DUE - HOUR),
        "future",
        (
            PLACE,
            "It is not due yet (1 h from now). It will not run: the schedule expires at 2026-03-09T13:59:59.999Z"
            " (expiresAt).",
        ),
    ),
    (
        "to come, while disabled",
        facts(kind="future", now=DUE - HOUR, state="disabled", reason="operator", changed_by="ana"),
        "future",
        (
            PLACE,
            "It is not due yet (1 h from now), and the schedule is disabled by ana: unless it is enabled before, the"
            " slot will be passed over.",
        ),
    ),
    (
        "before the revision began",
        facts(kind="none", ordinal=None, begun_at=DUE + HOUR, first_due=DUE + 24 * HOUR),
        "none",
        (
            PLACE.replace("slot 41", "a due instant of the rule"),
            "No verdict is due: revision 2 began at 2026-03-09T15:00:00Z; its first slot is 2026-03-10T14:00:00Z, and"
            " backlog fromNow reaches no further back.",
        ),
    ),
    (
        "no slot, but a run that was asked for then",
        facts(
            kind="notASlot",
            ordinal=None,
            revision=1,
            not_a_slot="15:00 is not one of its times: 09:00",
            next_slot=DUE + 24 * HOUR,
            extra=(replace(RAN, series="manual", ordinal=0, state="skipped", reason="expired"),),
        ),
        "notASlot",
        (
            "2026-03-09T14:00:00Z (Monday 2026-03-09 09:00:00 in America/Winnipeg) is not a due instant of 'report',"
            " revision 1 (revision 2 is the live one), which is due at 09:00 every day in Europe/Berlin: 15:00 is not"
            " one of its times: 09:00.",
            "The nearest due instant is 2026-03-10T14:00:00Z after it.",
            "Manual run 0 did not run: the schedule had expired (expiresAt none).",
        ),
    ),
    (
        "no slot, in a gap",
        facts(
            kind="notASlot",
            ordinal=None,
            local=None,
            not_a_slot="02:30 does not exist on 2026-03-08 in America/New_York; gap: skip",
            previous_slot=DUE - 24 * HOUR,
            next_slot=DUE + 24 * HOUR,
        ),
        "notASlot",
        (
            "2026-03-09T14:00:00Z is not a due instant of 'report' (at 09:00 every day in Europe/Berlin):"
            " 02:30 does not exist on 2026-03-08 in America/New_York; gap: skip.",
            "The nearest due instants are 2026-03-08T14:00:00Z before it, and 2026-03-10T14:00:00Z after it.",
        ),
    ),
]


@pytest.mark.parametrize(("facts", "verdict", "sentences"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_why_says_the_verdict_and_its_reason(facts: WhyFacts, verdict: str, sentences: tuple[str, ...]) -> None:
    told = explain(facts)
    assert (told.verdict, told.sentences) == (verdict, sentences)


@pytest.mark.parametrize(
    "reason",
    ["misfire", "replayLimit", "overlap", "queueFull", "maxOccurrences", "expired", "maxLateness", "rateLimit",
     "operator", "blackout", "disabled", "revised", "cancelled", "backlog", "maxInstances"],
)  # fmt: skip
def test_every_reason_of_the_model_has_a_sentence_of_its_own(reason: str) -> None:
    told = explain(facts(kind="skipped", range=covering(reason)))
    assert told.sentences[1].startswith("It did not run: ")
    assert "reason " not in told.sentences[1]


def test_a_reason_of_a_later_release_is_still_named() -> None:
    assert "skipped, reason solarFlare" in str(explain(facts(kind="skipped", range=covering("solarFlare"))))
