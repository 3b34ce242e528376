"""Is everything as it should be? The ledger's own laws, the clock, the zones, the calendars, and who needs a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calsched import zones
from calsched.app.database import Database
from calsched.app.look import Look
from calsched.calendars import runs_out
from calsched.clock import LAST_INSTANT
from calsched.errors import InvalidInput, Problem
from calsched.stores import damage, inspect
from calsched.stores.compiled import CompiledRevision
from calsched.stores.inspect import Finding
from calsched.stores.tables import meta
from calsched.stores.views import ClockView, OwnerView
from calsched.triggers import build
from calsched.triggers.compare import Changes, compare

#: What a finding is about, where it is a schedule.
_PLACE = ("namespace", "id")


@dataclass(frozen=True, slots=True)
class Health:
    """What ``doctor`` found. ``notes`` are worth knowing and nothing to worry about."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    counts: dict[str, int]
    owners: tuple[OwnerView, ...]

    @property
    def ok(self) -> bool:
        return not self.findings


@dataclass(frozen=True, slots=True)
class ClockReport:
    """The wall clock against the highest instant that a tick has seen."""

    now: int
    clock: ClockView


@dataclass(frozen=True, slots=True)
class ZoneReport:
    """The zone data that this host computes with, and what the store and its owners have seen."""

    version: str
    source: str
    store: str | None
    owners: tuple[OwnerView, ...]
    other_source: str
    other_version: str | None  # None: this host has no such data


@dataclass(frozen=True, slots=True)
class ZoneMove:
    """How the coming due instants of one schedule would change under other zone data."""

    namespace: str
    id: str
    zone: str
    changes: Changes


class Care(Look, Database):
    def doctor(self, *, slack: int = 60_000) -> Health:
        """Everything that is not as it should be. ``slack``: how long something may be overdue, in milliseconds."""
        store = self.store()
        with store.read() as conn:
            broken = damage.quick_check(store, conn)
            if broken:  # what the other checks read would be as broken
                return Health((_broken(store.url_shown, broken),), (), {}, ())
            findings = [_damaged(spot) for spot in damage.spots(store, conn)]
            findings += inspect.doctor(store, conn, slack=slack)
            attention = inspect.attention(store, conn)
            counts = inspect.counts(store, conn)
            owners = tuple(owner for owner in inspect.owners(store, conn) if owner.alive)
            seen = meta.get(conn, store.tables, "tzdata")
        findings += [_attention(view) for view in attention]
        findings += self._zones(seen, owners)
        findings += self._calendars()
        findings += [Finding("schema", text, {}) for text in self.schema_check()]
        return Health(tuple(findings), self._notes(counts, owners), counts, owners)

    def _zones(self, seen: str | None, owners: tuple[OwnerView, ...]) -> list[Finding]:
        versions = {owner.tzdata for owner in owners if owner.tzdata}
        own = self.store().tzdata
        found = []
        if len(versions) > 1:
            text = (
                f"owners with different tzdata live ({', '.join(sorted(versions))}); the older ones leave zones alone"
            )
            found.append(Finding("tzdata", text, {"versions": sorted(versions)}))
        if seen is not None and own < seen:
            text = (
                f"this host's tzdata {own} is older than the {seen} that the store has seen: upgrade the tzdata package"
            )
            found.append(Finding("tzdata", text, {"here": own, "store": seen}))
        return found

    def _calendars(self) -> list[Finding]:
        now = self.now()
        warnings = [(name, runs_out(calendar, now)) for name, calendar in self.known_calendars().items()]
        return [Finding("calendar", text, {"calendar": name}) for name, text in warnings if text is not None]

    def _notes(self, counts: dict[str, int], owners: tuple[OwnerView, ...]) -> tuple[str, ...]:
        if counts.get("enabled", 0) and not owners:
            return (f"no owner lives; start one with: {self.list(every_namespace=True).serve_command}",)
        return ()

    def clock_report(self) -> ClockReport:
        """The wall clock, the high water, and whether dispatch is on hold."""
        store = self.store()
        with store.read() as conn:
            return ClockReport(store.now(conn), inspect.clock_of(store, conn))

    def zone_report(self) -> ZoneReport:
        """Which zone data this host, its store and its owners have."""
        store = self.store()
        with store.read() as conn:
            seen = meta.get(conn, store.tables, "tzdata")
            owners = tuple(owner for owner in inspect.owners(store, conn) if owner.alive)
        source = self.settings.zone_source
        other = "system" if source == "package" else "package"
        return ZoneReport(store.tzdata, source, seen, owners, other, _version(other))

    def zone_moves(self, source: str | None = None, *, days: int = 365) -> tuple[ZoneMove, ...]:
        """What would move if this host took its zone data from another source: ``system``, ``package`` or a path.

        Raises InvalidInput where there is no such data.
        """
        source = source or ("system" if self.settings.zone_source == "package" else "package")
        if _version(source) is None:
            hint = "expected package, system, or the absolute path of a folder of compiled zones"
            raise InvalidInput([Problem(f"there is no zone data at {source[:200]!r}", "--against", hint=hint)])
        now = self.now()
        last = min(now + days * 86_400_000, LAST_INSTANT)
        moves = (self._zone_move(made, source, now, last) for made in self._compiled())
        return tuple(move for move in moves if move is not None and move.changes)

    def _zone_move(self, made: CompiledRevision, source: str, now: int, last: int) -> ZoneMove | None:
        zone = made.trigger.zone
        if zone is None:
            return None
        known = made.trigger._calendars
        other = build(made.definition.trigger, calendars=known, schedule_id=made.schedule_id, zone_source=source)
        return ZoneMove(made.namespace, made.schedule_id, zone, compare(made.trigger, other, now, last))


def _broken(where: str, found: list[str]) -> Finding:
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    text = f"{where} is damaged (SQLite's quick_check says: {found[0]}{more}); stop its owner, {damage.ADVICE}"
    return Finding("damage", text, {"found": found})


def _damaged(spot: damage.Spot) -> Finding:
    facts = {"table": spot.table, "row": spot.pk, "columns": list(spot.columns)}
    named = {} if spot.id is None else {"namespace": spot.namespace, "id": spot.id}
    return Finding("damage", damage.told(spot.table, spot.pk, spot.columns), facts | named)


def _version(source: str) -> str | None:
    try:
        return zones.version(source) if zones.available(source) else None
    except Exception:  # whatever is wrong with data that nobody uses here
        return None


def _attention(view: Any) -> Finding:
    why = view.attention or view.last_failure or view.problem or view.reason or view.state
    place = {name: getattr(view, name) for name in _PLACE}
    told = f"{view.id!r} is {why}" if why.startswith(view.state) else f"{view.id!r} is {view.state}: {why}"
    return Finding("attention", told, {**place, "state": view.state})
