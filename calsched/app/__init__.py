"""``App``: the one place that puts the parts of calsched together; the edges (cli, agent, testing) call no other.

It is loaded when it is first used: a command that needs less (``--version``, a misspelt option) does not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calsched.app.whole import App as App

__all__ = ["App"]


def __getattr__(name: str) -> Any:
    if name != "App":
        raise AttributeError(f"module 'calsched.app' has no attribute {name!r}")
    from calsched.app.whole import App

    globals()["App"] = App
    return App
