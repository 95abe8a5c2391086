"""Test that an outline refuses only values of the wrong form, and accepts each value that its type accepts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Json,
    OnErrorOmit,
    RootModel,
    SecretStr,
    StringConstraints,
    Tag,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from typing_extensions import TypeAliasType, TypedDict

from shardclock.outline import OUTLINE_BYTES_MAX, misfit_of, outline_of


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1


class Loose(Enum):
    RED = "red"

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return cls.RED if str(value).lower() == "red" else None


class Nested(BaseModel):
    depth: Annotated[int, Field(ge=1, le=9)] = 3


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    region: Annotated[str, Field(min_length=2, max_length=8, pattern="^[a-z]+$")]
    nested: Nested = Nested()
    share: Annotated[float, Field(gt=0, lt=1)] | None = None
    mode: Literal["fast", "safe"] = "fast"
    names: Annotated[list[str], Field(max_length=2)] = []
    is_dry: bool = False
    since: datetime | None = None
    token: str = "hunter2"  # an outline must not contain a default


class Aliased(Enum):
    RED = "red"


Aliased._value2member_map_["rot"] = Aliased.RED
Texts = TypeAliasType("Texts", list[str])


class Coercing(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)
    a: Texts
    b: Texts


class Days(RootModel[int]):
    pass


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    days: Days


class Words(RootModel[str]):
    model_config = ConfigDict(coerce_numbers_to_str=True)


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


class Named(BaseModel):
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)
    days: Annotated[int, Field(alias="maxDays")]


class Chosen(BaseModel):
    days: Annotated[int, Field(validation_alias=AliasChoices("days", "max_days"))]


class Stripped(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True, coerce_numbers_to_str=True)
    word: Annotated[str, Field(max_length=3)]


class Ahead(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")
    word: Annotated[str, Field(pattern=r"^a(?=b)")]


class Split(BaseModel):
    hosts: list[str]

    @field_validator("hosts", mode="before")
    @classmethod
    def split(cls, value: Any) -> Any:
        return value.split(",") if isinstance(value, str) else value


class Whole(BaseModel):
    hosts: list[str]

    @model_validator(mode="before")
    @classmethod
    def of_word(cls, value: Any) -> Any:
        return {"hosts": [value]} if isinstance(value, str) else value


class Checked(BaseModel):
    first: int
    last: int

    @model_validator(mode="after")
    def in_order(self) -> Checked:
        if self.first > self.last:
            raise ValueError("first is after last")
        return self


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]


@dataclass
class Plain:
    city: str
    days: int = 3
    tags: list[str] = field(default_factory=list)


class Typed(TypedDict, total=False):
    city: str


class Pair(NamedTuple):
    a: int
    b: int = 0


Called = Annotated[
    Annotated[Nested, Tag("n")] | Annotated[Plain, Tag("p")],
    Discriminator(lambda value: "p" if "city" in value else "n"),
]


class Ignoring(BaseModel):
    model_config = ConfigDict(extra="ignore")
    days: int = 1


class Allowing(BaseModel):
    model_config = ConfigDict(extra="allow")
    plain: Plain  # A dataclass without a configuration uses the configuration of the enclosing model.


class Branch(BaseModel):
    leaf: Nested | None = None
    branches: dict[str, list[Branch]] = {}


SETTINGS_FIELDS = "no such field; the fields are region, nested, share, mode, names, is_dry, since, token"


def misfit(config: Any, of: Any = Settings) -> str | None:
    outline = outline_of(TypeAdapter(of))
    return None if outline is None else misfit_of(json.dumps(config), outline)


@pytest.mark.parametrize(
    ("of", "config", "why"),
    [
        (Settings, {}, "region: Field required"),
        (Settings, [], "Input should be an object"),
        (Settings, None, "Input should be an object"),
        (Settings, {"region": 5}, "region: Input should be a valid string"),
        (Settings, {"region": "e"}, "region: String should have at least 2 characters"),
        (Settings, {"region": "EU"}, "region: String should match pattern '^[a-z]+$'"),
        (Settings, {"region": "eu", "nested": {"depth": "deep"}}, "nested.depth: Input should be a valid integer"),
        (Settings, {"region": "eu", "nested": {"depth": 10}}, "nested.depth: Input should be less than or equal to 9"),
        (Settings, {"region": "eu", "share": 1}, "share: Input should be less than 1"),
        (Settings, {"region": "eu", "mode": "slow"}, "mode: Input should be 'fast' or 'safe'"),
        (Settings, {"region": "eu", "names": ["a", {}]}, "names.1: Input should be a valid string"),
        (Settings, {"region": "eu", "names": ["a", "b", "c"]}, "names: List should have at most 2 items"),
        (Settings, {"region": "eu", "is_dry": "perhaps"}, "is_dry: Input should be a valid boolean"),
        (Settings, {"region": "eu", "since": "soon"}, "since: Input should be a valid datetime"),
        (Tree, {"name": "a", "children": [{"name": 1}]}, "children.0.name: Input should be a valid string"),
        (Named, {"days": "x"}, "days: Input should be a valid integer"),
        (Checked, {"first": 1}, "last: Field required"),
        (Plain, {"days": 1}, "city: Field required"),
        (Typed, {"city": 5}, "city: Input should be a valid string"),
        (dict[str, int], {"a": "x"}, "a: Input should be a valid integer"),
        (Cat | Dog, {"kind": "cow"}, "Cat.kind: Input should be 'cat'"),
        (RootModel[list[int]], ["x"], "0: Input should be a valid integer"),
        (int | None, "x", "Input should be a valid integer"),
        (Colour, "green", "Input should be 'red' or 'blue'"), (Colour, 5, "Input should be 'red' or 'blue'"),
        (Settings, {"regoin": "eu"}, f"region: Field required; regoin: {SETTINGS_FIELDS}"),
    ],
)  # fmt: skip
def test_an_outline_reports_an_invalid_value_without_showing_the_value(of: Any, config: Any, why: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(of).validate_json(json.dumps(config))
    said = misfit(config, of) or ""
    assert said.startswith(why)
    assert not any(value in said for value in ("deep", "slow", "perhaps", "soon"))


@pytest.mark.parametrize(
    ("of", "config", "why"),
    [
        (Settings, {"region": "eu", "regoin": 1}, f"regoin: {SETTINGS_FIELDS}"),
        (Plain, {"city": "Rome", "other": 1}, "other: no such field; the fields are city, days, tags"),
        (Typed, {"city": "Rome", "more": 1}, "more: no such field; the only field is city"),
        (Nested, {"depht": 1}, "depht: no such field; the only field is depth"),
        (Named, {"maxDays": 1, "maxdays": 2}, "maxdays: no such field; the only field is maxDays"),
        (list[Plain], [{"city": "Rome", "x": 1}], "0.x: no such field; the fields are city, days, tags"),
        (Branch, {"leaf": {"x": 1}}, "leaf.x: no such field; the only field is depth"),
        (Branch, {"branches": {"a": [{"b": 1}]}}, "branches.a.0.b: no such field; the fields are leaf, branches"),
        (Cat | Plain, {"city": "Rome", "x": 1}, "Cat.kind: Field required; Cat.lives: Field required; Cat.city: no"),
    ],
)  # fmt: skip
def test_an_unknown_field_is_refused_with_the_names_of_the_fields(of: Any, config: Any, why: str) -> None:
    assert (misfit(config, of) or "").startswith(why)


@pytest.mark.parametrize(
    ("of", "config"),
    [
        (Settings, {"region": "eu", "nested": {"depth": "5"}, "share": "0.5", "is_dry": "yes"}),
        (Settings, {"region": "eu", "nested": {"depth": 5.0}, "is_dry": 1, "since": 1_800_000_000}),
        (Settings, {"region": "eu", "names": ["a", "b"], "share": None, "since": "2026-12-01T00:00:00Z"}),
        (Tree, {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}),
        (Named, {"days": 1}), (Named, {"maxDays": 1}),
        (Chosen, {"max_days": 5}), (Chosen, {"days": 5}),
        (Stripped, {"word": " abc "}), (Stripped, {"word": 5}),
        (Ahead, {"word": "ab"}),
        (Split, {"hosts": "a,b"}), (Split, {"hosts": ["a"]}), (Whole, "all"),
        (Checked, {"first": 1, "last": 2}),
        (Plain, {"city": "Rome"}), (Typed, {}), (Typed, {"city": "Rome"}),
        (Ignoring, {"other": 1}), (Allowing, {"other": 1, "plain": {"city": "Rome", "other": 1}}),
        (Pair, {"a": 1}), (Pair, [1, 2]),
        (Cat | Dog, {"kind": "dog"}), (Called, {"depth": 2}), (Called, {"city": "Rome"}),
        (Annotated[Cat | Dog, Discriminator("kind")], {"kind": "cat", "lives": 9}),
        (set[int], [1, 1]), (frozenset[str], ["a", "a"]), (tuple[int, ...], [1, 2]),
        (Colour, "red"), (dict[Colour, int], {"blue": 1}), (Colour | int, 5),
        (Level, "1"), (Loose, "RED"), (dict[Level, int], {"1": 2}), (dict[int, int], {"1": 2}),
        (Annotated[str, StringConstraints(strip_whitespace=True, to_upper=True, max_length=3)], " abc "),
        (bytes, "éé"), (Decimal, "1.50"), (Decimal, 1.5), (UUID, "12345678-1234-5678-1234-567812345678"),
        (date, "2026-12-01"), (timedelta, "PT5M"), (timedelta, 60), (Json[list[int]], "[1]"), (SecretStr, "s"),
        (Annotated[int, BeforeValidator(len)], "abc"),
        (Annotated[float, Field(multiple_of=0.1)], 0.3), (float, "inf"), (Literal[1], 1), (Any, {"a": [None]}),
        (Aliased, "rot"), (Coercing, {"a": [1], "b": [1]}),
        (Strict, {"days": "5"}), (Words, 5), (list[OnErrorOmit[int]], ["a", 1]),
        (int | str, "x"), (RootModel[dict[str, list[int]]], {"a": [1]}),
        (dict[Annotated[str, Field(pattern="^([a-z]+)+$")], int], {"abcdefghijklmnopqrstuvwxyzabcdefghijkl": 1}),
    ],
)  # fmt: skip
def test_an_outline_accepts_each_value_that_its_type_accepts(of: Any, config: Any) -> None:
    TypeAdapter(of).validate_json(json.dumps(config))
    assert misfit(config, of) is None


def test_an_outline_is_the_same_in_each_process_and_has_no_defaults() -> None:
    class Again(BaseModel):
        name: str
        at: datetime = Field(default_factory=datetime.now)
        children: list[Again] = []

    Again.model_rebuild(_types_namespace={"Again": Again})
    first, second = outline_of(TypeAdapter(Again)), outline_of(TypeAdapter(Again))
    assert first is not None
    assert first == second
    assert str(id(Again)) not in first
    assert "hunter2" not in (outline_of(TypeAdapter(Settings)) or "")


def test_a_type_without_an_outline_refuses_nothing() -> None:
    class Held(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        handle: Callable[[], None] | None = None

    long: Any = Literal[tuple(f"word-{number:06}" for number in range(OUTLINE_BYTES_MAX // 12))]
    zero: Any = Literal["\0"]
    assert outline_of(None) is None
    assert [outline_of(TypeAdapter(it)) for it in (Any, long, zero, Whole, Ahead, bytes)] == [None] * 6
    assert misfit({"handle": 5}, Held) is None
    for unreadable in (
        "[]",
        "no json",
        '{"type": 5}',
        '{"type": "of-tomorrow"}',
        '{"type": "definition-ref", "schema_ref": "x"}',
    ):
        assert misfit_of("1", unreadable) is None
