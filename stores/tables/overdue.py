"""What ends by the clock alone, asked in one statement: nearly every tick finds that there is nothing of it."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, Connection, Select, bindparam, exists, func, select, text

from calsched.stores.schema import HELD, OPEN, Tables
from calsched.stores.tables.occurrences import IDLE


class Overdue(NamedTuple):
    """Whether there is a pause, a limit of waiting work or a host's lease that is over; and the store's tzdata."""

    pause: bool
    limit: bool
    lease: bool
    tzdata: str | None


@cache
def _overdue(t: Tables) -> Select[Any]:
    o, s = t.occurrences.c, t.schedules.c
    now: BindParameter[int] = bindparam("now")
    idle = [exists().where(text(f"{name} IS NOT NULL"), text(IDLE), text(OPEN), o[name] < now)
            for name in ("expires_at", "deadline")]  # fmt: skip
    return select(
        # the least of its index: asked whether one exists, PostgreSQL may read the whole table
        select(func.min(s.resume_at)).where(text("resume_at IS NOT NULL")).scalar_subquery() <= now,
        idle[0],
        idle[1],
        exists().where(o.epoch == text("0"), text(HELD), o.lease_until < now),
        select(t.meta.c.value).where(t.meta.c.name == text("'tzdata'")).scalar_subquery(),
    )


def look(conn: Connection, t: Tables, now: int) -> Overdue:
    pause, expiry, deadline, lease, tzdata = conn.execute(_overdue(t), {"now": now}).one()
    return Overdue(bool(pause), bool(expiry or deadline), bool(lease), tzdata)
