"""Every error that calsched raises, with facts as attributes.

::

    CalschedError
    ├── InvalidInput            exit 2: a file, a field, an argument; carries every Problem at once
    │   └── TriggerInvalid      a rule that cannot be used: unknown zone, impossible day, a field out of bounds
    ├── Refused                 exit 1: the state of things does not allow it
    │   ├── UnknownSchedule
    │   ├── AlreadyExists       same revision, other material; or revision n+1 while n lives
    │   ├── StaleVersion        expected revision or state version is not the present one
    │   ├── PendingWork         waiting, running or retrying occurrences
    │   ├── MoveNotAllowed      the table of moves has no such move
    │   ├── ApprovalDenied      no approval, or one that does not hold inside the transaction
    │   ├── OwnedElsewhere      another process owns this store
    │   ├── Fenced              this owner's epoch is over
    │   └── OnHold              dispatch is blocked (clock uncertain, restored backup)
    └── StoreUnusable           exit 3
        ├── StoreUnreachable    the database does not answer
        │   └── StoreAbsent     it does, but there is no store in it yet
        ├── StoreBusy           other transactions were in the way, each time it was tried
        ├── StoreVersionDiffers another schema version: upgrade the store or the program
        └── StoreNotOurs        a database or file that calsched did not make, or that is corrupt
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from calsched.words import counted


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with an input, and where.

    ``path`` is written as in ``schedules[2].trigger.weekdays``; ``line`` counts from 1.
    """

    message: str
    path: str = ""
    file: str = ""
    line: int | None = None
    hint: str = ""

    def __str__(self) -> str:
        place = self.file
        if self.line is not None:
            place = f"{place}:{self.line}" if place else f"line {self.line}"
        parts = [part for part in (place, self.path) if part]
        text = ": ".join([*parts, self.message])
        return f"{text} ({self.hint})" if self.hint else text


class CalschedError(Exception):
    """The root of all errors of calsched. ``exit_code`` is what the command line returns."""

    exit_code = 1


class InvalidInput(CalschedError):
    """An input that cannot be used; ``problems`` holds everything that is wrong with it."""

    exit_code = 2

    def __init__(self, problems: Iterable[Problem] | str) -> None:
        self.problems: tuple[Problem, ...] = (
            (Problem(problems),) if isinstance(problems, str) else tuple(problems)
        )
        super().__init__("\n".join(str(problem) for problem in self.problems))


def unencodable(error: UnicodeEncodeError) -> InvalidInput:
    """What a driver, a file system or a digest says of a text that is none, told to who typed it."""
    text = ascii(error.object)
    shown = text if len(text) <= 60 else f"{text[:59]}…"
    return InvalidInput([Problem(f"expected text that UTF-8 can hold, got {shown}", hint="half a character is in it")])


class TriggerInvalid(InvalidInput):
    """A trigger that cannot be used. Each problem's ``path`` names the field, relative to the trigger."""


class Refused(CalschedError):
    """The state of things does not allow it; nothing was changed."""


class UnknownSchedule(Refused):
    """``renamed_to`` is the id that the schedule has now, where it was renamed."""

    def __init__(self, namespace: str, schedule_id: str, renamed_to: str | None = None) -> None:
        self.namespace, self.schedule_id, self.renamed_to = namespace, schedule_id, renamed_to
        hint = f"it was renamed to {renamed_to!r}" if renamed_to else "`calsched list` shows what there is"
        super().__init__(f"no schedule {schedule_id!r} in namespace {namespace!r}; {hint}")


class AlreadyExists(Refused):
    pass


class StaleVersion(Refused):
    def __init__(self, what: str, expected: int, actual: int) -> None:
        self.what, self.expected, self.actual = what, expected, actual
        super().__init__(
            f"expected {what} {expected}, but it is {actual} now; look again (`calsched show`) and decide on that"
        )


_CANCEL_FIRST = "cancel the schedule first (`calsched cancel`)"


class PendingWork(Refused):
    """``way_out`` is what to do instead of waiting, where the caller knows a better way than to cancel first."""

    def __init__(self, schedule_id: str, pending: int, way_out: str = "") -> None:
        self.schedule_id, self.pending = schedule_id, pending
        super().__init__(
            f"{schedule_id!r} has {counted(pending, 'occurrence')} waiting, running or retrying;"
            f" let {'it' if pending == 1 else 'them'} finish, or {way_out or _CANCEL_FIRST}"
        )


class MoveNotAllowed(Refused):
    def __init__(self, schedule_id: str, state: str, action: str, why: str = "") -> None:
        self.schedule_id, self.state, self.action = schedule_id, state, action
        super().__init__(f"{schedule_id!r} is {state}: {action} is not possible{': ' + why if why else ''}")


class ApprovalDenied(Refused):
    pass


class OwnedElsewhere(Refused):
    def __init__(self, owner: str, pid: int | None, store: str) -> None:
        self.owner, self.pid, self.store = owner, pid, store
        who = f"{owner} (pid {pid})" if pid is not None else owner
        super().__init__(
            f"{store} is owned by {who}; stop it, or start this one with standby so that it waits its turn"
        )


class Fenced(Refused):
    """This owner's lease was taken over; what it reports now is kept as evidence, never as an outcome."""


class OnHold(Refused):
    pass


class StoreUnusable(CalschedError):
    exit_code = 3


class StoreUnreachable(StoreUnusable):
    pass


class StoreAbsent(StoreUnreachable):
    """The database answers, or its file could be made, but nobody has made a store there yet."""


class StoreBusy(StoreUnusable):
    """The transaction lost against others, and nothing of it was written: trying again may do."""


class StoreVersionDiffers(StoreUnusable):
    pass


class StoreNotOurs(StoreUnusable):
    pass
