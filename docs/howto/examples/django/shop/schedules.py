"""The schedules of this project, in one place: the management command runs them, views control them."""

import os

from apscheduler.schedulers.base import BaseScheduler

from calsched import IntervalTrigger, OccurrenceJobStore, durable
from shop import tasks


def job_store(url: str) -> OccurrenceJobStore:
    return OccurrenceJobStore(url, standby=True, allow=["shop.tasks:*"])


def declare(scheduler: BaseScheduler) -> None:
    every = int(os.environ.get("SHOP_COLLECT_MS", "30000"))
    scheduler.add_job(
        tasks.collect,
        durable(IntervalTrigger(milliseconds=every), overlap="coalesce", misfire="runOnce"),
        id="collect",
        replace_existing=True,
    )
