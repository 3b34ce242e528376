"""Commands that look at schedules: list, show, history, why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import typer

from calsched.app.plain import definition_plain, history_plain, plain, schedule_plain
from calsched.cli.common import ScheduleId, Session, command, instant, invalid
from calsched.cli.main import app as root
from calsched.cli.render import Output, state, styled
from calsched.clock import to_rfc3339
from calsched.errors import UnknownSchedule
from calsched.model import FINAL_STATES, OPEN_STATES
from calsched.policies import clock_hold
from calsched.words import spell

States = ("enabled", "disabled", "paused", "ended", "cancelled")
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="How many to show.")]
Page = Annotated[str | None, typer.Option(help="Go on where an earlier answer stopped (its next page).")]


@command(root, "list")
def list_schedules(
    session: Session,
    states: Annotated[list[str] | None, typer.Option("--state", help="Only those in this state; repeatable.")] = None,
    owner: Annotated[str | None, typer.Option(help="Only those that this declared owner has.")] = None,
    attention: Annotated[bool, typer.Option("--attention", help="Only those that a person should look at.")] = False,
    all: Annotated[bool, typer.Option("--all", help="Every namespace.")] = False,
    limit: Limit = 100,
    page: Page = None,
) -> None:
    """The schedules of the store with their state and next due instant, and whether an owner lives."""
    for name in states or ():
        if name not in States:
            raise invalid(f"expected one of {', '.join(States)}, got {name[:40]!r}", "--state")
    found = session.app().list(
        states=states or None, owner=owner, attention=attention, every_namespace=all, page=page, limit=limit
    )
    out = session.out
    if out.as_json:
        out.json(_listing_plain(found))
        return
    with out.paged(len(found.schedules) > 60):
        _show_list(out, found, with_namespace=all, attention=attention)
    for warning in found.warnings:
        out.note(f"warning: {warning}")
    tell_owner(out, found)


def _listing_plain(found: Any) -> dict[str, Any]:
    return {
        "schedules": [schedule_plain(view) for view in found.schedules],
        "nextPage": found.next_page,
        "owned": found.owned,
        "owners": plain(found.owners),
        "serve": found.serve_command,
        "hold": found.hold,
        "warnings": list(found.warnings),
    }


def _show_list(out: Output, found: Any, *, with_namespace: bool, attention: bool) -> None:
    if not found.schedules:
        out.line("nothing needs attention" if attention else "no schedules here")
        return
    columns = ["ID", "STATE", "NEXT DUE", "IN", "PENDING", "FAILURES"]
    rows = [_list_row(view, found.at, view.pk in found.skipped) for view in found.schedules]
    if with_namespace:
        columns.insert(0, "NAMESPACE")
        rows = [[view.namespace, *row] for view, row in zip(found.schedules, rows, strict=True)]
    out.table(columns, rows, right=["PENDING", "FAILURES"])
    for view in found.schedules:
        said = view.attention or view.problem or (view.last_failure if view.reason == "failures" else None)
        if said:
            out.text((f"{view.id}: ", "bold"), (said, "yellow"))
    if found.next_page is not None:
        out.line(f"… and more: --page '{found.next_page}'", style="dim")


def _list_row(view: Any, now: int, skipped: bool) -> list[Any]:
    due = view.next_due
    soon = "" if due is None else spell(due - now) if due > now else f"overdue {spell(now - due)}"
    if skipped:
        soon += ", to be skipped"
    when = to_rfc3339(due) if due is not None else ""
    if view.state == "paused" and view.resume_at is not None:
        when = f"resumes {to_rfc3339(view.resume_at)}"
    return [view.id, state(view.state, view.reason), when, soon, view.open_count or "", view.failures or ""]


def tell_owner(out: Output, found: Any) -> None:
    """Who would run what is due; without an owner nothing is, nor while there is a hold."""
    if found.hold is not None:
        out.note(f"nothing is dispatched: {clock_hold.WHY[found.hold]}")
    if found.owned:
        return
    out.note(f"no owner lives: nothing is judged or run until one is started:\n  {found.serve_command}")


def by_any_id(session: Session, id: str, ask: Callable[[str], Any]) -> Any:
    """What is asked of a schedule by its id, or by one that it had before it was renamed; then that is told."""
    try:
        return ask(id)
    except UnknownSchedule as error:
        if error.renamed_to is None:
            raise
        found = ask(error.renamed_to)
        session.out.note(f"{id!r} was renamed: this is {error.renamed_to!r}")
        return found


@command(root, "show")
def show(session: Session, id: ScheduleId, limit: Limit = 20, page: Page = None) -> None:
    """One schedule whole: definition, state, coming due instants, pending work, history newest first, decisions."""
    app = session.app()
    found = by_any_id(session, id, lambda name: app.show(name, limit=limit, page=page))
    out = session.out
    if out.as_json:
        out.json(_show_plain(found, app.settings.workspaces))
        return
    with out.paged(limit > 40):
        if page is None:
            _show_head(out, found)
        _show_history(out, found.show.history, found.show.revisions)
    tell_owner(out, found)


def _show_plain(found: Any, workspaces: Any) -> dict[str, Any]:
    whole = found.show
    return {
        "schedule": schedule_plain(whole.schedule),
        "zone": found.zone,
        "coming": [
            {"due": plain(one.due, "due"), "local": one.local, "marks": list(one.marks)} for one in found.coming
        ],
        "revisions": [
            {**plain(one), "definition": None if one.definition is None else definition_plain(one.definition)}
            for one in whole.revisions
        ],
        "pending": plain(whole.pending),
        "history": history_plain(whole.history, workspaces),
        "skips": plain(whole.skips),
        "decisions": plain(whole.decisions),
        "owned": found.owned,
        "serve": found.serve_command,
        "hold": found.hold,
    }


def _show_head(out: Output, found: Any) -> None:
    from calsched.triggers.describe import describe  # with APScheduler: the help does not wait for it

    view = found.show.schedule
    d = view.definition
    out.text((view.id, "bold"), f"  {d.description}" if d is not None and d.description else "")
    out.fields(
        {
            "namespace": view.namespace,
            "state": _state_of(view),
            "note": view.note,
            "attention": view.attention,
            "problem": view.problem,
            "revision": f"{view.revision} (state version {view.state_version}, digest {view.digest or 'unknown'})",
            "trigger": None if d is None else describe(d.trigger),
            "task": None if d is None else _task_text(d.task),
            "policies": None if d is None else policies_text(d),
            "failures": f"{view.failures} in a row: {view.last_failure}" if view.failures else None,
            "used": None
            if d is None or d.max_occurrences is None
            else f"{view.used} of {d.max_occurrences} occurrences",
        }
    )
    if found.coming:
        out.line()
        title = "NEXT DUE" if view.next_due is not None else "WOULD BE DUE"
        rows = [[to_rfc3339(one.due), (one.local or "").replace("T", " "), one.weekday, "; ".join(one.marks)]
                for one in found.coming]  # fmt: skip
        out.table([title, f"IN {found.zone}" if found.zone else "", "", ""], rows)
    for skip in found.show.skips:
        note = f": {skip.note}" if skip.note else ""
        out.line(f"{to_rfc3339(skip.due)} will be skipped, asked for by {skip.principal}{note}", style="yellow")
    _show_decisions(out, found.show.decisions)
    out.line()


def _state_of(view: Any) -> Any:
    until = f" until {to_rfc3339(view.resume_at)}" if view.resume_at is not None else ""
    reason = f" ({view.reason})" if view.reason else ""
    who = f" by {view.changed_by}" if view.changed_by else ""
    style = state(view.state).spans
    return styled(
        (view.state, str(style[0].style) if style else ""), f"{reason}{until}{who} since {to_rfc3339(view.changed_at)}"
    )


def _word(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_word(inner) for inner in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} {_word(inner)}" for key, inner in value.items()) + "}"
    return str(value)


def _task_text(task: Any) -> str:
    if task.kind == "ready":
        return f"ready, class {task.task_class}" + (f", work order {task.work_order_id}" if task.work_order_id else "")
    arguments = [_word(value) for value in task.args] + [f"{k}={_word(v)}" for k, v in task.kwargs.items()]
    return f"{task.callable}({', '.join(arguments)})" + (f" on {task.executor}" if task.executor != "default" else "")


def policies_text(d: Any) -> str:
    """The policies in words, those first that decide most; what is off is left out."""
    material = definition_plain(d)
    shown = ["misfire", "overlap", "graceSeconds"]
    rest = [key for key in _POLICIES if key in material and material[key] != _POLICIES[key]]
    return ", ".join(f"{key} {material[key]}" for key in [*shown, *rest] if key in material)


#: Further policies with the value that goes without saying.
_POLICIES: Mapping[str, Any] = {
    "replayLimit": None, "maxCatchUp": 10, "maxQueued": 1000, "maxConcurrent": 1, "maxOccurrences": None,
    "expiresAt": None, "maxLatenessSeconds": None, "rateLimit": None, "rateWindowSeconds": None, "admission": "each",
    "maxRetries": 0, "maxAttempts": 20, "maxRepeatedFailures": None, "timeoutSeconds": None, "maxElapsedSeconds": None,
    "deadlineSeconds": None, "onInterrupted": "never", "pauseAfterFailures": 5, "backlog": "fromNow",
    "jitterSeconds": 0, "owner": None,
}  # fmt: skip


def _show_decisions(out: Output, decisions: Iterable[Any]) -> None:
    rows = []
    for one in list(decisions)[:8]:
        move = f"{one.from_state} → {one.to_state}" if one.from_state != one.to_state else one.to_state or ""
        rows.append([to_rfc3339(one.at), one.action, move, one.principal, one.note or ""])
    if rows:
        out.line()
        out.table(["DECIDED", "ACTION", "STATE", "BY", "NOTE"], rows)


@command(root, "history")
def history(session: Session, id: ScheduleId, limit: Limit = 50, page: Page = None) -> None:
    """The verdicts of a schedule, newest first, page by page."""
    app = session.app()
    found = by_any_id(session, id, lambda name: app.history(name, limit=limit, page=page))
    out = session.out
    if out.as_json:
        out.json(history_plain(found, app.settings.workspaces))
        return
    with out.paged(limit > 40):
        _show_history(out, found, ())


def _show_history(out: Output, found: Any, revisions: Any) -> None:
    if not found.entries:
        out.line("no slot has been judged yet" if len(revisions) < 2 else "no verdicts here")
        return
    many = len({entry.revision for entry in found.entries}) > 1
    columns = ["DUE", *(["REV"] if many else []), "SLOT", "VERDICT", "STARTED", "TOOK", "REMARKS"]
    runs = {entry.pk: entry for entry in found.entries if not hasattr(entry, "verdict")}
    rows = [_entry(entry, many, runs) for entry in found.entries]
    out.table(columns, rows, right=["REV", "SLOT", "TOOK"])
    if found.next_page is not None:
        out.line(f"… and older ones: --page '{found.next_page}'", style="dim")


def _entry(entry: Any, many: bool, runs: Mapping[int, Any]) -> list[Any]:
    row = _range_row(entry, runs) if hasattr(entry, "verdict") else _occurrence_row(entry)
    if many:
        row.insert(1, entry.revision)
    return row


def _range_row(entry: Any, runs: Mapping[int, Any]) -> list[Any]:
    slots = str(entry.first) if entry.first == entry.last else f"{entry.first}–{entry.last}"
    verdict = state("skipped", entry.reason) if entry.verdict == "skipped" else state("represented")
    parts = [] if entry.count == 1 else [f"{entry.count:,} slots, the first due {to_rfc3339(entry.first_due)}"]
    if entry.occurrence_pk in runs:
        parts.append(f"by slot {runs[entry.occurrence_pk].ordinal}")
    if entry.note:
        parts.append(entry.note)
    return [to_rfc3339(entry.last_due), slots, verdict, "", "", "; ".join(parts)]


def _occurrence_row(entry: Any) -> list[Any]:
    started = to_rfc3339(entry.started_at) if entry.started_at is not None else ""
    took = spell(entry.elapsed) if entry.state in FINAL_STATES and entry.attempt else ""
    if took and any(attempt.uncertain for attempt in entry.attempts):
        took = f"≤ {took}"
    ordinal = str(entry.ordinal) if entry.series == "slot" else f"{entry.series} {entry.ordinal}"
    return [to_rfc3339(entry.due), ordinal, state(entry.state, entry.reason), started, took, _remarks(entry)]


def _remarks(entry: Any) -> str:
    parts = []
    if entry.attempt > 1:
        parts.append(f"{entry.attempt} attempts")
    if entry.represents_first != entry.represents_last:
        parts.append(f"represents {entry.represents_first}–{entry.represents_last}")
    if entry.state in OPEN_STATES and entry.run_at != entry.due:
        parts.append(f"runs at {to_rfc3339(entry.run_at)}")
    error = ": ".join(part for part in (entry.error_type, entry.error) if part)
    if error and entry.state != "succeeded":
        parts.append(error if len(error) <= 120 else error[:119] + "…")
    if entry.note:
        parts.append(entry.note)
    return "; ".join(parts)


@command(root, "why")
def why(
    session: Session,
    id: ScheduleId,
    at: Annotated[str, typer.Argument(metavar="INSTANT", help="RFC 3339, such as 2026-03-09T09:00:00-06:00.")],
) -> None:
    """The one verdict on an instant, with its reason: which policy, which numbers, which occurrence stands for it."""
    due = instant(at, "INSTANT")
    told, facts = by_any_id(session, id, lambda name: session.app().why(name, due))
    out = session.out
    if out.as_json:
        out.json(
            {
                "verdict": told.verdict,
                "sentences": list(told.sentences),
                "instant": plain(facts.instant, "instant"),
                "revision": facts.revision,
                "ordinal": facts.ordinal,
                "occurrence": plain(facts.occurrence),
                "range": plain(facts.range),
                "extra": plain(facts.extra),
            }
        )
        return
    for number, sentence in enumerate(told.sentences):
        out.line(sentence, style="bold" if number == 1 else "")
