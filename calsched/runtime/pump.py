"""The pump: the one thread of an owner that talks to the store.

It advances what is due, claims about as fast as executors finish, marks a start window as running together with the
outcomes of what has ended, keeps the owner's lease, and obeys controls of other processes. Workers hand it their
outcomes through a queue; the scheduler thread takes from memory what the pump has started. So a slow database stalls
neither. It never gives up: while the store does not answer it keeps the outcomes and tries again.

::

    outcomes ──► finish ─┐
                advance ─┤ one transaction a round
                  claim ─┤
                  start ─┘──► committed ──► hand-outs to the executors, held events to the listeners
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import shutil
import socket
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from calsched.clock import Clock, to_rfc3339
from calsched.errors import CalschedError, Fenced, OwnedElsewhere, StoreUnusable
from calsched.model import Claimed, Failure, Outcome
from calsched.runtime.callables import ALLOW_ALL, AllowList, load
from calsched.runtime.flights import Flights
from calsched.runtime.narrate import Narrator
from calsched.runtime.runner import Report, end, receipt, tell, timeout_failure
from calsched.runtime.trouble import Health, Trouble
from calsched.runtime.work import Prepared, Work, describe, forget_flag

if TYPE_CHECKING:
    from calsched.stores.engine import Store

log = logging.getLogger("calsched.pump")

ENDED, BACK, REFUSED = "ended", "back", "refused"
#: A round that takes longer than this waits for a lock, or for a network that swallows everything (milliseconds).
STALLED = 3_000


class Port(Protocol):
    """The scheduler's side: executors, and where things that happened go. Nothing here may block or raise."""

    def open(self) -> bool:
        """Whether new work may start: the scheduler runs and is not paused."""

    def seats(self) -> Mapping[str, Any]:
        """The executors there are, hooked, as ``Seat`` by alias."""

    def deliver(self, works: list[Work]) -> None:
        """Started work, to be handed to its executors."""

    def settled(self, works: list[Work]) -> None:
        """Outcomes have committed: their events may go out."""

    def advanced(self, schedules: Sequence[Any]) -> None:
        """Ticks have committed (``stores.advance.Advanced``)."""

    def paused(self) -> None:
        """Seen not to be open."""

    def withdraw(self) -> list[Work]:
        """Delivered work that nobody has fetched; nobody will."""

    def close(self) -> None:
        """The pump has ended."""

    def timed_out(self, work: Work) -> None:
        """A thread did not end in its time; it goes on, and its outcome is about to be recorded."""


class Observer(Protocol):
    """Is told what has committed. May neither block nor raise."""

    def started(self, works: Sequence[Work]) -> None: ...
    def ended(self, works: Sequence[Work], report: Any) -> None: ...
    def advanced(self, schedules: Sequence[Any]) -> None: ...


@dataclass(frozen=True)
class Settings:
    """How an owner behaves. Times in seconds."""

    name: str = ""
    poll_interval: float = 1.0
    lease: float = 30.0
    standby: bool = False
    schedule_batch: int = 100
    occurrence_batch: int = 100
    allow: AllowList = ALLOW_ALL
    workspaces: str | None = None
    clock_tolerance: float = 5.0
    default_zone: str | None = None


class Round(NamedTuple):
    """What one transaction did, to be taken into memory after its commit."""

    finished: list[Work]
    returned: list[Work]
    advanced: Any
    begun: list[Work]
    chosen: list[Work]
    moved: set[int]
    report: Any
    now: int


class Pump:
    """One owner, or standby, of one store. Its job store calls ``start`` and ``begin_stop``; the rest is a thread."""

    def __init__(self, store: Store, port: Port, settings: Settings) -> None:
        from calsched.runtime.verbs import Verbs

        self.store = store
        self.port = port
        self.settings = settings
        self.clock: Clock = store.clock
        self.name = settings.name or f"{socket.gethostname()}:{os.getpid()}"
        self.verbs = Verbs(store, settings, self.name)
        self.workspaces = settings.workspaces
        self.installation = ""
        self.role = "new"  # standby, owner, stopping, stopped
        self.stopping = False
        self.left_running = 0  # tasks that had not ended when the limit of a stop was over
        self.stop_at: int | None = None  # monotonic: when running work is given up
        self.flights = Flights(alone=store.dialect == "sqlite")
        self.trouble = Trouble(self.clock, store.url_shown)
        self.inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.done = threading.Event()
        self.owned = threading.Event()
        self._offset = 0
        self._lease_until = 1 << 62
        self._outcomes: list[Work] = []
        self._returns: list[Work] = []
        self._prepared: dict[int, Prepared] = {}
        self._loaded: dict[str, Any] = {}
        self._detached: dict[int, Work] = {}
        self._free: set[int] = set()  # schedules whose timed-out thread has ended
        self._limited: dict[int, Work] = {}
        self._next_due: int | None = 0
        self._next_run: int | None = None
        self._dry: set[str] = set()  # executors for which the last claim found nothing more
        self._on_hold = False
        self._clock_at = 0
        self._stage = ""
        self._advance_at = 0  # monotonic: after a tick that failed
        self._claim_at = 0
        self._poll_at = 0
        self._beat_at = 0
        self._change: int | None = None
        self._asked_at: int | None = None  # monotonic: since when a round is under way
        self._uncertain = False
        self._flags: str | None = None
        self._abstain: dict[int, int] = {}
        self._narrator = Narrator()
        self.observers: list[Observer] = []  # told what has committed, in the pump's thread
        self._thread: threading.Thread | None = None
        self._listener: Any = None

    # --- the recorder: called by workers ------------------------------------------------------------------------------

    def wall(self) -> int:
        return self.clock.now() + self._offset

    def admits(self, work: Work) -> bool:
        if self.stopping or work.given_back or work.outcome is not None:
            return False
        return self.clock.monotonic() < self._lease_until and self.port.open()

    def record(self, work: Work, outcome: Outcome) -> None:
        with self.lock:
            if work.outcome is None:
                work.outcome = outcome
                message: Any = work
            else:  # the pump has recorded a timeout or a stop already
                message = (ENDED, work)
        self.inbox.put(message)

    def give_back(self, work: Work) -> None:
        work.given_back = True
        self.inbox.put((BACK, work))

    def executor_reports(self, work: Work, events: list[Any]) -> None:
        if work.given_back or work.detached:
            return
        if events and isinstance(events[0].retval, Report):
            events = self._bring_home(work, events)
        elif work.outcome is None and events:
            self._record_from_event(work, events[0])
        with self.lock:
            work.events = events
            settled = work.settled
        if settled:
            self.port.settled([work])

    def _bring_home(self, work: Work, events: list[Any]) -> list[Any]:
        from calsched.runtime.executors import event_for

        report: Report = events[0].retval
        c = work.claimed
        self.record(
            work,
            Outcome(
                c.occurrence, c.attempt, report.state, self.wall(), report.elapsed, report.result, report.failure,
                clean_stop=report.clean_stop,
            ),
        )  # fmt: skip
        old = events[0]
        return [event_for(report, str(old.job_id), old.jobstore, old.scheduled_run_time)]

    def _record_from_event(self, work: Work, event: Any) -> None:
        """The worker's form did not report (a child that could not even load the hand-out)."""
        exc = event.exception
        if exc is None:
            tell(work, end(work, "succeeded"))
        elif isinstance(exc, asyncio.CancelledError | CancelledError | GeneratorExit):
            self.executor_fails(work, exc)
        else:
            tell(work, end(work, "failed", None, describe(exc, event.traceback or "")))

    def executor_fails(self, work: Work, exc: BaseException) -> None:
        if work.given_back or work.outcome is not None:
            return
        cancelled = isinstance(exc, asyncio.CancelledError | CancelledError)
        if work.began is None and (work.seat.kind != "process" or cancelled):
            self.give_back(work)
        elif not cancelled:  # else its thread goes on, and reports when it ends
            tell(work, end(work, "interrupted", None, describe(exc)))

    def submission_failed(self, work: Work) -> None:
        """The core could not hand it to its executor."""
        work.given_back = True
        self.inbox.put((REFUSED, work))

    # --- control: called by the job store -----------------------------------------------------------------------------

    def start(self) -> None:
        """Own the store, or begin to stand by. Raises OwnedElsewhere, and StoreUnusable errors."""
        self.store.open()
        self.installation = self.store.installation
        if self.verbs.acquire():
            self._become_owner()
        elif self.settings.standby:
            self.role = "standby"
            log.info("%s: standing by; %s owns %s", self.name, self.verbs.holder(), self.store.url_shown)
        else:
            raise OwnedElsewhere(*self.verbs.owner(), self.store.url_shown)
        self._thread = threading.Thread(target=self._run, name=f"calsched-pump-{self.name}", daemon=True)
        self._thread.start()

    def kick(self) -> None:
        """Look at the store now: something was changed."""
        self.inbox.put(None)

    def begin_stop(self, limit: float | None = None) -> None:
        """Start nothing more, ask running tasks to stop, and end when they have (or after ``limit`` seconds)."""
        if limit is not None:
            self.stop_at = self.clock.monotonic() + int(limit * 1000)
        self.stopping = True
        self.inbox.put(None)

    def join(self, timeout: float | None = None) -> bool:
        return self.done.wait(timeout)

    def busy(self) -> bool:
        """Whether a task runs that a worker has begun."""
        return any(work.began is not None and work.outcome is None for work in list(self.flights.works.values()))

    def health(self) -> Health:
        """Not healthy while the store fails, and while it does not answer at all."""
        known, since = self.trouble.health(self.role), self._asked_at
        waits = 0 if since is None else self.clock.monotonic() - since
        if not known.healthy or waits < STALLED:
            return known
        began = self.clock.now() - waits
        return Health(False, self.role, began, f"the store has not answered since {to_rfc3339(began)}")

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self.role != "stopped":
                self._round()
        except BaseException:
            log.critical("%s: the pump ended by a fault of its own", self.name, exc_info=True)
            raise
        finally:
            self.verbs.release()
            self.done.set()

    def _round(self) -> None:
        self._read_inbox()
        self._asked_at = self.clock.monotonic()
        try:
            self._act()
        except Exception as exc:
            self._uncertain = True
            self.trouble.met(exc)
        finally:
            self._asked_at = None

    def _act(self) -> None:
        try:
            if self.role == "standby":
                self._stand_by()
            else:
                self._own()
        except Fenced:
            self._fenced()

    def _read_inbox(self) -> None:
        messages = [self._wait()]
        with_more = self.inbox.get_nowait
        try:
            while len(messages) < 2_000:
                messages.append(with_more())
        except queue.Empty:
            pass
        ended: list[Work] = []
        for message in messages:
            if type(message) is Work:
                ended.append(message)
            elif type(message) is tuple:
                self._news(*message)
            elif message is None:
                self._kicked()
        if ended:
            self._outcomes += ended
            self.flights.ended(ended, self.clock.monotonic())

    def _wait(self) -> Any:
        if self.trouble.present:
            threading.Event().wait(self.trouble.pause())
        seconds = self._seconds_to_wait()
        try:
            return self.inbox.get(timeout=seconds) if seconds > 0 else self.inbox.get_nowait()
        except queue.Empty:
            return ""

    def _seconds_to_wait(self) -> float:
        if self.role == "standby":
            return min(0.25, self.settings.poll_interval)
        if self._outcomes or self._returns or self._free or (self.stopping and not self.flights.works):
            return 0.0
        mono, wall = self.clock.monotonic(), self.wall()
        waits = [self.settings.poll_interval * 1000.0, self._beat_at - mono]
        if self.port.open() and not self.stopping:
            if self._wanted(mono):
                return 0.0
            if self._next_due is not None:
                waits.append(max(self._next_due - wall, self._advance_at - mono))
            if self._next_run is not None:
                waits.append(self._next_run - wall)
        # a task that has not begun has no limit yet: look again soon
        waits += [50.0 if w.limit_at is None else w.limit_at - mono for w in self._limited.values()]
        if self.stopping:
            waits.append(50.0)
        return max(0.0, min(waits)) / 1000

    def _news(self, kind: str, work: Work) -> None:
        if kind == ENDED:
            if self._detached.pop(work.claimed.occurrence, None) is not None:
                self._free.add(work.claimed.schedule)
            self._forget([work])
            return
        if kind == REFUSED and (berth := self.flights.berth_of(work)) is not None:
            berth.blocked_until = self.clock.monotonic() + 1_000
        self._returns.append(work)

    def _kicked(self) -> None:
        self._dry.clear()
        self._poll_at = 0
        self._change = None

    def _wanted(self, mono: int) -> dict[str, int]:
        """Room by executor, where a claim may find something."""
        if mono < self._claim_at:
            return {}
        wanted = self.flights.wanted(mono)
        return {alias: n for alias, n in wanted.items() if alias not in self._dry} if self._dry else wanted

    # --- standing by, owning ------------------------------------------------------------------------------------------

    def _stand_by(self) -> None:
        if self.stopping:
            self.role = "stopped"
        elif self.verbs.acquire():
            log.info("%s: taking over %s", self.name, self.store.url_shown)
            self._become_owner()

    def _become_owner(self) -> None:
        with self.store.write() as conn:
            now = self.store.now(conn)
            self.verbs.register(conn, now)
        self._offset = now - self.clock.now()
        self._beat(sent=self.clock.monotonic())
        self.role = "owner"
        self._change, self._next_due = None, 0
        self._dry.clear()
        self.owned.set()
        self._listen()

    def _listen(self) -> None:
        if self._listener is None:
            from calsched.runtime.wake import listener

            self._listener = listener(self.store, self.kick)

    def _beat(self, sent: int) -> None:
        self._beat_at = sent + int(self.settings.lease * 1000 / 3)
        if self.store.dialect != "sqlite":
            self._lease_until = sent + int(self.settings.lease * 1000 * 0.9)

    def _own(self) -> None:
        mono = self.clock.monotonic()
        if mono >= self._beat_at:
            self._heartbeat(mono)
        if self._uncertain:
            self._reconcile()
        self.flights.seat(self.port.seats(), mono)
        self._check_limits(mono)
        if self.stopping:
            self._wind_down(mono)
        if mono >= self._poll_at:
            self._poll(mono)
        self._transact(mono)
        if self.stopping and self._is_idle():
            self._leave()
        self.trouble.over()

    def _is_idle(self) -> bool:
        return not (self.flights.works or self._outcomes or self._returns or self._free)

    def _heartbeat(self, mono: int) -> None:
        with self.store.write() as conn:
            now = self.store.now(conn)
            alive = self.verbs.heartbeat(conn, now)
            if alive and not self.stopping:
                self.verbs.bury_the_dead(conn, now)
        self._offset = now - self.clock.now()
        if alive:
            self._beat(sent=mono)
        else:
            self._fenced()

    def _fenced(self) -> None:
        """Another owner has buried us. What runs here is evidence only; begin again under a new epoch."""
        log.warning("%s: this owner's lease was lost and taken over; what still runs is kept as evidence", self.name)
        stale = self.flights.stock() + self._returns
        self._returns = []
        self.flights.drop(stale)
        for work in self.flights.running():
            work.ask_to_stop("cancelled")
        self._become_owner()

    def _poll(self, mono: int) -> None:
        """Has another process changed something? On SQLite a cheap number tells; elsewhere we look."""
        self._poll_at = mono + int(self.settings.poll_interval * 1000)
        if self.store.dialect != "sqlite":
            with self.store.write() as conn:
                may_dispatch, _ = self.verbs.observe_clock(conn, self.store.now(conn))
            self._on_hold = not may_dispatch
        version = self.store.data_version()
        if version is not None and version == self._change and not self._on_hold:
            return
        self._change = version
        self._dry.clear()
        self._next_due = 0
        running = self.flights.running()
        if running and not self.stopping:
            with self.store.read() as conn:
                wished = self.verbs.cancel_wishes(conn)
            for work in running:
                if work.claimed.occurrence in wished:
                    work.ask_to_stop("cancelled")

    # --- one round ----------------------------------------------------------------------------------------------------

    def _transact(self, mono: int) -> None:
        open_ = self.port.open() and not self.stopping
        if not open_:
            self._hold_still()
        wall = self.wall()
        if self._next_run is not None and self._next_run <= wall:
            self._next_run = None
            self._dry.clear()
        wanted = self._wanted(mono) if open_ else {}
        due = open_ and self._next_due is not None and self._next_due <= wall and mono >= self._advance_at
        ready = open_ and bool(self.flights.next_to_start(mono))
        surplus = self.flights.excess(mono) if open_ else []
        if not (self._outcomes or self._returns or self._free or due or wanted or ready or surplus):
            return
        try:
            done = self._one_transaction(mono, wanted, due, surplus, open_)
        except Fenced:
            raise
        except Exception as exc:
            if not self._after_a_fault(exc, mono):
                raise
            self._uncertain = True
            return
        self._take_in(done, mono)

    def _hold_still(self) -> None:
        """The scheduler is paused, stopped, or its loop has closed: what has not begun is given back."""
        self.port.paused()
        idle = [work for work in self.flights.stock() + self.port.withdraw() if not work.given_back]
        for work in idle:
            work.given_back = True
        self._returns += idle

    def _one_transaction(
        self, mono: int, wanted: dict[str, int], due: bool, surplus: list[Work], open_: bool
    ) -> Round:
        verbs, flights = self.verbs, self.flights
        finished, returned = self._outcomes, self._returns + surplus
        advanced = report = None
        begun: list[Work] = []
        fresh: list[Work] = []
        with self.store.write() as conn:
            now = self.store.now(conn)
            if finished:
                self._stage = "finish"
                report = verbs.finish(conn, now, finished)
            if returned:
                verbs.give_back(conn, now, [work.claimed.occurrence for work in returned])
            if self._free:
                verbs.let_go(conn, self._free)
            may_dispatch = True
            if due or wanted:
                effective = now
                # on servers at each poll: the clock's row would make owners queue up
                if self.store.dialect == "sqlite" and (due or mono >= self._clock_at):
                    may_dispatch, effective = verbs.observe_clock(conn, now)
                    self._on_hold = not may_dispatch
                    self._clock_at = mono + 250
                else:
                    may_dispatch = not self._on_hold
                if due:
                    self._stage = "advance"
                    advanced = verbs.advance(conn, effective)
                    if advanced.failed:
                        self._pause_unloadable(conn, advanced.failed, now)
                    if advanced.schedules:
                        self._dry.clear()
                        wanted = self._wanted(mono)
                self._stage = "claim"
                if may_dispatch and wanted:
                    direct, ahead = flights.split(wanted)
                    begun = self._claim(conn, now, direct, starting=True) if direct else []
                    fresh = self._claim(conn, now, ahead, starting=False) if ahead else []
                elif wanted:
                    self._dry.update(wanted)
            self._stage = "start"
            strays = flights.add(fresh)
            if strays:
                verbs.give_back(conn, now, [work.claimed.occurrence for work in strays])
            chosen = flights.next_to_start(mono) if open_ and may_dispatch else []
            moved: set[int] = set()
            if chosen:
                moved = verbs.start(conn, now, [work.claimed.occurrence for work in chosen])
        return Round(finished, returned, advanced, begun, chosen, moved, report, now)

    def _claim(self, conn: Any, now: int, wanted: Mapping[str, int], *, starting: bool) -> list[Work]:
        if self._abstain:
            self._abstain = {pk: until for pk, until in self._abstain.items() if until > now}
        claimed = self.verbs.claim(conn, now, wanted, self._abstain, starting=starting)
        works = []
        for one in claimed:
            prepared = self._prepared.get(one.revision_pk)
            if prepared is None:
                prepared = self._prepare(conn, one, now)
            if prepared is not None:
                works.append(Work(one, prepared, self))
        found = Counter(work.prepared.executor for work in works)
        self._dry.update(alias for alias, room in wanted.items() if found[alias] < room)
        if len(claimed) < sum(wanted.values()):
            self._next_run = self.verbs.next_run_at(conn)
        return works

    def _prepare(self, conn: Any, claimed: Claimed, now: int) -> Prepared | None:
        try:
            prepared = Prepared(self.verbs.definition(conn, claimed), self.settings.allow, self._load)
        except CalschedError as exc:
            self._unloadable(conn, claimed, exc, now)
            return None
        if len(self._prepared) > 20_000:
            self._prepared.clear()
        self._prepared[claimed.revision_pk] = prepared
        return prepared

    def _load(self, ref: str, allow: AllowList, path: str = "callable") -> Any:
        """Many schedules call one function: it is looked up once."""
        found = self._loaded.get(ref)
        if found is None:
            found = self._loaded[ref] = load(ref, allow, path)
        return found

    def _unloadable(self, conn: Any, claimed: Claimed, exc: CalschedError, now: int) -> None:
        """Pause the schedule where no other owner could load it; else leave it to them for a while."""
        problem = str(exc)
        self.verbs.give_back(conn, now, [claimed.occurrence])
        if self.verbs.is_only_owner(conn, now):
            self.verbs.pause_invalid(conn, claimed.schedule, problem, now)
            log.error("%s: paused, because its task cannot be loaded: %s", claimed.schedule_id, problem)
        elif claimed.schedule not in self._abstain:
            log.warning("%s: left to other owners, because its task cannot be loaded here: %s",
                        claimed.schedule_id, problem)  # fmt: skip
        self._abstain[claimed.schedule] = now + 60_000

    def _after_a_fault(self, exc: Exception, mono: int) -> bool:
        """A verb that fails while the store answers must not keep the others from their work. False: an outage."""
        if isinstance(exc, StoreUnusable) or not self._store_answers():
            return False
        pause = int(1000 * self.trouble.fault(self._stage, exc))
        if self._stage == "advance":
            self._advance_at = mono + pause
        elif self._stage in ("claim", "start"):
            self._claim_at = mono + pause
        self._sift_outcomes()
        return True

    def _store_answers(self) -> bool:
        try:
            with self.store.read() as conn:
                self.store.now(conn)
        except Exception:
            return False
        return True

    def _pause_unloadable(self, conn: Any, failed: Sequence[Any], now: int) -> None:
        for one in failed:
            if one.unloadable and self.verbs.is_only_owner(conn, now):
                self.verbs.pause_invalid(conn, one.schedule_pk, one.error, now)
                log.error("%s: paused, because its definition cannot be loaded: %s", one.id, one.error)

    def _take_in(self, done: Round, mono: int) -> None:
        self._outcomes = []
        self._returns = []
        if self._free:
            self._free.clear()
            self._dry.clear()
        if done.returned:
            self.flights.ended(done.returned, mono)
            self.flights.drop(done.returned)
        if done.advanced is not None:
            self._next_due = 0 if done.advanced.more else done.advanced.next_due
            if done.advanced.schedules:
                self.port.advanced(done.advanced.schedules)
                for observer in self._observing():
                    observer.advanced(done.advanced.schedules)
        self.flights.begun(done.begun)
        go = done.begun + self.flights.started(done.chosen, done.moved)
        if go:
            self._hand_over(go)
        if done.finished:
            self._settle(done.finished, done.report)

    def _hand_over(self, works: list[Work]) -> None:
        for work in works:
            if work.prepared.limited or work.claimed.deadline is not None:
                self._limited[work.claimed.occurrence] = work
            if work.seat.kind == "process":
                work.flag_path = self._flag_path(work)
        self.port.deliver(works)
        for observer in self._observing():
            observer.started(works)

    def _observing(self) -> list[Observer]:
        return [*self.observers, self._narrator] if self._narrator.listens else self.observers

    def _flag_path(self, work: Work) -> str:
        if self._flags is None:
            self._flags = tempfile.mkdtemp(prefix="calsched-")
        return os.path.join(self._flags, f"{work.claimed.occurrence}-{work.claimed.attempt}")

    def _settle(self, works: list[Work], report: Any) -> None:
        with self.lock:
            for work in works:
                work.settled = True
            told = [work for work in works if work.events is not None]
        self._forget([work for work in works if not work.detached])
        if report.promoted or report.retrying:
            self._dry.clear()
        if report.retrying:
            soonest = min(report.retrying.values())
            self._next_run = soonest if self._next_run is None else min(self._next_run, soonest)
        if told:
            self.port.settled(told)
        for observer in self._observing():
            observer.ended(works, report)

    def _forget(self, works: list[Work]) -> None:
        self.flights.forget(works)
        for work in works:
            if self._limited:
                self._limited.pop(work.claimed.occurrence, None)
            if work.flag_path is not None:
                forget_flag(work)
        self.flights.ended(works, self.clock.monotonic())

    # --- when something is wrong --------------------------------------------------------------------------------------

    def _reconcile(self) -> None:
        """After a transaction whose end is unknown: what does the store say that we hold?"""
        with self.store.read() as conn:
            held = self.verbs.held(conn)
        known = self.flights.works
        waiting = {work.claimed.occurrence for work in self.flights.stock()}
        lost = [work for work in self.flights.stock() if work.claimed.occurrence not in held]
        self.flights.drop(lost)
        started = [w for w in self.flights.stock() if held.get(w.claimed.occurrence) == "running"]
        unknown = [pk for pk in held if pk not in known]
        if unknown or started:
            with self.store.write() as conn:
                now = self.store.now(conn)
                self.verbs.give_back(conn, now, [*unknown, *(w.claimed.occurrence for w in started)])
            self.flights.drop(started)
        self._uncertain = False
        self._next_due = 0
        self._dry.clear()
        if lost or started or unknown:
            log.info("%s: after the outage %d of %d claims were put right", self.name,
                     len(lost) + len(started) + len(unknown), len(waiting))  # fmt: skip

    def _sift_outcomes(self) -> None:
        """An outcome that the store refuses must not hold up the others: find it, and record it without its text."""
        for work in list(self._outcomes):
            if self._finish_alone(work) or self._finish_alone(work, bare=True):
                self._outcomes.remove(work)

    def _finish_alone(self, work: Work, *, bare: bool = False) -> bool:
        assert work.outcome is not None
        outcome = work.outcome
        if bare:
            failure = outcome.failure and Failure(outcome.failure.type[:100], "its message could not be stored")
            outcome = outcome._replace(result=None, failure=failure)
        try:
            with self.store.write() as conn:
                report = self.verbs.finish(conn, self.store.now(conn), [work], outcome)
        except Exception:
            log.debug("an outcome was refused by the store", exc_info=True)
            return False
        self._settle([work], report)
        return True

    def _check_limits(self, mono: int) -> None:
        for work in list(self._limited.values()):
            if work.limit_at is None or mono < work.limit_at + self._patience(work) or work.outcome is not None:
                continue
            outcome = end(work, "timed_out", None, timeout_failure(work))
            with self.lock:
                if work.outcome is not None:
                    continue
                work.outcome = outcome
                work.detached = True
            work.ask_to_stop("timeout")
            receipt(work, outcome)
            self._limited.pop(work.claimed.occurrence, None)
            self._detached[work.claimed.occurrence] = work
            self._outcomes.append(work)
            self.port.timed_out(work)

    @staticmethod
    def _patience(work: Work) -> int:
        """Children and coroutines stop themselves; only when they do not, the pump says so."""
        return {"process": 5_000, "asyncio": 5_000 if work.prepared.is_async else 0}.get(work.seat.kind, 0)

    # --- stopping -----------------------------------------------------------------------------------------------------

    def _wind_down(self, mono: int) -> None:
        running = self.flights.running()
        for work in running:
            if work.flag is None or work.flag.reason is None:
                work.ask_to_stop("stopping")
        if self.stop_at is None or mono < self.stop_at:
            return
        for work in running:
            self._interrupt(work)

    def _interrupt(self, work: Work) -> None:
        with self.lock:
            if work.outcome is not None:
                return
            failure = Failure("calsched.OwnerStopped", "the owner stopped in good order while the task ran")
            work.outcome = end(work, "interrupted", None, failure, clean_stop=True)
        receipt(work, work.outcome)
        self.left_running += 1
        self._outcomes.append(work)

    def _leave(self) -> None:
        with self.store.write() as conn:
            self.verbs.stop(conn, self.store.now(conn))
        self.role = "stopped"
        self.port.close()
        if self._listener is not None:
            self._listener.close()
        if self._flags is not None:
            shutil.rmtree(self._flags, ignore_errors=True)
