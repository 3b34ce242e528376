"""A Flask app with schedules that outlive its processes: `gunicorn -c gunicorn.conf.py "app:create_app()"`."""

import os

import jobs
from apscheduler.schedulers.background import BackgroundScheduler
from flask import Flask

from calsched import CalendarTrigger, IntervalTrigger, OccurrenceJobStore, durable


def create_app(start: bool = True) -> Flask:
    app = Flask(__name__)
    app.config.from_prefixed_env("SHOP")
    # standby: of all processes that open this file one owns it and runs what is due; the others wait their turn.
    store = OccurrenceJobStore(app.config.get("STORE", "sqlite:///shop.db"), standby=True, allow=["jobs:*"])
    scheduler = BackgroundScheduler(jobstores={"default": store})
    scheduler.add_job(
        jobs.write_report,
        durable(CalendarTrigger(hour=9, weekdays="mon-fri", timezone="Europe/Berlin"), misfire="runOnce"),
        id="report",
        replace_existing=True,  # each start says it again; what has not changed stays as it is
    )
    scheduler.add_job(
        jobs.collect,
        durable(IntervalTrigger(milliseconds=app.config.get("COLLECT_MS", 30_000)), overlap="coalesce"),
        id="collect",
        replace_existing=True,
    )
    app.extensions["scheduler"] = scheduler
    if start:
        scheduler.start()

    @app.get("/health")
    def health() -> tuple[dict[str, object], int]:
        state = store.health()
        return {"pid": os.getpid(), "role": store.role, "reason": state.reason}, 200 if state.healthy else 503

    @app.post("/report/pause")
    def pause() -> dict[str, str]:
        scheduler.pause_job("report")  # any worker may; the one that owns the store hears of it
        return {"report": "paused"}

    return app
