"""What an agent may do with schedules: the methods of seed 003, each described by a schema.

An agent registers and controls; it never runs tasks. It is confined to the app's namespace and to the host's allow
list, every control states the revision that the agent saw, and a schedule gets 100 occurrences unless it says how many.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from calsched.app import App
from calsched.app.files import Span
from calsched.app.plain import definition_plain, history_plain, plain, preview_plain, schedule_plain
from calsched.errors import InvalidInput, Problem

#: Of schedules that do not say how many (seed 003's default).
MAX_OCCURRENCES = 100

Id = Annotated[str, Field(description="Id of the schedule.", min_length=1, max_length=255)]
ExpectedRevision = Annotated[int, Field(description="The live revision that you saw; another one refuses.", ge=1)]
Note = Annotated[str | None, Field(description="Why; kept with the decision.", max_length=2_000)]
Declaration = Annotated[
    dict[str, Any],
    Field(description="A schedule declaration: id, trigger, task, policies (see the JSON Schema of `methods`)."),
]


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class NoArguments(_Arguments):
    pass


class CreateArguments(_Arguments):
    declaration: Declaration
    expect: Annotated[str | None, Field(description="The digest of its preview; refused where it changed.")] = None
    note: Note = None


class PreviewArguments(_Arguments):
    declaration: Declaration
    count: Annotated[int, Field(description="How many slots.", ge=1, le=1_000)] = 10


class ListArguments(_Arguments):
    attention: Annotated[bool, Field(description="Only those that a person should look at.")] = False
    limit: Annotated[int, Field(ge=1, le=1_000)] = 100
    page: Annotated[str | None, Field(description="`nextPage` of the answer before.")] = None


class GetArguments(_Arguments):
    id: Id
    limit: Annotated[int, Field(description="Verdicts, newest first.", ge=1, le=1_000)] = 20
    page: Annotated[str | None, Field(description="`nextPage` of the answer before.")] = None


class UpdateArguments(_Arguments):
    id: Id
    changes: Annotated[dict[str, Any], Field(description="Keys that replace those of the declaration.")]
    expected_revision: Annotated[ExpectedRevision, Field(alias="expectedRevision")]
    note: Note = None


class ControlArguments(_Arguments):
    id: Id
    expected_revision: Annotated[ExpectedRevision, Field(alias="expectedRevision")]
    note: Note = None


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    description: str
    arguments: type[BaseModel]
    run: Callable[[App, Any], Any]

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        return self.arguments.model_json_schema(by_alias=True)


def _bytes(declaration: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(declaration, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise InvalidInput([Problem("expected plain JSON values", "declaration")]) from None


def _confined(app: App, declaration: Mapping[str, Any]) -> bytes:
    """One schedule, in this namespace, with a limited number of occurrences."""
    problems = []
    if {"schedules", "defaults", "calendars"} & declaration.keys():
        problems.append(Problem("expected one schedule, not a file of schedules", "declaration"))
    namespace = declaration.get("namespace", app.namespace)
    if namespace != app.namespace:
        problems.append(Problem(f"expected namespace {app.namespace!r}, got {namespace!r}", "declaration.namespace"))
    if app.settings.allow is None and not _is_ready(declaration.get("task")):
        problems.append(Problem("this host allows no callables", "declaration.task", hint="it needs an allow list"))
    if problems:
        raise InvalidInput(problems)
    return _bytes({"maxOccurrences": MAX_OCCURRENCES, **declaration, "namespace": app.namespace})


def _is_ready(task: Any) -> bool:
    return isinstance(task, Mapping) and (task.get("kind") == "ready" or "workOrderId" in task)


def _create(app: App, given: CreateArguments) -> Any:
    made = app.create(_confined(app, given.declaration), format="json", expect=given.expect, note=given.note)
    (view,) = made.schedules
    return {"schedule": schedule_plain(view), "created": view.id in made.created, "warnings": plain(made.warnings)}


def _preview(app: App, given: PreviewArguments) -> Any:
    return preview_plain(app.preview(_confined(app, given.declaration), Span(count=given.count), "json"))


def _list(app: App, given: ListArguments) -> Any:
    found = app.list(attention=given.attention, limit=given.limit, page=given.page)
    schedules = [_short(view) for view in found.schedules]
    return {"schedules": schedules, "nextPage": found.next_page, "owned": found.owned}


def _short(view: Any) -> dict[str, Any]:
    told = schedule_plain(view)
    keys = ("id", "state", "reason", "note", "revision", "stateVersion", "nextDue", "failures", "attention")
    return {key: told[key] for key in keys}


def _get(app: App, given: GetArguments) -> Any:
    found = app.show(given.id, page=given.page, limit=given.limit).show
    definition = found.schedule.definition
    return {
        "schedule": schedule_plain(found.schedule),
        "definition": None if definition is None else definition_plain(definition),
        "pending": plain(found.pending),
        "history": history_plain(found.history, app.settings.workspaces)["entries"],
        "nextPage": found.history.next_page,
        "decisions": plain(found.decisions),
    }


def _update(app: App, given: UpdateArguments) -> Any:
    if {"id", "namespace"} & given.changes.keys():
        raise InvalidInput([Problem("an update cannot change id or namespace", "changes")])
    view = app.update(
        given.id, _bytes(given.changes), format="json", revision=given.expected_revision, note=given.note
    )
    return schedule_plain(view)


def _control(action: str) -> Callable[[App, ControlArguments], Any]:
    def run(app: App, given: ControlArguments) -> Any:
        view = getattr(app, action)(given.id, revision=given.expected_revision, note=given.note)
        return {"deleted": given.id} if view is None else _short(view)

    return run


def _methods(app: App, given: NoArguments) -> Any:
    from calsched.declare.schema import json_schema

    told = [{"name": m.name, "description": m.description, "arguments": m.schema()} for m in METHODS.values()]
    return {"methods": told, "declaration": json_schema()}


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("methods", "Every method with its arguments, and the schema of declarations.", NoArguments, _methods),
        Method("schedule_create", "Register a schedule.", CreateArguments, _create),
        Method("schedule_preview", "The coming slots of a declaration; writes nothing.", PreviewArguments, _preview),
        Method("schedule_list", "The schedules, page by page.", ListArguments, _list),
        Method("schedule_get", "One schedule with its verdicts and decisions.", GetArguments, _get),
        Method("schedule_update", "A new revision with some keys replaced.", UpdateArguments, _update),
        Method("schedule_pause", "Hold what comes and what waits.", ControlArguments, _control("pause")),
        Method("schedule_resume", "End a pause; the misfire policy judges.", ControlArguments, _control("resume")),
        Method("schedule_cancel", "End the revision for good.", ControlArguments, _control("cancel")),
        Method("schedule_delete", "Remove the schedule and its history.", ControlArguments, _control("delete")),
    )
}


def call(app: App, name: Any, arguments: Any) -> Any:
    """Run a method. Raises InvalidInput for what its schema does not describe, Refused and StoreUnusable as ``App``."""
    method = METHODS.get(name) if isinstance(name, str) else None
    if method is None:
        raise InvalidInput([Problem(f"expected one of {', '.join(METHODS)}, got {str(name)[:60]!r}", "method")])
    try:
        given = method.arguments.model_validate({} if arguments is None else arguments)
    except ValidationError as error:
        raise InvalidInput(_problem(one) for one in error.errors(include_url=False)) from None
    return method.run(app, given)


_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is not an argument of this method",
    "string_type": "expected a text",
    "int_type": "expected a whole number",
    "bool_type": "expected true or false",
    "dict_type": "expected an object",
    "model_type": "expected an object",
}


def _problem(error: Any) -> Problem:
    limits = error.get("ctx") or {}
    bounds = {key: limits[key] for key in ("ge", "le", "min_length", "max_length") if key in limits}
    said = _WORDS.get(error["type"]) or f"expected a value within {bounds}" if bounds else _WORDS.get(error["type"])
    return Problem(said or "is not usable", ".".join(str(part) for part in error["loc"]))
