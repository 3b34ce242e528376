"""``App``: the one place that puts the parts of calsched together; the edges (cli, agent, testing) call no other."""

from __future__ import annotations

from calsched.app.calendars import Calendars
from calsched.app.care import Care
from calsched.app.hosted import Hosted
from calsched.app.running import Running
from calsched.app.simulation import Simulation
from calsched.app.upkeep import Upkeep
from calsched.app.why import Why

__all__ = ["App"]


class App(Calendars, Why, Care, Running, Simulation, Hosted, Upkeep):
    """A host's view of one store."""
