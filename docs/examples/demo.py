"""`make demo`: serve the weekday example on a fresh SQLite file, kill the server, serve again, print the ledger.

Everything that a newcomer should see is real: the schedules are those of ``weekday/``, the server is `calsched serve`,
the outage is a killed process, and the ledger is read with the command line that an operator would use.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
WEEKDAY = HERE / "weekday"
DEMO = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HERE.parents[1] / "demo"
CALSCHED = [sys.executable, "-m", "calsched"]


def environment() -> dict[str, str]:
    return {**os.environ, "CALSCHED_STORE": f"sqlite:///{DEMO / 'calsched.db'}", "CALSCHED_DEMO_DIR": str(DEMO)}


def say(text: str) -> None:
    print(f"\n── {text}", flush=True)


def serve(until: dict[str, int], ending: signal.Signals) -> None:
    """Run the owner until so many occurrences of some schedules have succeeded, then end it."""
    command = [*CALSCHED, "serve", str(WEEKDAY)]
    owner = subprocess.Popen(command, cwd=WEEKDAY, env=environment(), stderr=subprocess.PIPE, text=True)
    assert owner.stderr is not None
    missing = dict(until)
    for line in owner.stderr:
        print(line, end="", flush=True)
        for schedule in until:
            missing[schedule] -= f" {schedule} " in line and " succeeded " in line
        if max(missing.values()) <= 0:
            owner.send_signal(ending)
            break
    for line in owner.stderr:
        print(line, end="", flush=True)
    if owner.wait(timeout=30) not in (0, -ending):
        sys.exit("the owner did not do what the demo is about; its last lines say why")


def show(*command: str, hints: bool = False) -> None:
    """Run a command as a reader would; the hint that no owner lives is told once, because its end was the point."""
    print(f"\n$ calsched {' '.join(command)}", flush=True)
    to = subprocess.STDOUT if hints else subprocess.DEVNULL
    subprocess.run([*CALSCHED, *command], cwd=WEEKDAY, env=environment(), check=True, stderr=to)


def missed(schedule: str) -> str:
    """A due instant of a schedule that the outage swallowed."""
    command = [*CALSCHED, "history", schedule, "--json"]
    told = subprocess.run(command, cwd=WEEKDAY, env=environment(), check=True, stdout=subprocess.PIPE).stdout
    ranges = [entry for entry in json.loads(told)["entries"] if entry["kind"] == "range"]
    return str(ranges[0]["firstDue"])


def main() -> None:
    shutil.rmtree(DEMO, ignore_errors=True)
    DEMO.mkdir(parents=True)
    say("the owner serves docs/examples/weekday/ …")
    serve({"heartbeat": 3, "flaky-upload": 1}, signal.SIGKILL)
    say("… and was killed (kill -9): an outage of five seconds")
    time.sleep(5)
    say("the owner serves again for some seconds, then stops in good order")
    serve({"heartbeat": 3, "flaky-upload": 1}, signal.SIGTERM)
    say("the ledger that it left")
    show("list", hints=True)
    for schedule in ("weekday-report", "flaky-upload", "heartbeat"):
        show("show", schedule)
    say("one question, one verdict")
    show("why", "heartbeat", missed("heartbeat"))
    show("why", "weekday-report", missed("weekday-report"))
    show("doctor")
    say(f"the reports that the jobs wrote are in {DEMO.name}/, the ledger is {DEMO.name}/calsched.db")


if __name__ == "__main__":
    main()
