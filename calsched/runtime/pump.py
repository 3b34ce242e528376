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

import math
import queue
import shutil
import threading
import time
from typing import Any

from calsched import logs
from calsched.clock import to_rfc3339
from calsched.errors import Fenced, OwnedElsewhere
from calsched.runtime.mending import Mending
from calsched.runtime.parts import Observer, Port, Settings
from calsched.runtime.recorder import ENDED, REFUSED
from calsched.runtime.trouble import Health
from calsched.runtime.work import Work

__all__ = ["Health", "Observer", "Port", "Pump", "Settings"]

log = logs.get("calsched.pump")

#: A round that takes longer than this waits for a lock, or for a network that swallows everything (milliseconds).
STALLED = 3_000
#: How often a round waits another millisecond for the outcomes of tasks that take no time at all.
LINGER = 3


class Pump(Mending):
    """One owner, or standby, of one store. Its job store calls ``start`` and ``begin_stop``; the rest is a thread."""

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
        """Start nothing more, ask running tasks to stop, and end when they have (or after ``limit`` seconds).

        Called again, it may shorten the limit and never lengthens it: a signal handler calls it at any point of a stop.
        """
        if limit is not None:
            self.stops.append(self.clock.monotonic() + int(limit * 1000))
        self.stopping = True
        self.inbox.put(None)

    def join(self, timeout: float | None = None) -> bool:
        """Whether it has ended, ``timeout`` seconds from now at the latest.

        In short waits: the handler of a signal that came just before a wait runs when that wait is over.
        """
        left = math.inf if timeout is None else timeout
        while not self.done.wait(min(left, 0.25)) and left > 0:
            left -= 0.25
        return self.done.is_set()

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
            self.port.close()
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
        self._read([self._wait()])
        for _ in range(LINGER):
            if not (self._outcomes and self.flights.is_flowing(self.clock.monotonic())):
                break
            time.sleep(0.001)
            self._read([])

    def _read(self, messages: list[Any]) -> None:
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
                waits.append(max(self._next_due - wall, self._advance_at - mono, self._moment(mono)))
            waits += [at - wall for at in (self._next_run, self._next_limit) if at is not None]
        # a task that has not begun has no limit yet: look again soon
        waits += [50.0 if w.limit_at is None else w.limit_at - mono for w in self._limited.values()]
        if self.stopping:
            waits.append(50.0)
        return max(0.0, min(waits)) / 1000

    def _moment(self, mono: int) -> int:
        """What is due waits for a few milliseconds where workers are about to be free, and then starts at once."""
        return 5 if self.flights.is_flowing(mono) else 0

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
            lost = self.verbs.register(conn, now)
        self._narrator.cut_off(lost)
        self._offset = now - self._ticks()
        self._beat(sent=self.clock.monotonic())
        self.role = "owner"
        self._change, self._next_due, self._limits_known = None, 0, False
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
        if not self._limits_known and not self.stopping and self._seconds_to_wait() > 0:
            self._learn_limit()
        if self.stopping and self._is_idle():
            self._leave()
        if not (self.stopping and self.trouble.is_lost):
            self.trouble.over()

    def _learn_limit(self) -> None:
        """Before it rests: work that waits ends at its deadline or its expiry, and not when somebody looks."""
        with self.store.read() as conn:
            self._next_limit = self.verbs.next_limit(conn, self.store.now(conn))
        self._limits_known = True

    def _is_idle(self) -> bool:
        return not (self.flights.works or self._outcomes or self._returns or self._free)

    def _heartbeat(self, mono: int) -> None:
        with self.store.write() as conn:
            now = self.store.now(conn)
            alive = self.verbs.heartbeat(conn, now)
            dead, lost = self.verbs.bury_the_dead(conn, now) if alive and not self.stopping else ([], [])
            if alive and not self.stopping:
                self._look_for_strays(conn, now)
        for epoch in dead:
            log.warning("%s: took over what owner %d left behind", self.name, epoch)
        self._narrator.cut_off(lost)
        self._offset = now - self._ticks()
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
            # a worker that has it in its queue must not begin
            if work.began is None and work.seat.kind != "process" and work.take():
                work.given_back = True
                self._returns.append(work)
            work.ask_to_stop("cancelled")
        self._become_owner()

    def _poll(self, mono: int) -> None:
        """Has another process changed something? On SQLite a cheap number tells; elsewhere we look."""
        self._poll_at = mono + int(self.settings.poll_interval * 1000)
        if self.store.dialect != "sqlite":
            with self.store.write() as conn:
                hold, _ = self.verbs.observe_clock(conn, self.store.now(conn))
            self._may_dispatch(hold)
        version = self.store.data_version()
        if version is not None and version == self._change and self.hold is None:
            return
        self._change = version
        self._dry.clear()
        self._next_due, self._limits_known = 0, False
        running = self.flights.running()
        if running and not self.stopping:
            with self.store.read() as conn:
                wished = self.verbs.cancel_wishes(conn)
            for work in running:
                if work.claimed.occurrence in wished:
                    work.ask_to_stop("cancelled")

    def _leave(self) -> None:
        with self.store.write() as conn:
            self.verbs.stop(conn, self.store.now(conn))
        self.role = "stopped"
        if self._listener is not None:
            self._listener.close()
        if self._flags is not None:
            shutil.rmtree(self._flags, ignore_errors=True)
