"""An outage of the store, told once when it begins and once when it ends; and what ``serve`` says about its health."""

from __future__ import annotations

from typing import NamedTuple

from calsched import logs
from calsched.clock import Clock, to_rfc3339
from calsched.errors import StoreNotOurs, StoreUnusable, StoreVersionDiffers

log = logs.get("calsched.pump")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
#: A fault that comes again after this many milliseconds counts as a new one.
FORGIVEN = 300_000


class Health(NamedTuple):
    """``since`` is when it became so (milliseconds, UTC)."""

    healthy: bool
    role: str  # new, standby, owner, stopping, stopped
    since: int
    reason: str = ""


class Trouble:
    """Failed rounds of the pump."""

    def __init__(self, clock: Clock, what: str) -> None:
        self._clock, self._what = clock, what
        self._since: int | None = None
        self._began = 0
        self._fine_since = clock.now()
        self._reason = ""
        self._pause = FIRST_PAUSE
        self._told: set[str] = set()
        self.rounds = 0
        self.last: BaseException | None = None
        self._faults: dict[str, tuple[int, int]] = {}  # how often in a row, and when the last one was

    @property
    def present(self) -> bool:
        return self._since is not None

    @property
    def is_lost(self) -> bool:
        """The store has answered, and what it said does not mend by being asked again."""
        return isinstance(self.last, StoreNotOurs | StoreVersionDiffers)

    def met(self, exc: BaseException) -> None:
        reason = _first_line(exc)
        if self._since is None:
            self._since, self._began = self._clock.now(), self._clock.monotonic()
            self._pause = FIRST_PAUSE
            self.rounds = 0
            self._told.clear()
        else:
            self._pause = min(LONGEST_PAUSE, self._pause * 2)
        self.rounds += 1
        self.last = exc
        self._reason = reason
        kind = type(exc).__name__
        if kind not in self._told:
            self._told.add(kind)
            self._tell(exc, reason)

    def _tell(self, exc: BaseException, reason: str) -> None:
        if self.is_lost:
            log.error("%s was lost: %s; nothing is judged or run any more", self._what, exc)
            return
        known = isinstance(exc, StoreUnusable) or _is_database_error(exc)
        log.error(
            "%s: %s; outcomes are kept, and the work goes on as soon as it answers",
            self._what,
            reason,
            exc_info=None if known else exc,
        )

    def fault(self, stage: str, exc: BaseException) -> float:
        """A verb failed while the store answers: a fault of ours, or of one row. Told once; seconds to let it be."""
        # the first line only: what follows in a database's error are the statement's values, and they hold the time
        key, mono = f"{stage}: {_first_line(exc)}", self._clock.monotonic()
        times, last = self._faults.get(key, (0, mono))
        times = times + 1 if mono - last < FORGIVEN else 1
        if times == 1:
            if len(self._faults) > 100:
                self._faults.clear()
            known = exc if not _is_database_error(exc) else None
            log.error("%s: %s failed, and is tried again: %s", self._what, stage, _first_line(exc), exc_info=known)
        self._faults[key] = times, mono
        return float(min(60.0, FIRST_PAUSE * 2 ** min(times - 1, 20)))

    def over(self) -> None:
        if self._since is None:
            return
        seconds = (self._clock.monotonic() - self._began) / 1000
        log.warning("%s: it answers again after %.1f s (%d tries failed)", self._what, seconds, self.rounds)
        self._since, self._fine_since, self._reason = None, self._clock.now(), ""
        self.last = None

    def pause(self) -> float:
        """Seconds to wait before the next try."""
        return self._pause if self._since is not None else 0.0

    def health(self, role: str) -> Health:
        if self._since is None:
            return Health(True, role, self._fine_since)
        return Health(False, role, self._since, f"since {to_rfc3339(self._since)}: {self._reason}")


def _first_line(exc: BaseException) -> str:
    return f"{type(exc).__name__}: {str(exc).splitlines()[0] if str(exc) else ''}"


def _is_database_error(exc: BaseException) -> bool:
    return any(base.__module__.startswith("sqlalchemy.") for base in type(exc).__mro__)
