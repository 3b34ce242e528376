"""A ledger in a file with a clock of its own, and the owner without threads on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from calsched.runtime.inline import InlineOwner
from calsched.runtime.parts import Settings
from calsched.stores.engine import Store
from calsched.testing import SettableClock


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(f"sqlite:///{tmp_path / 'ledger.db'}", clock=SettableClock("2026-01-01T00:00:00Z"))
    made.open()
    yield made
    made.dispose()


@pytest.fixture
def owner(store: Store) -> Iterator[InlineOwner]:
    made = InlineOwner(store, Settings(name="inline"))
    made.open()
    yield made
    made.verbs.release()
