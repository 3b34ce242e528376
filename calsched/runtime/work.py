"""One claim on its way through an executor: what the pump, the worker and the executor's hooks know about it."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable
from traceback import format_exception
from typing import Any, Protocol

from calsched import values
from calsched.clock import Clock
from calsched.model import Claimed, Definition, Failure, Outcome, canonical_json
from calsched.runtime.callables import ALLOW_ALL, AllowList, load
from calsched.runtime.current import CancelFlag, Context


class Recorder(Protocol):
    """Where a worker's news goes. It outlives the scheduler, so that late news is still recorded."""

    clock: Clock
    installation: str
    workspaces: str | None

    def admits(self, work: Work) -> bool:
        """Asked by a worker just before it starts: not stopping, and the lease still holds."""

    def record(self, work: Work, outcome: Outcome) -> None: ...

    def give_back(self, work: Work) -> None:
        """The task was never started."""

    def wall(self) -> int:
        """Now, by the clock that the store goes by."""

    def executor_reports(self, work: Work, events: list[Any]) -> None:
        """The executor's own news of a run that ended, after the worker's."""

    def executor_fails(self, work: Work, exc: BaseException) -> None:
        """The executor could not run it to an end: a dead pool, a cancelled future."""


class Prepared:
    """A revision's task, loaded: made once, used for every occurrence of it."""

    __slots__ = ("args", "definition", "executor", "func", "is_async", "kwargs", "limited", "plain", "ref", "verify")

    def __init__(
        self, definition: Definition, allow: AllowList = ALLOW_ALL, load: Callable[..., Callable[..., Any]] = load
    ) -> None:
        """Raises InvalidInput where the callable may not or cannot be had."""
        task = definition.task
        self.definition = definition
        self.ref = task.callable
        self.func: Callable[..., Any] = load(task.callable, allow)
        self.verify = None if task.verify is None else load(task.verify, allow, "verify")
        self.executor = task.executor
        self.args, self.kwargs = list(task.args), dict(task.kwargs)
        self.plain = not self.args and not self.kwargs
        self.is_async = inspect.iscoroutinefunction(self.func)
        self.limited = definition.timeout is not None or definition.max_elapsed is not None

    def call(self) -> Any:
        if self.plain:
            return self.func()
        # decoded anew for every run: a task that changes its arguments must not change those of the next
        return self.func(*values.decode(self.args), **values.decode(self.kwargs))

    def limit(self, claimed: Claimed, now: int) -> int | None:
        """How long this attempt may take, in milliseconds: the tightest of timeout, execution time and deadline."""
        d = self.definition
        limits = []
        if d.timeout is not None:
            limits.append(d.timeout)
        if d.max_elapsed is not None:
            limits.append(d.max_elapsed - claimed.elapsed)
        if claimed.deadline is not None:
            limits.append(claimed.deadline - now)
        return max(0, min(limits)) if limits else None


class Work:
    """A claim that this owner holds."""

    __slots__ = (
        "began",
        "began_wall",
        "cancel",
        "claimed",
        "detached",
        "events",
        "flag",
        "flag_path",
        "given_back",
        "limit_at",
        "outcome",
        "prepared",
        "recorder",
        "released",
        "seat",
        "settled",
        "submitted",
        "ticket",
    )

    def __init__(self, claimed: Claimed, prepared: Prepared, recorder: Recorder) -> None:
        self.claimed = claimed
        self.prepared = prepared
        self.recorder = recorder
        self.seat: Any = None
        self.flag: CancelFlag | None = None  # made when somebody sets or asks for it
        self.flag_path: str | None = None
        self.cancel: Callable[[], None] | None = None  # stops the attempt for real, where that is possible
        self.began: int | None = None  # monotonic
        self.began_wall: int | None = None
        self.limit_at: int | None = None  # monotonic
        self.outcome: Outcome | None = None
        self.events: list[Any] | None = None  # APScheduler's, held until the outcome has committed
        self.given_back = False
        self.settled = False  # its outcome has committed
        self.detached = False  # timed out, and still running
        self.submitted = False  # an executor took it
        self.released = True  # it takes no worker's seat: not started, or ended
        self.ticket = [True]

    def take(self) -> bool:
        """Whoever is first has it: the worker that begins, or the pump that withdraws it. (One ``pop`` is atomic.)"""
        try:
            return self.ticket.pop()
        except IndexError:
            return False

    def context(self) -> Context:
        if self.flag is None:
            self.flag = CancelFlag()
        limit = None if self.limit_at is None or self.began is None else self.limit_at - self.began
        ends = None if limit is None or self.began_wall is None else self.began_wall + limit
        deadline = self.claimed.deadline
        if ends is not None and (deadline is None or ends < deadline):
            deadline = ends
        r = self.recorder
        return Context(r.installation, self.claimed, self.flag, deadline, r.workspaces)

    def ask_to_stop(self, reason: str) -> None:
        """Sets the cancel flag; a coroutine is cancelled as well."""
        if self.flag is None:
            self.flag = CancelFlag()
        self.flag.set(reason)
        if self.flag_path is not None:
            _touch(self.flag_path, reason)
        if self.cancel is not None:
            self.cancel()


def _touch(path: str, text: str) -> None:
    with contextlib.suppress(OSError):  # set already, or the folder went with its owner
        _write_new(path, text)


def _write_new(path: str, text: str) -> None:
    with open(path, "x") as file:
        file.write(text)


def forget_flag(work: Work) -> None:
    if work.flag_path is not None:
        with contextlib.suppress(OSError):
            os.unlink(work.flag_path)


def describe(exc: BaseException, traceback: str = "") -> Failure:
    """An exception for the ledger: text that every database takes, and not too much of it."""
    name = said(lambda: _name(type(exc)), 255, "(its type has no name)")
    message = said(lambda: str(exc), 2_000, "(its message cannot be shown)")
    return Failure(name, message, clean(traceback, 16_000, end=True))


def _name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def traceback_of(exc: BaseException) -> str:
    """The last 30 frames of an exception and of what led to it."""
    return said(lambda: "".join(format_exception(exc, limit=-30)), 16_000, "(its traceback cannot be shown)", end=True)


def said(text: Callable[[], str], most: int, instead: str, *, end: bool = False) -> str:
    """What a task's own object says of itself. Its code may do anything, so nothing that it raises counts as an outcome
    and nothing gets out: a SystemExit from a ``__str__`` would break a process pool and the runs beside it."""
    try:
        return clean(str.__str__(text()), most, end=end)
    except BaseException:
        return instead


def clean(text: str, most: int, *, end: bool = False) -> str:
    """Without NUL and half surrogates, which a database would refuse; cut to ``most`` characters."""
    if len(text) > most:
        text = "…" + text[1 - most :] if end else text[: most - 1] + "…"
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


#: A longer result is kept as its beginning only: the ledger is no place for data.
MAX_RESULT = 64 * 1024


def result_text(value: Any) -> str | None:
    """What a task returned, as JSON; what JSON does not know is kept as ``{"$repr": …}``."""
    if value is None:
        return None
    try:
        text = canonical_json(values.encode(value))
    except BaseException:  # a value's own methods may raise anything; the task has succeeded all the same
        return canonical_json({"$repr": repr_of(value)})
    return text if len(text) <= MAX_RESULT else canonical_json({"$repr": text[:200] + "…"})


def repr_of(value: Any) -> str:
    """A value's beginning, for people."""
    return said(lambda: repr(value), 200, f"<{type(value).__name__}>")
