"""Workspaces: what is kept of an occurrence beside the ledger, where the host has named a folder for it (seed 003).

::

    <workspaces>/occurrences/<2 hex digits>/<64 hex digits>/     the SHA-256 of the occurrence key
        input.json       what was to be done: key, due instant, represented range, task with its arguments
        log.txt          what the task logged, and when its attempts began and ended
        receipts.jsonl   two lines an attempt: begun, ended (how, how long, verified or not)
        result.json      what the attempt that succeeded returned

An attempt that began and has no second line was cut off. Nothing here is ever removed by calsched, a deletion included,
and nothing here decides anything: the row in the ledger is the truth. So a folder that cannot be written to is a
warning, and no reason for a task to fail.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

from calsched import logs
from calsched.clock import to_rfc3339
from calsched.model import Claimed, Failure, OccurrenceKey

log = logs.get("calsched.workspace")

INPUT, LOG, RECEIPTS, RESULT = "input.json", "log.txt", "receipts.jsonl", "result.json"


def folder(root: str, key: OccurrenceKey | str) -> Path:
    """The folder of one occurrence. A hash, so that no id reaches out of ``root`` or is too long for a file system."""
    name = hashlib.sha256(str(key).encode()).hexdigest()
    return Path(root, "occurrences", name[:2], name)


class Ended(NamedTuple):
    """How an attempt ended, as whoever ran it saw it."""

    state: str
    at: int
    elapsed: int
    result: str | None = None
    failure: Failure | None = None
    verified: bool | None = None  # whether its result was accepted; None where nobody was asked
    late: bool = False  # a thread that went on after it had been recorded as timed out


class Workspace:
    """One occurrence's folder. No method raises where the folder cannot be written to."""

    __slots__ = ("key", "path")

    def __init__(self, root: str, key: OccurrenceKey) -> None:
        self.key, self.path = key, folder(root, key)

    def begin(self, claimed: Claimed, task: Mapping[str, Any], at: int) -> None:
        """An attempt begins, in the calling context: what is logged in it from now on goes into ``log.txt``."""
        self._try(lambda: self._begin(claimed, task, at))

    def _begin(self, claimed: Claimed, task: Mapping[str, Any], at: int) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (self.path / INPUT).exists():  # a retry does the same thing again
            self._write(INPUT, self._input(claimed, task))
        self._receipt(attempt=claimed.attempt, event="began", epoch=claimed.epoch, at=to_rfc3339(at))
        self._append(LOG, f"{to_rfc3339(at)} calsched: attempt {claimed.attempt} begins")
        _listen()
        _here.set(self.path)

    def end(self, attempt: int, ended: Ended) -> None:
        """An attempt has ended."""
        self._try(lambda: self._end(attempt, ended))

    def _end(self, attempt: int, ended: Ended) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)  # an attempt that could not even begin
        if ended.state == "succeeded" and not ended.late:
            self._write(RESULT, "null" if ended.result is None else ended.result)
        said: dict[str, Any] = {"state": ended.state, "at": to_rfc3339(ended.at), "elapsedMs": ended.elapsed}
        failure, text = ended.failure, ""
        if failure is not None:
            said |= {"errorType": failure.type, "error": failure.message}
            text = f": {failure.type}: {failure.message}\n{failure.traceback}".rstrip()
        self._receipt(attempt=attempt, event="ended", **said, verified=ended.verified, late=ended.late)
        after = " (after its outcome was recorded)" if ended.late else ""
        self._append(LOG, f"{said['at']} calsched: attempt {attempt} ended{after}: {ended.state}{text}")

    def _input(self, c: Claimed, task: Mapping[str, Any]) -> str:
        said = {
            "key": json.loads(str(self.key)),
            "schedule": {"namespace": c.namespace, "id": c.schedule_id, "revision": c.revision},
            "series": c.series,
            "ordinal": str(c.ordinal),
            "due": to_rfc3339(c.due),
            "represents": {
                "first": str(c.represents_first),
                "last": str(c.represents_last),
                "firstDue": to_rfc3339(c.represents_first_due),
            },
            "task": dict(task),
        }
        return json.dumps(said, ensure_ascii=False, indent=2)

    def _receipt(self, **said: Any) -> None:
        self._append(RECEIPTS, json.dumps(said, ensure_ascii=False))

    def _append(self, name: str, line: str) -> None:
        with open(self.path / name, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(line + "\n")

    def _write(self, name: str, text: str) -> None:
        """Whole or not at all: somebody may be reading."""
        temporary = self.path / f".{name}.{os.getpid()}"
        temporary.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
        os.replace(temporary, self.path / name)

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except OSError as error:
            name = self.key.schedule_id
            log.warning("%s: its workspace %s cannot be written to: %s", name, self.path, error.strerror)


# --- what tasks log ---------------------------------------------------------------------------------------------------

_here: ContextVar[Path | None] = ContextVar("calsched_workspace", default=None)


def leave() -> None:
    """The attempt of the calling context is over."""
    if _here.get() is not None:
        _here.set(None)


def _listen() -> None:
    """See every record that is made. A handler would do, but one on the root changes where others' records go."""
    made = logging.getLogRecordFactory()
    if getattr(made, "_calsched", False):
        return

    def factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = made(*args, **kwargs)
        path = _here.get()
        if path is not None:
            _note(path, record)
        return record

    factory._calsched = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(factory)


_FORMAT = logging.Formatter()


def _note(path: Path, record: logging.LogRecord) -> None:
    try:
        text = f"{to_rfc3339(int(record.created * 1000))} {record.levelname} {record.name}: {record.getMessage()}"
        if record.exc_info:
            text += "\n" + _FORMAT.formatException(record.exc_info)
        with open(path / LOG, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text + "\n")
    except Exception:  # a record with arguments that do not fit it, a full disk: a log line must not end a task
        return
