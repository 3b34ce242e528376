"""What the schedules run: coroutine functions, on the event loop of the worker that owns the store."""

import asyncio

from calsched import current_occurrence


async def collect() -> str:
    await asyncio.sleep(0)  # whatever is awaited here
    return str(current_occurrence().key)
