"""A mapping against a shape: every complaint, and what remains of it without the keys that were wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from calsched.declare.place import Place
from calsched.declare.shapes import Shape
from calsched.declare.wording import said

S = TypeVar("S", bound=Shape)


def validated(shape: type[S], plain: Mapping[str, Any], place: Place) -> S:
    """The shape of a mapping. Keys that are wrong are reported and left out, so that the others can be judged on."""
    try:
        return shape.model_validate(plain)
    except ValidationError as error:
        complaints = list(said(error, shape))
    place.say(complaints)
    wrong = {complaint.path[0] for complaint in complaints if complaint.path}
    return shape.model_validate({key: value for key, value in plain.items() if key not in wrong})
