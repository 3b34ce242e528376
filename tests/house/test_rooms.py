"""Each room keeps to its business: who may import APScheduler, who may write SQL, who may read the clock."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATEMENTS = {"select", "insert", "update", "delete"}
#: Where a database's own words are spoken: its locks, its notifications, the predicates of its indexes.
DIALECTS = {"stores/engine.py", "stores/founding.py", "stores/schema.py", "stores/wake.py"}


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for top in ("calsched", "stores", "policies"):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).parts
            if top == "calsched" and parts[1] in ("stores", "policies"):
                continue
            yield "/".join(parts), ast.parse(path.read_text())


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


def _importers_of(package: str) -> set[str]:
    return {
        name
        for name, tree in _modules()
        if any(module == package or module.startswith(package + ".") for module, _ in _imported(tree))
    }


def test_only_triggers_runtime_and_the_job_store_know_apscheduler() -> None:
    allowed = ("calsched/triggers/", "calsched/runtime/", "stores/jobstore.py")
    assert {name for name in _importers_of("apscheduler") if not name.startswith(allowed)} == set()


def test_only_the_stores_know_sqlalchemy() -> None:
    assert {name for name in _importers_of("sqlalchemy") if not name.startswith("stores/")} == set()


def test_sql_statements_are_built_by_table_modules_and_migrations_only() -> None:
    builders: dict[str, set[str]] = {"statements": set(), "text": set()}
    for name, tree in _modules():
        if not name.startswith(("stores/tables/", "stores/migrations/")):
            words = {word for module, word in _imported(tree) if module.split(".")[0] == "sqlalchemy"}
            if words & STATEMENTS:
                builders["statements"].add(name)
            if "text" in words:
                builders["text"].add(name)
    assert builders["statements"] <= {"stores/engine.py"}  # the database's clock
    assert builders["text"] <= DIALECTS


def test_nobody_pickles() -> None:
    assert _importers_of("pickle") <= {"calsched/runtime/executors.py", "calsched/runtime/runner.py"}


def test_only_the_clock_reads_the_wall_clock() -> None:
    readers = {
        name
        for name, tree in _modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and (
            (isinstance(node.value, ast.Name) and node.value.id == "time" and node.attr in ("time", "time_ns"))
            or node.attr == "utcnow"
            or (
                node.attr in ("now", "today")
                and isinstance(node.value, ast.Name)
                and node.value.id in ("datetime", "date")
            )
        )
    }
    assert readers <= {"calsched/clock.py"}
