"""The claims that an owner holds, by executor: which wait, which a worker has, and what there is room for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from calsched.runtime.pace import Pace
from calsched.runtime.work import Work

#: Claims are fetched when the stock has fallen to this part of the look-ahead, so that they come in batches.
REFILL = 0.5
#: Started work that no worker has begun is withdrawn when its executor has finished nothing for so long (ms).
PATIENCE = 1_000
#: A window of which half is under way still after so long (ms) was too wide.
SLOW = 100


class Berth:
    """One executor's part: its seat, its stock, its pace."""

    __slots__ = (
        "blocked_until",
        "bound_until",
        "direct",
        "ended_at",
        "inner",
        "pace",
        "seat",
        "started_at",
        "stock",
        "taken",
        "together",
        "workers",
    )

    def __init__(self, seat: Any, workers: int, now: int, *, direct: bool = False) -> None:
        self.seat = seat
        self.direct = direct  # claims are started in the same transaction; there is no stock
        self.workers = workers
        self.pace = Pace(now)
        self.stock: deque[Work] = deque()  # claimed, not started
        self.taken = 0  # started, not ended
        self.started_at = self.ended_at = now  # when something was, the last time
        self.together = 0  # how many were started then
        self.blocked_until = 0  # after a submission that failed
        self.inner: Berth | None = None  # asyncio: plain functions, in the loop's thread pool
        self.bound_until = 0  # after claims that were plain functions, and more than the pool's threads can take

    def holds(self) -> int:
        return self.workers if self.seat.kind != "thread" else self.pace.window(self.workers)

    def room(self, now: int) -> int:
        """How many more to claim."""
        if now < self.blocked_until:
            return 0
        if self.direct:
            return max(0, self.free(now) - len(self.stock))
        ahead = self.pace.look_ahead(now)
        stock, taken = len(self.stock), self.taken
        if self.inner is not None:
            stock, taken = stock + len(self.inner.stock), taken + self.inner.taken
        free = self.free(now) if self.inner is None else max(0, self.holds() - taken)
        if stock > free + ahead * REFILL:
            return 0
        room = max(0, free + ahead - stock)
        if self.inner is not None and now < self.bound_until:  # a claim does not know what it will get
            return min(room, self.inner.room(now))
        return room

    def surplus(self, now: int) -> list[Work]:
        """What of the stock will not be started soon, the newest claims."""
        keep = self.startable(now) + 2 * self.pace.look_ahead(now)
        n = len(self.stock) - keep
        return [self.stock[-1 - i] for i in range(n)] if n > max(2, keep // 4) else []

    def free(self, now: int) -> int:
        """Seats to fill. A wide window is filled by halves: workers have one while the other is committed."""
        window = self.holds()
        room = max(0, window - self.taken)
        if not self._is_wide(window):
            return room
        return 0 if self.is_flowing(now) else min(room, window // 2)

    def _is_wide(self, window: int) -> bool:
        return window > 2 * self.workers

    def is_flowing(self, now: int) -> bool:
        """Tasks of no length, and plenty of them under way."""
        window = self.holds()
        return self._is_wide(window) and 2 * self.taken > window and now - self.started_at <= SLOW

    def note_start(self, now: int) -> None:
        """One more is started."""
        self.together = self.together + 1 if now == self.started_at else 1
        self.started_at = now
        self.taken += 1

    def is_stuck(self, now: int) -> bool:
        return now - max(self.started_at, self.ended_at) > PATIENCE

    def note_end(self, n: int, now: int) -> None:
        """``n`` attempts were over; was there work enough for the workers?"""
        self.ended_at = now
        window, slow = self.holds(), now - self.started_at > SLOW
        left = self.taken - self.together  # of what was started before the last commit
        if 2 * left < self.workers and 2 * n >= window and not slow:
            self.pace.ran_dry(self.workers)
        elif 2 * self.taken > window and slow:
            self.pace.falls_behind()

    def startable(self, now: int) -> int:
        return 0 if now < self.blocked_until else self.free(now)


class Flights:
    """All claims of one owner. Used by the pump's thread only."""

    def __init__(self, *, ahead: bool = True) -> None:
        """``ahead``: claim for threads and processes before they have room, too. (For coroutines always.)"""
        self.ahead = ahead
        self.berths: dict[str, Berth] = {}
        self.works: dict[int, Work] = {}

    def seat(self, seats: Mapping[str, Any], now: int) -> None:
        """The executors that there are at the moment."""
        for alias, seat in seats.items():
            berth = self.berths.get(alias)
            if berth is None or berth.seat is not seat:
                direct = not self.ahead and seat.kind != "asyncio"
                self.berths[alias] = fresh = Berth(seat, seat.workers, now, direct=direct)
                if seat.kind == "asyncio":
                    fresh.inner = Berth(seat, seat.threads, now)
        for alias in [a for a in self.berths if a not in seats and not self.berths[a].stock]:
            del self.berths[alias]

    def wanted(self, now: int) -> dict[str, int]:
        """Room by executor; empty where nothing is wanted."""
        return {alias: room for alias, berth in self.berths.items() if (room := berth.room(now)) > 0}

    def berth_of(self, work: Work) -> Berth | None:
        berth = self.berths.get(work.prepared.executor)
        if berth is not None and berth.inner is not None and not work.prepared.is_async:
            return berth.inner
        return berth

    def is_direct(self, alias: str) -> bool:
        """Whether what is claimed for an executor is started at once."""
        return alias in self.berths and self.berths[alias].direct

    def split(self, wanted: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
        """Room that is claimed and started at once, and room that is claimed for the stock."""
        direct = {alias: n for alias, n in wanted.items() if self.berths[alias].direct}
        return direct, {alias: n for alias, n in wanted.items() if alias not in direct}

    def begun(self, works: Iterable[Work], now: int) -> None:
        """Claims that were started in the transaction that claimed them."""
        for work in works:
            berth = self.berths[work.prepared.executor]
            berth.note_start(now)
            work.seat = berth.seat
            work.released = False
            self.works[work.claimed.occurrence] = work

    def add(self, works: Iterable[Work]) -> list[Work]:
        """Put claims into stock; those whose executor has gone come back."""
        strays = []
        for work in works:
            berth = self.berth_of(work)
            if berth is None:
                strays.append(work)
                continue
            work.seat = berth.seat
            self.works[work.claimed.occurrence] = work
            berth.stock.append(work)
        return strays

    def next_to_start(self, now: int) -> list[Work]:
        """Claims to be started next, left in stock until ``started`` says that it has committed."""
        out: list[Work] = []
        for berth in self._all():
            n = min(len(berth.stock), berth.startable(now))
            if n == len(berth.stock):
                out += berth.stock
            elif n:
                stock = berth.stock
                out += [stock[i] for i in range(n)]
        return out

    def started(self, chosen: list[Work], moved: set[int], now: int) -> list[Work]:
        """Those that really moved to running take a seat; the others are no longer ours."""
        go = []
        for work in chosen:
            berth = self.berth_of(work)
            assert berth is not None
            berth.stock.popleft()
            pk = work.claimed.occurrence
            if pk in moved:
                berth.note_start(now)
                work.released = False
                go.append(work)
            else:
                self.works.pop(pk, None)
        return go

    def ended(self, works: list[Work], now: int) -> None:
        """Attempts that are over, or whose thread has ended at last: their seats are free."""
        sums: dict[int, tuple[Berth, int, int]] = {}
        for work in works:
            if work.released:
                continue
            work.released = True
            berth = self.berth_of(work)
            if berth is None or berth.seat is not work.seat:
                continue
            berth.taken -= 1
            if work.outcome is not None:
                _, n, elapsed = sums.get(id(berth), (berth, 0, 0))
                sums[id(berth)] = (berth, n + 1, elapsed + work.outcome.elapsed)
        for berth, n, elapsed in sums.values():
            berth.pace.finished(n, elapsed, now)
            berth.note_end(n, now)

    def forget(self, works: Iterable[Work]) -> None:
        for work in works:
            if self.works.get(work.claimed.occurrence) is work:
                del self.works[work.claimed.occurrence]

    def excess(self, now: int) -> list[Work]:
        """Claims in stock that this owner will not start soon: the pace has dropped since they were fetched.

        Or they are plain functions of an asyncio executor, whose threads are few. No more than these take are claimed
        for a while then, else the same ones would be claimed and given back in every round.
        """
        out: list[Work] = []
        for berth in self.berths.values():
            out += berth.surplus(now)
            plain = [] if berth.inner is None else berth.inner.surplus(now)
            if plain:
                berth.bound_until = now + PATIENCE
            out += plain
        return out

    def is_flowing(self, now: int) -> bool:
        """Whether more outcomes are about to come than anybody has read."""
        return any(berth.is_flowing(now) for berth in self._all())

    def withdraw(self, now: int) -> list[Work]:
        """Started work that waits in an executor behind tasks which take long: another worker could have it."""
        out: list[Work] = []
        for berth in self._all():
            if berth.seat.kind == "thread" and berth.taken > berth.workers and berth.is_stuck(now):
                berth.ended_at = now
                berth.pace.forget()
                idle = (work for work in self.works.values() if work.began is None and not work.released)
                out += [work for work in idle if self.berth_of(work) is berth and work.take()]
        return out

    def drop(self, works: list[Work]) -> None:
        """Claims that were given back from stock."""
        gone = set(map(id, works))
        for berth in self._all():
            if berth.stock:
                berth.stock = deque(work for work in berth.stock if id(work) not in gone)
        self.forget(works)

    def stock(self) -> list[Work]:
        return [work for berth in self._all() for work in berth.stock]

    def running(self) -> list[Work]:
        """Given to a worker, not ended."""
        waiting = set(map(id, self.stock()))
        return [work for work in self.works.values() if id(work) not in waiting]

    def woke(self, now: int) -> None:
        for berth in self._all():
            if not berth.taken:
                berth.pace.woke(now)

    def _all(self) -> list[Berth]:
        out = list(self.berths.values())
        out += [berth.inner for berth in out if berth.inner is not None]
        return out
