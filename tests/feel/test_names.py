"""Test the scopes of names, and names with spaces."""

import pytest

from shardclock_server.feel import compile_expression
from tests.support.feel import NOW, json_of, value_of


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('amount > 100 and order.status = "paid"', {"amount", "order"}),
        ("for i in items return i + rate", {"items", "rate"}),
        ("{a: x, b: a + y}", {"x", "y"}),
        ("{a: a, b: a}", {"a"}),
        ("{f: function() b, b: 1}", {"b"}),
        ("{f: function(n) f(n), r: f(1)}", set()),
        ("function(a) a + b", {"b"}),
        ("some x in xs satisfies x = y", {"xs", "y"}),
        ("items[price > limit]", {"items", "price", "limit"}),
        ("string length(name)", {"name"}),
        ("is defined(maybe)", {"maybe"}),
        ("`a b` + 1", {"a b"}),
        ("1 + 2", set()),
    ],
)
def test_an_expression_lists_the_variables_that_it_may_read(text: str, names: set[str]) -> None:
    assert compile_expression(text).names == names


def test_a_missing_variable_is_null() -> None:
    assert value_of("nothing") is None
    assert value_of("nothing.at.all") is None
    assert value_of("nothing > 5") is None


def test_the_innermost_name_wins() -> None:
    assert json_of("for x in [1, 2] return x", x=9) == [1, 2]
    assert json_of("{x: 1, y: {x: 2, z: x}, w: x}", x=9) == {"x": 1, "y": {"x": 2, "z": 2}, "w": 1}
    assert json_of("{f: function(x) x * 2, y: f(4)}.y", x=9) == 8
    assert json_of("{x: x + 1}", x=9) == {"x": 10}
    assert json_of("[{x: 1}, {y: 1}][x = 1]", x=1) == [{"x": 1}, {"y": 1}]
    assert json_of("[{item: 1}, {item: 3}][item > 2]") == [{"item": 3}]


def test_a_function_uses_the_names_at_its_definition() -> None:
    assert json_of("{n: 1, f: function() n, g: {n: 2, h: f()}.h}.g") == 1
    assert json_of("for f in (for i in 1..3 return function() i) return f()") == [1, 2, 3]


def test_a_name_with_spaces_is_known_from_the_text_itself() -> None:
    assert json_of("{total price: 5, tax: total price * 0.2}.total price") == 5
    assert json_of("{total price: 5, tax: total price * 0.2}.tax") == 1
    assert json_of("for one item in [1, 2] return one item + 1") == [2, 3]
    assert json_of("{f: function(a value) a value + 1, r: f(a value: 2)}.r") == 3
    assert json_of("{net-price: 3, r: net-price * 2}.r") == 6


def test_a_name_with_spaces_needs_backquotes_or_the_known_names() -> None:
    variables = {"total price": 5, "total": 2, "net-price": 1}
    for text, known_names, expected in [
        ("`total price` + 1", (), 6),
        ("total price + total", ("total price",), 7),
        ("total + total price", ("total price",), 7),
        ("net-price + total", ("net-price",), 3),
        ("`net-price`", (), 1),
    ]:
        assert compile_expression(text, known_names).evaluate(variables, now=NOW) == expected


def test_a_variable_may_have_the_name_of_a_function() -> None:
    assert value_of("count + count(list)", count=1, list=[1, 2]) == 3
    assert value_of("date", date="x") == "x"
    assert json_of("{count: function(x) 7, r: count([1])}.r") == 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count = null", True),
        ("is defined(count)", False),
        ("get or else(count, 0)", 0),
        ("string(count)", None),
        ('if mode = null then "none" else mode', "none"),
        ("if count = null then 1 else count + 1", 1),
        ("{c: count, n: count([1])}", {"c": None, "n": 1}),
        ("(function(x) x)(date)", None),
        ("sum instance of function", False),
    ],
)
def test_a_functions_name_without_a_variable_is_null(text: str, expected: object) -> None:
    assert json_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{count: count(tags)}", {"count": 2}),
        ("{count: count(list: tags), more: count + 1}", {"count": 2, "more": 3}),
        ("{date: date(due)}", {"date": "2031-02-01"}),
        ("{min: min(xs), max: max(xs)}", {"min": 1, "max": 3}),
        ('{time: @"09:00:00", t: time(now())}', {"time": "09:00:00", "t": "08:00:00Z"}),
        ("{is defined: is defined(tags)}", {"is defined": True}),
        ("{a: {count: count(tags)}, count: function(x) 7}", {"a": {"count": 2}, "count": None}),
        ("for count in xs return count + count(tags)", [5, 3, 4]),
        ("(function(count) count(tags) + count)(1)", 3),
    ],
)
def test_a_name_without_a_function_does_not_hide_a_builtin_function(text: str, expected: object) -> None:
    assert json_of(text, tags=["a", "b"], xs=[3, 1, 2], due="2031-02-01", count=5) == expected


def test_a_function_of_the_text_hides_a_builtin_function() -> None:
    assert json_of("{f: function() count([1]), count: function(x) 7, r: f()}.r") == 7
    assert json_of("(function(count) count([1]))(function(x) 7)") == 7
    assert value_of("{f: 1, r: f(1)}.r") is None


def test_a_key_may_be_a_keyword_or_any_text() -> None:
    assert json_of("o.for", o={"for": 1}) == 1
    assert json_of('{"a: b": 1, "": 2}') == {"a: b": 1, "": 2}
    assert json_of("o.`a b`", o={"a b": 3}) == 3
    assert json_of("{🐎: 1}.🐎") == 1


def test_null_is_not_defined() -> None:
    assert value_of("is defined(x)", x=0) is True
    assert value_of("is defined(x)", x=None) is False
    assert value_of("is defined(x)") is False
    assert value_of("is defined(o.a)", o={"a": False}) is True
    assert value_of("is defined(o.a)", o={"a": None}) is False
    assert value_of("is defined(o.b)", o={"a": None}) is False
    assert value_of("is defined(o.b.c)", o={}) is False
    assert value_of('is defined(@"2031-01-31".month)') is True
    assert value_of("is defined(null)") is False
    assert value_of("is defined(1 + 1)") is True
    assert value_of("is defined(1 / 0)") is False
    assert value_of("is defined()") is None
