"""Refuse invalid input with one sentence that contains the value, the rule, and what to write instead."""

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Self

from pydantic import BaseModel, ValidationError

from shardclock.api.codes import REFUSED, RefusalCode, invalid
from shardclock.refusal import shown

NO_MEMBERS: Mapping[str, str | int | None] = MappingProxyType({})


class Refusal(ValueError):
    """A refusal: a sentence for users, and a code for programs.

    shape:   the sentence is one line without unprintable characters; `members` has further fields for programs
    """

    def __init__(self, sentence: str, *, code: RefusalCode = REFUSED, **members: str | int | None) -> None:
        super().__init__(sentence)
        self.code = code
        self.members = members

    @classmethod
    def of(cls, code: RefusalCode, *, members: Mapping[str, str | int | None] = NO_MEMBERS, **fields: object) -> Self:
        """Make the refusal with a code's standard text."""
        return cls(code.sentence(**fields), code=code, **members)


class InvalidTimer(Refusal):
    """Refuse an invalid timer, or an invalid field of a timer."""


def shortened(value: object) -> str:
    """Format a refused JSON value as JSON, so that the user recognizes it.

    shape:   at most 60 characters, printable, on one line
    """
    match value:
        case None | bool() | float():
            return json.dumps(value)
        case str() | bytes() | int():
            return shown(value)
        case dict():
            return "{…}"
        case list():
            return "[…]"
    return f"a value of type {type(value).__name__[:30]}"


def unknown(value: object, known: Iterable[str]) -> str:
    """Describe an unknown value, and list the two or more words to use."""
    *others, last = known
    return f"{shortened(value)} is unknown: use {', '.join(others)} or {last}"


def refusal_of(error: ValidationError, model: type[BaseModel], *, called: Mapping[str, str]) -> InvalidTimer:
    """Convert pydantic's report to one sentence about the first invalid field.

    `called` maps field names to the names that the user knows.

    source:  the rule is the `description` of the field in the model, so the API reference and the refusal agree
    """
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    if not first["loc"]:
        if isinstance(cause, InvalidTimer):
            return InvalidTimer(str(cause), code=cause.code)
        return InvalidTimer(f"{shortened(first['input'])} is not an object of a timer's fields")
    field = str(first["loc"][0])
    if field not in model.model_fields:
        known = ", ".join(model.model_fields)
        return InvalidTimer(f"{shortened(field)} is not a field of a timer; the fields are {known}")
    name, code = called.get(field, field), invalid(field)
    if isinstance(cause, InvalidTimer):
        return InvalidTimer(f"{name} {cause}", code=code)
    rule = model.model_fields[field].description
    return InvalidTimer(f"{name} {shortened(first['input'])} is refused: it must be {rule}", code=code)
