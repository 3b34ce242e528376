"""Writes docs/states.md from the one table of moves: ``python docs/make_states.py``."""

from __future__ import annotations

from pathlib import Path

from calsched.policies.lifecycle import MOVES, OCCURRENCE_MOVES, occurrence_diagram, schedule_diagram

PAGE = Path(__file__).with_name("states.md")

INTRODUCTION = """\
# The two state machines

Both are drawn from the tables in `policies/lifecycle.py`, which is also what the code obeys; CHECK constraints in the
database repeat the states. A move that is not in the table does not happen: it is refused with the state, the action
and the reason.
(`python docs/make_states.py` writes this page, and a test compares.)
"""

SCHEDULE = """\
## Schedules

`absent` is the row's absence, before a creation and after a delete. `paused` and `disabled` carry a reason, a note,
who and when: a pause by an operator ends with `resume`, which applies the misfire policy to what came due meanwhile; a
pause by failures or by an unusable definition ends with `enable`, which starts from now.

A definition or a task that an owner cannot load (its code is older, or its allow list does not name it) is left to
other owners. Where there is none, it is paused after one more lease, so that a rolling deploy has the time to bring
the new code; `tick`, which will not be there by then, pauses it at once.
"""

OCCURRENCE = """\
## Occurrences

Final states are final: a report that comes later, from an owner that lost its lease, is kept as evidence and changes
nothing.
"""


def schedule_table() -> str:
    lines = [
        "| from | action | to | what it means | what is due and unjudged | the cursor | pending work |",
        "|---|---|---|---|---|---|---|",
    ]
    for m in MOVES:
        source = m.source + (f" ({', '.join(sorted(m.only))})" if m.only else "")
        target = m.target + (f" ({m.reason})" if m.reason else "")
        due = {"keep": "stays due", "passOver": "one uncounted range"}[m.due]
        automatic = " (automatic)" if m.automatic else ""
        lines.append(f"| {source} | {m.action} | {target} | {m.meaning}{automatic} | {due} | {m.cursor} | {m.work} |")
    return "\n".join(lines) + "\n"


def occurrence_table() -> str:
    lines = ["| from | action | to | what it means |", "|---|---|---|---|"]
    lines += [f"| {m.source} | {m.action} | {m.target} | {m.meaning} |" for m in OCCURRENCE_MOVES]
    return "\n".join(lines) + "\n"


def page() -> str:
    return "\n".join(
        [
            INTRODUCTION,
            SCHEDULE,
            f"```mermaid\n{schedule_diagram()}```\n",
            schedule_table(),
            OCCURRENCE,
            f"```mermaid\n{occurrence_diagram()}```\n",
            occurrence_table(),
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page())
