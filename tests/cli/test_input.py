from __future__ import annotations

import json

import pytest

from calsched.cli.common import duration, instant
from calsched.cli.ready import _result
from calsched.errors import InvalidInput
from tests.cli.conftest import CommandLine


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:01.5Z", 1_500),
        ("1970-01-01t00:00:00.123456789z", 123),
        ("1970-01-01 01:00:00+01:00", 0),
        ("2026-03-08T09:00-05:00", 1_772_978_400_000),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
    ],
)
def test_instants_are_rfc_3339(text: str, millis: int) -> None:
    assert instant(text, "AT") == millis


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "2026-03-08T09:00:00",
            "AT: '2026-03-08T09:00:00' says no zone (end it with Z, or with an offset such as -06:00)",
        ),
        ("tomorrow", "AT: expected an instant such as 2026-03-09T09:00:00-06:00, got 'tomorrow'"),
        ("2026-02-30T09:00:00Z", "AT: '2026-02-30T09:00:00Z' is no time: day is out of range for month"),
        ("2026-03-08T25:00:00Z", "AT: '2026-03-08T25:00:00Z' is no time: hour must be in 0..23"),
        ("9999-12-31T23:59:59-01:00", "AT: '9999-12-31T23:59:59-01:00' is out of range"),
        ("", "AT: expected an instant such as 2026-03-09T09:00:00-06:00, got ''"),
    ],
)
def test_what_is_no_instant_is_refused_with_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        instant(text, "AT")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "millis"),
    [("90", 90_000), ("1.5", 1_500), ("90s", 90_000), ("1h30m", 5_400_000), ("250ms", 250), ("2d", 172_800_000)],
)
def test_durations_have_units(text: str, millis: int) -> None:
    assert duration(text, "D") == millis


@pytest.mark.parametrize("text", ["", "s", "-5", "1h 30m", "5 minutes", "1e9", "9" * 80, "1x"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="D: expected a duration such as 90s, 1h30m or 250ms"):
        duration(text, "D")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["list", "--limit", "0"], "--limit: expected 1 or more"),
        (["list", "--limit", "99999999"], "--limit: expected 10000 or less"),
        (["list", "--limit", "x"], "--limit: expected a whole number"),
        (["tick", "--limit", "x"], "--limit: expected a number"),
    ],
)
def test_a_wrong_number_is_told_as_every_other_problem(cli: CommandLine, args: list[str], message: str) -> None:
    assert cli.errors(*args, code=2)[0] == message


def test_a_misused_command_answers_in_json_where_that_was_asked_for(cli: CommandLine) -> None:
    told = json.loads(cli("list", "--limit", "0", "--json", code=2).stderr)["error"]
    assert [(one["path"], one["message"]) for one in told["problems"]] == [("--limit", "expected 1 or more")]


@pytest.mark.parametrize("text", ['"\\ud800"', '{"\\udcff": 1}', '["a", "\udcff"]'], ids=ascii)
def test_a_result_of_a_ready_task_with_half_a_character_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="--result"):
        _result(text)
