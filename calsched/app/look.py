"""Looking at schedules: lists, one schedule whole, and how busy the coming days will be. Nothing here writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from calsched.app.files import Files
from calsched.app.forecast import Forecast, forecast
from calsched.app.preview import PreviewSlot, slot_of
from calsched.calendars import runs_out
from calsched.stores import inspect
from calsched.stores.compiled import CompiledRevision
from calsched.stores.lock import is_owned
from calsched.stores.tables import clock, skips
from calsched.stores.views import HistoryView, OwnerView, ScheduleView, ShowView
from calsched.triggers.base import Trigger

NEXT_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of schedules, and who would run them."""

    schedules: tuple[ScheduleView, ...]
    next_page: str | None
    owners: tuple[OwnerView, ...]  # those that are alive
    owned: bool
    serve_command: str  # what gives this store an owner
    at: int
    warnings: tuple[str, ...] = ()  # calendars that run out
    skipped: frozenset[int] = frozenset()  # ``pk`` of those whose next due instant an operator wants skipped
    hold: str | None = None  # why nothing is dispatched: backward, forward, restored


@dataclass(frozen=True, slots=True)
class Shown:
    """One schedule whole, with its coming slots."""

    show: ShowView
    zone: str | None
    coming: tuple[PreviewSlot, ...]  # where it collects, or would if it did
    owned: bool
    serve_command: str
    hold: str | None = None


class Look(Files):
    def list(
        self,
        *,
        states: Sequence[str] | None = None,
        owner: str | None = None,
        attention: bool = False,
        every_namespace: bool = False,
        page: str | None = None,
        limit: int = 100,
    ) -> Listing:
        """Schedules of this app's namespace by id, page by page. ``attention``: those that a person should look at."""
        store = self.store()
        with store.read() as conn:
            found = inspect.list_schedules(
                store,
                conn,
                namespace=None if every_namespace else self.namespace,
                states=states,
                owner=owner,
                attention=attention,
                page=page,
                limit=limit,
            )
            alive = self._alive(conn)
            at = store.now(conn)
            marked = skips.of(conn, store.tables, store.dialect, [view.pk for view in found.schedules])
            hold = clock.hold(conn, store.tables)
            known = found.schedules or inspect.list_schedules(store, conn).schedules
        skipped = frozenset(
            view.pk for view in found.schedules if any(row.due == view.next_due for row in marked.get(view.pk, ()))
        )
        serve = self._serve(known)
        warnings = tuple(self._calendar_warnings(found.schedules, at))
        return Listing(found.schedules, found.next_page, alive, self._owned(alive), serve, at, warnings, skipped, hold)

    def _calendar_warnings(self, views: Sequence[ScheduleView], now: int) -> Iterator[str]:
        used = {name for view in views if view.definition is not None for name in view.definition.calendars}
        known = self.known_calendars() if used else {}
        for name in sorted(used & set(known)):
            if (warning := runs_out(known[name], now)) is not None:
                yield warning

    def _serve(self, views: Sequence[ScheduleView]) -> str:
        return self.serve_command(view.definition.task.callable for view in views if view.definition is not None)

    def _alive(self, conn: Any) -> tuple[OwnerView, ...]:
        return tuple(owner for owner in inspect.owners(self.store(), conn) if owner.alive)

    def _owned(self, alive: Sequence[OwnerView]) -> bool:
        """Of a SQLite file the lock tells; a killed owner's lease may run on for a while."""
        path = self.store().path
        return is_owned(path) if path is not None else bool(alive)

    def counts(self) -> dict[str, int]:
        """How many schedules the store has in each state."""
        store = self.store()
        with store.read() as conn:
            return inspect.counts(store, conn)

    def get(self, id: str) -> ScheduleView:
        """One schedule as it stands. Raises UnknownSchedule."""
        store = self.store()
        with store.read() as conn:
            return inspect.get(store, conn, self.namespace, id)

    def show(self, id: str, *, page: str | None = None, limit: int = 20) -> Shown:
        """Everything about one schedule from one snapshot; history newest first, a page at a time."""
        store = self.store()
        with store.read() as conn:
            found = inspect.show(store, conn, self.namespace, id, page=page, limit=limit)
            compiled = store.compiled.get_many(conn, [found.schedule.revision_pk]).get(found.schedule.revision_pk)
            alive, now, hold = self._alive(conn), store.now(conn), clock.hold(conn, store.tables)
        trigger = compiled.trigger if isinstance(compiled, CompiledRevision) else None
        return Shown(
            found,
            None if trigger is None else trigger.zone,
            () if trigger is None else _coming(found.schedule, trigger, {skip.due for skip in found.skips}, now),
            self._owned(alive),
            self._serve([found.schedule]),
            hold,
        )

    def due_after_skips(self, view: ScheduleView) -> int | None:
        """The first due instant to come that no operator wants skipped; None where there is none."""
        store, due = self.store(), view.next_due
        if due is None:
            return None
        with store.read() as conn:
            marked = skips.of(conn, store.tables, store.dialect, [view.pk])
            compiled = store.compiled.get_many(conn, [view.revision_pk]).get(view.revision_pk)
        if not isinstance(compiled, CompiledRevision):
            return due
        wanted = {row.due for row in marked.get(view.pk, ())}
        return next((slot for slot in _from(compiled.trigger, due) if slot not in wanted), None)

    def history(self, id: str, *, page: str | None = None, limit: int = 50) -> HistoryView:
        """Verdicts, newest first."""
        store = self.store()
        with store.read() as conn:
            return inspect.history(store, conn, self.namespace, id, page=page, limit=limit)

    def forecast(self, days: int = 7) -> Forecast:
        """How many occurrences all enabled schedules of the store will start, by hour and minute."""
        compiled = tuple(self._compiled())
        return forecast(
            ((made.schedule_id, made.trigger) for made in compiled), self.now(), days, self._skipped(compiled)
        )

    def _skipped(self, compiled: Sequence[CompiledRevision]) -> Iterator[int]:
        """Due instants that operators have asked to skip."""
        store = self.store()
        with store.read() as conn:
            marked = skips.of(conn, store.tables, store.dialect, [made.schedule_pk for made in compiled])
        return (row.due for rows in marked.values() for row in rows)

    def _compiled(self) -> Iterator[CompiledRevision]:
        """The live revisions of all enabled schedules, of every namespace, those aside that cannot be loaded."""
        store, page = self.store(), None
        with store.read() as conn:
            while True:
                found = inspect.list_schedules(store, conn, states=("enabled",), page=page, limit=1000)
                compiled = store.compiled.get_many(conn, [view.revision_pk for view in found.schedules])
                for view in found.schedules:
                    made = compiled.get(view.revision_pk)
                    if isinstance(made, CompiledRevision):
                        yield made
                page = found.next_page
                if page is None:
                    return


def _coming(view: ScheduleView, trigger: Trigger, skipped: set[int], now: int) -> tuple[PreviewSlot, ...]:
    first = view.next_due if view.next_due is not None else view.held_due
    if first is not None and first < now and (view.state == "disabled" or view.reason in ("failures", "invalid")):
        first = trigger.next_after(now)  # it is enabled from then on, and what lies behind is passed over
    if first is None or view.state in ("ended", "cancelled"):
        return ()
    coming = (slot_of(trigger, due) for due in islice(_from(trigger, first), NEXT_SHOWN))
    return tuple(replace(one, marks=(*one.marks, "to be skipped")) if one.due in skipped else one for one in coming)


def _from(trigger: Trigger, due: int | None) -> Iterator[int]:
    while due is not None:
        yield due
        due = trigger.next_after(due)
