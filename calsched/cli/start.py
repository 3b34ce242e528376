"""The start of a process of ours: it makes some hundred thousand objects, and each of them stays to the end.

Python's collector would walk through them again and again, at the start and once more at the end, which took more than
a third of the time of ``list``. It finds no garbage there.
"""

from __future__ import annotations

import gc


def begin() -> None:
    gc.disable()


def over() -> None:
    """What there is now is for good, and the collector looks at what is made from here on: that of tasks, say.

    Nothing happens where ``begin`` was not called: in somebody else's process the collector is theirs.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
