"""Tests of your schedules in virtual time: no sleeping, no threads, the product's own verbs and runner.

``VirtualApp`` is an app in memory whose clock stands still until you move it; pytest users get one as the fixture
``calsched_app``. ``docs/testing.md`` shows how.
"""

from __future__ import annotations

from calsched.testing.app import Ran, VirtualApp
from calsched.testing.clock import SettableClock

__all__ = ["Ran", "SettableClock", "VirtualApp"]
