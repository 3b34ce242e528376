"""Zones: where they load from, which names are refused, and their offsets against the standard library's."""

from __future__ import annotations

import os
import zoneinfo
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from calsched import zones
from calsched.errors import TriggerInvalid
from calsched.policies.clock_change import Fold, Gap, Unambiguous
from calsched.triggers import build
from calsched.triggers.fields import as_wall
from calsched.triggers.fields import parse_rfc3339 as at
from calsched.triggers.wallclock import resolve_local
from tests.triggers._oracle import groups, offset, zone_info

REFUSED = [
    "utc",
    "UTC+3",
    "localtime",
    "Factory",
    "posixrules",
    "right/Europe/Berlin",
    "posix/Europe/Berlin",
    "Europe",
    "europe/berlin",
    "Europe/Berlin ",
    "Mars/Olympus",
    "",
    ".",
    "/etc/localtime",
    "../zoneinfo/UTC",
    "Europe//Berlin",
    "Europe/Berlin\n",
    "zone.tab",
    "tzdata.zi",
    "é",
    "x" * 10_000,
    "UTC\0",
    5,
    True,
    None,
    ["UTC"],
]


@pytest.mark.parametrize("source", ["package", "system"])
@pytest.mark.parametrize("name", REFUSED, ids=lambda name: repr(name)[:30])
def test_a_name_that_is_no_zone_is_refused(name: object, source: str) -> None:
    with pytest.raises(TriggerInvalid) as caught:
        zones.load(name, source)
    (problem,) = caught.value.problems
    assert problem.path == "timezone" and len(problem.message) < 200


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("utc", "did you mean 'UTC'?"),
        ("europe/berlin", "did you mean 'Europe/Berlin'?"),
        ("America/New_Yrok", "did you mean 'America/New_York'?"),
        ("UTC+3", "a fixed offset is 'Etc/GMT-3'"),
        ("-05:00", "a fixed offset is 'Etc/GMT+5'"),
    ],
)
def test_a_misspelt_zone_gets_a_hint(name: str, hint: str) -> None:
    with pytest.raises(zones.ZoneInvalid) as caught:
        zones.load(name)
    assert caught.value.problems[0].hint == hint


@pytest.mark.parametrize("name", ["EST5EDT", "UTC", "Etc/GMT-3", "GB-Eire", "America/Argentina/ComodRivadavia"])
def test_odd_but_real_names_load(name: str) -> None:
    assert zones.load(name).name == name


def test_every_zone_shows_the_offsets_that_the_standard_library_shows() -> None:
    random = Random(7)
    for names in groups():
        zone, info = zones.load(names[-1]), zone_info(names[-1])
        for _ in range(12):
            second = random.randrange(-6_000_000_000, 200_000_000_000)
            assert zone.offset_at(second) == offset(info, second), (names[-1], second)


def test_the_rule_after_the_last_listed_change_holds_to_the_end_of_time() -> None:
    new_york, info = zones.load("America/New_York"), zone_info("America/New_York")
    for year in (2038, 2040, 2100, 2400, 9998):
        for month in (1, 3, 7, 11):
            second = int(datetime(year, month, 20, tzinfo=UTC).timestamp())
            assert new_york.offset_at(second) == offset(info, second)
    assert len(new_york.spans(zones.END_OF_TIME).starts) > 15_000


def test_the_search_path_of_the_process_is_left_alone() -> None:
    before = zoneinfo.TZPATH
    build({"kind": "calendar", "at": "09:00", "timezone": "Europe/Berlin"})
    assert before == zoneinfo.TZPATH


def test_the_package_says_its_version() -> None:
    assert zones.version()[:4].isdigit()
    assert "Europe/Berlin" in zones.available() and "Factory" not in zones.available()


def test_a_directory_is_a_source_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "Here").mkdir()
    (tmp_path / "Here" / "Berlin").write_bytes(zones._read("Europe/Berlin", "package") or b"")
    (tmp_path / "Here" / "Notes").write_text("no zone")
    (tmp_path / "+VERSION").write_text("2099z\n")
    assert zones.available(str(tmp_path)) == {"Here/Berlin"}
    assert zones.version(str(tmp_path)) == "2099z"
    assert zones.load("Here/Berlin", str(tmp_path)).offset_at(1_800_000_000) == 3600
    with pytest.raises(zones.ZoneInvalid, match="there is no zone 'Here/Notes'"):
        zones.load("Here/Notes", str(tmp_path))


def test_data_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    good = zones._read("Europe/Berlin", "package") or b""
    (tmp_path / "Cut").write_bytes(good[:200])
    (tmp_path / "Footer").write_bytes(good.rstrip(b"\n").rsplit(b"\n", 1)[0] + b"\nCET-1CEST,M3.9.0,M10.5.0/3\n")
    for name in ("Cut", "Footer"):
        with pytest.raises(zones.ZoneInvalid, match="cannot be read"):
            zones.load(name, str(tmp_path))


@pytest.mark.skipif(not os.path.exists("/usr/share/zoneinfo/Europe/Berlin"), reason="this system has no zone database")
def test_the_system_is_a_source_where_it_is_asked_for() -> None:
    trigger = build({"kind": "calendar", "at": "09:00", "timezone": "Europe/Berlin"}, zone_source="system")
    assert trigger.first_at_or_after(at("2026-07-01T00:00:00Z")) == at("2026-07-01T07:00:00Z")


def test_a_source_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a zone source"):
        zones.load("Europe/Berlin", "internet")


LOCAL = [
    ("America/New_York", "2026-03-08T02:30:00", Gap),
    ("America/New_York", "2026-03-08T03:00:00", Unambiguous),
    ("America/New_York", "2026-11-01T01:30:00", Fold),
    ("America/New_York", "2026-11-01T02:00:00", Unambiguous),
    ("Pacific/Apia", "2011-12-30T12:00:00", Gap),
    ("Europe/Dublin", "2026-10-25T01:00:00", Fold),
    ("Africa/Monrovia", "1972-01-07T00:44:29", Gap),
    ("Africa/Monrovia", "1972-01-07T00:44:30", Unambiguous),
]


@pytest.mark.parametrize(("zone", "wall", "kind"), LOCAL)
def test_a_wall_time_is_one_of_three_things(zone: str, wall: str, kind: type) -> None:
    assert isinstance(zones.load(zone).local(as_wall(wall)), kind)


def test_a_gap_and_a_fold_resolve_to_their_instants() -> None:
    zone = zones.load("America/New_York")
    gap, fold = as_wall("2026-03-08T02:30:00"), as_wall("2026-11-01T01:30:00")
    assert resolve_local(zone, gap, "skip", "first") == ()
    assert resolve_local(zone, gap, "shift", "first") == (at("2026-03-08T07:30:00Z"),)
    assert resolve_local(zone, gap, "boundary", "first") == (at("2026-03-08T07:00:00Z"),)
    assert resolve_local(zone, fold, "skip", "both") == (at("2026-11-01T05:30:00Z"), at("2026-11-01T06:30:00Z"))


FOOTERS = [
    # (footer, a year, its changes as (UTC, offset))
    ("EST5EDT,M3.2.0,M11.1.0", 2026, [("2026-03-08T07:00:00Z", -14400), ("2026-11-01T06:00:00Z", -18000)]),
    ("IST-1GMT0,M10.5.0,M3.5.0/1", 2026, [("2026-03-29T01:00:00Z", 3600), ("2026-10-25T01:00:00Z", 0)]),
    ("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 2026, [("2026-03-29T01:00:00Z", -3600), ("2026-10-25T01:00:00Z", -7200)]),
    ("EET-2EEST,M3.4.4/50,M10.4.4/50", 2026, [("2026-03-28T00:00:00Z", 10800), ("2026-10-23T23:00:00Z", 7200)]),
    ("XXX-3YYY,J60/0,J300/0", 2028, [("2028-02-29T21:00:00Z", 14400), ("2028-10-26T20:00:00Z", 10800)]),
    ("XXX-3YYY,59/0,299/0", 2028, [("2028-02-28T21:00:00Z", 14400), ("2028-10-25T20:00:00Z", 10800)]),
]


@pytest.mark.parametrize(("footer", "year", "changes"), FOOTERS, ids=lambda value: str(value)[:24])
def test_the_footer_of_a_zone_file_is_read(footer: str, year: int, changes: list[tuple[str, int]]) -> None:
    rule = zones._rule(footer)
    assert isinstance(rule, zones.Rule)
    assert [(second * 1000, east) for second, east in rule.year(year)] == [(at(text), east) for text, east in changes]
