"""What holds for every virtual app: it leaves the ledger that the simulator foretells, twice the same, and whole."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from calsched import IntervalTrigger
from calsched.runtime.durable import definition_of, durable
from calsched.simulate import simulate
from calsched.stores import inspect
from calsched.stores.views import OccurrenceView
from calsched.testing import VirtualApp
from tests.testing import _jobs

START = 1_800_000_000_000
SECOND = 1_000


class Story(NamedTuple):
    """One schedule, and the spans in which nobody ticks."""

    interval: int  # seconds
    length: int  # seconds
    takes: int  # milliseconds
    policies: dict[str, Any]
    downs: list[tuple[int, int]]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    interval = draw(st.integers(5, 90))
    length = draw(st.integers(60, 900))
    edges = sorted(set(draw(st.lists(st.integers(1, length - 1), max_size=4))))
    downs = list(zip(edges[::2], edges[1::2], strict=False))
    policies: dict[str, Any] = {
        "misfire": draw(st.sampled_from(["runOnce", "skip", "catchUp"])),
        "overlap": draw(st.sampled_from(["queue", "skip", "coalesce"])),
        "grace": draw(st.integers(0, 120)),
    }
    # The simulator's owner crashes, this one is only not looking: no run may be under way. And none may end in the
    # very millisecond in which a slot is due: either may come first then.
    takes = 0 if downs else draw(st.one_of(st.just(0), st.integers(1, 150).map(lambda n: n * SECOND + 7)))
    return Story(interval, length, takes, policies, downs)


def trigger(story: Story) -> Any:
    return durable(IntervalTrigger(seconds=story.interval), **story.policies)


Line = tuple[int, int, str, str | None, int | None]


def lived(story: Story) -> list[Line]:
    """(first ordinal, last, verdict, reason, started) of the ledger after the story has been lived through."""
    with VirtualApp(START) as app:
        app.add(_jobs.note, trigger(story), id="a", takes=story.takes / SECOND)
        for down, up in story.downs:
            app.advance(START + down * SECOND - 1)
            app.clock.set(START + up * SECOND)
            app.run_due()
        app.advance(START + story.length * SECOND - 1)
        store = app.store()
        with store.read() as conn:
            assert inspect.tiling(store, conn) == []
        return sorted(
            (e.ordinal, e.ordinal, e.state, e.reason, e.started_at)
            if isinstance(e, OccurrenceView)
            else (e.first, e.last, e.verdict, e.reason, None)
            for e in app._entries("a")
        )


def foretold(story: Story) -> list[Line]:
    definition = definition_of(
        schedule_id="a", namespace="default", trigger=trigger(story), func=_jobs.note, args=(), kwargs={},
        executor="default", options={"name": "a"},
    )  # fmt: skip
    downs = [(START + down * SECOND, START + up * SECOND) for down, up in story.downs]
    ledger = simulate([definition], START, START + story.length * SECOND, downs=downs, durations={"a": story.takes})
    return sorted((row.first, row.last, row.verdict, row.reason, row.started) for row in ledger.of("a"))


@settings(max_examples=25, deadline=None)
@given(stories())
def test_the_ledger_that_was_lived_is_the_one_that_was_foretold(story: Story) -> None:
    assert lived(story) == foretold(story)


@settings(max_examples=3, deadline=None)
@given(stories())
def test_the_same_story_leaves_the_same_ledger(story: Story) -> None:
    assert lived(story) == lived(story)
