"""`make demo`: serve the weekday example on a fresh SQLite file, kill the server, serve again, print the ledger.

Everything that a newcomer should see is real: the schedules are those of ``weekday/``, the server is `calsched serve`,
the outage is a killed process, and the ledger is read with the command line that an operator would use.
"""

from __future__ import annotations

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
    print(f"\n$ calsched {' '.join(command)}", flush=True)
    subprocess.run([*CALSCHED, *command], cwd=WEEKDAY, env=environment(), check=True)


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
    show("doctor")
    say(f"the report that the job wrote is in {DEMO.relative_to(DEMO.parent)}/; the ledger in {DEMO.name}/calsched.db")


if __name__ == "__main__":
    main()
