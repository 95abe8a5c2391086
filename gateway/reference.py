"""The API's reference: OpenAPI 3.1, made of the routes and of what they have in common."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from gateway.callers import TENANT_HEADER
from gateway.idempotency import HEADER, KEY_CHARS_MAX
from gateway.problems import MEDIA_TYPE, ProblemAnswer

REFS = "#/components/schemas/{model}"
READING = frozenset({"get"})
PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "tenant": {
        "name": TENANT_HEADER,
        "in": "header",
        "required": False,
        "description": "the tenant that is meant, for callers that may act for more than one; if not given, default",
        "schema": {"type": "string"},
    },
    "idempotency": {
        "name": HEADER,
        "in": "header",
        "required": False,
        "description": "sent again with it within 24 h, a request gets its first answer again and does nothing twice",
        "schema": {"type": "string", "minLength": 1, "maxLength": KEY_CHARS_MAX},
        "example": "9d1c3a52-6c0e-4f0c-9c1b-0d6f3f0e2a11",
    },
    "if-match": {
        "name": "If-Match",
        "in": "header",
        "required": False,
        "description": "the ETag of the timer as you know it: if it is another now, the answer is 412",
        "schema": {"type": "string"},
    },
}
WAIT: Mapping[str, Any] = {
    "name": "wait",
    "in": "query",
    "required": False,
    "description": "for how long to wait until it has ended, an ISO 8601 duration of at most PT300S; then the answer"
    " has `end`, the record that ended it",
    "schema": {"type": "string"},
    "example": "PT30S",
}
WITHOUT_KEY = ("/healthz", "/readyz")


def body_of(
    model: type[BaseModel],
    *,
    but: Sequence[str] = (),
    media_type: str = "application/json",
    is_needed: bool = True,
) -> dict[str, Any]:
    """Describe the body that a route reads by itself: a model, `but` for some of its fields.

    shape:   what FastAPI takes as `openapi_extra`; the models that it refers to are in "$defs"
    """
    schema = model.model_json_schema(ref_template=REFS)
    schema.pop("additionalProperties", None)
    for field in but:
        schema["properties"].pop(field)
    return {"requestBody": {"required": is_needed, "content": {media_type: {"schema": schema}}}}


def openapi_of(app: FastAPI, more: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Describe an app; `more` has the operations that are no routes of FastAPI, by path and method."""
    said = get_openapi(
        title="Shardclock",
        version=app.version,
        openapi_version="3.1.0",
        description=app.description,
        routes=app.routes,
    )
    for path, operations in more.items():
        said["paths"].setdefault(path, {}).update(deepcopy(dict(operations)))
    schemas = said.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["ProblemAnswer"] = ProblemAnswer.model_json_schema(ref_template=REFS)
    said["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "sck_…"}}
    for path, operations in said["paths"].items():
        for method, operation in operations.items():
            _complete(operation, path, method, schemas)
    return said


def _complete(operation: dict[str, Any], path: str, method: str, schemas: dict[str, Any]) -> None:
    """Add to one operation what all have in common."""
    operation["responses"].pop("422", None)
    operation["responses"]["default"] = {
        "description": "It was not done: a problem says why.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": REFS.format(model="ProblemAnswer")}}},
    }
    for content in operation.get("requestBody", {}).get("content", {}).values():
        schemas.update(content["schema"].pop("$defs", {}))
    if path in WITHOUT_KEY:
        return
    operation["security"] = [{"key": []}]
    is_of_one_timer = path.startswith("/v1/timers") and not path.startswith("/v1/timers/bulk")
    names = ["tenant", "idempotency"] if is_of_one_timer and method not in READING else ["tenant"]
    if is_of_one_timer and (method == "patch" or path.endswith(("/cancel", "/pause", "/resume", "/run"))):
        names.append("if-match")
    operation.setdefault("parameters", []).extend(PARAMETERS[name] for name in names)
