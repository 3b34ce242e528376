"""``App``: the one place that puts the parts of calsched together; the edges (cli, agent, testing) call no other."""

from __future__ import annotations

from calsched.app.files import Files

__all__ = ["App"]


class App(Files):
    """A host's view of one store."""
