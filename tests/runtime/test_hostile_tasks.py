"""A task's own objects may do anything when they are asked what they are: the verdict is right all the same, and
nothing gets out that would take a pool of processes down."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from calsched.model import Claimed
from calsched.runtime.runner import Payload, run_in_child
from calsched.stores.views import OccurrenceView
from calsched.testing import VirtualApp

HERE = "tests.runtime.test_hostile_tasks"


class Untold(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Untraceable(Exception):
    @property
    def __cause__(self) -> Any:  # type: ignore[override]
        raise KeyboardInterrupt


class _Nameless(type):
    @property
    def __module__(cls) -> str:  # type: ignore[override]
        raise SystemExit(4)


class Nameless(Exception, metaclass=_Nameless):
    pass


class Shy:
    def __repr__(self) -> str:
        raise SystemExit(5)


class Trap(dict[str, int]):
    def items(self) -> Any:
        raise KeyboardInterrupt


def raise_untold() -> None:
    raise Untold


def raise_untraceable() -> None:
    raise Untraceable("told")


def raise_nameless() -> None:
    raise Nameless("told")


def return_shy() -> Shy:
    return Shy()


def return_trap() -> Trap:
    return Trap(a=1)


def refuse(value: Any) -> bool:
    return False


FAILING: list[tuple[Callable[[], Any], str]] = [
    (raise_untold, "(its message cannot be shown)"),
    (raise_untraceable, "told"),
    (raise_nameless, "told"),
]
RETURNING: list[tuple[Callable[[], Any], dict[str, str]]] = [
    (return_shy, {"$repr": "<Shy>"}),
    (return_trap, {"$repr": "{'a': 1}"}),
]


@pytest.mark.parametrize(("task", "message"), FAILING)
def test_an_exception_that_cannot_be_shown_is_a_failure(task: Callable[[], Any], message: str) -> None:
    with VirtualApp() as app:
        app.add(task, {"kind": "interval", "seconds": 60}, id="a")
        assert [ran.state for ran in app.advance(minutes=1)] == ["failed", "failed"]
        [entry, _] = app.history("a").entries
    assert isinstance(entry, OccurrenceView)
    assert entry.error == message


@pytest.mark.parametrize(("task", "kept"), RETURNING)
def test_a_result_that_cannot_be_shown_is_a_success(task: Callable[[], Any], kept: dict[str, str]) -> None:
    with VirtualApp() as app:
        app.add(task, {"kind": "interval", "seconds": 60}, id="a")
        assert [ran.state for ran in app.advance(minutes=1)] == ["succeeded", "succeeded"]
        [entry, _] = app.history("a").entries
    assert isinstance(entry, OccurrenceView)
    assert json.loads(entry.result or "") == kept


def _payload(task: Callable[[], Any], verify: str | None = None) -> Payload:
    claimed = Claimed(**{name: None for name in Claimed._fields})  # type: ignore[arg-type]  # nothing here reads it
    return Payload(
        ref=f"{HERE}:{task.__name__}", verify=verify, args=[], kwargs={}, allow=None, installation="i",
        claimed=tuple(claimed), flag_path="/nonexistent/flag", limit=None, deadline=None, workspaces=None,
    )  # fmt: skip


@pytest.mark.parametrize(("task", "message"), FAILING)
def test_no_exception_leaves_a_child_process(task: Callable[[], Any], message: str) -> None:
    report = run_in_child(_payload(task))
    assert report.state == "failed"
    assert report.failure is not None
    assert report.failure.message == message


@pytest.mark.parametrize(("task", "kept"), RETURNING)
def test_no_result_breaks_a_child_process(task: Callable[[], Any], kept: dict[str, str]) -> None:
    report = run_in_child(_payload(task))
    assert report.state == "succeeded"
    assert json.loads(report.result or "") == kept


def test_a_result_that_is_refused_need_not_show_itself() -> None:
    report = run_in_child(_payload(return_shy, verify=f"{HERE}:refuse"))
    assert report.failure is not None
    assert report.failure.message == f"{HERE}:refuse did not accept the result <Shy>"
