"""Declarations: bytes to plain values (``declare.read``), plain values to a Declaration or every problem at once
(``declare.check``).

Importing this package imports neither PyYAML nor pydantic; using a name does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calsched.declare.declaration import Checked, Declaration, Host
    from calsched.declare.document import Document
    from calsched.declare.plain import check_plain, check_update, from_keywords, merge_partial, to_declaration
    from calsched.declare.read import read_all
    from calsched.declare.schema import json_schema

__all__ = [
    "Checked",
    "Declaration",
    "Document",
    "Host",
    "check_plain",
    "check_update",
    "from_keywords",
    "json_schema",
    "merge_partial",
    "read_all",
    "to_declaration",
]

_HOMES = {
    "Checked": "declaration",
    "Declaration": "declaration",
    "Host": "declaration",
    "Document": "document",
    "check_plain": "plain",
    "check_update": "plain",
    "from_keywords": "plain",
    "merge_partial": "plain",
    "to_declaration": "plain",
    "read_all": "read",
    "json_schema": "schema",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
