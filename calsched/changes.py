"""What a set of declaration files would change in a store: pure, and computed before anything is written.

::

    declared, not stored                              create (or rename, where ``was`` names a stored one)
    declared and stored, same material                leave
    ...  only other words (description, owner)        reword
    ...  other material                               revise: pending work, pause and disablement carry over
    ...  stored one is retired                        restore, then as above
    ...  the file switches it off or on               disable | enable
    stored, not declared, same declared owner         retire, with ``prune``; else leave

What an operator did survives: a paused schedule stays paused, an overdue one overdue. ``enabled`` in a file moves a
schedule only where the file itself is what changed: one that an operator disabled is not enabled by a deploy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from calsched.declare.declaration import Declaration
from calsched.errors import Problem
from calsched.model import Definition, digest

Step = Literal["create", "rename", "restore", "reword", "revise", "enable", "disable", "retire"]

#: What may change without a new revision: nothing that is due depends on it.
WORDS = ("description", "owner")
#: Reasons of ``disabled`` that a file gave, so that a file may take them back.
BY_FILE = "declared"
RETIRED = "retired"


class Known(NamedTuple):
    """A schedule as the store has it."""

    namespace: str
    id: str
    state: str
    reason: str | None
    revision: int
    digest: str
    owner: str | None
    material: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.id


class Effects(NamedTuple):
    """Due instants of the coming days that a change adds, removes or moves (old, new). ``more``: there are others."""

    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    moved: tuple[tuple[int, int], ...] = ()
    more: bool = False

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.moved)


NO_EFFECTS = Effects()


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one schedule. No steps: it stays as it is."""

    namespace: str
    id: str
    steps: tuple[Step, ...] = ()
    declaration: Declaration | None = None
    known: Known | None = None
    keys: tuple[str, ...] = ()  # of the material that differ
    effects: Effects = NO_EFFECTS


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """All changes, by namespace and id. ``store`` is the state that they were computed against.

    ``calendars`` are those that get a new version; schedules that follow one have effects and no steps.
    """

    changes: tuple[Change, ...]
    problems: tuple[Problem, ...]
    store: str
    calendars: tuple[str, ...] = ()
    undeclared: tuple[str, ...] = ()  # ids of the same owners that are left as they are, for want of ``prune``

    @property
    def pending(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.steps or change.effects)


def fingerprint(known: Iterable[Known], calendars: Mapping[str, int]) -> str:
    """What a saved plan remembers of the store: what is declared there, and in which state; not how far it has run."""
    rows = sorted([k.namespace, k.id, k.state, k.reason or "", k.revision, k.digest, k.owner or ""] for k in known)
    return digest({"schedules": rows, "calendars": dict(calendars)})


def find(
    declared: Sequence[Declaration],
    known: Sequence[Known],
    *,
    calendars: Mapping[str, int],
    prune: bool,
    changed_calendars: Collection[str] = (),
    effects: Callable[[Definition | None, Definition | None], Effects],
) -> ChangeSet:
    """Compare declarations with a store.

    ``calendars`` are the store's, by name with their newest version. ``effects`` compares the coming due instants of
    two definitions (None: not there) and is asked only where something changes.
    """
    stored = {one.key: one for one in known}
    problems: list[Problem] = []
    changes: list[Change] = []
    claimed: set[tuple[str, str]] = set()
    for declaration in declared:
        d = declaration.definition
        before = _before(declaration, stored, claimed, problems)
        if before is not None:
            claimed.add(before.key)
            _owned(declaration, before, problems)
        changes.append(_change(declaration, before, d, effects, changed_calendars))
    owners = {declaration.definition.owner for declaration in declared} - {None}
    if prune and not owners:
        problems.append(Problem("no file names an owner, so nothing can be pruned", hint="add `owner: NAME`"))
    rest = [one for one in known if one.key not in claimed]
    changes += [_undeclared(one, owners if prune else (), effects, changed_calendars) for one in rest]
    ordered = sorted(changes, key=lambda change: (change.namespace, change.id))
    left = () if prune else tuple(sorted(one.id for one in rest if _is_dropped(one, owners)))
    now = fingerprint(known, calendars)
    return ChangeSet(tuple(ordered), tuple(problems), now, tuple(sorted(changed_calendars)), left)


def _before(
    declaration: Declaration,
    stored: Mapping[tuple[str, str], Known],
    claimed: Collection[tuple[str, str]],
    problems: list[Problem],
) -> Known | None:
    d = declaration.definition
    found = stored.get((d.namespace, d.id))
    if declaration.was is None or found is not None:
        return found  # a rename that has been done already stays in the file for other stores
    old = stored.get((d.namespace, declaration.was))
    if old is not None and old.key in claimed:
        problems.append(_at(declaration, "was", f"{declaration.was!r} is declared or renamed by another schedule too"))
        return None
    return old


def _owned(declaration: Declaration, before: Known, problems: list[Problem]) -> None:
    mine = declaration.definition.owner
    if before.owner is not None and mine != before.owner:
        said = f"{before.id!r} belongs to owner {before.owner!r} in the store, not to {mine!r}"
        problems.append(_at(declaration, "owner", said, "let that owner drop it first, or choose another id"))


def _at(declaration: Declaration, path: str, message: str, hint: str = "") -> Problem:
    return Problem(message, f"{declaration.definition.id}.{path}", declaration.file, declaration.line, hint)


def _change(
    declaration: Declaration,
    before: Known | None,
    d: Definition,
    effects: Callable[[Definition | None, Definition | None], Effects],
    changed_calendars: Collection[str],
) -> Change:
    if before is None:
        shown = effects(None, d) if declaration.enabled else Effects()
        return Change(d.namespace, d.id, ("create",), declaration, None, (), shown)
    keys = differing(before.material, d.material())
    steps = _steps(declaration, before, keys)
    follows = before.state != "disabled" and any(name in changed_calendars for name in d.calendars)
    if not follows and not {"revise", "restore", "enable"} & set(steps):
        return Change(d.namespace, d.id, steps, declaration, before, keys)
    old = Definition.from_material(before.material) if before.state in ("enabled", "paused") else None
    return Change(d.namespace, d.id, steps, declaration, before, keys, effects(old, d))


def _steps(declaration: Declaration, before: Known, keys: tuple[str, ...]) -> tuple[Step, ...]:
    steps: list[Step] = []
    if before.id != declaration.definition.id:
        steps.append("rename")
    if before.reason == RETIRED and declaration.enabled:
        steps.append("restore")
    if set(keys) - set(WORDS):
        steps.append("revise")
    elif keys:
        steps.append("reword")
    if declaration.enabled and (before.state, before.reason) == ("disabled", BY_FILE):
        steps.append("enable")
    if not declaration.enabled and before.state in ("enabled", "paused"):
        steps.append("disable")
    return tuple(steps)


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys of the material that differ; the id (a rename) and calendar versions (a calendar's own change) aside."""
    aside = {"id", "calendars", "format"}
    keys = (before.keys() | after.keys()) - aside
    return tuple(sorted(key for key in keys if before.get(key) != after.get(key)))


def _is_dropped(known: Known, owners: Collection[str | None]) -> bool:
    """Whether the files of its owner declare it no longer, and nobody has drawn the consequence yet."""
    mine = known.owner is not None and known.owner in owners
    return mine and known.reason != RETIRED and known.state != "cancelled"


def _undeclared(
    known: Known,
    owners: Collection[str | None],
    effects: Callable[[Definition | None, Definition | None], Effects],
    changed_calendars: Collection[str],
) -> Change:
    collects = known.state == "enabled"
    if _is_dropped(known, owners):
        old = Definition.from_material(known.material) if collects else None
        return Change(known.namespace, known.id, ("retire",), known=known, effects=effects(old, None))
    if collects and any(name in changed_calendars for name in known.material.get("calendars", ())):
        d = Definition.from_material(known.material)
        return Change(known.namespace, known.id, known=known, effects=effects(d, d))
    return Change(known.namespace, known.id, known=known)
