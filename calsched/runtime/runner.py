"""Running one claim: in a thread, as a coroutine, in a child process. Each form ends in exactly one Outcome.

The outcome is recorded here, in the worker, and not by the executor's report: a report may never come (a loop that has
closed, a scheduler that was shut down), and the row must know how the task ended all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from calsched import values
from calsched.clock import SystemClock
from calsched.errors import CalschedError
from calsched.model import Claimed, Failure, Outcome
from calsched.runtime import workspace
from calsched.runtime.callables import AllowList, load
from calsched.runtime.current import Context, FileFlag, key_of, running
from calsched.runtime.work import Work, describe, repr_of, result_text, traceback_of
from calsched.runtime.workspace import Ended, Workspace

State = Literal["succeeded", "failed", "timed_out", "interrupted", "cancelled"]


class TaskTimedOut(CalschedError):
    """An attempt took longer than its timeout, its execution time or its deadline allow."""


class NotVerified(CalschedError):
    """The ``verify`` callable did not accept what the task returned."""


class ChildError(CalschedError):
    """Stands for an exception of a child process that cannot be brought over."""


class OwnerStopped(CalschedError):
    """The owner stopped in good order while the task ran."""


class TaskCancelled(CalschedError):
    """The task was asked to stop, and did."""


# --- in a thread ------------------------------------------------------------------------------------------------------


def run_in_thread(work: Work) -> Any:
    """What a pool's worker calls. Returns what the task returned, raises what it raised; the recorder knows already."""
    recorder = work.recorder
    if not recorder.admits(work):
        recorder.give_back(work)
        return None
    token = running.set(work)
    begin(work)
    try:
        with _OneProcess():
            value = work.prepared.call()
            if value is not None:
                refuse_awaitable(value)
            if work.prepared.verify is not None:
                verify(work.prepared.verify, value)
    except BaseException as exc:
        tell(work, _failed(work, exc))
        raise
    finally:
        running.reset(token)
        workspace.leave()
    tell(work, _returned(work, value))
    return value


class _OneProcess:
    """A child that a task has forked, and that comes to the end of the task, leaves: it is no worker of ours."""

    def __enter__(self) -> None:
        self._pid = os.getpid()

    def __exit__(self, kind: object, exc: BaseException | None, trace: object) -> None:
        if os.getpid() != self._pid:
            code = exc.code if isinstance(exc, SystemExit) else exc
            os._exit(0 if code is None else code if isinstance(code, int) else 1)


def tell(work: Work, outcome: Outcome) -> None:
    """The receipt goes first: whoever reads the outcome in the ledger finds it."""
    receipt(work, outcome)
    work.recorder.record(work, outcome)


def receipt(work: Work, outcome: Outcome) -> None:
    root, c = work.recorder.workspaces, work.claimed
    if root is None:
        return
    verified = _verified(work.prepared.verify is not None, outcome.state, outcome.failure)
    late = work.outcome is not None and work.outcome is not outcome
    ended = Ended(outcome.state, outcome.ended_at, outcome.elapsed, outcome.result, outcome.failure, verified, late)
    Workspace(root, key_of(work.recorder.installation, c)).end(c.attempt, ended)


def _verified(is_asked: bool, state: str, failure: Failure | None) -> bool | None:
    """Whether the result was accepted; None where nobody was asked."""
    if not is_asked:
        return None
    if state == "succeeded":
        return True
    return False if failure is not None and failure.type.endswith(f".{NotVerified.__name__}") else None


def begin(work: Work) -> None:
    recorder = work.recorder
    prepared = work.prepared
    if prepared.limited or work.claimed.deadline is not None:
        work.began_wall = recorder.wall()
        limit = prepared.limit(work.claimed, work.began_wall)
        work.began = recorder.clock.monotonic()
        work.limit_at = None if limit is None else work.began + limit
    else:
        work.began = recorder.clock.monotonic()
    if recorder.workspaces is not None:
        place = Workspace(recorder.workspaces, key_of(recorder.installation, work.claimed))
        place.begin(work.claimed, prepared.definition.task.material(), recorder.wall())


def refuse_awaitable(value: Any) -> None:
    if not inspect.isawaitable(value):
        return
    if inspect.iscoroutine(value):
        value.close()
    raise TypeError("the task returned an awaitable that nobody awaited; run it on an asyncio executor")


def verify(check: Any, value: Any) -> None:
    accepted = check(value)
    if inspect.isawaitable(accepted):
        refuse_awaitable(accepted)
    if not accepted:
        raise NotVerified(f"{check.__module__}:{check.__name__} did not accept the result {repr_of(value)}")


def end(work: Work, state: State, result: str | None = None, failure: Failure | None = None, **more: Any) -> Outcome:
    recorder = work.recorder
    began = work.began
    elapsed = 0 if began is None else recorder.clock.monotonic() - began
    c = work.claimed
    return Outcome(c.occurrence, c.attempt, state, recorder.wall(), elapsed, result, failure, **more)


def _returned(work: Work, value: Any) -> Outcome:
    flag = work.flag
    if flag is not None and flag.observed:
        return _stopped(work, flag.reason, None)
    return end(work, "succeeded", None if value is None else result_text(value))


def _failed(work: Work, exc: BaseException) -> Outcome:
    text = traceback_of(exc)
    flag = work.flag
    if flag is not None and flag.observed:
        return _stopped(work, flag.reason, describe(exc, text))
    return end(work, "failed", None, describe(exc, text))


def _stopped(work: Work, reason: str | None, failure: Failure | None) -> Outcome:
    """The task saw its cancel flag and ended: that is a stop, whatever it returned or raised then."""
    if reason == "timeout":
        return end(work, "timed_out", None, timeout_failure(work))
    if reason == "stopping":
        return end(work, "interrupted", None, failure or describe(OwnerStopped(_STOPPED)), clean_stop=True)
    return end(work, "cancelled", None, failure or describe(TaskCancelled("asked to stop, and stopped")))


_STOPPED = "the owner stopped in good order while the task ran"


def timeout_failure(work: Work) -> Failure:
    limit = (work.limit_at or 0) - (work.began or 0)
    return describe(TaskTimedOut(f"still running after {limit / 1000:g} s, which is all that it may take"))


# --- as a coroutine ---------------------------------------------------------------------------------------------------


async def run_coroutine(work: Work) -> Any:
    """What an asyncio executor awaits. A timeout or a cancel stops the task; an executor's own cancel is no verdict."""
    recorder = work.recorder
    if not recorder.admits(work):
        recorder.give_back(work)
        return None
    token = running.set(work)
    begin(work)
    task = asyncio.ensure_future(_contained(work))
    running.reset(token)
    loop = asyncio.get_running_loop()
    work.cancel = lambda: _cancel_from_elsewhere(loop, task)
    try:
        return await _await(work, task)
    finally:
        work.cancel = None


class _Left(Exception):
    """A task raised one of the two exceptions that asyncio lets out of its loop, which would end with it."""

    def __init__(self, why: BaseException) -> None:
        self.why = why


async def _contained(work: Work) -> Any:
    try:
        with _OneProcess():
            return await work.prepared.call()
    except (SystemExit, KeyboardInterrupt) as exc:
        raise _Left(exc) from None


def _cancel_from_elsewhere(loop: asyncio.AbstractEventLoop, task: asyncio.Future[Any]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has closed: nothing runs there any more
        loop.call_soon_threadsafe(task.cancel)


async def _await(work: Work, task: asyncio.Future[Any]) -> Any:
    limit = None if work.limit_at is None or work.began is None else (work.limit_at - work.began) / 1000
    try:
        done, _ = await asyncio.wait((task,), timeout=limit)
    except asyncio.CancelledError:
        await _stop(task)
        tell(work, _cancelled(work, by_executor=True))
        raise
    if not done:
        await _stop(task)
        if not (task.done() and not task.cancelled() and task.exception() is None):
            tell(work, end(work, "timed_out", None, timeout_failure(work)))
            raise TaskTimedOut(timeout_failure(work).message)
    return _judge(work, task)


async def _stop(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _judge(work: Work, task: asyncio.Future[Any]) -> Any:
    try:
        value = task.result()
        if work.prepared.verify is not None:
            verify(work.prepared.verify, value)
    except asyncio.CancelledError:
        tell(work, _cancelled(work, by_executor=False))
        raise
    except _Left as left:
        tell(work, _failed(work, left.why))
        raise left.why from None
    except BaseException as exc:
        tell(work, _failed(work, exc))
        raise
    tell(work, _returned(work, value))
    return value


def _cancelled(work: Work, *, by_executor: bool) -> Outcome:
    reason = None if work.flag is None else work.flag.reason
    if reason == "cancelled" and not by_executor:
        return _stopped(work, reason, None)
    return end(work, "interrupted", None, describe(OwnerStopped(_STOPPED)), clean_stop=True)


# --- in a child process -----------------------------------------------------------------------------------------------


class Payload(NamedTuple):
    """All that a child needs, in values that pickle anywhere."""

    ref: str
    verify: str | None
    args: list[Any]
    kwargs: dict[str, Any]
    allow: tuple[str, ...] | None
    installation: str
    claimed: tuple[Any, ...]
    flag_path: str
    limit: int | None  # milliseconds
    deadline: int | None
    workspaces: str | None


class Report(NamedTuple):
    """What a child brings home."""

    state: State
    elapsed: int
    result: str | None = None
    failure: Failure | None = None
    value: Any = None
    exception: BaseException | None = None
    clean_stop: bool = False
    begun: bool = True


_EARLY = "asked to stop before it began"


class _Alarm(BaseException):
    """Raised in a child's main thread when its time is up; no ``except Exception`` of a task swallows it."""


def run_in_child(payload: Payload) -> Report:
    """What a process pool's child calls. Never raises: an exception that cannot be unpickled would break the pool."""
    claimed = Claimed(*payload.claimed)
    asked = FileFlag(payload.flag_path).reason
    if asked is not None:  # before it could begin
        return Report("cancelled", 0, failure=describe(TaskCancelled(_EARLY)), begun=asked == "cancelled")
    if payload.workspaces is None:
        return _run_in_child(payload, claimed)
    place = Workspace(payload.workspaces, key_of(payload.installation, claimed))
    task = {name: getattr(payload, field) for name, field in _TASK.items() if getattr(payload, field) is not None}
    place.begin(claimed, {"kind": "python", **task}, SystemClock().now())
    made = _run_in_child(payload, claimed)
    verified = _verified(payload.verify is not None, made.state, made.failure)
    place.end(
        claimed.attempt,
        Ended(made.state, SystemClock().now(), made.elapsed, made.result, made.failure, verified),
    )
    workspace.leave()
    return made


_TASK = {"callable": "ref", "args": "args", "kwargs": "kwargs", "verify": "verify"}


def _run_in_child(payload: Payload, claimed: Claimed) -> Report:
    flag = FileFlag(payload.flag_path)
    context = Context(payload.installation, claimed, flag, payload.deadline, payload.workspaces)
    token = running.set(_Held(context))
    began = time.monotonic_ns()
    try:
        with _alarm(payload.limit), _OneProcess():
            value = _call(payload)
        return _home(payload, flag, began, "succeeded", value=value)
    except _Alarm:
        text = f"stopped after {(payload.limit or 0) / 1000:g} s, which is all that it may take"
        return _home(payload, flag, began, "timed_out", exc=TaskTimedOut(text))
    except BaseException as exc:
        return _home(payload, flag, began, "failed", exc=exc)
    finally:
        running.reset(token)


class _Held:
    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def context(self) -> Context:
        return self._context


def _call(payload: Payload) -> Any:
    allow = _allow(payload.allow)
    function = load(payload.ref, allow)
    value = function(*values.decode(payload.args), **values.decode(payload.kwargs))
    refuse_awaitable(value)
    if payload.verify is not None:
        verify(load(payload.verify, allow, "verify"), value)
    return value


@lru_cache(maxsize=16)
def _allow(patterns: tuple[str, ...] | None) -> AllowList:
    return AllowList(patterns)


def _home(
    payload: Payload, flag: FileFlag, began: int, state: State, value: Any = None, exc: BaseException | None = None
) -> Report:
    elapsed = (time.monotonic_ns() - began) // 1_000_000
    failure = None
    if exc is not None:
        failure = describe(exc, traceback_of(exc) if state == "failed" else "")
    if flag.observed and state != "timed_out":
        state = "interrupted" if flag.reason == "stopping" else "cancelled"
        failure = failure or describe(TaskCancelled("asked to stop, and stopped"))
    if failure is None:
        return Report(state, elapsed, result_text(value), None, _portable(value))
    return Report(state, elapsed, None, failure, None, _portable_error(exc), state == "interrupted")


def _portable(value: Any) -> Any:
    try:
        pickle.loads(pickle.dumps(value))
        return value
    except BaseException:
        return repr_of(value)


def _portable_error(exc: BaseException | None) -> BaseException:
    if exc is None:
        return TaskCancelled("asked to stop, and stopped")
    try:
        if type(pickle.loads(pickle.dumps(exc))) is type(exc):
            return exc
    except BaseException:
        pass
    failure = describe(exc)
    return ChildError(f"{failure.type}: {failure.message}")


@contextlib.contextmanager
def _alarm(limit: int | None) -> Iterator[None]:
    """Interrupts the main thread of a child when the time is up, again every second if the task swallows it."""
    if limit is None or not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(signum: int, frame: Any) -> None:
        raise _Alarm

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(limit, 1) / 1000, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
