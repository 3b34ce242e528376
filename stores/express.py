"""The short way: an occurrence that is due now, and that its owner can start now, is written as running at once.

A tick that writes it as ready, and a claim that takes it right after, would leave the same row at the end of the same
transaction, for twice the work. What has to wait for anything goes the long way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from calsched.model import Claimed, Definition, PlannedOccurrence
from calsched.stores.tables import occurrences

if TYPE_CHECKING:
    from calsched.stores.engine import Store


class Express:
    """What one owner can start in this transaction. The caller has passed ``claim.gate`` in it, and knows that nothing
    older waits for these executors.

    ``rooms`` is how many occurrences each executor takes; ``exclude`` are schedules that this owner passes over.
    """

    def __init__(self, epoch: int, rooms: Mapping[str, int], exclude: Collection[int] = ()) -> None:
        self.epoch = epoch
        self.rooms = dict(rooms)
        self._exclude = exclude
        self._begun: dict[tuple[int, int], tuple[Any, Definition, PlannedOccurrence, int | None]] = {}
        self.left = 0  # ready occurrences that it did not take

    def takes(
        self, row: Any, d: Definition, planned: PlannedOccurrence, at: int, deadline: int | None, now: int
    ) -> bool:
        """Whether an occurrence is begun where it is written."""
        if planned.state != "ready":
            return False
        room = self.rooms.get(d.task.executor, 0)
        if room <= 0 or not self._may(row, d, at, deadline, now):
            self.left += 1
            return False
        self.rooms[d.task.executor] = room - 1
        self._begun[row.revision_pk, planned.ordinal] = row, d, planned, deadline
        return True

    def _may(self, row: Any, d: Definition, at: int, deadline: int | None, now: int) -> bool:
        """What a claim would look at; a blackout's end, an expiry or a hold may have come since the plan was made."""
        return (
            at <= now
            and d.task.kind == "python"
            and row.held_by is None
            and not d.blackouts
            and (deadline is None or deadline >= now)
            and (d.expires_at is None or d.expires_at >= now)
            and row.pk not in self._exclude
        )

    def begun(self, store: Store, conn: Connection, now: int) -> list[Claimed]:
        """What was written as running, with the keys that the database gave."""
        if not self._begun:
            return []
        out = []
        for pk, revision_pk, ordinal in occurrences.just_begun(conn, store.tables, self.epoch, now):
            found = self._begun.get((revision_pk, ordinal))
            if found is not None:
                out.append(_claimed(pk, *found, self.epoch))
        self._begun.clear()
        return out


def _claimed(pk: int, row: Any, d: Definition, planned: PlannedOccurrence, deadline: int | None, epoch: int) -> Claimed:
    ordinal, due, _, slot, first, last, first_due = planned
    assert slot is not None
    return Claimed(
        pk, row.pk, row.namespace, row.id, row.revision, row.revision_pk, "slot", ordinal, due, due, 1, first, last,
        first_due, deadline, slot, epoch, 0, d.expires_at,
    )  # fmt: skip
