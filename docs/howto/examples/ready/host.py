"""The host's side: claim a task, do it, say how it ended. Run as many of these as you like, on any machine."""

import os
import threading
from contextlib import suppress

from calsched import App, Refused

LEASE = 30_000  # milliseconds: so long may we be silent before the task counts as interrupted


def review(work: dict, asked_to_stop: threading.Event) -> dict:
    """The work itself. The key is the same for every retry: an idempotency key."""
    return {"reviewed": work["input"]["documentRef"], "for": work["schedule"]["occurrenceKey"]}


def work_on(app: App, task) -> None:
    done, asked_to_stop = threading.Event(), threading.Event()

    def stay_alive() -> None:
        while not done.wait(LEASE / 3_000):
            with suppress(Refused):  # the claim is over; the report at the end will say so
                if app.ready_heartbeat(task.occurrence, task.token, lease=LEASE):
                    asked_to_stop.set()  # `calsched update --cancel-pending`

    beat = threading.Thread(target=stay_alive)
    beat.start()
    try:
        result = review(task.payload, asked_to_stop)
    except Exception as error:
        report = app.ready_fail(task.occurrence, task.token, kind=type(error).__name__, message=str(error))
    else:
        report = app.ready_complete(task.occurrence, task.token, result=result)
    finally:
        done.set()
        beat.join()
    print(f"task {task.occurrence}: {report.state}{', too late' if report.late else ''}", flush=True)


def main(idle: float = 1.0) -> None:
    app = App(os.environ.get("CALSCHED_STORE", "sqlite:///calsched.db"))
    pause = threading.Event()
    while True:
        for task in app.ready_claim(task_class="document-review", lease=LEASE):
            work_on(app, task)
        pause.wait(idle)


if __name__ == "__main__":
    main()
