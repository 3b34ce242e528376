"""Commands of a host that does ready tasks: claim, heartbeat, complete, fail, give-back."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from calsched.cli.common import Session, command, duration, invalid
from calsched.cli.main import app as root
from calsched.cli.render import Output
from calsched.clock import to_rfc3339
from calsched.errors import Fenced, InvalidInput
from calsched.values import check

group = typer.Typer(
    name="ready", help="Ready tasks, for the host that does them.", no_args_is_help=True, rich_markup_mode=None
)
root.add_typer(group)

Occurrence = Annotated[int, typer.Argument(metavar="TASK", min=0, help="The task's number, as claim told it.")]
Token = Annotated[str, typer.Argument(metavar="TOKEN", help="The claim's fencing token.")]
Lease = Annotated[str, typer.Option(help="How long the claim holds without a heartbeat.")]
MAX_RESULT = 1_000_000


def _lease(text: str) -> int:
    millis = duration(text, "--lease")
    if not 1_000 <= millis <= 7 * 86_400_000:
        raise invalid("expected 1s to 7d", "--lease")
    return millis


@command(group, "claim")
def claim(
    session: Session,
    task_class: Annotated[str | None, typer.Option("--class", help="Only tasks of this class.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 1,
    lease: Lease = "60s",
) -> None:
    """Take ready tasks, oldest first. They count as begun: one whose lease runs out is interrupted."""
    tasks = session.app().ready_claim(task_class=task_class, limit=limit, lease=_lease(lease))
    out = session.out
    if out.as_json:
        out.json({"tasks": [_task_plain(one) for one in tasks]})
        return
    if not tasks:
        out.line("nothing is ready")
    for one in tasks:
        _show(out, one)


def _task_plain(task: Any) -> dict[str, Any]:
    return {
        "task": task.occurrence,
        "token": task.token,
        "leaseUntil": to_rfc3339(task.lease_until),
        "attempt": task.attempt,
        "workOrderId": task.work_order_id,
        "runId": task.run_id,
        "taskClass": task.task_class,
        "payload": task.payload,
    }


def _show(out: Output, task: Any) -> None:
    out.text(("task ", "dim"), (str(task.occurrence), "bold"), (" token ", "dim"), task.token)
    out.fields(
        {
            "schedule": task.payload["schedule"]["scheduleId"],
            "due": task.payload["schedule"]["dueTime"],
            "class": task.task_class,
            "work order": task.work_order_id,
            "run": task.run_id,
            "attempt": task.attempt,
            "lease until": to_rfc3339(task.lease_until),
            "input": json.dumps(task.payload["input"], ensure_ascii=False),
        }
    )


@command(group, "heartbeat")
def heartbeat(session: Session, task: Occurrence, token: Token, lease: Lease = "60s") -> None:
    """Renew a claim. Says whether the task is asked to stop."""
    stop = session.app().ready_heartbeat(task, token, lease=_lease(lease))
    if session.as_json:
        session.out.json({"stop": stop})
    else:
        session.out.line("stop: the task is asked to stop" if stop else "go on")


@command(group, "complete")
def complete(
    session: Session,
    task: Occurrence,
    token: Token,
    result: Annotated[
        str | None, typer.Option(help="The result, as JSON; @FILE reads a file, - standard input.")
    ] = None,
) -> None:
    """Say that a task is done. Exit code 1 where the claim is over; the report is then kept as evidence only."""
    _told(session, session.app().ready_complete(task, token, result=_result(result)))


def _result(text: str | None) -> Any:
    if text is None:
        return None
    try:
        if text == "-":
            text = sys.stdin.read(MAX_RESULT + 1)
        elif text.startswith("@"):
            with Path(text[1:]).open(encoding="utf-8") as file:
                text = file.read(MAX_RESULT + 1)
        if len(text) > MAX_RESULT:
            raise invalid(f"larger than {MAX_RESULT:,} characters", "--result")
        found = json.loads(text, parse_constant=_no_number)
    except OSError as error:
        raise invalid(f"cannot be read: {error.strerror}", "--result") from None
    except (ValueError, RecursionError) as error:
        raise invalid(f"expected JSON: {error}", "--result") from None
    wrong = check(found)
    if wrong:
        raise InvalidInput([replace(problem, path=f"--result{problem.path}") for problem in wrong])
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


@command(group, "fail")
def fail(
    session: Session,
    task: Occurrence,
    token: Token,
    message: Annotated[str, typer.Option(help="What went wrong.")] = "",
    kind: Annotated[
        str, typer.Option(help="The kind of error; the same kind and message count as the same.")
    ] = "Failed",
) -> None:
    """Say that a task failed; the failure policy of its schedule says what follows."""
    _told(session, session.app().ready_fail(task, token, kind=kind, message=message))


@command(group, "give-back")
def give_back(session: Session, task: Occurrence, token: Token) -> None:
    """Give a claim back that was not begun; the task is ready again."""
    if not session.app().ready_give_back(task, token):
        raise Fenced(f"the claim of ready task {task} is over; there is nothing to give back")
    if session.as_json:
        session.out.json({"task": task, "state": "ready"})
    else:
        session.out.line(f"task {task} is ready again")


def _told(session: Session, report: Any) -> None:
    if report.late:
        if report.state is None:
            raise Fenced("there is no such task; the report changes nothing")
        raise Fenced(f"the claim is over (it is {report.state}); the report changes nothing and is kept as evidence")
    again = None if report.retry_at is None else to_rfc3339(report.retry_at)
    if session.as_json:
        session.out.json({"state": report.state, "retryAt": again})
    else:
        session.out.line(f"recorded: {report.state}" + (f", next attempt from {again} on" if again else ""))
