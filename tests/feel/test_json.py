"""Test the conversion of values from JSON and back."""

import json
import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardclock.jsonb import DEPTH_MAX
from shardclock_server.feel import FeelValue, TooLong, Unstorable, compile_expression, from_json, to_json
from shardclock_server.timers.payload import payload_of
from tests.support.feel import NOW, json_of, value_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | TEXTS | st.floats(-1e15, 1e15).filter(bool),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_a_value_from_json_is_converted_back_unchanged(value: object) -> None:
    assert to_json(from_json(value)) == value
    json.dumps(to_json(from_json(value)), allow_nan=False)


def test_a_number_with_decimals_is_read_exactly() -> None:
    assert from_json(json.loads("0.1")) == Decimal("0.1")
    assert value_of("x + y", x=0.1, y=0.2) == Decimal("0.3")
    assert json_of("x + y", x=0.1, y=0.2) == 0.3


def test_a_whole_number_is_written_without_decimals() -> None:
    assert json.dumps(json_of("x / 2", x=10)) == "5"
    assert json.dumps(json_of("2.50 * 2")) == "5"
    assert json.dumps(json_of("1e3")) == "1000"
    assert json.dumps(json_of("x", x=2**80)) == str(2**80)


def test_a_number_is_rounded_to_34_digits() -> None:
    assert value_of("x = 1234567890123456789012345678901235000000", x=1234567890123456789012345678901234999999) is True


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, object(), {1, 2}])
def test_a_value_that_json_lacks_becomes_null(value: object) -> None:
    assert from_json(value) is None


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ('@"2026-01-31"', "2026-01-31"),
        ('@"08:30:00.5+01:00"', "08:30:00.5+01:00"),
        ('@"2026-01-31T08:30:00@Europe/Paris"', "2026-01-31T08:30:00@Europe/Paris"),
        ('@"P14M"', "P1Y2M"),
        ('@"PT90M"', "PT1H30M"),
        ("[1..10)", "[1..10)"),
        ('(> @"2026-01-31")', '(> @"2026-01-31")'),
        ("(!= 1)", "(!= 1)"),
        ("function(x) x", None),
    ],
)
def test_a_kind_that_json_lacks_is_written_as_text(text: str, written: object) -> None:
    assert json_of(text) == written
    assert json_of(f"{{a: [{text}]}}") == {"a": [written]}


def test_a_value_that_is_too_deep_is_refused_in_both_directions() -> None:
    value: object = 1
    for _ in range(DEPTH_MAX):
        value = [value]

    for turn in (from_json, to_json):
        with pytest.raises(TooLong, match="a value is nested deeper than 100 levels; flatten it"):
            turn(value)
    # The object that contains all variables adds one level.
    payload_of({"x": to_json(from_json(value[0]))})  # type: ignore[index]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("a\0", "a NUL"),
        ([{"a\0": 1}], "a NUL"),
        ("\ud800", "half of a surrogate"),
        ({"\udfff": 1}, "half of a surrogate"),
    ],
)
def test_a_text_that_postgres_refuses_is_refused(value: FeelValue, why: str) -> None:
    with pytest.raises(Unstorable, match=f"contains {why}"):
        to_json(value)


def test_a_text_that_looks_like_a_date_is_not_converted() -> None:
    assert value_of('x instance of string and date(x) = @"2026-01-31"', x="2026-01-31") is True


@pytest.mark.parametrize("text", ["for i in 1..20000 return big", "{a: big, b: big, c: big}", "[[big, big], [big]]"])
def test_a_repeated_text_is_added_to_the_size_once_per_occurrence(text: str) -> None:
    value = compile_expression(text).evaluate({"big": "x" * 400_000}, now=NOW)
    with pytest.raises(TooLong, match="a value has more than 1,048,576 characters of text; return a smaller value"):
        to_json(value)


def test_long_names_of_a_context_count_as_text() -> None:
    with pytest.raises(TooLong, match="more than 1,048,576 characters of text"):
        to_json([{"x" * 400_000: 1}] * 3)
