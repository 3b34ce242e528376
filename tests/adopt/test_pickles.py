"""A pickle is read without being loaded: what well-behaved ones hold, and that hostile ones do nothing."""

from __future__ import annotations

import builtins
import collections
import datetime as dt
import decimal
import importlib
import io
import os
import pickle
import struct
import subprocess
import sys
import tracemalloc
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calsched.adopt import known, pickles
from calsched.adopt.pickles import Name, Pairs, Thing, Unreadable

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def plain(value: Any) -> Any:
    """Records as ordinary values, for comparison."""
    arguments = known.Arguments()
    out = arguments.value(value, "x")
    assert arguments.problems == []
    return out


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.datetimes()
    | st.dates()
    | st.times()
    | st.uuids()
    | st.decimals(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(values, st.sampled_from(PROTOCOLS))
def test_what_pickle_would_load_is_read_in_every_protocol(value: Any, protocol: int) -> None:
    assert plain(pickles.read(pickle.dumps(value, protocol)).value) == value


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_shared_values_and_ordered_mappings_are_read(protocol: int) -> None:
    shared = ["a"]
    found = pickles.read(pickle.dumps([shared, shared, collections.OrderedDict(z=1, a=2)], protocol))
    assert plain(found.value) == [["a"], ["a"], {"z": 1, "a": 2}]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC"])
def test_zones_are_read_by_name(protocol: int, zone: str) -> None:
    from zoneinfo import ZoneInfo

    assert known.zone_of(pickles.read(pickle.dumps(ZoneInfo(zone), protocol)).value).spelt == zone


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (Thing(Name("pytz", "_p"), ("Europe/Berlin", 3600, 0, "CET")), known.ZoneName("Europe/Berlin", 3600)),
        (Thing(Name("pytz", "_UTC")), known.ZoneName("UTC")),
        (Thing(Name("pytz", "_FixedOffset"), (90,)), known.ZoneName(None, 5400)),
        (Thing(Name("dateutil.tz.tz", "tzutc")), known.ZoneName("UTC")),
        (
            Thing(Name("dateutil.tz.tz", "tzfile"), (None, "/usr/share/zoneinfo/America/New_York")),
            known.ZoneName("America/New_York"),
        ),
    ],
)
def test_the_zones_of_older_apps_are_known(record: Thing, expected: known.ZoneName) -> None:
    assert known.zone_of(record) == expected


@pytest.mark.parametrize(
    ("zone", "instant"),
    [
        (Thing(Name("pytz", "_p"), ("Europe/Berlin", 7200, 3600, "CEST")), "2026-10-25T00:30:00+00:00"),
        (Thing(Name("pytz", "_p"), ("Europe/Berlin", 3600, 0, "CET")), "2026-10-25T01:30:00+00:00"),
        (Thing(Name("zoneinfo", "ZoneInfo._unpickle"), ("Europe/Berlin", True)), "2026-10-25T00:30:00+00:00"),
    ],
)
def test_a_repeated_hour_is_the_pass_that_was_written(zone: Thing, instant: str) -> None:
    raw = dt.datetime(2026, 10, 25, 2, 30).__reduce__()[1][0]  # noqa: DTZ001
    moment = known.moment(Thing(Name("datetime", "datetime"), (raw, zone)))
    assert moment.aware().astimezone(dt.UTC).isoformat() == instant


class Evil:
    """Its pickle calls whatever it was made with."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


@pytest.fixture
def trap(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Whatever a pickle could reach reports itself."""
    sprung: list[str] = []
    for owner, name in [
        (os, "system"),
        (subprocess, "Popen"),
        (builtins, "eval"),
        (importlib, "import_module"),
        (pickle, "loads"),
        (pickle.Unpickler, "find_class"),
    ]:
        if owner is not pickle.Unpickler:
            monkeypatch.setattr(owner, name, lambda *_, name=name, **__: sprung.append(name))
    yield sprung
    assert sprung == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_call_is_written_down_and_not_made(trap: list[str], protocol: int) -> None:
    found = pickles.read(b"\x80\x04cposix\nsystem\n(Vtouch /tmp/owned\ntR.")
    assert found.names == (Name("posix", "system"),)
    assert isinstance(found.value, Thing)
    assert found.value.args == ("touch /tmp/owned",)


def test_nothing_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "side_effect_on_import.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = pickles.read(b"\x80\x02cside_effect_on_import\nThing\n)\x81}b.")
    assert found.names == (Name("side_effect_on_import", "Thing"),)
    assert "side_effect_on_import" not in sys.modules


HOSTILE = {
    "extension code": b"\x80\x02\x82\x01.",
    "persistent id": b"\x80\x02Vx\nQ.",
    "persistent id as text": b"Pwhat\n.",
    "old instance": b"(ios\nsystem\n.",
    "old object": b"\x80\x02(cos\nsystem\no.",
    "out-of-band buffer": b"\x80\x05\x97.",
    "call of a call": b"\x80\x02cbuiltins\ngetattr\n(cos\nsystem\nVx\ntR(tR(tR.",
    "call without a tuple": b"\x80\x02cos\nsystem\nNR.",
    "state for a list": b"\x80\x02]}b.",
    "state for a name": b"\x80\x02cos\nsystem\n}b.",
    "keys for a list": b"\x80\x02]NNs.",
    "items for a mapping": b"\x80\x02}Na.",
    "global of numbers": b"\x80\x04K\x01K\x02\x93.",
    "memo that is empty": b"\x80\x02h\x05.",
    "empty stack": b"\x80\x02.",
    "pop of nothing": b"\x80\x020.",
    "mark as a value": b"\x80\x02(.",
    "no mark": b"\x80\x02NNt.",
    "left over": b"\x80\x02NN.",
    "no STOP": b"\x80\x02N",
    "nothing": b"",
    "no pickle": b"\x93NUMPY",
    "text": b"hello",
    "odd keys": b"\x80\x02}(Nu.",
    "length of terabytes": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 42) + b"x.",
    "huge integer": b"\x80\x02\x8b" + struct.pack("<i", 5000) + b"\x7f" * 5000 + b".",
    "integer of many digits": b"I" + b"9" * 10_000 + b"\n.",
    "bad UTF-8": b"\x80\x04\x8c\x01\xff.",
    "bytes beyond latin-1": b"\x80\x02c_codecs\nencode\n(V\\u2603\nVlatin1\ntR.",
    "too many opcodes": b"\x80\x02" + b"N0" * pickles.MAX_OPCODES + b"N.",
    "too large": b"\x80\x02N." + b" " * pickles.MAX_BYTES,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_what_no_job_store_writes_is_refused_with_a_reason(trap: list[str], data: bytes) -> None:
    with pytest.raises(Unreadable) as refused:
        pickles.read(data)
    assert str(refused.value)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        pickles.read(data)
    except Unreadable as refused:
        assert str(refused).isprintable()


@given(st.data())
def test_a_damaged_job_is_read_or_refused(data: st.DataObject) -> None:
    good = bytearray(pickle.dumps({"id": "a", "args": (1, "x", dt.date(2026, 1, 1)), "n": uuid.UUID(int=5)}, 4))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        arguments = known.Arguments()
        arguments.value(pickles.read(bytes(good)).value, "x")
    except Unreadable:
        return
    assert all(isinstance(message, str) for _, message in arguments.problems)


def lists_of_lists(depth: int) -> bytes:
    """``[[…], […]]`` where both are the same list, so many times: 2**depth values in a few bytes."""
    out = io.BytesIO()
    out.write(b"\x80\x02]q\x00")
    for level in range(depth):
        out.write(b"]" + b"q" + bytes([level + 1]) + b"(" + b"h" + bytes([level]) + b"h" + bytes([level]) + b"e")
    out.write(b"h" + bytes([depth]) + b"\x85.")
    return out.getvalue().replace(b"\x80\x02", b"\x80\x02(", 1).replace(b"\x85.", b"t.")


def test_a_value_that_multiplies_itself_is_cut_off() -> None:
    arguments = known.Arguments()
    arguments.value(pickles.read(lists_of_lists(60)).value, "args")
    assert any("more than 100000 values" in message or "deep" in message for _, message in arguments.problems)


def test_a_long_text_that_is_named_often_is_cut_off() -> None:
    text = b"X" + struct.pack("<I", 1_000_000) + b"x" * 1_000_000 + b"q\x00"
    arguments = known.Arguments()
    arguments.value(pickles.read(b"\x80\x02](" + text + b"h\x00" * 1000 + b"e.").value, "args")
    assert any("more than 100000 values" in message for _, message in arguments.problems)


def test_a_list_that_holds_itself_is_cut_off() -> None:
    arguments = known.Arguments()
    arguments.value(pickles.read(b"\x80\x02]q\x00h\x00a.").value, "args")
    assert any("deep" in message for _, message in arguments.problems)


def test_deep_nesting_is_read_without_recursion_and_cut_off_where_it_is_used() -> None:
    arguments = known.Arguments()
    arguments.value(pickles.read(b"\x80\x02" + b"]" * 40_000 + b"a" * 39_999 + b".").value, "args")
    assert any("deep" in message for _, message in arguments.problems)


def test_keys_are_never_hashed() -> None:
    deep = b")" + b"\x85" * 40_000  # hashing such a tuple overflows the stack of the interpreter
    found = pickles.read(b"\x80\x02}" + deep + b"Ns.")
    assert isinstance(found.value, Pairs)


def test_memory_stays_bounded() -> None:
    data = b"\x80\x04" + b"\x8f0" * (pickles.MAX_OPCODES // 2 - 5) + b"(" + b"N."
    tracemalloc.start()
    try:
        with pytest.raises(Unreadable):
            pickles.read(b"\x80\x04(" + b"\x8f" * (pickles.MAX_OPCODES - 10) + b"t" * 50)
        pickles.read(data.replace(b"(N.", b"N."))
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1: "a"}, "expected keys that are texts"),
        ({1, 2}, "an object of builtins.set has no form in JSON"),
        (dt.timedelta(1), "an object of datetime.timedelta has no form in JSON"),
        (complex(1, 2), "builtins.complex"),
        (decimal.Decimal, "decimal.Decimal has no form in JSON"),
        (Path("/etc"), "has no form in JSON"),
    ],
)
def test_arguments_without_a_form_are_named_with_their_path(value: Any, message: str) -> None:
    arguments = known.Arguments()
    arguments.value(pickles.read(pickle.dumps(["ok", {"deep": value}])).value, "args")
    [(path, said)] = arguments.problems
    assert path in ("args[1].deep", "args[1]")
    assert message in said
