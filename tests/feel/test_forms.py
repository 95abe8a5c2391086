"""Test lists, contexts, filters, loops, conditions and functions against DMN's definitions."""

import pytest

from tests.support.feel import json_of, value_of

PEOPLE = [{"name": "Ada", "age": 36}, {"name": "Bob", "age": 17}, {"name": "Cem"}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("xs[1]", 5),
        ("xs[-1]", 7),
        ("xs[0]", None),
        ("xs[4]", None),
        ("xs[n]", 6),
        ("xs[1 + 1]", 6),
        ("xs[1.0]", 5),
        ("xs[-1.0]", 7),
        ("xs[4 / 2]", 6),
        ("xs[count(xs) / 3]", 5),
        ("xs[two]", 6),
        ("n[1.0]", 2),
        ("xs[1.5]", None),
        ("xs[count(xs) / 2]", None),
        ("xs[0.0]", None),
        ("xs[10 ** 30]", None),
        ("xs[10 ** 6000]", None),
        ("xs[item > 5]", [6, 7]),
        ("xs[true]", [5, 6, 7]),
        ("xs[null]", []),
        ('xs["a"]', []),
        ("[][1]", None),
        ("[][true]", []),
        ("n[1]", 2),
        ("n[2]", None),
        ("n[item = 2]", [2]),
        ("null[1]", None),
        ("null[true]", None),
        ("people[age > 18].name", ["Ada"]),
        ("people[item.age > 18].name", ["Ada"]),
        ("people[age = null].name", ["Cem"]),
        ("people.age", [36, 17, None]),
        ("people[1].name", "Ada"),
        ("people.name[2]", "Bob"),
        ("xs[item > 5][1]", 6),
        ("[1, 2, 3][item > [2, 0][1]]", [3]),
    ],
)
def test_a_filter_selects_elements_by_position_or_condition(text: str, expected: object) -> None:
    assert json_of(text, xs=[5, 6, 7], n=2, two=2.0, people=PEOPLE) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for x in [1, 2] return x * 2", [2, 4]),
        ("for x in [1, 2], y in [3, 4] return x * y", [3, 4, 6, 8]),
        ("for x in [[1], [2, 3]], y in x return y", [1, 2, 3]),
        ("for i in 1..3 return i", [1, 2, 3]),
        ("for i in 3..1 return i", [3, 2, 1]),
        ("for i in [1..4) return i", [1, 2, 3]),
        ("for i in (1..4] return i", [2, 3, 4]),
        ("for i in [3..1] return i", None),
        ("for i in (> 1) return i", None),
        ("for i in 1.5..3 return i", None),
        ("for i in 1..(6 / 2) return i", [1, 2, 3]),
        ('for i in @"2031-01-31"..@"2031-02-01" return i', ["2031-01-31", "2031-02-01"]),
        ('for i in "a".."c" return i', None),
        ("for x in null return x", None),
        ("for x in 5 return x", [5]),
        ("for x in [] return x", []),
        ("for i in 1..4 return count(partial)", [0, 1, 2, 3]),
        ("for i in 1..3 return partial", [[], [[]], [[], [[]]]]),
        ("for i in 1..2 return for j in 1..2 return i * 10 + j", [[11, 12], [21, 22]]),
        ("some x in [1, 2] satisfies x > 1", True),
        ("some x in [1, 2] satisfies x > 2", False),
        ("some x in [1, null] satisfies x > 2", None),
        ("some x in [1, 2], y in [2, 3] satisfies x = y", True),
        ("some x in [] satisfies true", False),
        ("every x in [1, 2] satisfies x > 0", True),
        ("every x in [1, 2] satisfies x > 1", False),
        ("every x in [1, null] satisfies x > 0", None),
        ("every x in [] satisfies false", True),
        ("every x in null satisfies true", None),
    ],
)
def test_a_loop_iterates_over_lists_numbers_and_dates(text: str, expected: object) -> None:
    assert json_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if true then 1 else 2", 1),
        ("if null then 1 else 2", 2),
        ('if "yes" then 1 else 2', 2),
        ("if false then 1 else if true then 2 else 3", 2),
        ("1 + if true then 1 else 2", 2),
        ("{a: 1, b: a + 1, c: {d: b + 1}}", {"a": 1, "b": 2, "c": {"d": 3}}),
        ("{}", {}),
        ('{"a b": 1}.`a b`', 1),
        ("{a: {b: 1}}.a.b", 1),
        ("{a: 1}.b", None),
        ("5.a", None),
        ("[1, [2, []]]", [1, [2, []]]),
        ("(function(a, b) a - b)(3, 1)", 2),
        ("(function(a, b) a - b)(b: 1, a: 3)", 2),
        ("(function(a, b) a - b)(3)", None),
        ("(function(a, b) a - b)(a: 3, c: 1)", None),
        ("(function() 5)()", 5),
        ("(function(a: number) a)(1)", 1),
        ('(function(a: number) a)("x")', None),
        ("(function(a: number) a)([1])", 1),
        ("(function(a: list<number>) a)(1)", [1]),
        ("(function(a: number) a = null)(null)", True),
        ("{f: function(n) if n < 2 then 1 else n * f(n - 1), r: f(5)}.r", 120),
        ("(function(f) f(-2))(function(n) abs(n))", 2),
        ("{a: 5}.a(1)", None),
        ("1 /* one */ + // and\n 2", 3),
    ],
)
def test_each_form_has_its_value(text: str, expected: object) -> None:
    assert json_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r'"a\nb\t\"c\"\\"', 'a\nb\t"c"\\'),
        (r'"\u00e9\U01F40E\uD83D\uDC0E"', "é🐎🐎"),
        (r'"\d+\s"', r"\d+\s"),
        ('"two\nlines"', "two\nlines"),
        ('""', ""),
    ],
)
def test_escapes_are_resolved_and_other_backslashes_are_kept(text: str, expected: str) -> None:
    assert value_of(text) == expected


def test_a_value_is_never_changed() -> None:
    text = '{a: [1], b: append(a, 2), c: context put({x: a}, "x", b), d: reverse(b), e: a}'

    assert json_of(text) == {"a": [1], "b": [1, 2], "c": {"x": [1, 2]}, "d": [2, 1], "e": [1]}
    given = {"a": [3, 1, 2], "o": {"k": 1}}
    json_of('[sort(a), append(a, 4), context put(o, "k", 2), for x in a return partial]', **given)
    assert given == {"a": [3, 1, 2], "o": {"k": 1}}
