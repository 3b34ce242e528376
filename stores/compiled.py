"""Revisions ready for use: the definition read, its trigger built. Kept by key, because a revision never changes."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection

from calsched.calendars import BusinessCalendar
from calsched.errors import CalschedError
from calsched.model import Definition, digest_of_material
from calsched.stores.damage import is_damaged, told
from calsched.stores.tables import calendars, revisions

if TYPE_CHECKING:
    from calsched.stores.engine import Store
    from calsched.triggers.base import Trigger

#: The texts that a revision is read from.
_TEXTS = ("namespace", "id", "definition", "digest")
#: About 50 MB of definitions and triggers.
DEFAULT_SIZE = 16_384


class CompiledRevision(NamedTuple):
    """A revision in working order."""

    pk: int
    schedule_pk: int
    namespace: str
    schedule_id: str
    number: int
    definition: Definition
    trigger: Trigger


class Unloadable(NamedTuple):
    """A stored revision that this process cannot make sense of."""

    pk: int
    schedule_pk: int
    problem: str


def _refuse_altered(material: Mapping[str, Any], digest: str) -> None:
    """A revision is immutable: where its text is not what was registered, nobody approved it (seed 003)."""
    found = digest_of_material(material)
    if found != digest:
        raise CalschedError(f"its stored definition is not the one that was registered: {digest} then, {found} now")


class Compiled:
    """The most recently used revisions of one store, up to a bound. Safe for threads."""

    def __init__(
        self, store: Store, size: int = DEFAULT_SIZE, default_zone: str | None = None, zone_source: str = "package"
    ) -> None:
        self._store = store
        self._size = size
        self._kept: OrderedDict[int, CompiledRevision] = OrderedDict()
        self._lock = threading.Lock()
        self._mine = threading.local()  # .unsettled: what this thread's transaction has read
        self._calendars: dict[tuple[str, int], BusinessCalendar] = {}
        self.default_zone = default_zone
        self.zone_source = zone_source

    def get(self, conn: Connection, revision_pk: int) -> CompiledRevision:
        """One revision. Raises CalschedError with the reason where it cannot be loaded."""
        found = self.get_many(conn, (revision_pk,)).get(revision_pk)
        if found is None:
            raise CalschedError(f"revision {revision_pk} is gone: its schedule was deleted")
        if isinstance(found, Unloadable):
            raise CalschedError(found.problem)
        return found

    def get_many(self, conn: Connection, pks: Iterable[int]) -> dict[int, CompiledRevision | Unloadable]:
        """Revisions by key; what cannot be loaded is there as such, with the reason."""
        out: dict[int, CompiledRevision | Unloadable] = {}
        missing = []
        with self._lock:
            kept = self._kept
            for pk in pks:
                found = kept.get(pk)
                if found is None:
                    missing.append(pk)
                else:
                    kept.move_to_end(pk)
                    out[pk] = found
        if missing:
            unsettled = getattr(self._mine, "unsettled", None) or {}
            out.update((pk, unsettled[pk]) for pk in missing if pk in unsettled)
            missing = [pk for pk in missing if pk not in unsettled]
        if missing:
            out.update(self._load(conn, missing))
        return out

    @contextmanager
    def settling(self, *, keep: bool = True) -> Iterator[None]:
        """Around a transaction that writes: what this thread reads in it is kept when it has committed.

        The key of a row that was rolled back is given again, to another row. ``keep``: False where the caller commits.
        """
        before = getattr(self._mine, "unsettled", None)
        read: dict[int, CompiledRevision] = {}
        self._mine.unsettled = read
        try:
            yield
        finally:
            self._mine.unsettled = before
        if keep:
            self._keep(read)

    def forget(self) -> None:
        """Drop everything, so that triggers are built anew (new tzdata, new calendars)."""
        with self._lock:
            self._kept.clear()
            self._calendars.clear()
        if (unsettled := getattr(self._mine, "unsettled", None)) is not None:
            unsettled.clear()

    def _load(self, conn: Connection, pks: list[int]) -> dict[int, CompiledRevision | Unloadable]:
        rows = revisions.definitions(conn, self._store, pks)
        out: dict[int, CompiledRevision | Unloadable] = {}
        for pk, schedule_pk, namespace, schedule_id, number, text, digest in rows:
            values = (namespace, schedule_id, text, digest)
            broken = [name for name, value in zip(_TEXTS, values, strict=True) if is_damaged(value)]
            try:
                if broken:
                    raise CalschedError(told(self._store.tables.revisions.name, pk, broken))
                material = json.loads(text)
                _refuse_altered(material, digest)
                definition = Definition.from_material(material)
                trigger = self._build(conn, definition)
            except (CalschedError, ValueError, KeyError, TypeError, AttributeError) as error:
                out[pk] = Unloadable(pk, schedule_pk, f"{type(error).__name__}: {error}")
                continue
            out[pk] = CompiledRevision(pk, schedule_pk, namespace, schedule_id, number, definition, trigger)
        usable = {pk: value for pk, value in out.items() if isinstance(value, CompiledRevision)}
        unsettled = getattr(self._mine, "unsettled", None)
        if unsettled is None:
            self._keep(usable)
        else:
            unsettled.update(usable)
        return out

    def _keep(self, usable: Mapping[int, CompiledRevision]) -> None:
        if not usable:
            return
        with self._lock:
            self._kept.update(usable)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)

    def _build(self, conn: Connection, definition: Definition) -> Trigger:
        known = self.calendars(conn, definition.calendars) if definition.calendars else {}
        return self.build(definition, known)

    def calendars(self, conn: Connection, wanted: Mapping[str, int]) -> dict[str, BusinessCalendar]:
        """Business calendars by name, in the versions asked for."""
        return calendars.load(conn, self._store.tables, wanted, self._calendars)

    def build(self, definition: Definition, known: Mapping[str, BusinessCalendar] | None = None) -> Trigger:
        """The trigger of a definition. Raises TriggerInvalid with every problem."""
        from calsched.triggers import build

        return build(
            definition.trigger,
            default_zone=self.default_zone,
            calendars=known,
            schedule_id=definition.id,
            zone_source=self.zone_source,
        )
