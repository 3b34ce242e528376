"""One slot, once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, tzinfo
from typing import Any, ClassVar, Self

from calsched.policies.clock_change import FOLD_RULES, GAP_RULES, FoldRule, GapRule
from calsched.triggers.base import Context, Trigger
from calsched.triggers.fields import Fields, as_instant, as_wall, instant_text, is_wall, one_of, wall_text
from calsched.triggers.wallclock import clock_text, day_text, resolve_local
from calsched.zones import Zone

_FIELDS = frozenset(("at", "timezone", "gap", "fold"))


class OnceTrigger(Trigger):
    """A single instant: RFC 3339, or a wall time of a zone."""

    __slots__ = ("_at", "_fold", "_gap", "_slots", "_wall", "_zone")
    kind: ClassVar[str] = "once"

    _fold: FoldRule
    _gap: GapRule
    _slots: tuple[int, ...]  # two where a wall time happens twice and both are asked for
    _wall: int | None
    _zone: Zone | None

    def __init__(
        self,
        at: datetime | date | str,
        *,
        timezone: str | tzinfo | None = None,
        gap: GapRule = "skip",
        fold: FoldRule = "first",
    ) -> None:
        given: dict[str, Any] = {"at": at, "gap": gap, "fold": fold}
        if timezone is not None:
            given["timezone"] = timezone
        self._load(Fields(given, _FIELDS, Context()))

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], context: Context) -> Self:
        made = cls.__new__(cls)
        made._load(Fields({name: value for name, value in spec.items() if value is not None}, _FIELDS, context))
        return made

    def _load(self, fields: Fields) -> None:
        self._calendars, self._zone_source = {}, fields.context.zone_source
        self._gap = fields.read("gap", one_of(*GAP_RULES), "skip")
        self._fold = fields.read("fold", one_of(*FOLD_RULES), "first")
        self._wall = self._zone = None
        self._slots = ()
        if not fields.has("at"):
            fields.fail("at", "a trigger of kind once needs its time", "for example at: '2026-10-12T09:00:00Z'")
        elif is_wall(fields.given["at"]):
            self._load_wall(fields)
        else:
            self._slots = (fields.read("at", as_instant, 0),)
            if fields.has("timezone"):
                fields.zone()  # it decides nothing here, and must not be nonsense all the same
        fields.check()

    def _load_wall(self, fields: Fields) -> None:
        self._zone = fields.zone()
        self._wall = fields.read("at", as_wall, None)
        if self._zone is None or self._wall is None:
            return
        self._slots = resolve_local(self._zone, self._wall, self._gap, self._fold)
        if not self._slots:
            where = f"{clock_text(self._wall)} does not exist on {day_text(self._wall)} in {self._zone.name}"
            fields.fail("at", where, "gap: shift or gap: boundary would give it a place")

    def first_at_or_after(self, instant: int) -> int | None:
        return next((slot for slot in self._slots if slot >= instant), None)

    def last_at_or_before(self, instant: int) -> int | None:
        return next((slot for slot in reversed(self._slots) if slot <= instant), None)

    @property
    def zone(self) -> str | None:
        return None if self._zone is None else self._zone.name

    def local(self, instant: int) -> str | None:
        return wall_text(self._wall) if self._wall is not None and instant in self._slots else None

    def first_after_local(self, local: str) -> int | None:
        if self._wall is None:
            return super().first_after_local(local)
        return self._slots[0] if self._wall > as_wall(local) else None

    def explain(self, instant: int) -> str | None:
        if instant in self._slots:
            return None
        return f"the only slot is {' and '.join(instant_text(slot) for slot in self._slots)}"

    def spec(self) -> dict[str, Any]:
        if self._wall is None or self._zone is None:
            return {"kind": self.kind, "at": instant_text(self._slots[0])}
        return {
            "kind": self.kind,
            "timezone": self._zone.name,
            "at": wall_text(self._wall),
            "gap": self._gap,
            "fold": self._fold,
        }
