"""The states of schedules and occurrences, and the one table of moves between them. What is not in it does not happen.

A schedule that is ``absent`` has no row: it was never created, or it was deleted. ``paused`` and ``disabled`` carry a
reason, and what may follow depends on it: an operator's pause ends with ``resume``, which applies the misfire policy to
what came due meanwhile; a pause that the failures or an unusable definition brought about ends with ``enable``, which
starts from now.

The docs draw these tables (``schedule_diagram``, ``occurrence_diagram``) and the database's CHECK constraints repeat
their states.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

State = Literal["absent", "enabled", "disabled", "paused", "ended", "cancelled"]
Action = Literal[
    "create",
    "createDisabled",
    "advance",
    "pause",
    "resume",
    "disable",
    "enable",
    "retire",
    "remove",
    "fail",
    "invalidate",
    "restore",
    "end",
    "cancel",
    "revise",
    "replace",
    "delete",
]


class Move(NamedTuple):
    """One row of the table, with all that goes with it."""

    action: Action
    source: State
    target: State
    meaning: str
    only: frozenset[str] | None = None  # reasons of the source state for which it holds; None: any
    reason: str | None = None  # that the target state carries
    due: Literal["keep", "passOver"] = "keep"  # what is due and unjudged: stays so, or becomes one uncounted range
    cursor: Literal["keep", "hold", "clear", "fromNow", "first"] = "keep"  # hold: kept aside while nothing is collected
    work: Literal["keep", "hold", "skip", "cancel", "refuse"] = "keep"  # pending work; refuse: there must be none
    clears_failures: bool = False  # and what asks for attention with them
    clears_attention: bool = False  # alone: whoever makes the move has looked, and decided
    automatic: bool = False  # no operator asks for it, so it needs no approval


class Refusal(NamedTuple):
    """A move that is not in the table. ``why`` completes "it is STATE: ACTION is not possible: …"."""

    state: str
    action: str
    why: str


_BY_HAND = frozenset({"operator", "restored"})
_BY_ITSELF = frozenset({"failures", "invalid"})


def _from(sources: Iterable[State], move: Move) -> tuple[Move, ...]:
    return tuple(move._replace(source=source) for source in sources)


MOVES: tuple[Move, ...] = (
    Move("create", "absent", "enabled", "save an enabled schedule", cursor="first"),
    Move("createDisabled", "absent", "disabled", "save a disabled schedule", reason="operator", cursor="clear"),
    Move("advance", "enabled", "enabled", "judge what is due", automatic=True),
    Move("end", "enabled", "ended", "no further slot, budget used up, or expired", cursor="clear", automatic=True),
    Move("pause", "enabled", "paused", "an operator pauses", reason="operator", cursor="hold", work="hold"),
    Move("resume", "paused", "enabled", "an operator resumes: misfire judges what came due", only=_BY_HAND),
    Move(
        "restore", "enabled", "paused", "a backup is restored",
        reason="restored", cursor="hold", work="hold", automatic=True,
    ),
    Move(
        "fail", "enabled", "paused", "failed too many times in a row",
        reason="failures", cursor="clear", work="hold", automatic=True,
    ),
    Move(
        "invalidate", "enabled", "paused", "its stored definition cannot be used",
        reason="invalid", cursor="clear", work="hold", automatic=True,
    ),
    *_from(
        ("enabled", "paused"),
        Move(
            "disable", "enabled", "disabled", "an operator disables",
            reason="operator", due="passOver", cursor="clear", work="skip", clears_attention=True,
        ),
    ),
    *_from(
        ("disabled", "paused"),
        Move(
            "enable", "disabled", "enabled", "an operator enables: from now, replaying nothing",
            due="passOver", cursor="fromNow", clears_failures=True,
        ),
    ),
    *_from(
        ("enabled", "paused", "disabled", "ended"),
        Move(
            "retire", "enabled", "disabled", "no longer declared",
            reason="retired", due="passOver", cursor="clear", work="skip", clears_attention=True,
        ),
    ),
    *_from(
        ("enabled", "paused", "disabled", "ended"),
        Move(
            "remove", "enabled", "disabled", "APScheduler's remove_job",
            reason="retired", due="passOver", cursor="clear", work="cancel", clears_attention=True,
        ),
    ),
    *_from(
        ("enabled", "paused", "disabled", "ended"),
        Move(
            "cancel", "enabled", "cancelled", "an operator cancels the revision for good",
            due="passOver", cursor="clear", work="cancel", clears_attention=True,
        ),
    ),
    *_from(
        ("enabled", "paused", "disabled", "ended", "cancelled"),
        Move(
            "revise", "enabled", "enabled", "update: a new revision, active",
            due="passOver", cursor="first", work="refuse", clears_failures=True,
        ),
    ),
    Move("replace", "enabled", "enabled", "apply: a new revision", due="passOver", cursor="first"),
    Move("replace", "paused", "paused", "apply: a new revision, still paused", due="passOver", cursor="hold"),
    Move("replace", "disabled", "disabled", "apply: a new revision, still disabled", due="passOver", cursor="clear"),
    Move("replace", "ended", "enabled", "apply: a new revision", cursor="first", clears_failures=True),
    Move("replace", "cancelled", "enabled", "apply: a new revision", cursor="first", clears_failures=True),
    *_from(
        ("enabled", "paused", "disabled", "ended", "cancelled"),
        Move("delete", "enabled", "absent", "remove it and its history", work="refuse"),
    ),
)  # fmt: skip

_TABLE = {(move.source, move.action): move for move in MOVES}

_WHY: dict[tuple[str, str], str] = {
    ("enabled", "enable"): "it is enabled already",
    ("enabled", "resume"): "it is not paused",
    ("enabled", "create"): "it exists already; update it instead",
    ("paused", "pause"): "it is paused already",
    ("paused", "advance"): "nothing is collected while it is paused",
    ("paused", "fail"): "it is paused already; failures pause only what is enabled",
    ("paused", "resume"): "it paused by itself; see to the cause, then enable it, which starts from now",
    ("disabled", "pause"): "it is disabled, so nothing of it would start anyway",
    ("disabled", "fail"): "what still fails after disabling pauses nothing",
    ("disabled", "invalidate"): "a definition that is not in use pauses nothing",
    ("disabled", "resume"): "it is disabled, not paused; enable it, which starts from now",
    ("disabled", "disable"): "it is disabled already",
    ("disabled", "advance"): "nothing is collected while it is disabled",
    ("ended", "enable"): "its revision has no further slot; `calsched update` gives it a new one",
    ("ended", "resume"): "its revision has no further slot; `calsched update` gives it a new one",
    ("cancelled", "enable"): "a cancelled revision stays cancelled; `calsched update` starts a new one",
    ("cancelled", "resume"): "a cancelled revision stays cancelled; `calsched update` starts a new one",
    ("cancelled", "cancel"): "it is cancelled already",
}


def move(state: State, action: Action, reason: str | None = None) -> Move | Refusal:
    """The move that ``action`` makes from a state (``reason`` is what that state carries), or why there is none."""
    found = _TABLE.get((state, action))
    if found is not None and (found.only is None or reason in found.only):
        return found
    return Refusal(state, action, _WHY.get((state, action)) or _why_not(state, action))


def _why_not(state: State, action: Action) -> str:
    if state == "absent":
        return "there is no such schedule; create it, which starts a history of its own"
    if action in ("create", "createDisabled"):
        return "it exists already; update it instead"
    sources = sorted({made.source for made in MOVES if made.action == action})
    return f"only a schedule that is {' or '.join(sources)} can make this move"


OccurrenceState = Literal[
    "waiting", "ready", "claimed", "running", "retrying",
    "succeeded", "failed", "timed_out", "interrupted", "cancelled", "skipped",
]  # fmt: skip

OPEN: tuple[OccurrenceState, ...] = ("waiting", "ready", "claimed", "running", "retrying")
FINAL: tuple[OccurrenceState, ...] = ("succeeded", "failed", "timed_out", "interrupted", "cancelled", "skipped")
#: States that hold an active slot: the heads of their schedule's queue.
HEADS: tuple[OccurrenceState, ...] = ("ready", "claimed", "running", "retrying")


class OccurrenceMove(NamedTuple):
    action: str
    source: OccurrenceState
    target: OccurrenceState
    meaning: str


def _to(action: str, sources: str, targets: str, meaning: str) -> tuple[OccurrenceMove, ...]:
    return tuple(
        OccurrenceMove(action, source, target, meaning)  # type: ignore[arg-type]
        for source in sources.split()
        for target in targets.split()
    )


OCCURRENCE_MOVES: tuple[OccurrenceMove, ...] = (
    *_to("promote", "waiting", "ready", "it is the head of its queue"),
    *_to("claim", "ready retrying", "claimed", "an owner takes it"),
    *_to("giveBack", "claimed running", "ready", "its owner did not start it, or died before it could"),
    *_to("start", "claimed", "running", "its task starts"),
    *_to("finish", "running", "succeeded failed timed_out cancelled", "its task ended"),
    *_to("interrupt", "running", "interrupted", "its owner died or stopped"),
    *_to("retry", "running", "retrying", "another attempt follows"),
    *_to("giveUp", "retrying", "failed", "the retry comes too late, or its schedule is disabled"),
    *_to("skip", "waiting ready claimed", "skipped", "expired, disabled, or a limit forbids it now"),
    *_to("cancel", "waiting ready claimed retrying", "cancelled", "its schedule is cancelled or removed"),
)

_OCCURRENCE_TABLE = {(made.action, made.source, made.target): made for made in OCCURRENCE_MOVES}


def occurrence_move(
    state: OccurrenceState, action: str, target: OccurrenceState | None = None
) -> OccurrenceMove | Refusal:
    """The move of an occurrence (``target`` where the action has several), or why there is none."""
    fitting = [
        made
        for made in OCCURRENCE_MOVES
        if (made.source, made.action) == (state, action) and target in (None, made.target)
    ]
    if len(fitting) == 1:
        return fitting[0]
    if state in FINAL:
        return Refusal(state, action, "its outcome is final")
    return Refusal(state, action, "say how it ended" if fitting else f"an occurrence that is {state} cannot {action}")


def schedule_diagram() -> str:
    """The schedules' states as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> absent"]
    lines += _arrows((made.source, made.target, made.action) for made in MOVES)
    return "\n".join(lines) + "\n"


def occurrence_diagram() -> str:
    """The occurrences' states as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> waiting", "    [*] --> ready"]
    lines += _arrows((made.source, made.target, made.action) for made in OCCURRENCE_MOVES)
    lines += [f"    {state} --> [*]" for state in FINAL]
    return "\n".join(lines) + "\n"


def _arrows(moves: Iterable[tuple[str, str, str]]) -> list[str]:
    """One arrow for each pair of states, with all of its actions."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for source, target, action in moves:
        arrows.setdefault((source, target), []).append(action)
    return [f"    {source} --> {target}: {', '.join(actions)}" for (source, target), actions in arrows.items()]
