"""The claims that an owner holds, by executor: which wait, which a worker has, and what there is room for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from calsched.runtime.pace import Pace
from calsched.runtime.work import Work

#: Claims are fetched when the stock has fallen to this part of the look-ahead, so that they come in batches.
REFILL = 0.5


class Berth:
    """One executor's part: its seat, its stock, its pace."""

    __slots__ = ("blocked_until", "direct", "inner", "pace", "seat", "stock", "taken", "workers")

    def __init__(self, seat: Any, workers: int, now: int, *, direct: bool = False) -> None:
        self.seat = seat
        self.direct = direct  # claims are started in the same transaction; there is no stock
        self.workers = workers
        self.pace = Pace(now)
        self.stock: deque[Work] = deque()  # claimed, not started
        self.taken = 0  # started, not ended
        self.blocked_until = 0  # after a submission that failed
        self.inner: Berth | None = None  # asyncio: plain functions, in the loop's thread pool

    def holds(self) -> int:
        return self.workers if self.seat.kind != "thread" else self.pace.window(self.workers)

    def room(self, now: int) -> int:
        """How many more to claim."""
        if now < self.blocked_until:
            return 0
        if self.direct:
            return max(0, self.holds() - self.taken - len(self.stock))
        ahead = self.pace.look_ahead(now)
        stock, taken = len(self.stock), self.taken
        if self.inner is not None:
            stock, taken = stock + len(self.inner.stock), taken + self.inner.taken
        free = max(0, self.holds() - taken)
        if stock > free + ahead * REFILL:
            return 0
        return max(0, free + ahead - stock)

    def startable(self, now: int) -> int:
        return 0 if now < self.blocked_until else max(0, self.holds() - self.taken)


class Flights:
    """All claims of one owner. Used by the pump's thread only."""

    def __init__(self, *, alone: bool = False) -> None:
        """``alone``: no other owner could take what this one leaves, so nothing is claimed ahead of its start."""
        self.alone = alone
        self.berths: dict[str, Berth] = {}
        self.works: dict[int, Work] = {}

    def seat(self, seats: Mapping[str, Any], now: int) -> None:
        """The executors that there are at the moment."""
        for alias, seat in seats.items():
            berth = self.berths.get(alias)
            if berth is None or berth.seat is not seat:
                direct = self.alone and seat.kind != "asyncio"
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

    def split(self, wanted: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
        """Room that is claimed and started at once, and room that is claimed for the stock."""
        direct = {alias: n for alias, n in wanted.items() if self.berths[alias].direct}
        return direct, {alias: n for alias, n in wanted.items() if alias not in direct}

    def begun(self, works: Iterable[Work]) -> None:
        """Claims that were started in the transaction that claimed them."""
        for work in works:
            berth = self.berths[work.prepared.executor]
            work.seat = berth.seat
            work.released = False
            berth.taken += 1
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

    def started(self, chosen: list[Work], moved: set[int]) -> list[Work]:
        """Those that really moved to running take a seat; the others are no longer ours."""
        go = []
        for work in chosen:
            berth = self.berth_of(work)
            assert berth is not None
            berth.stock.popleft()
            pk = work.claimed.occurrence
            if pk in moved:
                berth.taken += 1
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

    def forget(self, works: Iterable[Work]) -> None:
        for work in works:
            if self.works.get(work.claimed.occurrence) is work:
                del self.works[work.claimed.occurrence]

    def excess(self, now: int) -> list[Work]:
        """Claims in stock that this owner will not start soon: the pace has dropped since they were fetched."""
        out: list[Work] = []
        for berth in self._all():
            keep = berth.startable(now) + 2 * berth.pace.look_ahead(now)
            surplus = len(berth.stock) - keep
            if surplus > max(2, keep // 4):
                out += [berth.stock[-1 - i] for i in range(surplus)]
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
