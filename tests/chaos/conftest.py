from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos._crew import Crew


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    made = Crew(tmp_path / "journal")
    yield made
    made.close()
