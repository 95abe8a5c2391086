"""Read a small JSON body, and report its first invalid field in one sentence."""

import re
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from shardclock.api.codes import REFUSED, invalid
from shardclock_server.gateway.gateway import gateway_of
from shardclock_server.gateway.requests.bodies import read_object
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.gateway.requests.recording import note_body
from shardclock_server.timers.refusal import shortened

Model = TypeVar("Model", bound=BaseModel)
PLACES = ("body", "query", "path", "header")
FIELD = re.compile("[a-z][a-z0-9_]{0,99}")
NAME_SHOWN = 100  # a message shows at most this many characters of a field's name


async def read_model(request: Request, model: type[Model]) -> Model:
    """Read a small JSON body; an empty body is read as an empty object.

    errors:  Problem  names the invalid field, its value and the rule
    """
    fields = await read_object(request, within_s=gateway_of(request).settings.gateway_body_s, may_be_empty=True)
    note_body(request, fields)
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        fields_of = [field.alias or name for name, field in model.model_fields.items()]
        raise refused_field(error.errors(include_url=False)[0], fields_of) from None


def refused_field(report: Any, fields: Sequence[str] = ()) -> Problem:
    """Create the problem for one error of pydantic; `fields` lists the model's fields if they are known."""
    field = next((part for part in report["loc"] if part not in PLACES), "")
    is_field = report["type"] != "extra_forbidden" and isinstance(field, str) and FIELD.fullmatch(field)
    return Problem(invalid(field) if is_field else REFUSED, sentence_of(report, fields))


def sentence_of(report: Any, fields: Sequence[str] = ()) -> str:
    """Convert one error of pydantic to a sentence; `fields` lists the model's fields if they are known."""
    name = ".".join(str(part) for part in report["loc"] if part not in PLACES)
    name = "".join(it if it.isprintable() else "?" for it in name[:NAME_SHOWN])
    if report["type"] == "missing":
        return f"{name} is missing; give it"
    if report["type"] == "extra_forbidden":
        is_outer = fields and len(report["loc"]) == 1
        way_out = f"the fields are {', '.join(fields)}" if is_outer else "leave it out"
        return f"{shortened(name)} is not a field here; {way_out}"
    rule = report["msg"][:1].lower() + report["msg"][1:]
    return f"{name} {shortened(report['input'])} is refused: {rule}"
