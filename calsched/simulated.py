"""The world of a simulation: an owner with its clock, schedules with their work, and the events that move them.

Used by ``simulate``, which says what is simulated. Everything here is decided by the planner and the policies; this
module only keeps the states that a store would keep, and the time.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count as counter
from typing import Literal

from calsched.model import Cursor, Definition, FoldTarget, Pending, PlannedOccurrence, PlannedRange
from calsched.planner import LastRange, PlanInput, SlotSource, blackout_at, held_until, key_for, pass_over, plan, run_at
from calsched.policies import budget, clock_hold, failure

#: Rows after which a simulation stops (``Ledger.truncated``).
MAX_ROWS = 2_000_000


@dataclass(frozen=True, slots=True)
class Row:
    """One occurrence, or one range of slots that share a verdict. Instants are what the owner's clock showed.

    ``verdict`` is a final state of an occurrence, or ``skipped``, or ``represented``; or, where the span ended first,
    an open state, or ``unjudged`` for slots that were due and that nobody had looked at.
    """

    schedule: str
    first: int
    last: int
    due: int
    last_due: int
    verdict: str
    reason: str | None = None
    started: int | None = None  # of the last attempt
    ended: int | None = None
    attempts: int = 0
    represented_by: int | None = None  # ordinal

    @property
    def slots(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Hold:
    """A time in which nothing was dispatched because the clock could not be believed. ``end`` None: it still is so."""

    kind: str
    start: int
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Ledger:
    """Every slot of the span with its verdict; rows in order of their due instants."""

    rows: tuple[Row, ...]
    paused: Mapping[str, int]  # schedules that their failures paused, and when
    ended: Mapping[str, str]  # schedules that ended, and why
    refused: Mapping[str, str]  # schedules whose last tick strict admission refused, and why
    holds: tuple[Hold, ...]
    truncated: bool = False  # stopped after MAX_ROWS rows

    def of(self, schedule: str) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.schedule == schedule)

    def counts(self) -> dict[str, dict[str, int]]:
        """For each schedule, how many slots have which verdict; skipped ones by reason (``skipped: overlap``)."""
        found: dict[str, dict[str, int]] = {}
        for row in self.rows:
            name = f"skipped: {row.reason}" if row.verdict == "skipped" else row.verdict
            verdicts = found.setdefault(row.schedule, {})
            verdicts[name] = verdicts.get(name, 0) + row.slots
        return found


@dataclass(slots=True)
class _Occurrence:
    ordinal: int
    due: int
    state: str
    run_at: int
    represents_last: int
    slot: int | None = None
    attempts: int = 0
    elapsed: int = 0
    repeated: int = 0
    started: int | None = None
    ended: int | None = None
    reason: str | None = None
    fold_range: int | None = None  # position of the range that the last fold wrote


@dataclass(slots=True)
class Simulated:
    d: Definition
    trigger: SlotSource
    cursor: Cursor
    duration: int
    fails: int = 0  # attempts that are still to fail
    state: Literal["enabled", "paused", "ended"] = "enabled"
    used: int = 0
    failures: int = 0
    paused_at: int | None = None
    ended: str | None = None
    refused: str | None = None
    free: list[int] = field(default_factory=list)
    heads: dict[int, _Occurrence] = field(default_factory=dict)
    waiting: deque[_Occurrence] = field(default_factory=deque)
    occurrences: list[_Occurrence] = field(default_factory=list)
    ranges: list[PlannedRange] = field(default_factory=list)
    newest_skip: int | None = None  # position in ranges
    admitted: deque[int] = field(default_factory=deque)
    wakes: int = 0  # stale wake-ups are told by this number
    idle: Pending = field(default_factory=Pending)  # what is pending while nothing is

    def __post_init__(self) -> None:
        options = self.d.apscheduler or {}
        slots = {"allow": self.d.max_concurrent, "apscheduler": options.get("max_instances", 1)}.get(self.d.overlap, 1)
        self.free = list(range(slots))
        self.idle = Pending(free_slots=tuple(self.free))

    def limits(self) -> failure.Limits:
        return failure.Limits(self.state, expires_at=self.d.expires_at)

    def pending(self) -> Pending:
        if not self.heads:
            return self.idle
        heads = self.heads.values()
        return Pending(
            waiting=len(self.waiting),
            ready=sum(head.state == "ready" for head in heads),
            active=sum(head.state == "running" for head in heads),
            retrying=sum(head.state == "retrying" for head in heads),
            fold_into=self._newest_unclaimed() if self.d.overlap == "coalesce" else None,
            free_slots=tuple(sorted(self.free)),
        )

    def _newest_unclaimed(self) -> FoldTarget | None:
        unclaimed = [*(head for head in self.heads.values() if head.state == "ready"), *self.waiting]
        if not unclaimed:
            return None
        newest = unclaimed[-1]
        return FoldTarget(newest.ordinal, newest.ordinal, newest.represents_last, newest.fold_range)

    def last_range(self) -> LastRange | None:
        if self.newest_skip is None:
            return None
        newest = self.ranges[self.newest_skip]
        return LastRange(self.newest_skip, newest.last, str(newest.reason))

    def rules(self) -> failure.Rules:
        d = self.d
        return failure.Rules(
            d.max_retries,
            d.max_attempts,
            d.max_repeated_failures,
            d.max_elapsed,
            d.retry_delay,
            d.retry_backoff,
            d.retry_max_delay,
            d.on_interrupted == "retry",
        )


# Events of one instant, in the order in which they happen.
CLOCK, END, DOWN, WAKE, START, AGAIN = range(6)


class World:
    """The heap of events, the owner, its clock, and its schedules. ``at`` is true time; ``now`` what the clock says."""

    def __init__(self, start: int, end: int, tolerance: int, max_rows: int) -> None:
        self.at, self.end, self.tolerance, self.max_rows = start, end, tolerance, max_rows
        self.events: list[tuple[int, int, int, Callable[[], None]]] = []
        self.order = counter()
        self.up, self.offset, self.reading = True, 0, clock_hold.Reading(start, start, "")
        self.hold: Hold | None = None
        self.holds: list[Hold] = []
        self.schedules: list[Simulated] = []
        self.rows, self.truncated, self.stepped = 0, False, False

    def push(self, at: int, rank: int, event: Callable[[], None]) -> None:
        if at < self.end:
            heapq.heappush(self.events, (at, rank, next(self.order), event))

    def play(self) -> None:
        while self.events and not self.truncated:
            self.at, _, _, event = heapq.heappop(self.events)
            event()
        if not self.truncated:
            self.at = self.end

    def add(self, schedule: Simulated, fails: Mapping[str, int]) -> None:
        schedule.fails = fails.get(schedule.d.id, 0)
        self.schedules.append(schedule)
        self._wake_later(schedule)

    # --- the clock

    def now(self) -> int:
        """The instant to plan at, as the clock policy sees it; begins and ends holds."""
        if not self.stepped:
            return self.at
        verdict = clock_hold.judge(
            self.reading, self.at + self.offset, tolerance=self.tolerance, boot_time=self.at, boot_id=""
        )
        self.reading = verdict.reading
        if self.hold is not None and verdict.hold != self.hold.kind:
            self.holds.append(replace(self.hold, end=verdict.now))
            self.hold = None
        if verdict.hold is not None and self.hold is None:
            self.hold = Hold(verdict.hold, verdict.now)
        return verdict.now

    def step(self, by: int) -> None:
        if not self.stepped:
            self.reading = clock_hold.Reading(self.at, self.at, "")
        self.stepped = True
        self.offset += by
        self.look_again()

    def accept(self) -> None:
        self.reading = clock_hold.accept(self.at + self.offset, boot_time=self.at, boot_id="")
        self.look_again()

    def look_again(self) -> None:
        """All times ahead were reckoned with another clock: reckon anew."""
        if not self.up:
            return
        now = self.now()
        if self.hold is not None and self.hold.kind == "backward":
            behind = now - self.at - self.offset
            self.push(self.at + max(1, behind - self.tolerance), CLOCK, self.look_again)
        for schedule in self.schedules:
            self._wake_later(schedule)
            self._start_heads(schedule)

    # --- the owner

    def go_down(self) -> None:
        """The owner crashes: what runs is interrupted."""
        now, self.up = self.now(), False
        for schedule in self.schedules:
            for head in [head for head in schedule.heads.values() if head.state == "running"]:
                head.elapsed += now - (head.started or now)
                self._attempt_ended(schedule, head, "interrupted", now)

    def come_up(self) -> None:
        self.up = True
        self.look_again()

    # --- due slots

    def _wake_later(self, schedule: Simulated) -> None:
        due = schedule.cursor.next_due
        schedule.wakes += 1
        if due is None:
            return
        number = schedule.wakes
        wait = max(0, due - self.now())
        self.push(self.at + wait, WAKE, partial(self._wake, schedule, number))

    def _wake(self, schedule: Simulated, number: int) -> None:
        if not self.up or schedule.wakes != number or schedule.state != "enabled":
            return
        now = self.now()
        due = schedule.cursor.next_due
        if due is None or due > now:
            if self.hold is None or self.hold.kind != "backward":  # else the end of the hold wakes it
                self._wake_later(schedule)
            return
        self._tick(schedule, now)

    def _tick(self, schedule: Simulated, now: int) -> None:
        made = plan(self._input(schedule, now), now)
        schedule.refused = made.refused
        if made.cursor is None:
            self._try_later(schedule, now)
            return
        schedule.cursor, schedule.used = made.cursor, schedule.used + made.used
        for planned in made.occurrences:
            self._emit(schedule, planned, now)
        for part in made.ranges:
            self._record(schedule, part)
        if made.ended:
            schedule.state, schedule.ended = "ended", made.ended
        self._start_heads(schedule)
        if made.more:
            schedule.wakes += 1
            number = schedule.wakes
            self.push(self.at, AGAIN, partial(self._wake, schedule, number))
        else:
            self._wake_later(schedule)

    def _try_later(self, schedule: Simulated, now: int) -> None:
        """A refused tick is refused again until something changes: look when the next slot is due."""
        following = schedule.trigger.next_after(now)
        number = schedule.wakes
        if following is not None:
            self.push(self.at + following - now, WAKE, partial(self._wake, schedule, number))

    def _input(self, schedule: Simulated, now: int) -> PlanInput:
        d = schedule.d
        while schedule.admitted and schedule.admitted[0] <= now - (d.rate_window or 0):
            schedule.admitted.popleft()
        return PlanInput(
            d,
            schedule.trigger,
            schedule.cursor,
            schedule.used,
            schedule.pending(),
            schedule.last_range(),
            admitted=tuple(schedule.admitted),
        )

    def _emit(self, schedule: Simulated, planned: PlannedOccurrence, now: int) -> None:
        d = schedule.d
        at = planned.due
        if d.jitter or d.blackouts:
            key = str(key_for("simulation", d, 1, planned.ordinal))
            at = run_at(d, key, planned.due, schedule.trigger.next_after(planned.due))
        made = _Occurrence(
            planned.ordinal, planned.due, planned.state, at, planned.represents_last, planned.active_slot
        )
        if planned.active_slot is None:
            schedule.waiting.append(made)
        else:
            schedule.free.remove(planned.active_slot)
            schedule.heads[made.ordinal] = made
        schedule.occurrences.append(made)
        if d.rate_window is not None:
            schedule.admitted.append(now)
        self._count_row()

    def _record(self, schedule: Simulated, part: PlannedRange) -> None:
        position = part.extends
        if position is None:
            position = len(schedule.ranges)
            schedule.ranges.append(part)
            self._count_row()
        else:
            before = schedule.ranges[position]
            schedule.ranges[position] = before._replace(last=part.last, last_due=part.last_due)
        if part.reason is not None:
            schedule.newest_skip = position
        if part.folded_into is not None:
            target = next(o for o in (*schedule.waiting, *schedule.heads.values()) if o.ordinal == part.folded_into)
            target.represents_last, target.fold_range = part.last, position

    def _count_row(self) -> None:
        self.rows += 1
        self.truncated = self.rows >= self.max_rows

    # --- work

    def _start_heads(self, schedule: Simulated) -> None:
        """Start what may start; where that ends at once, what waits behind it too."""
        looked_at: set[int] = set()
        while schedule.heads:
            head = next((h for h in schedule.heads.values() if h.ordinal not in looked_at), None)
            if head is None:
                return
            looked_at.add(head.ordinal)
            self._start(schedule, head)

    def _start(self, schedule: Simulated, head: _Occurrence) -> None:
        now = self.now()
        if not self.up or self.hold is not None or head.state not in ("ready", "retrying"):
            return
        if schedule.state == "paused":
            return
        if head.run_at > now:
            wait = head.run_at - now
            self.push(self.at + wait, START, partial(self._start_if_open, schedule, head))
        elif not self._given_up(schedule, head, now):
            self._run(schedule, head, now)

    def _start_if_open(self, schedule: Simulated, head: _Occurrence) -> None:
        if head.ordinal in schedule.heads:
            self._start_heads(schedule)

    def _given_up(self, schedule: Simulated, head: _Occurrence, now: int) -> bool:
        """Whether a head ends, or is held, instead of starting."""
        d = schedule.d
        deadline = None if d.deadline is None else head.due + d.deadline
        if head.state == "retrying":
            answer = failure.at_retry(now, schedule.limits()._replace(deadline=deadline))
            if isinstance(answer, failure.Final):
                self._finish(schedule, head, answer.state, answer.reason, now)
                return True
        elif budget.is_expired(now, d.expires_at):
            self._finish(schedule, head, "skipped", "expired", now)
            return True
        elif budget.is_expired(now, deadline):
            self._finish(schedule, head, "skipped", "deadline", now)
            return True
        window = blackout_at(d, now) if d.blackouts else None
        if window is None:
            return False
        if window.when_due == "skip" and head.state == "ready":
            self._finish(schedule, head, "skipped", "blackout", now)
        else:
            head.run_at = max(held_until(d, now), window.end)
            self.push(self.at + head.run_at - now, START, partial(self._start_if_open, schedule, head))
        return True

    def _run(self, schedule: Simulated, head: _Occurrence, now: int) -> None:
        d = schedule.d
        head.state, head.started = "running", now
        head.attempts += 1
        bounds = [d.timeout, None if d.deadline is None else head.due + d.deadline - now]
        bounds.append(None if d.max_elapsed is None else d.max_elapsed - head.elapsed)
        bound = min((bound for bound in bounds if bound is not None), default=None)
        length, ending = schedule.duration, "succeeded"
        if bound is not None and length > bound:
            length, ending = bound, "timed_out"
        elif schedule.fails:
            schedule.fails, ending = schedule.fails - 1, "failed"
        number = head.attempts
        if length == 0:
            self._end(schedule, head, number, ending, 0)
        else:
            self.push(self.at + length, END, partial(self._end, schedule, head, number, ending, length))

    def _end(self, schedule: Simulated, head: _Occurrence, number: int, ending: str, length: int) -> None:
        if head.state != "running" or head.attempts != number:
            return  # its owner died meanwhile
        head.elapsed += length
        self._attempt_ended(schedule, head, ending, self.now())
        if length:
            self._start_heads(schedule)

    def _attempt_ended(self, schedule: Simulated, head: _Occurrence, ending: str, now: int) -> None:
        if ending == "succeeded":
            self._finish(schedule, head, ending, None, now)
            return
        d = schedule.d
        head.ended = now
        head.repeated = head.repeated + 1 if ending in ("failed", "timed_out") else 0
        deadline = None if d.deadline is None else head.due + d.deadline
        answer = failure.after_attempt(
            schedule.rules(),
            ending,  # type: ignore[arg-type]
            failure.Attempts(head.attempts, head.elapsed, head.repeated),
            now,
            schedule.limits()._replace(deadline=deadline),
        )
        if isinstance(answer, failure.Final):
            self._finish(schedule, head, answer.state, answer.reason, now)
            return
        head.state, head.run_at = "retrying", answer.at
        self.push(self.at + answer.at - now, START, partial(self._start_if_open, schedule, head))

    def _finish(self, schedule: Simulated, head: _Occurrence, state: str, reason: str | None, now: int) -> None:
        head.state, head.reason, head.ended = state, reason, now
        del schedule.heads[head.ordinal]
        if head.slot is not None:
            schedule.free.append(head.slot)
        if schedule.waiting:
            follower = schedule.waiting.popleft()
            follower.state, follower.slot = "ready", schedule.free.pop()
            schedule.heads[follower.ordinal] = follower
        counted = failure.count(
            schedule.failures,
            state,  # type: ignore[arg-type]
            threshold=schedule.d.pause_after_failures,
            schedule=schedule.state,
        )
        schedule.failures = counted.failures
        if counted.pause:
            schedule.state, schedule.paused_at = "paused", now
            schedule.cursor = schedule.cursor._replace(next_due=None)

    # --- the result

    def ledger(self) -> Ledger:
        rows = [row for schedule in self.schedules for row in self._rows(schedule)]
        rows.sort(key=lambda row: (row.due, row.schedule, row.first))
        return Ledger(
            tuple(rows),
            {s.d.id: s.paused_at for s in self.schedules if s.paused_at is not None},
            {s.d.id: s.ended for s in self.schedules if s.ended is not None},
            {s.d.id: s.refused for s in self.schedules if s.refused is not None},
            (*self.holds, *([self.hold] if self.hold is not None else [])),
            self.truncated,
        )

    def _rows(self, schedule: Simulated) -> Iterable[Row]:
        name = schedule.d.id
        for o in schedule.occurrences:
            ended = None if o.state in ("running", "retrying", "ready", "waiting") else o.ended
            yield Row(name, o.ordinal, o.ordinal, o.due, o.due, o.state, o.reason, o.started, ended, o.attempts)
        for part in schedule.ranges:
            by = part.represented_by if part.folded_into is None else part.folded_into
            verdict = "represented" if part.reason is None else "skipped"
            yield Row(
                name, part.first, part.last, part.first_due, part.last_due, verdict, part.reason, represented_by=by
            )
        if schedule.state != "ended":
            rest, _ = pass_over(schedule.d, schedule.trigger, schedule.cursor, self.now() - 1, "disabled")
            if rest is not None:
                why = "paused by failures" if schedule.state == "paused" else schedule.refused or "nobody looked"
                yield Row(name, rest.first, rest.last, rest.first_due, rest.last_due, "unjudged", why)
