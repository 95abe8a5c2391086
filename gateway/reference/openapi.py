"""The API's reference: OpenAPI 3.1, made from the routes and from their shared parameters and problems."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.routing import BaseRoute

from shardclock_server.gateway.reference.examples import OWN, example_of
from shardclock_server.gateway.reference.refusals import codes_of
from shardclock_server.gateway.requests.callers import TENANT_HEADER
from shardclock_server.gateway.requests.idempotency import HEADER, KEY_CHARS_MAX
from shardclock_server.gateway.requests.problems import MEDIA_TYPE, ProblemAnswer
from shardclock_server.gateway.requests.wait import WAIT_EXAMPLE, how_long

REFS = "#/components/schemas/{model}"
JSON = "application/json"
READING = frozenset({"get"})
# Attributes that mark a dependency function: its scope, and that it needs a key for all tenants.
SCOPE, FOR_ALL_TENANTS = "scope", "for_all_tenants"
PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "tenant": {
        "name": TENANT_HEADER,
        "in": "header",
        "required": False,
        "description": "the tenant of the request, for callers that may act for several tenants; default: default",
        "schema": {"type": "string"},
    },
    "idempotency": {
        "name": HEADER,
        "in": "header",
        "required": False,
        "description": "a request that is repeated with this key within 24 h gets the first answer and "
        "has no second effect",
        "schema": {"type": "string", "minLength": 1, "maxLength": KEY_CHARS_MAX},
        "example": "9d1c3a52-6c0e-4f0c-9c1b-0d6f3f0e2a11",
    },
    "if-match": {
        "name": "If-Match",
        "in": "header",
        "required": False,
        "description": "the expected ETag of the timer; the answer is 412 if the timer's ETag differs now",
        "schema": {"type": "string"},
    },
}
WAIT: Mapping[str, Any] = {
    "name": "wait",
    "in": "query",
    "required": False,
    "description": f"{how_long('it has ended')}; then the answer has `end`, the record that ended the timer",
    "schema": {"type": "string"},
    "example": WAIT_EXAMPLE,
}
WITHOUT_KEY = ("/healthz", "/readyz")
ALL_TENANTS = "x-all-tenants"  # Marks an operation that needs a key for all tenants.
PROBLEMS = "x-problems"  # The names of an operation's possible problems.


def body_of(
    model: type[BaseModel],
    *,
    example: object,
    but: Sequence[str] = (),
    media_type: str = JSON,
    is_needed: bool = True,
) -> dict[str, Any]:
    """Describe the body of a route that parses it without FastAPI: the fields of a model, except the fields in `but`.

    shape:   FastAPI's `openapi_extra`, with the referenced models in "$defs"
    """
    schema = model.model_json_schema(ref_template=REFS)
    schema.pop("additionalProperties", None)
    for field in but:
        schema["properties"].pop(field)
    return {"requestBody": {"required": is_needed, "content": {media_type: {"schema": schema, "example": example}}}}


def answer_of(*models: type[BaseModel]) -> dict[str, Any]:
    """Describe the response of a route that writes it without FastAPI: one of these models.

    shape:   an entry of FastAPI's `responses`, with the referenced models in "$defs"
    """
    _, definitions = models_json_schema([(model, "serialization") for model in models], ref_template=REFS)
    each = [{"$ref": REFS.format(model=model.__name__)} for model in models]
    return {"description": "It is done.", "content": {JSON: {"schema": {"anyOf": each, "$defs": definitions["$defs"]}}}}


def openapi_of(
    app: FastAPI,
    routers: Sequence[APIRouter],
    keyed: Sequence[APIRouter],
    more: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Describe an app with its routers; changes in the `keyed` routers support idempotency keys.

    shape:   `more` maps path and method to the operations of routes that FastAPI does not know
    """
    reference = get_openapi(
        title="Shardclock",
        version=app.version,
        openapi_version="3.1.0",
        description=app.description,
        routes=app.routes,
    )
    for path, operations in more.items():
        reference["paths"].setdefault(path, {}).update(deepcopy(dict(operations)))
    schemas = reference.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["ProblemAnswer"] = ProblemAnswer.model_json_schema(ref_template=REFS)
    reference["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "sck_…"}}
    needs = {_name_of(route): _needs_of(route) for router in routers for route in router.routes}
    keyed_names = {_name_of(route) for router in keyed for route in router.routes}
    for path, operations in reference["paths"].items():
        for method, operation in operations.items():
            operation.update(needs.get(operation["operationId"], {}))
            _complete(operation, path, method, schemas, is_keyed=operation["operationId"] in keyed_names)
    return reference


def _name_of(route: BaseRoute) -> str:
    """Return the name of a route's operation: the route's own name, or the name of its function."""
    assert isinstance(route, APIRoute), "routers have no others"
    return route.operation_id or route.name


def _needs_of(route: BaseRoute) -> dict[str, Any]:
    """Return the rights that an API key needs for a route, from the route's dependencies."""
    assert isinstance(route, APIRoute), "routers have no others"
    marks = dict[str, Any]()
    for dependency in _all_of(route.dependant):
        marks |= getattr(dependency.call, "__dict__", {})
    needs = dict[str, Any]()
    if SCOPE in marks:
        needs["security"] = [{"key": [marks[SCOPE]]}]
    if FOR_ALL_TENANTS in marks:
        needs[ALL_TENANTS] = True
    return needs


def _all_of(dependant: Dependant) -> Iterator[Dependant]:
    for dependency in dependant.dependencies:
        yield dependency
        yield from _all_of(dependency)


def _complete(operation: dict[str, Any], path: str, method: str, schemas: dict[str, Any], *, is_keyed: bool) -> None:
    """Add the shared parameters, responses and problems to one operation."""
    answers = operation["responses"]
    answers.pop("422", None)
    for part in (operation.get("requestBody", {}), *answers.values()):
        for content in part.get("content", {}).values():
            _complete_content(content, schemas, OWN.get(operation["operationId"], {}))
    answers["default"] = {
        "description": "The request was refused: the problem has the reason.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": REFS.format(model="ProblemAnswer")}}},
    }
    if path not in WITHOUT_KEY:
        names = _common_parameters(path, method, is_keyed=is_keyed)
        operation.setdefault("parameters", []).extend(PARAMETERS[name] for name in names)
    operation[PROBLEMS] = [code.name for code in codes_of(operation)]


def _complete_content(content: dict[str, Any], schemas: dict[str, Any], own: Mapping[str, Any]) -> None:
    """Move models to the shared schemas, and add missing examples: one for each model of the response."""
    schema = content.get("schema", {})
    schemas.update(schema.pop("$defs", {}))
    if "example" in content:
        return
    if "anyOf" in schema:
        names = [choice["$ref"].rpartition("/")[2] for choice in schema["anyOf"]]
        content["examples"] = {name: {"value": example_of(schemas[name], schemas, of=name)} for name in names}
    else:
        content["example"] = example_of(schema, schemas) | own


def _common_parameters(path: str, method: str, *, is_keyed: bool) -> list[str]:
    is_of_one_timer = path.startswith("/v1/timers") and not path.startswith("/v1/timers/bulk")
    heeds_keys = (is_of_one_timer or is_keyed) and method not in READING
    names = ["tenant", "idempotency"] if heeds_keys else ["tenant"]
    if is_of_one_timer and (method == "patch" or path.endswith(("/cancel", "/pause", "/resume", "/run"))):
        names.append("if-match")
    return names
