"""Build the example of a response from the examples of the response's fields, so that no example is written twice."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

Schema = Mapping[str, Any]
NULL = {"type": "null"}
BY_KEY: Mapping[str, Any] = {"name": None}
ENDS: Mapping[str, Mapping[str, Any]] = {
    "cancel": {"state": "CANCELED", "due_date": None},
    "pause": {"state": "PAUSED", "due_date": None},
    "resume": {"state": "PENDING", "due_date": None},
    "run": {"state": "PENDING", "due_date": None},
    "move": {"state": "PENDING"},
}
ONE_LETTER = {"timer_keys": [20514]}
# For single operations: fields of the response with other values than the examples of the model.
OWN: Mapping[str, Mapping[str, Any]] = {
    **{f"{verb}_timer": {**fields, **BY_KEY} for verb, fields in ENDS.items()},
    **{f"{verb}_timer_by_name": fields for verb, fields in ENDS.items()},
    "retry_delivery": {"state": "DUE", "message": "the next attempt of timer 20514's delivery is due now"},
    "redrive_dead_letters": {"message": "put back: 2 dead letters are due again"},
    "redrive_dead_letter": {"message": "put back: 1 dead letter is due again", **ONE_LETTER},
    "discard_dead_letter": {"message": "1 dead letter discarded", **ONE_LETTER},
    "change_endpoint": {"message": "endpoint webhook:billing has concurrency 20"},
    "remove_endpoint": {"message": "endpoint webhook:billing is removed"},
    "enable_endpoint": {"message": "endpoint webhook:billing is enabled"},
    "end_rotation": {"message": "endpoint webhook:billing signs with its newest secret alone"},
    "rotate_endpoint": {"message": "endpoint webhook:billing signs with 2 secrets"},
    "unsubscribe_endpoint": {"message": "endpoint webhook:chat gets no more events; the endpoint itself stays"},
    "disable_job": {"state": "DISABLED"},
    "enable_job": {"state": "SCHEDULED"},
    "claim_task": {"state": "ASSIGNED"},
    "unclaim_task": {"state": "CREATED"},
    "extend_service_task": {"state": "EXTENDED"},
    "fail_service_task": {"state": "RETRIED"},
    "throw_service_task_error": {"state": "DISCARDED"},
}


class NoExample(LookupError):
    """A field has no example, and no example can be generated; the message names the field."""


def example_of(schema: Schema, schemas: Mapping[str, Schema], *, of: str = "it") -> Any:
    """Return a schema's own example, or build an example from the examples of its fields.

    shape:   a nullable field without an example is null; `schemas` has the models to which references point
    errors:  NoExample  a field has no example: give the named field `examples`
    """
    if examples := schema.get("examples"):
        return examples[0]
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return example_of(schemas[name], schemas, of=name)
    if "properties" in schema:
        return {name: example_of(part, schemas, of=f"{of}.{name}") for name, part in schema["properties"].items()}
    if schema.get("type") == "array":
        return [example_of(schema["items"], schemas, of=of)]
    for choice in schema.get("anyOf", ()):
        with suppress(NoExample):
            return example_of(choice, schemas, of=of)
    if schema.get("type") == "null" or NULL in schema.get("anyOf", ()):
        return None
    raise NoExample(f"{of} has no example; give the field `examples`")
