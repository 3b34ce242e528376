"""Controls on every database: each move, what it does to the cursor and to pending work, and who decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event

from calsched.approval import Approval, VerificationContext, control_material, subject
from calsched.approval import Ref as ApprovalRef
from calsched.errors import (
    AlreadyExists,
    ApprovalDenied,
    InvalidInput,
    MoveNotAllowed,
    PendingWork,
    Refused,
    StaleVersion,
    UnknownSchedule,
)
from calsched.model import Task
from calsched.stores import control, inspect
from calsched.stores.engine import Store
from tests.stores._helpers import DAY, HOUR, MINUTE, SECOND, T0, Ledger, every, failed, succeeded


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger(store)


# --- create -----------------------------------------------------------------------------------------------------------


def test_a_schedule_starts_at_its_first_slot_at_or_after_its_creation(ledger: Ledger) -> None:
    ledger.now = T0 + 1
    view = ledger.create(every(MINUTE))
    assert (view.state, view.revision, view.state_version, view.next_due) == ("enabled", 1, 1, T0 + MINUTE)
    assert view.created
    assert ledger.decisions() == ["create"]


def test_a_disabled_schedule_collects_nothing_until_it_is_enabled(ledger: Ledger) -> None:
    view = ledger.create(every(MINUTE), enabled=False)
    assert (view.state, view.reason, view.next_due) == ("disabled", "operator", None)
    assert ledger.tick(T0 + HOUR).schedules == []
    view = ledger.control("enable")
    assert (view.state, view.next_due) == ("enabled", T0 + HOUR + MINUTE)
    assert ledger.ranges() == [(0, 60, "disabled")]
    ledger.check()


def test_creating_the_same_again_returns_what_is_there_untouched(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.control("pause")
    before = ledger.view()
    again = ledger.create(every(MINUTE))
    assert again == before
    assert not again.created
    assert ledger.decisions() == ["create", "pause"]


def test_creating_it_with_other_material_fails(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    with pytest.raises(AlreadyExists, match="other material"):
        ledger.create(every(HOUR))
    with pytest.raises(AlreadyExists, match="revision 1 is enabled: cancel it first"):
        ledger.create(every(HOUR), revision=2)
    with pytest.raises(AlreadyExists, match="the next one is revision 2"):
        ledger.create(every(HOUR), revision=7)


def test_the_next_revision_of_a_cancelled_schedule_can_be_created(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.control("cancel")
    view = ledger.create(every(HOUR), revision=2)
    assert (view.revision, view.state) == (2, "enabled")


def test_a_deleted_schedules_revision_numbers_are_not_given_again(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.update(every(HOUR))
    ledger.control("delete")
    with pytest.raises(UnknownSchedule):
        ledger.view()
    assert ledger.create(every(MINUTE)).revision == 3
    assert ledger.decisions() == ["create", "revise", "delete", "create"]


def test_backlog_from_start_begins_at_ordinal_zero_however_long_ago(ledger: Ledger) -> None:
    trigger = {"kind": "interval", "intervalMs": DAY, "firstTick": "2020-01-01T00:00:00Z"}
    d = every(DAY, backlog="fromStart")
    view = ledger.create(type(d).from_material(d.material() | {"trigger": trigger}))
    assert view.next_due == 1_577_836_800_000


def test_a_rule_without_a_further_slot_is_ended_from_the_beginning(ledger: Ledger) -> None:
    d = every(DAY)
    once = {"kind": "once", "at": "2020-01-01T00:00:00Z"}
    view = ledger.create(type(d).from_material(d.material() | {"trigger": once}))
    assert (view.state, view.reason, view.next_due) == ("ended", "exhausted", None)


def test_a_creation_in_the_callers_transaction_goes_with_it(ledger: Ledger) -> None:
    store = ledger.store
    with store.engine.connect() as conn:
        transaction = conn.begin()
        with store.write(conn) as joined:
            control.create(store, joined, every(MINUTE), now=T0, principal="app")
        transaction.rollback()
    with pytest.raises(UnknownSchedule):
        ledger.view()


# --- pause and resume -------------------------------------------------------------------------------------------------


def test_a_pause_keeps_the_cursor_and_resume_leaves_the_rest_to_the_misfire_policy(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, misfire="runOnce", grace=0))
    view = ledger.control("pause", note="the office is closed")
    assert (view.state, view.reason, view.note, view.changed_by) == (
        "paused", "operator", "the office is closed", "tester",
    )  # fmt: skip
    assert (view.next_due, view.held_due) == (None, T0)
    assert ledger.tick(T0 + 5 * MINUTE + 1).schedules == []
    assert ledger.control("resume").next_due == T0
    ledger.tick()
    assert ledger.states() == [(5, "ready", None)]
    assert ledger.ranges() == [(0, 4, "represented")]
    ledger.check()


def test_a_resume_without_replay_passes_over_what_accumulated(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.control("pause")
    ledger.now = T0 + 5 * MINUTE + 1
    assert ledger.control("resume", replay=False).next_due == T0 + 6 * MINUTE
    assert ledger.ranges() == [(0, 5, "disabled")]
    ledger.check()


def test_a_pause_until_an_instant_ends_by_itself(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    view = ledger.control("pause", until=T0 + 10 * MINUTE)
    assert view.resume_at == T0 + 10 * MINUTE
    assert ledger.tick(T0 + 10 * MINUTE - 1).resumed == []
    report = ledger.tick(T0 + 10 * MINUTE)
    assert report.resumed == [view.pk]
    assert [made.id for made in report.schedules] == ["a"]
    view = ledger.view()
    assert (view.state, view.resume_at) == ("enabled", None)
    assert ledger.decisions() == ["create", "pause", "resume"]


def test_what_waits_is_held_by_a_pause_and_runs_after_it(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, overlap="queue"))
    ledger.tick(T0 + MINUTE)
    ledger.control("pause")
    assert ledger.claim() == []
    ledger.control("resume")
    assert [one.ordinal for one in ledger.claim()] == [0]
    ledger.check()


# --- disable and enable -----------------------------------------------------------------------------------------------


def test_disabling_skips_what_waits_and_lets_what_runs_finish(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, overlap="queue"))
    ledger.tick(T0)
    (running,) = ledger.begin()
    ledger.tick(T0 + MINUTE)
    view = ledger.control("disable")
    assert (view.state, view.next_due) == ("disabled", None)
    assert ledger.states() == [(0, "running", None), (1, "skipped", "disabled")]
    ledger.finish(succeeded(running, ledger.now))
    assert ledger.states()[0] == (0, "succeeded", None)
    ledger.check()


def test_disabling_records_what_was_due_and_not_judged(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.now = T0 + 3 * MINUTE
    ledger.control("disable")
    ledger.now = T0 + 5 * MINUTE
    ledger.control("enable")
    assert ledger.ranges() == [(0, 5, "disabled")]
    ledger.check()


def test_a_retry_that_waits_fails_when_its_schedule_is_disabled(ledger: Ledger) -> None:
    ledger.create(every(HOUR, max_retries=2))
    ledger.tick(T0)
    ledger.run(fail=True)
    ledger.control("disable")
    assert ledger.states() == [(0, "failed", "disabled")]
    ledger.check()


@pytest.mark.parametrize("action", ["disable", "cancel", "remove"])
def test_whoever_disables_or_cancels_what_failures_have_paused_has_looked_at_it(ledger: Ledger, action: str) -> None:
    ledger.create(every(MINUTE, pause_after_failures=1))
    ledger.tick(T0)
    ledger.run(fail=True)
    assert ledger.view().attention == "paused after 1 failure in a row"
    view = ledger.control(action)
    assert (view.failures, view.attention) == (1, None)


def test_enabling_after_failures_starts_from_now_with_a_clean_count(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, pause_after_failures=1))
    ledger.tick(T0)
    ledger.run(fail=True)
    ledger.now = T0 + 10 * MINUTE + 1
    with pytest.raises(MoveNotAllowed, match="paused by itself"):
        ledger.control("resume")
    view = ledger.control("enable")
    assert (view.state, view.reason, view.failures) == ("enabled", None, 0)
    assert (view.last_failure, view.attention) == (None, None)
    assert view.next_due == T0 + 11 * MINUTE
    assert ledger.ranges() == [(1, 10, "disabled")]
    ledger.check()


def test_enabling_with_catch_up_leaves_what_accumulated_to_the_misfire_policy(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.control("retire")
    assert ledger.view().reason == "retired"
    ledger.now = T0 + 5 * MINUTE
    assert ledger.control("enable", catch_up=True).next_due == T0 + MINUTE
    ledger.check()


# --- cancel, remove, delete -------------------------------------------------------------------------------------------


def test_cancelling_cancels_what_waits_and_asks_what_runs_to_stop(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, overlap="queue"))
    ledger.tick(T0)
    (running,) = ledger.begin()
    ledger.tick(T0 + 2 * MINUTE)
    ledger.control("cancel")
    assert [state for _, state, _ in ledger.states()] == ["running", "cancelled", "cancelled"]
    from calsched.stores.claim import cancel_requested

    with ledger.store.read() as conn:
        assert cancel_requested(ledger.store, conn, epoch=ledger.epoch) == {running.occurrence}
    ledger.finish(failed(running, ledger.now)._replace(state="cancelled"))
    assert (ledger.view().state, ledger.view().open_count) == ("cancelled", 0)
    ledger.check()


def test_cancelling_keeps_a_hosts_ready_tasks(ledger: Ledger) -> None:
    task = Task(kind="ready", work_order_id="w", run_id="r", task_class="c", input={})
    ledger.create(every(MINUTE, task=task))
    ledger.tick(T0)
    ledger.control("cancel")
    assert ledger.states() == [(0, "ready", None)]


def test_a_cancelled_schedule_comes_back_as_a_new_revision_only(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.control("cancel")
    for action in ("enable", "resume", "pause"):
        with pytest.raises(MoveNotAllowed):
            ledger.control(action)
    assert (ledger.update(every(MINUTE)).revision, ledger.view().state) == (2, "enabled")


def test_removing_cancels_what_waits_and_lets_what_runs_finish_unasked(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, overlap="queue"))
    ledger.tick(T0)
    ledger.begin()
    ledger.tick(T0 + MINUTE)
    view = ledger.control("remove")
    assert (view.state, view.reason) == ("disabled", "retired")
    first, second = ledger.occurrences()
    assert (first.state, first.cancel, second.state) == ("running", False, "cancelled")
    ledger.check()


def test_a_schedule_with_pending_work_is_not_deleted(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    with pytest.raises(PendingWork) as caught:
        ledger.control("delete")
    assert caught.value.pending == 1
    ledger.control("delete", cancel_pending=True)
    with pytest.raises(UnknownSchedule):
        ledger.view()


def test_of_pending_work_the_oldest_is_shown_and_the_rest_is_counted(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, overlap="queue", misfire="catchUp", max_catch_up=100))
    ledger.tick(T0 + 9 * MINUTE)
    with ledger.store.read() as conn:
        found = inspect.show(ledger.store, conn, "default", "a", limit=4)
    assert [one.ordinal for one in found.pending] == [0, 1, 2, 3]
    assert found.schedule.open_count == 10


def test_deleting_removes_the_history_and_keeps_the_decisions(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, misfire="skip", grace=0))
    ledger.create(every(MINUTE, "b"))
    ledger.tick(T0)
    ledger.run()
    ledger.control("delete")
    t = ledger.store.tables
    with ledger.store.read() as conn:
        left = {
            table.name: {row.schedule_pk for row in conn.execute(table.select())}
            for table in (t.occurrences, t.ranges, t.revisions, t.skips)
        }
        assert all(pks <= {ledger.view("b").pk} for pks in left.values())
    assert ledger.decisions() == ["create", "delete"]
    ledger.check()


def test_a_namespace_is_deleted_whole_or_not_at_all(ledger: Ledger) -> None:
    for name in ("a", "b"):
        ledger.create(every(MINUTE, name))
    ledger.create(every(MINUTE, "other", namespace="elsewhere"))
    ledger.tick(T0, only=[ledger.view("b").pk])
    store = ledger.store
    with pytest.raises(PendingWork), store.write() as conn:
        control.delete_namespace(store, conn, "default", now=T0, principal="t")
    assert ledger.view("a").state == "enabled"
    ledger.run()
    with store.write() as conn:
        assert control.delete_namespace(store, conn, "default", now=T0, principal="t") == ["a", "b"]
    with store.read() as conn:
        assert [one.id for one in inspect.list_schedules(store, conn).schedules] == ["other"]


# --- new revisions ----------------------------------------------------------------------------------------------------


def test_an_update_waits_for_pending_work_and_starts_afresh(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, max_occurrences=5))
    ledger.tick(T0)
    (taken,) = ledger.begin()
    with pytest.raises(PendingWork):
        ledger.update(every(HOUR))
    ledger.finish(failed(taken, ledger.now))
    view = ledger.update(every(HOUR))
    assert (view.revision, view.used, view.failures, view.next_ordinal) == (2, 0, 0, 0)
    assert view.next_due == T0 + HOUR - T0 % HOUR
    ledger.check()


def test_an_update_that_says_the_same_changes_nothing_where_the_schedule_stands_afresh(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, max_occurrences=5))
    ledger.now = T0 + 3 * MINUTE  # what is due and unjudged stays for the misfire policy
    before = ledger.view()
    assert ledger.update(every(MINUTE, max_occurrences=5)) == before
    assert ledger.decisions() == ["create"]
    with pytest.raises(StaleVersion):
        ledger.update(every(MINUTE, max_occurrences=5), expected_revision=2)
    assert ledger.update(every(MINUTE, max_occurrences=5, description="other words")).revision == 2


def test_an_update_that_says_the_same_is_a_fresh_revision_where_something_is_used(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, max_occurrences=5))
    ledger.tick(T0)
    with pytest.raises(PendingWork):
        ledger.update(every(MINUTE, max_occurrences=5))
    ledger.run()
    view = ledger.update(every(MINUTE, max_occurrences=5))
    assert (view.revision, view.used, view.state) == (2, 0, "enabled")


@pytest.mark.parametrize("action", ["pause", "disable", "cancel"])
def test_an_update_that_says_the_same_reactivates_a_stopped_schedule(ledger: Ledger, action: str) -> None:
    ledger.create(every(MINUTE))
    ledger.control(action)
    view = ledger.update(every(MINUTE))
    assert (view.revision, view.state) == (2, "enabled")


def test_an_update_that_says_the_same_still_cancels_what_it_was_told_to(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.control("run_extra")
    assert ledger.update(every(MINUTE)).open_count == 1
    view = ledger.update(every(MINUTE), cancel_pending=True)
    assert (view.revision, view.open_count) == (2, 0)


def test_a_new_revision_starts_after_everything_that_was_judged(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    ledger.run()
    assert ledger.update(every(SECOND)).next_due == T0 + SECOND
    assert ledger.update(every(MINUTE)).next_due == T0 + MINUTE, "the one in between judged nothing"


def test_what_was_due_and_unjudged_becomes_one_range_of_the_old_revision(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.now = T0 + 3 * MINUTE
    ledger.update(every(HOUR))
    assert ledger.ranges() == [(0, 3, "revised")]
    ledger.check()


def test_a_carried_revision_lets_pending_work_finish_pinned_to_its_own(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    (taken,) = ledger.begin()
    view = ledger.update(every(SECOND), mode="carry")
    assert (view.revision, view.open_count) == (2, 1)
    ledger.tick(T0 + SECOND)
    assert [(one.revision, one.ordinal, one.state) for one in ledger.occurrences()] == [
        (1, 0, "running"), (2, 0, "waiting"),
    ]  # fmt: skip
    ledger.finish(succeeded(taken, ledger.now))
    assert [(one.revision, one.ordinal) for one in ledger.run()] == [(2, 0)]
    ledger.check()


def test_carrying_unchanged_material_writes_nothing(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    before = ledger.view()
    assert ledger.update(every(MINUTE), mode="carry") == before
    assert ledger.decisions() == ["create"]


def test_carrying_other_words_leaves_revision_cursor_and_budget_alone(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, max_occurrences=9))
    ledger.tick(T0)
    view = ledger.update(every(MINUTE, max_occurrences=9, description="nightly"), mode="carry")
    assert (view.revision, view.used, view.next_ordinal, view.open_count) == (1, 1, 1, 1)
    assert view.definition is not None and view.definition.description == "nightly"
    assert ledger.decisions() == ["create", "reword"]
    ledger.check()


@pytest.mark.parametrize(("action", "state"), [("pause", "paused"), ("disable", "disabled")])
def test_a_stopped_schedule_stays_stopped_when_a_revision_is_carried_in(
    ledger: Ledger, action: str, state: str
) -> None:
    ledger.create(every(MINUTE))
    ledger.control(action, note="because")
    ledger.now = T0 + HOUR
    ledger.ask = {"principal": "deploy"}
    view = ledger.update(every(2 * MINUTE), mode="carry")
    assert (view.state, view.reason, view.next_due) == (state, "operator", None)
    assert (view.changed_by, view.note, view.changed_at) == ("tester", "because", T0)
    ledger.check()


def test_an_update_that_cancels_pending_work_goes_ahead(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, overlap="queue"))
    ledger.tick(T0 + MINUTE)
    ledger.update(every(HOUR), cancel_pending=True)
    assert {state for _, state, _ in ledger.states()} == {"cancelled"}
    ledger.check()


def test_a_renamed_schedule_keeps_its_history(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    ledger.run()
    ledger.control("rename", new_id="b")
    assert ledger.states("b") == [(0, "succeeded", None)]
    assert ledger.decisions("a") == ["create", "rename"]
    assert ledger.decisions("b") == ["rename"]
    ledger.create(every(MINUTE, "c"))
    with pytest.raises(AlreadyExists):
        ledger.control("rename", "b", new_id="c")


# --- versions ---------------------------------------------------------------------------------------------------------


def test_a_stale_control_is_refused_with_both_numbers(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    with pytest.raises(StaleVersion, match="expected state version 1, but it is 2 now"):
        ledger.control("pause", expected_version=1)
    with pytest.raises(StaleVersion, match="expected revision 4, but it is 1 now"):
        ledger.control("pause", expected_revision=4)
    assert ledger.control("pause", expected_version=2, expected_revision=1).state_version == 3


def test_an_unknown_schedule_is_named(ledger: Ledger) -> None:
    with pytest.raises(UnknownSchedule, match="no schedule 'nobody' in namespace 'default'"):
        ledger.control("pause", "nobody")


# --- approvals --------------------------------------------------------------------------------------------------------


def approved(ledger: Ledger, **changes: Any) -> control.Approved:
    view = ledger.view()
    ref = ApprovalRef("default", "a", view.revision)
    assert view.digest is not None
    material = control_material(ref, "pause", {}, view.digest)
    context = VerificationContext(
        "pause", ref, subject(material), material, ledger.epoch, ledger.store.installation, view.state_version
    )
    approval = Approval("alice", "ticket-7", context.subject_digest, T0 + HOUR, nonce="n1")
    return control.Approved(type(approval)(**{**_fields(approval), **changes}), context)


def _fields(approval: Approval) -> dict[str, Any]:
    return {name: getattr(approval, name) for name in approval.__dataclass_fields__}


def test_an_approved_control_is_recorded_under_the_one_who_approved(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.control("pause", approved=approved(ledger))
    with ledger.store.read() as conn:
        last = inspect.decisions_of(ledger.store, conn, "default", "a")[0]
    assert (last.action, last.principal) == ("pause", "alice")
    assert last.evidence["approval"]["evidence"] == "ticket-7"


def test_an_approval_is_used_once(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.control("pause", approved=approved(ledger))
    ledger.control("resume")
    with pytest.raises(ApprovalDenied, match="used before"):
        ledger.control("pause", approved=approved(ledger))
    assert ledger.view().state == "enabled"


def test_an_approval_that_has_expired_inside_the_transaction_does_not_hold(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    with pytest.raises(ApprovalDenied, match="expired"):
        ledger.control("pause", approved=approved(ledger, expires_at=T0))


def test_an_approval_of_an_older_state_does_not_hold(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    given = approved(ledger)
    ledger.tick(T0)
    with pytest.raises(ApprovalDenied, match="state version 1, there is version 2 now"):
        ledger.control("pause", approved=given)


# --- extra runs, skips ------------------------------------------------------------------------------------------------


def test_an_extra_run_has_ordinals_of_its_own_and_queues_with_the_slots(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    view, _ = ledger.control("run_extra")
    assert view.open_count == 2
    assert [(one.series, one.ordinal, one.state) for one in ledger.occurrences()] == [
        ("slot", 0, "ready"), ("manual", 0, "waiting"),
    ]  # fmt: skip
    ledger.run()
    (extra,) = ledger.run()
    assert (extra.series, extra.due) == ("manual", T0)
    ledger.control("run_extra")
    assert [one.ordinal for one in ledger.run()] == [1]
    assert ledger.view().used == 1
    ledger.check()


def test_an_extra_run_counts_as_pending_work_for_the_slots(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, overlap="skip"))
    ledger.control("run_extra")
    ledger.begin()
    ledger.tick(T0)
    assert ledger.ranges() == [(0, 0, "overlap")]


@pytest.mark.parametrize("action", ["pause", "disable", "cancel"])
def test_nothing_extra_runs_of_a_schedule_that_was_stopped(ledger: Ledger, action: str) -> None:
    ledger.create(every(MINUTE))
    ledger.control(action)
    with pytest.raises(MoveNotAllowed, match="run is not possible"):
        ledger.control("run_extra")


def test_the_next_slot_that_is_not_skipped_already_is_skipped(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.control("skip_next")
    view, due = ledger.control("skip_next")
    assert (view.skip_count, due) == (2, T0 + MINUTE)
    for tick in range(3):
        ledger.tick(T0 + tick * MINUTE)
        ledger.run()
    assert ledger.states() == [(2, "succeeded", None)]
    assert ledger.ranges() == [(0, 1, "operator")]
    ledger.check()


def test_a_skip_can_be_taken_back(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.control("skip", dues=[T0])
    assert ledger.control("unskip", due=T0).skip_count == 0
    with pytest.raises(Refused, match="has no skip"):
        ledger.control("unskip", due=T0)
    ledger.tick(T0)
    assert ledger.states() == [(0, "ready", None)]


def test_only_slots_that_are_still_to_be_judged_can_be_skipped(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    with pytest.raises(InvalidInput) as caught:
        ledger.control("skip", dues=[T0, T0 + 1, T0 - MINUTE])
    messages = [problem.message for problem in caught.value.problems]
    assert "has been judged already" in messages[0]
    assert "is not a due instant" in messages[1]
    assert messages[2].endswith("lies too early: revision 1 begins with 2027-01-15T08:00:00Z")


@pytest.mark.parametrize("more", [{"dues": [T0]}, {}])
def test_nothing_can_be_skipped_of_a_revision_that_is_over(ledger: Ledger, more: dict[str, Any]) -> None:
    ledger.create(every(MINUTE))
    ledger.control("cancel")
    with pytest.raises(MoveNotAllowed, match="its revision yields nothing more that could be skipped"):
        ledger.control("skip" if more else "skip_next", **more)


def test_what_is_disabled_has_no_next_slot_to_skip_but_one_to_come_may_be_named(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.control("disable")
    with pytest.raises(MoveNotAllowed, match="nothing of it is due next; enable it first, or name the instant"):
        ledger.control("skip_next")
    assert ledger.control("skip", dues=[T0 + HOUR]).skip_count == 1


# --- however much waits -----------------------------------------------------------------------------------------------


def traffic(store: Store, work: Callable[[], Any]) -> int:
    """How many characters of values the statements of ``work`` are given, and how many rows they bring back.

    SQLite does not say how many rows there were.
    """
    counted = [0]

    def sent(conn: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        counted[0] += len(repr(parameters))

    def came(conn: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        if statement.startswith("SELECT"):
            counted[0] += max(cursor.rowcount, 0)

    event.listen(store.engine, "before_cursor_execute", sent)
    event.listen(store.engine, "after_cursor_execute", came)
    try:
        work()
    finally:
        event.remove(store.engine, "before_cursor_execute", sent)
        event.remove(store.engine, "after_cursor_execute", came)
    return counted[0]


def queued(ledger: Ledger, schedule_id: str, many: int) -> None:
    """A schedule with ``many`` occurrences that wait, and one that may start."""
    ledger.create(every(SECOND, schedule_id, overlap="queue", grace=DAY))
    first = ledger.view(schedule_id).next_due
    assert first is not None
    while ledger.view(schedule_id).open_count <= many:
        ledger.tick(first + many * SECOND, only=[ledger.view(schedule_id).pk])


ENDING: dict[str, tuple[str, dict[str, Any]]] = {
    "pause": ("pause", {}),
    "disable": ("disable", {}),
    "cancel": ("cancel", {}),
    "remove": ("remove", {}),
    "delete": ("delete", {"cancel_pending": True}),
}


@pytest.mark.parametrize("verb", ENDING)
def test_a_control_hands_over_no_more_where_more_waits(ledger: Ledger, verb: str) -> None:
    action, more = ENDING[verb]
    queued(ledger, "few", 2)
    queued(ledger, "lots", 250)
    few = traffic(ledger.store, lambda: ledger.control(action, "few", **more))
    lots = traffic(ledger.store, lambda: ledger.control(action, "lots", **more))
    assert lots < 1.5 * few
    ledger.check()


def test_cancelling_backfills_hands_over_no_more_where_more_waits(ledger: Ledger) -> None:
    for name, many in (("few", 2), ("lots", 250)):
        ledger.create(every(SECOND, name))
        ledger.control("backfill", name, dues=[T0 - n * SECOND for n in range(many)])
    few = traffic(ledger.store, lambda: ledger.control("cancel_backfill", "few"))
    lots = traffic(ledger.store, lambda: ledger.control("cancel_backfill", "lots"))
    assert lots < 1.5 * few
    ledger.check()


def test_each_of_those_that_waited_has_its_own_verdict(ledger: Ledger) -> None:
    ledger.create(every(SECOND, overlap="queue", grace=DAY, max_occurrences=50, max_retries=1, deadline=HOUR))
    ledger.tick(T0 + 20 * SECOND)
    ledger.run(fail=True)  # the first is to be tried again; nothing of the others has begun
    ledger.control("run_extra")
    ledger.control("disable")
    assert ledger.states() == [
        (0, "failed", "disabled"), *((n, "skipped", "disabled") for n in range(1, 21)), (0, "skipped", "disabled")
    ]  # fmt: skip
    assert {one.finished_at for one in ledger.occurrences()} == {ledger.now}
    assert (ledger.view().open_count, ledger.view().used, ledger.view().failures) == (0, 21, 0)
    ledger.check()


def test_a_hosts_ready_tasks_that_wait_stay_when_their_schedule_is_cancelled(ledger: Ledger) -> None:
    task = Task(kind="ready", work_order_id="w", run_id="r", task_class="c", input={})
    ledger.create(every(MINUTE, overlap="queue", grace=DAY))
    ledger.tick(T0 + MINUTE)
    ledger.update(every(MINUTE, overlap="queue", grace=DAY, task=task), mode="carry")
    ledger.tick(T0 + 3 * MINUTE)
    ledger.control("cancel")
    assert [(one.revision, one.state) for one in ledger.occurrences()] == [
        (1, "cancelled"), (1, "cancelled"), (2, "ready"), (2, "waiting"),
    ]  # fmt: skip
    ledger.check()


def test_a_namespace_is_deleted_in_as_many_statements_however_many_schedules_it_has(ledger: Ledger) -> None:
    store = ledger.store

    def statements(namespace: str, many: int) -> int:
        for n in range(many):
            ledger.create(every(HOUR, f"s{n}", namespace=namespace))
        counted: list[str] = []

        def sent(conn: Any, cursor: Any, statement: str, *rest: Any) -> None:
            counted.append(statement)

        event.listen(store.engine, "before_cursor_execute", sent)
        try:
            with store.write() as conn:
                deleted = control.delete_namespace(store, conn, namespace, now=T0, principal="t")
        finally:
            event.remove(store.engine, "before_cursor_execute", sent)
        assert deleted == [f"s{n}" for n in range(many)]
        return len(counted)

    assert statements("few", 2) == statements("lots", 30)
    ledger.check()


def test_a_namespace_that_is_deleted_with_its_pending_work_leaves_none_of_it(ledger: Ledger) -> None:
    store = ledger.store
    for name in ("a", "b", "c"):
        ledger.create(every(SECOND, name, overlap="queue", grace=DAY))
    ledger.tick(T0 + 3 * SECOND, only=[ledger.view(name).pk for name in ("a", "b")])
    (running,) = ledger.begin(1)
    with pytest.raises(PendingWork), store.write() as conn:  # what runs is in the way
        control.delete_namespace(store, conn, "default", cancel_pending=True, now=T0, principal="t")
    assert ledger.view(running.schedule_id).open_count == 4
    ledger.finish(succeeded(running, ledger.now))
    with store.write() as conn:
        deleted = control.delete_namespace(store, conn, "default", cancel_pending=True, now=T0, principal="t")
    assert deleted == ["a", "b", "c"]
    with store.read() as conn:
        assert inspect.list_schedules(store, conn).schedules == ()
        assert conn.execute(store.tables.occurrences.select()).all() == []
    assert [ledger.decisions(name) for name in deleted] == [["create", "delete"]] * 3
    ledger.check()
