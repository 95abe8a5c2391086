"""Check a query: each parameter must be known, must occur once, and must be a text that can be stored.

A number must consist of digits and a sign; pydantic also accepts `1_0`, ` 5` and `5.0`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args, get_origin
from urllib.parse import unquote_to_bytes

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from starlette.requests import Request

from shardclock.api.codes import REFUSED, invalid
from shardclock.jsonb import NOT_UTF8, fault_of
from shardclock_server.gateway.requests.callers import TENANT_HEADER
from shardclock_server.gateway.requests.paths import refuse_unreadable_path
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.timers.refusal import shortened

NAMES_OF_TENANT = ("tenant", "tenant_id")
# A moment with an offset, or a zone such as Etc/GMT+1, in which URL decoding has turned the plus sign into a space.
LOST_PLUS = re.compile(
    r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}[T ][0-9]{2}(?::?[0-9]{2})?(?::?[0-9]{2}(?:[.,][0-9]+)?)? [0-9]|Etc/GMT [0-9]",
    re.IGNORECASE,
)
WHOLE = re.compile("-?[0-9]+", re.ASCII)


async def known_query(request: Request) -> None:
    """Check the parameters of a route's path and query.

    errors:  Problem  names the first parameter at fault
    """
    refuse_unreadable_path(request)
    route = request.scope.get("route")
    if request.scope["query_string"] and isinstance(route, APIRoute):
        check_query(request, _known_by(route))
        for name, field in _fields_of(route.dependant):
            _check_number(name, field, request.query_params.getlist(name))


def takes_query(request: Request, name: str) -> bool:
    """Return whether the request's route has a query parameter with this name."""
    route = request.scope.get("route")
    return isinstance(route, APIRoute) and name in _known_by(route)


def check_query(request: Request, known: Mapping[str, bool]) -> None:
    """Check a query; `known` maps each parameter of the route to True if the parameter may be repeated, otherwise to
    False.

    errors:  Problem  names the first parameter at fault: unknown, repeated, not UTF-8, or with a NUL character
    """
    seen = set[str]()
    for pair in filter(None, request.scope["query_string"].split(b"&")):
        given, _, value = pair.partition(b"=")
        name = unquote_to_bytes(given.replace(b"+", b" ")).decode(errors="backslashreplace")
        if name not in known:
            if name in NAMES_OF_TENANT:
                raise Problem(
                    REFUSED, f"query parameter {name} is not known here: name the tenant in the header {TENANT_HEADER}"
                )
            takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
            raise Problem(REFUSED, f"query parameter {shortened(name)} is not known here: {takes}")
        if name in seen and not known[name]:
            raise Problem(REFUSED, f"{name} is given twice; give it once")
        seen.add(name)
        _check_value(name, value)


def _check_value(name: str, given: bytes) -> None:
    value = unquote_to_bytes(given.replace(b"+", b" "))
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise Problem(REFUSED, f"{name} {shortened(value)} {NOT_UTF8}") from None
    if fault := fault_of(text):
        raise Problem(REFUSED, f"{name} {shortened(text)} {fault}")
    if b"+" in given and LOST_PLUS.search(text):
        raise Problem(
            REFUSED,
            f"{name} {shortened(text)} is refused: a + in a query is a space; write %2B for a plus sign, and %20 for a"
            " space",
        )


def _check_number(name: str, field: FieldInfo, values: Iterable[str]) -> None:
    kind = field.annotation
    if int not in (get_args(kind) or (kind,)):
        return
    for value in values:
        if not WHOLE.fullmatch(value):
            raise Problem(invalid(name), f"{name} {shortened(value)} is refused: it must be a whole number, such as 10")


def _known_by(route: APIRoute) -> dict[str, bool]:
    """List the parameters of a route, and whether each parameter may be repeated."""
    described = (route.openapi_extra or {}).get("parameters", [])
    return {
        **{name: get_origin(field.annotation) is list for name, field in _fields_of(route.dependant)},
        **{it["name"]: False for it in described if it["in"] == "query"},
    }


def _fields_of(dependant: Dependant) -> Iterator[tuple[str, FieldInfo]]:
    for field in dependant.query_params:
        kind: Any = field.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from ((part.alias or name, part) for name, part in kind.model_fields.items())
        else:
            yield field.alias, field.field_info
    for another in dependant.dependencies:
        yield from _fields_of(another)
