"""What an agent is told: a result, or an error with its kind and every problem; never a traceback."""

from __future__ import annotations

from typing import Any

from calsched.agent.methods import call
from calsched.app import App
from calsched.errors import CalschedError, InvalidInput, unencodable


def answer(app: App, name: Any, arguments: Any) -> tuple[Any, dict[str, Any] | None]:
    """(result, None) or (None, error)."""
    try:
        return call(app, name, arguments), None
    except CalschedError as error:
        return None, _told(error)
    except UnicodeEncodeError as error:
        return None, _told(unencodable(error))
    except Exception as error:
        return None, {"kind": "InternalError", "message": f"{type(error).__name__}; this is a fault of calsched"}


def _told(error: CalschedError) -> dict[str, Any]:
    told: dict[str, Any] = {"kind": type(error).__name__, "message": str(error)}
    if isinstance(error, InvalidInput):
        told["problems"] = [
            {"path": problem.path, "message": problem.message, "hint": problem.hint or None}
            for problem in error.problems
        ]
    return told
