"""What every column of a backup may hold. A value that passes can be shown, counted on and compared.

``TABLES`` has a rule for each column; a column without one would be taken over unseen, so a test asks for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NoReturn, get_args

from calsched.calendars import BusinessCalendar
from calsched.clock import FIRST_INSTANT, LAST_INSTANT
from calsched.model import FINAL_STATES, OPEN_STATES, Definition, Series
from calsched.stores.schema import SCHEDULE_STATES
from calsched.stores.tables import dump
from calsched.stores.texts import fit

#: Keys, ordinals and numbers beyond this would leave no room to go on counting.
MAX_KEY = 2**53
#: What an INTEGER column of the servers holds.
MAX_INTEGER = 2**31 - 1

#: What was expected, where a value is not that; None where it is.
Rule = Callable[[Any], str | None]


class Bad(ValueError):
    """What is wrong with a line."""


def no_constant(name: str) -> NoReturn:
    """For ``json.loads(parse_constant=…)``."""
    raise ValueError(f"{name} is no JSON value")


def _whole(first: int, last: int, what: str = "an integer") -> Rule:
    return lambda value: None if first <= value <= last else f"{what} from {first} to {last}"


def _one_of(*words: str) -> Rule:
    return lambda value: None if value in words else f"one of {', '.join(words)}"


def _any(value: Any) -> None:
    """Texts and flags: their kind and length say it all."""


def _json(value: str) -> str | None:
    try:
        json.loads(value, parse_constant=no_constant)
    except (ValueError, RecursionError):
        return "JSON"
    return None


def _json_object(value: str) -> str | None:
    wrong = _json(value)
    return wrong or (None if isinstance(json.loads(value), dict) else "a JSON object")


def _wall_time(value: str) -> str | None:
    expected = "a wall time such as 2026-03-08T09:00:00"
    try:
        return expected if datetime.fromisoformat(value).tzinfo is not None else None
    except ValueError:
        return expected


_KEY = _ORDINAL = _BIG_COUNT = _whole(0, MAX_KEY)
_NUMBER = _whole(1, MAX_KEY)
_COUNT = _whole(0, MAX_INTEGER)
_DURATION = _whole(0, LAST_INSTANT, "a duration in milliseconds,")
#: When something happened here.
_INSTANT = _whole(0, LAST_INSTANT, "an instant in milliseconds,")
#: When something was due, which may lie before 1970: a backfill reaches as far back as the rule.
_DUE = _whole(FIRST_INSTANT, LAST_INSTANT, "an instant in milliseconds,")
_SCHEDULE_STATE = _one_of(*SCHEDULE_STATES)
_DECIDED_STATE = _one_of(*SCHEDULE_STATES, "absent")

TABLES: Mapping[str, Mapping[str, Rule]] = {
    "calendars": {
        "pk": _KEY, "name": _any, "version": _NUMBER, "definition": _json_object, "digest": _any,
        "created_at": _INSTANT, "created_by": _any,
    },
    "schedules": {
        "pk": _KEY, "namespace": _any, "id": _any, "state": _SCHEDULE_STATE, "reason": _any, "note": _any,
        "changed_by": _any, "changed_at": _INSTANT, "resume_at": _INSTANT, "revision": _NUMBER, "revision_pk": _KEY,
        "state_version": _NUMBER, "next_ordinal": _ORDINAL, "next_due": _DUE, "look_at": _DUE, "held_due": _DUE,
        "last_due": _DUE, "last_local": _wall_time, "zoned": _any, "used": _BIG_COUNT, "open_count": _COUNT,
        "skip_count": _COUNT, "failures": _COUNT, "last_failure": _any, "held_by": _KEY, "attention": _any,
        "owner": _any, "created_at": _INSTANT,
    },
    "revisions": {
        "pk": _KEY, "schedule_pk": _KEY, "number": _NUMBER, "definition": _json_object, "digest": _any,
        "created_at": _INSTANT, "created_by": _any, "tzdata": _any, "first_due": _DUE, "final_ordinal": _ORDINAL,
        "final_state": _SCHEDULE_STATE, "pruned_before": _ORDINAL,
    },
    "occurrences": {
        "pk": _KEY, "schedule_pk": _KEY, "revision_pk": _KEY, "series": _one_of(*get_args(Series)),
        "ordinal": _ORDINAL, "due": _DUE, "slot_due": _DUE, "run_at": _DUE,
        "state": _one_of(*OPEN_STATES, *FINAL_STATES), "executor": _any, "expires_at": _DUE, "deadline": _DUE,
        "reason": _any, "note": _any, "active_slot": _COUNT, "represents_first": _ORDINAL,
        "represents_last": _ORDINAL, "represents_first_due": _DUE, "attempt": _COUNT, "elapsed": _DURATION,
        "epoch": _KEY, "token": _any, "lease_until": _INSTANT, "cancel": _any, "created_at": _INSTANT,
        "claimed_at": _INSTANT, "started_at": _INSTANT, "finished_at": _INSTANT, "error_type": _any, "error": _any,
        "result": _json,
    },
    "ranges": {
        "pk": _KEY, "schedule_pk": _KEY, "revision_pk": _KEY, "first": _ORDINAL, "last": _ORDINAL,
        "first_due": _DUE, "last_due": _DUE, "verdict": _one_of("represented", "skipped"), "reason": _any,
        "note": _any, "occurrence_pk": _KEY, "counted": _any, "created_at": _INSTANT,
    },
    "attempts": {
        "pk": _KEY, "occurrence_pk": _KEY, "number": _COUNT, "epoch": _KEY, "state": _one_of(*FINAL_STATES),
        "started_at": _INSTANT, "ended_at": _INSTANT, "elapsed": _DURATION, "uncertain": _any, "late": _any,
        "error_type": _any, "error": _any, "traceback": _any,
    },
    "decisions": {
        "pk": _KEY, "namespace": _any, "id": _any, "revision": _NUMBER, "state_version": _NUMBER, "action": _any,
        "from_state": _DECIDED_STATE, "to_state": _DECIDED_STATE, "principal": _any, "at": _INSTANT, "note": _any,
        "evidence": _json_object, "nonce": _any,
    },
    "owners": {
        "epoch": _KEY, "name": _any, "host": _any, "pid": _BIG_COUNT, "started_at": _INSTANT,
        "heartbeat_at": _INSTANT, "lease_until": _INSTANT, "state": _one_of("live", "stopped", "fenced"),
        "tzdata": _any, "version": _any,
    },
    "clock": {
        "id": _whole(1, 1), "high_water": _INSTANT, "boot_time": _DURATION, "boot_id": _any,
        "hold": _one_of("backward", "forward", "restored"), "hold_since": _INSTANT, "hold_note": _any,
    },
    "skips": {
        "pk": _KEY, "schedule_pk": _KEY, "due": _DUE, "note": _any, "principal": _any, "created_at": _INSTANT,
    },
}  # fmt: skip


_KINDS = {int: "an integer", str: "a text", bool: "true or false"}


def check_value(table: str, column: str, shape: dump.Shape, value: Any) -> None:
    """Raises Bad where a value is not what its column holds."""
    expected = _expected(TABLES[table][column], shape, value)
    if expected is not None:
        raise Bad(f"{table}.{column}: expected {expected}, got {_shown(value)}")


def _expected(rule: Rule, shape: dump.Shape, value: Any) -> str | None:
    if value is None:
        return None if shape.nullable else "a value"
    if type(value) is not shape.kind:
        return _KINDS[shape.kind]
    if isinstance(value, str):
        if shape.length is not None and len(value) > shape.length:
            return f"up to {shape.length} characters"
        if fit(value) != value:
            return "no NUL and no lone surrogate"
    return rule(value)


def _shown(value: Any) -> str:
    if isinstance(value, str) and len(value) > 60:
        return f"{len(value)} characters, {value[:40]!a}…"
    return "null" if value is None else ascii(value)[:60]


_DIGESTS: dict[str, Callable[[Any], str]] = {
    "calendars": lambda material: BusinessCalendar("restored", 1, material).digest,
    "revisions": lambda material: Definition.from_material(material).digest(),
}


def check_row(table: str, row: Mapping[str, Any]) -> None:
    """What hangs together within a row: stored material is what its digest says. Raises Bad."""
    if table not in _DIGESTS:
        return
    try:
        material = json.loads(row["definition"], parse_constant=no_constant)
        found = _DIGESTS[table](material)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise Bad(f"{table}.definition: expected a stored definition ({type(error).__name__})") from None
    if found != row["digest"]:
        raise Bad(f"{table}.digest: it is not that of the definition beside it")
