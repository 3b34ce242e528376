"""Files are the truth: what would change (plan), and changing it (apply), all or nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from calsched import changes as deploy
from calsched.app.approvals import inside, with_approvals
from calsched.app.files import Files, Sources
from calsched.calendars import BusinessCalendar, Resolved
from calsched.changes import Change, ChangeSet, Effects, Known
from calsched.clock import LAST_INSTANT
from calsched.declare.declaration import Checked, Declaration
from calsched.declare.document import Format
from calsched.declare.values_walk import TooMuch, faults
from calsched.errors import InvalidInput, Problem, Refused, StoreAbsent
from calsched.model import Definition, digest
from calsched.stores import apply
from calsched.stores.control import Ask
from calsched.triggers import build
from calsched.triggers.compare import compare

#: Due instants that a plan shows of one change.
SHOWN = 1_000
_DAY = 86_400_000
_PLAN_FORMAT = 1
_NEVER_A_PLAN = (".yaml", ".yml", ".toml")


class Deploy(Files):
    def plan(
        self, sources: Sources, *, days: int = 7, prune: bool = False, format: Format | None = None
    ) -> tuple[ChangeSet, Checked]:
        """What applying these files would do, and how that moves the due instants of the coming days.

        Nothing is written. Raises InvalidInput with every problem of the files, and of the files against the store.
        """
        checked = self.declarations(sources, format)
        return self._changes(checked, days, prune), checked

    def apply(
        self,
        sources: Sources,
        *,
        prune: bool = False,
        catch_up: bool = False,
        note: str | None = None,
        format: Format | None = None,
        expected: str | None = None,
    ) -> ChangeSet:
        """Make the store equal to the files: in one transaction, or not at all. Unchanged files write nothing.

        ``expected`` is the ``store`` of the plan that a person agreed to. Raises Refused where the store has moved on.
        """
        checked = self.declarations(sources, format)
        found = self._changes(checked, 0, prune)
        if expected is not None and found.store != expected:
            raise Refused("the store has changed since this was planned; nothing was applied: plan again")
        if found.pending or found.calendars:
            if self.verifier is not None:
                raise Refused(
                    "this host asks for an approval (setting `approvals`), and it approves saved plans, not files;"
                    " nothing was applied: save it with `calsched plan --out FILE`, have somebody else run"
                    " `calsched approve apply FILE`, and present that with `calsched apply FILE --approval …`"
                )
            self._commit(found, checked, catch_up, note, self._plan(found, checked, prune))
        return found

    def _changes(self, checked: Checked, days: int, prune: bool) -> ChangeSet:
        known, versions = self._stored(checked)
        effects = _Effects(checked.calendars, self.known_calendars(), self.now(), days)
        found = deploy.find(
            checked.declarations,
            known,
            calendars=versions,
            prune=prune,
            changed_calendars=self._changed_calendars(checked),
            effects=effects,
        )
        if found.problems:
            raise InvalidInput(found.problems)
        return found

    def _stored(self, checked: Checked) -> tuple[list[Known], dict[str, int]]:
        """What the store has; one that does not exist yet has nothing, and is not made by looking."""
        try:
            store = self.store()
        except StoreAbsent:
            return [], {}
        with store.read() as conn:
            return apply.catalogue(store, conn, self._namespaces(checked)), apply.calendar_versions(store, conn)

    def _installation(self) -> str | None:
        """None while there is no store."""
        try:
            return self.store().installation
        except StoreAbsent:
            return None

    def _namespaces(self, checked: Checked) -> set[str]:
        return {self.namespace, *(found.definition.namespace for found in checked.declarations)}

    def _changed_calendars(self, checked: Checked) -> list[str]:
        known = self.known_calendars()
        return [
            name
            for name, calendar in checked.declared_calendars.items()
            if name not in known or known[name].digest != calendar.digest
        ]

    def _commit(
        self, found: ChangeSet, checked: Checked, catch_up: bool, note: str | None, plan: Mapping[str, Any]
    ) -> None:
        store, now = self.store(create=True), self.now()
        ask: Ask = {"now": now, "principal": self.principal, "note": note}
        new = [change.declaration for change in found.pending if "create" in change.steps and change.declaration]
        prepared = [apply.prepare(store, one.definition, one.enabled, checked.calendars, now) for one in new]
        material = {"plan": plan, "changes": [_step(change) for change in found.pending]}

        def act(store: Any, conn: Any, ask: Ask) -> None:
            apply.apply(
                store,
                conn,
                found.pending,
                prepared,
                expected=found.store,
                namespaces=self._namespaces(checked),
                declared=checked.declared_calendars,
                catch_up=catch_up,
                plan=material,
                **ask,
            )

        ask = with_approvals(self, [act], ask)
        self.write(store, lambda conn: act(store, conn, inside(store, conn, ask)))

    # --- a plan that is kept ------------------------------------------------------------------------------------------

    def saved_plan(self, found: ChangeSet, checked: Checked, *, prune: bool) -> str:
        """The plan as JSON text for ``apply_saved``: the declarations, and the store that they were planned on.

        Where approvals are asked for, a store that does not exist yet is made, empty: an approval names its
        installation.
        """
        if self.verifier is not None:
            self.store(create=True)
        body = self._plan(found, checked, prune)
        return json.dumps({**body, "digest": digest(body)}, indent=1, ensure_ascii=False)

    def _plan(self, found: ChangeSet, checked: Checked, prune: bool) -> dict[str, Any]:
        return {
            "format": _PLAN_FORMAT,
            "installation": self._installation(),
            "store": found.store,
            "prune": prune,
            "declarations": [_declared(one) for one in checked.declarations],
            "calendars": {name: one.material for name, one in checked.declared_calendars.items()},
        }

    def apply_saved(self, text: str, *, catch_up: bool = False, note: str | None = None, file: str = "") -> ChangeSet:
        """Apply a saved plan. Raises Refused for a plan of another store, or where the store has moved on."""
        body = _plan_body(text, file)
        if body["installation"] != self._installation():
            raise Refused("this plan was made for another store; nothing was applied")
        checked = _planned(body, self.known_calendars(), file)
        found = self._changes(checked, 0, bool(body["prune"]))
        if found.store != body["store"]:
            raise Refused("the store has changed since this was planned; nothing was applied: plan again")
        if found.pending or found.calendars:
            self._commit(found, checked, catch_up, note, body)
        return found


class _Effects:
    """Compares the coming due instants of two definitions."""

    def __init__(
        self, new: Mapping[str, BusinessCalendar], old: Mapping[str, BusinessCalendar], now: int, days: int
    ) -> None:
        self.new, self.old, self.first = new, old, now
        self.last = min(now + days * _DAY, LAST_INSTANT)
        self.wanted = days > 0

    def __call__(self, old: Definition | None, new: Definition | None) -> Effects:
        if not self.wanted:
            return deploy.NO_EFFECTS
        before = None if old is None else build(old.trigger, calendars=self.old, schedule_id=old.id)
        after = None if new is None else build(new.trigger, calendars=self.new, schedule_id=new.id)
        if before is not None and after is not None:
            found = compare(before, after, self.first, self.last, SHOWN)
            moved = tuple((move.before, move.after) for move in found.moved)
            return Effects(found.added, found.removed, moved, found.more)
        only = before or after
        slots = [] if only is None else list(islice(only.between(self.first, self.last), SHOWN + 1))
        shown, more = tuple(slots[:SHOWN]), len(slots) > SHOWN
        return Effects(shown, (), (), more) if before is None else Effects((), shown, (), more)


def _step(change: Change) -> dict[str, Any]:
    """One change of a plan, as an approval covers it."""
    was = None if change.known is None else change.known.id
    return {"namespace": change.namespace, "id": change.id, "was": was, "steps": list(change.steps)}


def _declared(one: Declaration) -> dict[str, Any]:
    plain: dict[str, Any] = {"material": one.definition.material(), "enabled": one.enabled}
    return plain if one.was is None else {**plain, "was": one.was}


def _plan_body(text: str, file: str) -> dict[str, Any]:
    def bad(message: str) -> InvalidInput:
        return InvalidInput([Problem(message, file=file, hint="write it with `calsched plan --out FILE`")])

    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise bad("this is no saved plan: it is not JSON") from None
    wanted = {"format", "installation", "store", "prune", "declarations", "calendars", "digest"}
    if not isinstance(body, dict) or set(body) != wanted or body["format"] != _PLAN_FORMAT:
        raise bad("this is no saved plan of this version")
    try:
        wrong = next(faults(body), None)
    except TooMuch as error:
        raise bad(f"this is no saved plan: {error}") from None
    if wrong is not None:
        raise bad(f"this plan was changed after it was saved: {wrong[1]} is in it")
    said = body.pop("digest")
    if said != digest(body):
        raise bad("this plan was changed after it was saved")
    return body


def _planned(body: Mapping[str, Any], known: Mapping[str, BusinessCalendar], file: str) -> Checked:
    """The declarations of a saved plan, which were checked when it was made; its digest says that they are those."""
    declared = {name: Resolved(name, material) for name, material in body["calendars"].items()}
    calendars = dict(known)
    for name, one in declared.items():
        before = known.get(name)
        if before is None or before.digest != one.digest:
            calendars[name] = one.calendar(1 if before is None else before.version + 1)
    declarations = []
    for plain in body["declarations"]:
        definition = Definition.from_material(plain["material"])
        trigger = build(definition.trigger, calendars=calendars, schedule_id=definition.id)
        declarations.append(Declaration(definition, trigger, plain["enabled"], plain.get("was"), file=file))
    return Checked(declarations, [], [], calendars, declared)


def read_plan(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput([Problem(f"cannot be read: {error}", file=str(path))]) from None


def is_plan(sources: Sequence[str]) -> bool:
    """Whether the argument of `apply` is a saved plan, whatever its name: JSON that says so, not a declaration."""
    if len(sources) != 1 or Path(sources[0]).suffix.lower() in _NEVER_A_PLAN:
        return False
    try:
        file = Path(sources[0])
        body = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(body, dict) and "declarations" in body and "installation" in body
