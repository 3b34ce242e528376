"""Callables by name: exactly ``module:name``, nothing else.

A name counts only in the module that defines it. ``jobs:os.system`` and an imported ``jobs:system`` are therefore never
reachable through an allow-list that names ``jobs:*``. The list is asked before a module is imported, and the defining
module is checked again each time a callable is loaded.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any

from calsched.errors import InvalidInput, Problem

_FORM = "exactly 'module:name', the name without dots"
#: What a spawned child calls the parent's main module.
_MAIN = ("__main__", "__mp_main__")
_COMPILED = "cython_function_or_method"


def split(ref: Any, path: str = "callable") -> tuple[str, str]:
    """Module and name of a reference. Raises InvalidInput where it is not exactly ``module:name``."""
    if not isinstance(ref, str):
        raise InvalidInput([Problem(f"expected {_FORM}, got {type(ref).__name__}", path)])
    module, colon, name = ref.partition(":")
    if not colon or not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise InvalidInput([Problem(f"expected {_FORM}, got {ref!a}", path)])
    return module, name


def name_of(function: Any, path: str = "callable") -> str:
    """The reference of a function or class. Raises InvalidInput where none can be stored.

    A text is taken as the reference itself and only checked for its form.
    """
    if isinstance(function, str):
        split(function, path)
        return function
    why = _why_nameless(function)
    if why:
        hint = "define a function at the top of a module and pass its arguments with args= and kwargs="
        raise InvalidInput([Problem(f"{why} has no name that can be stored", path, hint=hint)])
    return f"{function.__module__}:{function.__qualname__}"


def _why_nameless(function: Any) -> str:
    if isinstance(function, functools.partial):
        return f"a partial of {getattr(function.func, '__qualname__', function.func)!s}"
    if inspect.ismethod(function):
        return f"the method {function.__qualname__}"
    if not _is_plain(function):
        return f"a {type(function).__name__}"
    name = function.__qualname__
    if "<lambda>" in name:
        return "a lambda"
    if "<locals>" in name:
        return f"the nested function {name.rpartition('.')[2]}"
    if "." in name:
        return f"{name}, which a class holds,"
    return ""


def _is_plain(value: Any) -> bool:
    return isinstance(value, FunctionType | type) or type(value).__name__ == _COMPILED


class AllowList:
    """What a host lets schedules call: ``module:name`` and ``module:*``. None allows every name of the right form."""

    __slots__ = ("_names", "_whole", "patterns")

    def __init__(self, patterns: Iterable[str] | None = None) -> None:
        self.patterns = None if patterns is None else tuple(patterns)
        self._names: set[str] = set()
        self._whole: set[str] = set()
        problems: list[Problem] = []
        for i, pattern in enumerate(self.patterns or ()):
            self._take(pattern, f"allow[{i}]", problems)
        if problems:
            raise InvalidInput(problems)

    def _take(self, pattern: str, path: str, problems: list[Problem]) -> None:
        try:
            module, name = split(pattern[:-1] + "x" if str(pattern).endswith(":*") else pattern, path)
        except InvalidInput:
            problems.append(Problem(f"expected 'module:name' or 'module:*', got {pattern!a}", path))
            return
        if pattern.endswith(":*"):
            self._whole.add(module)
        else:
            self._names.add(f"{module}:{name}")

    def __contains__(self, ref: str) -> bool:
        if self.patterns is None:
            return True
        return ref in self._names or ref.partition(":")[0] in self._whole

    def require(self, ref: str, path: str = "callable") -> None:
        """Raises InvalidInput where the reference is malformed or not on the list."""
        module, _ = split(ref, path)
        if ref not in self:
            hint = f"the host may add {ref!r} or '{module}:*' to its allow list"
            raise InvalidInput([Problem(f"{ref!r} is not on this host's allow list", path, hint=hint)])


ALLOW_ALL = AllowList(None)


def load(ref: str, allow: AllowList = ALLOW_ALL, path: str = "callable") -> Callable[..., Any]:
    """The function or class of a reference. Raises InvalidInput where it may not or cannot be had."""
    allow.require(ref, path)
    module_name, name = split(ref, path)
    module = _import(module_name, path)
    try:
        found = getattr(module, name)
    except AttributeError:
        raise InvalidInput([Problem(f"module {module_name!r} has no {name!r}", path)]) from None
    except BaseException as exc:  # a module's own __getattr__
        raise _unusable(module_name, exc, path) from None
    if not _is_plain(found):
        raise InvalidInput([Problem(f"{ref!r} is a {type(found).__name__}, expected a function or class", path)])
    home = found.__module__
    if home != module_name and not (home in _MAIN and module_name in _MAIN):
        hint = f"name it where it is defined, '{home}:{found.__name__}', if the host allows that"
        raise InvalidInput([Problem(f"{name!r} is only imported into {module_name!r}", path, hint=hint)])
    return found  # type: ignore[no-any-return]


def _import(name: str, path: str) -> ModuleType:
    try:
        return sys.modules.get(name) or importlib.import_module(name)
    except BaseException as exc:  # scripts leave by sys.exit(); an owner must not leave with them
        raise _unusable(name, exc, path) from None


def _unusable(module: str, exc: BaseException, path: str) -> BaseException:
    if isinstance(exc, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        return exc  # a person's Ctrl-C
    return InvalidInput([Problem(f"cannot import module {module!r}: {type(exc).__name__}: {exc}", path)])
