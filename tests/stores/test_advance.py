"""Advancing on every database: what a tick commits, and what it leaves."""

from __future__ import annotations

from typing import Any

import pymysql
import pytest
from sqlalchemy import text, update
from sqlalchemy.exc import IntegrityError, OperationalError

from calsched import planner
from calsched.model import Task
from calsched.stores import advance as advancing
from calsched.stores import control
from calsched.stores.engine import Store
from calsched.stores.tables import meta
from tests.stores._helpers import HOUR, MINUTE, SECOND, T0, Ledger, every


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger(store)


def test_a_slot_that_is_due_gets_a_row_and_the_cursor_moves(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    report = ledger.tick(T0)
    assert [(made.id, made.plan.cursor.next_due) for made in report.schedules if made.plan.cursor] == [
        ("a", T0 + MINUTE)
    ]
    view = ledger.view()
    assert (view.next_ordinal, view.next_due, view.last_due, view.used, view.open_count) == (1, T0 + MINUTE, T0, 1, 1)
    assert (report.next_due, report.more) == (T0 + MINUTE, False)
    assert ledger.states() == [(0, "ready", None)]
    ledger.check()


def test_a_tick_before_anything_is_due_writes_nothing_and_says_when_to_come_back(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    report = ledger.tick(T0 - 1)
    assert (report.schedules, report.failed, report.more, report.next_due) == ([], [], False, T0)
    assert ledger.view().state_version == 1


def test_a_second_tick_at_the_same_instant_changes_nothing(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    before = ledger.view()
    assert ledger.tick(T0).schedules == []
    assert ledger.view() == before


def test_the_state_version_rises_with_each_advance_and_not_with_claims(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.tick(T0)
    assert ledger.view().state_version == 2
    ledger.run()
    assert ledger.view().state_version == 2


OLDEST_TWO: list[tuple[int, str, str | None]] = [(0, "ready", None), (1, "ready", None)]
VECTORS: list[tuple[dict[str, Any], list[tuple[int, str, str | None]], list[tuple[int, int, str]], int]] = [
    ({"misfire": "runOnce"}, [(4, "ready", None)], [(0, 3, "represented")], 5),
    ({"misfire": "skip"}, [], [(0, 4, "misfire")], 5),
    (
        {"misfire": "boundedReplay", "replay_limit": 2},
        [(0, "ready", None), (1, "ready", None)],
        [(2, 4, "replayLimit")],
        5,
    ),
    ({"misfire": "catchUp", "max_catch_up": 2}, [(0, "ready", None), (1, "ready", None)], [], 2),
]


@pytest.mark.parametrize(("policy", "rows", "ranges", "next_ordinal"), VECTORS, ids=lambda v: str(v)[:40])
def test_what_was_missed_is_committed_as_the_misfire_policy_says(
    ledger: Ledger, policy: dict[str, Any], rows: Any, ranges: Any, next_ordinal: int
) -> None:
    first = T0 + 100
    trigger = {"kind": "interval", "intervalMs": 10, "firstTick": "2027-01-15T08:00:00.100Z"}
    d = every(grace=0, overlap="allow", max_concurrent=10, **policy)
    ledger.create(type(d).from_material(d.material() | {"trigger": trigger}))
    ledger.tick(first + 45)
    assert ledger.states() == rows
    assert ledger.ranges() == ranges
    assert ledger.view().next_ordinal == next_ordinal
    ledger.check()


def test_a_year_of_missed_milliseconds_is_two_rows(ledger: Ledger) -> None:
    ledger.create(every(1, grace=0))
    ledger.tick(T0 + 365 * 24 * HOUR)
    assert ledger.states() == [(31_536_000_000, "ready", None)]
    assert ledger.ranges() == [(0, 31_535_999_999, "represented")]
    ledger.check()


def test_skipped_ranges_that_follow_one_another_are_one_row_and_count_once(ledger: Ledger) -> None:
    ledger.create(every(SECOND, misfire="skip", grace=0))
    for tick in range(1, 5):
        ledger.tick(T0 + tick * SECOND - 1)
    assert ledger.ranges() == [(0, 3, "misfire")]
    assert ledger.view().used == 1
    ledger.check()


def test_slots_fold_into_the_one_that_waits_and_their_range_grows(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, overlap="coalesce"))
    ledger.tick(T0)
    ledger.begin()
    for tick in range(1, 5):
        ledger.tick(T0 + tick * MINUTE)
    assert ledger.states() == [(0, "running", None), (1, "waiting", None)]
    waiting = ledger.occurrences()[1]
    assert (waiting.represents_first, waiting.represents_last) == (1, 4)
    assert ledger.ranges() == [(2, 4, "represented")]
    ledger.check()


def test_a_claimed_occurrence_absorbs_nothing_more(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, overlap="coalesce"))
    ledger.tick(T0)
    ledger.claim()
    ledger.tick(T0 + MINUTE)
    assert ledger.states() == [(0, "claimed", None), (1, "waiting", None)]
    ledger.check()


def test_the_excess_of_a_queue_is_skipped(ledger: Ledger) -> None:
    ledger.create(every(SECOND, overlap="queue", max_queued=2))
    ledger.tick(T0)
    ledger.begin()
    ledger.tick(T0 + 5 * SECOND)
    assert ledger.states() == [(0, "running", None), (1, "waiting", None), (2, "waiting", None)]
    assert ledger.ranges() == [(3, 5, "queueFull")]
    ledger.check()


def test_allow_fills_its_slots_and_lets_the_excess_wait(ledger: Ledger) -> None:
    ledger.create(every(SECOND, overlap="allow", max_concurrent=3))
    ledger.tick(T0 + 4 * SECOND)
    assert [state for _, state, _ in ledger.states()] == ["ready"] * 3 + ["waiting"] * 2
    taken = ledger.begin()
    assert sorted(one.active_slot for one in taken) == [0, 1, 2]
    ledger.check()


def test_the_budget_ends_the_revision_and_says_so_in_a_decision(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, max_occurrences=2, overlap="queue"))
    ledger.tick(T0)
    ledger.tick(T0 + 5 * MINUTE)
    view = ledger.view()
    assert (view.state, view.reason, view.next_due, view.used) == ("ended", "maxOccurrences", None, 2)
    assert ledger.decisions() == ["create", "end"]
    ledger.check()


def test_what_an_ended_schedule_left_pending_still_runs(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, max_occurrences=1))
    ledger.tick(T0)
    assert ledger.view().state == "ended"
    assert [one.ordinal for one in ledger.run()] == [0]
    assert ledger.states() == [(0, "succeeded", None)]


def test_the_oldest_schedules_come_first_and_the_batch_is_a_bound(ledger: Ledger) -> None:
    for index in range(5):
        ledger.now = T0 - (5 - index) * SECOND
        ledger.create(every(SECOND, f"s{index}"))
    report = ledger.tick(T0, schedule_batch=2)
    assert ([made.id for made in report.schedules], report.more) == (["s0", "s1"], True)
    report = ledger.tick(T0, schedule_batch=100)
    assert ([made.id for made in report.schedules], report.more) == (["s2", "s3", "s4"], False)


def test_only_chosen_schedules_are_advanced(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, "a"))
    chosen = ledger.create(every(MINUTE, "b"))
    assert [made.id for made in ledger.tick(T0, only=[chosen.pk]).schedules] == ["b"]


def test_a_row_that_the_database_refuses_rolls_back_its_schedule_and_no_other(ledger: Ledger) -> None:
    for name in ("a", "b", "c"):
        ledger.create(every(MINUTE, name))
    t = ledger.store.tables
    spoiled = ledger.view("b")
    with ledger.store.write() as conn:  # an occurrence of slot 0 is there already, as after a bad restore
        conn.execute(
            t.occurrences.insert().values(
                schedule_pk=spoiled.pk, revision_pk=spoiled.revision_pk, series="slot", ordinal=0, due=T0, slot_due=T0,
                run_at=T0, state="succeeded", executor="default", represents_first=0, represents_last=0,
                represents_first_due=T0, created_at=T0, finished_at=T0,
            )
        )  # fmt: skip
    report = ledger.tick(T0)
    assert sorted(made.id for made in report.schedules) == ["a", "c"]
    assert [(one.id, one.unloadable) for one in report.failed] == [("b", False)]
    after = ledger.view("b")
    assert (after.next_ordinal, after.state_version) == (spoiled.next_ordinal, spoiled.state_version)
    assert after.attention is not None
    assert [ledger.view(name).next_ordinal for name in ("a", "c")] == [1, 1]


def test_a_faulty_schedule_does_not_hold_up_the_ones_behind_it(ledger: Ledger) -> None:
    ledger.create(every(SECOND, "a"))
    with ledger.store.write() as conn:
        revisions = ledger.store.tables.revisions
        conn.execute(update(revisions).values(definition='{"broken": true}'))
    ledger.store.compiled.forget()
    ledger.now += MINUTE
    ledger.create(every(SECOND, "b"))
    report = ledger.tick(schedule_batch=1)
    assert [(one.id, one.unloadable) for one in report.failed] == [("a", True)]
    report = ledger.tick(schedule_batch=1)
    assert [made.id for made in report.schedules] == ["b"]


def test_a_refused_batch_keeps_the_cursor_and_asks_for_attention(ledger: Ledger) -> None:
    ledger.create(every(SECOND, misfire="catchUp", grace=0, admission="strict", max_lateness=500, overlap="allow"))
    report = ledger.tick(T0 + 5 * SECOND)
    assert report.schedules == []
    view = ledger.view()
    assert (view.next_ordinal, view.next_due, view.state_version) == (0, T0, 1)
    assert view.attention is not None
    assert not report.more


@pytest.mark.parametrize(
    ("kind", "code", "tries"),
    [(OperationalError, 1213, 1), (OperationalError, 1205, 1), (OperationalError, 4025, 3), (IntegrityError, 0, 3)],
    ids=["deadlock", "lock wait", "a check on MariaDB", "a constraint"],
)
def test_rows_that_are_refused_are_tried_one_by_one_and_a_lost_transaction_is_not(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, kind: Any, code: int, tries: int
) -> None:
    """After a deadlock MariaDB has rolled back everything, locks and all: what was read before holds no more."""
    ledger.create(every(MINUTE))
    ledger.create(every(MINUTE, "b"))
    real, asked = advancing._commit, []

    def commit(store: Store, conn: Any, now: int, jobs: Any, *more: Any) -> Any:
        asked.append(len(jobs))
        if len(asked) == 1:
            raise kind("UPDATE", {}, pymysql.err.MySQLError(code, "no"))
        return real(store, conn, now, jobs, *more)

    monkeypatch.setattr(advancing, "_commit", commit)
    try:
        advanced = len(ledger.tick(T0).schedules)
    except kind:
        advanced = 0
    assert (len(asked), advanced) == (tries, 0 if tries == 1 else 2)
    ledger.tick(T0)
    assert ledger.states("a") == ledger.states("b") == [(0, "ready", None)]
    ledger.check()


def test_a_trigger_that_raises_is_reported_and_stops_nobody(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        ledger.create(every(MINUTE, name))
    real = planner.plan

    def plan(inp: Any, now: int, **more: Any) -> Any:
        if inp.definition.id == "a":
            raise ZeroDivisionError("a trigger of somebody's own")
        return real(inp, now, **more)

    monkeypatch.setattr(advancing, "plan", plan)
    report = ledger.tick(T0)
    assert [one.error for one in report.failed] == ["ZeroDivisionError: a trigger of somebody's own"]
    assert [made.id for made in report.schedules] == ["b"]


def test_waiting_work_past_its_expiry_is_skipped_and_the_next_is_promoted(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, overlap="queue", expires_at=T0 + 3 * MINUTE))
    ledger.tick(T0)
    ledger.tick(T0 + MINUTE)
    report = ledger.tick(T0 + 3 * MINUTE + 1)
    assert sorted(report.ended.values()) == ["expired", "expired"]
    assert [state for _, state, _ in ledger.states()][:2] == ["skipped", "skipped"]
    assert ledger.view().state == "ended"
    ledger.check()


def test_exactly_at_the_expiry_work_is_still_dispatched(ledger: Ledger) -> None:
    ledger.create(every(MINUTE, expires_at=T0 + MINUTE))
    ledger.tick(T0)
    ledger.tick(T0 + MINUTE)
    assert [one.ordinal for one in ledger.claim()] == [0]


def test_waiting_work_past_its_deadline_is_skipped(ledger: Ledger) -> None:
    ledger.create(every(HOUR, deadline=MINUTE))
    ledger.tick(T0)
    assert list(ledger.tick(T0 + MINUTE).ended.values()) == []
    assert list(ledger.tick(T0 + MINUTE + 1).ended.values()) == ["deadline"]
    assert ledger.states() == [(0, "skipped", "deadline")]
    assert ledger.view().failures == 0
    ledger.check()


def test_an_operators_skip_is_a_verdict_with_a_note(ledger: Ledger) -> None:
    ledger.create(every(MINUTE))
    ledger.control("skip", dues=[T0 + MINUTE], note="planned outage")
    for tick in range(3):
        ledger.tick(T0 + tick * MINUTE)
        ledger.run()
    assert ledger.ranges() == [(1, 1, "operator")]
    skipped = next(one for one in ledger.history() if hasattr(one, "verdict"))
    assert skipped.note == "planned outage (tester)"
    assert ledger.view().skip_count == 0
    ledger.check()


def test_ready_tasks_are_written_for_a_host_and_not_for_an_executor(ledger: Ledger) -> None:
    task = Task(kind="ready", work_order_id="w", run_id="r", task_class="c", input={})
    ledger.create(every(MINUTE, task=task))
    ledger.tick(T0)
    assert ledger.claim() == []
    assert ledger.occurrences()[0].executor == ""


def test_an_owner_with_older_zone_data_leaves_zoned_schedules_alone(ledger: Ledger) -> None:
    d = every(MINUTE, "utc")
    ledger.create(d)
    zoned = {"kind": "calendar", "timezone": "Europe/Berlin", "hour": None, "minute": None}
    ledger.create(type(d).from_material(d.material() | {"id": "zoned", "trigger": zoned}))
    with ledger.store.write() as conn:
        meta.put(conn, ledger.store.tables, "tzdata", "9999z")
    assert [made.id for made in ledger.tick(T0).schedules] == ["utc"]


def test_the_tick_of_many_schedules_takes_as_many_statements_as_that_of_few(ledger: Ledger) -> None:
    def statements(count: int) -> int:
        with ledger.store.write() as conn:
            for index in range(count):
                control.create(
                    ledger.store, conn, every(HOUR, f"{count}-{index}"), now=ledger.now, principal="t"
                )  # fmt: skip
        ledger.tick(ledger.now + HOUR)  # warm
        ledger.run()
        seen: list[str] = []
        from sqlalchemy import event

        event.listen(ledger.store.engine, "before_cursor_execute", lambda *args: seen.append(args[2]))
        ledger.tick(ledger.now + HOUR)
        ledger.run()
        return len(seen)

    few = statements(2)
    ledger.control("delete", "2-0")
    ledger.control("delete", "2-1")
    assert statements(60) <= few + few  # the listener of the first count still counts
    assert few < 40


def test_a_tick_leaves_alone_what_another_owner_holds(ledger: Ledger, database: str) -> None:
    if database == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    a = ledger.create(every(MINUTE, "a"))
    ledger.create(every(MINUTE, "b"))
    name = ledger.store.tables.schedules.name
    with ledger.store.write() as conn:
        conn.execute(text(f"SELECT pk FROM {name} WHERE pk = {a.pk} FOR UPDATE"))
        assert [made.id for made in ledger.tick(T0).schedules] == ["b"]
    assert [made.id for made in ledger.tick(T0).schedules] == ["a"]
