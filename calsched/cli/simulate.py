"""The command ``simulate``: the ledger that files would leave, played through without a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import typer

from calsched.cli.common import Files, InputFormat, Session, command, duration, format_of, instant, invalid, sources
from calsched.cli.main import app as root
from calsched.cli.render import Output, state
from calsched.clock import to_rfc3339
from calsched.words import spell

T = TypeVar("T")


@command(root, "simulate")
def simulate(
    session: Session,
    files: Files,
    start: Annotated[str, typer.Option("--from", help="First instant (RFC 3339).")],
    end: Annotated[str, typer.Option("--to", help="The end of the span (RFC 3339).")],
    down: Annotated[
        list[str] | None, typer.Option(metavar="A..B", help="No owner lives from A to B; repeatable.")
    ] = None,
    clock_step: Annotated[
        list[str] | None, typer.Option(metavar="AT=±DUR", help="The wall clock is set at AT; repeatable.")
    ] = None,
    durations: Annotated[
        list[str] | None, typer.Option("--duration", metavar="ID=DUR", help="How long an attempt runs; repeatable.")
    ] = None,
    fail: Annotated[
        list[str] | None, typer.Option(metavar="ID=N", help="So many attempts fail at first; repeatable.")
    ] = None,
    compare: Annotated[str | None, typer.Option(help="misfire: the four misfire policies side by side.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many rows to show.")] = 100,
    input_format: InputFormat = None,
) -> None:
    """Play declarations through a span of time and print the ledger that would result. No store is touched."""
    from calsched.app.simulation import Scenario

    if compare not in (None, "misfire"):
        raise invalid(f"expected misfire, got {compare[:40]!r}", "--compare")
    scenario = Scenario(
        instant(start, "--from"),
        instant(end, "--to"),
        [_span(text) for text in down or ()],
        [_step(text) for text in clock_step or ()],
        dict(_assigned(durations, "--duration", lambda text: duration(text, "--duration"))),
        dict(_assigned(fail, "--fail", _number)),
    )
    format = format_of(input_format)
    app, what, out = session.app(), sources(files, format), session.out
    if compare is not None:
        ledgers = app.compare_misfires(what, scenario, format)
        out.json({name: _plain(one) for name, one in ledgers.items()}) if out.as_json else _compared(out, ledgers)
        return
    ledger = app.simulate(what, scenario, format)
    out.json(_plain(ledger)) if out.as_json else _show(out, ledger, limit)


def _span(text: str) -> tuple[int, int]:
    first, dots, last = text.partition("..")
    if not dots:
        raise invalid(f"expected A..B, two instants with two dots between, got {text[:80]!r}", "--down")
    return instant(first, "--down"), instant(last, "--down")


def _step(text: str) -> tuple[int, int]:
    at, equals, by = text.rpartition("=")
    if not equals or by[:1] not in ("+", "-"):
        raise invalid(f"expected AT=+DUR or AT=-DUR, got {text[:80]!r}", "--clock-step")
    millis = duration(by[1:], "--clock-step")
    return instant(at, "--clock-step"), millis if by[0] == "+" else -millis


def _assigned(texts: Sequence[str] | None, option: str, read: Callable[[str], T]) -> list[tuple[str, T]]:
    out = []
    for text in texts or ():
        name, equals, value = text.rpartition("=")
        if not equals or not name:
            raise invalid(f"expected ID=VALUE, got {text[:80]!r}", option)
        out.append((name, read(value)))
    return out


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise invalid(f"expected a number of attempts, got {text[:40]!r}", "--fail")
    return int(text)


def _plain(ledger: Any) -> dict[str, Any]:
    return {
        "rows": [_row_plain(row) for row in ledger.rows],
        "counts": ledger.counts(),
        "paused": {name: to_rfc3339(at) for name, at in ledger.paused.items()},
        "ended": dict(ledger.ended),
        "refused": dict(ledger.refused),
        "holds": [
            {"kind": hold.kind, "start": to_rfc3339(hold.start), "end": _maybe(hold.end)} for hold in ledger.holds
        ],
        "truncated": ledger.truncated,
    }


def _row_plain(row: Any) -> dict[str, Any]:
    return {
        "schedule": row.schedule,
        "first": row.first,
        "last": row.last,
        "due": to_rfc3339(row.due),
        "lastDue": to_rfc3339(row.last_due),
        "verdict": row.verdict,
        "reason": row.reason,
        "started": _maybe(row.started),
        "ended": _maybe(row.ended),
        "attempts": row.attempts,
        "representedBy": row.represented_by,
    }


def _maybe(instant: int | None) -> str | None:
    return None if instant is None else to_rfc3339(instant)


def _show(out: Output, ledger: Any, limit: int) -> None:
    rows = [_cells(row) for row in ledger.rows[:limit]]
    if rows:
        out.table(["DUE", "SCHEDULE", "SLOT", "VERDICT", "STARTED", "TOOK", "REMARKS"], rows, right=["SLOT", "TOOK"])
    else:
        out.line("nothing was due in that span")
    if len(ledger.rows) > limit:
        out.line(f"… and {len(ledger.rows) - limit:,} more rows (--limit)", style="dim")
    for hold in ledger.holds:
        end = f" to {to_rfc3339(hold.end)}" if hold.end is not None else ""
        out.line(f"dispatch on hold ({hold.kind}) from {to_rfc3339(hold.start)}{end}", style="yellow")
    for name, at in ledger.paused.items():
        out.text((name, "bold"), (f": paused by failures at {to_rfc3339(at)}", "yellow"))
    for name, why in [*ledger.ended.items(), *ledger.refused.items()]:
        out.text((name, "bold"), f": {'refused' if name in ledger.refused else 'ended'}, {why}")
    out.line()
    for name, verdicts in ledger.counts().items():
        out.text((name, "bold"), ": " + ", ".join(f"{number:,} {verdict}" for verdict, number in verdicts.items()))


def _cells(row: Any) -> list[Any]:
    slots = str(row.first) if row.first == row.last else f"{row.first}–{row.last}"
    started = "" if row.started is None else to_rfc3339(row.started)
    took = "" if row.started is None or row.ended is None else spell(max(row.ended - row.started, 0))
    remarks = [f"{row.attempts} attempts"] if row.attempts > 1 else []
    remarks += [f"to {to_rfc3339(row.last_due)}"] if row.first != row.last else []
    remarks += [f"by slot {row.represented_by}"] if row.represented_by is not None else []
    return [to_rfc3339(row.due), row.schedule, slots, state(row.verdict, row.reason), started, took, "; ".join(remarks)]


def _compared(out: Output, ledgers: Any) -> None:
    """A line a schedule and verdict, a column a policy."""
    counts = {policy: ledger.counts() for policy, ledger in ledgers.items()}
    keys = {(name, verdict): None for found in counts.values() for name in found for verdict in found[name]}
    rows = [
        [name, verdict, *(f"{counts[policy].get(name, {}).get(verdict, 0):,}" for policy in counts)]
        for name, verdict in sorted(keys)
    ]
    out.table(["SCHEDULE", "VERDICT", *counts], rows, right=list(counts))
