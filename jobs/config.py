"""Say whether a configuration fits what a job's function takes, where the function itself is not at hand.

The app writes the function's type as a JSON Schema. A schema says less than the type: what fits it may still be refused
by the type's own code when a run begins. And it says more: pydantic reads "5" as a number, and names by other aliases
than the schema's. So a text that pydantic would read passes here as a number, and a schema that refuses what the app
itself has declared is not believed.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from pydantic import TypeAdapter
from pydantic import ValidationError as Unreadable
from referencing import Registry

from timers.refusal import shortened

READ_AS: Mapping[str, TypeAdapter[Any]] = MappingProxyType(
    {"integer": TypeAdapter(int), "number": TypeAdapter(float), "boolean": TypeAdapter(bool)}
)
NOUNS: Mapping[str, str] = MappingProxyType(
    {
        "integer": "a whole number", "number": "a number", "boolean": "true or false", "string": "a text",
        "array": "an array", "object": "an object", "null": "null",
    }
)  # fmt: skip
RULES: Mapping[str, Callable[[Any], str]] = MappingProxyType(
    {
        "enum": lambda values: f"must be one of {', '.join(map(shortened, values))}",
        "const": lambda value: f"must be {shortened(value)}",
        "minimum": lambda limit: f"must be at least {limit}",
        "maximum": lambda limit: f"must be at most {limit}",
        "exclusiveMinimum": lambda limit: f"must be more than {limit}",
        "exclusiveMaximum": lambda limit: f"must be less than {limit}",
        "minLength": lambda limit: f"must have at least {limit} characters",
        "maxLength": lambda limit: f"must have at most {limit} characters",
        "minItems": lambda limit: f"must have at least {limit} elements",
        "maxItems": lambda limit: f"must have at most {limit} elements",
    }
)


def misfit_of(config: str, schema: str, *, declared: str | None) -> str | None:
    """Say in a few words why a configuration does not fit a schema; None: it does, or the schema can't be believed.

    The words have no value of the configuration, which may hold a secret. All are JSON texts; `declared` is what the
    app itself has declared.
    """
    try:
        checker = _Checker(json.loads(schema), registry=Registry())  # an empty registry fetches nothing
        first = best_match(checker.iter_errors(json.loads(config)))
        if first is None or (declared is not None and not checker.is_valid(json.loads(declared))):
            return None
    except Exception:  # noqa: BLE001 - a type may write its own schema, which is the user's code
        return None
    return _told(first)


def _told(error: ValidationError) -> str:
    place = ".".join(map(str, error.absolute_path))
    within = f"{place}: " if place else ""
    limit: Any = error.validator_value
    value: Any = error.instance
    schema: Any = error.schema
    match error.validator:
        case "required":
            missing = [name for name in limit if name not in value]
            return f"{within}{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        case "additionalProperties":
            known = schema.get("properties", {})
            strange = next(name for name in value if name not in known)
            return f"{within}{shortened(strange)} is unknown: the fields are {', '.join(known)}"
        case "type":
            nouns = [NOUNS[kind] for kind in ([limit] if isinstance(limit, str) else limit)]
            return f"{place or 'it'} must be {' or '.join(nouns)}"
        case "anyOf" | "oneOf":
            return f"{place or 'it'} has none of the forms that it may have"
    rule = RULES.get(str(error.validator))
    return f"{place or 'it'} {rule(limit) if rule else f'breaks the rule {error.validator} of its type'}"


def _check_type(validator: Validator, types: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    """Check a value's type as pydantic does, which reads a number from a text, and a moment from a number."""
    kinds = [types] if isinstance(types, str) else types
    if not any(validator.is_type(value, kind) or _is_read_as(kind, value, schema) for kind in kinds):
        yield ValidationError("is of another type")


def _is_read_as(kind: str, value: Any, schema: Mapping[str, Any]) -> bool:
    if kind == "string":
        return "format" in schema and isinstance(value, int | float)
    if kind not in READ_AS or not isinstance(value, str | int | float):
        return False
    try:
        READ_AS[kind].validate_python(value)
    except Unreadable:
        return False
    return True


# A pattern is one of Rust's, which Python can't read in full, and which may take for ever in Python.
_CHECKS = {"type": _check_type, "pattern": lambda *_: iter(())}
_Checker = extend(Draft202012Validator, _CHECKS)  # type: ignore[no-untyped-call]
