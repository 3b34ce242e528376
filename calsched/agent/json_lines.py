"""The agent methods as plain JSON lines.

A request is one line ``{"id": …, "method": "schedule_list", "params": {…}}``; the answer is one line with the same id
and either ``result`` or ``error``. A line that cannot be read is answered with id null, and the next one is read.
"""

from __future__ import annotations

import json
from typing import IO, Any

from calsched.agent.answers import answer
from calsched.app import App

#: Bytes of a request; a longer line is refused, and skipped to its end.
MOST = 4 * 1024 * 1024


def serve(app: App, requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer until the requests end."""
    while line := requests.readline(MOST + 1):
        if len(line) > MOST:
            while line and not line.endswith(b"\n"):
                line = requests.readline(MOST)
            reply = _error(None, f"a request has at most {MOST} bytes")
        elif not line.strip():
            continue
        else:
            reply = _reply(app, line)
        answers.write(json.dumps(reply, ensure_ascii=True, allow_nan=False).encode() + b"\n")
        answers.flush()


def _reply(app: App, line: bytes) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return _error(None, "expected one JSON object on a line")
    if not isinstance(request, dict) or not request.keys() <= {"id", "method", "params", "jsonrpc"}:
        return _error(None, "expected an object with id, method and params")
    if not isinstance(request.get("id"), str | int | None):
        return _error(None, "expected an id that is a text or a whole number")
    result, error = answer(app, request.get("method"), request.get("params"))
    return {"id": request.get("id"), **({"result": result} if error is None else {"error": error})}


def _error(id: Any, message: str) -> dict[str, Any]:
    return {"id": id, "error": {"kind": "InvalidInput", "message": message}}
