"""Seed 004, the lifecycle of a schedule: one test a statement (docs/seeds.md says which)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from calsched.clock import to_rfc3339
from calsched.errors import InvalidInput, MoveNotAllowed, PendingWork, UnknownSchedule
from calsched.settings import Settings
from calsched.stores import control
from calsched.stores.engine import Store
from tests.seeds._helpers import Desk
from tests.stores._helpers import HOUR, MINUTE, T0, every, failed, instant, succeeded


def hourly(**more: Any) -> dict[str, Any]:
    rule = {"kind": "interval", "hours": 1, "firstTick": to_rfc3339(T0)}
    return {"id": "a", "trigger": rule, "task": "jobs:run", **more}


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Desk]:
    """A workspace with a zone of its own, and a least distance of 15 minutes between due times."""
    settings = Settings(timezone="Europe/Berlin", minimum_interval={"default": 15 * MINUTE})
    desk = Desk(tmp_path, settings=settings)
    yield desk
    desk.close()


def fail_once(desk: Desk, n: int) -> None:
    desk.tick(T0 + n * HOUR)
    (taken,) = desk.begin()
    desk.finish(failed(taken, desk.now, f"failure {n}"))


def five_failures(desk: Desk) -> None:
    for n in range(5):
        fail_once(desk, n)


def cannot_be_loaded(desk: Desk) -> None:
    """What is stored is no recurrence any more; an owner comes by."""
    r = desk.store.tables.revisions
    with desk.store.write() as conn:
        conn.execute(update(r).values(definition='{"trigger": "never"}'))
    desk.store.compiled.forget()
    desk.now = T0
    assert desk.work() == []


def counts(desk: Desk) -> dict[str, int]:
    """Rows by table."""
    return {name.removeprefix("calsched_"): len(rows) for name, rows in desk.rows().items()}


# --- the states -------------------------------------------------------------------------------------------------------


def test_absent_is_what_has_no_row(desk: Desk) -> None:
    with pytest.raises(UnknownSchedule):
        desk.app.get("a")
    assert counts(desk)["schedules"] == 0


def test_enabled_with_a_next_occurrence_is_claimed_when_it_is_due(desk: Desk) -> None:
    view = desk.declare(hourly())
    assert (view.state, view.next_due) == ("enabled", T0)
    desk.tick(T0)
    assert [one.ordinal for one in desk.claim()] == [0]


def test_disabled_has_no_next_occurrence(desk: Desk) -> None:
    desk.declare(hourly())
    view = desk.app.disable("a")
    assert (view.state, view.next_due) == ("disabled", None)


@pytest.mark.parametrize(("cause", "reason"), [(five_failures, "failures"), (cannot_be_loaded, "invalid")])
def test_paused_carries_the_reason_repeated_failure_or_an_invalid_recurrence(
    desk: Desk, cause: Any, reason: str
) -> None:
    desk.declare(hourly())
    cause(desk)
    view = desk.view()
    assert (view.state, view.reason, view.next_due) == ("paused", reason, None)


def test_ended_has_no_future_occurrence_and_keeps_its_history(desk: Desk) -> None:
    desk.declare({"id": "a", "at": to_rfc3339(T0), "task": "jobs:run"})
    desk.tick(T0)
    desk.run()
    view = desk.view()
    assert (view.state, view.reason, view.next_due) == ("ended", "exhausted", None)
    assert desk.states() == [(0, "succeeded", None)]


def test_deleted_is_without_row_and_without_run_history(desk: Desk) -> None:
    desk.declare(hourly(maxRetries=1, retry={"delaySeconds": 0}))
    for fail in (True, False):
        desk.tick(T0)
        desk.run(fail=fail)
    desk.tick(T0 + 2 * HOUR)
    desk.run()
    desk.app.skip("a", [T0 + 3 * HOUR])
    names = ("schedules", "revisions", "occurrences", "attempts", "ranges", "skips")
    assert [counts(desk)[name] for name in names] == [1, 1, 2, 3, 1, 1]
    desk.app.delete("a")
    assert [counts(desk)[name] for name in names] == [0] * 6
    with pytest.raises(UnknownSchedule):
        desk.app.show("a")


# --- absent → enabled, absent → disabled ------------------------------------------------------------------------------


def test_saving_an_enabled_schedule_computes_its_next_occurrence_from_now(desk: Desk) -> None:
    desk.now = T0 + 90 * MINUTE
    assert desk.declare(hourly()).next_due == T0 + 2 * HOUR
    desk.now = T0 + 2 * HOUR
    assert desk.declare(hourly(id="b")).next_due == T0 + 2 * HOUR, "now itself counts"


def test_a_rule_without_a_zone_gets_the_workspaces(limited: Desk) -> None:
    view = limited.declare({"id": "a", "trigger": {"kind": "calendar", "at": "06:15"}, "task": "jobs:run"})
    assert view.definition is not None
    assert view.definition.trigger["timezone"] == "Europe/Berlin"
    assert view.next_due == instant("2027-01-16T05:15:00Z")
    own = limited.declare({"id": "b", "cron": "15 6 * * *", "timezone": "UTC", "task": "jobs:run"})
    assert own.next_due == instant("2027-01-16T06:15:00Z")


def test_a_schedule_is_saved_in_its_owners_transaction(desk: Desk) -> None:
    """With the record that it belongs to, or not at all."""
    before = desk.rows()
    with pytest.raises(ZeroDivisionError), desk.store.write() as mine:
        with desk.store.write(mine) as conn:
            control.create(desk.store, conn, every(HOUR), now=T0, principal="module")
        raise ZeroDivisionError
    assert desk.rows() == before


TOO_OFTEN = [
    {"every": "14m 59s"},
    {"trigger": {"kind": "calendar", "at": ["06:00", "06:14"]}},
    {"cron": "*/10 * * * *"},
    {"trigger": {"kind": "rrule", "rrule": "FREQ=MINUTELY;INTERVAL=5", "dtstart": "2027-01-01T00:00:00"}},
]
MALFORMED = [
    {"cron": "61 * * * *"},
    {"every": "soon"},
    {"trigger": {"kind": "calendar", "at": "25:00"}},
    {"trigger": {"kind": "rrule", "rrule": "FREQ=NEVER", "dtstart": "2027-01-01T00:00:00"}},
]


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("rule", TOO_OFTEN, ids=lambda rule: next(iter(rule)))
def test_an_interval_below_the_owners_minimum_is_refused_also_for_a_disabled_save(
    limited: Desk, rule: dict[str, Any], enabled: bool
) -> None:
    before = limited.rows()
    with pytest.raises(InvalidInput, match="this namespace allows no less than 900 s"):
        limited.declare({"id": "a", "task": "jobs:run", "enabled": enabled, **rule})
    assert limited.rows() == before


def test_exactly_the_minimum_is_allowed_and_other_namespaces_have_their_own(limited: Desk) -> None:
    limited.declare({"id": "a", "task": "jobs:run", "every": "15m"})
    limited.app.settings = replace(limited.app.settings, namespace="fast")
    limited.declare({"id": "a", "task": "jobs:run", "every": "1s"})


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("rule", MALFORMED, ids=lambda rule: next(iter(rule)))
def test_a_malformed_recurrence_is_refused_also_for_a_disabled_save(
    desk: Desk, rule: dict[str, Any], enabled: bool
) -> None:
    before = desk.rows()
    with pytest.raises(InvalidInput):
        desk.declare({"id": "a", "task": "jobs:run", "timezone": "UTC", "enabled": enabled, **rule})
    assert desk.rows() == before


def test_a_schedule_saved_disabled_has_no_next_occurrence_and_is_never_claimed(desk: Desk) -> None:
    view = desk.declare(hourly(enabled=False))
    assert (view.state, view.next_due) == ("disabled", None)
    desk.tick(T0 + 5 * HOUR)
    assert (desk.claim(), desk.occurrences(), desk.ranges()) == ([], [], [])


# --- enabled → enabled ------------------------------------------------------------------------------------------------


def test_a_claim_needs_due_and_enabled_timing(desk: Desk) -> None:
    desk.declare(hourly())
    desk.tick(T0 - 1)
    assert desk.claim() == []
    desk.tick(T0)
    desk.app.pause("a")
    assert desk.claim() == []
    desk.app.resume("a")
    assert len(desk.claim()) == 1


def test_each_selected_occurrence_gets_one_run_identity(desk: Desk) -> None:
    desk.declare(hourly(overlap="queue"))
    for now in (T0, T0, T0 + HOUR, T0 + HOUR):
        desk.tick(now)
    keys = [one.key for one in desk.occurrences()]
    assert len(keys) == len(set(keys)) == 2


def test_timing_moves_forward_to_the_following_morning(limited: Desk) -> None:
    limited.now = instant("2027-01-16T00:00:00Z")
    limited.declare({"id": "a", "trigger": {"kind": "calendar", "at": "06:15"}, "task": "jobs:run"})
    limited.tick(instant("2027-01-16T05:15:00Z"))
    limited.run()
    assert limited.view().next_due == instant("2027-01-17T05:15:00Z")


def test_a_claim_passes_over_older_missed_occurrences(desk: Desk) -> None:
    desk.declare(hourly())
    desk.tick(T0 + 5 * HOUR)
    assert [(one.ordinal, one.due) for one in desk.claim()] == [(5, T0 + 5 * HOUR)]
    assert desk.view().next_due == T0 + 6 * HOUR
    assert desk.ranges() == [(0, 4, "represented")], "and each of them has its verdict"


def test_saving_a_changed_definition_computes_the_future_anew_and_refuses_a_bad_one(desk: Desk) -> None:
    desk.declare(hourly())
    with pytest.raises(InvalidInput):
        desk.app.update("a", b'{"trigger": {"kind": "interval", "seconds": -1}}', format="json")
    desk.now = T0 + MINUTE
    rule = {"kind": "interval", "minutes": 7, "firstTick": to_rfc3339(T0)}
    view = desk.app.update("a", json.dumps({"trigger": rule}).encode(), format="json")
    assert (view.state, view.next_due) == ("enabled", T0 + 7 * MINUTE)


def test_failure_counts_are_kept_when_outcomes_are_recorded(desk: Desk) -> None:
    desk.declare(hourly())
    for n in range(3):
        fail_once(desk, n)
        assert desk.view().failures == n + 1


# --- enabled → paused -------------------------------------------------------------------------------------------------


def test_the_fifth_failure_in_a_row_pauses_and_the_fourth_does_not(desk: Desk) -> None:
    desk.declare(hourly())
    for n in range(4):
        fail_once(desk, n)
    assert (desk.view().state, desk.view().failures) == ("enabled", 4)
    fail_once(desk, 4)
    view = desk.view()
    assert (view.state, view.reason, view.failures, view.next_due) == ("paused", "failures", 5, None)
    assert view.last_failure is not None and "failure 4" in view.last_failure
    desk.tick(T0 + 5 * HOUR)
    assert desk.claim() == []
    assert desk.decisions()[-1] == "fail"


def test_a_success_starts_the_count_anew_and_a_skipped_occurrence_leaves_it(desk: Desk) -> None:
    desk.declare(hourly(overlap="skip"))
    for n in range(4):
        fail_once(desk, n)
    desk.tick(T0 + 4 * HOUR)
    (running,) = desk.begin()
    desk.tick(T0 + 5 * HOUR)  # skipped, because that one still runs
    assert (desk.ranges(), desk.view().failures) == ([(5, 5, "overlap")], 4)
    desk.finish(succeeded(running, desk.now))
    assert (desk.view().failures, desk.view().last_failure is None) == (0, False), "the last failure stays told"
    for n in range(6, 10):
        fail_once(desk, n)
    assert desk.view().state == "enabled"


def test_an_invalid_stored_definition_pauses_and_the_reason_is_kept(desk: Desk) -> None:
    desk.declare(hourly())
    cannot_be_loaded(desk)
    view = desk.view()
    assert (view.state, view.reason, view.next_due) == ("paused", "invalid", None)
    assert view.attention is not None and "its definition cannot be used" in view.attention
    assert desk.decisions()[-1] == "invalidate"


# --- enabled → disabled → enabled, paused → enabled -------------------------------------------------------------------


def test_disabling_clears_the_next_occurrence_and_does_not_cancel_a_run_that_has_begun(desk: Desk) -> None:
    desk.declare(hourly(overlap="queue"))
    desk.tick(T0)
    (running,) = desk.begin()
    desk.tick(T0 + HOUR)
    desk.app.disable("a")
    assert desk.view().next_due is None
    desk.tick(T0 + 3 * HOUR)
    assert desk.claim() == []
    desk.finish(succeeded(running, desk.now))
    assert desk.states() == [(0, "succeeded", None), (1, "skipped", "disabled")]


def test_enabling_computes_from_now_and_replays_nothing(desk: Desk) -> None:
    desk.declare(hourly(misfire="catchUp", overlap="queue"))
    desk.app.disable("a")
    desk.now = T0 + 4 * HOUR + MINUTE
    assert desk.app.enable("a").next_due == T0 + 5 * HOUR
    desk.tick()
    assert desk.occurrences() == []
    assert desk.ranges() == [(0, 4, "disabled")], "the ledger says what became of the missed ones"
    desk.check()


def test_a_disabled_schedule_whose_definition_is_no_longer_valid_is_not_enabled(desk: Desk) -> None:
    desk.declare(hourly())
    desk.app.disable("a")
    r = desk.store.tables.revisions
    with desk.store.write() as conn:
        conn.execute(update(r).values(definition='{"trigger": "never"}'))
    desk.store.compiled.forget()
    with pytest.raises(MoveNotAllowed, match="cannot be used"):
        desk.app.enable("a")
    assert desk.view().state == "disabled"


def test_enabling_a_paused_schedule_computes_from_now_and_clears_reason_and_count(desk: Desk) -> None:
    desk.declare(hourly())
    five_failures(desk)
    desk.now = T0 + 9 * HOUR + MINUTE
    view = desk.app.enable("a")
    assert (view.state, view.reason, view.failures, view.last_failure) == ("enabled", None, 0, None)
    assert (view.attention, view.next_due) == (None, T0 + 10 * HOUR)
    for n in range(10, 14):
        fail_once(desk, n)
    assert desk.view().state == "enabled", "four more do not make five"


def test_a_paused_schedule_with_an_invalid_definition_is_enabled_only_when_that_is_valid_again(desk: Desk) -> None:
    desk.declare(hourly())
    r = desk.store.tables.revisions
    with desk.store.read() as conn:
        good = conn.execute(select(r.c.definition)).scalar_one()
    cannot_be_loaded(desk)
    with pytest.raises(MoveNotAllowed, match="cannot be used"):
        desk.app.enable("a")
    with desk.store.write() as conn:  # a deploy repairs it
        conn.execute(update(r).values(definition=good))
    desk.store.compiled.forget()
    desk.now = T0 + 2 * HOUR + 1
    view = desk.app.enable("a")
    assert (view.state, view.reason, view.attention, view.next_due) == ("enabled", None, None, T0 + 3 * HOUR)


# --- enabled → ended --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule",
    [
        {"at": to_rfc3339(T0)},
        {"trigger": {"kind": "interval", "hours": 1, "firstTick": to_rfc3339(T0), "end": to_rfc3339(T0 + MINUTE)}},
        {"trigger": {"kind": "rrule", "rrule": "FREQ=DAILY;COUNT=1", "dtstart": "2027-01-15T08:00:00"}},
    ],
    ids=["once", "interval", "rrule"],
)
def test_a_recurrence_is_exhausted_when_nothing_follows_the_claimed_occurrence(
    desk: Desk, rule: dict[str, Any]
) -> None:
    desk.declare({"id": "a", "task": "jobs:run", "timezone": "UTC", **rule})
    desk.tick(T0)
    desk.run()
    view = desk.view()
    assert (view.state, view.reason, view.next_due) == ("ended", "exhausted", None)
    assert desk.states() == [(0, "succeeded", None)]


# --- deleted ----------------------------------------------------------------------------------------------------------


def ended(desk: Desk) -> None:
    desk.app.update("a", json.dumps({"maxOccurrences": 1}).encode(), format="json")
    desk.tick(T0 + HOUR)
    desk.run()


BEFORE_DELETION: dict[str, Any] = {
    "enabled": lambda desk: desk.tick(T0) and desk.run(),
    "paused": five_failures,
    "disabled": lambda desk: desk.app.disable("a"),
    "ended": ended,
}


@pytest.mark.parametrize("state", sorted(BEFORE_DELETION))
def test_a_schedule_of_any_state_is_removed_with_its_run_history(desk: Desk, state: str) -> None:
    desk.declare(hourly())
    BEFORE_DELETION[state](desk)
    assert desk.view().state == state
    desk.app.delete("a")
    left = counts(desk)
    assert [left[name] for name in ("schedules", "revisions", "occurrences", "attempts", "ranges")] == [0] * 5


def test_a_purge_of_a_workspace_removes_all_of_its_schedules_and_no_others(desk: Desk) -> None:
    for name in ("a", "b"):
        desk.declare(hourly(id=name))
    desk.declare(hourly(namespace="other"))
    desk.tick(T0)
    with pytest.raises(PendingWork):
        desk.app.delete_namespace()
    assert len(desk.app.list().schedules) == 2, "all or none"
    for taken in desk.begin():
        desk.finish(succeeded(taken, desk.now))
    desk.app.delete_namespace()
    assert [(one.namespace, one.id) for one in desk.app.list(every_namespace=True).schedules] == [("other", "a")]


# --- what cannot happen -----------------------------------------------------------------------------------------------


def test_a_failure_after_disabling_pauses_nothing(desk: Desk) -> None:
    desk.declare(hourly())
    for n in range(4):
        fail_once(desk, n)
    desk.tick(T0 + 4 * HOUR)
    (running,) = desk.begin()
    desk.app.disable("a")
    desk.finish(failed(running, desk.now))
    assert (desk.view().state, desk.view().reason, desk.view().failures) == ("disabled", "operator", 5)
    with pytest.raises(MoveNotAllowed):
        desk.app.pause("a")


def test_a_removed_schedule_comes_back_only_as_a_new_record_with_fresh_history(desk: Desk) -> None:
    desk.declare(hourly())
    desk.tick(T0)
    (before,) = desk.occurrences()
    desk.run()
    desk.app.delete("a")
    for act in (desk.app.enable, desk.app.resume):
        with pytest.raises(UnknownSchedule):
            act("a")
    desk.now = T0 + HOUR
    made = desk.app.create(json.dumps(hourly()).encode(), format="json")
    assert made.created == {"a"}
    assert (made.schedules[0].next_ordinal, made.schedules[0].failures, desk.occurrences()) == (0, 0, [])
    desk.tick()
    assert desk.one().key != before.key, "no key is ever given twice"


@pytest.mark.parametrize("state", ["disabled", "paused"])
def test_disabled_and_paused_schedules_get_no_new_claims_and_do_not_resume_by_themselves(
    desk: Desk, state: str
) -> None:
    desk.declare(hourly())
    BEFORE_DELETION[state](desk)
    for n in range(6, 12):
        desk.own_again()
        desk.tick(T0 + n * HOUR)
        assert desk.claim() == []
    assert desk.view().state == state


# --- runs, concurrency, timing ----------------------------------------------------------------------------------------


def test_one_row_of_history_has_as_many_attempts_as_were_made(desk: Desk) -> None:
    desk.declare(hourly(maxRetries=2, retry={"delaySeconds": 0}))
    desk.tick(T0)
    for fail in (True, True, False):
        desk.run(fail=fail)
        desk.tick()
    (one,) = desk.occurrences()
    assert [(attempt.number, attempt.state) for attempt in one.attempts] == [
        (1, "failed"),
        (2, "failed"),
        (3, "succeeded"),
    ]
    assert desk.view().failures == 0


def test_two_claimers_never_get_one_row(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for n in range(40):
        desk.declare(hourly(id=f"job-{n}"))
    desk.tick(T0)
    barrier = threading.Barrier(4)
    taken: list[int] = []
    faults: list[BaseException] = []

    def take() -> None:
        from calsched.stores.claim import claim

        store = Store(desk.url, clock=desk.clock)
        store.open()
        try:
            barrier.wait(20)
            for _ in range(8):
                with store.write() as conn:
                    found = claim(store, conn, epoch=desk.epoch, now=T0, limit=3)
                taken.extend(one.occurrence for one in found)
        except BaseException as error:
            faults.append(error)
        finally:
            store.dispose()

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert faults == []
    assert len(taken) == len(set(taken)) == 40
    desk.close()


def test_work_beyond_the_workers_waits(desk: Desk) -> None:
    for n in range(5):
        desk.declare(hourly(id=f"job-{n}"))
    desk.tick(T0)
    assert len(desk.claim(executors={"default": 2})) == 2
    assert len(desk.claim(executors={"default": 0})) == 0
    assert [desk.states(f"job-{n}")[0][1] for n in range(5)].count("ready") == 3


def test_an_early_morning_occurrence_in_the_spring_gap_moves_an_hour_later_where_that_is_declared(
    limited: Desk,
) -> None:
    limited.now = instant("2027-03-27T12:00:00Z")  # Berlin's clocks go forward at 02:00 the next morning
    rule = {"kind": "calendar", "at": "02:30"}
    shifted = limited.declare({"id": "a", "trigger": {**rule, "gap": "shift"}, "task": "jobs:run"})
    assert shifted.next_due == instant("2027-03-28T01:30:00Z"), "03:30 on the wall clock"
    skipped = limited.declare({"id": "b", "trigger": rule, "task": "jobs:run"})
    assert skipped.next_due == instant("2027-03-29T00:30:00Z"), "the default leaves that day out"


def test_every_pause_is_announced_where_people_look(desk: Desk) -> None:
    desk.declare(hourly())
    five_failures(desk)
    (view,) = desk.app.list(attention=True).schedules
    assert (view.id, view.state) == ("a", "paused")
    assert not desk.app.doctor().ok
    assert "attention" in {finding.kind for finding in desk.app.doctor().findings}
    (decision, *_) = desk.app.show("a").show.decisions
    assert (decision.action, decision.from_state, decision.to_state) == ("fail", "enabled", "paused")
