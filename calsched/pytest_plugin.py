"""The pytest plugin of calsched: the fixture ``calsched_app`` and the marker ``calsched``.

It is loaded in every pytest run of an environment that has calsched, so it imports nothing until the fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from calsched.testing import VirtualApp

_MARKER = "calsched(start=..., timezone=..., freeze=...): options of the VirtualApp that the fixture calsched_app gives"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def calsched_app(request: pytest.FixtureRequest) -> Iterator[VirtualApp]:
    """An app on an empty ledger in memory, in time that the test moves. See ``docs/testing.md``."""
    from calsched.testing import VirtualApp

    marker = request.node.get_closest_marker("calsched")
    if marker is not None and marker.args:
        pytest.fail(f"the marker takes keywords only: {_MARKER}")
    with VirtualApp(**({} if marker is None else marker.kwargs)) as app:
        yield app
