"""What the schedules run. Django's connections are closed around each run, as around each request."""

from collections.abc import Callable
from functools import wraps

from django.db import close_old_connections


def task(function: Callable[[], object]) -> Callable[[], object]:
    """For tasks that use models: a thread that works for weeks must not keep a connection that the server closed."""

    @wraps(function)
    def run() -> object:
        close_old_connections()
        try:
            return function()
        finally:
            close_old_connections()

    return run


@task
def collect() -> str:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        return f"collected {cursor.fetchone()[0]}"
