"""What tests ask of a ledger; a failed answer shows the ledger around the instant, and why it is so."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from calsched.app.why import Why
from calsched.errors import CalschedError
from calsched.stores import inspect
from calsched.stores.compiled import CompiledRevision
from calsched.stores.views import OccurrenceView, RangeView, ScheduleView
from calsched.testing.moments import Moment, instant, shown, text

#: How many verdicts before and after an instant a message shows.
AROUND = 4
#: How many due instants may be asked for at once.
MOST_DUE = 100_000

Entry = OccurrenceView | RangeView


class Asserts(Why):
    # --- questions ----------------------------------------------------------------------------------------------------

    def due_instants(self, id: str, first: Moment, last: Moment) -> list[datetime]:
        """When a schedule's rule is due from ``first`` to ``last``, both included, on its own wall clock.

        Whatever the clock of the app says: years ahead, or past. A date stands for the whole day. Raises
        UnknownSchedule, and ValueError for more than 100 000.
        """
        compiled = self._live(id)
        start, end = self._moment(first, compiled), self._moment(last, compiled, end=True)
        if compiled.trigger.count(start, end) > MOST_DUE:
            raise ValueError(f"{id!r} is due more than {MOST_DUE:,} times in that span")
        return [self._shown(at, self._zone(compiled)) for at in compiled.trigger.between(start, end)]

    def runs(self, id: str, *, at: Moment | None = None, state: str | None = "succeeded") -> list[OccurrenceView]:
        """The occurrences of a schedule that ran and ended so, oldest first; ``state=None``: that began at all."""
        due = None if at is None else self._moment(at, self._live(id))
        found = [one for one in self._entries(id) if isinstance(one, OccurrenceView)]
        wanted = [one for one in found if (one.attempt > 0 if state is None else one.attempt and one.state == state)]
        return [one for one in reversed(wanted) if due is None or one.due == due]

    # --- assertions ---------------------------------------------------------------------------------------------------

    def assert_ran(
        self, id: str, *, at: Moment | None = None, times: int | None = None, state: str | None = "succeeded"
    ) -> None:
        """A schedule ran: for the due time ``at``, so many ``times``, or at least once; and ended in ``state``.

        ``at`` without a zone is on the wall clock of the schedule. ``state=None``: however it ended; a due time that
        another occurrence stands for has not run.
        """
        __tracebackhide__ = True
        found = self.runs(id, at=at, state=state)
        if (len(found) == times) if times is not None else found:
            return
        due = None if at is None else self._moment(at, self._live(id))
        raise AssertionError(self._did_not_run(id, due, times, state, len(found)))

    def assert_verdict(self, id: str, instant: Moment, expected: str) -> None:
        """The verdict on a due time: a state (``succeeded``, ``failed`` …), ``represented``, ``skipped`` or its reason.

        Also ``future``, ``unjudged``, ``notASlot``, and ``none`` where the revision has nothing to say of it.
        """
        __tracebackhide__ = True
        at = self._moment(instant, self._live(id))
        told, facts = self.why(id, at)
        words = [told.verdict]
        if facts.kind == "occurrence" and facts.occurrence is not None:
            words.append(facts.occurrence.reason or "")
        if facts.kind == "skipped" and facts.range is not None:
            words.append(facts.range.reason or "")
        words = list(dict.fromkeys(word for word in words if word))
        if expected not in words:
            got = " (".join(words) + ")" * (len(words) - 1)
            raise AssertionError(self._message(id, at, f"expected {expected} at {self._at(id, at)}, got {got}"))

    # --- their messages -----------------------------------------------------------------------------------------------

    def _did_not_run(self, id: str, due: int | None, times: int | None, state: str | None, found: int) -> str:
        how = "run" if state is None else f"run and end {state}"
        where = "" if due is None else f" for {self._at(id, due)}"
        if times is None:
            said = f"{id!r} did not {how}{where}"
        else:
            said = f"expected {id!r} to {how} {_times(times)}{where}, and it did {_times(found)}"
        return self._message(id, due, said)

    def _message(self, id: str, at: int | None, said: str) -> str:
        lines = [said]
        if at is not None:
            told, _ = self.why(id, at)
            lines += [f"  {sentence}" for sentence in told.sentences]
        return "\n".join([*lines, *self.ledger_around(id, at)])

    def ledger_around(self, id: str, at: int | None = None) -> list[str]:
        """The ledger of a schedule in lines, the verdicts around an instant (milliseconds), or the newest ones."""
        view, compiled = self.get(id), self._live(id)
        zone = self._zone(compiled)
        entries = self._around(id, at)
        lines = [f"the ledger of {id!r} ({zone or 'UTC'}):"]
        for entry in entries:
            mark = "▸" if at is not None and _covers(entry, at) else " "
            lines.append(f"  {mark} {self._line(entry, zone)}")
        if not entries:
            lines.append("    (empty)")
        return [*lines, self._standing(view, zone)]

    def _around(self, id: str, at: int | None) -> list[Entry]:
        """Oldest first."""
        after: list[Entry] = []
        before: list[Entry] = []
        for entry in self._entries(id):
            if at is not None and _first_due(entry) > at:
                after = [*after[1 - AROUND :], entry]
            else:
                before.append(entry)
                if len(before) > AROUND:
                    break
        return [*reversed(before), *reversed(after)]

    def _line(self, entry: Entry, zone: str | None) -> str:
        source = self.settings.zone_source
        if isinstance(entry, RangeView):
            span = text(entry.first_due, zone, source)
            ordinals = f"#{entry.first}"
            if entry.first != entry.last:
                span += f" … {text(entry.last_due, zone, source)}"
                ordinals += f"–{entry.last}"
            return f"{span}  {ordinals}  {entry.verdict}{f': {entry.reason}' if entry.reason else ''}"
        number = f"#{entry.ordinal}" if entry.series == "slot" else f"{entry.series} {entry.ordinal}"
        return f"{text(entry.due, zone, source)}  {number}  {_state(entry)}"

    def _standing(self, view: ScheduleView, zone: str | None) -> str:
        source = self.settings.zone_source
        state = f"{view.state} ({view.reason})" if view.reason else view.state
        due = view.next_due if view.next_due is not None else view.held_due
        coming = "" if due is None else f", next due {text(due, zone, source)}"
        return f"it is {text(self.now(), zone, source)} now; the schedule is {state}{coming}"

    # --- how ----------------------------------------------------------------------------------------------------------

    def _entries(self, id: str) -> Iterator[Entry]:
        """Every verdict and all open work, newest first."""
        page: str | None = None
        while True:
            found = self.history(id, page=page, limit=500)
            yield from found.entries
            page = found.next_page
            if page is None:
                return

    def _live(self, id: str) -> CompiledRevision:
        store = self.store()
        with store.read() as conn:
            view = inspect.get(store, conn, self.namespace, id)
            return store.compiled.get(conn, view.revision_pk)

    def _zone(self, compiled: CompiledRevision) -> str | None:
        return compiled.trigger.zone or self.settings.timezone

    def _zone_of(self, revision_pk: int) -> str | None:
        store = self.store()
        try:
            with store.read() as conn:
                return self._zone(store.compiled.get(conn, revision_pk))
        except (CalschedError, KeyError):  # its schedule has been deleted meanwhile
            return self.settings.timezone

    def _moment(self, moment: Moment, compiled: CompiledRevision | None = None, *, end: bool = False) -> int:
        zone = self.settings.timezone if compiled is None else self._zone(compiled)
        return instant(moment, zone or "UTC", self.settings.zone_source, end=end)

    def _shown(self, at: int, zone: str | None) -> datetime:
        return shown(at, zone, self.settings.zone_source)

    def _at(self, id: str, at: int) -> str:
        return text(at, self._zone(self._live(id)), self.settings.zone_source)


def _times(count: int) -> str:
    return {0: "not at all", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _first_due(entry: Entry) -> int:
    return entry.due if isinstance(entry, OccurrenceView) else entry.first_due


def _covers(entry: Entry, at: int) -> bool:
    if isinstance(entry, OccurrenceView):
        return entry.due == at and entry.series == "slot"
    return entry.first_due <= at <= entry.last_due


def _state(entry: OccurrenceView) -> str:
    parts = [entry.state]
    if entry.reason:
        parts.append(f" ({entry.reason})")
    if entry.attempt > 1:
        parts.append(f" after {entry.attempt} attempts")
    if entry.represents_first != entry.represents_last:
        parts.append(f", represents #{entry.represents_first}–{entry.represents_last}")
    error = ": ".join(part for part in (entry.error_type, entry.error) if part)
    if error and entry.state != "succeeded":
        parts.append(f": {error}")
    return "".join(parts)
