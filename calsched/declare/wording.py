"""What a shape refuses, in our words: what was expected, what was found, the nearest known key."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from calsched.declare.paths import Path, shown
from calsched.declare.shapes import ELSEWHERE


class Said(NamedTuple):
    path: Path
    message: str
    hint: str = ""


def said(error: ValidationError, shape: type[BaseModel]) -> Iterator[Said]:
    """Every complaint of a shape."""
    for detail in error.errors(include_url=False):
        path = tuple(step for step in detail["loc"] if not (isinstance(step, str) and step.startswith("‹")))
        yield _said(detail, path, shape)


def _said(detail: Any, path: Path, shape: type[BaseModel]) -> Said:
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return unknown_key(path, known_keys(shape, path[:-1]))
    if kind == "missing":
        return Said(path[:-1], f"{path[-1]} is required: {expected(shape, path)}")
    if kind == "said":
        return Said(path, detail["ctx"]["said"], detail["ctx"]["hint"])
    schema = _at(shape, path)
    return Said(path, f"expected {_phrase(schema)}, got {shown(value)}", _hint(schema, value))


def unknown_key(path: Path, known: Iterable[str]) -> Said:
    """An unknown key, with the nearest known one as a hint."""
    key, names = str(path[-1]), frozenset(known)
    if "trigger" in names and key in ELSEWHERE:  # a schedule
        return Said(path, "unknown key", ELSEWHERE[key])
    near = nearest(key, names)
    return Said(path, "unknown key", f"did you mean {near}?" if near else "")


@lru_cache(maxsize=512)
def nearest(word: str, known: frozenset[str]) -> str | None:
    """The known word that is most like one, if any is."""
    if len(word) > 60:
        return None
    for candidate in known:
        if candidate.lower() == word.replace("_", "").replace("-", "").lower():
            return candidate
    if len(word) > 2:
        for candidate in sorted(known, key=len):
            if candidate.lower().startswith(word.lower()):
                return candidate
    return next(iter(difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.7)), None)


def _hint(schema: Mapping[str, Any], value: Any) -> str:
    if isinstance(value, str):
        words = frozenset(str(word) for word in _choices(schema))
        near = nearest(value, words) if words else None
        if near:
            return f"did you mean {near!r}?"
        if value.lower() in ("yes", "no", "on", "off") and schema.get("type") == "boolean":
            return "write true or false"
        if len(value.split()) in (5, 6) and "length of time" in _phrase(schema):
            return "a cron expression is no interval; write cron: …"
        if _is_number(value) and _takes_numbers(schema):
            return "write it without quotes"
    return ""


def _is_number(text: str) -> bool:
    return len(text) < 20 and text.replace(".", "", 1).isdecimal()


def _takes_numbers(schema: Mapping[str, Any]) -> bool:
    return any(part.get("type") in ("integer", "number") for part in (schema, *schema.get("anyOf", ())))


def _choices(schema: Mapping[str, Any]) -> list[Any]:
    return [choice for part in (schema, *schema.get("anyOf", ())) for choice in part.get("enum", ())]


def expected(shape: type[BaseModel], path: Path) -> str:
    """What a key of a shape takes, as a phrase: ``a whole number from 1 to 100``."""
    return _phrase(_at(shape, path))


def known_keys(shape: type[BaseModel], path: Path) -> list[str]:
    """The keys that the mapping at a path may have."""
    schema = _at(shape, path)
    parts = _parts(shape, schema)
    return [key for part in parts for key in part.get("properties", ())]


@lru_cache(maxsize=16)
def _schema(shape: type[BaseModel]) -> dict[str, Any]:
    return shape.model_json_schema(by_alias=True)


def _at(shape: type[BaseModel], path: Path) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = _schema(shape)
    for step in path:
        schema = _step(shape, schema, step)
    return _resolved(shape, schema)


def _step(shape: type[BaseModel], schema: Mapping[str, Any], step: str | int) -> Mapping[str, Any]:
    for part in _parts(shape, schema):
        inside = part.get("items") if isinstance(step, int) else part.get("properties", {}).get(step)
        if inside is not None:
            return _as_mapping(inside)
    return {}


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _parts(shape: type[BaseModel], schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The alternatives of a schema, references resolved."""
    schema = _resolved(shape, schema)
    parts = [schema]
    for alternative in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        parts += _parts(shape, alternative)
    return parts


def _resolved(shape: type[BaseModel], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    return _as_mapping(_schema(shape)["$defs"][reference.rsplit("/", 1)[-1]])


def _phrase(schema: Mapping[str, Any]) -> str:
    if "x-expected" in schema:
        return str(schema["x-expected"])
    alternatives = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    if alternatives:
        return " or ".join(dict.fromkeys(_phrase(part) for part in alternatives))
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    if "const" in schema:
        return repr(schema["const"])
    return _phrase_of_type(schema)


def _phrase_of_type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    low, high = schema.get("minimum"), schema.get("maximum")
    bounds = f" from {low:g} to {high}" if low is not None and high is not None else ""
    if "x-unit" in schema and low is not None:
        return f"{low:g} to {high} {schema['x-unit']}"
    if kind in ("integer", "number"):
        return f"{'a whole number' if kind == 'integer' else 'a number'}{bounds}"
    if kind == "string" and "maxLength" in schema:
        return f"text of at most {schema['maxLength']} characters"
    if kind == "array" and "maxItems" in schema:
        return f"a list of at most {schema['maxItems']}"
    return _TYPES.get(str(kind), "a mapping" if "$ref" in schema or "properties" in schema else "another value")


_TYPES = {
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}
