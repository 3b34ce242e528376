"""Callables by name: what can be stored, and what a host's allow list lets through."""

from __future__ import annotations

import functools
import os
import sys
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from calsched.errors import InvalidInput
from calsched.runtime.callables import AllowList, load, name_of


def task() -> None: ...


class Holder:
    def method(self) -> None: ...

    @staticmethod
    def static() -> None: ...


def nested() -> Callable[[], None]:
    def inner() -> None: ...

    return inner


@pytest.fixture
def module() -> Iterator[str]:
    """A module ``fake_jobs`` that defines one function and imports another."""
    made: Any = types.ModuleType("fake_jobs")
    exec("def own(): return 'own'\nclass Kind: pass\nfrom os import system, path\nvalue = 3", made.__dict__)
    sys.modules["fake_jobs"] = made
    yield "fake_jobs"
    del sys.modules["fake_jobs"]


def test_a_function_and_a_class_have_a_name() -> None:
    assert name_of(task) == f"{__name__}:task"
    assert name_of(Holder) == f"{__name__}:Holder"
    assert name_of("jobs:send") == "jobs:send"


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda: None, "a lambda"),
        (functools.partial(task), "a partial of task"),
        (nested(), "the nested function inner"),
        (Holder().method, "the method"),
        (Holder.static, "which a class holds"),
        (Holder(), "a Holder"),
        (os.system, "a builtin"),
    ],
)
def test_what_has_no_name_is_refused_with_its_kind(function: Any, what: str) -> None:
    with pytest.raises(InvalidInput, match=what):
        name_of(function)


@pytest.mark.parametrize("ref", ["jobs", "jobs:os.system", "jobs:", ":send", "jobs:send()", "jobs:a b", "../jobs:x", 3])
def test_a_reference_is_exactly_module_and_name(ref: Any) -> None:
    with pytest.raises(InvalidInput, match="module:name"):
        load(ref)


def test_a_name_counts_only_in_the_module_that_defines_it(module: str) -> None:
    assert load(f"{module}:own")() == "own"
    with pytest.raises(InvalidInput, match="builtin_function"):
        load(f"{module}:system")
    with pytest.raises(InvalidInput, match="module, expected a function"):
        load(f"{module}:path")
    with pytest.raises(InvalidInput, match="int, expected a function"):
        load(f"{module}:value")


def test_an_imported_function_is_named_where_it_is_defined(module: str) -> None:
    sys.modules[module].borrowed = task  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput, match=f"only imported into 'fake_jobs'.*{__name__}:task"):
        load(f"{module}:borrowed")


def test_the_allow_list_is_asked_before_anything_is_imported() -> None:
    with pytest.raises(InvalidInput, match="not on this host's allow list"):
        load("antigravity:anything", AllowList(["jobs:*"]))
    assert "antigravity" not in sys.modules


def test_patterns_name_one_callable_or_a_module(module: str) -> None:
    assert "jobs:a" in AllowList(["jobs:a"])
    assert "jobs:b" not in AllowList(["jobs:a"])
    assert "jobs:b" in AllowList(["jobs:*"])
    assert "jobs.inner:b" not in AllowList(["jobs:*"])
    assert "jobs:b" not in AllowList([])
    assert "jobs:b" in AllowList(None)


def test_every_bad_pattern_is_named() -> None:
    with pytest.raises(InvalidInput) as caught:
        AllowList(["jobs:a", "*", "jobs:os.*", "jobs"])
    assert [problem.path for problem in caught.value.problems] == ["allow[1]", "allow[2]", "allow[3]"]


def test_a_module_that_does_not_import_is_one_line() -> None:
    with pytest.raises(InvalidInput) as caught:
        load("no_such_module_anywhere:x")
    assert str(caught.value) == (
        "callable: cannot import module 'no_such_module_anywhere': ModuleNotFoundError:"
        " No module named 'no_such_module_anywhere'"
    )


@pytest.mark.parametrize("leaving", ["SystemExit(3)", "GeneratorExit()", "KeyboardInterrupt()", "ValueError('no')"])
def test_a_module_that_leaves_when_it_is_imported_is_one_that_cannot_be_imported(
    leaving: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "leaving.py").write_text(f"raise {leaving}\n")
    asked = f"asked_{leaving.partition('(')[0]}"  # it stays imported
    (tmp_path / f"{asked}.py").write_text(f"def __getattr__(name):\n    raise {leaving}\n")
    with ThreadPoolExecutor(1) as elsewhere:  # in the main thread a KeyboardInterrupt is a person's
        for ref in ("leaving:job", f"{asked}:job"):
            told = elsewhere.submit(load, ref).exception()
            assert isinstance(told, InvalidInput), told
            assert leaving.partition("(")[0] in str(told)
