"""The start of the command: it imports what the command needs, and no more; every user waits for it every time."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from calsched.cli import start
from calsched.cli.main import FAMILIES

OPTIONAL = ("cryptography", "mcp", "holidays", "icalendar", "watchfiles", "psycopg", "pymysql")
#: What nothing needs that only looks at a store of SQLite.
RARE = (*OPTIONAL, "yaml", "alembic", "croniter", "sqlalchemy.orm", "apscheduler.schedulers", "apscheduler.executors")
#: What help needs as little. (Of pydantic only our models: typer itself imports it to parse options.)
HEAVY = (*RARE, "sqlalchemy", "apscheduler", "asyncio", "calsched.declare.shapes")


def loaded(folder: Path, names: tuple[str, ...], *command: str) -> list[str]:
    """Which of the modules ``names`` a process has imported when the command has ended; the collector works there."""
    probe = (
        f"import gc, sys; sys.argv = ['calsched', *{command!r}]\n"
        "from calsched.entry import run\n"
        "try:\n    run()\n"
        "finally:\n"
        "    assert gc.isenabled() and gc.get_freeze_count() > 10_000\n"
        f"    print(*(name for name in {names!r} if name in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()[-1].split()


@pytest.mark.parametrize("command", [("--help",), ("--version",), ("list", "--help"), ("serve", "--help")])
def test_the_help_waits_for_nothing_heavy(tmp_path: Path, command: tuple[str, ...]) -> None:
    assert loaded(tmp_path, HEAVY, *command) == []


def test_looking_at_a_store_loads_neither_what_reads_files_nor_what_serves(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"schedules": {"a": {"every": "5m", "task": "jobs:run"}}}')
    assert "calsched.declare.shapes" in loaded(tmp_path, ("calsched.declare.shapes",), "create", "s.json")
    ours = ("calsched.declare.shapes", "calsched.runtime.serve", "calsched.stores.upgrade", "calsched.cli.files")
    assert loaded(tmp_path, (*RARE, *ours), "list") == []


def test_every_family_registers_the_commands_that_the_help_expects_of_it() -> None:
    probe = (
        "from calsched.cli.main import FAMILIES, app\n"
        "import typer.main\n"
        "root, before = typer.main.get_group(app), set()\n"
        "assert not root.commands\n"
        "for family, names in FAMILIES.items():\n"
        "    root.load([family])\n"
        "    assert names and set(root.commands) - before == set(names), (family, set(root.commands) - before)\n"
        "    before = set(root.commands)\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    here = {file.stem for file in Path(start.__file__).parent.glob("*.py") if "@command(" in file.read_text()}
    assert here == set(FAMILIES)


def test_the_collector_rests_during_the_start_and_works_afterwards() -> None:
    frozen = gc.get_freeze_count()
    start.over()
    assert gc.get_freeze_count() == frozen, "a process that is not ours"
    start.begin()
    try:
        assert not gc.isenabled()
        start.over()
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen
    finally:
        gc.enable()
        gc.unfreeze()
