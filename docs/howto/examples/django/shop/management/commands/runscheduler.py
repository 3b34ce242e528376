"""`manage.py runscheduler`: the one process that runs what is due; a second one stands by."""

import signal
from typing import Any

from apscheduler.schedulers.blocking import BlockingScheduler
from django.conf import settings
from django.core.management.base import BaseCommand

from shop.schedules import declare, job_store


class Command(BaseCommand):
    help = "Run the schedules until SIGTERM or Ctrl-C."

    def handle(self, *args: Any, **options: Any) -> None:
        store = job_store(settings.CALSCHED_STORE)
        scheduler = BlockingScheduler(jobstores={"default": store})
        declare(scheduler)
        signal.signal(signal.SIGTERM, lambda *_: scheduler.shutdown(wait=False))
        try:
            scheduler.start()
        except KeyboardInterrupt:
            scheduler.shutdown()
        store.stop(30)  # let what runs end, and be recorded
