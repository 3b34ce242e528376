"""What a declaration means: forms, short forms, defaults, and what the seeds' forms imply."""

from __future__ import annotations

import json
from typing import Any

import pytest

from calsched.calendars import BusinessCalendar
from calsched.clock import to_rfc3339
from calsched.model import Definition, Task
from tests.declare._helpers import checked, declarations, declared, problems, warnings

MINIMAL = "id: a\ntask: jobs:run\nevery: 1h\n"


def test_a_minimal_declaration_has_the_defaults_of_the_design() -> None:
    assert declared(MINIMAL) == Definition(
        id="a", trigger={"kind": "interval", "intervalMs": 3_600_000}, task=Task(callable="jobs:run")
    )


@pytest.mark.parametrize(
    ("key", "attribute", "value"),
    [
        ("namespace: ops", "namespace", "ops"),
        ("owner: team", "owner", "team"),
        ("description: Why", "description", "Why"),
        ("objective: Why", "description", "Why"),
        ("misfire: skip", "misfire", "skip"),
        ("misfire: boundedReplay\nreplayLimit: 4", "replay_limit", 4),
        ("graceSeconds: 0", "grace", 0),
        ("graceSeconds: 86400", "grace", 86_400_000),
        ("graceSeconds: 0.25", "grace", 250),
        ("maxCatchUp: 100", "max_catch_up", 100),
        ("overlap: queue", "overlap", "queue"),
        ("overlap: allow", "max_concurrent", 10),
        ("overlap: allow\nmaxConcurrent: 3", "max_concurrent", 3),
        ("maxQueued: 5", "max_queued", 5),
        ("maxOccurrences: 100000", "max_occurrences", 100_000),
        ("maxOccurrences: null", "max_occurrences", None),
        ("expiresAt: 2027-01-01T00:00:00-06:00", "expires_at", 1_798_783_200_000),
        ("maxLatenessSeconds: 90", "max_lateness", 90_000),
        ("rateLimit: 3\nrateWindowSeconds: 60", "rate_window", 60_000),
        ("rateLimit: {count: 3, windowSeconds: 60}", "rate_limit", 3),
        ("rateLimit: {count: 3, windowSeconds: 60}", "rate_window", 60_000),
        ("maxLatenessSeconds: 3\nadmission: strict", "admission", "strict"),
        ("maxRetries: 19", "max_retries", 19),
        ("maxAttempts: 7", "max_attempts", 7),
        ("maxRepeatedFailures: 2", "max_repeated_failures", 2),
        ("retry: {delaySeconds: 1, backoff: 1.5, maxDelaySeconds: 9}", "retry_delay", 1_000),
        ("retry: {delaySeconds: 1, backoff: 1.5, maxDelaySeconds: 9}", "retry_backoff", 1.5),
        ("retry: {delaySeconds: 1, backoff: 1.5, maxDelaySeconds: 9}", "retry_max_delay", 9_000),
        ("retryDelaySeconds: 2", "retry_delay", 2_000),
        ("retryDelaySeconds: 7200", "retry_max_delay", 7_200_000),
        ("timeoutSeconds: 30", "timeout", 30_000),
        ("timeoutPerStageSeconds: 30", "timeout", 30_000),
        ("maxElapsedSeconds: 40", "max_elapsed", 40_000),
        ("deadlineSeconds: 50", "deadline", 50_000),
        ("onInterrupted: retry", "on_interrupted", "retry"),
        ("pauseAfterFailures: 0", "pause_after_failures", 0),
        ("backlog: fromStart", "backlog", "fromStart"),
        ("jitterSeconds: 5", "jitter", 5_000),
    ],
)
def test_a_key_sets_its_attribute(key: str, attribute: str, value: Any) -> None:
    assert getattr(declared(MINIMAL + key), attribute) == value


@pytest.mark.parametrize(
    ("when", "spec"),
    [
        ("every: 15m", {"kind": "interval", "intervalMs": 900_000}),
        ("every: 1h 30m", {"kind": "interval", "intervalMs": 5_400_000}),
        ("every: 500ms", {"kind": "interval", "intervalMs": 500}),
        ("every: 2w", {"kind": "interval", "intervalMs": 1_209_600_000}),
        ("at: 2026-12-24T18:00:00Z", {"kind": "once", "at": "2026-12-24T18:00:00Z"}),
    ],
)
def test_a_short_form_is_a_trigger(when: str, spec: dict[str, Any]) -> None:
    assert declared(f"id: a\ntask: jobs:run\n{when}\n").trigger == spec


def test_a_cron_line_takes_the_zone_of_the_schedule() -> None:
    trigger = declared("id: a\ntask: jobs:run\ncron: '30 9 * * 1-5'\ntimezone: Europe/Berlin\n").trigger
    assert (trigger["kind"], trigger["expression"], trigger["timezone"]) == ("cron", "30 9 * * 1-5", "Europe/Berlin")


@pytest.mark.parametrize(
    ("schedule", "file", "host", "zone"),
    [
        ("Asia/Tokyo", "Europe/Berlin", "America/New_York", "Asia/Tokyo"),
        (None, "Europe/Berlin", "America/New_York", "Europe/Berlin"),
        (None, None, "America/New_York", "America/New_York"),
    ],
)
def test_the_zone_is_the_schedules_else_the_files_else_the_hosts(
    schedule: str | None, file: str | None, host: str, zone: str
) -> None:
    body = {"id": "a", "task": "jobs:run", "trigger": {"kind": "calendar", "hour": 9}}
    if schedule:
        body["timezone"] = schedule
    text = json.dumps({"schedules": [body], **({"timezone": file} if file else {})})
    assert declared(text, "json", default_zone=host).trigger["timezone"] == zone


def test_a_list_a_mapping_and_a_bare_list_declare_the_same() -> None:
    body = "{task: 'jobs:run', every: 1h}"
    listed = declarations("schedules:\n  - {id: a, task: 'jobs:run', every: 1h}\n")
    keyed = declarations(f"schedules:\n  a: {body}\n")
    bare = declarations("- {id: a, task: 'jobs:run', every: 1h}\n")
    assert listed[0].definition == keyed[0].definition == bare[0].definition


def test_a_file_with_one_schedule_names_it() -> None:
    assert declared("task: jobs:run\nevery: 1h\n", file="some/where/nightly-report.yaml").id == "nightly-report"


def test_a_declaration_knows_where_it_stands() -> None:
    text = "schedules:\n  a: {task: 'jobs:run', every: 1h}\n\n  b:\n    task: jobs:run\n    every: 1h\n"
    first, second = declarations(text)
    assert (first.file, first.line, second.line) == ("file.yaml", 2, 4)


def test_enabled_was_and_revision_stay_outside_the_definition() -> None:
    (one,) = declarations(MINIMAL + "enabled: false\nwas: old\nrevision: 3\n")
    assert (one.enabled, one.was, one.revision) == (False, "old", 3)
    assert one.definition == declared(MINIMAL)


def test_the_file_and_the_defaults_hold_where_the_schedule_says_nothing() -> None:
    text = """\
owner: team
namespace: ops
defaults: {overlap: queue, graceSeconds: 5, enabled: false, retry: {delaySeconds: 3, backoff: 4}}
schedules:
  a: {task: "jobs:run", every: 1h}
  b: {task: "jobs:run", every: 1h, overlap: skip, owner: other, enabled: true, retry: {delaySeconds: 9}}
"""
    a, b = declarations(text)
    assert (a.definition.owner, a.definition.namespace, a.enabled) == ("team", "ops", False)
    assert (a.definition.overlap, a.definition.grace, a.definition.retry_delay) == ("queue", 5_000, 3_000)
    assert (b.definition.owner, b.definition.overlap, b.enabled) == ("other", "skip", True)
    assert (b.definition.retry_delay, b.definition.retry_backoff) == (9_000, 4.0)


ONCE = """\
defaults: {misfire: %s}
schedules:
  once: {task: "jobs:run", at: 2026-12-24T18:00:00Z}
  twice: {task: "jobs:run", trigger: {kind: anyOf, triggers: [{kind: once, at: 2026-12-24T18:00:00Z}]}}
  hourly: {task: "jobs:run", every: 1h}
  mixed:
    task: jobs:run
    trigger: {kind: anyOf, triggers: [{kind: once, at: 2026-12-24T18:00:00Z}, {kind: interval, hours: 1}]}
  own: {task: "jobs:run", at: 2026-12-24T18:00:00Z, misfire: catchUp}
"""


def test_the_misfire_of_the_defaults_never_reaches_once_triggers() -> None:
    misfires = {d.definition.id: d.definition.misfire for d in declarations(ONCE % "skip")}
    assert misfires == {"once": "runOnce", "twice": "runOnce", "hourly": "skip", "mixed": "skip", "own": "catchUp"}


def test_neither_does_its_replay_limit_nor_what_a_seeds_name_implies() -> None:
    definitions = {d.definition.id: d.definition for d in declarations(ONCE % "BOUNDED_REPLAY, replayLimit: 2")}
    assert (definitions["once"].replay_limit, definitions["once"].grace, definitions["once"].overlap) == (
        None,
        60_000,
        "coalesce",
    )
    assert (definitions["hourly"].misfire, definitions["hourly"].replay_limit) == ("boundedReplay", 2)
    assert (definitions["hourly"].grace, definitions["hourly"].overlap) == (0, "allow")


def test_a_schedule_with_its_own_misfire_leaves_the_replay_limit_of_the_defaults() -> None:
    text = """\
defaults: {misfire: boundedReplay, replayLimit: 2}
schedules: {a: {task: "jobs:run", every: 1h, misfire: skip}}
"""
    assert declared(text).replay_limit is None


@pytest.mark.parametrize("own", ["misfire: boundedReplay", "misfire: BOUNDED_REPLAY", "catchUp: BOUNDED_REPLAY"])
def test_a_schedule_that_says_bounded_replay_itself_takes_the_limit_of_the_defaults(own: str) -> None:
    text = f"""\
defaults: {{misfire: boundedReplay, replayLimit: 2}}
schedules: {{a: {{task: "jobs:run", every: 1h, {own}}}}}
"""
    assert (declared(text).misfire, declared(text).replay_limit) == ("boundedReplay", 2)


@pytest.mark.parametrize(
    ("name", "misfire"),
    [("COALESCE_ONE", "runOnce"), ("LATEST", "runOnce"), ("SKIP", "skip"), ("ALL", "catchUp")],
)
@pytest.mark.parametrize("key", ["misfire", "catchUp"])
def test_a_seeds_name_of_a_misfire_implies_no_grace_and_overlap_allow(key: str, name: str, misfire: str) -> None:
    definition = declared(MINIMAL + f"{key}: {name}\n")
    assert (definition.misfire, definition.grace, definition.overlap) == (misfire, 0, "allow")
    assert definition.backlog == "fromNow"


def test_what_is_declared_beside_a_seeds_name_stands() -> None:
    definition = declared(MINIMAL + "misfire: LATEST\ngraceSeconds: 7\noverlap: queue\n")
    assert (definition.grace, definition.overlap, definition.max_concurrent) == (7_000, "queue", 1)


SEED_000 = {
    "namespace": "operations",
    "scheduleId": "document-review",
    "revision": 1,
    "firstTick": "2026-09-11T12:00:00.000Z",
    "intervalMs": 3_600_000,
    "catchUp": "BOUNDED_REPLAY",
    "replayLimit": 2,
    "task": {
        "workOrderId": "review-work-order",
        "runId": "review-run",
        "taskClass": "document-review",
        "payload": {"documentRef": "approved-document-reference"},
    },
}


def test_the_definition_form_of_seed_000_loads_as_it_stands() -> None:
    (one,) = declarations(json.dumps(SEED_000), "json")
    d = one.definition
    assert (d.namespace, d.id, one.revision) == ("operations", "document-review", 1)
    assert d.trigger == {"kind": "interval", "intervalMs": 3_600_000, "firstTick": "2026-09-11T12:00:00Z"}
    assert (d.misfire, d.replay_limit, d.grace, d.overlap) == ("boundedReplay", 2, 0, "allow")
    assert d.backlog == "fromStart"
    assert d.task == Task(
        kind="ready",
        input={"documentRef": "approved-document-reference"},
        work_order_id="review-work-order",
        run_id="review-run",
        task_class="document-review",
    )


def test_without_catch_up_it_means_coalesce_one_as_seed_000_says() -> None:
    form = {key: value for key, value in SEED_000.items() if key not in ("catchUp", "replayLimit")}
    d = declared(json.dumps(form), "json")
    assert (d.misfire, d.grace, d.overlap) == ("runOnce", 0, "allow")


SEED_003 = {
    "objective": "Publish the captured engineering workflow each weekday",
    "task": "freecad:publish",
    "allowedProviders": ["freecad"],
    "trigger": {
        "kind": "calendar",
        "start": "2026-10-12T00:00:00-05:00",
        "timezone": "America/Winnipeg",
        "hour": 9,
        "minute": 0,
        "weekdays": [0, 1, 2, 3, 4],
    },
    "overlap": "coalesce",
    "misfire": "runOnce",
    "graceSeconds": 60,
    "maxCatchUp": 10,
    "maxOccurrences": 100,
    "maxRetries": 0,
    "expiresAt": "2027-01-01T00:00:00-06:00",
}


def test_the_declaration_of_seed_003_loads_as_it_stands_with_a_task_in_place_of_the_document() -> None:
    (one,) = declarations(json.dumps(SEED_003), "json", file="weekday.json")
    d = one.definition
    assert (d.id, d.description) == ("weekday", "Publish the captured engineering workflow each weekday")
    assert (d.overlap, d.misfire, d.grace, d.max_catch_up) == ("coalesce", "runOnce", 60_000, 10)
    assert (d.max_occurrences, d.max_retries, d.expires_at) == (100, 0, 1_798_783_200_000)
    slots = [one.trigger.nth_after(0, n) for n in range(6)]
    assert [to_rfc3339(slot) for slot in slots if slot is not None] == [
        "2026-10-12T14:00:00Z",  # Monday, 09:00 in Winnipeg
        "2026-10-13T14:00:00Z",
        "2026-10-14T14:00:00Z",
        "2026-10-15T14:00:00Z",
        "2026-10-16T14:00:00Z",
        "2026-10-19T14:00:00Z",
    ]
    assert warnings(json.dumps(SEED_003), "json", file="weekday.json") == []


@pytest.mark.parametrize(
    ("providers", "task", "allowed"),
    [
        (["freecad"], "freecad:publish", True),
        (["freecad"], "freecad.part:publish", True),
        (["freecad"], "freecad_other:publish", False),
        (["freecad:*"], "freecad:publish", True),
        (["freecad:publish"], "freecad:publish", True),
        (["freecad:other"], "freecad:publish", False),
        ([], "freecad:publish", False),
    ],
)
def test_allowed_providers_narrow_the_allow_list(providers: list[str], task: str, allowed: bool) -> None:
    text = json.dumps({**SEED_003, "task": task, "allowedProviders": providers})
    host = {"allow": ("freecad:*", "freecad.part:*", "freecad_other:*"), "load": lambda ref: None}
    if allowed:
        assert declared(text, "json", **host).task.callable == task
    else:
        (line,) = problems(text, "json", **host)
        assert "is not among this schedule's allowedProviders" in line


def test_providers_never_widen_what_the_host_allows() -> None:
    (line,) = problems(json.dumps(SEED_003), "json", file="weekday.json", allow=("jobs:*",))
    assert "'freecad:publish' is not on this host's allow list" in line


def test_arguments_are_json_values_and_tagged_ones() -> None:
    text = """\
id: a
every: 1h
task:
  callable: jobs:run
  args: [1, x, {$date: "2026-03-08"}, {a: {$decimal: "1.50"}}]
  kwargs: {$x: 1, day: 2026-03-08}
  executor: pool
  verify: jobs:accept
"""
    assert declared(text).task == Task(
        callable="jobs:run",
        args=(1, "x", {"$date": "2026-03-08"}, {"a": {"$decimal": "1.50"}}),
        kwargs={"$x": 1, "day": "2026-03-08"},
        executor="pool",
        verify="jobs:accept",
    )


def test_blackouts_are_stored_in_one_form() -> None:
    text = MINIMAL + """\
blackouts:
  - {from: 2026-12-24T12:00:00+01:00, to: 2026-12-27T00:00:00Z, note: closed}
  - {trigger: {kind: calendar, weekdays: sun, at: "02:00", timezone: UTC}, durationSeconds: 7200, whenDue: skip}
"""
    first, second = declared(text).blackouts
    assert first == {
        "from": "2026-12-24T11:00:00Z",
        "to": "2026-12-27T00:00:00Z",
        "whenDue": "hold",
        "note": "closed",
    }
    assert (second["durationSeconds"], second["whenDue"], second["trigger"]["weekdays"]) == (7200, "skip", [6])


CALENDARS = """\
calendars:
  office: {dates: ["2026-10-12"], through: 2030}
schedules:
  a: {task: "jobs:run", trigger: {kind: calendar, hour: 9, timezone: America/Winnipeg, calendar: office}}
  b: {task: "jobs:run", every: 1h}
"""


def test_a_definition_names_the_version_of_each_calendar_that_it_was_resolved_with() -> None:
    a, b = declarations(CALENDARS)
    assert (dict(a.definition.calendars), dict(b.definition.calendars)) == ({"office": 1}, {})
    # Friday the 9th; Monday the 12th is closed
    after = a.trigger.next_after(1_791_554_400_000 - 1)
    assert after is not None and to_rfc3339(after) == "2026-10-09T14:00:00Z"
    following = a.trigger.next_after(after)
    assert following is not None and to_rfc3339(following) == "2026-10-13T14:00:00Z"


def test_an_edited_calendar_has_the_next_version_an_unchanged_one_its_own() -> None:

    known = checked(CALENDARS).calendars["office"]
    stored = BusinessCalendar("office", 7, known.material)
    assert checked(CALENDARS, calendars={"office": stored}).calendars["office"].version == 7
    edited = CALENDARS.replace("2026-10-12", "2026-10-13")
    assert checked(edited, calendars={"office": stored}).calendars["office"].version == 8


def test_host_defaults_lie_below_those_of_the_file() -> None:
    host: dict[str, Any] = {"defaults": {"maxOccurrences": 100, "overlap": "queue"}}
    assert declared(MINIMAL, **host).max_occurrences == 100
    assert declared(MINIMAL + "maxOccurrences: 7\n", **host).max_occurrences == 7
    text = "defaults: {overlap: skip}\nschedules: {a: {task: 'jobs:run', every: 1h}}"
    assert (declared(text, **host).overlap, declared(text, **host).max_occurrences) == ("skip", 100)


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ("misfire: catchUp", "file.yaml:4: misfire: catchUp with overlap coalesce runs two of the missed"),
        ("misfire: catchUp\noverlap: skip", "catchUp with overlap skip runs two of the missed slots at most"),
        (
            "misfire: catchUp\noverlap: queue\nrateLimit: {count: 3, windowSeconds: 60}",
            "rateLimit: a catch-up batch of 10 exceeds rateLimit 3: the excess is skipped",
        ),
        (
            "misfire: boundedReplay\nreplayLimit: 5\nrateLimit: 3\nrateWindowSeconds: 60\nadmission: strict",
            "a catch-up batch of 5 exceeds rateLimit 3: the whole batch is refused again and again",
        ),
        (
            "misfire: catchUp\noverlap: queue\nmaxLatenessSeconds: 3600",
            "in a catch-up batch of 10 the oldest slot is later than maxLatenessSeconds allows",
        ),
        ("graceSeconds: 3601", "graceSeconds: a grace of 3601 s is longer than the 3600 s between two due times"),
        ("maxConcurrent: 3", "maxConcurrent has no effect with overlap coalesce, only with allow"),
        ("maxQueued: 3", "maxQueued has no effect with overlap coalesce, only with queue"),
        ("expiresAt: 2026-01-01T00:00:00Z", "expiresAt: expired since 2026-01-01T00:00:00Z: nothing will run"),
    ],
)
def test_what_is_hardly_meant_is_a_warning(extra: str, expected: str) -> None:
    (line,) = warnings(MINIMAL + extra)
    assert expected in line


def test_a_grace_as_long_as_the_distance_of_two_due_times_is_none() -> None:
    assert warnings(MINIMAL + "graceSeconds: 3600") == []


def test_a_rule_without_further_due_times_is_a_warning() -> None:
    (line,) = warnings("id: a\ntask: jobs:run\nat: 2026-01-01T00:00:00Z")
    assert line == "file.yaml:3: at: there is no due time from now on"


def test_what_uses_a_faulty_calendar_is_not_to_blame_for_it() -> None:
    text = """\
calendars:
  bad: {weekend: [someday]}
schedules:
  a: {task: "jobs:run", trigger: {kind: calendar, hour: 7, calendar: bad, timezone: UTC}}
  b: {task: "jobs:run", trigger: {kind: calendar, hour: 7, businessDays: 1, calendar: bad, timezone: UTC}}
"""
    (line,) = problems(text)
    assert "calendars.bad.weekend[0]" in line


def test_a_calendar_that_runs_out_is_a_warning() -> None:
    (line,) = warnings(CALENDARS.replace("through: 2030", "through: 2025"))
    assert "schedules.a.trigger.calendar: " in line and "knows no closed days after 2025-12-31" in line


def test_apschedulers_cron_trigger_is_a_warning() -> None:
    text = "id: a\ntask: jobs:run\ntrigger: {kind: apscheduler, class: cron, hour: '9', timezone: Europe/Berlin}"
    (line,) = warnings(text)
    assert "APScheduler's CronTrigger computes these times" in line
