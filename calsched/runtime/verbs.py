"""The verbs of the store as one owner speaks them: with its epoch, its lock, and what it has seen of other owners."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calsched.model import Claimed, Definition, Outcome, Unread

if TYPE_CHECKING:
    from calsched.runtime.pump import Settings
    from calsched.runtime.work import Work
    from calsched.stores.engine import Store

#: While there is room for more, so many batches of schedules are advanced as one.
BATCHES = 4


def _version() -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("apscheduler-calsched")
    except PackageNotFoundError:
        return None


class Verbs:
    """One owner's side of the store. The pump's thread alone uses it, but for ``owner`` and ``holder``."""

    def __init__(self, store: Store, settings: Settings, name: str) -> None:
        self.store, self.settings, self.name = store, settings, name
        self.epoch = 0
        self._lock: Any = None
        self._lease = int(settings.lease * 1000)
        self._watched: dict[int, tuple[int, int]] = {}  # epoch -> its last heartbeat, and since when it stands still
        self._load()

    def _load(self) -> None:
        from calsched.stores import advance, claim, express, finish, recover, sweep
        from calsched.stores.tables import owned

        self._advance, self._claim, self._finish, self._recover = advance, claim, finish, recover
        self._owned, self._express, self._sweep = owned, express, sweep
        self._boot_id = recover.boot_id()

    # --- ownership ----------------------------------------------------------------------------------------------------

    def acquire(self) -> bool:
        """Take the lock of a SQLite file; on servers every owner may come in."""
        if self.store.path is None:
            return True
        from calsched.errors import OwnedElsewhere
        from calsched.stores.lock import OwnerLock

        if self._lock is None:
            self._lock = OwnerLock(self.store.path, self.name)
        try:
            self._lock.acquire()
        except OwnedElsewhere:
            return False
        return True

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def forget_lock(self) -> None:
        """In a forked child: the parent keeps the lock, the child must not keep its copy open."""
        if self._lock is not None:
            self._lock.release()

    def owner(self) -> tuple[str, int | None]:
        from calsched.stores.lock import holder

        found = holder(self.store.path) if self.store.path is not None else None
        return found or ("another process", None)

    def holder(self) -> str:
        name, pid = self.owner()
        return name if pid is None else f"{name} (pid {pid})"

    def register(self, conn: Any, now: int) -> list[Any]:
        """What the owner before this one was running, where it died."""
        lost: list[Any] = []
        self.epoch = self._recover.register_owner(
            self.store, conn, self.name, socket.gethostname(), os.getpid(), now, self._lease, version=_version(),
            lost=lost,
        )  # fmt: skip
        return lost

    def heartbeat(self, conn: Any, now: int) -> bool:
        return bool(self._recover.heartbeat(self.store, conn, self.epoch, now, self._lease))

    def bury_the_dead(self, conn: Any, now: int) -> tuple[list[int], list[Any]]:
        """Take over from owners whose heartbeat has been seen to stand still for one whole lease: which, and what they
        were running."""
        if self.store.dialect == "sqlite":
            return [], []
        mono = self.store.clock.monotonic()
        seen: dict[int, int] = self._recover.heartbeats(self.store, conn)
        seen.pop(self.epoch, None)
        watched = self._watched
        self._watched = {
            epoch: watched[epoch] if epoch in watched and watched[epoch][0] == beat else (beat, mono)
            for epoch, beat in seen.items()
        }
        still = {epoch: beat for epoch, (beat, since) in self._watched.items() if mono - since >= self._lease}
        lost: list[Any] = []
        dead = self._recover.take_over(self.store, conn, now, still, lost) if still else []
        return dead, lost

    def stop(self, conn: Any, now: int) -> None:
        self._recover.stop_owner(self.store, conn, self.epoch, now)

    def is_only_owner(self, conn: Any, now: int) -> bool:
        return self.store.dialect == "sqlite" or self._owned.live_owners(conn, self.store, now) <= 1

    # --- work ---------------------------------------------------------------------------------------------------------

    def observe_clock(self, conn: Any, now: int) -> tuple[str | None, int]:
        """The hold on dispatch where there is one, and the instant that due slots are judged by."""
        seen = self._recover.observe_clock(
            self.store, conn, now, self.store.clock.boot_time(), self._boot_id,
            int(self.settings.clock_tolerance * 1000),
        )  # fmt: skip
        return seen.hold, seen.now

    def gate(self, conn: Any) -> bool:
        """Whether this owner may begin work in this transaction. Raises Fenced."""
        return bool(self._claim.gate(self.store, conn, self.epoch))

    def express(self, rooms: Mapping[str, int], abstain: Collection[int]) -> Any:
        """What may be started where it is planned."""
        return self._express.Express(self.epoch, rooms, abstain)

    def advance(self, conn: Any, now: int, express: Any = None, room: int = 0) -> Any:
        """A batch of schedules; a larger one while there is room for what they make."""
        batch = self.settings.schedule_batch
        return self._advance.advance(
            self.store,
            conn,
            now,
            schedule_batch=min(max(batch, room), BATCHES * batch),
            occurrence_batch=self.settings.occurrence_batch,
            express=express,
        )

    def claim(
        self,
        conn: Any,
        now: int,
        rooms: Mapping[str, int],
        abstain: Collection[int],
        *,
        starting: bool,
        unread: list[Unread],
    ) -> list[Claimed]:
        """The caller has passed ``gate`` in this transaction."""
        out: list[Claimed] = self._claim.claim(
            self.store,
            conn,
            epoch=self.epoch,
            now=now,
            limit=sum(rooms.values()),
            executors=rooms,
            exclude=abstain,
            starting=starting,
            gated=True,
            unread=unread,
        )
        return out

    def start(self, conn: Any, now: int, pks: Sequence[int]) -> set[int]:
        return set(self._claim.start(self.store, conn, epoch=self.epoch, now=now, pks=pks))

    def give_back(self, conn: Any, now: int, pks: Sequence[int]) -> None:
        self._claim.give_back(self.store, conn, epoch=self.epoch, pks=pks, now=now, not_started=True)

    def next_run_at(self, conn: Any, now: int) -> int | None:
        at: int | None = self._claim.next_run_at(self.store, conn, now)
        return at

    def next_limit(self, conn: Any, now: int) -> int | None:
        at: int | None = self._sweep.next_limit(self.store, conn, now)
        return at

    def finish(self, conn: Any, now: int, works: Sequence[Work], instead: Outcome | None = None) -> Any:
        """Commit how attempts ended; ``instead`` stands for the outcome of a single work."""
        outcomes: list[Outcome] = [work.outcome for work in works if work.outcome is not None]
        lingering = [work.claimed.occurrence for work in works if work.detached]
        return self._finish.finish(
            self.store,
            conn,
            epoch=self.epoch,
            now=now,
            outcomes=outcomes if instead is None else [instead],
            lingering=lingering,
        )

    def let_go(self, conn: Any, schedules: Collection[int]) -> None:
        """Threads that had timed out have ended."""
        self._finish.let_go(self.store, conn, epoch=self.epoch, schedules_=schedules)

    def definition(self, conn: Any, claimed: Claimed) -> Definition:
        """Raises CalschedError where the stored revision cannot be read."""
        definition: Definition = self.store.compiled.get(conn, claimed.revision_pk).definition
        return definition

    def unserved(self, conn: Any, now: int, executors: Collection[str]) -> list[tuple[str, str, str]]:
        return self._owned.unserved(conn, self.store, now, executors)

    def pause_invalid(self, conn: Any, schedule_pk: int, problem: str, now: int) -> bool:
        """False where it has left the state that it was found in."""
        return self._recover.pause_invalid(self.store, conn, schedule_pk, problem, now)

    def held(self, conn: Any) -> dict[int, str]:
        return self._owned.held(conn, self.store, self.epoch)

    def cancel_wishes(self, conn: Any) -> set[int]:
        return self._owned.cancel_wishes(conn, self.store, self.epoch)
