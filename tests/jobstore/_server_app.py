"""An owner on a server that hangs in one task until a line comes in. Usage: _server_app.py URL PREFIX ID"""

from __future__ import annotations

import os
import sys
import threading

from apscheduler.schedulers.background import BackgroundScheduler

from calsched import OccurrenceJobStore, OnceTrigger, SystemClock, durable
from calsched.clock import to_datetime


def hang() -> None:
    os.write(1, b"began\n")
    sys.stdin.readline()


if __name__ == "__main__":
    url, prefix, name = sys.argv[1:]
    store = OccurrenceJobStore(url, prefix=prefix, poll_interval=0.5, lease=3.0, name="the other")
    scheduler = BackgroundScheduler(jobstores={"default": store}, timezone="UTC")
    scheduler.add_job(hang, durable(OnceTrigger(to_datetime(SystemClock().now() + 500))), id=name)
    scheduler.start()
    threading.Event().wait()
