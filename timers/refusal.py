"""Refuse input that can't be a timer, in one sentence that names the value, the rule and the way out."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from shardclock.refusal import shown


class Refusal(ValueError):
    """Carry the one sentence that a user reads; it is one line without unprintable characters."""


class InvalidTimer(Refusal):
    """Refuse what can't be a timer, or can't be a timer's field."""


def shortened(value: object) -> str:
    """Show a refused value of JSON, in JSON's own words, so that the user recognizes it.

    shape:   at most 60 characters, printable, on one line
    """
    match value:
        case None | bool() | float():
            return json.dumps(value)
        case str() | bytes() | int():
            return shown(value)
        case dict():
            return "an object"
        case list():
            return "an array"
    return f"a value of type {type(value).__name__[:30]}"


def refusal_of(error: ValidationError, model: type[BaseModel], *, called: Mapping[str, str]) -> InvalidTimer:
    """Turn pydantic's report into the one sentence that a user reads, about the first field at fault.

    `called` has the user's words for fields; other fields are called by their names.

    source:  each field's `description` in the model is its rule, so the API's reference and the refusal agree
    """
    first = error.errors(include_url=False)[0]
    if not first["loc"]:
        return InvalidTimer(_cause(first) or f"{shortened(first['input'])} is not an object of a timer's fields")
    field = str(first["loc"][0])
    if field not in model.model_fields:
        known = ", ".join(model.model_fields)
        return InvalidTimer(f"{shortened(field)} is not a field of a timer; the fields are {known}")
    name = called.get(field, field)
    if cause := _cause(first):
        return InvalidTimer(f"{name} {cause}")
    rule = model.model_fields[field].description
    return InvalidTimer(f"{name} {shortened(first['input'])} is refused: it must be {rule}")


def _cause(report: Any) -> str:
    cause = report.get("ctx", {}).get("error")
    return str(cause) if isinstance(cause, InvalidTimer) else ""
