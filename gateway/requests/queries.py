"""Refuse a query parameter that a route does not know: whoever sends it relies on it."""

from collections.abc import Collection, Iterator

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request

from gateway.requests.problems import REFUSED, Problem
from timers.refusal import shortened


async def known_query(request: Request) -> None:
    """Make sure that a route knows all that its query has.

    errors:  Problem  names the first that it does not know, and those that it knows
    """
    route = request.scope.get("route")
    if request.query_params and isinstance(route, APIRoute) and (known := _known_by(route)) is not None:
        refuse_unknown(request, known)


def refuse_unknown(request: Request, known: Collection[str]) -> None:
    """Refuse the query parameters of a request that are not among these.

    errors:  Problem  names the first of them
    """
    for name in request.query_params:
        if name not in known:
            takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
            raise Problem(REFUSED, f"query parameter {shortened(name)} is not known here: {takes}")


def _known_by(route: APIRoute) -> frozenset[str] | None:
    """List the parameters that a route takes; None if a model of its own refuses others."""
    fields = dict(_fields_of(route.dependant))
    if any(isinstance(kind, type) and issubclass(kind, BaseModel) for kind in fields.values()):
        return None
    described = (route.openapi_extra or {}).get("parameters", [])
    return frozenset([*fields, *(it["name"] for it in described if it["in"] == "query")])


def _fields_of(dependant: Dependant) -> Iterator[tuple[str, object]]:
    for field in dependant.query_params:
        yield field.alias, field.field_info.annotation
    for another in dependant.dependencies:
        yield from _fields_of(another)
