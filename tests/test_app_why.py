"""`why` on a real ledger: each way that an instant can have gone, looked up and put in words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from calsched.app import App
from calsched.clock import to_rfc3339
from calsched.errors import UnknownSchedule
from calsched.stores.engine import Store
from tests.stores._helpers import DAY, HOUR, MINUTE, SECOND, T0, Ledger, SteppedClock, every, failed


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    store = Store(f"sqlite:///{tmp_path}/ledger.db", clock=SteppedClock(T0))
    store.open()
    yield Ledger(store)
    store.dispose()


def why(ledger: Ledger, instant: int, id: str = "a") -> tuple[str, str]:
    clock = ledger.store.clock
    assert isinstance(clock, SteppedClock)
    clock.at = ledger.now
    told, _ = App(store=ledger.store).why(id, instant)
    return told.verdict, " ".join(told.sentences)


def test_a_slot_that_ran(ledger: Ledger) -> None:
    ledger.create(every())
    ledger.tick(T0 + SECOND)
    ledger.run()
    verdict, text = why(ledger, T0)
    assert verdict == "succeeded"
    assert text == (
        f"{to_rfc3339(T0)} is slot 0 of 'a', revision 1. It ran and succeeded;"
        " started 1 s after it was due and the run took 5 ms."
    )


def test_slots_of_an_outage_are_represented_by_the_last_one(ledger: Ledger) -> None:
    ledger.create(every())
    ledger.tick(T0 + 4 * MINUTE + 30 * SECOND)
    ledger.run()
    verdict, text = why(ledger, T0 + 2 * MINUTE)
    assert verdict == "represented"
    assert "is slot 2 of 'a'" in text
    assert "came 2 min 30 s late, and misfire runOnce made one occurrence of all that were due: slot 4" in text
    assert "represents slots 0–4 (5 of them)" in text
    assert "It represents slots 0–4 (5 of them): misfire runOnce" in why(ledger, T0 + 4 * MINUTE)[1]


def test_late_slots_under_skip(ledger: Ledger) -> None:
    ledger.create(every(misfire="skip"))
    ledger.tick(T0 + HOUR)
    verdict, text = why(ledger, T0 + 30 * MINUTE)
    assert verdict == "skipped"
    assert "misfire skip drops slots that are later than graceSeconds 60" in text
    assert "It is one of slots 0–58 (59 of them), skipped together." in text


def test_a_slot_that_was_folded_into_a_waiting_one(ledger: Ledger) -> None:
    ledger.create(every())
    for minutes in range(4):
        ledger.tick(T0 + minutes * MINUTE)
        if minutes == 0:
            ledger.begin()
    verdict, text = why(ledger, T0 + 2 * MINUTE)
    assert verdict == "represented"
    assert "overlap coalesce folded it into slot 1" in text
    assert "That occurrence waits behind earlier work of the schedule (overlap coalesce)." in text


def test_a_failure_says_why_it_was_the_last_try(ledger: Ledger) -> None:
    ledger.create(every(DAY, max_retries=1, retry_delay=SECOND))
    first = T0 + (-T0) % DAY
    ledger.tick(first)
    ledger.finish(failed(ledger.begin()[0], first, "first"))
    assert "It failed and will be tried again at" in why(ledger, first)[1]
    ledger.now += 10 * SECOND
    ledger.finish(failed(ledger.begin()[0], ledger.now, "second"))
    verdict, text = why(ledger, first)
    assert verdict == "failed"
    assert "no retry is left (maxRetries 1)" in text
    assert "Attempt 1 failed after 5 ms (Error: first). Attempt 2 failed after 5 ms (Error: second)." in text


def test_what_was_passed_over_while_disabled(ledger: Ledger) -> None:
    ledger.create(every())
    ledger.control("disable", note="quiet")
    ledger.now = T0 + 5 * MINUTE
    assert "Nothing was due then: the schedule is disabled by tester" in why(ledger, T0 + MINUTE)[1]
    ledger.control("enable")
    verdict, text = why(ledger, T0 + MINUTE)
    assert (verdict, "the schedule was disabled or paused by failures" in text) == ("skipped", True)


def test_a_paused_schedule_accumulates(ledger: Ledger) -> None:
    ledger.create(every())
    ledger.control("pause")
    ledger.now = T0 + 5 * MINUTE
    verdict, text = why(ledger, T0 + MINUTE)
    assert verdict == "unjudged"
    assert "is slot 1 of 'a'" in text
    assert "Resuming it applies misfire runOnce to what accumulated." in text


def test_a_coming_slot_has_its_ordinal(ledger: Ledger) -> None:
    ledger.create(every())
    verdict, text = why(ledger, T0 + 90 * MINUTE)
    assert verdict == "future"
    assert "is slot 90 of 'a', revision 1. It is not due yet (1 h 30 min from now)." in text


def test_an_instant_before_the_beginning(ledger: Ledger) -> None:
    ledger.create(every())
    verdict, text = why(ledger, T0 - MINUTE)
    assert verdict == "none"
    assert f"revision 1 began at {to_rfc3339(T0)}" in text


def test_an_instant_that_is_no_slot(ledger: Ledger) -> None:
    ledger.create(every())
    verdict, text = why(ledger, T0 + SECOND)
    assert verdict == "notASlot"
    assert "it lies between two ticks" in text


def test_a_slot_of_a_replaced_revision(ledger: Ledger) -> None:
    ledger.create(every())
    ledger.tick(T0 + SECOND)
    ledger.run()
    ledger.now = T0 + 90 * SECOND
    ledger.update(every(HOUR))
    assert "is slot 0 of 'a', revision 1 (revision 2 is the live one)." in why(ledger, T0)[1]
    verdict, text = why(ledger, T0 + MINUTE)
    assert (verdict, "the revision was replaced before a tick judged it" in text) == ("skipped", True)
    assert why(ledger, T0 + HOUR)[0] == "future"
    assert why(ledger, T0 + 2 * MINUTE)[0] == "notASlot"


def test_a_schedule_that_ended_by_its_budget(ledger: Ledger) -> None:
    ledger.create(every(max_occurrences=1))
    ledger.tick(T0)
    ledger.run()
    ledger.tick(T0 + MINUTE)
    verdict, text = why(ledger, T0 + 5 * MINUTE)
    assert verdict == "none"
    assert "the schedule is ended because maxOccurrences 1 is used up" in text


def test_an_operators_skip_names_its_author(ledger: Ledger) -> None:
    ledger.create(every())
    ledger.control("skip", dues=[T0 + MINUTE], note="audit")
    assert "tester asked for it to be skipped (audit)" in why(ledger, T0 + MINUTE)[1]
    ledger.tick(T0 + MINUTE)
    verdict, text = why(ledger, T0 + MINUTE)
    assert (verdict, "an operator asked for it to be skipped" in text) == ("skipped", True)


def test_runs_that_were_asked_for_are_told_beside_the_verdict(ledger: Ledger) -> None:
    ledger.create(every())
    ledger.control("backfill", dues=[T0 - MINUTE], max_concurrent=1)
    ledger.run()
    verdict, text = why(ledger, T0 - MINUTE)
    assert verdict == "none"
    assert text.endswith("Backfill 0 ran and succeeded; started 1 min after it was due and the run took 5 ms.")
    ledger.now = T0 + 7 * SECOND
    ledger.control("run_extra")
    _, text = why(ledger, T0 + 7 * SECOND)
    assert text.endswith("Manual run 0 is ready to run; no owner lives, so nobody claims it.")


def test_an_unknown_schedule(ledger: Ledger) -> None:
    with pytest.raises(UnknownSchedule):
        why(ledger, T0, "nope")
