"""Writes docs/time.md, with what five programs answer where clocks change: ``python docs/make_time_table.py``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger
from croniter import croniter
from cronsim import CronSim
from dateutil.rrule import rrulestr

from calsched import zones
from calsched.clock import LAST_INSTANT, to_datetime
from calsched.triggers import build

PAGE = Path(__file__).with_name("time.md")
VECTORS = Path(__file__).parents[1] / "tests" / "vectors" / "reported.jsonl"
OTHERS = ("croniter", "cronsim", "APScheduler", "dateutil")


class Case(NamedTuple):
    """A rule in the languages of all, what is asked of it, and the right answer, which comes from its vector."""

    vector: str
    what: str
    cron: str
    rrule: str
    zone: str
    after: datetime
    gap: str
    fold: str
    expected: tuple[str, ...]


#: Vector, what happens there, the rule as cron and as RRULE. Weekdays by name: APScheduler counts them from Monday.
ROWS = [
    ("G01-skip", "02:30 does not exist", "30 2 * * *", "FREQ=DAILY;BYHOUR=2;BYMINUTE=30"),
    ("C23", "02:00 does not exist, 03:00 does", "0 2 * * *", "FREQ=DAILY;BYHOUR=2;BYMINUTE=0"),
    ("G02-shift", "two times in one gap", "0,30 2 * * *", "FREQ=DAILY;BYHOUR=2;BYMINUTE=0,30"),
    ("G03-shift", "a gap up to midnight", "30 23 * * *", "FREQ=DAILY;BYHOUR=23;BYMINUTE=30"),
    ("G03-boundary", "the same, moved to its end", "30 23 * * *", "FREQ=DAILY;BYHOUR=23;BYMINUTE=30"),
    ("G04-boundary", "a gap after midnight, weekdays", "30 0 * * mon-fri",
     "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=0;BYMINUTE=30"),
    ("G05-skip", "midnight does not exist", "0 0 * * *", "FREQ=DAILY;BYHOUR=0;BYMINUTE=0"),
    ("G06-boundary", "a gap of two hours", "30 1,2 * * *", "FREQ=DAILY;BYHOUR=1,2;BYMINUTE=30"),
    ("G07-shift", "a whole day does not exist", "0 9 * * *", "FREQ=DAILY;BYHOUR=9;BYMINUTE=0"),
    ("G08-skip", "a gap of half an hour", "15 2 * * *", "FREQ=DAILY;BYHOUR=2;BYMINUTE=15"),
    ("G10-skip", "a gap on a Friday, weekdays", "30 2 * * mon-fri",
     "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=2;BYMINUTE=30"),
    ("G11", "every 20 minutes across a gap", "*/20 * * * *", "FREQ=MINUTELY;INTERVAL=20"),
    ("F02-second", "01:30 happens twice; the second", "30 1 1 * *", "FREQ=MONTHLY;BYMONTHDAY=1;BYHOUR=1;BYMINUTE=30"),
    ("F05-first", "01:30 happens twice; the first", "30 1 * * *", "FREQ=DAILY;BYHOUR=1;BYMINUTE=30"),
    ("F05-second", "01:30 happens twice; the second", "30 1 * * *", "FREQ=DAILY;BYHOUR=1;BYMINUTE=30"),
    ("F08", "half-hourly into the second pass", "*/30 * * * *", "FREQ=MINUTELY;INTERVAL=30"),
    ("F09", "hourly through a fold", "0 * * * *", "FREQ=HOURLY;BYMINUTE=0"),
    ("F10", "half-hourly, asked inside the second pass", "*/30 * * * *", "FREQ=MINUTELY;INTERVAL=30"),
    ("T01", "daily midnight after a gap", "0 0 * * *", "FREQ=DAILY;BYHOUR=0;BYMINUTE=0"),
    ("T04", "the first of the month, March to April", "0 0 1 * *", "FREQ=MONTHLY;BYMONTHDAY=1;BYHOUR=0;BYMINUTE=0"),
    ("T05", "the first of the month, south", "0 0 1 * *", "FREQ=MONTHLY;BYMONTHDAY=1;BYHOUR=0;BYMINUTE=0"),
    ("T06", "hourly on weekdays after a gap", "5 * * * mon-fri", "FREQ=HOURLY;BYDAY=MO,TU,WE,TH,FR;BYMINUTE=5"),
]  # fmt: skip


def cases() -> list[Case]:
    found = {case["id"]: case for case in map(json.loads, VECTORS.read_text(encoding="utf-8").splitlines())}
    return [_case(found[vector], what, cron, rrule) for vector, what, cron, rrule in ROWS]


def _case(vector: dict[str, Any], what: str, cron: str, rrule: str) -> Case:
    trigger = vector["trigger"]
    after = datetime.fromisoformat(vector["after"])
    rrule += ";BYSECOND=0"
    policies = trigger["gap"], trigger["fold"]
    return Case(vector["id"], what, cron, rrule, trigger["tz"], after, *policies, tuple(vector["expect"]))


# --- what each program answers -------------------------------------------------------------------------------------


def by_calsched(case: Case, gap: str = "", fold: str = "") -> list[datetime]:
    form = {"kind": "cron", "expression": case.cron, "timezone": case.zone}
    trigger = build(form | {"gap": gap or case.gap, "fold": fold or case.fold})
    slots = trigger.between(round(case.after.timestamp() * 1000) + 1, LAST_INSTANT)
    return [to_datetime(slot) for slot in islice(slots, len(case.expected))]


def by_croniter(case: Case) -> Iterator[datetime]:
    found = croniter(case.cron, case.after.astimezone(ZoneInfo(case.zone)), ret_type=datetime)
    while True:
        yield found.get_next()


def by_cronsim(case: Case) -> Iterator[datetime]:
    yield from CronSim(case.cron, case.after.astimezone(ZoneInfo(case.zone)))


def by_apscheduler(case: Case) -> Iterator[datetime]:
    trigger, last = CronTrigger.from_crontab(case.cron, timezone=ZoneInfo(case.zone)), case.after
    while (last := trigger.get_next_fire_time(last, last)) is not None:
        yield last


def by_dateutil(case: Case) -> Iterator[datetime]:
    local = case.after.astimezone(ZoneInfo(case.zone)) - timedelta(days=2)
    rule = rrulestr(case.rrule, dtstart=local.replace(hour=0, minute=0, second=0))
    yield from (at for at in rule if at.astimezone(UTC) > case.after)


ENGINES: dict[str, Callable[[Case], Iterator[datetime]]] = {
    "croniter": by_croniter,
    "cronsim": by_cronsim,
    "APScheduler": by_apscheduler,
    "dateutil": by_dateutil,
}


def verdict(case: Case, answers: list[str]) -> str:
    """``✓``, the rules under which the answer would be right, or the first instant that is right under none."""
    if answers == list(case.expected):
        return "✓"
    for gap, fold in product(("skip", "shift", "boundary"), ("first", "second", "both")):
        if answers == shown(by_calsched(case, gap, fold)):
            return f"{gap}, {fold}"
    wrong = [(right, given) for right, given in zip(case.expected, answers, strict=False) if right != given]
    right, given = wrong[0]
    return f"✗ {given[5:16]} for {right[5:16]}"


def shown(answers: list[datetime]) -> list[str]:
    return [f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" for at in answers]


def row(case: Case) -> str:
    cells = [verdict(case, shown(by_calsched(case)))]
    cells += [verdict(case, shown(list(islice(ENGINES[name](case), len(case.expected))))) for name in OTHERS]
    rule = f"`{case.cron}`<br>{case.zone}"
    expected = "<br>".join(f"{at[5:10]} {at[11:16]}" for at in case.expected)
    return f"| {case.what} | {rule} | {case.gap}, {case.fold} | {expected} | {' | '.join(cells)} |"


def table() -> str:
    lines = [
        f"| what | rule | gap, fold | right (UTC) | calsched | {' | '.join(OTHERS)} |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join(lines + [row(case) for case in cases()]) + "\n"


def versions() -> str:
    names = {"croniter": "croniter", "cronsim": "cronsim", "APScheduler": "APScheduler", "dateutil": "python-dateutil"}
    return ", ".join(f"{name} {version(names[name])}" for name in OTHERS) + f", tzdata {zones.version()}"


BEFORE = """\
# Time

How calsched reads a wall clock, and what that means on the days on which clocks change. Every rule below holds for
`calendar`, `cron`, `rrule` and `once` alike, because one module resolves wall times for all of them
([`policies/clock_change.py`](../policies/clock_change.py)).

## When the clock goes forward: the gap

On 2026-03-08 in New York the clock goes from 01:59:59 to 03:00:00. A rule that names 02:30 names a time that does not
exist on that day. The schedule says what becomes of it:

| `gap` | 02:30 on that day | |
|---|---|---|
| `skip` (default) | no slot | the next one is tomorrow's |
| `shift` | 03:30 | later by the length of the gap: 02:30 as the clock would have shown it |
| `boundary` | 03:00 | the first instant after the gap |

Two wall times that come to mean one instant are one slot: a rule for 02:00 and 03:00 with `gap: shift` fires once at
03:00. Gaps are not always an hour at night: Lord Howe jumps by half an hour, Troll by two hours, Samoa left out the
whole of 2011-12-30, and in Cairo, Havana and Nuuk the gap touches midnight, so that what is shifted out of it may land
on the next day.

## When the clock goes back: the fold

On 2026-11-01 in New York 01:30 happens twice, first in daylight time, an hour later in standard time.

| `fold` | 01:30 on that day |
|---|---|
| `first` (default) | the first of the two |
| `second` | the second |
| `both` | both, an hour apart; they are two slots |

There is one exception, for `cron` only and only where `fold` is not declared: a line whose hour field covers every hour
(`*/30 * * * *`) is a cadence rather than a time of day, and keeps both passes. With `first` it would fall silent for an
hour and a half.

Both options are declared with the trigger: `gap: shift`, `fold: both`. `calsched preview` marks every slot that they
decided, and `calsched why` says for an instant that is no slot which rule took it away.

## Where the zones come from

Zones are IANA names (`Europe/Berlin`). Their data comes from the `tzdata` package that calsched depends on, so that
every host with the same lock file computes the same instants, whatever its operating system has installed
(`zoneSource: system` asks for that instead). Later years follow the rule at the end of the zone's data, up to 9999.
Names that are no place to schedule in are refused: `localtime`, `Factory`, `right/…`, `posix/…`, other spellings.

The version of the data is stored with every schedule's cursor. When it changes, coming slots are computed again from
the **nominal local time** of the last one judged: if 09:00 has run, it is not due again because its UTC instant moved.
`calsched tzdata` shows the version, and what would move under another one.

## Recurrence rules

`rrule` takes what RFC 5545 allows. `dtstart` is a wall time of the zone and an occurrence only where it matches the
rule. `UNTIL` with a `Z` is an instant, without it a wall time; a date alone includes its day. `EXDATE` is taken out
after `COUNT` has counted. What the RFC forbids is refused with the part named, and so is a rule that can never fire.
Searches start where they are asked, not at `dtstart`, and look at a bounded number of periods.

## What others answer

Each row is a case from [`tests/vectors/reported.jsonl`](../tests/vectors/reported.jsonl), whose answers come from
outside of calsched. The next instants after a given one are asked of each program; dateutil gets the same rule as an
RRULE with an aware `dtstart`. `✓` is the right answer under the row's gap and fold rules. The others cannot be asked
for a rule, so a pair of words names the rules under which their answer would be right too. `✗` is an answer that is
right under none: the first instant that differs, for the one expected.

"""

AFTER = """
Versions: {versions}.

This page is written by a script; to see for yourself, in a checkout with the test dependencies installed:

```
python docs/make_time_table.py
```
"""


def page() -> str:
    return BEFORE + table() + AFTER.format(versions=versions())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"written: {PAGE}")
