"""``App``: the one place that puts the parts of calsched together; the edges (cli, agent, testing) call no other."""

from __future__ import annotations

from calsched.app.care import Care
from calsched.app.control import Control
from calsched.app.look import Look

__all__ = ["App"]


class App(Control, Look, Care):
    """A host's view of one store."""
