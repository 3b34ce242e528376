"""Crontabs as declarations: each line is carried over or named with its number."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calsched.adopt.crontab import adopt_crontab
from calsched.adopt.result import Adopted, Adoption
from calsched.adopt.yaml_text import to_yaml
from calsched.errors import InvalidInput

SAMPLE = """\
# Jobs of the web host
# (kept by ops)

SHELL=/bin/bash
MAILTO=ops@example.org
CRON_TZ=Europe/Berlin
# nightly dump, see the wiki
15 3 * * 1-5 /usr/local/bin/backup.sh --all > /var/log/backup.log 2>&1
@daily  /usr/bin/rotate logs
CRON_TZ="America/New_York"
0 9 1,15 * Fri mail -s "It is pay day" boss@example.org%Dear boss,%100\\% done.
@reboot /usr/bin/start-agent
# not finished
0 25 * * * oops
"""


def one(line: str, **options: Any) -> Adopted:
    adoption = adopt_crontab(line, **{"timezone": "UTC", **options})
    assert adoption.refused == []
    [found] = adoption.schedules
    return found


def told(line: str, **options: Any) -> str:
    adoption = adopt_crontab(line, **{"timezone": "UTC", **options})
    assert adoption.schedules == []
    [problem] = adoption.refused
    assert problem.line == 1
    return str(problem)


def test_a_crontab_becomes_schedules_in_order_with_their_zones_and_comments() -> None:
    adoption = adopt_crontab(SAMPLE)
    assert [(s.line, s.body["trigger"]) for s in adoption.schedules] == [
        (8, {"kind": "cron", "expression": "15 3 * * 1-5", "timezone": "Europe/Berlin"}),
        (9, {"kind": "cron", "expression": "0 0 * * *", "timezone": "Europe/Berlin"}),
        (11, {"kind": "cron", "expression": "0 9 1,15 * Fri", "timezone": "America/New_York"}),
    ]
    assert [s.id for s in adoption.schedules] == ["backup", "rotate-logs", "mail-it-is-pay"]
    assert adoption.schedules[0].comments == ("nightly dump, see the wiki",)
    assert adoption.comments[:2] == ["Jobs of the web host", "(kept by ops)"]
    assert [p.line for p in adoption.refused] == [12, 14]
    assert "not finished" in adoption.comments  # its line is gone, it is not


def test_every_command_is_listed_as_needing_a_callable() -> None:
    found = one("0 1 * * * /usr/bin/backup --all")
    assert found.id == "backup"
    assert found.body["task"] == "crontab_jobs:backup"
    assert found.body["description"] == "/usr/bin/backup --all"
    assert found.notes[0] == "needs a callable: write crontab_jobs:backup, which does what the command did"
    assert one("0 1 * * * /usr/bin/backup", module="ops.nightly").body["task"] == "ops.nightly:backup"


def test_one_callable_may_run_them_all() -> None:
    line = "A=b\n0 1 * * * bob cat%Hello%World\n"
    found = one(line, callable="ops:shell", system=True)
    assert found.body["task"] == {
        "callable": "ops:shell",
        "kwargs": {"command": "cat", "stdin": "Hello\nWorld\n", "user": "bob", "environment": {"A": "b"}},
    }
    assert not any("needs a callable" in note for note in found.notes)


@pytest.mark.parametrize(
    ("command", "text", "stdin"),
    [
        ("date +\\%F", "date +%F", None),
        ("cat%a%b", "cat", "a\nb\n"),
        ("cat%", "cat", "\n"),
        ("echo 5\\%%in\\%put", "echo 5%", "in%put\n"),
    ],
)
def test_percent_signs_begin_standard_input_unless_escaped(command: str, text: str, stdin: str | None) -> None:
    kwargs = one(f"0 1 * * * {command}", callable="ops:shell").body["task"]["kwargs"]
    assert (kwargs["command"], kwargs.get("stdin")) == (text, stdin)


@pytest.mark.parametrize(
    ("nickname", "expression"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@HOURLY", "0 * * * *"),
    ],
)
def test_nicknames(nickname: str, expression: str) -> None:
    assert one(f"{nickname} run").body["trigger"]["expression"] == expression


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("@reboot /usr/bin/start", "line 1: @reboot has no equal"),
        ("@fortnightly x", "line 1: expected one of @yearly"),
        ("@daily", "expected a nickname such as @daily and a command"),
        ("0 1 * * *", "expected five fields and a command"),
        ("hello", "expected five fields and a command, got 'hello'"),
        ("0~30 1 * * * x", "a random value has no equal"),
        ("1 5 cron.daily nice run-parts /etc/cron.daily", "an anacrontab"),
        ("61 1 * * * x", "61"),
        ("0 0 30 2 * x", ""),
        ("CRON_TZ=Mars/Olympus", "CRON_TZ: timezone: there is no zone 'Mars/Olympus'"),
        ("0 1 * * * x\x07y", "control characters"),
    ],
)
def test_lines_without_an_equal_say_so(line: str, message: str) -> None:
    assert message in told(line)


def test_the_user_column_is_read_only_where_there_is_one() -> None:
    assert "cron runs it as root" in " ".join(one("0 1 * * * root /bin/x", system=True).notes)
    assert one("0 1 * * * root /bin/x").body["description"] == "root /bin/x"
    assert "is it the crontab of one user?" in told("0 1 * * * /bin/x", system=True)


def test_zones_come_from_cron_tz_then_tz_then_the_caller() -> None:
    text = "0 1 * * * a\nTZ=Asia/Tokyo\n0 1 * * * b\nCRON_TZ=Europe/Paris\n0 1 * * * c\nTZ=UTC\n0 1 * * * d\n"
    adoption = adopt_crontab(text)
    assert [s.body["trigger"].get("timezone") for s in adoption.schedules] == [
        None,
        "Asia/Tokyo",
        "Europe/Paris",
        "Europe/Paris",
    ]
    assert "state it with --timezone" in adoption.notes[0]
    assert any("line 2: TZ is taken as the zone" in note for note in adoption.notes)
    stated = adopt_crontab(text, timezone="Europe/Rome")
    assert [s.body["trigger"]["timezone"] for s in stated.schedules][:2] == ["Europe/Rome", "Europe/Rome"]


def test_a_wrong_zone_of_the_caller_is_refused_before_anything() -> None:
    with pytest.raises(InvalidInput, match="there is no zone"):
        adopt_crontab("", timezone="europe/berlin")


def test_environment_lines_go_with_the_lines_below_them() -> None:
    adoption = adopt_crontab("0 1 * * * a\nPATH = '/bin:/opt/bin'\n0 1 * * * b\n", timezone="UTC")
    assert [any("PATH=/bin:/opt/bin" in n for n in s.notes) for s in adoption.schedules] == [False, True]


def test_what_cron_itself_would_do_with_a_variable_is_told() -> None:
    notes = adopt_crontab("MAILTO=ops@example.org\nRANDOM_DELAY=30\n", timezone="UTC").notes
    assert any("MAILTO=ops@example.org has no equal" in n for n in notes)
    assert any("jitterSeconds" in n for n in notes)


def test_two_commands_of_one_name_get_two_ids() -> None:
    adoption = adopt_crontab("0 1 * * * backup\n0 2 * * * backup\n0 3 * * * backup-2\n", timezone="UTC")
    assert [s.id for s in adoption.schedules] == ["backup", "backup-2", "backup-3"]


def test_commands_without_a_name_are_named_after_their_line() -> None:
    assert one("0 1 * * * /bin/sh -c '' ").id == "line-1"
    assert one("0 1 * * * 7z-x").body["task"].partition(":")[2].isidentifier()


def test_windows_line_ends_and_tabs_are_read() -> None:
    adoption = adopt_crontab("#\ta comment\r\n0\t1\t*\t*\t*\tbackup\r\n", timezone="UTC")
    assert adoption.schedules[0].body["trigger"]["expression"] == "0 1 * * *"


def test_a_file_that_is_no_crontab_by_its_size_is_refused() -> None:
    with pytest.raises(InvalidInput, match="expected a crontab"):
        adopt_crontab("#" * 2_000_000)


@given(st.text(max_size=200))
def test_any_text_is_carried_over_or_named_and_nothing_is_lost(text: str) -> None:
    adoption = adopt_crontab(text, timezone="UTC")
    written = to_yaml(adoption)
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        bare = line.strip(" \t")
        if bare and not bare.startswith("#") and "=" not in bare:
            assert any(s.line == number for s in adoption.schedules) or any(p.line == number for p in adoption.refused)
    assert "\x1b" not in written


def test_the_declaration_is_yaml_with_the_comments(tmp_path: Any) -> None:
    import yaml

    text = to_yaml(adopt_crontab(SAMPLE, timezone="UTC"), title="From crontab")
    plain = yaml.safe_load(text)
    assert plain == adopt_crontab(SAMPLE, timezone="UTC").declaration()
    assert text.startswith("# From crontab\n# Jobs of the web host\n")
    assert "  # nightly dump, see the wiki\n" in text
    assert "# Not carried over:\n# - line 12: @reboot has no equal" in text


def test_a_comment_cannot_break_out_of_its_line() -> None:
    import yaml

    text = "# evil\u2028schedules: {x: 1}\x85y: 1\ufeff\n0 1 * * * a\n"
    plain = yaml.safe_load(to_yaml(adopt_crontab(text, timezone="UTC")))
    assert set(plain) == {"timezone", "schedules"}
    assert list(plain["schedules"]) == ["a"]


@given(st.text(max_size=60), st.text(max_size=60), st.lists(st.text(max_size=20)))
def test_any_text_survives_the_file(name: str, value: str, more: list[str]) -> None:
    import yaml

    body = {"description": value, "task": {"kwargs": {name: value, "more": more, "none": None}}}
    adoption = Adoption([Adopted(name, value, body, notes=(value,), comments=(name,))])
    assert yaml.safe_load(to_yaml(adoption)) == {"schedules": {name: body}}
