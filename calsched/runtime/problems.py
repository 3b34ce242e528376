"""What an owner meets that a person has to mend: definitions that cannot be used, and work that nobody here can run.

Each is logged when it is met, and not again while it stays the same. A pass (``calsched tick``) reports those that are
there at its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from calsched import logs
from calsched.runtime.narrate import printable

log = logs.get("calsched.pump")

#: invalid: paused, because what is stored of it cannot be used; failed: it could not be judged, and is tried again;
#: unloadable: left to owners that can load it; executor: work is ready for an executor that this owner does not have.
Kind = Literal["invalid", "failed", "unloadable", "executor"]
#: So many are remembered; after that each may be told once more.
MOST = 1_000


class Problem(NamedTuple):
    kind: Kind
    namespace: str
    id: str
    message: str


class Problems:
    """Used by the pump's thread only."""

    def __init__(self) -> None:
        self._met: dict[tuple[Kind, str, str], Problem] = {}

    def all(self) -> tuple[Problem, ...]:
        return tuple(self._met.values())

    def met(self, kind: Kind, namespace: str, id: str, message: str) -> None:
        """Remember it, and say so unless it was said before. A pause is an event of its own and always said."""
        key = kind, namespace, id
        before = self._met.get(key)
        if len(self._met) >= MOST:
            self._met.clear()
        self._met[key] = Problem(kind, namespace, id, message)
        if kind == "invalid" or before is None or before.message != message:
            log.error("%s: %s", printable(id, 100), printable(message, 600))

    def over(self, kind: Kind, found: Iterable[tuple[str, str]]) -> None:
        """These schedules are in order again."""
        if self._met:
            for namespace, id in found:
                self._met.pop((kind, namespace, id), None)

    def only(self, kind: Kind, found: Iterable[tuple[str, str]]) -> None:
        """Of this kind there are no others any more."""
        kept = set(found)
        self._met = {key: one for key, one in self._met.items() if key[0] != kind or key[1:] in kept}
