"""Whether a callable may be named: the host's allow list, a schedule's narrowing of it, and whether it can be had."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from calsched.declare.paths import escaped, shown
from calsched.declare.place import Place
from calsched.errors import InvalidInput


class Callables:
    """The host's answer to each reference, asked once."""

    def __init__(self, allow: Collection[str] | None, load: Callable[[str], Any] | None) -> None:
        self.allow, self.load = allow, load
        self._known: dict[str, tuple[str, str] | None] = {}

    def judge(self, ref: str, providers: Iterable[str] | None, place: Place) -> None:
        """Reports what keeps ``module:name`` from being used."""
        if ref not in self._known:
            self._known[ref] = self._complaint(ref)
        complaint = self._known[ref]
        if complaint is not None:
            place.problem(complaint[0], hint=complaint[1])
        elif providers is not None and not any(_provides(provider, ref) for provider in providers):
            listed = ", ".join(providers) or "nothing"
            place.problem(f"{shown(ref)} is not among this schedule's allowedProviders ({listed})")

    def _complaint(self, ref: str) -> tuple[str, str] | None:
        module = ref.partition(":")[0]
        if self.allow is not None and not _is_allowed(ref, self.allow):
            return f"{shown(ref)} is not on this host's allow list", f"the host may add {ref!r} or '{module}:*' to it"
        if self.allow is None or self.load is None:
            return None
        try:
            self.load(ref)
        except InvalidInput as invalid:
            first = invalid.problems[0]
            return _one_line(first.message), first.hint
        except Exception as error:  # whatever a module does when it is imported
            return _one_line(f"cannot be imported: {type(error).__name__}: {error}"), ""
        return None


def _is_allowed(ref: str, allow: Collection[str]) -> bool:
    if isinstance(allow, tuple | list | set | frozenset):
        return ref in allow or f"{ref.partition(':')[0]}:*" in allow
    return ref in allow


def _provides(provider: str, ref: str) -> bool:
    """A module stands for itself and what is below it; ``module:name`` and ``module:*`` as on an allow list."""
    module = ref.partition(":")[0]
    if ":" not in provider:
        return module == provider or module.startswith(provider + ".")
    return provider in (ref, f"{module}:*")


def _one_line(text: str) -> str:
    return escaped(" ".join(text.split())[:300])
