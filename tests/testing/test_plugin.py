"""The plugin as a stranger's pytest loads it: light, with a fixture, and with a marker that says what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from calsched.testing import VirtualApp
from tests.testing.test_testing_page import INI, run_pytest

HEAVY = ("sqlalchemy", "apscheduler", "pydantic", "typer", "rich", "yaml", "alembic", "freezegun", "calsched.app")


def test_the_plugin_imports_nothing_heavy_until_the_fixture_is_used() -> None:
    probe = f"import calsched.pytest_plugin, sys; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


def test_the_fixture_is_an_app_of_the_tests_own(calsched_app: VirtualApp) -> None:
    assert calsched_app.list().schedules == ()
    assert calsched_app.clock.now() == 1_767_225_600_000  # 2026-01-01T00:00:00Z


def test_a_wrong_marker_is_told_and_an_unused_fixture_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "test_some.py").write_text(
        "import sys, pytest\n"
        "def test_light():\n    assert 'sqlalchemy' not in sys.modules\n"
        "@pytest.mark.calsched('2026-01-01')\ndef test_wrong(calsched_app):\n    pass\n"
    )
    said = run_pytest(tmp_path)
    assert "1 passed, 1 error" in said
    assert "the marker takes keywords only: calsched(start=" in said
