"""``backfill``: runs for due instants that are past, found first and written in pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from calsched.app.control import Control
from calsched.errors import CalschedError, InvalidInput, Refused, StaleVersion
from calsched.stores import backfill as verbs
from calsched.stores import inspect
from calsched.stores.backfill import Begun, Candidates, Only
from calsched.stores.control import Ask
from calsched.stores.views import ScheduleView
from calsched.words import counted

#: ``progress(done, total)``, called now and then.
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True)
class Backfilled:
    """What a backfill made, of what it found."""

    schedule: ScheduleView
    made: int
    candidates: Candidates


class Backfill(Control):
    def backfill_candidates(self, id: str, first: int, last: int, *, only: Only = "all") -> Candidates:
        """The past due instants from ``first`` to ``last`` that a backfill would run. Nothing is written.

        Raises UnknownSchedule, InvalidInput for too many, Refused below the watermark of pruned history.
        """
        store = self.store()
        with store.read() as conn:
            return verbs.candidates(store, conn, self.namespace, id, first, last, only=only)

    def backfill(
        self,
        id: str,
        first: int,
        last: int,
        *,
        only: Only = "all",
        newest_first: bool = False,
        max_concurrent: int = 1,
        revision: int | None = None,
        version: int | None = None,
        note: str | None = None,
        progress: Progress | None = None,
    ) -> Backfilled:
        """Occurrences for past due instants of the live revision, ``max_concurrent`` at once, beside its slots.

        Written in pages: where one is refused, because the backfill was cancelled or the schedule revised or stopped
        meanwhile, those before it stay. Raises Refused where there is nothing to run, StaleVersion where the schedule
        was revised while its due instants were looked up, and as ``backfill_candidates``.
        """
        found = self.backfill_candidates(id, first, last, only=only)
        dues = [one.due for one in found.found]
        if not dues:
            raise Refused(f"nothing of {id!r} to backfill there{_left_out(found)}")
        if revision not in (None, found.revision):
            raise StaleVersion("revision", revision, found.revision)
        ask = self.ask(note, found.revision, version)  # of the rule that gave these instants
        begun = self._begin_backfill(id, dues, newest_first, max_concurrent, ask)
        store = self.store()
        told = progress or _quiet
        told(begun.made, len(dues))
        for page in verbs.pages(sorted(dues, reverse=newest_first)[begun.made :]):
            begun = self.write(store, partial(self._go_on, store, begun, page))
            told(begun.made, len(dues))
        with store.read() as conn:
            return Backfilled(inspect.get(store, conn, self.namespace, id), begun.made, found)

    def _begin_backfill(self, id: str, dues: list[int], newest_first: bool, max_concurrent: int, ask: Ask) -> Begun:
        def act(store: Any, conn: Any, ask: Ask) -> Begun:
            return verbs.backfill(
                store,
                conn,
                self.namespace,
                id,
                dues,
                newest_first=newest_first,
                max_concurrent=max_concurrent,
                most=verbs.PAGE,
                **ask,
            )

        try:
            return self._control(act, ask)
        except InvalidInput as error:
            raise _moved_on(id, error) from None

    def _go_on(self, store: Any, begun: Begun, page: Sequence[int], conn: Any) -> Begun:
        try:
            return verbs.more(store, conn, begun, page, store.now(conn))
        except InvalidInput as error:
            raise _moved_on(begun.schedule.id, error, begun.made) from None

    def hold_backfill(self, id: str, *, hold: bool, note: str | None = None) -> int:
        """Pause the backfills of a schedule, or let them go on; how many occurrences that concerns."""
        return self._move(id, None, None, note, verbs.hold_backfill, hold=hold)

    def cancel_backfill(self, id: str, *, note: str | None = None) -> int:
        """Cancel what the backfills of a schedule have not started; what runs is asked to stop. How many."""
        return self._move(id, None, None, note, verbs.cancel_backfill)


def _moved_on(id: str, error: InvalidInput, made: int = 0) -> CalschedError:
    """Nobody typed the instants: where one is none any more, a calendar of the rule has changed meanwhile."""
    if not all(problem.path.startswith("dues[") for problem in error.problems):
        return error
    kept = f"{counted(made, 'occurrence')} from before {'stays' if made == 1 else 'stay'}"
    kept = kept if made else "nothing was written"
    first = error.problems[0].message
    return Refused(f"the due instants of {id!r} changed while they were looked up ({first}); {kept}: try again")


def _left_out(found: Candidates) -> str:
    parts = [f"{count:,} {verdict}" for verdict, count in sorted(found.left_out.items())]
    return f": {', '.join(parts)}" if parts else ": its rule has no due instant in that span that is past"


def _quiet(done: int, total: int | None) -> None:
    pass
