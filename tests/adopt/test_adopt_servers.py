"""A job store on a server is read as one in a file is; the connection can only read."""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from apscheduler.triggers.cron import CronTrigger

from calsched.adopt.apscheduler import adopt_apscheduler
from calsched.errors import StoreUnreachable
from calsched.stores.adopt_source import stored_jobs
from tests.adopt._jobs import row

SERVERS = {
    "postgresql": os.environ.get("CALSCHED_TEST_POSTGRES_URL", "postgresql+psycopg://postgres@127.0.0.1/test"),
    "mariadb": os.environ.get("CALSCHED_TEST_MARIADB_URL", "mysql+pymysql://root@127.0.0.1/test"),
}


@pytest.fixture(params=SERVERS)
def jobs_table(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """A table as SQLAlchemyJobStore makes it, with 25 jobs, one of them too large."""
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore

    url, name = SERVERS[request.param], f"jobs_{uuid.uuid4().hex[:8]}"
    engine = sa.create_engine(url)
    try:
        engine.connect().close()
    except sa.exc.OperationalError:
        engine.dispose()
        pytest.skip(f"no {request.param} here")
    table = SQLAlchemyJobStore(engine=engine, tablename=name).jobs_t
    table.create(engine)
    rows = [row(CronTrigger(hour=n % 24, timezone="UTC"), id=f"job-{n:02d}") for n in range(24)]
    rows.append(row(CronTrigger(hour=1, timezone="UTC"), id="large", args=("x" * 20_000,)))
    with engine.begin() as connection:
        connection.execute(
            table.insert(), [{"id": i, "next_run_time": at, "job_state": data} for i, at, data, _ in rows]
        )
    yield url, name
    table.drop(engine)
    engine.dispose()


def test_every_page_is_read_and_what_is_too_large_is_left_there(jobs_table: tuple[str, str]) -> None:
    url, name = jobs_table
    found = list(stored_jobs(url, table=name, limit=10_000, page=10))
    assert [job.id for job in found] == [f"job-{n:02d}" for n in range(24)] + ["large"]
    assert (found[-1].state, found[-1].size > 20_000) == (None, True)
    adoption = adopt_apscheduler(found)
    assert len(adoption.schedules) == 24
    assert "jobs[large].job_state" in str(adoption.refused[0])


def test_a_server_that_never_speaks_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"mysql+pymysql://someone@127.0.0.1:{server.getsockname()[1]}/jobs?connect_timeout=1"
        found: list[BaseException] = []

        def read() -> None:
            try:
                list(stored_jobs(url, limit=10))
            except StoreUnreachable as error:
                found.append(error)

        reading = threading.Thread(target=read, daemon=True)
        reading.start()
        reading.join(20)
    assert ["does not answer as MariaDB or MySQL: nothing came within 1 s" in str(error) for error in found] == [True]
