"""``VirtualApp``: an app in memory, in time that you move."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, Self

from calsched.app import App
from calsched.app.control import Created
from calsched.clock import to_rfc3339
from calsched.declare.declaration import Host
from calsched.runtime.callables import ALLOW_ALL
from calsched.runtime.durable import carried_calendars, definition_of, durable
from calsched.runtime.pump import Settings as OwnerSettings
from calsched.runtime.work import Work
from calsched.settings import Settings
from calsched.stores import control, recompute
from calsched.stores.engine import Store
from calsched.stores.tables import meta
from calsched.stores.views import ScheduleView
from calsched.testing.asserts import Asserts
from calsched.testing.clock import SettableClock
from calsched.testing.frozen import Frozen
from calsched.testing.moments import Moment, instant, length
from calsched.testing.owner import Callables, VirtualOwner
from calsched.triggers import build

#: The identity of every ledger in tests, so that keys and jitter are the same in each run.
INSTALLATION = "00000000-0000-4000-8000-000000000000"
#: How many instants and runs one ``advance`` may come to before it gives up.
MOST = 200_000


class Ran(NamedTuple):
    """One attempt: of which schedule, for which due time, when it began, and how it ended (``running``: not yet)."""

    id: str
    due: datetime
    at: datetime
    state: str
    attempt: int = 1
    series: str = "slot"

    def __repr__(self) -> str:
        parts = [repr(self.id), f"due {self.due.isoformat()}", f"at {self.at.isoformat()}", self.state]
        parts += [f"attempt {self.attempt}"] if self.attempt > 1 else []
        return f"<Ran {', '.join(parts if self.series == 'slot' else [*parts, self.series])}>"


class VirtualApp(Asserts, App):
    """An app on an empty ledger in memory; nothing happens in it but by ``advance`` and ``run_due``, in this thread.

    ``start`` is where its clock stands; ``timezone`` is for rules and times that name none, ``start`` among them.
    ``freeze=True`` lets freezegun's clock follow, for code that reads the time itself; a frozen time that freezegun
    gave is taken along instead. All that an ``App`` can do is there: controls, ``why``, ``show``, ``apply``. Close it,
    or use ``with``.
    """

    clock: SettableClock

    def __init__(
        self,
        start: Moment = "2026-01-01",
        *,
        timezone: str | None = None,
        namespace: str = "default",
        freeze: Any = False,
        settings: Settings | None = None,
        workspaces: str | Path | None = None,
    ) -> None:
        known = replace(settings or Settings(), namespace=namespace)
        if timezone is not None:
            known = replace(known, timezone=timezone)
        self.clock = SettableClock(instant(start, known.timezone or "UTC", known.zone_source))
        store = Store("sqlite://", clock=self.clock, default_zone=known.timezone, zone_source=known.zone_source)
        super().__init__(store=store, settings=known, clock=self.clock, principal="test")
        self._found(store)
        self._owner_settings = OwnerSettings(
            name="test",
            schedule_batch=known.schedule_batch,
            occurrence_batch=known.occurrence_batch,
            clock_tolerance=known.clock_tolerance / 1000,
            workspaces=None if workspaces is None else str(workspaces),
        )
        self._callables = Callables()
        self._lengths: dict[str, int] = {}
        self._owner: VirtualOwner | None = None
        self._frozen: Frozen | None = None
        if freeze:
            self._frozen = Frozen(self.clock.now(), None if freeze is True else freeze)
            self.clock.watch(self._frozen.move)

    def _found(self, store: Store) -> None:
        store.open()
        with store.write() as conn:
            meta.put(conn, store.tables, "installation", INSTALLATION)
        store._installation = INSTALLATION
        self._opened = True

    def close(self) -> None:
        """Give back what the app holds: the ledger, and freezegun's time where it began it."""
        try:
            if self._frozen is not None:
                self._frozen.stop()
        finally:
            self.store().dispose()

    def __enter__(self) -> Self:
        return self

    # --- schedules ----------------------------------------------------------------------------------------------------

    def add(
        self,
        func: Callable[..., Any] | str,
        trigger: Any,
        *,
        id: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        executor: str = "default",
        enabled: bool = True,
        takes: timedelta | float = 0,
        **policies: Any,
    ) -> ScheduleView:
        """A schedule, as ``add_job(func, durable(trigger, **policies))`` makes one; its id is the function's name.

        ``func`` may be any callable, or ``module:name``; ``trigger`` a trigger, or its form in a file
        (``{"kind": "calendar", "at": "18:00"}``). ``takes``: see there. Raises InvalidInput with every problem.
        """
        ref = self._callables.name(func)
        rule = build(trigger, default_zone=self.settings.timezone) if isinstance(trigger, Mapping) else trigger
        name = id or ref.partition(":")[2]
        definition = definition_of(
            schedule_id=name,
            namespace=self.namespace,
            trigger=durable(rule, **policies),
            func=ref,
            args=args,
            kwargs=kwargs or {},
            executor=executor,
            options={"name": name},
        )
        store = self.store()
        with store.write() as conn:
            definition = recompute.carry_calendars(store, conn, definition, carried_calendars(rule), **self.ask())
            view = control.create(store, conn, definition, enabled=enabled, **self.ask())
        self.takes(name, takes)
        return view

    def load(self, *sources: str | Path | bytes | Mapping[str, Any]) -> Created:
        """Register declarations: files and directories by path, or what a file says, as a mapping or as YAML bytes.

        Their callables must be there (``stand_in`` for those that must not run). Raises InvalidInput with every
        problem, AlreadyExists.
        """
        texts = [source for source in sources if not isinstance(source, str | Path)]
        if not texts:
            return self.create([source for source in sources if isinstance(source, str | Path)])
        if len(sources) > 1:
            raise TypeError("load() takes paths, or one mapping or text")
        said = texts[0]
        if isinstance(said, bytes):
            return self.create(said, format="yaml")
        return self.create(json.dumps(said, default=str).encode(), format="json")

    def stand_in(self, ref: str, func: Callable[..., Any]) -> None:
        """Call ``func`` wherever a schedule names ``ref`` (``module:name``), which need not exist then."""
        self._callables.stand_in(ref, func)
        if self._owner is not None:
            self._owner.forget_prepared()

    def takes(self, id: str, by: timedelta | float | None = None, **parts: float) -> None:
        """Let each run of a schedule take some virtual time: a timedelta, seconds, or ``minutes=`` and the like.

        Its function is called when the run begins; how it ended is known when the time is over. So overlaps, timeouts
        and deadlines can be seen.
        """
        self._lengths[id] = length(by, **parts)

    def host(self) -> Host:
        host = super().host()
        if self.settings.allow is not None:
            return host
        return replace(host, allow=_EVERYTHING, load=self._callables.load)

    # --- time ---------------------------------------------------------------------------------------------------------

    def advance(self, to: Moment | timedelta | None = None, *, most: int = MOST, **parts: float) -> tuple[Ran, ...]:
        """Let time pass up to ``to``, or by a timedelta or ``days=``, ``hours=``, ``minutes=``, ``seconds=``.

        It goes from instant to instant at which something is due, may start, or is over, and does at each what an owner
        would; returns what ran, in order. Raises ValueError for a time that is past, RuntimeError after ``most`` steps.
        """
        target = self._target(to, parts)
        ran, instants = self._drain(most), 0
        while (at := self._current().next_event()) is not None and at <= target:
            self.clock.set(at)
            ran += self._drain(most)
            instants += 1
            if instants + len(ran) > most:
                raise RuntimeError(self._too_many(instants + len(ran)))
        if target > self.clock.now():
            self.clock.set(target)
            ran += self._drain(most)
        return tuple(map(self._told, ran))

    def _target(self, to: Moment | timedelta | None, parts: Mapping[str, float]) -> int:
        now = self.clock.now()
        if to is None or isinstance(to, timedelta):
            target = now + length(to, **parts)
        elif parts:
            raise TypeError("advance() takes a time, or how long, and not both")
        else:
            target = self._moment(to)
        if target < now:
            raise ValueError(f"advance() cannot go back from {to_rfc3339(now)} to {to_rfc3339(target)}")
        return target

    def run_due(self) -> tuple[Ran, ...]:
        """Judge and run what is due now, and what became due while nobody looked; what ran, in order."""
        return tuple(map(self._told, self._drain(MOST)))

    def _drain(self, most: int) -> list[_Began]:
        owner, out = self._current(), []
        while (work := owner.turn()) is not None:
            out.append((work, self.clock.now()))
            owner.run(work)
            if len(out) > most:
                raise RuntimeError(self._too_many(len(out)))
        return out

    def _too_many(self, steps: int) -> str:
        now = to_rfc3339(self.clock.now())
        return f"{steps:,} steps, and time has only come to {now}: advance by less, or allow most= more"

    def _told(self, began: _Began) -> Ran:
        work, at = began
        c, zone = work.claimed, self._zone_of(work.claimed.revision_pk)
        state = "running" if work.outcome is None else work.outcome.state
        return Ran(c.schedule_id, self._shown(c.due, zone), self._shown(at, zone), state, c.attempt, c.series)

    def crash(self) -> None:
        """Kill the owner: what runs at this moment is never heard of again. The next one starts when time moves on."""
        if self._owner is not None:
            self._owner.abandon()
            self._owner = None

    def _current(self) -> VirtualOwner:
        if self._owner is None:
            owner = VirtualOwner(self.store(), self._owner_settings, self._callables, self._lengths)
            owner.open()
            self._owner = owner
        return self._owner


_EVERYTHING: Any = ALLOW_ALL
_Began = tuple[Work, int]
