"""Controls that meet other transactions: they are done again where they lost, and say in plain words what is left."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from apscheduler.jobstores.base import ConflictingIdError
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import IntegrityError, OperationalError

from calsched import OccurrenceJobStore
from calsched.app import App
from calsched.errors import AlreadyExists, InvalidInput, Refused, StaleVersion, StoreBusy
from calsched.policies.retention import Keep
from calsched.stores import asking, conflicts, extra, inspect, upgrade
from calsched.stores import backfill as backfill_verbs
from calsched.stores.backup import backup
from calsched.stores.engine import Store
from calsched.stores.restore import restore
from calsched.stores.retain import Pruned, prune
from calsched.stores.tables import bulk, reading, schedules, skips
from tests.stores._helpers import HOUR, MINUTE, T0, Ledger, every
from tests.stores.conftest import drop

SERVERS = pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)


def declared(*ids: str, every: str = "1h", calendar: str | None = None) -> bytes:
    said: dict[str, Any] = {
        "timezone": "UTC",
        "schedules": {name: {"every": every, "task": "json:dumps"} for name in ids},
    }
    if calendar is not None:
        said["calendars"] = {"closed": {"dates": [calendar]}}
    return json.dumps(said).encode()


@pytest.fixture
def app(store: Store) -> App:
    return App(store=store, allow=["json:*"])


@pytest.fixture
def rival(store: Store) -> Iterator[App]:
    """Another process: the same tables, connections of its own."""
    url = store._url
    made = Store(url, prefix=store.prefix, clock=store.clock)
    made.open()
    yield App(store=made, allow=["json:*"])
    made.dispose()


def create(app: App, *ids: str, **more: Any) -> Any:
    return app.create(declared(*ids, **more), format="json")


# --- a deadlock -------------------------------------------------------------------------------------------------------


class Crossing:
    """A table beside ours, of which a control and a rival lock two rows in opposite orders. The control has to lose."""

    def __init__(self, store: Store, name: str) -> None:
        self.engine, self.name = create_engine(store._url), name
        self.postgresql = store.dialect == "postgresql"
        with self.engine.begin() as conn:
            conn.execute(text(f"CREATE TABLE {name} (pk int PRIMARY KEY, n int)"))
            conn.execute(text(f"INSERT INTO {name} VALUES " + ", ".join(f"({n}, 0)" for n in range(300))))

    def lose(self, conn: Connection) -> None:
        """Raises what the database says of a real deadlock."""
        if self.postgresql:
            conn.execute(text("SET LOCAL deadlock_timeout = '10ms'"))
        conn.execute(text(f"UPDATE {self.name} SET n = 1 WHERE pk = 0"))
        ready = threading.Event()
        other = threading.Thread(target=self._win, args=(ready,), daemon=True)
        other.start()
        assert ready.wait(20)
        try:
            conn.execute(text(f"UPDATE {self.name} SET n = 1 WHERE pk = 299"))
        finally:
            conn.rollback()
            other.join(20)

    def _win(self, ready: threading.Event) -> None:
        with self.engine.begin() as conn:  # the heavier side, and the more patient one
            if self.postgresql:
                conn.execute(text("SET LOCAL deadlock_timeout = '20s'"))
            conn.execute(text(f"UPDATE {self.name} SET n = n + 2 WHERE pk > 0"))
            ready.set()
            conn.execute(text(f"UPDATE {self.name} SET n = n + 2 WHERE pk = 0"))

    def drop(self) -> None:
        with self.engine.begin() as conn:
            conn.execute(text(f"DROP TABLE {self.name}"))
        self.engine.dispose()


@pytest.fixture
def crossing(store: Store) -> Iterator[Crossing]:
    made = Crossing(store, f"{store.prefix}crossing")
    yield made
    made.drop()


@contextmanager
def after_the_work(store: Store, what: Callable[[Connection], None], times: int = 1) -> Iterator[list[int]]:
    """Do something at the end of the next transactions that write, when all their work is done; how many there were."""
    real, seen = store.write, [0]

    @contextmanager
    def hooked(connection: Connection | None = None) -> Iterator[Connection]:
        with real(connection) as conn:
            yield conn
            seen[0] += 1
            if seen[0] <= times:
                what(conn)

    store.write = hooked  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        del store.write


def _add_job(app: App) -> None:
    OccurrenceJobStore(store=app.store()).add_job(a_job())


def a_job() -> Any:
    scheduler = BackgroundScheduler(executors={"default": {"type": "threadpool"}})
    return scheduler.add_job(json.dumps, "interval", hours=1, args=[1], id="job", next_run_time=None)


CONTROLS: dict[str, Callable[[App], Any]] = {
    "pause": lambda app: app.pause("a"),
    "disable": lambda app: app.disable("a"),
    "skip_next": lambda app: app.skip_next("a"),
    "run": lambda app: app.run("a"),
    "delete": lambda app: app.delete("a"),
    "delete_namespace": lambda app: app.delete_namespace(),
    "update": lambda app: app.update("a", b'{"every": "2h"}', format="json"),
    "backfill": lambda app: app.backfill("a", T0 - 3 * HOUR, T0),
    "create": lambda app: create(app, "a", "new"),
    "apply": lambda app: app.apply(declared("a", "new", every="3h"), format="json"),
    "set_calendars": lambda app: app.set_calendars(
        app.calendar_change(declared("a", calendar="2027-02-01"), format="json")
    ),
    "clock_accept": lambda app: app.clock_accept(),
    "ready_claim": lambda app: app.ready_claim(),
    "add_job": _add_job,
}


@SERVERS
@pytest.mark.parametrize("control", CONTROLS)
def test_a_control_that_lost_a_deadlock_is_done_again_and_once(app: App, crossing: Crossing, control: str) -> None:
    create(app, "a", "b")
    store = app.store()
    with after_the_work(store, crossing.lose) as transactions:
        CONTROLS[control](app)
    assert transactions[0] == 2
    with store.read() as conn:
        made = conn.execute(text(f"SELECT action, count(*) FROM {store.prefix}decisions GROUP BY action")).all()
        assert reading.wrong_counts(conn, store.tables, 5) == []
        assert inspect.tiling(store, conn) == []
    done = {action: count for action, count in made if action != "create"}
    assert all(count == (2 if control == "delete_namespace" else 1) for count in done.values()), done


@SERVERS
def test_a_prune_that_lost_a_deadlock_is_done_again(store: Store, crossing: Crossing) -> None:
    ledger = Ledger(store)
    ledger.create(every(MINUTE))
    for tick in range(4):
        ledger.tick(T0 + tick * MINUTE)
        ledger.run()
    ledger.control("run_extra")
    ledger.run()
    begun = [0]

    def lose_every_other(conn: Connection) -> None:
        begun[0] += 1
        if begun[0] % 2:
            crossing.lose(conn)

    with after_the_work(store, lose_every_other, 100):
        assert prune(store, ledger.now + HOUR, Keep(age=MINUTE)) == Pruned(occurrences=3, extra_runs=1)
    assert begun[0] == 2 * len(("three verdicts", "no further ones", "extra runs", "owners"))
    assert [one.ordinal for one in ledger.occurrences() if one.series == "slot"] == [3]
    ledger.check()


@SERVERS
def test_a_restore_that_lost_a_deadlock_is_done_again(store: Store, crossing: Crossing, tmp_path: Path) -> None:
    source = Store(f"sqlite:///{tmp_path / 'source.db'}", clock=store.clock)
    source.open()
    Ledger(source).create(every(MINUTE))
    backup(source, tmp_path / "a.backup")
    source.dispose()
    with after_the_work(store, crossing.lose) as transactions:
        assert restore(store, tmp_path / "a.backup", now=T0, principal="t").rows["schedules"] == 1
    assert transactions[0] == 2
    assert Ledger(store).decisions() == ["create", "restore"]


@SERVERS
def test_a_backup_that_says_a_row_twice_is_at_fault_and_no_other_transaction(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conflicts, "PAUSE_SECONDS", 0.0)
    source = Store(f"sqlite:///{tmp_path / 'source.db'}", clock=store.clock)
    source.open()
    Ledger(source).create(every(MINUTE))
    file = tmp_path / "a.backup"
    backup(source, file)
    source.dispose()
    say_twice(file, "decisions")
    with pytest.raises(InvalidInput, match="the database refuses what it holds"):
        restore(store, file, now=T0, principal="t")


def say_twice(file: Path, table: str) -> None:
    """Repeat the first row of a table, and sign the file anew."""
    lines = file.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if line.startswith(b'{"table"') and json.loads(line)["table"] == table)
    lines.insert(at + 1, lines[at + 1])
    end = json.loads(lines[-1])
    end["rows"][table] += 1
    end["sha256"] = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    file.write_bytes(b"".join(lines[:-1]) + json.dumps(end).encode() + b"\n")


@SERVERS
def test_an_upgrade_that_lost_a_deadlock_is_done_again(store: Store, crossing: Crossing) -> None:
    with after_the_work(store, crossing.lose) as transactions:
        assert upgrade.upgrade(store) == []
    assert transactions[0] == 2


@SERVERS
def test_a_store_whose_making_lost_a_deadlock_is_made_again(
    store: Store, crossing: Crossing, url: str, prefix: str
) -> None:
    other = Store(url, prefix=prefix)
    with after_the_work(other, crossing.lose) as transactions:
        other.open()
    assert transactions[0] == 2
    assert upgrade.current(other).up_to_date
    drop(other)


@SERVERS
def test_a_transaction_of_the_caller_is_not_done_again_but_told(app: App, crossing: Crossing) -> None:
    store = app.store()
    tried = []
    with (
        store.engine.begin() as mine,
        pytest.raises(StoreBusy, match="another transaction waited for each other; nothing was changed, try again"),
        store.write(mine) as conn,
    ):
        tried.append(1)
        crossing.lose(conn)
    assert tried == [1]


class Said(Exception):
    """What a driver raises, with the code of its database."""

    def __init__(self, code: Any) -> None:
        super().__init__(*((code, "as MariaDB says it") if isinstance(code, int) else ("as PostgreSQL says it",)))
        self.sqlstate = code if isinstance(code, str) else "23000"


CODES = ["40P01", "40001", "55P03", "23505", 1213, 1020, 1205, 1062]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_control_that_loses_every_time_ends_in_one_line(
    app: App, monkeypatch: pytest.MonkeyPatch, code: str | int
) -> None:
    monkeypatch.setattr(conflicts, "PAUSE_SECONDS", 0.0)
    create(app, "a")

    def lose(conn: Connection) -> None:
        raise OperationalError("UPDATE …", {}, Said(code))

    with after_the_work(app.store(), lose, 100) as tries, pytest.raises(StoreBusy) as caught:
        app.pause("a")
    assert tries[0] == conflicts.TRIES
    assert len(str(caught.value).splitlines()) == 1
    assert "nothing was changed, try again" in str(caught.value)
    assert app.get("a").state == "enabled"


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_what_is_no_lost_race_is_not_done_again(app: App) -> None:
    create(app, "a")

    def fail(conn: Connection) -> None:
        raise IntegrityError("UPDATE …", {}, Said(4025))

    with after_the_work(app.store(), fail, 100) as tries, pytest.raises(IntegrityError):
        app.pause("a")
    assert tries[0] == 1


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_no_further_try_begins_after_a_long_wait(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conflicts, "PATIENCE", -1)
    create(app, "a")

    def lose(conn: Connection) -> None:
        raise OperationalError("UPDATE …", {}, Said(1205))

    with after_the_work(app.store(), lose, 100) as tries, pytest.raises(StoreBusy, match="held what it waited for"):
        app.pause("a")
    assert tries[0] == 1


# --- a lost race for an id --------------------------------------------------------------------------------------------


def before_once(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, what: Callable[[], Any]) -> None:
    """Let something happen just before a function does its work for the first time."""
    real = getattr(module, name)
    done: list[int] = []

    def hooked(*args: Any, **more: Any) -> Any:
        if not done:
            done.append(1)
            what()
        return real(*args, **more)

    monkeypatch.setattr(module, name, hooked)


@SERVERS
def test_what_another_created_just_before_is_left_as_it_is_where_it_says_the_same(
    app: App, rival: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_once(monkeypatch, bulk, "add_schedules", lambda: create(rival, "a"))
    made = create(app, "a", "b")
    assert made.created == {"b"}
    assert [view.revision for view in made.schedules] == [1, 1]


@SERVERS
def test_what_another_created_just_before_exists_already_where_it_says_otherwise(
    app: App, rival: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_once(monkeypatch, bulk, "add_schedules", lambda: create(rival, "a", every="2h"))
    with pytest.raises(AlreadyExists, match="'a' has a revision 1 with other material"):
        create(app, "a", "b")
    assert [view.id for view in app.list().schedules] == ["a"]


@SERVERS
def test_one_schedule_that_another_created_just_before_exists_already(
    app: App, rival: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way of a file that states its revision, which goes schedule by schedule."""
    said = json.loads(declared("a"))
    said["schedules"]["a"]["revision"] = 1
    before_once(monkeypatch, schedules, "add", lambda: create(rival, "a", every="2h"))
    with pytest.raises(AlreadyExists):
        app.create(json.dumps(said).encode(), format="json")


@SERVERS
def test_files_that_lose_a_race_for_an_id_are_to_be_planned_again(
    app: App, rival: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_once(monkeypatch, bulk, "add_schedules", lambda: create(rival, "a", every="2h"))
    with pytest.raises(Refused, match="changed since this was planned; nothing was applied"):
        app.apply(declared("a", "b"), format="json")
    assert [view.id for view in app.list().schedules] == ["a"]


@SERVERS
def test_two_that_change_a_calendar_at_once_make_one_version_each_or_one_of_both(
    app: App, rival: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calsched.stores.tables import calendars

    first, second = declared("a", calendar="2027-02-01"), declared("b", calendar="2027-02-02")
    before_once(monkeypatch, calendars, "add", lambda: rival.create(first, format="json"))
    app.create(second, format="json")
    (found,) = app.calendars()
    assert found.calendar.version == 2


@SERVERS
def test_a_job_that_another_process_added_just_before_conflicts_in_apschedulers_words(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = app.store()
    job = a_job()
    mine, other = (OccurrenceJobStore(store=Store(store._url, prefix=store.prefix), allow=["json:*"]) for _ in range(2))
    try:
        before_once(monkeypatch, schedules, "add", lambda: other.add_job(job))
        with pytest.raises(ConflictingIdError):
            mine.add_job(job)
    finally:
        mine.store.dispose()
        other.store.dispose()


# --- choosing and writing ---------------------------------------------------------------------------------------------


@SERVERS
def test_a_skip_that_another_made_just_before_is_not_the_one_that_is_told(
    app: App, rival: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(app, "a")
    told = []
    before_once(monkeypatch, extra, "skip_next", lambda: told.append(rival.skip_next("a")[1]))
    view, due = app.skip_next("a")
    # the hooked function serves the rival too, so its own skip came first
    assert told == [T0]
    assert due == T0 + HOUR
    with app.store().read() as conn:
        found = skips.of(conn, app.store().tables, app.store().dialect, (view.pk,))[view.pk]
    assert [row.due for row in found] == [T0, T0 + HOUR]


@SERVERS
def test_an_unskip_just_before_lets_the_next_one_be_skipped_again(
    app: App, rival: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(app, "a")
    app.skip_next("a")
    before_once(monkeypatch, extra, "skip_next", lambda: rival.unskip("a", T0))
    assert app.skip_next("a")[1] == T0


def test_the_slot_to_skip_is_chosen_and_written_on_one_reading_of_the_row(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(app, "a")
    readings = []
    real = asking.locked

    def counted(*args: Any) -> Any:
        readings.append(1)
        return real(*args)

    monkeypatch.setattr(extra, "locked", counted)
    assert app.skip_next("a")[1] == T0
    assert readings == [1]


def after_looking(monkeypatch: pytest.MonkeyPatch, app: App, what: Callable[[], Any]) -> None:
    """Let something happen between a backfill's look at its due instants and its first write."""
    real = app.backfill_candidates

    def looked(*args: Any, **more: Any) -> Any:
        found = real(*args, **more)
        what()
        return found

    monkeypatch.setattr(app, "backfill_candidates", looked)


def test_a_backfill_of_a_rule_that_was_revised_meanwhile_is_stale(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    create(app, "a")
    after_looking(monkeypatch, app, lambda: app.update("a", b'{"every": "7m"}', format="json"))
    with pytest.raises(StaleVersion, match="expected revision 1, but it is 2 now"):
        app.backfill("a", T0 - 3 * HOUR, T0)


def test_a_backfill_on_another_revision_than_was_seen_is_stale(app: App) -> None:
    create(app, "a")
    with pytest.raises(StaleVersion, match="expected revision 7, but it is 1 now"):
        app.backfill("a", T0 - 3 * HOUR, T0, revision=7)


DAILY = {
    "timezone": "UTC",
    "calendars": {"closed": {"dates": ["2026-01-01"]}},
    "schedules": {
        "a": {"trigger": {"kind": "calendar", "at": "09:00", "calendar": "closed"}, "task": "json:dumps"},
    },
}


def close_a_day(app: App) -> None:
    change = {**DAILY, "calendars": {"closed": {"dates": ["2027-01-12"]}}}
    app.set_calendars(app.calendar_change(json.dumps(change).encode(), format="json"))


def test_a_backfill_of_a_rule_whose_calendar_changed_meanwhile_is_refused_in_plain_words(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.create(json.dumps(DAILY).encode(), format="json")
    after_looking(monkeypatch, app, lambda: close_a_day(app))
    with pytest.raises(
        Refused, match=r"the due instants of 'a' changed while .* nothing was written: try again"
    ) as said:
        app.backfill("a", T0 - 5 * 24 * HOUR, T0)
    assert "dues[" not in str(said.value)


def test_a_backfill_keeps_its_pages_where_the_calendar_changes_between_them(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill_verbs, "PAGE", 1)
    monkeypatch.setattr(backfill_verbs, "pages", lambda dues, size=1: ([due] for due in dues))
    app.create(json.dumps(DAILY).encode(), format="json")

    def progress(done: int, total: int | None) -> None:
        if done == 1:
            close_a_day(app)

    with pytest.raises(Refused, match=r"changed while they were looked up .* \d occurrences? from before stays?"):
        app.backfill("a", T0 - 5 * 24 * HOUR, T0, progress=progress)


# --- storms -----------------------------------------------------------------------------------------------------------

SECONDS = 1.5


def storm(apps: list[App], acts: list[Callable[[App], Any]]) -> Counter[str]:
    """Each app in a thread of its own, each act in turn, until the time is over: what came of it."""
    told: Counter[str] = Counter()
    end = time.monotonic() + SECONDS

    def go(app: App, first: int) -> None:
        turn = first
        while time.monotonic() < end:
            try:
                acts[turn % len(acts)](app)
                told["done"] += 1
            except Refused as error:
                told[f"refused: {type(error).__name__}"] += 1
            except Exception as error:
                told[f"{type(error).__name__}: {error}"] += 1
            turn += 1

    threads = [threading.Thread(target=go, args=(app, n), daemon=True) for n, app in enumerate(apps)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return told


@pytest.fixture
def apps(store: Store) -> Iterator[list[App]]:
    made = [Store(store._url, prefix=store.prefix, clock=store.clock) for _ in range(4)]
    yield [App(store=one, allow=["json:*"]) for one in made]
    for one in made:
        one.dispose()


@SERVERS
def test_files_in_opposite_orders_never_cross(app: App, apps: list[App], monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [f"s{n}" for n in range(30)]
    create(app, *ids)
    lost = []
    monkeypatch.setattr(conflicts, "lost", lambda error: lost.append(str(error)))
    told = storm(apps, [lambda one: create(one, *ids), lambda one: create(one, *reversed(ids))])
    assert set(told) == {"done"}
    assert lost == []


@SERVERS
def test_a_storm_of_controls_ends_in_verdicts_and_refusals_only(app: App, apps: list[App]) -> None:
    ids = [f"s{n}" for n in range(6)]
    create(app, *ids)
    acts: list[Callable[[App], Any]] = [
        lambda one: create(one, *ids),
        lambda one: create(one, *reversed(ids)),
        lambda one: one.apply(declared(*ids, every="1m"), format="json"),
        lambda one: one.apply(declared(*reversed(ids), every="2m"), format="json"),
        lambda one: one.skip_next("s0"),
        lambda one: one.skip_next("s0"),
        lambda one: one.pause("s1"),
        lambda one: one.enable("s1"),
        lambda one: one.run("s2"),
        lambda one: one.update("s3", b'{"every": "5m"}', format="json", cancel_pending=True),
        lambda one: one.delete("s4"),
        lambda one: one.backfill("s2", T0 - 3 * MINUTE, T0),
        lambda one: one.cancel_backfill("s2"),
        lambda one: one.delete_namespace(),
    ]
    told = storm(apps, acts)
    assert told["done"]
    assert all(what == "done" or what.startswith("refused") for what in told), told
    with app.store().read() as conn:
        assert reading.wrong_counts(conn, app.store().tables, 5) == []
        assert inspect.tiling(app.store(), conn) == []
