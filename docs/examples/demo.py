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
DEMO = HERE.parents[1] / "demo"
CALSCHED = [sys.executable, "-m", "calsched"]


def environment() -> dict[str, str]:
    return {**os.environ, "CALSCHED_STORE": f"sqlite:///{DEMO / 'calsched.db'}", "CALSCHED_DEMO_DIR": str(DEMO)}


def say(text: str) -> None:
    print(f"\n── {text}", flush=True)


def serve(seconds: float, ending: signal.Signals) -> None:
    """Run the owner for some seconds, then end it."""
    owner = subprocess.Popen([*CALSCHED, "serve", str(WEEKDAY)], cwd=WEEKDAY, env=environment())
    try:
        owner.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        owner.send_signal(ending)
        owner.wait(timeout=30)


def show(*command: str) -> None:
    """Run a command as a reader would; hints about the missing owner are left out, because its end was the point."""
    print(f"\n$ calsched {' '.join(command)}", flush=True)
    subprocess.run([*CALSCHED, *command], cwd=WEEKDAY, env=environment(), check=True, stderr=subprocess.DEVNULL)


def missed(schedule: str) -> str:
    """A due instant of a schedule that the outage swallowed."""
    command = [*CALSCHED, "history", schedule, "--json"]
    told = subprocess.run(command, cwd=WEEKDAY, env=environment(), check=True, stdout=subprocess.PIPE).stdout
    ranges = [entry for entry in json.loads(told)["entries"] if entry["kind"] == "range"]
    return str(ranges[0]["firstDue"])


def main() -> None:
    shutil.rmtree(DEMO, ignore_errors=True)
    DEMO.mkdir()
    say("the owner serves docs/examples/weekday/ for six seconds …")
    serve(6, signal.SIGKILL)
    say("… and was killed (kill -9): an outage of five seconds")
    time.sleep(5)
    say("the owner serves again for six seconds, then stops in good order")
    serve(6, signal.SIGTERM)
    say("the ledger that it left")
    show("list")
    for schedule in ("weekday-report", "flaky-upload", "heartbeat"):
        show("show", schedule)
    say("one question, one verdict")
    show("why", "heartbeat", missed("heartbeat"))
    show("why", "weekday-report", missed("weekday-report"))
    show("doctor")
    say(f"the reports that the jobs wrote are in {DEMO.name}/, the ledger is {DEMO.name}/calsched.db")


if __name__ == "__main__":
    main()
