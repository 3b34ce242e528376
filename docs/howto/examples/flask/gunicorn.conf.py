"""Four workers, one of which owns the schedules. The others stand by and take over when it goes."""

workers = 4
preload_app = False  # each worker makes its own app after the fork, and with it its own scheduler


def worker_exit(server: object, worker: object) -> None:
    """Give the store back at once; without this the next owner waits until the operating system has closed it."""
    app = getattr(worker, "wsgi", None)
    scheduler = getattr(app, "extensions", {}).get("scheduler")
    if scheduler is not None and scheduler.running:
        scheduler.shutdown(wait=False)
