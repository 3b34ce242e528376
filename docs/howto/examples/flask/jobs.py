"""What the schedules run. Plain functions of a module, so that every process finds them by name."""

import logging

from calsched import current_occurrence


def write_report() -> str:
    occurrence = current_occurrence()
    logging.info("report for %s, occurrence %s", occurrence.due, occurrence.key)
    return "written"


def collect() -> int:
    # The key is the same if this run is repeated, so it serves as an idempotency key for whatever is called here.
    logging.info("collecting as %s", current_occurrence().key)
    return 3
