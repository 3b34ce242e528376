"""The whole app; each of its parts is a module beside this one, and further parts are added to the bases here."""

from __future__ import annotations

from calsched.app.backfill import Backfill
from calsched.app.calendars import Calendars
from calsched.app.care import Care
from calsched.app.hosted import Hosted
from calsched.app.running import Running
from calsched.app.simulation import Simulation
from calsched.app.upkeep import Upkeep
from calsched.app.why import Why


class App(Backfill, Calendars, Why, Care, Running, Simulation, Hosted, Upkeep):
    """A host's view of one store."""
