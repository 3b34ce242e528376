"""A database for one measure: a file in a folder that goes away, or a fresh database on a PostgreSQL server."""

from __future__ import annotations

import argparse
import json
import logging
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from _report import Scale, Section
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

POSTGRES = os.environ.get("CALSCHED_TEST_POSTGRES_URL", "postgresql+psycopg://postgres@127.0.0.1/test")


def reachable(url: str) -> bool:
    from sqlalchemy.exc import SQLAlchemyError

    engine = create_engine(url)
    try:
        with engine.connect():
            return True
    except (SQLAlchemyError, ModuleNotFoundError):
        return False
    finally:
        engine.dispose()


@contextmanager
def fresh(server: str = "") -> Iterator[str]:
    """The URL of an empty database: on ``server``, or a SQLite file."""
    if not server:
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/bench.db"
        return
    name = f"bench_{secrets.token_hex(4)}"
    admin = create_engine(server, isolation_level="AUTOCOMMIT")
    with admin.connect() as conn:
        conn.execute(text(f"CREATE DATABASE {name}"))
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        with admin.connect() as conn:
            conn.execute(text(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
        admin.dispose()


def elsewhere(script: str, **given: Any) -> Any:
    """Run one side in a process of its own: ``script --side JSON``; what it prints last is the answer."""
    command = [sys.executable, script, "--side", json.dumps(given)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    if done.returncode:
        raise RuntimeError(f"{script} {given}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def by_sides(about: str, side: Callable[..., Any], measure: Callable[[Scale], Section]) -> None:
    """The command line of a script whose sides run in processes of their own (see ``elsewhere``)."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--side", default="")
    given = parser.parse_args()
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    if given.side:
        print(json.dumps(side(**json.loads(given.side))))
    else:
        measure(Scale(given.quick, POSTGRES if reachable(POSTGRES) else "")).show()
