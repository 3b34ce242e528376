"""Moving over: what an existing job store or crontab would become here."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from calsched.adopt.crontab import DEFAULT_MODULE, MAX_BYTES, adopt_crontab
from calsched.adopt.pickles import MAX_BYTES as MAX_JOB_BYTES
from calsched.adopt.result import Adoption
from calsched.app.core import Core
from calsched.errors import InvalidInput, Problem
from calsched.stores.adopt_source import DEFAULT_TABLE, stored_jobs


def adopt_store(
    app: Core, url: str, *, table: str = DEFAULT_TABLE, executors: Collection[str] = ("default",)
) -> Adoption:
    """The jobs of an APScheduler ``SQLAlchemyJobStore``; it is read, never loaded and never changed.

    Raises InvalidInput for a URL or table that is none, StoreUnusable for a database that cannot be read.
    """
    from calsched.adopt.apscheduler import adopt_apscheduler

    return adopt_apscheduler(stored_jobs(url, table=table, limit=MAX_JOB_BYTES), executors=executors, now=app.now())


def adopt_crontab_file(
    file: Path | bytes,
    *,
    timezone: str | None = None,
    system: bool = False,
    callable: str | None = None,
    module: str = DEFAULT_MODULE,
) -> Adoption:
    """The lines of a crontab. Raises InvalidInput where it cannot be read."""
    name = "<stdin>" if isinstance(file, bytes) else str(file)
    try:
        data = file if isinstance(file, bytes) else _bytes_of(file)
        text = data.decode("utf-8")
    except OSError as error:
        raise InvalidInput([Problem(f"cannot be read: {error.strerror}", file=name)]) from None
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InvalidInput([Problem("expected text in UTF-8", file=name, line=line)]) from None
    return adopt_crontab(text, timezone=timezone, system=system, callable=callable, module=module)


def _bytes_of(file: Path) -> bytes:
    with file.open("rb") as source:
        return source.read(MAX_BYTES + 1)
