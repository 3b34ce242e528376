"""The owner of a virtual app: the inline owner, with stand-ins for callables and runs that take virtual time."""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Callable
from typing import Any

from calsched.errors import InvalidInput
from calsched.model import Outcome
from calsched.runtime.callables import ALLOW_ALL, AllowList, load, name_of
from calsched.runtime.inline import InlineOwner
from calsched.runtime.pump import Settings
from calsched.runtime.runner import end, timeout_failure
from calsched.runtime.work import Work
from calsched.stores.engine import Store

#: Where callables without a name of their own live, in the ledger of a test.
HERE = "here"


class Callables:
    """Callables by reference: those that stand in for others, those without a name, then what can be imported."""

    def __init__(self) -> None:
        self._known: dict[str, Callable[..., Any]] = {}

    def name(self, func: Any) -> str:
        """The reference of a callable; nested functions, lambdas, methods and mocks get one here.

        A name is taken as it is, and refused where nothing can be found under it.
        """
        if isinstance(func, str):
            self.load(func)
            return func
        try:
            ref = name_of(func)
            if self.load(ref) is func:
                return ref
        except InvalidInput:
            pass
        if not callable(func):
            raise TypeError(f"expected a callable, or its name as 'module:name', got {type(func).__name__}")
        return self._adopt(func)

    def _adopt(self, func: Callable[..., Any]) -> str:
        for ref, known in self._known.items():
            if known is func and ref.startswith(f"{HERE}:"):
                return ref
        base = re.sub(r"\W", "_", str(getattr(func, "__name__", "") or type(func).__name__)).strip("_") or "task"
        names = (f"{HERE}:{base}{number or ''}" for number in itertools.count())
        ref = next(name for name in names if name not in self._known)
        self._known[ref] = func
        return ref

    def stand_in(self, ref: str, func: Callable[..., Any]) -> None:
        self._known[name_of(ref)] = func

    def load(self, ref: str, allow: AllowList = ALLOW_ALL, path: str = "callable") -> Callable[..., Any]:
        found = self._known.get(ref)
        return load(ref, allow, path) if found is None else found


class VirtualOwner(InlineOwner):
    """Runs a task at once, and lets its end come later where it is said to take time."""

    def __init__(self, store: Store, settings: Settings, callables: Callables, lengths: dict[str, int]) -> None:
        super().__init__(store, settings)
        self.callables, self.lengths = callables, lengths
        # (ends at, number, work, outcome; None: the end of a thread that had timed out)
        self._flying: list[tuple[int, int, Work, Outcome | None]] = []
        self._numbers = itertools.count()
        self._let_go: set[int] = set()

    def forget_prepared(self) -> None:
        self._prepared.clear()

    def _load(self, ref: str, *rest: Any) -> Callable[..., Any]:
        return self.callables.load(ref, *rest)

    def record(self, work: Work, outcome: Outcome) -> None:
        took = self.lengths.get(work.claimed.schedule_id, 0)
        if not took:
            super().record(work, outcome)
            return
        now = self.clock.now()
        limit = None if work.limit_at is None else work.limit_at - self.clock.monotonic()
        if limit is None or took <= limit:
            self._fly(now + took, work, outcome._replace(elapsed=outcome.elapsed + took, ended_at=now + took))
            return
        work.detached = True  # as a thread that cannot be stopped: nothing of its schedule starts until it ends
        stopped = end(work, "timed_out", None, timeout_failure(work))
        self._fly(now + limit, work, stopped._replace(elapsed=stopped.elapsed + limit, ended_at=now + limit))
        self._fly(now + took, work, None)

    def _fly(self, ends_at: int, work: Work, outcome: Outcome | None) -> None:
        heapq.heappush(self._flying, (ends_at, next(self._numbers), work, outcome))

    def turn(self) -> Work | None:
        while self._flying and self._flying[0][0] <= self.clock.now():
            _, _, work, outcome = heapq.heappop(self._flying)
            if outcome is None:
                self._let_go.add(work.claimed.schedule)
            else:
                work.outcome = outcome
                self._ended.append(work)
        return super().turn()

    def _commit(self, conn: Any, now: int) -> None:
        super()._commit(conn, now)
        if self._let_go:
            self.verbs.let_go(conn, self._let_go)
            self._let_go = set()

    def next_event(self) -> int | None:
        found = super().next_event()
        if not self._flying:
            return found
        ends_at = self._flying[0][0]
        return ends_at if found is None else min(found, ends_at)

    def abandon(self) -> None:
        """As if its process had been killed: what runs is lost, and the next owner will find out."""
        self._flying, self._ended, self._let_go = [], [], set()
        self.verbs.release()
