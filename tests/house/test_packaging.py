"""The house is as it says: packages listed by hand match the tree, imports stay light, bare names are refused."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("typer", "rich", "yaml", "alembic")


def _project() -> dict[str, object]:
    settings: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return settings


def test_the_packages_listed_by_hand_are_the_packages_of_the_tree() -> None:
    found = {
        ".".join(init.parent.relative_to(ROOT).parts)
        for top in ("calsched", "stores", "policies")
        for init in (ROOT / top).rglob("__init__.py")
        if "stores" not in init.relative_to(ROOT).parts[1:2] and "policies" not in init.relative_to(ROOT).parts[1:2]
    }
    named = {name if name.startswith("calsched") else f"calsched.{name}" for name in found}
    tool = _project()["tool"]
    assert isinstance(tool, dict)
    assert sorted(named) == sorted(tool["setuptools"]["packages"])


@pytest.mark.parametrize("name", ["stores", "policies"])
def test_a_mapped_package_refuses_its_bare_name(name: str) -> None:
    with pytest.raises(ImportError, match=f"import calsched.{name}"):
        importlib.import_module(name)


@pytest.mark.parametrize(
    "statement",
    [
        "import calsched",
        "from calsched import CalendarTrigger, OccurrenceJobStore, durable; OccurrenceJobStore",
    ],
)
def test_importing_calsched_in_an_apscheduler_app_stays_light(statement: str) -> None:
    probe = f"{statement}; import sys; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, cwd=ROOT, check=True)
    assert ran.stdout.split() == []


def test_the_readme_never_tells_anyone_to_install_the_name_that_belongs_to_somebody_else() -> None:
    texts = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert [str(t) for t in texts if "pip install calsched" in t.read_text()] == []


def test_dateutil_is_for_tests_and_docs_only() -> None:
    sources = [file for top in ("calsched", "stores", "policies") for file in (ROOT / top).rglob("*.py")]
    using = [str(file) for file in sources if re.search(r"^\s*(from|import) dateutil", file.read_text(), re.MULTILINE)]
    project, groups = _project()["project"], _project()["dependency-groups"]
    assert isinstance(project, dict)
    assert isinstance(groups, dict)
    assert using == []
    assert [one for one in project["dependencies"] if "dateutil" in one] == []
    assert [one for one in groups["test"] if one.startswith("python-dateutil")]
