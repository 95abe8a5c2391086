"""Read the console's forms and filters, and send the browser to the next page after a change."""

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Generic, TypeVar, get_origin
from urllib.parse import parse_qsl

from pydantic import BaseModel, SecretStr, ValidationError
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shardclock.api.codes import REFUSED, UNREADABLE
from shardclock.jsonb import fault_of
from shardclock_server.gateway.console.cookies import keep_message
from shardclock_server.gateway.console.formats import iso_of_shown
from shardclock_server.gateway.fields import refused_field
from shardclock_server.gateway.gateway import gateway_of
from shardclock_server.gateway.requests.bodies import read_body
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.gateway.requests.recording import note_body
from shardclock_server.timers.model import LINE_BYTES_MAX
from shardclock_server.timers.refusal import Refusal, shortened

FORM = "application/x-www-form-urlencoded"
# The fields with a moment. A user may copy the moment from a page, so the format of pages is accepted, too.
MOMENTS = frozenset(
    {
        *("at", "before", "since", "until", "due_date", "died_before"),
        *("due_from", "due_before", "changed_from", "changed_before"),
    }
)
FIELDS_MAX = 1_100  # a page of 1,000 selected rows, and the fields of its form
Model = TypeVar("Model", bound=BaseModel)


class Inputs(dict[str, Any]):
    """The texts of a form as the user typed them; a missing field is the empty text."""

    def __missing__(self, name: str) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Filter(Generic[Model]):
    """The filter of a page: the validated model, or after a refusal the model's defaults and the refusal's sentence."""

    model: Model
    given: Inputs
    error: str | None = None
    status: int = HTTPStatus.OK

    def refused(self, refusal: Refusal | Problem) -> "Filter[Model]":
        """Return the filter with the sentence and the status of a refusal."""
        return replace(self, error=str(refusal), status=refusal.code.status)


async def read_form(request: Request) -> str:
    """Read a form of at most 131,072 bytes, without a check of its fields.

    errors:  Problem  the form is too large, too slow, or is not a form
    """
    text: str | None = getattr(request.state, "form", None)
    if text is None:
        within_s = gateway_of(request).settings.gateway_body_s
        body = await read_body(request, FORM, bytes_max=LINE_BYTES_MAX, within_s=within_s)
        text = request.state.form = body.decode("ascii", "replace")
    return text


async def form_of(request: Request, model: type[Model]) -> Model:
    """Read and check the fields of a form; an empty field is treated as missing.

    errors:  Problem  names the invalid field, its value and the rule
    """
    fields = _fields_of(await read_form(request), model)
    note_body(request, fields)
    return _checked(fields, model)


def filter_of(request: Request, model: type[Model]) -> Filter[Model]:
    """Read a page's filter from the query; for an invalid query, return the model's defaults and an error sentence."""
    text = request.scope["query_string"].decode("ascii", "replace")
    given = Inputs()
    try:
        given = _fields_of(text, model)
        return Filter(_checked(given, model), given)
    except Problem as problem:
        return Filter(model(), given).refused(problem)


def done(request: Request, to: str, message: str) -> Response:
    """Send the browser to a page, which shows the message once."""
    response = RedirectResponse(to, HTTPStatus.SEE_OTHER)
    keep_message(request, response, message)
    return response


def _fields_of(text: str, model: type[BaseModel]) -> Inputs:
    """Parse the fields of a form; a list field may occur several times.

    errors:  Problem  the form has too many fields, a repeated field, or a text that can't be stored
    """
    try:
        pairs = parse_qsl(text, errors="strict", max_num_fields=FIELDS_MAX)
    except UnicodeDecodeError:
        raise Problem(UNREADABLE, "the form is not UTF-8; send the form again from the page") from None
    except ValueError:
        raise Problem(REFUSED, f"the form has more than {FIELDS_MAX:,} fields; select fewer rows") from None
    fields = Inputs()
    for name, value in pairs:
        if fault := fault_of(value):
            raise Problem(REFUSED, f"{shortened(name)} {_shown(name, value, model)} {fault}")
        if name in model.model_fields and get_origin(model.model_fields[name].annotation) is list:
            fields.setdefault(name, []).append(value)
        elif name in fields:
            raise Problem(REFUSED, f"{shortened(name)} is given twice; give it once")
        else:
            # A browser sends the lines of a text area with CR LF.
            fields[name] = value.replace("\r\n", "\n")
    for name in MOMENTS & fields.keys():
        fields[name] = iso_of_shown(fields[name], zone=fields.get("zone"))
    return fields


def _shown(name: str, value: str, model: type[BaseModel]) -> str:
    """Format a refused value for a message, and hide the value of a secret field."""
    field = model.model_fields.get(name)
    return "(not shown)" if field is not None and field.annotation is SecretStr else shortened(value)


def _checked(fields: dict[str, Any], model: type[Model]) -> Model:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        names = [field.alias or name for name, field in model.model_fields.items()]
        raise refused_field(error.errors(include_url=False)[0], names) from None
