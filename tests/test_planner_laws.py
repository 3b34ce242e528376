"""Laws of the planner: it agrees with a planner that walks slot by slot, and a ledger that it feeds stays whole."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import event, settings
from hypothesis import given as law
from hypothesis import strategies as st

from calsched.model import Cursor, Definition, FoldTarget, Pending, TickPlan
from calsched.planner import LastRange, PlanInput, plan
from calsched.policies import budget
from tests._ticks import Book, Every, definition, tiles

# --- an oracle that knows nothing of counts: it walks the due slots one by one ----------------------------------------


def oracle(inp: PlanInput, now: int, batch: int) -> dict[int, str]:
    """The verdict of each judged slot by ordinal: ready, waiting, ``by N``, fold, or a reason; or refused alone."""
    d, rule, n = inp.definition, inp.trigger, inp.cursor.next_ordinal
    due: list[tuple[int, int]] = []  # (ordinal, instant)
    slot = inp.cursor.next_due
    while slot is not None and slot <= now and (d.expires_at is None or slot <= d.expires_at):
        due.append((n + len(due), slot))
        slot = rule.next_after(slot)
    aside = {ordinal: why for ordinal, instant in due if (why := _aside(inp, instant))}
    open_slots = [(ordinal, instant) for ordinal, instant in due if ordinal not in aside]
    if d.expires_at is not None and now > d.expires_at:
        units = [([ordinal], "expired") for ordinal, _ in open_slots]
    else:
        answer = _judge(inp, open_slots, now, batch)
        if answer is None:
            return {-1: "refused"}
        units = answer
    return _spend(inp, [ordinal for ordinal, _ in due], aside, units)


def _aside(inp: PlanInput, instant: int) -> str:
    for window in inp.definition.blackouts:
        if window["whenDue"] == "skip" and window["from"] <= instant < window["to"]:
            return "blackout"
    return "operator" if instant in inp.skips else ""


def _judge(inp: PlanInput, slots: list[tuple[int, int]], now: int, batch: int) -> list[tuple[list[int], str]] | None:
    """Units of slots that share a row, oldest first, each with its fate; None when strict admission refuses."""
    d, p = inp.definition, inp.pending
    late = [now - instant > d.grace for _, instant in slots]
    emitted: list[list[int]] = [[i] for i in range(len(slots))]
    fates: dict[int, str] = {}
    stale = [d.max_lateness is not None and now - instant > d.max_lateness for _, instant in slots]
    if any(late):
        limit = min(batch, {"boundedReplay": d.replay_limit or 1, "catchUp": d.max_catch_up}.get(d.misfire, batch))
        if d.misfire == "runOnce":
            emitted = [list(range(len(slots)))]
        elif d.misfire == "skip":
            fates = {i: "misfire" for i in range(len(slots)) if late[i]}
        elif d.misfire == "boundedReplay":
            fates = {i: "replayLimit" for i in range(limit, len(slots))}
        elif d.admission == "strict":
            fates = {i: "stay" for i in range(limit, len(slots))}
        else:
            fresh = [i for i in range(len(slots)) if not stale[i]]
            fates = {i: "stay" for i in fresh[limit:]} if any(late[i] for i in fresh) else {}
        emitted = [unit for unit in emitted if unit[-1] not in fates]
    waiting, heads, free = p.waiting, p.total - p.waiting, len(p.free_slots)
    room = None if d.rate_limit is None else d.rate_limit - sum(at > now - (d.rate_window or 0) for at in inp.admitted)
    made, target, out = 0, p.fold_into is not None, list[tuple[list[int], str]]()
    strictly_fine, joined = True, "fold" if target else "by"
    owed, refused_row = p.waiting, False
    for unit in emitted:
        if stale[unit[-1]]:
            out.append((unit, "maxLateness"))
            strictly_fine = False
            continue
        if d.overlap == "coalesce" and (target or made):
            out.append((unit, "rateLimit" if refused_row else joined))
            continue
        if d.overlap == "skip" and (waiting or heads):
            out.append((unit, "overlap"))
            continue
        starts = free > owed and (d.overlap == "allow" or made == 0)
        if d.overlap == "queue" and not starts and waiting >= d.max_queued:
            out.append((unit, "queueFull"))
            continue
        if d.overlap in ("queue", "allow") and made == batch:
            out.append((unit, "stay"))
            strictly_fine = strictly_fine and d.overlap != "allow"
            continue
        made += 1
        if starts:
            free, heads = free - 1, heads + 1
        else:
            waiting += 1
            strictly_fine = strictly_fine and d.overlap != "allow"
        if room is not None and room <= 0:
            out.append((unit, "rateLimit"))
            strictly_fine, refused_row = False, True
            continue
        room = None if room is None else room - 1
        out.append((unit, "ready" if starts else "waiting"))
    if d.admission == "strict" and not strictly_fine:
        return None
    out += [([i], fate) for i, fate in fates.items()]
    return [([slots[i][0] for i in unit], fate) for unit, fate in sorted(out)]


def _spend(inp: PlanInput, due: list[int], aside: dict[int, str], units: list[tuple[list[int], str]]) -> dict[int, str]:
    """Verdicts until the budget is used up, and ``maxOccurrences`` for what is due after that."""
    left = budget.remaining(inp.definition.max_occurrences, inp.used)
    found: dict[int, str] = {}
    last_row = None
    newest = inp.last_range
    if newest is not None:
        found[newest.last] = newest.reason
    fate_of = {ordinal: (unit, fate) for unit, fate in units for ordinal in unit}
    for ordinal in due:
        if ordinal in found:
            continue
        if ordinal in aside:
            found[ordinal] = aside[ordinal]
            continue
        unit, fate = fate_of[ordinal]
        goes_on = fate not in ("ready", "waiting", "by") and found.get(ordinal - 1) == fate
        if left is not None and left <= 0 and not goes_on:
            break
        if fate == "stay":
            break
        if fate in ("ready", "waiting"):
            last_row = unit[-1]
            found.update({o: aside.get(o) or f"by {last_row}" for o in range(unit[0], last_row)})
            found[last_row] = fate
            left = None if left is None else left - 1
        elif fate == "by":
            found[ordinal] = f"by {last_row}"
        elif fate == "fold":
            found[ordinal] = "fold"
        else:
            if left is not None and not goes_on:
                left -= 1
            found[ordinal] = fate
    judged = {ordinal: fate for ordinal, fate in found.items() if ordinal in set(due)}
    if left is not None and left <= 0:
        judged.update({ordinal: "maxOccurrences" for ordinal in due if ordinal not in judged})
        # a hole right after the budget's last verdict goes with what remains
        for ordinal in reversed(due):
            if judged[ordinal] in ("maxOccurrences", "operator", "blackout") and aside.get(ordinal):
                judged[ordinal] = "maxOccurrences"
            elif judged[ordinal] != "maxOccurrences":
                break
    return judged


def verdicts(made: TickPlan) -> dict[int, str]:
    if made.refused:
        return {-1: "refused"}
    found: dict[int, str] = {}
    for part in made.ranges:
        for ordinal in range(part.first, part.last + 1):
            assert ordinal not in found
            found[ordinal] = part.reason or ("fold" if part.folded_into is not None else f"by {part.represented_by}")
    for row in made.occurrences:
        assert row.ordinal not in found
        found[row.ordinal] = row.state
    return found


# --- strategies -------------------------------------------------------------------------------------------------------


@st.composite
def rules(draw: st.DrawFn) -> Every:
    interval, first = draw(st.integers(1, 20)), draw(st.integers(-50, 50))
    return Every(interval, first, draw(st.none() | st.integers(first, first + 200)))


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    options: dict[str, Any] = {
        "misfire": draw(st.sampled_from(["runOnce", "skip", "boundedReplay", "catchUp"])),
        "replay_limit": draw(st.integers(1, 5)),
        "max_catch_up": draw(st.integers(1, 5)),
        "grace": draw(st.sampled_from([0, 7, 60, 10**6])),
        "overlap": draw(st.sampled_from(["queue", "skip", "coalesce", "allow"])),
        "max_queued": draw(st.integers(0, 4)),
        "max_concurrent": draw(st.integers(1, 3)),
        "max_occurrences": draw(st.none() | st.integers(1, 12)),
        "expires_at": draw(st.none() | st.integers(0, 300)),
        "max_lateness": draw(st.none() | st.integers(0, 60)),
        "admission": draw(st.sampled_from(["each", "each", "strict"])),
        "blackouts": tuple(
            {"from": start, "to": start + draw(st.integers(1, 40)), "whenDue": draw(st.sampled_from(["skip", "hold"]))}
            for start in draw(st.lists(st.integers(-20, 250), max_size=2))
        ),
    }
    if draw(st.booleans()):
        options |= {"rate_limit": draw(st.integers(1, 4)), "rate_window": draw(st.integers(1, 60))}
    return definition(**options)


def slots_of(d: Definition) -> int:
    return d.max_concurrent if d.overlap == "allow" else 1


@st.composite
def inputs(draw: st.DrawFn) -> PlanInput:
    rule, d = draw(rules()), draw(definitions())
    steps = draw(st.integers(0, 5))
    cursor = Cursor(draw(st.integers(0, 2**60)), rule.nth_after(rule.first, steps))
    heads = draw(st.integers(0, slots_of(d)))
    waiting = draw(st.integers(0, 3)) if heads == slots_of(d) else 0
    foldable = draw(st.booleans()) and heads > 0
    pending = Pending(
        waiting=waiting,
        ready=heads,
        fold_into=FoldTarget(7, 0, cursor.next_ordinal - 1, 8) if foldable else None,
        free_slots=tuple(range(heads, slots_of(d))),
    )
    last = draw(st.none() | st.sampled_from(["misfire", "overlap", "queueFull", "replayLimit", "maxLateness"]))
    return PlanInput(
        d,
        rule,
        cursor,
        draw(st.integers(0, (d.max_occurrences or 6) - 1)),
        pending,
        LastRange(31, cursor.next_ordinal - 1, last) if last else None,
        draw(st.frozensets(st.integers(-50, 250), max_size=3)),
        tuple(draw(st.lists(st.integers(0, 250), max_size=3))),
    )


# --- the laws ---------------------------------------------------------------------------------------------------------


@settings(max_examples=400, deadline=None)
@law(inputs(), st.integers(-20, 300), st.integers(1, 6))
def test_the_planner_agrees_with_a_walk_over_every_slot(inp: PlanInput, now: int, batch: int) -> None:
    made = plan(inp, now, occurrence_batch=batch)
    event(f"{inp.definition.misfire}, {inp.definition.overlap}")
    assert verdicts(made) == oracle(inp, now, batch)


@settings(max_examples=250, deadline=None)
@law(inputs(), st.integers(-20, 300), st.integers(1, 6))
def test_a_plan_judges_consecutive_ordinals_from_the_cursor_on_and_counts_as_the_trigger_does(
    inp: PlanInput, now: int, batch: int
) -> None:
    made = plan(inp, now, occurrence_batch=batch)
    if made.cursor is None:
        assert not made.occurrences and not made.ranges and not made.used
        return
    first, stop = inp.cursor.next_ordinal, made.cursor.next_ordinal
    assert sorted(verdicts(made)) == list(range(first, stop))
    if stop > first and inp.cursor.next_due is not None and made.cursor.last_due is not None:
        assert inp.trigger.count(inp.cursor.next_due, made.cursor.last_due) == stop - first
    for part in made.ranges:
        assert part.last - part.first + 1 == inp.trigger.count(part.first_due, part.last_due)
    for one, other in pairwise(sorted(made.ranges)):
        assert one.last < other.first


@settings(max_examples=250, deadline=None)
@law(
    rules(),
    definitions(),
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["tick", "claim", "finish"])), min_size=1, max_size=25),
    st.frozensets(st.integers(-50, 250), max_size=3),
    st.integers(1, 6),
)
def test_a_ledger_fed_by_ticks_is_tiled_and_keeps_its_budget(
    rule: Every, d: Definition, steps: list[tuple[int, str]], skips: frozenset[int], batch: int
) -> None:
    book = Book(d, rule, slots_of(d), Cursor(0, rule.first))
    now = -20
    for wait, action in steps:
        now += wait
        if action == "tick" and book.ended is None:
            book.tick(now, batch, skips)
        elif action == "claim":
            book.claim()
        else:
            book.finish()
        assert tiles(book.verdicts(), book.cursor.next_ordinal)
        assert book.used == book.cost()
        assert book.used <= (d.max_occurrences or 10**9)
        assert (book.ended is None) or book.cursor.next_due is None
        waiting = [row for row in book.rows.values() if row.state == "waiting"]
        if d.overlap == "queue":
            assert len(waiting) <= d.max_queued
        if d.overlap == "coalesce":
            assert len(waiting) <= 1
        if waiting:
            assert len([row for row in book.rows.values() if row.state in ("ready", "running")]) == slots_of(d)


@settings(max_examples=100, deadline=None)
@law(inputs(), st.integers(-20, 300))
def test_repeating_a_tick_at_the_same_time_until_nothing_is_due_comes_to_an_end(inp: PlanInput, now: int) -> None:
    for _ in range(1_000):
        made = plan(inp, now)
        if made.cursor is None:
            return
        assert made.cursor.next_ordinal > inp.cursor.next_ordinal or made.ended
        inp = inp._replace(cursor=made.cursor, last_range=None, used=inp.used + made.used)
        if made.ended:
            return
    raise AssertionError("it never came to an end")
