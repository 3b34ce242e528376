"""Run every benchmark and write docs/benchmarks.md.

    python tests/benchmarks/run.py [--quick] [--only drain,lateness] [--runs N] [--to FILE]

Takes some twenty minutes; leave the machine alone meanwhile. ``--quick`` only proves that everything runs: it prints,
and writes nothing. PostgreSQL is measured where it answers (CALSCHED_TEST_POSTGRES_URL, else the local server).
"""

from __future__ import annotations

import argparse
import logging
import sys
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from _databases import POSTGRES, reachable
from _report import Scale, machine, page

ALL = ("drain", "lateness", "counts", "idle", "deploy", "triggers", "planner", "verbs")
PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default=",".join(ALL))
    parser.add_argument("--runs", type=int, default=3, help="of each side, the best of which counts")
    parser.add_argument("--to", type=Path)
    given = parser.parse_args()
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    scale = Scale(given.quick, POSTGRES if reachable(POSTGRES) else "", given.runs)
    if not scale.postgres:
        print(f"PostgreSQL does not answer at {POSTGRES}: its measures are left out", file=sys.stderr)
    facts, sections = machine(scale.postgres), []
    for name in given.only.split(","):
        sections.append(import_module(f"bench_{name}").measure(scale))
        sections[-1].show()
    to = given.to or (PAGE if not given.quick and given.only == ",".join(ALL) else None)
    if to is not None:
        to.write_text(page(sections, facts, datetime.now(UTC).date().isoformat()))


if __name__ == "__main__":
    main()
