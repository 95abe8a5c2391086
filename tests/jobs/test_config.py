"""A configuration that its function can't take is told in a few words; one that it can take always passes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator
from pydantic.json_schema import SkipJsonSchema

from jobs.config import misfit_of
from shardclock.payload import SCHEMA_CHARS_MAX, schema_of


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Nested(BaseModel):
    depth: Annotated[int, Field(ge=1, le=9)] = 3


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    region: Annotated[str, Field(min_length=2, max_length=8, pattern="^[a-z]+$")]
    nested: Nested = Nested()
    share: Annotated[float, Field(gt=0, lt=1)] | None = None
    colour: Colour = Colour.RED
    mode: Literal["fast", "safe"] = "fast"
    names: Annotated[list[str], Field(max_length=2)] = []
    is_dry: bool = False
    since: datetime | None = None
    day: date | None = None
    within: timedelta = timedelta(0)
    price: Decimal = Decimal(0)


def misfit(config: Any, of: Any = Settings, declared: Any = None) -> str | None:
    schema = schema_of(TypeAdapter(of))
    assert schema is not None
    return misfit_of(json.dumps(config), schema, declared=None if declared is None else json.dumps(declared))


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "region is missing"),
        ([], "it must be an object"),
        (None, "it must be an object"),
        ({"region": "eu", "regoin": 1}, "'regoin' is unknown: the fields are region, nested, share, colour, mode"),
        ({"region": 5}, "region must be a text"),
        ({"region": "e"}, "region must have at least 2 characters"),
        ({"region": "europe-west"}, "region must have at most 8 characters"),
        ({"region": "eu", "nested": {"depth": "deep"}}, "nested.depth must be a whole number"),
        ({"region": "eu", "nested": {"depth": 2.5}}, "nested.depth must be a whole number"),
        ({"region": "eu", "nested": {"depth": 0}}, "nested.depth must be at least 1"),
        ({"region": "eu", "nested": {"depth": 10}}, "nested.depth must be at most 9"),
        ({"region": "eu", "share": 1}, "share must be less than 1"),
        ({"region": "eu", "colour": "green"}, "colour must be one of 'red', 'blue'"),
        ({"region": "eu", "mode": "slow"}, "mode must be one of 'fast', 'safe'"),
        ({"region": "eu", "names": ["a", "b", "c"]}, "names must have at most 2 elements"),
        ({"region": "eu", "names": ["a", {}]}, "names.1 must be a text"),
        ({"region": "eu", "is_dry": "perhaps"}, "is_dry must be true or false"),
    ],
)
def test_what_the_function_can_not_take_is_told_without_its_value(config: Any, why: str) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate_json(json.dumps(config))
    said = misfit(config)
    assert said is not None
    assert said.startswith(why)
    assert not any(value in said for value in ("deep", "green", "slow", "perhaps", "europe-west"))


@pytest.mark.parametrize(
    "config",
    [
        {"region": "eu"},
        {"region": "eu", "nested": {"depth": "5"}},
        {"region": "eu", "nested": {"depth": 5.0}},
        {"region": "eu", "nested": {"depth": True}},
        {"region": "eu", "share": "0.5", "is_dry": "yes"},
        {"region": "eu", "is_dry": 1},
        {"region": "eu", "since": "2026-12-01T00:00:00Z", "day": "2026-12-01", "within": "PT5M", "price": "1.50"},
        {"region": "eu", "since": 1_800_000_000, "within": 60, "price": 1.5},
        {"region": "eu", "colour": "blue", "mode": "safe", "names": ["a", "b"], "share": None},
    ],
)
def test_what_pydantic_reads_passes(config: Any) -> None:
    Settings.model_validate_json(json.dumps(config))
    assert misfit(config) is None


def test_a_schema_that_refuses_what_the_app_itself_declares_is_not_believed() -> None:
    class Either(BaseModel):
        model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)
        city: Annotated[str, Field(alias="town")]

    class Short(BaseModel):
        days: int

        @field_validator("days", mode="before")
        @classmethod
        def count(cls, value: Any) -> Any:
            return len(value) if isinstance(value, list) else value

    assert misfit({"city": "Bonn"}, Either) == "town is missing"
    assert misfit({"city": "Bonn"}, Either, declared={"city": "Rome"}) is None
    assert misfit({"days": [1, 2]}, Short) == "days must be a whole number"
    assert misfit({"days": [1, 2]}, Short, declared={"days": [1]}) is None
    assert misfit({"days": [1, 2]}, Short, declared={"days": 1}) == "days must be a whole number"


def test_several_missing_fields_and_unions_are_told() -> None:
    class Pair(BaseModel):
        first: int
        second: int

    assert misfit({}, Pair) == "first and second are missing"
    assert misfit({"first": 1}, list[Pair] | Pair) is not None
    assert misfit({"first": 1, "second": 2}, list[Pair] | Pair) is None
    assert misfit("x", int) == "it must be a whole number"
    assert misfit("7", int) is None


@pytest.mark.parametrize(
    "schema",
    [
        "[]", "no json", '{"type": 5}', '{"$ref": "#/nowhere"}', '{"$ref": "http://127.0.0.1:9/schema"}',
        '{"patternProperties": {"(": {}}}', '{"type": "whole"}',
    ],
)  # fmt: skip
def test_a_schema_that_can_not_be_read_refuses_nothing(schema: str) -> None:
    assert misfit_of('{"a": 1}', schema, declared=None) is None


def test_a_type_whose_schema_can_not_be_written_has_none() -> None:
    class Handle:
        pass

    class Held(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        handle: Callable[[], None] | None = None
        hidden: SkipJsonSchema[Handle | None] = None

    assert schema_of(None) is None
    assert schema_of(TypeAdapter(Held)) is None
    long: Any = Literal[tuple(f"word-{number:06}" for number in range(SCHEMA_CHARS_MAX // 12))]
    assert schema_of(TypeAdapter(long)) is None
