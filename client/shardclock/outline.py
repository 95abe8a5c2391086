"""Convert a type to an outline: a schema against which a process without the user's code can check a value.

An outline is a schema of pydantic's core. Each part of the type that would run the user's code becomes "any". An
outline therefore accepts each value that the type accepts, and may accept more values.

Unknown fields are an exception: most types ignore unknown fields, but an outline refuses them, unless the type's
configuration has `extra="ignore"` or `extra="allow"`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, EnumMeta
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from shardclock.reason import misfit

OUTLINE_BYTES_MAX = 65_536
ANYTHING: dict[str, Any] = {"type": "any"}
# Core schemas that stay unchanged if they are plain JSON, with their limits, patterns and strictness.
PLAIN = {"any", "none", "bool", "int", "float", "str", "date", "time", "datetime", "timedelta", "literal"}
# Core schemas that contain other schemas, with the keys of the contained schemas.
HOLDING = {
    "nullable": ("schema",),
    "list": ("items_schema",),
    "set": ("items_schema",),
    "frozenset": ("items_schema",),
    "dict": ("keys_schema", "values_schema"),
}
# Schemas that wrap an inner schema, with the key of the inner schema; its outline replaces the whole schema.
WITHIN = {
    "default": "schema",
    "function-after": "schema",
    "lax-or-strict": "lax_schema",
    "json-or-python": "json_schema",
}
FORBID = "forbid"
OBJECTS = {"model", "dataclass", "typed-dict"}
PYTHONS_ENGINE = "python-re"  # the regular expression engine in which a match may take exponential time
FORGOTTEN = {"metadata", "serialization", "default", "default_factory", "title", "regex_engine"}


def outline_of(adapter: TypeAdapter[Any] | None) -> str | None:
    """Write the outline of a type as JSON text; None: the type accepts any value."""
    if adapter is None:
        return None
    try:
        outline = _Outline().of(adapter.core_schema)
        text = json.dumps(outline, ensure_ascii=False, allow_nan=False)
        SchemaValidator(json.loads(text))
        is_stored = "\\u0000" not in text and len(text.encode()) <= OUTLINE_BYTES_MAX
    except Exception:  # noqa: BLE001 - core schemas are internal to pydantic, and change with its releases
        return None
    return text if is_stored and outline["type"] != "any" else None


def misfit_of(text: str, outline: str) -> str | None:
    """Return the reason why JSON does not fit an outline, in pydantic's words and without the value; None: JSON fits.

    shape:   both are JSON texts; if this release of pydantic can't read the outline, every JSON fits
    """
    try:
        _validator(outline).validate_json(text)
    except ValidationError as error:
        return misfit(error, lambda place: _words_of(_fields_at(json.loads(outline), place)))
    except Exception:  # noqa: BLE001 - as above
        return None
    return None


def _words_of(fields: Sequence[str]) -> str:
    """Write the refusal of an unknown field; the caller limits the length of the sentence."""
    if not fields:
        return "no such field"
    named = f"the fields are {', '.join(fields)}" if len(fields) > 1 else f"the only field is {fields[0]}"
    return f"no such field; {named}"


def _fields_at(outline: Mapping[str, Any], place: Sequence[int | str]) -> list[str]:
    """Return the known fields of the object that has an unknown field; empty: the outline has no such list."""
    definitions = {it["ref"]: it for it in outline.get("definitions", ())}
    part: Mapping[str, Any] | None = outline
    for step in place[:-1]:
        part = _within(part, definitions, step)
    part = _within(part, definitions)
    return [_name_of(name, it) for name, it in part["fields"].items()] if part and "fields" in part else []


def _within(
    part: Mapping[str, Any] | None, definitions: Mapping[str, Any], step: int | str | None = None
) -> Mapping[str, Any] | None:
    """Resolve references and optional types, then return the schema of the element at `step`; None: no such element."""
    while part is not None and part["type"] in ("definitions", "definition-ref", "nullable"):
        part = definitions.get(part["schema_ref"]) if part["type"] == "definition-ref" else part["schema"]
    if part is None or step is None:
        return part
    if part["type"] == "union":
        return next((it for it in part["choices"] if it.get("cls_name") == step), None)
    if part["type"] == "typed-dict":
        return next((it["schema"] for name, it in part["fields"].items() if step in (name, _name_of(name, it))), None)
    return part.get("items_schema") or part.get("values_schema")


def _name_of(name: str, field: Mapping[str, Any]) -> str:
    alias = field.get("validation_alias")
    return alias if isinstance(alias, str) else name


@lru_cache(maxsize=1_000)
def _validator(outline: str) -> SchemaValidator:
    return SchemaValidator(json.loads(outline))


class _Outline:
    """Convert a core schema; the names of recursive parts are the same in each process."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._objects_around = 0
        self._extra: str | None = FORBID  # the rule for unknown fields in an object without its own configuration
        self._shapes: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            **dict.fromkeys(HOLDING, self._holding),
            "definitions": self._definitions,
            "definition-ref": self._reference,
            "enum": _enum,
            "union": self._union,
            "model": self._model,
            "dataclass": self._dataclass,
            "typed-dict": self._typed_dict,
        }

    def of(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        kind = schema["type"]
        if kind in PLAIN:
            return _plain(schema)
        if kind in WITHIN and schema.get("on_error", "raise") == "raise":
            return self.of(schema[WITHIN[kind]])
        shape = self._shapes.get(kind)
        return self._named(schema, dict(ANYTHING) if shape is None else shape(schema))

    def _holding(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        held = {key: self.of(schema[key]) for key in HOLDING[schema["type"]] if key in schema}
        return {**_plain({**schema, **dict.fromkeys(held)}), **held}

    def _definitions(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        definitions = [self._definition(it) for it in schema["definitions"]]
        return {"type": "definitions", "schema": self.of(schema["schema"]), "definitions": definitions}

    def _definition(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        # Convert only definitions of objects. Any other definition depends on the configuration of the object that uses
        # it, and this object is unknown here.
        self._extra = None
        found = self.of(schema) if schema["type"] in OBJECTS else self._named(schema, dict(ANYTHING))
        self._extra = FORBID
        return found

    def _reference(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        return {"type": "definition-ref", "schema_ref": self._name(schema["schema_ref"])}

    def _union(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        choices = [self.of(it[0] if isinstance(it, tuple) else it) for it in schema["choices"]]
        if any(choice["type"] == "any" for choice in choices):
            return dict(ANYTHING)
        return {"type": "union", "choices": choices, "mode": schema.get("mode", "smart")}

    def _model(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        inner = _unchecked(schema["schema"])
        if schema.get("custom_init"):
            return dict(ANYTHING)
        if schema.get("root_model"):
            # The parts of a root model use its own configuration, not the configuration of an enclosing object.
            has_own = set(schema.get("config") or ()) - FORGOTTEN
            return dict(ANYTHING) if has_own or self._objects_around else self.of(inner)
        if inner["type"] != "model-fields":
            return dict(ANYTHING)
        return self._object({**schema, **inner, "config": schema.get("config")}, inner["fields"])

    def _dataclass(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        inner = _unchecked(schema["schema"])
        if inner["type"] != "dataclass-args" or any(it.get("init") is False for it in inner["fields"]):
            return dict(ANYTHING)
        fields = {it["name"]: it for it in inner["fields"]}
        return self._object({**schema, **inner, "config": schema.get("config")}, fields)

    def _typed_dict(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        return self._object(schema, schema["fields"], is_total=schema.get("total", True))

    def _object(
        self, schema: Mapping[str, Any], fields: Mapping[str, Mapping[str, Any]], *, is_total: bool = True
    ) -> dict[str, Any]:
        """Convert a schema with fields to the schema of a JSON object."""
        if (schema.get("config") or {}).get("regex_engine") == PYTHONS_ENGINE:
            return dict(ANYTHING)
        config, around = schema.get("config"), self._extra
        if config:
            self._extra = config.get("extra_fields_behavior", FORBID)
        self._objects_around += 1
        outlined = {
            name: {
                "type": "typed-dict-field",
                "schema": self.of(it["schema"]),
                "required": it.get("required", is_total) and it["schema"]["type"] != "default",
                **({"validation_alias": it["validation_alias"]} if "validation_alias" in it else {}),
            }
            for name, it in fields.items()
        }
        self._objects_around -= 1
        # The schema of a TypedDict always has `extra_behavior="ignore"`; only its configuration shows whether the type
        # ignores unknown fields.
        own = schema.get("extra_behavior", "ignore")
        extra, self._extra = self._extra if own == "ignore" else own, around
        kept = ("strict", "config")
        said = {key: _scalars(schema[key]) for key in kept if schema.get(key) is not None}
        if extra is not None:
            said["extra_behavior"] = extra
        if isinstance(schema.get("cls"), type):
            said["cls_name"] = schema["cls"].__name__
        return {"type": "typed-dict", "fields": outlined, **said}

    def _named(self, schema: Mapping[str, Any], outline: dict[str, Any]) -> dict[str, Any]:
        return {**outline, "ref": self._name(schema["ref"])} if "ref" in schema else outline

    def _name(self, ref: str) -> str:
        return self._names.setdefault(ref, f"r{len(self._names)}")


def _unchecked(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Remove functions that check or change a value after it was read."""
    while schema["type"] == "function-after":
        schema = schema["schema"]
    return schema


def _enum(schema: Mapping[str, Any]) -> dict[str, Any]:
    """List the values of an enum, if they are texts and no other value is accepted as a member."""
    values = [member.value for member in schema["members"]]
    cls = schema["cls"]
    reader = next(kind for kind in cls.__mro__ if "_missing_" in vars(kind))
    # The enum's own code may accept further values, which can't be listed.
    has_code = reader is not Enum or type(cls) is not EnumMeta or set(cls._value2member_map_) != set(values)
    if has_code or schema.get("missing") or not all(type(value) is str for value in values):
        return dict(ANYTHING)
    return {"type": "literal", "expected": values}


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema if all of its values are plain JSON, otherwise the schema "any"."""
    kept = {key: value for key, value in schema.items() if key not in FORGOTTEN and key != "ref"}
    if schema.get("regex_engine") == PYTHONS_ENGINE or not all(_is_plain(value) for value in kept.values()):
        return dict(ANYTHING)
    return kept


def _scalars(value: Any) -> Any:
    """Return the plain values of a configuration, without the title."""
    if isinstance(value, Mapping):
        return {key: it for key, it in value.items() if key not in FORGOTTEN and _is_plain(it)}
    return value


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return all(_is_plain(it) for it in value)
    return value is None or type(value) in (bool, int, float, str)
