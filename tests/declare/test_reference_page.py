"""docs/declarations.md: its tables are those of the code, and each of its examples does what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import jsonschema
import pytest

from calsched.declare import json_schema
from calsched.declare.check import check
from calsched.declare.document import Format
from calsched.declare.read import read, read_all
from calsched.declare.reference import filled, undocumented
from calsched.declare.schema import TRIGGERS
from calsched.triggers import KINDS
from tests.declare._helpers import NOW, checked

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "declarations.md").read_text()
_FENCE = re.compile(r"^```(\w+)( \w+)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Example(NamedTuple):
    language: str
    note: str
    text: str


EXAMPLES = [Example(found[1], (found[2] or "").strip(), found[3]) for found in _FENCE.finditer(PAGE)]
GOOD = [example for example in EXAMPLES if example.language in ("yaml", "json", "toml") and not example.note]


def _format(example: Example) -> Format:
    return "json" if example.language == "json" else "yaml"


def test_the_tables_are_those_of_the_code() -> None:
    assert filled(PAGE) == PAGE, "run `python -m calsched.declare.reference` to write them anew"


def test_every_key_of_a_schedule_is_in_a_table() -> None:
    assert undocumented() == set()


def test_every_kind_of_trigger_has_a_table_and_an_example() -> None:
    assert set(TRIGGERS) == set(KINDS) - {"apscheduler", "startingAt"}
    for kind in TRIGGERS:
        assert f"<!-- table: trigger-{kind} -->" in PAGE
        assert f"kind: {kind}" in PAGE or kind in ("interval",)


@pytest.mark.parametrize("kind", TRIGGERS)
def test_the_keys_of_a_trigger_are_those_that_it_knows(kind: str) -> None:
    import importlib

    module = importlib.import_module(KINDS[kind][0])
    shape = {str(field.alias) for field in TRIGGERS[kind].model_fields.values()}
    assert shape - {"kind"} == set(module._FIELDS) | ({"timezone"} if kind == "interval" else set())


def test_the_page_has_examples() -> None:
    assert len(GOOD) > 12


@pytest.mark.parametrize("example", GOOD, ids=lambda example: example.text.split("\n")[0][:40])
def test_an_example_is_a_good_declaration_without_a_warning(example: Example) -> None:
    found = checked(example.text, _format(example))
    assert found.problems == []
    assert found.warnings == []
    assert found.declarations


@pytest.mark.parametrize("example", GOOD, ids=lambda example: example.text.split("\n")[0][:40])
def test_the_schema_accepts_each_example(example: Example) -> None:
    plain = read(example.text.encode(), _format(example)).plain
    jsonschema.Draft202012Validator(json_schema()).validate(plain)


def test_the_bad_example_has_the_problems_that_the_page_shows() -> None:
    position = next(i for i, example in enumerate(EXAMPLES) if example.note == "bad")
    said = EXAMPLES[position + 1].text.splitlines()
    assert [str(problem) for problem in checked(EXAMPLES[position].text).problems] == said


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize(
    "plain",
    [
        {"schedules": {"a": {"task": "jobs:run", "every": "1h", "graceSecond": 1}}},
        {"schedules": {"a": {"task": "jobs:run", "every": "1h", "overlap": "colesce"}}},
        {"schedules": {"a": {"task": "jobs:run", "every": "1h", "maxCatchUp": 101}}},
        {"schedules": {"a": {"task": "jobs:run", "every": "1 fortnight"}}},
        {"schedules": {"a": {"task": "jobs:run.x", "every": "1h"}}},
        {"schedules": {"a": {"task": "jobs:run", "trigger": {"kind": "calendar", "hours": 9}}}},
        {"schedules": {"a": {"task": {"kind": "ready"}, "every": "1h"}}},
        {"defaults": {"id": "x"}, "schedules": []},
        {"schedule": {}},
        3,
    ],
)
def test_the_schema_refuses_what_check_refuses(plain: object) -> None:
    assert not jsonschema.Draft202012Validator(json_schema()).is_valid(plain)


def test_the_weekday_example_is_good() -> None:
    found = check(read_all([ROOT / "docs" / "examples" / "weekday"]), now=NOW, allow=("jobs:*",))
    assert (found.problems, found.warnings) == ([], [])
    assert {one.definition.id for one in found.declarations} >= {"weekday-report", "flaky-upload", "heartbeat"}
    jsonschema.Draft202012Validator(json_schema()).validate(
        read(ROOT / "docs" / "examples" / "weekday" / "schedules.yaml").plain
    )
