"""A backup with one value altered and signed anew is refused, or leaves a store that can be looked at."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from calsched.cli.main import app
from calsched.clock import FIRST_INSTANT, LAST_INSTANT
from calsched.stores.columns import TABLES
from calsched.stores.engine import Store
from calsched.stores.schema import tables
from calsched.stores.tables import dump
from tests.cli.conftest import CommandLine
from tests.stores._helpers import T0, Ledger, SteppedClock
from tests.stores.test_backup import lived, signed, taken

LOOKS = (
    ("list",), ("doctor",), ("show", "a"), ("history", "b"), ("show", "paused", "--json"), ("history", "a", "--json"),
    ("why", "a", "2027-01-15T08:00:00Z"), ("why", "b", "2027-01-15T08:02:00Z"),
)  # fmt: skip

WHOLE = st.sampled_from(
    [0, 1, -1, 2**31, 2**53, 2**62, -(2**62), 2**63 - 1, FIRST_INSTANT, FIRST_INSTANT - 1, LAST_INSTANT, 10**15]
) | st.integers(-(2**63), 2**63 - 1)
TEXT = st.sampled_from(
    ["", "x", "null", "[]", "{}", "7", '"x"', '{"facts":[]}', "[[[", "enabled", "paused", "operator", "running",
     "ready", "failed", "slot", "manual", "represented", "2026", "2026-01-01", "backward", "\u202e", "\x1b[2J"]
) | st.text(max_size=40)  # fmt: skip
KINDS: dict[type, st.SearchStrategy[Any]] = {int: WHOLE, str: TEXT, bool: st.booleans()}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The lines of a good backup, without its end."""
    folder = tmp_path_factory.mktemp("sound")
    store = Store(f"sqlite:///{folder / 'source.db'}", clock=SteppedClock(T0))
    store.open()
    lived(Ledger(store))
    taken(store, folder / "b")
    store.dispose()
    return [json.loads(line) for line in (folder / "b").read_text().splitlines()[:-1]]


def places(sound: list[Any]) -> list[tuple[int, int, dump.Shape]]:
    """Line, column and shape of every value."""
    found: list[tuple[int, int, dump.Shape]] = []
    shapes: list[dump.Shape] = []
    for number, line in enumerate(sound):
        if isinstance(line, list):
            found += [(number, at, shape) for at, shape in enumerate(shapes)]
        elif "table" in line:
            shapes = list(dump.shapes(tables(), line["table"]).values())
    return found


def look(folder: Path, altered: list[Any]) -> None:
    for old in folder.glob("calsched.db*"):
        old.unlink()
    (folder / "b").write_bytes(signed(altered))
    done = CliRunner().invoke(app, ["restore", "b"])
    assert "internal error" not in done.output and done.exit_code in (0, 2), done.output
    for command in LOOKS if done.exit_code == 0 else ():
        seen = CliRunner().invoke(app, list(command))
        assert "internal error" not in seen.output and seen.exit_code in (0, 1), (command, seen.output)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_one_altered_value_is_refused_or_leaves_a_store_that_can_be_looked_at(
    data: st.DataObject, cli: CommandLine, sound: list[Any]
) -> None:
    line, at, shape = data.draw(st.sampled_from(places(sound)))
    altered = copy.deepcopy(sound)
    altered[line][at] = data.draw(st.none() | KINDS[shape.kind] if shape.nullable else KINDS[shape.kind])
    look(cli.folder, altered)


@pytest.mark.parametrize("table", dump.ORDER)
def test_every_column_of_a_backup_has_a_rule(table: str) -> None:
    assert set(TABLES[table]) == set(dump.columns(tables(), table))
