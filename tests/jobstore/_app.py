"""An app in a process of its own, for tests that kill it. Usage: _app.py URL MODE; it prints what it does."""

from __future__ import annotations

import os
import sys
import threading
import time
from datetime import datetime, timedelta

from apscheduler.schedulers.background import BackgroundScheduler

from calsched import IntervalTrigger, OccurrenceJobStore, OnceTrigger, SystemClock, current_occurrence, durable
from calsched.clock import to_datetime

forever = threading.Event()


def now() -> datetime:
    return to_datetime(SystemClock().now())


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())  # whole lines, whichever thread writes them


def hang() -> None:
    occurrence = current_occurrence()
    assert occurrence is not None
    say(f"began {occurrence.key.schedule_id}")
    forever.wait()


def quick() -> None:
    occurrence = current_occurrence()
    assert occurrence is not None
    say(f"ran {occurrence.key.schedule_id} {occurrence.key.ordinal}")


def slow() -> None:
    say("began slow")
    time.sleep(1.0)


def obedient() -> None:
    occurrence = current_occurrence()
    assert occurrence is not None
    say("began obedient")
    occurrence.cancelled.wait(30)


def main(url: str, mode: str) -> None:
    store = OccurrenceJobStore(url, standby=mode == "standby", poll_interval=0.2, name=mode)
    scheduler = BackgroundScheduler(jobstores={"default": store}, timezone="UTC")
    soon = now() + timedelta(seconds=0.5)
    if mode == "hang":
        for i in range(12):
            scheduler.add_job(hang, durable(OnceTrigger(soon)), id=f"hang-{i}", replace_existing=True)
    elif mode == "tick":
        scheduler.add_job(quick, durable(IntervalTrigger(milliseconds=100), overlap="queue", max_queued=100_000),
                          id="tick", replace_existing=True)  # fmt: skip
        for i in range(30):
            scheduler.add_job(quick, durable(IntervalTrigger(milliseconds=250), overlap="queue"), id=f"q{i}",
                              replace_existing=True)  # fmt: skip
    elif mode in ("unshut", "nowait"):
        scheduler.add_job(slow, durable(OnceTrigger(soon)), id="slow", replace_existing=True)
    scheduler.start()
    say(f"started {store.role}")
    if mode == "fork":
        fork(scheduler, store)
    elif mode == "unshut":
        time.sleep(0.9)
        return  # the interpreter ends, and nobody called shutdown
    elif mode == "nowait":
        time.sleep(0.9)
        scheduler.shutdown(wait=False)
        say("shut down")
        return
    while True:
        say(f"role {store.role}") if mode == "standby" else None
        forever.wait(0.2)


def fork(scheduler: BackgroundScheduler, store: OccurrenceJobStore) -> None:
    child = os.fork()
    if child == 0:
        say(f"child {store.role}")
        scheduler.add_job(quick, durable(OnceTrigger(now() + timedelta(seconds=0.3))), id="from-child")
        say("child added")
        os._exit(0)
    os.waitpid(child, 0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
