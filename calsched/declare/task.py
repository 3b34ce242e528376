"""The task of a schedule."""

from __future__ import annotations

from typing import Any

from calsched import values
from calsched.declare.callable_ref import Callables
from calsched.declare.place import Place
from calsched.declare.shapes import Body, PythonTask, ReadyTask
from calsched.errors import InvalidInput
from calsched.model import Task


def task_of(shape: str | PythonTask | ReadyTask, body: Body, place: Place, callables: Callables) -> Task | None:
    """The task; problems go to the place of the schedule."""
    providers = body.allowed_providers if "allowed_providers" in body.model_fields_set else None
    if isinstance(shape, str):
        callables.judge(shape, providers, place.at("task"))
        return Task(callable=shape)
    if isinstance(shape, ReadyTask):
        return Task(
            kind="ready",
            input=_stored(shape.payload, place.at("task", "payload")),
            work_order_id=shape.work_order_id,
            run_id=shape.run_id,
            task_class=shape.task_class,
        )
    callables.judge(shape.callable, providers, place.at("task", "callable"))
    if shape.verify is not None:
        callables.judge(shape.verify, providers, place.at("task", "verify"))
    return Task(
        callable=shape.callable,
        args=tuple(_stored(list(shape.args), place.at("task", "args"))),
        kwargs=_stored(dict(shape.kwargs), place.at("task", "kwargs"), is_object=True),
        executor=shape.executor,
        verify=shape.verify,
    )


def _stored(plain: Any, place: Place, *, is_object: bool = False) -> Any:
    """The stored form of values that are written in it already: tags must be known ones, and are made canonical.

    The keyword arguments themselves are an object that is never a tag.
    """
    try:
        if is_object:
            return {key: _round(value, key) for key, value in plain.items()}
        return _round(plain, "")
    except InvalidInput as invalid:
        place.take(invalid.problems)
    return plain


def _round(plain: Any, path: str) -> Any:
    return values.encode(values.decode(plain, path), path)
