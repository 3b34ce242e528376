"""Declaration files: check them, see what they will do, register them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calsched.app.core import Core
from calsched.app.preview import (
    Preview,
    PreviewReport,
    PreviewSlot,
    TooManySlots,
    count_of_month,
    month_bounds,
    of_month,
    preview_of,
    preview_slots,
)
from calsched.calendars import BusinessCalendar
from calsched.clock import LAST_INSTANT
from calsched.declare.declaration import Checked, Declaration, Host
from calsched.declare.document import Document, Format
from calsched.errors import Refused, StoreUnusable
from calsched.model import digest
from calsched.runtime.callables import AllowList, load
from calsched.stores.tables import calendars
from calsched.triggers.base import Trigger

#: A declaration source: paths of files and directories, or the bytes of one file.
Sources = Sequence[Path | str] | bytes

_ZONE_SPREAD = 26 * 3_600_000  # no zone is further from UTC than this


@dataclass(frozen=True, slots=True)
class Span:
    """Which slots a preview shows: a number of them, or those of a span, or those of a month of the wall clock."""

    count: int | None = None
    start: int | None = None
    end: int | None = None
    month: str | None = None  # "2026-11"


class Files(Core):
    def read(self, sources: Sources, format: Format | None = None) -> list[Document]:
        """The documents of some sources, each with what reading found; raises nothing for what they say."""
        from calsched.declare.read import read, read_all

        if isinstance(sources, bytes):
            return [read(sources, format)]
        return read_all(sources, format)

    def check(self, sources: Sources, format: Format | None = None) -> Checked:
        """Everything that is right, wrong and doubtful in some files; nothing is written."""
        return self.check_documents(self.read(sources, format))

    def check_documents(self, documents: Iterable[Document]) -> Checked:
        from calsched.declare.check import check  # with pydantic: only what reads files waits for it

        return check(documents, now=self.now(), host=self.host())

    def declarations(self, sources: Sources, format: Format | None = None) -> Checked:
        """As ``check``, and raises InvalidInput with every problem."""
        checked = self.check(sources, format)
        checked.raise_if_bad()
        return checked

    def host(self) -> Host:
        """What this host lends to a check: its zone, its allow list and how it imports, its limits, its calendars."""
        known = self.settings
        allow = None if known.allow is None else AllowList(known.allow)
        self.find_jobs()
        return Host(
            now=self.now(),
            allow=known.allow,
            load=None if allow is None else lambda ref: load(ref, allow),
            default_zone=known.timezone,
            zone_source=known.zone_source,
            calendars=self.known_calendars(),
            namespace=known.namespace,
            minimum_interval=known.minimum_interval,
        )

    def known_calendars(self) -> dict[str, BusinessCalendar]:
        """The business calendars of the store that files may name; none where there is no store to ask."""
        try:
            store = self.store()
            with store.read() as conn:
                rows = calendars.newest(conn, store.tables)
        except StoreUnusable:
            return {}
        return {row.name: BusinessCalendar(row.name, row.version, json.loads(row.definition)) for row in rows}

    def preview(self, sources: Sources, span: Span, format: Format | None = None) -> PreviewReport:
        """The coming slots of declarations. Nothing is written."""
        checked = self.declarations(sources, format)
        previews = tuple(self._preview_one(found, span) for found in checked.declarations)
        return PreviewReport(previews, material_digest(checked.declarations), tuple(checked.warnings))

    def _preview_one(self, found: Declaration, span: Span) -> Preview:
        """One preview; a rule with too many slots for a listing has their number instead, so that others are shown."""
        rule, total = found.trigger, None
        try:
            slots, more = self._slots(rule, span)
        except TooManySlots:
            slots, more, total = [], True, self._number(rule, span)
        return preview_of(found.definition, rule, found.enabled, slots, more, total)

    def _slots(self, rule: Trigger, span: Span) -> tuple[list[PreviewSlot], bool]:
        if span.month is None:
            return preview_slots(rule, self.now() if span.start is None else span.start, span.end, span.count)
        start, end = month_bounds(span.month)
        slots, more = preview_slots(rule, start - _ZONE_SPREAD, end + _ZONE_SPREAD, span.count)
        return of_month(slots, span.month), more

    def _number(self, rule: Trigger, span: Span) -> int:
        if span.month is not None:
            return count_of_month(rule, span.month, _ZONE_SPREAD)
        return rule.count(
            self.now() if span.start is None else span.start, LAST_INSTANT if span.end is None else span.end
        )

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of declaration files."""
        from calsched.declare.schema import json_schema

        return json_schema()


def material_digest(declarations: Iterable[Declaration]) -> str:
    """One digest of all that a set of declarations would register."""
    material = [{"material": found.definition.material(), "enabled": found.enabled} for found in declarations]
    return digest(sorted(material, key=lambda one: (one["material"]["namespace"], one["material"]["id"])))


def refuse_changed(expected: str | None, checked: Checked) -> None:
    """Raises Refused where the files are not those that were previewed."""
    if expected is None:
        return
    found = material_digest(checked.declarations)
    if found != expected:
        raise Refused(f"the files changed since their preview: expected {expected}, found {found}; preview them again")
