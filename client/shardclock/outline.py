"""Write what JSON a type surely refuses, so that a process without the user's code can refuse it, too.

An outline is a schema of pydantic's own core, without anything that runs the user's code: what can't be said without it
may be anything. So it refuses nothing that the type would read; and the type may still refuse what its outline takes.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from shardclock.reason import one_line

OUTLINE_BYTES_MAX = 65_536
ANYTHING: dict[str, Any] = {"type": "any"}
# Of these all is kept, if it is plain JSON: numbers that bound them, patterns, how strictly they are read.
PLAIN = {"any", "none", "bool", "int", "float", "str", "date", "time", "datetime", "timedelta", "literal"}
# Core schemas that hold others, by the key at which each holds one.
HOLDING = {
    "nullable": ("schema",),
    "list": ("items_schema",),
    "set": ("items_schema",),
    "frozenset": ("items_schema",),
    "dict": ("keys_schema", "values_schema"),
}
# What is read is read by what these hold, whatever becomes of it.
WITHIN = {
    "default": "schema",
    "function-after": "schema",
    "lax-or-strict": "lax_schema",
    "json-or-python": "json_schema",
}
FORGOTTEN = {"metadata", "serialization", "default", "default_factory", "title", "regex_engine"}


def outline_of(adapter: TypeAdapter[Any] | None) -> str | None:
    """Write the outline of a type as JSON text; None: it may be anything."""
    if adapter is None:
        return None
    try:
        outline = _Outline().of(adapter.core_schema)
        text = json.dumps(outline, ensure_ascii=False, allow_nan=False)
        SchemaValidator(json.loads(text))
        is_stored = "\\u0000" not in text and len(text.encode()) <= OUTLINE_BYTES_MAX
    except Exception:  # noqa: BLE001 - what pydantic holds is its own, and changes from release to release
        return None
    return text if is_stored and outline["type"] != "any" else None


def misfit_of(text: str, outline: str) -> str | None:
    """Say why JSON does not fit an outline, in pydantic's words and without what was given; None: it fits.

    shape:   both are JSON texts; an outline that this release of pydantic can't read refuses nothing
    """
    try:
        _validator(outline).validate_json(text)
    except ValidationError as error:
        return told(error)
    except Exception:  # noqa: BLE001 - as above
        return None
    return None


def told(error: ValidationError) -> str:
    """Say what is wrong first, and where, without what was given: it may be a secret."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return one_line(f"{place}: {first['msg']}" if place else first["msg"])


@cache
def _validator(outline: str) -> SchemaValidator:
    return SchemaValidator(json.loads(outline))


class _Outline:
    """Go through a core schema; what is recursive has the same names in each process."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def of(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        kind = schema["type"]
        if kind in PLAIN:
            return _plain(schema)
        if kind in WITHIN:
            return self.of(schema[WITHIN[kind]])
        special: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "union": self._union,
            "model": self._model,
            "dataclass": self._dataclass,
            "typed-dict": lambda it: self._object(it, it["fields"], is_total=it.get("total", True)),
            "definitions": self._definitions,
            "definition-ref": lambda it: {"type": kind, "schema_ref": self._name(it["schema_ref"])},
        }
        if kind in special:
            return self._named(schema, special[kind](schema))
        if kind in HOLDING:
            held = {key: self.of(schema[key]) for key in HOLDING[kind] if key in schema}
            return self._named(schema, {**_plain({k: v for k, v in schema.items() if k not in held}), **held})
        return self._named(schema, dict(ANYTHING))

    def _definitions(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        definitions = [self.of(it) for it in schema["definitions"]]
        return {"type": "definitions", "schema": self.of(schema["schema"]), "definitions": definitions}

    def _union(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        choices = [self.of(it[0] if isinstance(it, tuple) else it) for it in schema["choices"]]
        if any(choice["type"] == "any" for choice in choices):
            return dict(ANYTHING)
        return {"type": "union", "choices": choices, "mode": schema.get("mode", "smart")}

    def _model(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        inner = schema["schema"]
        while inner["type"] == "function-after":
            inner = inner["schema"]
        if schema.get("custom_init") or (inner["type"] != "model-fields" and not schema.get("root_model")):
            return dict(ANYTHING)
        if schema.get("root_model"):
            return self.of(inner)
        return self._object({**schema, **inner, "config": schema.get("config")}, inner["fields"])

    def _dataclass(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        inner = schema["schema"]
        while inner["type"] == "function-after":
            inner = inner["schema"]
        if inner["type"] != "dataclass-args":
            return dict(ANYTHING)
        fields = {it["name"]: it for it in inner["fields"]}
        if any(it.get("init") is False for it in fields.values()):
            return dict(ANYTHING)
        return self._object({**schema, **inner, "config": schema.get("config")}, fields)

    def _object(
        self, schema: Mapping[str, Any], fields: Mapping[str, Mapping[str, Any]], *, is_total: bool = True
    ) -> dict[str, Any]:
        """Write what has fields as what it is in JSON, an object."""
        outlined = {
            name: {
                "type": "typed-dict-field",
                "schema": self.of(it["schema"]),
                "required": it.get("required", is_total) and it["schema"]["type"] != "default",
                **({"validation_alias": it["validation_alias"]} if "validation_alias" in it else {}),
            }
            for name, it in fields.items()
        }
        kept = ("strict", "extra_behavior", "config")
        said = {key: _scalars(schema[key]) for key in kept if schema.get(key) is not None}
        if isinstance(schema.get("cls"), type):
            said["cls_name"] = schema["cls"].__name__
        return {"type": "typed-dict", "fields": outlined, **said}

    def _named(self, schema: Mapping[str, Any], outline: dict[str, Any]) -> dict[str, Any]:
        return {**outline, "ref": self._name(schema["ref"])} if "ref" in schema else outline

    def _name(self, ref: str) -> str:
        return self._names.setdefault(ref, f"r{len(self._names)}")


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Keep a schema whose words are all plain JSON; else it may be anything."""
    kept = {key: value for key, value in schema.items() if key not in FORGOTTEN and key != "ref"}
    is_pattern_of_python = schema.get("regex_engine") == "python-re"
    if is_pattern_of_python or not all(_is_plain(value) for value in kept.values()):
        return dict(ANYTHING)
    return kept


def _scalars(value: Any) -> Any:
    """Of a configuration keep what is plain; a title is nobody's business."""
    if isinstance(value, Mapping):
        return {key: it for key, it in value.items() if key not in FORGOTTEN and _is_plain(it)}
    return value


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return all(_is_plain(it) for it in value)
    return value is None or type(value) in (bool, int, float, str)
