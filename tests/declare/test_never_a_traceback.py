"""Whatever a file says, checking it answers with problems: nothing raises, nothing hangs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from calsched.declare import check_plain
from calsched.declare.check import check
from calsched.declare.document import Document, Format
from calsched.declare.read import read
from calsched.declare.schema import TRIGGERS
from calsched.declare.shapes import Body, File
from calsched.errors import InvalidInput
from tests.declare._helpers import NOW

KEYS = sorted(str(field.alias) for shape in (Body, File) for field in shape.model_fields.values())
TRIGGER_KEYS = sorted({str(field.alias) for shape in TRIGGERS.values() for field in shape.model_fields.values()})

WORDS = (
    "a||jobs:run|skip|SKIP|boundedReplay|mon-fri|09:00|Europe/Berlin|* * * * *|1h|\x1b|2026-02-30|2026-12-01T00:00:00Z|"
    "2026-12-01T00:00:00|FREQ=DAILY|interval|calendar|once|cron"
)
words = st.sampled_from(WORDS.split("|"))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 100)
    | st.sampled_from([10**30, -(10**30), 1e300, 0.5, -0.0])
    | words
    | st.text(max_size=4)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from([*KEYS, *TRIGGER_KEYS, "$date", "$x", "kind", "triggers"]), inner, max_size=4),
    max_leaves=12,
)
triggers = st.dictionaries(st.sampled_from(TRIGGER_KEYS), values, max_size=4).flatmap(
    lambda fields: st.sampled_from([*TRIGGERS, "apscheduler", "startingAt"]).map(lambda kind: {**fields, "kind": kind})
)
bodies = st.dictionaries(st.sampled_from(KEYS), values, max_size=6).flatmap(
    lambda body: st.just(body) | triggers.map(lambda trigger: {**body, "trigger": trigger, "task": "jobs:run"})
)


@settings(deadline=None)
@given(st.one_of(values, bodies, st.lists(bodies, max_size=3), bodies.map(lambda body: {"schedules": {"a": body}})))
def test_checking_any_values_raises_nothing(plain: Any) -> None:
    found = check([Document(plain, "f")], now=NOW, default_zone="Europe/Berlin", allow=("jobs:*",))
    assert found.problems or all(declaration.definition.id for declaration in found.declarations)
    for line in map(str, found.problems + found.warnings):
        assert "\n" not in line and "\x1b" not in line


@settings(deadline=None)
@given(bodies)
def test_a_body_from_python_is_a_declaration_or_invalid_input(body: dict[str, Any]) -> None:
    try:
        definition = check_plain(body, now=NOW, default_zone="UTC").definition
    except InvalidInput as invalid:
        assert invalid.problems
    else:
        assert json.loads(json.dumps(definition.material())) == definition.material()


@settings(deadline=None)
@given(st.binary(max_size=60), st.sampled_from(["yaml", "json", "toml", None]))
def test_reading_any_bytes_raises_nothing(data: bytes, format: Format | None) -> None:
    document = read(data, format, file="f")
    assert document.readable or document.problems


PIECES = "a¦:¦ ¦\n¦- ¦{¦}¦[¦]¦\"¦'¦,¦&a¦*a¦<<¦!!x ¦? ¦| ¦> ¦# ¦=¦1¦9:30¦\\¦\t¦---\n¦...¦%¦@¦[[¦]]¦null¦NaN¦2026-02-30"
fragments = st.lists(st.sampled_from(PIECES.split("¦")), max_size=30).map("".join)


@settings(deadline=None)
@given(fragments, st.sampled_from(["yaml", "json", "toml"]))
def test_reading_any_text_that_looks_like_a_format_raises_nothing(text: str, format: Format) -> None:
    document = read(text.encode(), format, file="f")
    assert document.readable or document.problems
    for problem in check([document], now=NOW).problems:
        assert "\n" not in str(problem)


def test_importing_the_package_imports_neither_yaml_nor_pydantic() -> None:
    code = "import sys, calsched.declare; print(sorted({'yaml', 'pydantic'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_policies_from_python_need_no_yaml() -> None:
    code = "import sys; from calsched.declare import from_keywords; print('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
