"""What a benchmark hands over, and the page that is written from it."""

from __future__ import annotations

import io
import os
import platform
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

PACKAGES = ("APScheduler", "SQLAlchemy", "psycopg", "procrastinate", "croniter", "cronsim")


class Row(NamedTuple):
    """One measure. ``met`` is None where there is no target; ``bound`` says what keeps it from more."""

    what: str
    value: str
    target: str = ""
    met: bool | None = None
    bound: str = ""


@dataclass
class Section:
    title: str
    text: str
    rows: list[Row] = field(default_factory=list)
    raw: str = ""  # printed as it is

    def add(self, what: str, value: str, target: str = "", met: bool | None = None, bound: str = "") -> None:
        self.rows.append(Row(what, value, target, met, bound if met is False else ""))

    def lines(self) -> Iterable[str]:
        yield from (f"## {self.title}", "", self.text.strip(), "")
        if self.rows:
            yield from ("| measured | value | target | reached |", "| --- | ---: | --- | --- |")
            yield from (f"| {r.what} | {r.value} | {r.target} | {_MET[r.met]} |" for r in self.rows)
            yield ""
        for row in self.rows:
            if row.bound:
                yield from (f"*{row.what}*: {row.bound}", "")
        if self.raw:
            yield from ("```text", self.raw.rstrip(), "```", "")

    def show(self) -> None:
        print("\n".join(self.lines()), flush=True)


_MET = {True: "yes", False: "no", None: ""}


class Scale(NamedTuple):
    """``quick`` proves that a benchmark runs, and measures nothing; ``postgres`` is a server's URL, or empty."""

    quick: bool
    postgres: str
    runs: int = 3

    def of(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    @property
    def repeats(self) -> int:
        return 1 if self.quick else self.runs


def machine(postgres: str) -> list[str]:
    """The facts without which a number says nothing."""
    facts = {
        "Processor": f"{_cpu()}, {os.cpu_count()} cores",
        "Memory": _memory(),
        "System": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        "PostgreSQL": _postgres(postgres),
        "Packages": ", ".join(f"{name} {found}" for name in PACKAGES if (found := _version(name))),
        "Load": f"{os.getloadavg()[0]:.1f} when this began",
    }
    return [f"- {name}: {fact}" for name, fact in facts.items() if fact]


def _cpu() -> str:
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory() -> str:
    with open("/proc/meminfo") as file:
        kilobytes = next(int(line.split()[1]) for line in file if line.startswith("MemTotal"))
    return f"{kilobytes / 1024 / 1024:.0f} GiB"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _postgres(url: str) -> str:
    if not url:
        return ""
    from sqlalchemy import create_engine, text

    engine = create_engine(url)
    try:
        with engine.connect() as conn:
            found = {name: conn.execute(text(f"SHOW {name}")).scalar_one() for name in ("server_version", "fsync")}
    finally:
        engine.dispose()
    return f"{found['server_version']} on the same machine, fsync {found['fsync']}"


def page(sections: Sequence[Section], facts: Sequence[str], day: str) -> str:
    head = [
        "# Benchmarks",
        "",
        "Written by `make bench` (`tests/benchmarks/run.py`); do not edit. Both sides of a comparison ran in the same"
        " run, on the same machine and disk; every figure is the best of the runs made for it, on either side.",
        "",
        f"Measured on {day}:",
        "",
        *facts,
        "",
    ]
    return "\n".join([*head, *(line for section in sections for line in section.lines())]).rstrip() + "\n"


def printed(run: Callable[[], None]) -> str:
    """What it prints."""
    out = io.StringIO()
    with redirect_stdout(out):
        run()
    return out.getvalue()


def rate(value: float) -> str:
    return f"{value:,.0f}/s"


def times(value: float) -> str:
    return f"{value:.2f}×" if value < 10 else f"{value:.0f}×"


def millis(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms" if seconds < 10 else f"{seconds:,.1f} s"
