"""The crontab how-to: adopted lines run as commands, and their end is in the ledger."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from apscheduler.schedulers.background import BackgroundScheduler

from calsched import App, OccurrenceJobStore
from calsched.adopt.crontab import adopt_crontab
from calsched.adopt.yaml_text import to_yaml
from calsched.stores.views import OccurrenceView
from tests.howto._serving import EXAMPLES, until

CRONTAB = """\
CRON_TZ=UTC
GREETING=hello
0 0 1 1 * echo "$GREETING, $OCCURRENCE"
0 0 1 1 * tr a-z A-Z%from cron
0 0 1 1 * echo no >&2; exit 3
"""


@pytest.mark.timeout(120)
def test_adopted_commands_run_and_end_in_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES / "crontab"))
    adoption = adopt_crontab(CRONTAB, callable="crontab_jobs:shell")
    assert adoption.refused == []
    ids = [adopted.id for adopted in adoption.schedules]
    store = OccurrenceJobStore(f"sqlite:///{tmp_path}/s.db", allow=["crontab_jobs:*"], poll_interval=0.1)
    scheduler = BackgroundScheduler(jobstores={"default": store})
    ended = threading.Semaphore(0)
    scheduler.add_listener(lambda _: ended.release(), 2**12 | 2**13)  # EXECUTED and ERROR
    scheduler.start()
    try:
        with App(store=store.store) as app:
            app.create(to_yaml(adoption).encode(), format="yaml")
            for id in ids:
                app.run(id)
            for _ in ids:
                assert ended.acquire(timeout=60)
            told = [until(lambda id=id: _end(app, id), f"the end of {id}") for id in ids]  # type: ignore[misc]
    finally:
        scheduler.shutdown()
    assert [one.state for one in told] == ["succeeded", "succeeded", "failed"]
    assert "hello, [" in str(told[0].result)
    assert "FROM CRON" in str(told[1].result)
    assert "exit code 3: no" in str(told[2].error)


def _end(app: App, id: str) -> OccurrenceView | None:
    occurrences = [entry for entry in app.history(id).entries if isinstance(entry, OccurrenceView)]
    return occurrences[0] if occurrences and occurrences[0].state in ("succeeded", "failed") else None
