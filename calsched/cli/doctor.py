"""Commands that look after the whole: doctor, clock, tzdata, forecast."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from calsched.app.plain import plain
from calsched.cli.common import Note, Session, command, duration, invalid
from calsched.cli.main import app as root
from calsched.cli.render import Output, styled
from calsched.clock import to_rfc3339
from calsched.words import counted

_BARS = " ▁▂▃▄▅▆▇█"
DAY, HOUR = 86_400_000, 3_600_000


@command(root, "doctor")
def doctor(
    session: Session,
    slack: Annotated[str, typer.Option(help="How long something may be overdue before it counts.")] = "60s",
) -> None:
    """Look for what is not as it should be. Exit code 1 when something is found, for monitoring."""
    health = session.app().doctor(slack=duration(slack, "--slack"))
    out = session.out
    if out.as_json:
        out.json(
            {
                "ok": health.ok,
                "findings": [_finding_plain(one) for one in health.findings],
                "notes": list(health.notes),
                "schedules": health.counts,
                "owners": plain(health.owners),
            }
        )
    else:
        _show_health(out, health)
    if not health.ok:
        raise typer.Exit(1)


def _finding_plain(finding: Any) -> dict[str, Any]:
    return {"kind": finding.kind, "message": finding.message, "facts": plain(finding.facts)}


def _show_health(out: Output, health: Any) -> None:
    for one in health.findings:
        further = {name: value for name, value in plain(one.facts).items() if not _is_told(name, value, one.message)}
        facts = ", ".join(f"{name} {value}" for name, value in further.items())
        out.text((one.kind, "bold red"), f": {one.message}", (f"  {facts}" if facts else "", "dim"))
    for owner in health.owners:
        out.text((f"owner {owner.name}", "bold"), f" (epoch {owner.epoch}) since {to_rfc3339(owner.started_at)}")
    for note in health.notes:
        out.note(note)
    if health.ok:
        total = sum(health.counts.values())
        out.line(f"all is well: every slot of {counted(total, 'schedule')} has exactly one verdict", style="green")


def _is_told(name: str, value: Any, message: str) -> bool:
    return value is None or name == "state" or repr(value) in message or (name, value) == ("namespace", "default")


@command(root, "clock")
def clock(
    session: Session,
    action: Annotated[str | None, typer.Argument(metavar="[accept]", help="Declare the present reading right.")] = None,
    rewind: Annotated[
        bool, typer.Option("--rewind", help="With accept: take back slots that a false future judged.")
    ] = False,
    note: Note = None,
) -> None:
    """The clock that decides what is due: its high water, and whether dispatch is on hold. `accept` ends the hold."""
    if action not in (None, "accept"):
        raise invalid(f"expected accept, or nothing, got {action[:40]!r}", "clock")
    if action == "accept":
        _accept(session, rewind, note)
        return
    if rewind:
        raise invalid("this belongs to `calsched clock accept`", "--rewind")
    _show_clock(session)


def _accept(session: Session, rewind: bool, note: str | None) -> None:
    done = session.app().clock_accept(rewind=rewind, note=note)
    if session.as_json:
        session.out.json({"hold": done.hold, "rewound": [list(name) for name in done.rewound]})
        return
    ended = f"the hold ({done.hold}) has ended" if done.hold else "there was no hold"
    session.out.line(f"the clock is accepted as it is; {ended}")
    for namespace, id in done.rewound:
        session.out.line(f"  {namespace}/{id}: its cursor was put back")


def _show_clock(session: Session) -> None:
    report = session.app().clock_report()
    out = session.out
    if out.as_json:
        out.json({"now": plain(report.now, "now"), **plain(report.clock)})
        return
    seen = report.clock
    hold = "none"
    if seen.hold is not None:
        since = f" since {to_rfc3339(seen.hold_since)}" if seen.hold_since is not None else ""
        hold = f"{seen.hold}{since}: {seen.hold_note or 'no note'}"
    out.fields(
        {
            "now": to_rfc3339(report.now),
            "high water": to_rfc3339(seen.high_water) if seen.high_water is not None else "no tick yet",
            "hold": hold,
        }
    )


@command(root, "tzdata")
def tzdata(
    session: Session,
    against: Annotated[
        str | None, typer.Option(help="Zone data to compare with: package, system, or a folder of compiled zones.")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3660, help="How far ahead due instants are compared.")] = 365,
) -> None:
    """The zone data here, in the store and at its owners, and which due instants would move under other data."""
    app = session.app()
    report = app.zone_report()
    other = against or (report.other_source if report.other_version is not None else None)
    moves = () if other is None else app.zone_moves(other, days=days)
    out = session.out
    if out.as_json:
        out.json({**plain(report), "against": other, "moves": plain(moves)})
        return
    out.fields(
        {
            "here": f"{report.version} ({report.source})",
            "store": report.store or "none yet",
            "owners": ", ".join(f"{owner.name}: {owner.tzdata}" for owner in report.owners) or "none alive",
            report.other_source: report.other_version or "not installed",
        }
    )
    if other is not None:
        _show_moves(out, other, moves, days)


def _show_moves(out: Output, other: str, moves: Any, days: int) -> None:
    if not moves:
        out.line(f"under {other} nothing would move within {days} days")
        return
    out.line(f"under {other} within {days} days:")
    for one in moves:
        found = one.changes
        told = [f"{to_rfc3339(move.before)} → {to_rfc3339(move.after)}" for move in found.moved[:3]]
        told += [f"+ {to_rfc3339(due)}" for due in found.added[:2]]
        told += [f"- {to_rfc3339(due)}" for due in found.removed[:2]]
        number = len(found.moved) + len(found.added) + len(found.removed)
        more = " …" if number > len(told) else ""
        out.text((one.id, "bold"), f" ({one.zone}), {number:,} due instants: {', '.join(told)}{more}")


@command(root, "forecast")
def forecast(
    session: Session,
    days: Annotated[int, typer.Option(min=1, max=92, help="How many days.")] = 7,
) -> None:
    """How many occurrences the enabled schedules will start, by hour and minute (UTC), and the worst minutes."""
    found = session.app().forecast(days)
    out = session.out
    if out.as_json:
        out.json(_forecast_plain(found))
        return
    _show_forecast(out, found)


def _forecast_plain(found: Any) -> dict[str, Any]:
    return {
        "start": to_rfc3339(found.start),
        "end": to_rfc3339(found.end),
        "schedules": found.schedules,
        "total": found.total,
        "hours": list(found.hours),
        "minutesOfHour": list(found.minutes_of_hour),
        "worst": [
            {
                "minute": to_rfc3339(one.start),
                "starts": one.starts,
                "schedules": list(one.schedules),
                "others": one.others,
            }
            for one in found.worst
        ],
    }


def _show_forecast(out: Output, found: Any) -> None:
    span = f"{to_rfc3339(found.start)} to {to_rfc3339(found.end)}"
    out.line(f"{counted(found.total, 'start')} of {counted(found.schedules, 'schedule')}, {span}")
    if not found.total:
        return
    out.line("\nby hour (UTC)       0h    6h    12h   18h", style="dim")
    most = max(found.hours)
    for day in range(found.start - found.start % DAY, found.end, DAY):
        numbers = [_hour(found, day + hour * HOUR) for hour in range(24)]
        total = sum(number or 0 for number in numbers)
        out.text((f"{to_rfc3339(day)[:10]}          ", "dim"), (_bars(numbers, most), "cyan"), f"  {total:,}")
    out.line("\nby minute of the hour, 0 to 59", style="dim")
    out.text((_bars(found.minutes_of_hour, max(found.minutes_of_hour)), "cyan"))
    out.line("\nthe worst minutes", style="dim")
    worst = found.worst[0].starts
    out.table(["MINUTE", "STARTS", "", "SCHEDULES"], [_worst_row(one, worst) for one in found.worst], right=["STARTS"])


def _hour(found: Any, instant: int) -> int | None:
    at = (instant - found.start) // HOUR
    return found.hours[at] if 0 <= at < len(found.hours) else None


def _bars(numbers: Any, most: int) -> str:
    return "".join("·" if number is None else _bar(number, most) for number in numbers)


def _bar(number: int, most: int) -> str:
    """The higher the fuller; one start already shows."""
    if number == 0 or most == 0:
        return _BARS[0]
    return _BARS[max(1, round(number / most * (len(_BARS) - 1)))]


def _worst_row(one: Any, most: int) -> list[Any]:
    more = f" and {one.others:,} more" if one.others else ""
    bar = "█" * max(1, round(one.starts / most * 20))
    return [to_rfc3339(one.start), f"{one.starts:,}", styled((bar, "cyan")), ", ".join(one.schedules) + more]
