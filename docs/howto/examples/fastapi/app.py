"""A FastAPI app with schedules that outlive its processes: `uvicorn app:app --workers 4`."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import jobs
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from fastapi import FastAPI, Response

from calsched import IntervalTrigger, OccurrenceJobStore, durable

store = OccurrenceJobStore(os.environ.get("SHOP_STORE", "sqlite:///shop.db"), standby=True, allow=["jobs:*"])
scheduler = AsyncIOScheduler(jobstores={"default": store})


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start with the loop and stop with it: no thread and no connection exists before the worker does."""
    every = int(os.environ.get("SHOP_COLLECT_MS", "30000"))
    scheduler.add_job(
        jobs.collect,
        durable(IntervalTrigger(milliseconds=every), overlap="coalesce", misfire="runOnce"),
        id="collect",
        replace_existing=True,
    )
    scheduler.start()
    yield
    scheduler.shutdown()


app = FastAPI(lifespan=lifespan)


@app.get("/health")
def health(response: Response) -> dict[str, object]:
    state = store.health()
    response.status_code = 200 if state.healthy else 503
    return {"pid": os.getpid(), "role": store.role, "reason": state.reason}
