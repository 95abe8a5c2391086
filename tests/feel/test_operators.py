"""Test operators against DMN's definitions; unfit operands give null."""

import pytest

from tests.support.feel import json_of, value_of

AND = {
    ("true", "true"): True, ("true", "false"): False, ("true", "null"): None, ("true", "5"): None,
    ("false", "true"): False, ("false", "false"): False, ("false", "null"): False, ("false", "5"): False,
    ("null", "true"): None, ("null", "false"): False, ("null", "null"): None, ("5", "false"): False, ("5", "5"): None,
}  # fmt: skip
OPPOSITE = {"true": "false", "false": "true"}


@pytest.mark.parametrize(("operands", "answer"), AND.items())
def test_logic_has_three_values(operands: tuple[str, str], answer: bool | None) -> None:
    left, right = operands
    other_left, other_right = OPPOSITE.get(left, left), OPPOSITE.get(right, right)

    assert value_of(f"{left} and {right}") is answer
    assert value_of(f"{left} and {right} and true") is answer
    opposite = None if answer is None else not answer
    assert value_of(f"{other_left} or {other_right}") is opposite
    assert value_of(f"false or {other_left} or {other_right}") is opposite


def test_logic_stops_as_soon_as_its_answer_is_known() -> None:
    assert value_of("false and assert(1, false) = 1") is False
    assert value_of("true or assert(1, false) = 1") is True
    assert value_of("false and true and assert(1, false) = 1") is False


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("2 * 3 ** 2", 18),
        ("10 - 3 - 2", 5),
        ("24 / 4 / 2", 3),
        ("2 ** 3 ** 2", 64),
        ("-3 ** 2", 9),
        ("2 ** -1", 0.5),
        ("--3", 3),
        ("- -3", 3),
        ("1 - -1", 2),
        ("7 / 2", 3.5),
        ("1 / 0", None),
        ("0 ** 0", 1),
        ("(-8) ** 0.5", None),
        ("-true", None),
        ('-"a"', None),
        ('--"a"', None),
        ("true + 1", None),
        ("[1] + [2]", None),
        ("0.1 + 0.2 = 0.3", True),
        ("1 + 2 > 2 and not(1 > 2)", True),
        ("1 < 2 = true", True),
        ("1 + 1 instance of number", True),
        ("-1 instance of number", True),
    ],
)
def test_arithmetic_has_the_precedence_and_the_results_of_dmn(text: str, expected: object) -> None:
    assert json_of(text) == expected


def test_numbers_have_34_digits() -> None:
    assert str(value_of("1 / 3")) == "0.3333333333333333333333333333333333"
    assert value_of("string(2 / 3)") == "0.6666666666666666666666666666666667"
    assert value_of("string(10 ** 33 * 9 + 1)") == "9000000000000000000000000000000001"
    assert value_of("10 ** 34 + 1 = 10 ** 34") is True
    assert value_of("9999999999999999999999999999999999 + 1 = 10 ** 34") is True
    assert value_of("9999999999999999999999999999999999 * 9 = 89999999999999999999999999999999990") is True


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 = 1.0", True),
        ('1 = "1"', None),
        ('1 != "1"', None),
        ("null = null", True),
        ("1 = null", False),
        ("null != 1", True),
        ("[1, [2]] = [1, [2.0]]", True),
        ("[1, 2] = [2, 1]", False),
        ('{a: 1, b: "x"} = {b: "x", a: 1}', True),
        ("{a: 1} = {a: 1, b: 2}", False),
        ("[1] = 1", None),
        ('@"08:00:00Z" = @"09:00:00+01:00"', True),
        ('@"08:00:00" = @"08:00:00Z"', False),
        ('@"2031-01-31T09:00:00@Europe/Paris" = @"2031-01-31T08:00:00Z"', True),
        ('@"P1Y" = @"P12M"', True),
        ('@"P1Y" = @"P365D"', None),
        ("[1..2] = [1..2]", True),
        ("[1..2] = [1..2)", False),
        ("(> 1) = (> 1)", True),
        ("(function(x) x) = (function(x) x)", False),
        ("1 < 2", True),
        ('"a" < "b"', True),
        ('1 < "b"', None),
        ("true < false", None),
        ("[1] < [2]", None),
        ("null < 1", None),
        ("2 <= 2", True),
        ('@"2031-01-31" < @"2031-02-01"', True),
        ('@"2031-01-31T08:00:00" < @"2031-01-31T09:00:00Z"', None),
        ('@"PT1H" < @"P1D"', True),
        ('@"P1M" < @"P31D"', None),
        ("5 between 1 and 5", True),
        ("5 between 6 and 10", False),
        ('5 between "a" and 10', None),
        ("null between 1 and 2", None),
        ("5 between 6 and null", False),
        ("5 between null and 4", False),
        ("5 between 4 and null", None),
        ('5 between "a" and 4', False),
    ],
)
def test_only_values_of_one_kind_are_compared(text: str, expected: object) -> None:
    assert value_of(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 in [1..5]", True),
        ("5 in [1..5)", False),
        ("5 in [1..5[", False),
        ("1 in (1..5]", False),
        ("1 in ]1..5]", False),
        ("5 in > 4", True),
        ("5 in (> 4)", True),
        ("5 in (< 4, > 4)", True),
        ("5 in (1, 5)", True),
        ("5 in ([1..2], [4..6])", True),
        ("5 in [1, 5]", True),
        ("5 in [[1..2], [4..6]]", True),
        ("5 in 5", True),
        ("5 in != 5", False),
        ("5 in (= 5)", True),
        ("[5] in [[5], [6]]", True),
        ("5 in x", True),
        ("5 in y", False),
        ("null in [1..5]", None),
        ('5 in ["a".."b"]', None),
        ("5 in [1..null)", None),
        ("5 in [null..10]", None),
        ("5 in [6..null]", False),
        ("5 in (5..null]", False),
        ("5 in [null..4]", False),
        ("5 in [null..5)", False),
        ("5 in [null..null]", None),
        ('5 in (> 9, > "a")', None),
        ('5 in (> "a", > 4)', True),
        ("5 in (> 9, < null)", None),
        ("5 in (> 9, [null..4])", False),
        ("5 in (null, 6)", False),
        ("not(5 in [1..2])", True),
        ("5 in [1..2] or 5 in [4..6]", True),
        ("5 in ([1..5]) and true", True),
    ],
)
def test_in_is_true_if_one_test_is_true(text: str, expected: object) -> None:
    assert value_of(text, x=[1, 5], y=[1, 2]) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(=10) = [10..10]", False),
        ("[10..10] = (=10)", False),
        ("(=10) != [10..10]", True),
        ("(=10) = (=10)", True),
        ("(=10) = (=11)", False),
        ("[10..10] = [10..10]", True),
        ('(="a") = ["a".."a"]', False),
        ("count(distinct values([(=10), [10..10], (=10)]))", 2),
        ("string((=10))", "(= 10)"),
        ("string([10..10])", "[10..10]"),
        ("(=10).start", 10),
    ],
)
def test_a_test_for_one_value_differs_from_its_range(text: str, expected: object) -> None:
    assert value_of(text) == expected


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("null", "Null"),
        ("1", "number"),
        ('"a"', "string"),
        ("true", "boolean"),
        ('@"2031-01-31"', "date"),
        ('@"08:00:00"', "time"),
        ('@"2031-01-31T08:00:00"', "date and time"),
        ('@"P1Y"', "years and months duration"),
        ('@"P1D"', "days and time duration"),
        ("[1, null, 2]", "list; list<number>; list<Any>"),
        ("[[1]]", "list; list<list<number>>; list<list<Any>>; list<Any>"),
        ('{a: 1, b: "x"}', "context; context<a: number>; context<a: number, b: string>; context<>"),
        ("[1..2]", "range; range<number>"),
        ("function(x) x", "function; function<Any>->number"),
    ],
)
def test_a_value_is_an_instance_of_only_its_own_types(text: str, kinds: str) -> None:
    every_kind = [
        "Null",
        "number",
        "string",
        "boolean",
        "date",
        "time",
        "date and time",
        "years and months duration",
        "days and time duration",
        "list",
        "list<number>",
        "list<string>",
        "context",
        "context<a: number>",
        "context<c: number>",
        "range",
        "range<number>",
        "range<string>",
        "function",
    ]
    own = kinds.split("; ")

    assert [value_of(f"({text}) instance of {kind}") for kind in own] == [True] * len(own)
    others = [kind for kind in every_kind if kind not in own]
    assert [value_of(f"({text}) instance of {kind}") for kind in others] == [False] * len(others)
    assert value_of(f"({text}) instance of Any") is (text != "null")
