"""freezegun, where the code under test reads the clock itself: its time follows the virtual one."""

from __future__ import annotations

from typing import Any

from calsched.clock import to_datetime

_PYTEST = ("_pytest.timing", "_pytest.runner")


class Frozen:
    """Time that freezegun has frozen, until ``stop``; ``given`` is a frozen time that somebody else began."""

    def __init__(self, start: int, given: Any = None) -> None:
        self._freezer: Any = None
        self._time = given if given is not None else self._begin(start)
        self.move(start)

    def _begin(self, start: int) -> Any:
        try:
            import freezegun
        except ModuleNotFoundError:
            raise RuntimeError("freeze=True needs freezegun, and it is not installed: pip install freezegun") from None
        # an event loop that saw frozen time would never wake up; pytest measures how long a test took
        self._freezer = freezegun.freeze_time(to_datetime(start), real_asyncio=True, ignore=list(_PYTEST))
        return self._freezer.start()

    def move(self, now: int) -> None:
        self._time.move_to(to_datetime(now))

    def stop(self) -> None:
        if self._freezer is not None:
            self._freezer.stop()
            self._freezer = None
