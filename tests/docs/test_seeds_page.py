"""docs/seeds.md names tests that exist, and every test of tests/seeds; every statement has a proof or a reason."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "seeds.md").read_text()
SEEDS = sorted((ROOT / "tests" / "seeds").glob("test_*.py"))
NAMED = re.compile(r"`((?:tests/)?[\w/]+\.py)::(\w+)`")
MODULE = re.compile(r"`((?:calsched|stores|policies|docs|tests)/[\w/.]*|Makefile)`")


@cache
def functions_of(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def place(file: str) -> Path:
    return ROOT / file if file.startswith("tests/") else ROOT / "tests" / "seeds" / file


def statements() -> list[list[str]]:
    """The rows of the tables of statements, as (statement, where, proof)."""
    rows = []
    for part in PAGE.split("\n## 0")[1:]:
        lines = [line for line in part.splitlines() if line.startswith("|")]
        rows += [[cell.strip() for cell in line[1:-1].split("|")] for line in lines[2:]]
    return rows


@pytest.mark.parametrize(("file", "name"), sorted(set(NAMED.findall(PAGE))))
def test_every_test_that_the_page_names_exists(file: str, name: str) -> None:
    assert name in functions_of(place(file))


@pytest.mark.parametrize("file", SEEDS, ids=lambda file: file.name)
def test_every_test_of_the_seeds_is_named_on_the_page(file: Path) -> None:
    named = {name for where, name in NAMED.findall(PAGE) if place(where) == file}
    assert {name for name in functions_of(file) if name.startswith("test_")} <= named


def test_every_statement_has_a_proof_or_says_why_not() -> None:
    rows = statements()
    assert len(rows) > 150
    for row in rows:
        assert len(row) == 3, row
        statement, _, proof = row
        assert statement
        if not NAMED.search(proof):
            assert proof.startswith(("**Context**: ", "**Differs**: ")), row


def test_every_place_that_the_page_names_is_there() -> None:
    for where in sorted(set(MODULE.findall(PAGE))):
        assert (ROOT / where).exists(), where
