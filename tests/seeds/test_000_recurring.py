"""Seed 000, recurring schedules and missed-tick recovery: one test a statement (docs/seeds.md says which)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select, text, update

from calsched.app import App
from calsched.approval import Approval, VerificationContext
from calsched.clock import LAST_INSTANT, SystemClock, to_rfc3339
from calsched.errors import (
    AlreadyExists,
    ApprovalDenied,
    Fenced,
    InvalidInput,
    StaleVersion,
    StoreVersionDiffers,
)
from calsched.model import digest
from calsched.runtime.callables import AllowList
from calsched.runtime.serve import Server
from calsched.settings import Settings
from calsched.settings import load as load_settings
from calsched.stores import control, inspect
from calsched.stores.claim import claim
from calsched.stores.engine import Store
from calsched.stores.tables import schedules
from calsched.triggers import build
from tests.seeds._helpers import Desk
from tests.stores._helpers import HOUR, MINUTE, T0, SteppedClock, succeeded

ROOT = Path(__file__).parents[2]

#: The definition of the text, as it stands there (JavaScript's `3_600_000` is JSON's 3600000).
DOCUMENT_REVIEW = """
{
  "namespace": "operations",
  "scheduleId": "document-review",
  "revision": 1,
  "firstTick": "2026-09-11T12:00:00.000Z",
  "intervalMs": 3600000,
  "catchUp": "BOUNDED_REPLAY",
  "replayLimit": 2,
  "task": {
    "workOrderId": "review-work-order",
    "runId": "review-run",
    "taskClass": "document-review",
    "payload": { "documentRef": "approved-document-reference" }
  }
}
"""
TASK = {"workOrderId": "w", "runId": "r", "taskClass": "c", "payload": {"documentRef": "d"}}


def definition(**changes: Any) -> dict[str, Any]:
    """First tick at 100 ms, interval 10 ms, as the table of the text has it."""
    said = {"scheduleId": "a", "firstTick": "1970-01-01T00:00:00.100Z", "intervalMs": 10, "task": TASK, **changes}
    return {name: value for name, value in said.items() if value is not None}


@pytest.fixture
def early(tmp_path: Path) -> Any:
    """A desk in the first milliseconds of 1970."""
    made = Desk(tmp_path, now=0)
    yield made
    made.close()


def emitted(desk: Desk) -> list[tuple[int, int, int]]:
    """(ordinal, represented first, represented last), oldest first."""
    return [(one.ordinal, one.represents_first, one.represents_last) for one in desk.occurrences()]


def next_tick(desk: Desk) -> tuple[int, int | None]:
    view = desk.view()
    return view.next_ordinal, view.next_due


# --- fixed UTC intervals; durable ready tasks -------------------------------------------------------------------------


def test_a_tick_is_the_first_tick_plus_a_whole_number_of_intervals_whatever_the_wall_clocks_of_zones_do() -> None:
    first = datetime(2026, 10, 24, 12, tzinfo=UTC)  # Europe leaves summer time the night after
    rule = build({"kind": "interval", "intervalMs": 86_400_000, "firstTick": "2026-10-24T12:00:00Z"})
    at = int(first.timestamp() * 1000)
    for n in (0, 1, 2, 365, 36_500):
        assert rule.first_at_or_after(at + n * 86_400_000 - 1) == at + n * 86_400_000
    assert rule.count(at, at + 365 * 86_400_000) == 366


def test_each_occurrence_is_a_ready_task_that_outlives_the_process(tmp_path: Path) -> None:
    desk = Desk(tmp_path, now=0)
    desk.declare(definition(catchUp="BOUNDED_REPLAY", replayLimit=2))
    desk.tick(145)
    desk.close()
    again = App(desk.url, clock=SteppedClock(146))
    tasks = again.ready_claim(limit=10)
    assert [task.payload["schedule"]["ordinal"] for task in tasks] == ["0", "1"]
    assert {(task.work_order_id, task.run_id, task.task_class) for task in tasks} == {("w", "r", "c")}
    again.close()


def test_identity_range_and_cursor_commit_together_or_not_at_all(early: Desk) -> None:
    early.declare(definition(catchUp="BOUNDED_REPLAY", replayLimit=2))
    before = early.rows()
    with pytest.raises(ZeroDivisionError), early.store.write() as conn:
        from calsched.stores.advance import advance

        report = advance(early.store, conn, 145)
        assert len(report.schedules[0].plan.occurrences) == 2
        raise ZeroDivisionError
    assert early.rows() == before
    early.tick(145)
    assert (emitted(early), early.ranges(), next_tick(early)) == (
        [(0, 0, 0), (1, 1, 1)],
        [(2, 4, "replayLimit")],
        (5, 150),
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"intervalMs": "*/5 * * * *"},
        {"cron": "*/5 * * * *"},
        {"trigger": {"kind": "calendar", "hour": 9}},
        {"weekdays": [0, 1]},
    ],
    ids=["cron in intervalMs", "cron", "calendar", "weekdays"],
)
def test_cron_and_calendar_rules_are_rejected_in_a_fixed_interval_definition(
    early: Desk, changes: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput) as refused:
        early.declare(definition(**changes))
    (name,) = changes
    assert name in str(refused.value) or "says when already" in str(refused.value)


# --- what happens after missed ticks: the table -----------------------------------------------------------------------

TABLE = [
    # policy, limit, observed at, emitted, ranges, next tick
    ("COALESCE_ONE", None, 145, [(4, 0, 4)], [(0, 3, "represented")], (5, 150)),
    ("COALESCE_ONE", None, 150, [(5, 0, 5)], [(0, 4, "represented")], (6, 160)),
    ("SKIP", None, 145, [], [(0, 4, "misfire")], (5, 150)),
    ("SKIP", None, 150, [(5, 5, 5)], [(0, 4, "misfire")], (6, 160)),
    ("BOUNDED_REPLAY", 2, 145, [(0, 0, 0), (1, 1, 1)], [(2, 4, "replayLimit")], (5, 150)),
    ("BOUNDED_REPLAY", 2, 150, [(0, 0, 0), (1, 1, 1)], [(2, 5, "replayLimit")], (6, 160)),
]


@pytest.mark.parametrize(("policy", "limit", "observed", "tasks", "ranges", "following"), TABLE)
def test_missed_ticks_become_what_the_table_says(
    early: Desk, policy: str, limit: int | None, observed: int, tasks: Any, ranges: Any, following: Any
) -> None:
    early.declare(definition(catchUp=policy, replayLimit=limit))
    early.tick(observed)
    assert (emitted(early), early.ranges(), next_tick(early)) == (tasks, ranges, following)
    early.check()


def test_coalesce_one_is_what_a_definition_without_a_policy_gets(early: Desk) -> None:
    early.declare(definition())
    early.tick(145)
    assert (emitted(early), next_tick(early)) == ([(4, 0, 4)], (5, 150))


def test_skip_emits_the_tick_that_is_exactly_on_time_and_drops_one_a_moment_late(early: Desk) -> None:
    early.declare(definition(catchUp="SKIP"))
    early.tick(150)
    assert emitted(early) == [(5, 5, 5)]
    early.tick(161)  # the tick of 160, one millisecond late
    assert emitted(early) == [(5, 5, 5)]
    assert early.ranges() == [(0, 4, "misfire"), (6, 6, "misfire")]


def test_coalescing_runs_a_late_tick_all_the_same(early: Desk) -> None:
    early.declare(definition(catchUp="COALESCE_ONE"))
    for now in (101, 112, 127):  # a poll that is always late
        early.tick(now)
    assert [ordinal for ordinal, _, _ in emitted(early)] == [0, 1, 2]


def test_bounded_replay_emits_the_oldest_up_to_the_smaller_of_limit_and_batch(early: Desk, tmp_path: Path) -> None:
    early.declare(definition(catchUp="BOUNDED_REPLAY", replayLimit=3))
    early.declare(definition(scheduleId="b", catchUp="BOUNDED_REPLAY", replayLimit=1))
    early.tick(145, occurrence_batch=2)
    assert emitted(early) == [(0, 0, 0), (1, 1, 1)]
    assert early.ranges() == [(2, 4, "replayLimit")]
    assert [one.ordinal for one in early.occurrences("b")] == [0]


def test_what_bounded_replay_skipped_is_never_replayed_by_a_second_look_or_a_larger_batch(early: Desk) -> None:
    early.declare(definition(catchUp="BOUNDED_REPLAY", replayLimit=50))
    early.tick(145, occurrence_batch=2)
    first = (emitted(early), early.ranges(), next_tick(early))
    early.tick(145, occurrence_batch=2)
    early.tick(145, occurrence_batch=1000)
    assert (emitted(early), early.ranges(), next_tick(early)) == first


def test_a_later_tick_begins_a_new_range(early: Desk) -> None:
    early.declare(definition(catchUp="BOUNDED_REPLAY", replayLimit=2))
    early.tick(145)
    early.tick(185)
    assert emitted(early) == [(0, 0, 0), (1, 1, 1), (5, 5, 5), (6, 6, 6)]
    assert early.ranges() == [(2, 4, "replayLimit"), (7, 8, "replayLimit")]


def test_bounded_replay_goes_on_where_it_stood_after_a_restart(tmp_path: Path) -> None:
    desk = Desk(tmp_path, now=0)
    desk.declare(definition(catchUp="BOUNDED_REPLAY", replayLimit=2))
    desk.tick(145)
    desk.close()
    again = Desk(tmp_path, now=145)
    again.tick(145)
    again.tick(155)
    assert emitted(again) == [(0, 0, 0), (1, 1, 1), (5, 5, 5)]
    assert again.ranges() == [(2, 4, "replayLimit")]
    again.close()


def test_a_year_of_missed_milliseconds_is_one_row_whose_count_is_exact(early: Desk) -> None:
    year = 365 * 86_400_000
    early.declare(definition(intervalMs=1, firstTick="1970-01-01T00:00:00Z", catchUp="SKIP"))
    early.declare(definition(scheduleId="b", intervalMs=1, firstTick="1970-01-01T00:00:00Z"))
    early.tick(year)
    assert early.ranges() == [(0, year - 1, "misfire")]
    assert next_tick(early) == (year + 1, year + 1)
    (one,) = early.occurrences("b")
    assert (one.ordinal, one.represents_first, one.represents_last) == (year, 0, year)
    assert len(early.ranges("b")) == 1
    early.check()


def test_ordinals_are_canonical_decimal_strings_and_exact_beyond_what_a_double_holds(early: Desk) -> None:
    early.declare(definition())
    far = 2**53 + 1
    t = early.store.tables
    with early.store.write() as conn:  # as if the ticks before had been judged and pruned
        conn.execute(update(t.schedules).values(next_ordinal=far))
        conn.execute(update(t.revisions).values(pruned_before=far))
    early.tick(115)
    (task,) = early.take()
    said = task.payload["schedule"]
    assert said["ordinal"] == "9007199254740994"
    assert said["represented"] == {"first": "9007199254740993", "last": "9007199254740994"}
    assert json.loads(said["occurrenceKey"])[-1] == "9007199254740994"
    assert early.view().next_ordinal == far + 2


def test_a_rule_is_exhausted_when_its_next_tick_would_lie_past_the_year_9999(tmp_path: Path) -> None:
    desk = Desk(tmp_path, now=LAST_INSTANT - 999)  # 9999-12-31T23:59:59.000Z
    desk.declare(definition(firstTick="9999-12-31T23:59:59Z", intervalMs=1000))
    desk.tick()
    view = desk.view()
    assert (view.state, view.reason, view.next_due) == ("ended", "exhausted", None)
    assert emitted(desk) == [(0, 0, 0)]
    desk.close()


# --- define and approve -----------------------------------------------------------------------------------------------


def test_the_definition_of_the_text_loads_as_it_stands(tmp_path: Path) -> None:
    desk = Desk(tmp_path, now=1_757_000_000_000, namespace="operations")
    view = desk.app.create(DOCUMENT_REVIEW.encode(), format="json").schedules[0]
    d = view.definition
    assert d is not None
    assert (view.namespace, view.id, view.revision) == ("operations", "document-review", 1)
    assert (d.misfire, d.replay_limit, d.grace, d.overlap, d.backlog) == ("boundedReplay", 2, 0, "allow", "fromStart")
    assert d.trigger == {"kind": "interval", "intervalMs": 3_600_000, "firstTick": "2026-09-11T12:00:00Z"}
    assert (d.task.kind, d.task.work_order_id, d.task.run_id) == ("ready", "review-work-order", "review-run")
    assert (d.task.task_class, d.task.input) == (
        "document-review",
        {"documentRef": "approved-document-reference"},
    )
    desk.close()


@dataclass
class Adapter:
    """A host's approval adapter: it keeps what it was asked, and answers what the test wants."""

    clock: SteppedClock
    answer: Callable[[Approval], Approval | None] = lambda approval: approval
    asked: list[tuple[Any, VerificationContext]] = field(default_factory=list)
    before: Callable[[], None] = lambda: None

    def verify(self, credential: Any, context: VerificationContext) -> Approval | None:
        self.asked.append((credential, context))
        self.before()
        return self.answer(Approval("ada", "ticket-7", context.subject_digest, self.clock.now() + MINUTE))


class Approving(Desk):
    """A host that has every control approved."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, now=T0, credential="operator-credential")
        self.adapter = Adapter(self.clock)
        self.app.verifier = self.adapter

    def last(self) -> VerificationContext:
        return self.adapter.asked[-1][1]

    def decided(self) -> Any:
        """The newest decision about schedule a."""
        with self.store.read() as conn:
            return inspect.decisions_of(self.store, conn, "default", "a")[0]


HOURLY = definition(firstTick=to_rfc3339(T0), intervalMs=HOUR)


@pytest.fixture
def approving(tmp_path: Path) -> Any:
    made = Approving(tmp_path)
    yield made
    made.close()


def test_the_adapter_is_asked_with_the_credential_for_the_exact_digest_material_and_epoch(
    approving: Approving,
) -> None:
    view = approving.declare(HOURLY)
    ((credential, context),) = approving.adapter.asked
    assert credential == "operator-credential"
    assert context.subject_digest == digest(context.material)
    assert view.definition is not None
    assert context.material["definition"] == view.definition.material()
    assert context.material["definition"]["graceSeconds"] == 0, "defaults are part of what is approved"
    assert (context.action, context.epoch) == ("create", approving.epoch)


def test_an_adapter_that_answers_nothing_denies_and_nothing_is_written(approving: Approving) -> None:
    approving.adapter.answer = lambda approval: None
    before = approving.rows()
    with pytest.raises(ApprovalDenied, match="none was given"):
        approving.declare(HOURLY)
    assert approving.rows() == before


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kind": "SERVICE"}, "not HUMAN"),
        ({"principal_id": " "}, "names no person"),
        ({"evidence_ref": ""}, "names no evidence"),
        ({"subject_digest": "sha256:" + "0" * 64}, "asked was"),
        ({"expires_at": T0}, "it expired at"),
    ],
)
def test_an_approval_needs_a_human_a_principal_evidence_the_exact_digest_and_an_expiry_to_come(
    approving: Approving, change: dict[str, Any], why: str
) -> None:
    approving.adapter.answer = lambda approval: replace(approval, **change)
    before = approving.rows()
    with pytest.raises(ApprovalDenied, match=why):
        approving.declare(HOURLY)
    assert approving.rows() == before


def test_an_approval_that_has_expired_when_the_transaction_runs_does_not_hold(approving: Approving) -> None:
    def dawdle(approval: Approval) -> Approval:
        approving.now += 2 * MINUTE  # the verifier, or the lock, took longer than the approval holds
        return approval

    approving.adapter.answer = dawdle
    with pytest.raises(ApprovalDenied, match="it expired at"):
        approving.declare(HOURLY)
    approving.adapter.answer = lambda approval: approval
    approving.declare(HOURLY)
    approving.adapter.answer = dawdle
    with pytest.raises(ApprovalDenied, match="it expired at"):
        approving.app.pause("a")
    assert approving.view().state == "enabled"


def test_an_approval_of_an_earlier_epoch_does_not_hold(approving: Approving) -> None:
    approving.adapter.before = approving.own_again
    with pytest.raises(ApprovalDenied, match="verified in epoch"):
        approving.declare(HOURLY)


def test_an_adapter_is_asked_outside_of_the_transaction(approving: Approving) -> None:
    def look_up_something() -> None:
        """A second connection can write meanwhile: nobody holds the database."""
        other = Store(approving.url, lock_timeout=0.2)
        other.open()
        with other.write() as conn:
            conn.execute(text("SELECT 1"))
        other.dispose()

    approving.adapter.before = look_up_something
    approving.declare(HOURLY)
    assert len(approving.adapter.asked) == 1


def test_an_approval_is_kept_as_evidence_of_the_decision(approving: Approving) -> None:
    approving.declare(HOURLY)
    made = approving.decided()
    assert (made.action, made.principal) == ("create", "ada")
    assert made.evidence["approval"] == {
        "kind": "HUMAN",
        "principal": "ada",
        "evidence": "ticket-7",
        "subjectDigest": approving.last().subject_digest,
        "expiresAt": to_rfc3339(T0 + MINUTE),
    }


def test_an_approval_installs_a_schedule_and_is_not_handed_on_to_its_tasks(approving: Approving) -> None:
    approving.declare(HOURLY)
    approving.tick(T0)
    asked = len(approving.adapter.asked)
    (task,) = approving.take()
    assert "ada" not in json.dumps(task._asdict()) and "ticket-7" not in json.dumps(task._asdict())
    assert len(approving.adapter.asked) == asked, "ticks and claims need none, and bring none along"


def test_a_template_names_the_same_work_order_run_and_class_for_every_occurrence(early: Desk) -> None:
    early.declare(definition(catchUp="BOUNDED_REPLAY", replayLimit=5))
    early.tick(145)
    tasks = early.take()
    assert [(one.work_order_id, one.run_id, one.task_class) for one in tasks] == [("w", "r", "c")] * 5


def test_a_ready_task_is_left_to_its_host_and_no_owner_runs_it(early: Desk) -> None:
    early.declare(definition())
    early.tick(145)
    assert early.claim() == []
    (task,) = early.take()
    assert early.app.ready_complete(task.occurrence, task.token, result={"pages": 3}).state == "succeeded"


@pytest.mark.parametrize("task", ["rm -rf /", "os:system('ls')", {"shell": "ls"}, {"kind": "shell", "callable": "ls"}])
def test_no_shell_command_can_be_declared(early: Desk, task: Any) -> None:
    with pytest.raises(InvalidInput):
        early.declare(definition(task=task))


# --- identity, inputs, revisions --------------------------------------------------------------------------------------


def test_an_occurrence_key_is_a_json_tuple_of_installation_namespace_schedule_revision_and_ordinal(
    early: Desk,
) -> None:
    early.declare(definition())
    early.tick(105)
    assert json.loads(early.one().key) == [early.store.installation, "default", "a", 1, "0"]


def test_a_tasks_identity_is_derived_from_its_key_and_the_same_when_it_is_found_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path, now=0)
    desk.declare(definition())
    desk.tick(105)
    before = desk.one().key
    desk.close()
    again = Desk(tmp_path, now=105)
    again.tick()
    assert again.one().key == before
    (task,) = again.take()
    assert task.payload["schedule"]["occurrenceKey"] == before
    again.close()


def test_installations_namespaces_and_revisions_have_identities_of_their_own(tmp_path: Path) -> None:
    keys = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        desk = Desk(tmp_path / name, now=0)
        desk.declare(definition())
        desk.declare(definition(namespace="other"))
        desk.tick(105)
        tasks = desk.take() + App(desk.url, clock=desk.clock, namespace="other").ready_claim()
        desk.app.cancel("a")
        desk.declare(definition(revision=2, firstTick=to_rfc3339(110), intervalMs=10))
        desk.tick(110)
        tasks += desk.take()
        assert {task.payload["schedule"]["ordinal"] for task in tasks} == {"0"}
        keys += [task.payload["schedule"]["occurrenceKey"] for task in tasks]
        desk.close()
    assert len(set(keys)) == len(keys) == 6


def test_a_tasks_payload_is_its_schedules_part_and_the_templates_payload_and_nothing_else(early: Desk) -> None:
    early.declare(definition(maxOccurrences=7, expiresAt="1971-01-01T00:00:00Z"))
    early.tick(145)
    (task,) = early.take()
    assert task.payload == {
        "schedule": {
            "namespace": "default",
            "scheduleId": "a",
            "revision": 1,
            "occurrenceKey": early.one().key,
            "ordinal": "4",
            "represented": {"first": "0", "last": "4"},
            "dueTime": "1970-01-01T00:00:00.140Z",
        },
        "input": {"documentRef": "d"},
    }


def test_the_same_definition_again_returns_the_record_and_does_not_reactivate_it(early: Desk) -> None:
    early.declare(definition())
    early.app.pause("a")
    before = early.rows()
    for said in (definition(), definition(revision=1)):
        again = early.app.create(json.dumps(said).encode(), format="json")
        assert (again.created, again.schedules[0].state) == (frozenset(), "paused")
    assert early.rows() == before


@pytest.mark.parametrize(
    "change",
    [
        {"intervalMs": 20},
        {"firstTick": "1970-01-01T00:00:00.110Z"},
        {"catchUp": "SKIP"},
        {"task": {**TASK, "payload": {"documentRef": "other"}}},
        {"task": {**TASK, "workOrderId": "other"}},
        {"expiresAt": "2027-01-01T00:00:00Z"},
    ],
)
def test_a_revision_is_immutable(early: Desk, change: dict[str, Any]) -> None:
    early.declare(definition(revision=1))
    before = early.rows()
    with pytest.raises(AlreadyExists):
        early.declare(definition(revision=1, **change))
    assert early.rows() == before


@pytest.mark.parametrize("pause", [False, True])
def test_the_next_revision_follows_the_cancelled_one_and_old_work_stays(early: Desk, pause: bool) -> None:
    early.declare(definition(revision=1))
    early.tick(105)
    if pause:
        early.app.pause("a")
    later = definition(revision=2, firstTick=to_rfc3339(1000), intervalMs=50)
    with pytest.raises(AlreadyExists, match="cancel it first"):
        early.declare(later)
    early.app.cancel("a")
    with pytest.raises(AlreadyExists):
        early.declare({**later, "revision": 3})  # not the consecutive one
    view = early.declare(later)
    assert (view.revision, view.state, view.next_ordinal, view.next_due) == (2, "enabled", 0, 1000)
    (old,) = early.take()
    assert (old.payload["schedule"]["revision"], old.payload["schedule"]["ordinal"]) == (1, "0")
    early.check()


def test_a_tick_and_a_control_raise_the_state_version_and_not_the_revision(early: Desk) -> None:
    view = early.declare(definition())
    assert (view.revision, view.state_version) == (1, 1)
    early.tick(105)
    assert early.view().state_version == 2
    assert early.app.pause("a").state_version == 3
    assert early.view().revision == 1


def test_a_control_on_an_old_state_version_fails_instead_of_overriding_progress(early: Desk) -> None:
    seen = early.declare(definition()).state_version
    early.tick(105)
    with pytest.raises(StaleVersion, match=f"expected state version {seen}, but it is {seen + 1}"):
        early.app.cancel("a", version=seen)
    assert early.view().state == "enabled"


# --- pause, resume, cancel, inspect -----------------------------------------------------------------------------------


def test_a_controls_approval_is_bound_to_its_action_its_reference_and_the_expected_version(
    approving: Approving,
) -> None:
    approving.declare(HOURLY)
    approving.app.pause("a", version=1)
    context = approving.last()
    assert (context.action, tuple(context.ref), context.expected_version) == ("pause", ("default", "a", 1), 1)
    given = Approval("ada", "ticket-7", context.subject_digest, T0 + MINUTE)
    approving.adapter.answer = lambda approval: given  # the approval of the pause, for something else
    for act in (approving.app.resume, approving.app.cancel):
        with pytest.raises(ApprovalDenied, match="asked was"):
            act("a")
    assert approving.view().state == "paused"


@pytest.mark.parametrize("action", ["pause", "resume", "cancel"])
def test_every_control_needs_an_approval_of_its_own(approving: Approving, action: str) -> None:
    approving.declare(HOURLY)
    if action == "resume":
        approving.app.pause("a")
    asked = len(approving.adapter.asked)
    approving.adapter.answer = lambda approval: None
    before = approving.rows()
    with pytest.raises(ApprovalDenied):
        getattr(approving.app, action)("a")
    assert approving.rows() == before
    approving.adapter.answer = lambda approval: approval
    getattr(approving.app, action)("a")
    assert len(approving.adapter.asked) == asked + 2


def test_a_pause_stops_generation_and_keeps_the_cursor(early: Desk) -> None:
    early.declare(definition())
    early.tick(105)
    early.app.pause("a")
    early.tick(500)
    assert emitted(early) == [(0, 0, 0)]
    view = early.view()
    assert (view.next_ordinal, view.next_due, view.held_due) == (1, None, 110)


@pytest.mark.parametrize(
    ("policy", "limit", "tasks"),
    [("COALESCE_ONE", None, [(4, 0, 4)]), ("SKIP", None, []), ("BOUNDED_REPLAY", 2, [(0, 0, 0), (1, 1, 1)])],
)
def test_resume_applies_the_original_policy_to_what_accumulated(
    early: Desk, policy: str, limit: int | None, tasks: Any
) -> None:
    early.declare(definition(catchUp=policy, replayLimit=limit))
    early.app.pause("a")
    early.now = 145
    early.app.resume("a")
    early.tick(145)
    assert (emitted(early), next_tick(early)) == (tasks, (5, 150))


def test_resume_renews_no_deadline_resets_no_budget_and_changes_no_interval(desk: Desk) -> None:
    desk.declare(
        definition(firstTick=to_rfc3339(T0), intervalMs=HOUR, deadlineSeconds=60, maxOccurrences=2, overlap="queue")
    )
    desk.tick(T0)
    desk.app.pause("a")
    desk.tick(T0 + 10 * MINUTE)
    desk.app.resume("a")
    desk.tick()
    assert desk.states() == [(0, "skipped", "deadline")], "its minute was over while nobody worked"
    assert (desk.view().used, desk.view().next_due) == (1, T0 + HOUR)
    desk.tick(T0 + HOUR)
    assert (desk.view().state, desk.view().reason) == ("ended", "maxOccurrences")


def test_cancel_ends_the_revision_for_good_and_leaves_its_emitted_tasks(early: Desk) -> None:
    early.declare(definition())
    early.tick(105)
    early.app.cancel("a")
    early.tick(500)
    assert (early.view().state, early.view().next_due) == ("cancelled", None)
    (task,) = early.take()
    assert early.app.ready_complete(task.occurrence, task.token).state == "succeeded"
    assert early.states() == [(0, "succeeded", None)]


def test_inspection_shows_the_record_its_occurrences_ranges_and_decisions_of_one_moment(early: Desk) -> None:
    early.declare(definition(catchUp="BOUNDED_REPLAY", replayLimit=1))
    early.tick(125)
    with early.store.read() as conn:
        first = inspect.show(early.store, conn, "default", "a")
        thread = threading.Thread(target=lambda: App(early.url, clock=early.clock).cancel("a"))
        thread.start()
        thread.join()
        second = inspect.show(early.store, conn, "default", "a")
    assert second == first, "what others commit meanwhile is not in it"
    assert first.schedule.state == "enabled"
    assert [type(entry).__name__ for entry in first.history.entries] == ["RangeView", "OccurrenceView"]
    assert [one.action for one in first.decisions] == ["create"]
    assert [one.action for one in early.app.show("a").show.decisions] == ["cancel", "create"]


def test_after_a_lost_answer_the_same_control_is_refused_and_inspection_tells_what_happened(early: Desk) -> None:
    seen = early.declare(definition()).state_version
    early.app.pause("a", version=seen)  # committed; suppose that its answer got lost
    with pytest.raises(StaleVersion):
        early.app.pause("a", version=seen)
    assert (early.view().state, early.view().state_version) == ("paused", seen + 1)


# --- batches and reconciliation ---------------------------------------------------------------------------------------


def test_both_batch_sizes_are_a_hundred_unless_the_host_says_otherwise() -> None:
    known = Settings()
    assert (known.schedule_batch, known.occurrence_batch) == (100, 100)


@pytest.mark.parametrize("name", ["scheduleBatch", "occurrenceBatch"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "many", True])
def test_batch_sizes_are_positive_whole_numbers(tmp_path: Path, name: str, value: Any) -> None:
    (tmp_path / "calsched.toml").write_text(f"{name} = {json.dumps(value)}\n")
    with pytest.raises(InvalidInput, match=name):
        load_settings(tmp_path, {})


def test_a_pass_takes_so_many_due_schedules_oldest_first_and_the_next_pass_the_others(early: Desk) -> None:
    for name, first in (("young", 130), ("old", 110), ("middle", 120)):
        early.declare(definition(scheduleId=name, firstTick=to_rfc3339(first), intervalMs=1000))
    report = early.tick(140, schedule_batch=2)
    assert [made.id for made in report.schedules] == ["old", "middle"]
    assert report.more
    assert [made.id for made in early.tick(140, schedule_batch=2).schedules] == ["young"]


def test_batches_are_no_ceiling_on_what_is_emitted_in_all(early: Desk) -> None:
    early.declare(definition(misfire="catchUp", maxCatchUp=100, graceSeconds=0))
    for _ in range(5):
        early.tick(145, occurrence_batch=1)
    assert [ordinal for ordinal, _, _ in emitted(early)] == [0, 1, 2, 3, 4]


def _conflict(desk: Desk, schedule_id: str) -> int:
    """A row in the way of the schedule's ordinal 1: what its next pass writes cannot be written."""
    t = desk.store.tables
    with desk.store.write() as conn:
        row = schedules.by_id(conn, t, "default", schedule_id)
        assert row is not None
        values = {
            "schedule_pk": row.pk, "revision_pk": row.revision_pk, "series": "slot", "ordinal": 1, "due": 1,
            "slot_due": 1, "run_at": 1, "state": "skipped", "executor": "", "represents_first": 1,
            "represents_last": 1, "represents_first_due": 1, "created_at": 1, "finished_at": 1,
        }  # fmt: skip
        key = conn.execute(insert(t.occurrences).values(values)).inserted_primary_key
    assert key is not None
    return int(key[0])


def test_a_conflict_rolls_back_that_schedules_recovery_whole_and_the_others_commit(early: Desk) -> None:
    for name in ("a", "b", "c"):
        early.declare(definition(scheduleId=name, catchUp="BOUNDED_REPLAY", replayLimit=2))
    before = early.view("b")
    _conflict(early, "b")
    report = early.tick(145)
    assert [made.id for made in report.schedules] == ["a", "c"]
    assert [failed.id for failed in report.failed] == ["b"]
    assert [one.ordinal for one in early.occurrences("b")] == [1], "ordinal 0 went with it, and so did its range"
    assert early.ranges("b") == []
    after = early.view("b")
    assert (after.next_ordinal, after.next_due, after.state_version) == (0, 100, before.state_version)
    assert emitted(early) == [(0, 0, 0), (1, 1, 1)]


def test_a_pass_after_a_failure_starts_from_the_durable_cursor(early: Desk) -> None:
    for name in ("a", "b"):
        early.declare(definition(scheduleId=name, catchUp="BOUNDED_REPLAY", replayLimit=2))
    key = _conflict(early, "b")
    early.tick(145)
    with early.store.write() as conn:
        conn.execute(early.store.tables.occurrences.delete().where(early.store.tables.occurrences.c.pk == key))
    early.tick(145 + 5_000)
    assert [one.ordinal for one in early.occurrences("b")] == [0, 1]
    assert early.ranges("b") == [(2, 504, "replayLimit")]
    early.check()


def test_a_start_and_each_later_pass_recover_what_was_missed_and_report_what_they_committed(tmp_path: Path) -> None:
    now = SystemClock().now()
    app = App(f"sqlite:///{tmp_path / 'ledger.db'}", settings=Settings(allow=("jobs:*",)))
    first = to_rfc3339(now - now % HOUR - 5 * HOUR)
    app.create(json.dumps(definition(firstTick=first, intervalMs=HOUR)).encode(), format="json")
    report = app.tick()  # an owner starts, five hours late
    (told,) = report.schedules
    assert told.id == "a"
    (made,) = told.plans
    assert [one.ordinal for one in made.occurrences] == [made.occurrences[0].represents_last]
    assert made.occurrences[0].represents_first == 0
    assert app.tick().schedules == (), "the pass after it finds nothing to recover"
    app.close()


def test_notifications_that_come_twice_or_never_change_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    store, other = Store(url), Store(url)
    store.open()
    server = Server(store, Settings(poll_interval=100), allow=AllowList(["jobs:*"]))
    ready = threading.Event()
    server._on_ready = lambda _: ready.set()
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert ready.wait(20)
        app = App(store=other)  # another process's view: nobody tells the owner
        first = to_rfc3339(SystemClock().now() - 1)
        app.create(json.dumps(definition(firstTick=first, intervalMs=HOUR)).encode(), format="json")
        _wait_for(lambda: app.show("a").show.pending)
        for _ in range(50):
            server.kick()
        app.pause("a")
        app.resume("a")
        _wait_for(lambda: app.get("a").state_version >= 4)
        assert len(app.history("a").entries) == 1
    finally:
        server.stop()
        thread.join(20)
        store.dispose()
        other.dispose()


def _wait_for(condition: Callable[[], Any]) -> None:
    pause = threading.Event()
    for _ in range(400):
        if condition():
            return
        pause.wait(0.05)
    raise AssertionError("in vain")


def test_direct_users_of_the_storage_create_control_drain_and_inspect_in_their_own_transaction(early: Desk) -> None:
    """recurringCreate, recurringControl, recurringDrain and recurringInspect are verbs that take a connection."""
    from calsched.stores.advance import advance
    from calsched.stores.recover import observe_clock

    store = early.store
    checked = early.app.check(json.dumps(definition()).encode(), "json")
    with store.write() as conn:
        ask: dict[str, Any] = {"now": 0, "principal": "host"}
        control.create(store, conn, checked.declarations[0].definition, **ask)
        assert observe_clock(store, conn, 145).ok
        assert [one.id for one in advance(store, conn, 145).schedules] == ["a"]
        control.pause(store, conn, "default", "a", **ask)
        assert inspect.get(store, conn, "default", "a").state == "paused"


# --- the clock --------------------------------------------------------------------------------------------------------


def test_during_a_hold_due_state_advances_at_the_high_water_and_nothing_is_dispatched(desk: Desk) -> None:
    from calsched.stores.advance import advance
    from calsched.stores.recover import observe_clock

    for name, more in (("a", {}), ("b", {"task": "jobs:run"})):
        desk.declare(definition(scheduleId=name, firstTick=to_rfc3339(T0), intervalMs=MINUTE, **more))
    desk.observe_clock(T0)
    desk.tick(T0)  # ready, and nobody has taken it yet
    desk.observe_clock(T0 + HOUR)
    assert desk.observe_clock(T0 + MINUTE // 2) == "backward"  # the wall clock was set back by most of an hour
    with desk.store.write() as conn:
        effective = observe_clock(desk.store, conn, desk.now).now
        assert effective == T0 + HOUR
        advance(desk.store, conn, effective)
    assert [ordinal for ordinal, _, _ in emitted(desk)] == [0, 60]
    assert (desk.take(), desk.claim()) == ([], [])
    assert desk.observe_clock(T0 + 2 * HOUR) is None
    assert (len(desk.take()), len(desk.claim())) == (2, 2)


def test_a_hold_outlives_a_restart(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.declare(definition(firstTick=to_rfc3339(T0), intervalMs=MINUTE))
    desk.observe_clock(T0)
    desk.tick(T0)
    desk.observe_clock(T0 - HOUR)
    desk.close()
    again = Desk(tmp_path, now=T0 - HOUR)
    assert again.observe_clock(T0 - HOUR) == "backward"
    assert again.take() == []
    again.close()


def test_a_repeating_rules_skip_drops_no_one_time_wake_up(desk: Desk) -> None:
    desk.app.create(
        json.dumps(
            {
                "defaults": {"misfire": "skip", "graceSeconds": 0},
                "schedules": {
                    "a": {"every": "1m", "task": "jobs:run"},
                    "wake": {"at": to_rfc3339(T0 + MINUTE), "task": "jobs:run"},
                },
            }
        ).encode(),
        format="json",
    )
    desk.tick(T0 + HOUR + 1)
    assert desk.states("a") == []
    assert desk.states("wake") == [(0, "ready", None)]


# --- persistence ------------------------------------------------------------------------------------------------------


def test_definitions_cursors_evidence_occurrences_and_ranges_are_all_in_the_database(tmp_path: Path) -> None:
    desk = Desk(tmp_path, now=0)
    desk.declare(definition(catchUp="BOUNDED_REPLAY", replayLimit=1))
    desk.tick(125)
    desk.app.pause("a")
    told = desk.app.show("a").show
    desk.close()
    again = App(desk.url, clock=SteppedClock(125))
    assert again.show("a").show == told
    again.close()


def test_competing_connections_write_each_occurrence_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path, now=0)
    for i in range(20):
        desk.declare(definition(scheduleId=f"s{i}", catchUp="BOUNDED_REPLAY", replayLimit=3))
    barrier, faults = threading.Barrier(4), []

    def tick() -> None:
        from calsched.stores.advance import advance

        store = Store(desk.url, clock=desk.clock)
        store.open()
        try:
            barrier.wait(20)
            for now in (105, 125, 145, 145):
                with store.write() as conn:
                    advance(store, conn, now, schedule_batch=7)
        except BaseException as error:
            faults.append(error)
        finally:
            store.dispose()

    threads = [threading.Thread(target=tick) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert faults == []
    for _ in range(3):
        desk.tick(145)
    for i in range(20):
        assert desk.view(f"s{i}").next_ordinal == 5
        ordinals = [one.ordinal for one in desk.occurrences(f"s{i}")]
        assert len(set(ordinals)) == len(ordinals)
    desk.check()
    desk.close()


def test_a_fenced_owners_writes_fail(desk: Desk) -> None:
    desk.declare({"id": "a", "every": "1m", "task": "jobs:run"})
    desk.tick(T0)
    (taken,) = desk.begin()
    before = desk.epoch
    desk.own_again()
    with pytest.raises(Fenced), desk.store.write() as conn:
        claim(desk.store, conn, epoch=before, now=desk.now, limit=1)
    assert desk.start([taken], epoch=before) == set()
    assert desk.finish(succeeded(taken, desk.now), epoch=before).late == {taken.occurrence}
    assert desk.one().state == "interrupted"


def test_the_tables_are_made_in_one_transaction_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from calsched.stores.tables import meta

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("killed half way")

    store = Store(f"sqlite:///{tmp_path / 'ledger.db'}")
    with monkeypatch.context() as patch:
        patch.setattr(meta, "put", fail)
        with pytest.raises(RuntimeError):
            store.open()
    made = Store(store.url_shown)
    with made.engine.connect() as conn:
        assert conn.execute(text("SELECT count(*) FROM sqlite_master")).scalar_one() == 0
    made.open()
    made.dispose()


def test_a_program_of_another_schema_version_does_not_touch_the_schedules(desk: Desk) -> None:
    t = desk.store.tables
    with desk.store.write() as conn:
        for name in ("schema_version", "compatible_since"):
            conn.execute(update(t.meta).where(t.meta.c.name == name).values(value="999"))
    with pytest.raises(StoreVersionDiffers):
        Store(desk.url).open()


def test_a_backup_keeps_identities_and_cursors_and_a_restore_pauses_what_was_active(tmp_path: Path) -> None:
    from calsched.stores.backup import backup
    from calsched.stores.restore import restore

    desk = Desk(tmp_path, now=0)
    for name in ("a", "b", "c"):
        desk.declare(definition(scheduleId=name, catchUp="BOUNDED_REPLAY", replayLimit=1))
    desk.tick(125)
    desk.app.pause("b")
    desk.app.cancel("c")
    backup(desk.store, tmp_path / "ledger.backup")
    (tmp_path / "other").mkdir()
    target = Store(f"sqlite:///{tmp_path / 'other' / 'ledger.db'}", clock=desk.clock)
    target.open()
    restore(target, tmp_path / "ledger.backup", now=130, principal="operator")
    target.dispose()
    other = Desk(tmp_path / "other", now=130)
    assert other.store.installation == desk.store.installation
    for name in ("a", "b", "c"):
        before, after = desk.view(name), other.view(name)
        assert [one.key for one in other.occurrences(name)] == [one.key for one in desk.occurrences(name)]
        assert other.ranges(name) == desk.ranges(name)
        assert after.next_ordinal == before.next_ordinal
        assert (after.next_due, after.held_due) == (None, before.next_due or before.held_due)
    assert [(other.view(name).state, other.view(name).reason) for name in ("a", "b", "c")] == [
        ("paused", "restored"),
        ("paused", "operator"),
        ("cancelled", None),
    ]
    other.tick(500)
    assert len(other.occurrences()) == 1
    assert other.take() == [], "and nothing is dispatched before somebody decides on the backlog"
    other.close()
    desk.close()


# --- four process kills -----------------------------------------------------------------------------------------------

VICTIM = """
import os, signal, sys
from pathlib import Path
from calsched.stores import recover
from calsched.stores.advance import advance
from calsched.stores.claim import claim, start
from calsched.stores.engine import Store
from calsched.stores.finish import finish
from calsched.model import Outcome
from tests.stores._helpers import SteppedClock

url, where, log = sys.argv[1:]
clock = SteppedClock(145)
store = Store(url, clock=clock)
store.open()

def die():
    os.kill(os.getpid(), signal.SIGKILL)

with store.write() as conn:
    epoch = recover.register_owner(store, conn, "victim", "host", os.getpid(), 145, 30_000)
with store.write() as conn:
    assert len(advance(store, conn, 145).schedules) == 1
    if where == "before the advance commits":
        die()
if where == "after the advance has committed":
    die()
with store.write() as conn:
    taken = claim(store, conn, epoch=epoch, now=145, limit=1)
assert len(taken) == 1
if where == "after the claim":
    die()
with store.write() as conn:
    assert start(store, conn, epoch=epoch, now=145, pks=[taken[0].occurrence])
with open(log, "a") as file:
    file.write("ran\\n")
with store.write() as conn:
    finish(store, conn, epoch=epoch, now=146,
           outcomes=[Outcome(taken[0].occurrence, 1, "succeeded", 146, 1)])
    die()
"""


@pytest.mark.parametrize(
    ("where", "left", "ran"),
    [
        ("before the advance commits", [], 0),
        ("after the advance has committed", [(0, "ready"), (1, "ready")], 0),
        ("after the claim", [(0, "claimed"), (1, "ready")], 0),
        ("before the outcome commits", [(0, "running"), (1, "ready")], 1),
    ],
)
def test_a_process_that_is_killed_loses_no_tick_and_runs_none_twice(
    tmp_path: Path, where: str, left: Any, ran: int
) -> None:
    desk = Desk(tmp_path, now=0)
    desk.declare(definition(catchUp="BOUNDED_REPLAY", replayLimit=2, task="jobs:run"))
    desk.close()
    log = tmp_path / "log"
    log.touch()
    died = subprocess.run(
        [sys.executable, "-c", VICTIM, desk.url, where, str(log)], cwd=ROOT, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert died.returncode == -signal.SIGKILL, died.stderr
    store = Store(desk.url)
    store.open()
    with store.read() as conn:
        o = store.tables.occurrences.c
        assert [tuple(row) for row in conn.execute(select(o.ordinal, o.state).order_by(o.ordinal))] == left
    store.dispose()
    again = Desk(tmp_path, now=145)  # a new owner: it recovers what the dead one left
    for _ in range(3):
        again.tick(145)
    again.now = 150
    runs = again.run()
    outcomes = [(one.ordinal, one.state) for one in again.occurrences()]
    first = "interrupted" if ran else "succeeded"
    assert outcomes == [(0, first), (1, "succeeded")]
    assert len(runs) == 2 - ran
    assert log.read_text().count("ran") == ran
    assert again.ranges() == [(2, 4, "replayLimit")]
    if ran:
        (attempt,) = again.occurrences()[0].attempts
        assert (attempt.state, attempt.uncertain) == ("interrupted", True)
    again.check()
    again.close()
