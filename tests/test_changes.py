"""What files change in a store, as a table: nothing is undone that an operator did."""

from __future__ import annotations

from typing import Any

import pytest

from calsched.changes import NO_EFFECTS, Change, ChangeSet, Known, find, fingerprint
from calsched.declare.declaration import Declaration
from calsched.model import Definition, Task
from calsched.triggers import build

HOURLY = {"kind": "interval", "intervalMs": 3_600_000}


def definition(id: str = "a", **values: Any) -> Definition:
    trigger = build(values.pop("trigger", HOURLY)).spec()
    return Definition(id=id, trigger=trigger, task=Task(callable="jobs:run"), owner="team", **values)


def declared(id: str = "a", *, enabled: bool = True, was: str | None = None, **values: Any) -> Declaration:
    d = definition(id, **values)
    return Declaration(d, build(d.trigger), enabled, was)


def known(id: str = "a", state: str = "enabled", reason: str | None = None, **values: Any) -> Known:
    owner = values.pop("owner", "team")
    d = definition(id, **values)
    return Known("default", id, state, reason, 1, d.digest(), owner, d.material())


def changes(declarations: list[Declaration], stored: list[Known], *, prune: bool = False) -> ChangeSet:
    return find(declarations, stored, calendars={}, prune=prune, effects=lambda old, new: NO_EFFECTS)


def steps(declarations: list[Declaration], stored: list[Known], *, prune: bool = False) -> dict[str, tuple[str, ...]]:
    return {change.id: change.steps for change in changes(declarations, stored, prune=prune).changes}


@pytest.mark.parametrize(
    ("case", "declaration", "stored", "expected"),
    [
        ("a new one is created", declared(), None, ("create",)),
        ("the same stays as it is", declared(), known(), ()),
        ("a paused one stays paused", declared(), known(state="paused", reason="operator"), ()),
        ("one that failures paused stays paused", declared(), known(state="paused", reason="failures"), ()),
        ("one that an operator disabled stays disabled", declared(), known(state="disabled", reason="operator"), ()),
        ("another rule revises", declared(grace=1000), known(), ("revise",)),
        ("a paused one is revised and stays paused", declared(grace=1), known(state="paused", reason="operator"),
         ("revise",)),
        ("another description makes no revision", declared(description="new"), known(), ("reword",)),
        ("a retired one is put back", declared(), known(state="disabled", reason="retired"), ("restore",)),
        ("a retired one is put back with its new rule", declared(grace=5), known(state="disabled", reason="retired"),
         ("restore", "revise")),
        ("the file switches it off", declared(enabled=False), known(), ("disable",)),
        ("the file switches a paused one off", declared(enabled=False), known(state="paused", reason="operator"),
         ("disable",)),
        ("the file leaves off what is off", declared(enabled=False), known(state="disabled", reason="operator"), ()),
        ("the file switches on what a file switched off", declared(), known(state="disabled", reason="declared"),
         ("enable",)),
        ("an ended one with the same rule stays ended", declared(), known(state="ended", reason="exhausted"), ()),
    ],
)  # fmt: skip
def test_what_becomes_of_a_declared_schedule(
    case: str, declaration: Declaration, stored: Known | None, expected: tuple[str, ...]
) -> None:
    assert steps([declaration], [stored] if stored else []) == {"a": expected}, case


def test_a_rename_carries_the_stored_schedule_over() -> None:
    assert steps([declared("new", was="old")], [known("old")]) == {"new": ("rename",)}


def test_a_rename_with_another_rule_revises_too() -> None:
    assert steps([declared("new", was="old", grace=1)], [known("old")]) == {"new": ("rename", "revise")}


def test_a_rename_that_was_done_already_changes_nothing() -> None:
    assert steps([declared("new", was="old")], [known("new")]) == {"new": ()}


def test_two_schedules_cannot_be_renamed_from_one() -> None:
    found = changes([declared("b", was="a"), declared("c", was="a")], [known("a")])
    assert [problem.path for problem in found.problems] == ["c.was"]


def test_without_prune_what_is_not_declared_stays() -> None:
    assert steps([], [known("a")]) == {"a": ()}


def test_prune_retires_what_the_same_owner_no_longer_declares_and_nothing_else() -> None:
    stored = [known("a"), known("gone"), known("theirs", owner="others"), known("nobodys", owner=None)]
    assert steps([declared("a")], stored, prune=True) == {"a": (), "gone": ("retire",), "theirs": (), "nobodys": ()}


def test_prune_leaves_what_is_retired_or_cancelled_already() -> None:
    stored = [known("a"), known("old", "disabled", "retired"), known("dead", "cancelled")]
    assert steps([declared("a")], stored, prune=True) == {"a": (), "old": (), "dead": ()}


def test_prune_without_an_owner_in_any_file_is_refused() -> None:
    found = changes([], [known("a")], prune=True)
    assert "names an owner" in found.problems[0].message
    assert found.pending == ()


def test_a_schedule_of_another_owner_cannot_be_taken_over() -> None:
    found = changes([declared("a")], [known("a", owner="others")])
    assert [(p.path, "'others'" in p.message) for p in found.problems] == [("a.owner", True)]


def test_effects_are_asked_only_where_something_changes() -> None:
    asked: list[tuple[str | None, str | None]] = []

    def effects(old: Definition | None, new: Definition | None) -> Any:
        asked.append((old.id if old else None, new.id if new else None))
        return NO_EFFECTS

    stored = [known("same"), known("other"), known("words"), known("gone")]
    declarations = [declared("same"), declared("other", grace=1), declared("words", description="x"), declared("new")]
    find(declarations, stored, calendars={}, prune=True, effects=effects)
    assert sorted(asked, key=str) == [("gone", None), ("other", "other"), (None, "new")]


def test_the_fingerprint_tells_when_the_store_moved_on() -> None:
    before = fingerprint([known()], {"de": 1})
    assert fingerprint([known()], {"de": 1}) == before
    others = [
        fingerprint([known(state="paused", reason="operator")], {"de": 1}),
        fingerprint([known(grace=1)], {"de": 1}),
        fingerprint([known()], {"de": 2}),
        fingerprint([known(), known("b")], {"de": 1}),
    ]
    assert before not in others
    assert len(set(others)) == 4


def test_a_change_without_steps_is_not_pending() -> None:
    found = changes([declared("a"), declared("b")], [known("a")])
    assert [change.id for change in found.pending] == ["b"]
    assert all(isinstance(change, Change) for change in found.changes)
