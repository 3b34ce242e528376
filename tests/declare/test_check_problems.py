"""What a declaration may not say: each is one clear line with file, line and path, and all of them come at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calsched.declare.check import check
from calsched.declare.read import read_all
from tests.declare._helpers import NOW, checked, problems

_LENGTH = "expected a length of time above zero, such as '15m' or '1h 30m' (ms, s, m, h, d, w)"
GOOD = "id: a\ntask: jobs:run\nevery: 1h\n"


def _one(extra: str, **host: Any) -> str:
    """The only problem of a good declaration with something added."""
    (line,) = problems(GOOD + extra, **host)
    return line


def test_every_problem_of_a_file_comes_at_once() -> None:
    text = """\
timezone: Europe/Berlin
schedules:
  report:
    trigger: {kind: calendar, hour: 9, weekdays: [mo]}
    task: jobs:write.all
    overlap: colesce
  heartbeat:
    every: 30s
    graceSecond: 3
    expiresAt: 2026-02-30
  third: 3
"""
    assert problems(text) == [
        "file.yaml:4: schedules.report.trigger.weekdays[0]: expected 0 to 6 or a day name, got 'mo'",
        "file.yaml:5: schedules.report.task: expected 'module:name' (the name without dots) or a mapping,"
        " got 'jobs:write.all'",
        "file.yaml:6: schedules.report.overlap: expected one of queue, skip, coalesce, allow, got 'colesce'"
        " (did you mean 'coalesce'?)",
        "file.yaml:7: schedules.heartbeat: task is required (for example task: jobs:write_report)",
        "file.yaml:9: schedules.heartbeat.graceSecond: unknown key (did you mean graceSeconds?)",
        "file.yaml:10: schedules.heartbeat.expiresAt: expected an RFC 3339 time such as '2026-10-12T09:00:00Z',"
        " got '2026-02-30' (a time without Z or an offset names no instant)",
        "file.yaml:11: schedules.third: expected a schedule (a mapping), got 3",
    ]


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ("grace: 3", "grace: unknown key (write `graceSeconds`)"),
        ("document: {}", "document: unknown key (calsched runs a task: write `task: module:name` in its place)"),
        ("max_queued: 3", "max_queued: unknown key (did you mean maxQueued?)"),
        ("xyzzy: 3", "xyzzy: unknown key"),
        ("graceSeconds: '60'", "expected 0 to 86400 seconds, got '60' (write it without quotes)"),
        ("graceSeconds: -1", "graceSeconds: expected 0 to 86400 seconds, got -1"),
        ("graceSeconds: 86401", "graceSeconds: expected 0 to 86400 seconds, got 86401"),
        ("graceSeconds: 0.0001", "graceSeconds: expected seconds, no finer than a millisecond, got 0.0001"),
        ("maxCatchUp: 0", "maxCatchUp: expected a whole number from 1 to 100, got 0"),
        ("maxCatchUp: 101", "maxCatchUp: expected a whole number from 1 to 100, got 101"),
        ("maxOccurrences: 100001", "expected a whole number from 1 to 100000 or null, got 100001"),
        ("maxOccurrences: 0", "expected a whole number from 1 to 100000 or null, got 0"),
        ("maxRetries: true", "maxRetries: expected a whole number from 0 to 99, got true"),
        ("maxRetries: 1.0", "maxRetries: expected a whole number from 0 to 99, got 1.0"),
        ("enabled: yes", "enabled: expected true or false, got 'yes' (write true or false)"),
        ("enabled: 1", "enabled: expected true or false, got 1"),
        ("overlap:", "overlap: expected one of queue, skip, coalesce, allow, got nothing (null)"),
        ("misfire: once", "misfire: expected one of runOnce, skip, boundedReplay, catchUp, got 'once'"),
        ("replayLimit: 2", "replayLimit: replayLimit belongs to misfire boundedReplay, and this one is runOnce"),
        ("misfire: boundedReplay", "misfire: replayLimit is required with boundedReplay (for example replayLimit: 10)"),
        ("maxRetries: 3\nmaxAttempts: 3", "maxRetries: expected less than maxAttempts (3), got 3"),
        ("maxRetries: 20", "maxRetries: expected less than maxAttempts (20), got 20"),
        ("rateLimit: 3", "rateLimit: rateWindowSeconds is required with rateLimit"),
        ("rateLimit: {count: 3}", "rateLimit: windowSeconds is required: 0.001 to 31622400 seconds"),
        ("rateWindowSeconds: 3", "rateWindowSeconds: rateWindowSeconds means nothing without rateLimit"),
        ("rateLimit: {count: 1, windowSeconds: 2}\nrateWindowSeconds: 3", "says the same; keep one of them"),
        ("retry: {delay: 3}", "retry.delay: unknown key (did you mean delaySeconds?)"),
        ("retry: {backoff: 2}\nretryBackoff: 3", "retryBackoff: retry.backoff says the same; keep one of them"),
        ("retry: {delaySeconds: 9, maxDelaySeconds: 3}", "retry.maxDelaySeconds: the longest delay is shorter"),
        ("timeoutSeconds: 3\ntimeoutPerStageSeconds: 3", "timeoutSeconds says the same; keep one of them"),
        ("timeoutSeconds: 0", "timeoutSeconds: expected 0.001 to 604800 seconds or null, got 0"),
        ("admission: strict", "admission: strict has no limit to be strict about"),
        ("expiresAt: 2027-01-01T00:00:00", "(a time without Z or an offset names no instant)"),
        ("expiresAt: 2027-02-30T00:00:00Z", "expiresAt: there is no time '2027-02-30T00:00:00Z'"),
        ("expiresAt: 1767225600", "expiresAt: expected an RFC 3339 time"),
        ("timezone: 5", "timezone: expected text or null, got 5"),
        ("owner: ''", "owner: expected 1 to 100 printable characters without space at the ends or null, got ''"),
        ("was: a", "was: this is its present id"),
        ("objective: x\ndescription: y", "objective: description says the same; keep one of them"),
        ("scheduleId: b", "scheduleId: id says the same; keep one of them"),
        ("misfire: skip\ncatchUp: SKIP", "catchUp: misfire says the same; keep one of them"),
        ("misfire: apscheduler", "misfire: this policy belongs to jobs that an APScheduler app added"),
        ("overlap: apscheduler", "overlap: this policy belongs to jobs that an APScheduler app added"),
        ("cron: '* * * * *'", "every: cron says when already; keep one of them"),
        ("trigger: {kind: once}", "every: trigger says when already; keep one of them"),
        ("blackouts: [{from: 2026-01-01T00:00:00Z}]", "blackouts[0]: to is required: an RFC 3339 time"),
        ("blackouts: [{trigger: {kind: onc}, durationSeconds: 3}]", "blackouts[0].trigger.kind: expected one of"),
        (
            "blackouts: [{from: 2026-01-02T00:00:00Z, to: 2026-01-01T00:00:00Z}]",
            "blackouts[0].to: the window ends before it begins",
        ),
    ],
)
def test_a_key_that_is_wrong_is_one_line(extra: str, expected: str) -> None:
    assert expected in _one(extra)


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("", "a trigger is required (for example trigger: {kind: calendar, hour: 9, weekdays: mon-fri})"),
        ("trigger: []", "trigger: expected a mapping, got an empty list"),
        ("trigger: '0 9 * * *'", "trigger: expected a mapping, got '0 9 * * *'"),
        ("trigger: {hour: 9}", "trigger.kind: a trigger needs its kind"),
        ("trigger: {kind: calender, hour: 9}", "(did you mean 'calendar'?)"),
        ("trigger: {kind: calendar, hour: 9}", "trigger.timezone: a wall-clock rule needs a zone"),
        ("trigger: {kind: calendar, hour: 9, timezone: Europe/Nowhere}", "trigger.timezone: "),
        ("trigger: {kind: calendar, hour: 9, timezone: localtime}", "trigger.timezone: "),
        ("trigger: {kind: calendar, hour: 9, timezone: UTC, weekdays: 7}", "(Sunday is 6)"),
        ("trigger: {kind: calendar, at: '24:00', timezone: UTC}", "trigger.at: "),
        ("trigger: {kind: calendar, daysOfMonth: 30, months: 2, timezone: UTC}", "trigger"),
        ("trigger: {kind: interval, seconds: 0}", "trigger.seconds: "),
        ("trigger: {kind: interval, seconds: -5}", "trigger.seconds: "),
        ("trigger: {kind: interval, seconds: '60'}", "trigger.seconds: "),
        ("trigger: {kind: once, at: 2026-12-01T00:00:00}", "trigger"),
        (
            "trigger: {kind: interval, hours: 1, start: 2026-02-01T00:00:00Z, end: 2026-01-01T00:00:00Z}",
            "trigger.end: ",
        ),
        ("every: 15", "every: expected a length of time above zero, such as '15m' or '1h 30m'"),
        *(
            (f"every: {typed}", f"every: {_LENGTH}, got {typed!r}")
            for typed in ("0s", "0h 0m", "0ms", "-5m", "-0s", "1h -5m")
        ),
        ("every: 999999999999w", "every: expected a length of time of at most 2932896d, got '999999999999w'"),
        ("trigger: {kind: interval, minutes: 0}", "minutes: expected a whole number of minutes above zero, got 0"),
        ("trigger: {kind: interval, hours: -2}", "hours: expected a whole number of hours above zero, got -2"),
        (
            "firstTick: 2026-01-01T00:00:00Z\nintervalMs: 0",
            "intervalMs: expected a whole number of milliseconds above zero, got 0",
        ),
        ("every: 15x", "every: expected a length of time"),
        ("every: '*/5 * * * *'", "(a cron expression is no interval; write cron: …)"),
        ("at: '09:00'", "at: "),
        ("firstTick: 2026-01-01T00:00:00Z\nintervalMs: '*/5 * * * *'", "(a cron expression is no interval; "),
        ("firstTick: 2026-01-01T00:00:00\nintervalMs: 1000", "firstTick: "),
    ],
)
def test_a_rule_that_cannot_be_used_is_one_line(when: str, expected: str) -> None:
    (line,) = problems(f"id: a\ntask: jobs:run\n{when}\n")
    assert expected in line


@pytest.mark.parametrize(
    "id", ["''", "' a'", "'a '", '"a\\eb"', '"a\\nb"', '"a\\u202eb"', "x" * 201, "3", "null", "[a]"]
)
def test_an_id_is_1_to_200_printable_characters(id: str) -> None:
    (line,) = problems(f"id: {id}\ntask: jobs:run\nevery: 1h\n")
    assert "id: expected 1 to 200 printable characters without space at the ends, got" in line


def test_an_id_that_is_a_key_or_a_files_name_is_held_to_the_same() -> None:
    (line,) = problems('schedules:\n  "a\\eb": {task: "jobs:run", every: 1h}\n')
    assert line.startswith('file.yaml:2: schedules["a\\x1bb"].id: expected 1 to 200 printable characters')
    (line,) = problems("task: jobs:run\nevery: 1h\n", file=f"dir/{'x' * 201}.yaml")
    assert "expected 1 to 200 printable characters" in line


@pytest.mark.parametrize("ref", ["jobs", "jobs:", ":run", "jobs:a.b", "jobs:<lambda>", "jobs run:x", "jobs:run()", "3"])
def test_a_callable_is_exactly_module_and_name(ref: str) -> None:
    (line,) = problems(f"id: a\nevery: 1h\ntask: {{callable: '{ref}'}}\n")
    assert line == f"file.yaml:3: task.callable: expected 'module:name', the name without dots, got {ref!r}"


def test_arguments_with_unknown_or_unreadable_tags_are_refused() -> None:
    text = "id: a\nevery: 1h\ntask: {callable: 'jobs:run', args: [1, {$nope: 1}], kwargs: {day: {$date: '2026-02-30'}}}"
    first, second = problems(text)
    assert "task.args[1]: unknown tag '$nope'" in first
    assert "task.kwargs.day: $date cannot be read" in second


def test_a_callable_is_held_against_the_allow_list_before_anything_is_imported() -> None:
    asked: list[str] = []
    (line,) = problems("id: a\ntask: os:system\nevery: 1h", allow=("jobs:*",), load=asked.append)
    assert line == (
        "file.yaml:2: task: 'os:system' is not on this host's allow list (the host may add 'os:system' or 'os:*' to it)"
    )
    assert asked == []


def test_an_import_that_fails_is_one_line_whatever_the_module_does() -> None:
    def load(ref: str) -> None:
        raise RuntimeError("line one\nline two\x1b[2J")

    (line,) = problems("id: a\ntask: jobs:run\nevery: 1h", allow=("jobs:*",), load=load)
    assert line.startswith("file.yaml:2: task: cannot be imported: RuntimeError: line one line two")


def test_without_an_allow_list_nothing_is_imported() -> None:
    asked: list[str] = []
    assert problems("id: a\ntask: jobs:run\nevery: 1h", load=asked.append) == []
    assert asked == []


def test_a_callable_is_imported_once_however_many_schedules_name_it() -> None:
    asked: list[str] = []
    text = "".join(f"- {{id: a{i}, task: 'jobs:run', every: 1h}}\n" for i in range(20))
    assert problems(text, allow=("jobs:run",), load=asked.append) == []
    assert asked == ["jobs:run"]


def test_two_files_that_declare_one_id_are_named_both(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text("# comment\nschedules:\n  - {id: x, task: 'jobs:run', every: 1h}\n")
    found = check(read_all([tmp_path]), now=NOW)
    assert [str(problem) for problem in found.problems] == [
        f"{tmp_path / 'b.yaml'}:3: schedules[0]: the id 'x' is declared at {tmp_path / 'a.yaml'}:3 already"
    ]


def test_one_id_in_two_namespaces_is_two_schedules() -> None:
    first, second = (f"- {{id: x, namespace: {name}, task: 'jobs:run', every: 1h}}\n" for name in "ab")
    assert problems(first + second) == []


def test_an_id_was_somebody_elses_only_once_and_only_if_that_is_gone() -> None:
    text = """\
- {id: a, task: "jobs:run", every: 1h}
- {id: b, was: a, task: "jobs:run", every: 1h}
- {id: c, was: old, task: "jobs:run", every: 1h}
- {id: d, was: old, task: "jobs:run", every: 1h}
"""
    assert problems(text) == [
        "file.yaml:2: [1].was: 'a' is still declared, at file.yaml:1, so that it was not renamed",
        "file.yaml:4: [3].was: 'old' became another schedule already, at file.yaml:3",
    ]


def test_an_expiry_before_the_first_due_time_is_refused() -> None:
    text = "id: a\ntask: jobs:run\ntrigger: {kind: once, at: '2027-01-01T00:00:00Z'}\nexpiresAt: 2026-12-31T00:00:00Z"
    assert problems(text) == ["file.yaml:4: expiresAt: nothing would ever run: this is before the first due time"]


@pytest.mark.parametrize(
    ("when", "apart"),
    [
        ("every: 30s", "every: two due times are 30 s apart"),
        ("trigger: {kind: calendar, at: ['09:00', '09:00:10'], timezone: UTC}", "trigger: two due times are 10 s"),
    ],
)
def test_a_namespace_may_have_a_least_distance_of_due_times_also_for_disabled_schedules(when: str, apart: str) -> None:
    text = f"id: a\ntask: jobs:run\nenabled: false\n{when}\n"
    (line,) = problems(text, minimum_interval={"default": 60_000})
    assert apart in line and "this namespace allows no less than 60 s" in line
    assert problems(text, minimum_interval={"other": 60_000}) == []
    assert problems(text.replace("id: a", "id: a\nnamespace: b"), minimum_interval={"*": 60_000})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "file.yaml: the file is empty (a file without schedules is `schedules: []`)"),
        ("just text", "file.yaml:1: expected `schedules:`, or one schedule with its trigger and task, got 'just text'"),
        ("schedule:\n  a: {}", "file.yaml:1: schedule: unknown key (did you mean schedules?)"),
        ("schedules: 3", "schedules: expected a list of schedules, or a mapping from id to schedule, got 3"),
        ("schedules: []\noverlap: skip", "overlap: unknown key (this key belongs to a schedule, or under `defaults`)"),
        ("schedules: []\ndefaults: 3", "defaults: expected a mapping, got 3"),
        ("schedules: []\ndefaults: {id: a}", "defaults.id: unknown key"),
        ("schedules: []\ndefaults: {overlap: x}", "defaults.overlap: expected one of queue, skip, coalesce, allow"),
        ("schedules: []\ncalendars: []", "calendars: expected a mapping, got an empty list"),
        ("schedules: []\ncalendars: {c: {dates: [x]}}", "calendars.c.dates[0]: expected a date"),
        ("schedules:\n  a: {id: b, task: 'jobs:run', every: 1h}", "a.id: expected 'a', as its key says, got 'b'"),
        ("schedules: [{task: 'jobs:run', every: 1h}]", "schedules[0]: id is required"),
    ],
)
def test_a_file_of_another_layout_is_one_line(text: str, expected: str) -> None:
    assert any(expected in line for line in problems(text))


def test_a_problem_in_the_defaults_is_told_once_however_many_schedules_there_are() -> None:
    text = "defaults: {graceSeconds: -1}\nschedules:\n" + "".join(
        f"  s{i}: {{task: 'jobs:run', every: 1h}}\n" for i in range(10)
    )
    assert problems(text) == ["file.yaml:1: defaults.graceSeconds: expected 0 to 86400 seconds, got -1"]


def test_a_hundred_thousand_problems_are_counted_not_listed() -> None:
    text = "schedules:\n" + "".join(f"  s{i}: {{nope{i}: 1}}\n" for i in range(20_000))
    lines = problems(text)
    assert len(lines) == 1_001
    assert "and more problems" in lines[-1]


def test_what_has_a_problem_is_not_among_the_declarations() -> None:
    found = checked("- {id: a, task: 'jobs:run', every: 1h}\n- {id: b, task: 'jobs:run', every: 1h, overlap: x}\n")
    assert [declaration.definition.id for declaration in found.declarations] == ["a"]


def test_a_bad_zone_of_the_file_is_told_once_and_where_it_stands() -> None:
    text = """\
timezone: Europe/Berln
schedules:
  a: {cron: "0 9 * * *", task: "jobs:run"}
  b: {trigger: {kind: calendar, at: "25:00"}, task: "jobs:run"}
  c: {every: 1h, task: "jobs:run"}
"""
    assert problems(text) == [
        "file.yaml:1: timezone: there is no zone 'Europe/Berln' (did you mean 'Europe/Berlin'?)",
        "file.yaml:4: schedules.b.trigger.at: expected a time of day from '00:00' to '23:59:59', got '25:00'",
    ]


def test_a_bad_zone_beside_a_trigger_is_told_at_its_own_key() -> None:
    text = """\
id: a
task: jobs:run
trigger: {kind: anyOf, triggers: [{kind: calendar, at: "09:00"}, {kind: calendar, at: "10:00"}]}
timezone: Europe/Berln
"""
    assert problems(text) == ["file.yaml:4: timezone: there is no zone 'Europe/Berln' (did you mean 'Europe/Berlin'?)"]


def test_a_file_that_is_not_there_is_told_before_its_name_is_judged(tmp_path: Path) -> None:
    (document,) = read_all([tmp_path / "schedules"])
    assert [problem.message for problem in document.problems] == ["cannot be read: no such file or directory"]


def test_a_tab_that_indents_is_named() -> None:
    (line,) = problems("schedules:\n  a:\n\ttask: jobs:run\n")
    assert line.startswith("file.yaml:3: not YAML")
    assert line.endswith("(indent with spaces; YAML allows no tabs there)")


def test_a_recurring_blackout_that_names_a_calendar_is_refused_when_it_is_declared() -> None:
    text = """\
calendars:
  bank: {holidays: [2026-12-25]}
schedules:
  a:
    every: 1h
    task: "jobs:run"
    blackouts: [{trigger: {kind: cron, cron: "0 9 * * *", timezone: UTC, calendar: bank}, durationSeconds: 60}]
"""
    assert "a blackout cannot use business calendars, and this one names 'bank'" in str(problems(text))
