from __future__ import annotations

from calsched.clock import SystemClock, to_rfc3339
from calsched.stores.engine import Store
from tests.cli.conftest import CommandLine
from tests.stores._helpers import DAY, Ledger, every


def test_pruning_keeps_what_is_wanted_and_why_says_pruned(cli: CommandLine) -> None:
    store = Store(f"sqlite:///{cli.folder}/calsched.db")
    store.open()
    today = SystemClock().now() // DAY * DAY
    ledger = Ledger(store, today - 10 * DAY)
    ledger.create(every(DAY))
    for day in range(10, 0, -1):
        ledger.tick(today - day * DAY)
        ledger.run()
    store.dispose()
    assert cli.json("prune", "a", "--keep-days", "4") == {"occurrences": 7, "ranges": 0, "extraRuns": 0}
    assert len(cli.json("history", "a")["entries"]) == 3
    assert cli.json("why", "a", to_rfc3339(today - 8 * DAY))["verdict"] == "pruned"
    assert cli.json("why", "a", to_rfc3339(today - 2 * DAY))["verdict"] == "succeeded"
    assert [f["kind"] for f in cli.json("doctor", "--slack", "1000d")["findings"]] == []
    assert cli.lines("prune", "--keep-count", "1000000") == ["0 occurrences, 0 ranges and 0 extra runs went"]


def test_without_a_word_about_what_to_keep_nothing_goes(cli: CommandLine) -> None:
    cli.write("a.yaml", "schedules: {a: {every: 5m, task: jobs:run}}\n")
    cli("create", "a.yaml")
    assert "nothing says what is to be kept" in cli.errors("prune", code=2)[0]
    assert "no schedule 'b'" in cli.errors("prune", "b", "--keep-days", "1", code=1)[0]
