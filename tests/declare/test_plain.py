"""Declarations without files: from Python, back from a definition, and partial updates."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calsched.declare import check_plain, check_update, from_keywords, merge_partial, to_declaration
from calsched.declare.read import read
from calsched.errors import InvalidInput
from calsched.model import Definition, Misfire, Task
from tests.declare._helpers import NOW, declared

BASE = Definition(id="a", trigger={"kind": "interval", "intervalMs": 3_600_000}, task=Task(callable="jobs:run"))


def test_a_mapping_is_checked_like_a_file_and_its_paths_begin_at_its_keys() -> None:
    with pytest.raises(InvalidInput) as caught:
        check_plain({"id": "a", "task": "jobs", "trigger": {"kind": "interval", "seconds": 0}}, now=NOW)
    first, second = sorted(map(str, caught.value.problems))
    assert first.startswith("task: expected 'module:name'")
    assert second.startswith("trigger.seconds: ")


def test_a_mapping_without_trigger_is_a_schedule_without_trigger() -> None:
    with pytest.raises(InvalidInput) as caught:
        check_plain({"id": "a", "overlap": "skip", "task": "jobs:run"}, now=NOW)
    assert [problem.message for problem in caught.value.problems] == ["a trigger is required"]


def test_a_mapping_becomes_a_declaration() -> None:
    assert check_plain({"id": "a", "task": "jobs:run", "every": "1h"}, now=NOW).definition == BASE


def test_a_default_definition_is_written_with_its_id_trigger_and_task_only() -> None:
    assert to_declaration(BASE) == {
        "id": "a",
        "namespace": "default",
        "trigger": {"kind": "interval", "intervalMs": 3_600_000},
        "task": "jobs:run",
    }


seconds = st.integers(0, 86_400_000)
names = st.text("abc-[]. é", min_size=1, max_size=12).filter(lambda text: text == text.strip())
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("ab$'\n", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
python_tasks = st.builds(
    Task,
    callable=st.just("jobs.x:run"),
    args=st.lists(json_values, max_size=3).map(tuple),
    kwargs=st.dictionaries(st.sampled_from(["a", "$b"]), json_values, max_size=2),
    executor=names,
    verify=st.none() | st.just("jobs:accept"),
)
ready_tasks = st.builds(
    Task,
    kind=st.just("ready"),
    input=json_values,
    work_order_id=st.none() | names,
    run_id=st.none() | names,
    task_class=names,
)
SPECS: list[dict[str, Any]] = [
    {"kind": "interval", "intervalMs": 1_500, "firstTick": "2026-09-11T12:00:00Z"},
    {"kind": "calendar", "timezone": "Europe/Berlin", "at": ["09:00:00"], "gap": "shift", "fold": "both"},
    {"kind": "once", "at": "2027-01-01T00:00:00Z"},
]
MISFIRES: list[Misfire] = ["runOnce", "skip", "boundedReplay", "catchUp"]


def stored(spec: dict[str, Any]) -> Any:
    return check_plain({"id": "a", "task": "jobs:run", "trigger": spec}, now=NOW).definition.trigger


triggers = st.sampled_from(SPECS).map(stored)


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    misfire = draw(st.sampled_from(MISFIRES))
    delay, limited = draw(seconds), draw(st.booleans())
    attempts = draw(st.integers(1, 100))
    return Definition(
        id=draw(names),
        namespace=draw(names),
        trigger=draw(triggers),
        task=draw(python_tasks | ready_tasks),
        description=draw(st.text(max_size=20).filter(lambda text: "\0" not in text)),
        owner=draw(st.none() | names),
        misfire=misfire,
        grace=draw(seconds),
        replay_limit=draw(st.integers(1, 100_000)) if misfire == "boundedReplay" else None,
        max_catch_up=draw(st.integers(1, 100)),
        overlap=draw(st.sampled_from(["queue", "skip", "coalesce", "allow"])),
        max_queued=draw(st.integers(1, 100_000)),
        max_concurrent=draw(st.integers(1, 1_000)),
        max_occurrences=draw(st.none() | st.integers(1, 100_000)),
        expires_at=draw(st.none() | st.integers(1_900_000_000_000, 253_402_300_799_999)),
        max_lateness=draw(seconds) if limited else None,
        rate_limit=draw(st.integers(1, 100_000)) if limited else None,
        rate_window=draw(st.integers(1, 86_400_000)) if limited else None,
        admission=draw(st.sampled_from(["each", "strict"])) if limited else "each",
        max_retries=draw(st.integers(0, attempts - 1)),
        max_attempts=attempts,
        max_repeated_failures=draw(st.none() | st.integers(1, 100)),
        retry_delay=delay,
        retry_backoff=draw(st.floats(1, 100)),
        retry_max_delay=draw(st.integers(delay, 7 * 86_400_000)),
        timeout=draw(st.none() | st.integers(1, 604_800_000)),
        max_elapsed=draw(st.none() | st.integers(1, 604_800_000)),
        deadline=draw(st.none() | st.integers(1, 604_800_000)),
        on_interrupted=draw(st.sampled_from(["never", "retry"])),
        pause_after_failures=draw(st.integers(0, 1000)),
        backlog=draw(st.sampled_from(["fromNow", "fromStart"])),
        jitter=draw(seconds),
    )


@settings(deadline=None)
@given(definitions())
def test_a_definition_written_as_a_declaration_checks_back_to_itself(definition: Definition) -> None:
    back = check_plain(to_declaration(definition), now=NOW).definition
    assert back == definition
    assert back.digest() == definition.digest()


@settings(deadline=None)
@given(definitions())
def test_an_empty_update_changes_nothing(definition: Definition) -> None:
    assert check_plain(merge_partial(definition, {}), now=NOW, namespace="x").definition == definition


def test_every_attribute_of_a_definition_has_its_way_into_a_declaration() -> None:
    other = declared(
        """\
id: b
namespace: ops
description: d
owner: o
trigger: {kind: calendar, hour: 9, timezone: Europe/Berlin, calendar: c}
task: {callable: "jobs:other", args: [1]}
misfire: boundedReplay
graceSeconds: 1
replayLimit: 2
maxCatchUp: 3
overlap: allow
maxQueued: 4
maxConcurrent: 5
maxOccurrences: 6
expiresAt: 2030-01-01T00:00:00Z
maxLatenessSeconds: 7
rateLimit: 8
rateWindowSeconds: 9
admission: strict
maxRetries: 10
maxAttempts: 11
maxRepeatedFailures: 12
retryDelaySeconds: 13
retryBackoff: 14
retryMaxDelaySeconds: 15
timeoutSeconds: 16
maxElapsedSeconds: 17
deadlineSeconds: 18
onInterrupted: retry
pauseAfterFailures: 19
backlog: fromStart
jitterSeconds: 20
blackouts: [{from: 2026-01-01T00:00:00Z, to: 2026-01-02T00:00:00Z}]
apscheduler: {name: x}
calendars: {c: {dates: ["2026-12-24"], through: 2030}}
"""
    )
    same = [f.name for f in fields(Definition) if getattr(other, f.name) == getattr(BASE, f.name)]
    assert same == []


@pytest.mark.parametrize(
    ("partial", "changed"),
    [
        ({"graceSeconds": 5}, {"grace": 5_000}),
        ({"every": "2h"}, {"trigger": {"kind": "interval", "intervalMs": 7_200_000}}),
        ({"objective": "new"}, {"description": "new"}),
        ({"timeoutPerStageSeconds": 5}, {"timeout": 5_000}),
        ({"retry": {"backoff": 3}}, {"retry_backoff": 3.0}),
        ({"catchUp": "SKIP"}, {"misfire": "skip"}),
        ({"misfire": "boundedReplay", "replayLimit": 3}, {"misfire": "boundedReplay", "replay_limit": 3}),
        ({"overlap": "allow"}, {"overlap": "allow", "max_concurrent": 10}),
        ({"task": "jobs:other"}, {"task": Task(callable="jobs:other")}),
        ({"maxOccurrences": 5, "id": "a"}, {"max_occurrences": 5}),
    ],
)
def test_the_keys_of_an_update_replace_those_of_the_definition(
    partial: dict[str, Any], changed: dict[str, Any]
) -> None:
    before = replace(BASE, timeout=1_000, description="old", retry_delay=3_000)
    after = check_plain(merge_partial(before, partial), now=NOW).definition
    assert after == replace(before, **changed)


@pytest.mark.parametrize(
    ("before", "partial", "changed"),
    [
        ({"misfire": "boundedReplay", "replay_limit": 3}, {"misfire": "skip"},
         {"misfire": "skip", "replay_limit": None}),
        ({"misfire": "boundedReplay", "replay_limit": 3}, {"replayLimit": 5}, {"replay_limit": 5}),
        ({"overlap": "allow", "max_concurrent": 5}, {"overlap": "skip"}, {"overlap": "skip", "max_concurrent": 1}),
        ({"overlap": "allow", "max_concurrent": 5}, {"maxConcurrent": 7}, {"max_concurrent": 7}),
        ({"max_occurrences": 5, "timeout": 9_000}, {"maxOccurrences": None, "timeoutSeconds": None},
         {"max_occurrences": None, "timeout": None}),
        ({"grace": 5_000}, {"graceSeconds": None}, {"grace": 60_000}),
        ({"rate_limit": 3, "rate_window": 1_000}, {"rateLimit": None}, {"rate_limit": None, "rate_window": None}),
        ({"rate_limit": 3, "rate_window": 1_000}, {"rateLimit": 5}, {"rate_limit": 5}),
    ],
)  # fmt: skip
def test_what_belonged_to_a_replaced_key_goes_with_it(
    before: dict[str, Any], partial: dict[str, Any], changed: dict[str, Any]
) -> None:
    stored = replace(BASE, **before)
    assert check_plain(merge_partial(stored, partial), now=NOW).definition == replace(stored, **changed)


def test_a_new_zone_moves_the_wall_times_of_the_trigger() -> None:
    stored = declared("id: a\ntask: jobs:run\ntrigger: {kind: calendar, hour: 9, timezone: Europe/Berlin}")
    after = check_plain(merge_partial(stored, {"timezone": "Asia/Tokyo"}), now=NOW).definition
    assert after.trigger == {**stored.trigger, "timezone": "Asia/Tokyo"}


WINNIPEG = {"kind": "cron", "expression": "0 9 * * 1-5", "timezone": "America/Winnipeg"}
OTHER = {"kind": "calendar", "hour": 4}


def _with(trigger: dict[str, Any]) -> Definition:
    return check_plain({"id": "a", "task": "jobs:run", "trigger": trigger}, now=NOW).definition


@pytest.mark.parametrize(
    "old",
    [
        WINNIPEG,
        {"kind": "anyOf", "triggers": [WINNIPEG, {**WINNIPEG, "expression": "0 12 * * 6"}]},
        {"kind": "once", "at": "2026-05-01T09:00:00", "timezone": "America/Winnipeg"},
    ],
)
@pytest.mark.parametrize(
    "rule",
    [
        {"cron": "0 10 * * *"},
        {"trigger": OTHER},
        {"trigger": {"kind": "anyOf", "triggers": [OTHER, {**OTHER, "hour": 5}]}},
        {"at": "2026-06-01T09:00:00"},
    ],
)
@pytest.mark.parametrize("host", [None, "Asia/Tokyo"])
def test_a_new_rule_without_a_zone_keeps_the_zone_of_the_old_one(
    old: dict[str, Any], rule: dict[str, Any], host: str | None
) -> None:
    before = _with(old)
    after = check_plain(merge_partial(before, rule), now=NOW, default_zone=host).definition
    same = check_plain({"id": before.id, "task": "jobs:run", "timezone": "America/Winnipeg", **rule}, now=NOW)
    assert after.trigger == same.definition.trigger


@pytest.mark.parametrize(
    ("partial", "zone"),
    [
        ({"cron": "0 10 * * *", "timezone": "Europe/Berlin"}, "Europe/Berlin"),
        ({"cron": "0 10 * * *", "timezone": None}, "Asia/Tokyo"),
        ({"trigger": {**OTHER, "timezone": "Europe/Berlin"}}, "Europe/Berlin"),
        ({"overlap": "skip"}, "America/Winnipeg"),
    ],
)
def test_a_zone_that_an_update_says_goes_before_the_old_one(partial: dict[str, Any], zone: str) -> None:
    before = _with(WINNIPEG)
    after = check_plain(merge_partial(before, partial), now=NOW, default_zone="Asia/Tokyo").definition
    assert after.trigger["timezone"] == zone


def test_parts_in_different_zones_lend_none() -> None:
    apart = {"kind": "anyOf", "triggers": [WINNIPEG, {**WINNIPEG, "timezone": "Asia/Tokyo"}]}
    with pytest.raises(InvalidInput, match="a wall-clock rule needs a zone"):
        check_plain(merge_partial(_with(apart), {"cron": "0 10 * * *"}), now=NOW)


def test_a_rule_without_wall_times_needs_no_zone_of_the_old_one() -> None:
    after = check_plain(merge_partial(_with(WINNIPEG), {"every": "1h"}), now=NOW)
    assert after.definition.trigger == {"kind": "interval", "intervalMs": 3_600_000}


@pytest.mark.parametrize(
    ("entry", "zone"),
    [
        ("cron: 0 10 * * *", "Europe/Berlin"),
        ("cron: 0 10 * * *, timezone: Asia/Tokyo", "Asia/Tokyo"),
        ("overlap: skip", "America/Winnipeg"),
    ],
)
def test_the_zone_of_a_file_holds_for_the_rules_that_the_file_has(entry: str, zone: str) -> None:
    before = _with(WINNIPEG)
    text = f"timezone: Europe/Berlin\nschedules: {{a: {{{entry}}}}}".encode()
    declaration, _ = check_update(before, read(text, "yaml", file="f.yaml"), now=NOW)
    assert declaration.definition.trigger["timezone"] == zone


@pytest.mark.parametrize("partial", [{"id": "b"}, {"scheduleId": "b"}, {"namespace": "other"}])
def test_an_update_cannot_make_it_another_schedule(partial: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="an update changes what a schedule does, not its name"):
        merge_partial(BASE, partial)


def test_an_update_file_reports_with_its_own_lines_and_says_which_keys_it_had() -> None:
    document = read(b"overlap: queue\n\ngraceSeconds: -1\n", "yaml", file="changes.yaml")
    with pytest.raises(InvalidInput) as caught:
        check_update(BASE, document, now=NOW)
    assert str(caught.value) == "changes.yaml:3: graceSeconds: expected 0 to 86400 seconds, got -1"
    good = read(b"overlap: queue\ngraceSeconds: 3\n", "yaml")
    declaration, keys = check_update(BASE, good, now=NOW)
    assert declaration.definition == replace(BASE, overlap="queue", grace=3_000)
    assert keys == {"overlap", "graceSeconds"}


def test_an_update_may_come_from_a_file_of_several_schedules() -> None:
    text = b"schedules:\n  other: {every: 1h}\n  a:\n    overlap: queue\n    maxQueued: no\n"
    with pytest.raises(InvalidInput) as caught:
        check_update(BASE, read(text, "yaml", file="f.yaml"), now=NOW)
    assert str(caught.value).startswith("f.yaml:5: maxQueued: expected a whole number")
    with pytest.raises(InvalidInput, match="there is no 'a' in this file"):
        check_update(BASE, read(b"schedules: {b: {every: 1h}}", "yaml"), now=NOW)


def updated(text: str, before: Definition = BASE) -> Definition:
    return check_update(before, read(text.encode(), "yaml", file="f.yaml"), now=NOW)[0].definition


def test_what_a_file_says_for_all_of_its_schedules_holds_in_an_update() -> None:
    text = """
    owner: finance
    defaults: {overlap: queue, graceSeconds: 5, retry: {delaySeconds: 7}, maxRetries: 2}
    schedules: {a: {maxRetries: 3}}
    """
    changed = {"overlap": "queue", "grace": 5_000, "retry_delay": 7_000, "max_retries": 3, "owner": "finance"}
    assert updated(text) == replace(BASE, **changed)  # type: ignore[arg-type]
    single = "defaults: {overlap: queue}\ngraceSeconds: 5\n"
    assert updated(single) == replace(BASE, overlap="queue", grace=5_000)


@pytest.mark.parametrize(
    ("defaults", "entry", "expected"),
    [
        ("overlap: queue", "overlap: skip", {"overlap": "skip"}),
        ("owner: a", "owner: b", {"owner": "b"}),
        ("owner: a", "owner: null", {}),
        ("misfire: boundedReplay, replayLimit: 3", "misfire: skip", {"misfire": "skip"}),
        ("misfire: boundedReplay, replayLimit: 3", "misfire: boundedReplay",
         {"misfire": "boundedReplay", "replay_limit": 3}),
        ("misfire: skip", "at: 2027-01-01T00:00:00Z", {"trigger": {"kind": "once", "at": "2027-01-01T00:00:00Z"}}),
        ("retryDelaySeconds: 7", "retry: {delaySeconds: 9}", {"retry_delay": 9_000}),
        ("retry: {delaySeconds: 7, backoff: 3}", "retryDelaySeconds: 9", {"retry_delay": 9_000, "retry_backoff": 3.0}),
        ("timeoutSeconds: 7", "timeoutPerStageSeconds: 9", {"timeout": 9_000}),
        ("rateLimit: {count: 2, windowSeconds: 60}", "rateLimit: 3, rateWindowSeconds: 9",
         {"rate_limit": 3, "rate_window": 9_000}),
        ("rateLimit: {count: 2, windowSeconds: 60}", "rateWindowSeconds: 9", {"rate_limit": 2, "rate_window": 9_000}),
    ],
)  # fmt: skip
def test_what_a_schedule_says_itself_wins_over_the_defaults_of_its_file(
    defaults: str, entry: str, expected: dict[str, Any]
) -> None:
    text = f"defaults: {{{defaults}}}\nschedules: {{a: {{{entry}}}}}"
    assert updated(text) == replace(BASE, **expected)


def test_an_update_finds_its_schedule_by_namespace_too() -> None:
    both = """
    namespace: other
    schedules:
      - {id: a, overlap: skip}
      - {id: a, namespace: default, overlap: queue}
    """
    assert updated(both).overlap == "queue"
    for text, line in (
        ("namespace: other\nschedules: {a: {overlap: skip}}", "f.yaml:1: namespace: "),
        ("defaults: {namespace: other}\nschedules: {a: {overlap: skip}}", "f.yaml:1: defaults.namespace: "),
        ("schedules: {a: {namespace: other, overlap: skip}}", "f.yaml:1: schedules.a.namespace: "),
    ):
        with pytest.raises(InvalidInput, match="an update changes what a schedule does, not its name") as caught:
            updated(text)
        assert str(caught.value).startswith(f"{line}expected 'default', got 'other'")


def test_a_default_that_is_wrong_is_told_where_it_stands() -> None:
    with pytest.raises(InvalidInput) as caught:
        updated("schedules: {a: {}}\ndefaults:\n  overlap: maybe\n  task: jobs:run\n")
    said = [str(problem).partition(" expected")[0] for problem in caught.value.problems]
    assert said[0].startswith("f.yaml:3: defaults.overlap:") and said[1].startswith("f.yaml:4: defaults.task:")


def test_keywords_are_policies_in_the_words_of_the_files() -> None:
    assert from_keywords({"overlap": "queue", "graceSeconds": 5, "retry": {"delaySeconds": 1}}) == {
        "overlap": "queue",
        "grace": 5_000,
        "retry_delay": 1_000,
    }
    assert from_keywords({"misfire": "COALESCE_ONE"}) == {
        "misfire": "runOnce",
        "grace": 0,
        "overlap": "allow",
        "max_concurrent": 1_000,
    }


def test_every_bad_keyword_is_a_problem_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        from_keywords({"overlap": "x", "graceSeconds": -1, "trigger": {}, "misfire": "boundedReplay", "nope": 1})
    assert sorted(problem.path for problem in caught.value.problems) == [
        "graceSeconds",
        "misfire",
        "nope",
        "overlap",
        "trigger",
    ]
