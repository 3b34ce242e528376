"""However a directory of schedules is edited: after apply the store is what a fresh one would be, history apart."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from calsched.app import App
from calsched.stores import apply, inspect
from calsched.stores.views import ScheduleView
from tests.stores._helpers import HOUR, T0, SteppedClock

SIZE = 100
EDITS = 20

Bodies = dict[str, dict[str, Any]]


def first(rng: random.Random) -> Bodies:
    return {f"s{n:03}": body(rng) for n in range(SIZE)}


def body(rng: random.Random) -> dict[str, Any]:
    trigger = rng.choice(
        [
            {"kind": "interval", "intervalMs": rng.randrange(1, 90) * 60_000},
            {"kind": "calendar", "at": f"{rng.randrange(24):02}:30", "timezone": "Europe/Oslo", "weekdays": "mon-fri"},
            {"kind": "cron", "expression": f"{rng.randrange(60)} * * * *", "timezone": "America/New_York"},
        ]
    )
    return {"trigger": trigger, "task": "jobs:run", "overlap": rng.choice(["queue", "skip", "coalesce"])}


def edit(bodies: Bodies, rng: random.Random) -> Bodies:
    """One of the ways in which people edit files; the answer is a new directory."""
    out: Bodies = json.loads(json.dumps(bodies))
    names = sorted(out)
    one = rng.choice(names)
    way = rng.choice(["rule", "words", "policy", "add", "drop", "rename", "off", "on", "many"])
    match way:
        case "rule":
            out[one]["trigger"] = body(rng)["trigger"]
        case "words":
            out[one]["description"] = f"words {rng.random()}"
        case "policy":
            out[one]["graceSeconds"] = rng.randrange(1000)
        case "add":
            out[f"n{rng.randrange(10**6)}"] = body(rng)
        case "drop":
            del out[one]
        case "rename":
            out[f"r{rng.randrange(10**6)}"] = {**out.pop(one), "was": one}
        case "off":
            out[one]["enabled"] = False
        case "on":
            out[one].pop("enabled", None)
        case "many":
            for name in rng.sample(names, 10):
                out[name] = body(rng) | {key: out[name][key] for key in ("was",) if key in out[name]}
    return out


def write(folder: Path, bodies: Bodies, rng: random.Random) -> None:
    for file in folder.glob("*.json"):
        file.unlink()
    files: list[Bodies] = [{}, {}, {}]
    for name, one in bodies.items():
        rng.choice(files)[name] = one
    for n, part in enumerate(files):
        (folder / f"{n}.json").write_text(json.dumps({"owner": "team", "schedules": part}))


def schedules(app: App) -> dict[str, ScheduleView]:
    store = app.store()
    with store.read() as conn:
        names = [(known.namespace, known.id) for known in apply.catalogue(store, conn, ["default"], whole=False)]
        return {name[1]: inspect.get(store, conn, *name) for name in names}


def operate(app: App, rng: random.Random) -> None:
    """What operators do between two deploys."""
    enabled = [name for name, view in schedules(app).items() if view.state == "enabled"]
    for name in rng.sample(enabled, min(3, len(enabled))):
        rng.choice([app.pause, app.disable])(name)


@pytest.mark.parametrize("seed", [1, 2])
def test_after_each_edit_the_store_equals_a_fresh_one_but_for_history_pauses_and_cursors(
    tmp_path: Path, seed: int
) -> None:
    rng, clock = random.Random(seed), SteppedClock(T0)
    folder = tmp_path / "schedules"
    folder.mkdir()
    bodies = first(rng)
    with App(f"sqlite:///{tmp_path / 'kept.db'}", clock=clock) as app:
        write(folder, bodies, rng)
        app.apply([folder], prune=True)
        for n in range(EDITS):
            clock.at += HOUR
            operate(app, rng)
            before = schedules(app)
            bodies = edit(bodies, rng)
            write(folder, bodies, rng)
            app.apply([folder], prune=True)
            found = schedules(app)
            assert app.plan([folder], prune=True)[0].pending == ()
            with App(f"sqlite:///{tmp_path / f'fresh{n}.db'}", clock=clock) as fresh:
                fresh.apply([folder])
                assert_same(found, schedules(fresh), set(bodies))
            assert_kept(before, found, bodies)
            store = app.store()
            with store.read() as conn:
                assert inspect.tiling(store, conn) == []


def assert_same(found: dict[str, ScheduleView], fresh: dict[str, ScheduleView], declared: set[str]) -> None:
    assert fresh.keys() == declared
    assert {name for name, view in found.items() if view.reason != "retired"} == declared
    for name, view in fresh.items():
        assert found[name].definition == view.definition
        if view.reason == "declared":
            assert found[name].state == "disabled"
        elif found[name].state == "enabled":
            assert view.state == "enabled"


def assert_kept(before: dict[str, ScheduleView], after: dict[str, ScheduleView], bodies: Bodies) -> None:
    """Operators' pauses survive, and so do the cursors of what was not revised."""
    for name, new in after.items():
        old = before.get(name) or before.get(bodies.get(name, {}).get("was", ""))
        if old is None or name not in bodies:
            continue
        if old.reason == "operator" and bodies[name].get("enabled", True):
            assert (new.state, new.reason) == (old.state, old.reason)
        if new.revision == old.revision and new.state == old.state == "enabled":
            assert (new.next_due, new.next_ordinal, new.used) == (old.next_due, old.next_ordinal, old.used)
