"""Why an instant has the verdict that it has: sentences for an operator, from facts that others looked up.

Pure: ``explain`` reads no store and no clock. The sentences name the policy, its numbers and the occurrence that stands
for a slot, in the words of ``docs/glossary.md``.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from calsched.clock import to_datetime, to_rfc3339
from calsched.model import FINAL_STATES, Definition
from calsched.policies import clock_hold
from calsched.triggers.describe import describe
from calsched.words import counted, spell

Kind = Literal[
    "occurrence",  # the slot has a row of its own (of any state)
    "represented",  # another occurrence stands for it
    "skipped",  # it lies in a skipped range
    "pruned",  # it was judged, and its history has been pruned
    "unjudged",  # due, and no tick has come by
    "future",  # a slot that is not due yet
    "none",  # a slot of the rule that this revision never had, or will not have
    "notASlot",
]


class AttemptFacts(NamedTuple):
    number: int
    state: str
    started_at: int | None
    ended_at: int
    elapsed: int
    uncertain: bool = False
    late: bool = False
    error_type: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OccurrenceFacts:
    ordinal: int
    due: int
    state: str
    series: str = "slot"
    run_at: int | None = None
    reason: str | None = None
    note: str | None = None
    represents_first: int | None = None
    represents_last: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    created_at: int | None = None
    elapsed: int = 0
    error_type: str | None = None
    error: str | None = None
    attempts: tuple[AttemptFacts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeFacts:
    first: int
    last: int
    first_due: int
    last_due: int
    reason: str | None = None
    note: str | None = None
    counted: bool = True
    created_at: int | None = None


class SkipFacts(NamedTuple):
    """A wish of an operator that a due instant be skipped, not yet judged."""

    principal: str
    note: str | None = None


class BlackoutFacts(NamedTuple):
    """A declared window: what is due in it is held until its end, or skipped."""

    end: int
    skips: bool
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyFacts:
    """All that is known of one instant and one schedule. ``definition`` is that of ``revision``."""

    instant: int
    now: int
    definition: Definition
    kind: Kind
    revision: int
    live_revision: int
    state: str
    reason: str | None = None
    note: str | None = None
    changed_by: str | None = None
    changed_at: int | None = None
    resume_at: int | None = None
    zone: str | None = None
    local: str | None = None  # nominal wall time of the slot
    ordinal: int | None = None
    not_a_slot: str | None = None  # the trigger's own reason
    marks: tuple[str, ...] = ()
    previous_slot: int | None = None
    next_slot: int | None = None
    occurrence: OccurrenceFacts | None = None  # its own, or the one that represents it
    range: RangeFacts | None = None
    skip: SkipFacts | None = None
    blackout: BlackoutFacts | None = None  # the declared window that covers it
    begun_at: int | None = None  # when the revision was created
    first_due: int | None = None  # its first slot
    ended_at_ordinal: int | None = None  # of a revision that was replaced
    used: int = 0
    attention: str | None = None
    hold: str | None = None
    owner_lives: bool = True
    extra: tuple[OccurrenceFacts, ...] = ()  # extra runs for this instant, newest first: backfills, and what `run` made


@dataclass(frozen=True, slots=True)
class Explanation:
    """``verdict`` is one word for programs, ``sentences`` are for people; the first one says the verdict."""

    verdict: str
    sentences: tuple[str, ...] = field(default_factory=tuple)

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def explain(facts: WhyFacts) -> Explanation:
    """The one verdict on an instant, and how it came about."""
    verdict, sentences = _BY_KIND[facts.kind](facts)
    return Explanation(verdict, (_place(facts), *sentences, *(_extra(facts, one) for one in facts.extra)))


def at(instant: int, zone_text: str | None = None) -> str:
    return f"{to_rfc3339(instant)} ({zone_text})" if zone_text else to_rfc3339(instant)


def _place(facts: WhyFacts) -> str:
    """Which instant it is, and whether it is a slot."""
    where = at(facts.instant, _local(facts))
    name = f"{facts.definition.id!r}"
    replaced = "" if facts.revision == facts.live_revision else f" (revision {facts.live_revision} is the live one)"
    if facts.kind == "notASlot":
        rule = describe(facts.definition.trigger)
        of = f"{name}, revision {facts.revision}{replaced}, which is due {rule}" if replaced else f"{name} ({rule})"
        return f"{where} is not a due instant of {of}: {facts.not_a_slot or 'the rule yields none there'}."
    ordinal = f"slot {facts.ordinal}" if facts.ordinal is not None else "a due instant of the rule"
    marks = f", {'; '.join(facts.marks)}" if facts.marks else ""
    return f"{where} is {ordinal} of {name}, revision {facts.revision}{replaced}{marks}."


def _local(facts: WhyFacts) -> str | None:
    if facts.local is None or facts.zone is None:
        return None
    day, _, time = facts.local.partition("T")
    return f"{_weekday(day)} {day} {time} in {facts.zone}"


def _weekday(day: str) -> str:
    year, month, number = (int(part) for part in day.split("-"))
    return _DAYS[to_datetime(0).replace(year=year, month=month, day=number).weekday()]


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

Told = tuple[str, Sequence[str]]


# A row of its own


def _occurrence(facts: WhyFacts) -> Told:
    found = facts.occurrence
    assert found is not None
    if found.state == "skipped":
        return "skipped", (_skipped_occurrence(facts, found), *_aside(found))
    told = _final(facts, found) if found.state in FINAL_STATES else _open(facts, found)
    return found.state, (told, *_attempts(facts, found), *_stands_for(facts, found), *_not_again(facts), *_aside(found))


def _not_again(facts: WhyFacts) -> list[str]:
    """What an operator asks after a crash."""
    found, d = facts.occurrence, facts.definition
    if found is None or found.state != "interrupted" or d.on_interrupted != "never" or facts.extra:
        return []
    due = to_rfc3339(found.due)
    by_hand = f"`calsched backfill {shlex.quote(d.id)} --from {due} --to {due}` runs it"
    return [f"It is not run again by itself (onInterrupted never); {by_hand}."]


def _final(facts: WhyFacts, found: OccurrenceFacts) -> str:
    end = _ENDS[found.state]
    if found.state == "interrupted" and facts.definition.task.kind == "ready":
        end = "was interrupted: a host had claimed it, and its lease ran out before it was done"
    parts = [f"It {end}" if _begun(found) else f"It {_UNBEGUN.get(found.state, end)}"]
    if found.state in ("failed", "timed_out", "interrupted") and found.reason:
        parts.append(_why_final(facts, found))
    if _begun(found) and found.started_at is not None:
        delay = found.started_at - found.due
        last = "the last attempt started" if len(_counted(found)) > 1 else "started"
        parts.append(f"{last} {spell(max(delay, 0))} after it was due and the run took {_taken(found)}")
    text = "; ".join(parts)
    return f"{text}: {_error(found)}." if found.error_type or found.error else f"{text}."


_ENDS = {
    "succeeded": "ran and succeeded",
    "failed": "ran and failed for good",
    "timed_out": "ran and timed out",
    "interrupted": "was interrupted: it had started, and its owner was lost or stopped before it ended",
    "cancelled": "was cancelled while it ran",
}
_UNBEGUN = {
    "cancelled": "was cancelled before it started",
    "failed": "failed before it started",
    "interrupted": "was interrupted before it started",
}


def _begun(found: OccurrenceFacts) -> bool:
    return found.started_at is not None or bool(found.attempts)


def _taken(found: OccurrenceFacts) -> str:
    uncertain = any(attempt.uncertain for attempt in found.attempts)
    return f"at most {spell(found.elapsed)}" if uncertain else spell(found.elapsed)


def _error(found: OccurrenceFacts | AttemptFacts) -> str:
    return ": ".join(part for part in (found.error_type, found.error) if part)


def _why_final(facts: WhyFacts, found: OccurrenceFacts) -> str:
    d = facts.definition
    sentences = {
        "retries": f"no retry is left (maxRetries {d.max_retries})",
        "attempts": f"no attempt is left (maxAttempts {d.max_attempts})",
        "repeated": f"the same error came {d.max_repeated_failures} times in a row (maxRepeatedFailures)",
        "elapsed": f"its execution time is used up (maxElapsedSeconds {_s(d.max_elapsed)})",
        "deadline": f"a retry would come after its deadline (deadlineSeconds {_s(d.deadline)} from the due instant)",
        "expired": f"a retry would come after expiresAt {_instant(d.expires_at)}",
        "disabled": "the schedule was disabled before the retry",
        "cancelled": "it was cancelled before the retry",
    }
    return sentences.get(found.reason or "", found.reason or "")


def _open(facts: WhyFacts, found: OccurrenceFacts) -> str:
    d = facts.definition
    if facts.state == "paused" and found.state in ("waiting", "ready", "retrying"):
        return f"It is {found.state} and held, because the schedule is {_state(facts)}."
    if facts.hold and found.state in ("waiting", "ready", "retrying"):
        return f"It is {found.state} and held: {_hold(facts)}."
    if found.state == "waiting":
        what = f"overlap allow, maxConcurrent {d.max_concurrent}" if d.overlap == "allow" else f"overlap {d.overlap}"
        return f"It waits behind earlier work of the schedule ({what})."
    if found.state == "retrying":
        return f"It failed and will be tried again at {_instant(found.run_at)} (maxRetries {d.max_retries})."
    if found.state == "running":
        since = f" for {spell(max(facts.now - found.started_at, 0))}" if found.started_at is not None else ""
        return f"It has been {'with its host' if d.task.kind == 'ready' else 'running'}{since}."
    if found.state == "claimed":
        return "An owner has claimed it and will start it as soon as a worker is free."
    return _ready(facts, found)


def _ready(facts: WhyFacts, found: OccurrenceFacts) -> str:
    if found.run_at is not None and found.run_at > facts.now:
        late = spell(found.run_at - found.due)
        jitter = f"jitterSeconds {_s(facts.definition.jitter)}"
        return f"It is ready and will run at {to_rfc3339(found.run_at)}, {late} after its due instant ({jitter})."
    if facts.definition.task.kind == "ready":
        return "It is ready; its host has not claimed it yet."
    return f"It is ready to run; {_who_acts(facts, 'claims it')}."


def _attempts(facts: WhyFacts, found: OccurrenceFacts) -> list[str]:
    """Earlier tries, and reports that came too late; a single plain attempt is told already."""
    tries = _counted(found)
    sentences = [f"Attempt {a.number} {_ended(a)}." for a in (tries if len(tries) > 1 else ())]
    late = [a for a in found.attempts if a.late]
    who = "Its host reported too late" if facts.definition.task.kind == "ready" else "A fenced owner reported later"
    sentences += [f"{who} that attempt {a.number} {_ended(a)}: evidence only." for a in late]
    return sentences


def _counted(found: OccurrenceFacts) -> list[AttemptFacts]:
    return [attempt for attempt in found.attempts if not attempt.late]


def _ended(attempt: AttemptFacts) -> str:
    bound = "at most " if attempt.uncertain else ""
    text = f"{attempt.state.replace('_', ' ')} after {bound}{spell(attempt.elapsed)}"
    return f"{text} ({_error(attempt)})" if _error(attempt) else text


def _stands_for(facts: WhyFacts, found: OccurrenceFacts) -> list[str]:
    first, last = found.represents_first, found.represents_last
    if first is None or last is None or first == last:
        return []
    d = facts.definition
    how = []
    if first < found.ordinal:
        how.append(f"misfire {d.misfire} made one occurrence of all that were due")
    if last > found.ordinal:
        how.append(f"overlap {d.overlap} folded later ones into it while it waited")
    return [f"It represents {_slots(first, last)}: {', and '.join(how)}."]


def _extra(facts: WhyFacts, found: OccurrenceFacts) -> str:
    """An extra run, which leaves the verdict on the slot as it is."""
    if found.state == "skipped":
        told = _skipped_occurrence(facts, found)
    else:
        told = _final(facts, found) if found.state in FINAL_STATES else _open(facts, found)
    return told.replace("It ", f"{'Backfill' if found.series == 'backfill' else 'Manual run'} {found.ordinal} ", 1)


def _hold(facts: WhyFacts) -> str:
    return clock_hold.WHY.get(facts.hold or "", facts.hold or "")


def _aside(row: OccurrenceFacts | RangeFacts) -> list[str]:
    return [f"Note: {row.note}"] if row.note else []


# No row of its own


def _represented(facts: WhyFacts) -> Told:
    found = facts.occurrence
    assert found is not None
    first, last = found.represents_first, found.represents_last
    span = f" represents {_slots(first, last)}" if first is not None and last is not None else " stands for it"
    told = _final(facts, found) if found.state in FINAL_STATES else _open(facts, found)
    how = f"It had no run of its own: {_stand_in(facts, found)}{span}."
    told = told.replace("It ", "That occurrence ", 1)
    return "represented", (how, told, *_attempts(facts, found), *_not_again(facts))


def _stand_in(facts: WhyFacts, found: OccurrenceFacts) -> str:
    """How another occurrence came to stand for the slot; a verb follows."""
    d = facts.definition
    other = f"slot {found.ordinal} (due {to_rfc3339(found.due)})"
    if facts.ordinal is not None and found.ordinal < facts.ordinal:
        return f"overlap {d.overlap} folded it into {other}, which was still waiting and"
    if d.misfire == "apscheduler":
        return f"APScheduler's coalesce made one run of all that were due: {other}, which"
    return f"{_judged(facts, facts.range)}misfire {d.misfire} made one occurrence of all that were due: {other}, which"


def _skipped_range(facts: WhyFacts) -> Told:
    covering = facts.range
    assert covering is not None
    reason = covering.reason or ""
    why = _because(facts, reason, covering)
    parts = [f"It did not run: {why}."]
    if covering.first != covering.last:
        parts.append(f"It is one of {_slots(covering.first, covering.last)}, skipped together.")
    if not covering.counted and facts.definition.max_occurrences:
        parts.append("It used nothing of maxOccurrences.")
    return "skipped", (" ".join(parts), *_aside(covering))


def _skipped_occurrence(facts: WhyFacts, found: OccurrenceFacts) -> str:
    return f"It did not run: {_because(facts, found.reason or '', None)}."


def _because(facts: WhyFacts, reason: str, covering: RangeFacts | None) -> str:
    tell = _REASONS.get(reason)
    return f"skipped, reason {reason}" if tell is None else tell(facts, covering)


def _judged(facts: WhyFacts, covering: RangeFacts | None) -> str:
    """When, and how late; nothing where the range was extended later and its row tells an earlier time."""
    if covering is None or covering.created_at is None or covering.created_at < facts.instant:
        return ""
    late = spell(covering.created_at - facts.instant)
    return f"the tick at {to_rfc3339(covering.created_at)} came {late} late, and "


def _by_misfire(facts: WhyFacts, covering: RangeFacts | None) -> str:
    d = facts.definition
    if d.misfire == "apscheduler":
        return f"{_judged(facts, covering)}misfire_grace_time allows less"
    return f"{_judged(facts, covering)}misfire {d.misfire} drops slots that are later than graceSeconds {_s(d.grace)}"


def _by_replay(facts: WhyFacts, covering: RangeFacts | None) -> str:
    limit = facts.definition.replay_limit
    return f"misfire boundedReplay runs the oldest {limit} of what is due (replayLimit {limit}) and drops the remainder"


def _by_lateness(facts: WhyFacts, covering: RangeFacts | None) -> str:
    return f"{_judged(facts, covering)}maxLatenessSeconds {_s(facts.definition.max_lateness)} admits nothing later"


def _by_rate(facts: WhyFacts, covering: RangeFacts | None) -> str:
    d = facts.definition
    return f"rateLimit {d.rate_limit} within rateWindowSeconds {_s(d.rate_window)} was used up"


def _by_state(action: str) -> Callable[[WhyFacts, RangeFacts | None], str]:
    return lambda _facts, _covering: action


def _by_overlap(facts: WhyFacts, covering: RangeFacts | None) -> str:
    return f"the schedule still had pending work, and overlap {facts.definition.overlap} skips what comes meanwhile"


def _by_instances(facts: WhyFacts, covering: RangeFacts | None) -> str:
    limit = (facts.definition.apscheduler or {}).get("max_instances", 1)
    return f"APScheduler's max_instances ({limit}) ran already"


_REASONS: dict[str, Callable[[WhyFacts, RangeFacts | None], str]] = {
    "misfire": _by_misfire,
    "replayLimit": _by_replay,
    "overlap": _by_overlap,
    "queueFull": lambda f, _: f"the queue was full (overlap queue, maxQueued {f.definition.max_queued:,})",
    "maxOccurrences": lambda f, _: f"the revision had used up its maxOccurrences {f.definition.max_occurrences}",
    "expired": lambda f, _: f"the schedule had expired (expiresAt {_instant(f.definition.expires_at)})",
    "maxLateness": _by_lateness,
    "rateLimit": _by_rate,
    "deadline": lambda f, _: f"its deadline passed while it waited (deadlineSeconds {_s(f.definition.deadline)})",
    "operator": _by_state("an operator asked for it to be skipped"),
    "blackout": _by_state("it fell into a declared blackout"),
    "disabled": _by_state("the schedule was disabled or paused by failures, and enabling it replays nothing"),
    "revised": _by_state("the revision was replaced before a tick judged it"),
    "cancelled": _by_state("the revision was cancelled before a tick judged it"),
    "backlog": _by_state("it was missed while the store was away, and an operator dropped the backlog of the restore"),
    "maxInstances": _by_instances,
}


def _pruned(facts: WhyFacts) -> Told:
    return "pruned", ("It was judged, but its history has been pruned; only the ordinal is left.",)


def _unjudged(facts: WhyFacts) -> Told:
    since = spell(facts.now - facts.instant)
    if facts.state == "paused":
        then = _on_resume(facts)
        return "unjudged", (f"It has been due for {since} and is not judged: the schedule is {_state(facts)}.{then}",)
    if facts.state == "disabled":
        passed = "Enabling it records what was passed over as one skipped range"
        return "unjudged", (f"Nothing was due then: the schedule is {_state(facts)}. {passed}.",)
    if facts.attention:
        return "unjudged", (f"It has been due for {since} and is not judged: {facts.attention}.",)
    return "unjudged", (f"It has been due for {since} and is not judged yet; {_who_acts(facts, 'ticks')}.",)


def _on_resume(facts: WhyFacts) -> str:
    if facts.reason in ("failures", "invalid"):
        return " Enabling it computes from now and records what was passed over as one skipped range."
    return f" Resuming it applies misfire {facts.definition.misfire} to what accumulated."


def _who_acts(facts: WhyFacts, verb: str) -> str:
    return f"the owner {verb} within a poll interval" if facts.owner_lives else f"no owner lives, so nobody {verb}"


# What is to come, and what never was


def _future(facts: WhyFacts) -> Told:
    soon = f"It is not due yet ({spell(facts.instant - facts.now)} from now)"
    if facts.state != "enabled":
        return "future", (f"{soon}, and the schedule is {_state(facts)}: {_NOT_COLLECTING[facts.state](facts)}.",)
    stopped = _will_not(facts)
    if stopped:
        return "future", (f"{soon}. It will not run: {stopped}.",)
    sentences = [f"{soon}. {_will(facts)}"]
    if facts.hold:
        sentences.append(f"Nothing is dispatched at present: {_hold(facts)}.")
    if not facts.owner_lives:
        sentences.append("No owner lives now; without one nothing ticks, and it will be judged when one comes back.")
    return "future", (*sentences, *_jitter(facts))


def _will_not(facts: WhyFacts) -> str | None:
    d = facts.definition
    if facts.skip is not None:
        note = f" ({facts.skip.note})" if facts.skip.note else ""
        return f"{facts.skip.principal} asked for it to be skipped{note}"
    if d.expires_at is not None and facts.instant > d.expires_at:
        return f"the schedule expires at {to_rfc3339(d.expires_at)} (expiresAt)"
    if facts.blackout is not None and facts.blackout.skips:
        return f"it falls into a declared blackout{_noted(facts.blackout)}, whose whenDue is skip"
    return None


def _noted(blackout: BlackoutFacts) -> str:
    return f" ({blackout.note})" if blackout.note else ""


def _will(facts: WhyFacts) -> str:
    d = facts.definition
    text = (
        f"It will run then. Should the tick come more than graceSeconds {_s(d.grace)} late,"
        f" {_IF_LATE.get(d.misfire, '')}. Should work still be pending, {_IF_BUSY.get(d.overlap, '')}."
    )
    if d.misfire == "apscheduler":
        text = "It will run then, unless APScheduler's misfire_grace_time, coalesce or max_instances drops it."
    if facts.blackout is not None:
        end = to_rfc3339(facts.blackout.end)
        text = f"It falls into a declared blackout{_noted(facts.blackout)} and will be held until {end}."
    if d.max_occurrences is not None:
        text += f" maxOccurrences has {max(d.max_occurrences - facts.used, 0)} of {d.max_occurrences} left."
    return text


_IF_LATE = {
    "runOnce": "misfire runOnce runs one occurrence for the last slot that is due, which represents the others",
    "skip": "misfire skip records it as skipped",
    "boundedReplay": "misfire boundedReplay runs the oldest slots up to replayLimit and skips the remainder",
    "catchUp": "misfire catchUp runs it all the same, oldest first",
}
_IF_BUSY = {
    "queue": "overlap queue lets it wait its turn",
    "skip": "overlap skip records it as skipped",
    "coalesce": "overlap coalesce keeps one waiting and folds further ones into it",
    "allow": "overlap allow runs it beside the others, up to maxConcurrent",
}


def _jitter(facts: WhyFacts) -> list[str]:
    seconds = facts.definition.jitter
    return [f"Its start is spread by less than jitterSeconds {_s(seconds)}."] if seconds else []


_NOT_COLLECTING: dict[str, Callable[[WhyFacts], str]] = {
    "paused": lambda f: (
        "unless it is enabled before, the slot will be passed over"
        if f.reason in ("failures", "invalid")
        else f"unless it is resumed before, it will accumulate, and resuming applies misfire {f.definition.misfire}"
    ),
    "disabled": lambda f: "unless it is enabled before, the slot will be passed over",
    "ended": lambda f: "this revision yields no further occurrence",
    "cancelled": lambda f: "this revision yields no further occurrence",
}


def _none(facts: WhyFacts) -> Told:
    if facts.begun_at is not None and facts.instant < facts.begun_at:
        first = f"; its first slot is {to_rfc3339(facts.first_due)}" if facts.first_due is not None else ""
        began = f"revision {facts.revision} began at {to_rfc3339(facts.begun_at)}{first}"
        return "none", (f"No verdict is due: {began}, and backlog fromNow reaches no further back.",)
    if facts.first_due is not None and facts.instant < facts.first_due:
        return "none", (f"No verdict is due: revision {facts.revision} starts at {to_rfc3339(facts.first_due)}.",)
    if facts.state in ("ended", "cancelled"):
        return "none", (f"No verdict is due: the schedule is {_state(facts)}.",)
    return "none", (f"No verdict is due: revision {facts.revision} did not reach it.",)


def _not_a_slot(facts: WhyFacts) -> Told:
    around = (("before", facts.previous_slot), ("after", facts.next_slot))
    near = [f"{to_rfc3339(slot)} {where} it" for where, slot in around if slot is not None]
    if len(near) == 2:
        return "notASlot", (f"The nearest due instants are {near[0]}, and {near[1]}.",)
    return "notASlot", (f"The nearest due instant is {near[0]}." if near else "The rule has no due instant near it.",)


def _state(facts: WhyFacts) -> str:
    """The state with its reason, who, since when, until when and the note."""
    parts = [facts.state]
    why = _why_state(facts)
    if why:
        parts.append(why)
    elif facts.changed_by:
        parts.append(f"by {facts.changed_by}")
    if facts.changed_at is not None and facts.state != "ended":  # a tick ends it, and no control
        parts.append(f"since {to_rfc3339(facts.changed_at)}")
    if facts.state == "paused" and facts.resume_at is not None:
        parts.append(f"until {to_rfc3339(facts.resume_at)}")
    text = " ".join(parts)
    return f"{text} ({facts.note})" if facts.note else text


def _why_state(facts: WhyFacts) -> str | None:
    d = facts.definition
    told = {
        "failures": f"after {counted(d.pause_after_failures, 'failure')} in a row (pauseAfterFailures)",
        "invalid": "because its definition cannot be loaded",
        "retired": "because the files of its owner declare it no longer",
        "restored": "because the store was restored from a backup",
        "exhausted": "because its rule yields nothing more",
        "maxOccurrences": f"because maxOccurrences {d.max_occurrences} is used up",
        "expired": f"because it expired at {_instant(d.expires_at)} (expiresAt)",
    }
    return told.get(facts.reason or "")


def _slots(first: int, last: int) -> str:
    return f"slot {first}" if first == last else f"slots {first}–{last} ({last - first + 1:,} of them)"


def _s(millis: int | None) -> str:
    if millis is None:
        return "none"
    return f"{millis // 1000:,}" if millis % 1000 == 0 else f"{millis / 1000:g}"


def _instant(instant: int | None) -> str:
    return "none" if instant is None else to_rfc3339(instant)


_BY_KIND: dict[Kind, Callable[[WhyFacts], Told]] = {
    "occurrence": _occurrence,
    "represented": _represented,
    "skipped": _skipped_range,
    "pruned": _pruned,
    "unjudged": _unjudged,
    "future": _future,
    "none": _none,
    "notASlot": _not_a_slot,
}
