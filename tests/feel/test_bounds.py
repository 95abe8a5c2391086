"""Test that every evaluation ends: at a limit an expression is stopped soon, and the message names the limit."""

import pytest

from shardclock_server.feel import AssertionFailed, Budget, NotFeel, TooLong, compile_expression
from shardclock_server.feel.budget import LIST_ITEMS_MAX, TEXT_CHARS_MAX
from tests.support.counted_calls import calls_of
from tests.support.feel import NOW, evaluate_within_the_time, json_of, value_of

CALLS_PER_CHAR = 50  # the compilation of one character; the cases here need at most 31

DOUBLED = (
    "{a0: [1, 1], b0: [1, 1], "
    + ", ".join(f"a{i}: [a{i - 1}, a{i - 1}], b{i}: [b{i - 1}, b{i - 1}]" for i in range(1, 60))
    + ", r: %s}.r"
)
# Define a text of 90,000 characters, and evaluate an expression with it.
LONG = '{long: string join(for i in 1..9000 return "1,1,1,1,1,"), r: %s}.r'
STEPS = "takes more than 100,000 steps; loop over fewer items, or split the expression"
DEEP = "a value is nested deeper than 100 levels; flatten it"
LARGE = r"computes a number above the limit of 10\^6144"

ENDED = [
    ("for i in 1..1000000000 return i", "a list of 1,000,000,000 items; a list has at most 100,000"),
    ("for i in 1..10**30 return i", r"a list of over 10\^15 items"),
    ("some i in [1..1000000000] satisfies i < 0", "a list of 1,000,000,000 items"),
    ("for i in 1..1000, j in 1..1000 return i * j", STEPS),
    ("for i in 1..300 return for j in 1..300 return for k in 1..300 return k", STEPS),
    ("every i in 1..1000, j in 1..1000 satisfies true", STEPS),
    ("count((for i in 1..40000 return i)[item > (for j in 1..40000 return j)[1]])", STEPS),
    ("9 ** 9 ** 9 ** 9 ** 9", LARGE),
    ("2 ** (10 ** 30)", LARGE),
    ("10 ** 6144 * 10", LARGE),
    ("-(10 ** 6144) * 10", LARGE),
    ("exp(10 ** 30)", LARGE),
    ('{d: function(s, n) if n = 0 then s else d(s + s, n - 1), r: d("ab", 50)}.r', "a string has at most 1,048,576"),
    ('for i in 1..60 return if i = 1 then "abcd" else partial[-1] + partial[-1]', "a string of 2,097,152 characters"),
    (f'string join(for i in 1..2000 return "{"x" * 1000}")', "a string of 2,000,000 characters"),
    (f'replace("{"x" * 1100}", "x", "{"y" * 1000}")', "a string has at most 1,048,576"),
    ("{f: function(n) f(n + 1), r: f(1)}.r", "the expression's function calls are nested too deep"),
    ("{f: function(n) if n = 0 then 1 else f(n - 1) + f(n - 1), r: f(25)}.r", STEPS),
    (DOUBLED % "flatten(a59)", STEPS),
    (DOUBLED % "string(a59)", STEPS),
    (DOUBLED % "distinct values([a59])", STEPS),
    (DOUBLED % "a59 = b59", STEPS),
    (DOUBLED % "a59", "a value has more than 250,000 elements; return a smaller value"),
    ("{x: for i in 1..1000 return [partial[-1]], r: string(x)}.r", DEEP),
    ("for i in 1..1000 return [partial[-1]]", DEEP),
    ("for i in 1..5000 return partial", STEPS),
    ('for i in 1..9000 return matches("aaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", "(a|a)*(a|a)*(a|aa)+b")', "patterns take more"),
    (LONG % "count(for i in 1..60000 return substring(long, 2))", STEPS),
    (LONG % 'count(for i in 1..60000 return number(long, ","))', STEPS),
    (LONG % "count(for i in 1..60000 return is blank(long))", STEPS),
    (LONG % 'replace(long, "^.+$", string join(for i in 1..3000 return "$0"))', "a string of 270,000,000 characters"),
    (LONG % 'for i in 1..200 return [long.."2"]', "more than 1,048,576 characters of text"),
    (LONG % "for i in 1..200 return (!= long)", "more than 1,048,576 characters of text"),
    ('{keys: for i in 1..20000 return "k", r: for i in 1..60000 return get value({}, keys)}.r', STEPS),
    (f'matches("a", "{"a" * 1001}")', "a pattern has 1,001 characters; it has at most 1,000"),
    ("10 ** 400", "a number is above 2e[+]308, the largest number that readers of JSON support; return a smaller one"),
]


@pytest.mark.parametrize(("text", "sentence"), ENDED, ids=lambda part: part[:40])
def test_an_evaluation_ends_at_a_bound_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(TooLong, match=sentence):
        json_of(text)


QUICK = [
    '[matches("' + "a" * 60 + '!", "(a+)+$")]',
    f'replace("{"a" * 2000}", "a*?a*?a*?b", "x")',
    'matches("x", "((a{1000}){1000}){1000}")',
    "for i in 1..9000 return substring(string(i), 1e6000)",
    "modulo(1e6000, 7)",
    "date(1e6000, 1, 1)",
    '@"P1D" * 1e6000',
    '@"999999999-12-31" + @"P999999999Y"',
    "decimal(1.5, 1e6000)",
    "string(1e-6000)",
    "round up(1e-6000, 6176)",
    "partition([1, 2], 1e6000)",
    "[1, 2][1e6000]",
    f'number("{"1" * 90}e999999999")',
    "-" * 20_000 + "1",
    "not(" * 30 + "true" + ")" * 30,
    "x in (" * 35 + "1" + ")" * 35,
]


@pytest.mark.parametrize("text", QUICK, ids=lambda text: text[:40])
def test_an_expression_that_looks_costly_may_be_quick(text: str) -> None:
    assert calls_of(lambda: compile_expression(text)) <= CALLS_PER_CHAR * len(text)
    evaluate_within_the_time(compile_expression(text))


@pytest.mark.parametrize(
    "text", ["[" * 10_000, "a" + ".b" * 10_000, "1" + "+1" * 10_000, "a[1" * 5_000, '"' + "\\" * 9_999]
)
def test_a_hostile_text_is_refused_quickly(text: str) -> None:
    def refuse() -> None:
        with pytest.raises(NotFeel):
            compile_expression(text)

    assert calls_of(refuse) <= CALLS_PER_CHAR * len(text)


def test_the_caller_limits_the_steps_of_an_evaluation() -> None:
    expression = compile_expression("for i in 1..100 return i")

    assert expression.evaluate({}, now=NOW, steps_max=1_000) == list(range(1, 101))
    with pytest.raises(TooLong, match="takes more than 50 steps"):
        expression.evaluate({}, now=NOW, steps_max=50)


@pytest.mark.parametrize("call", ["mode(%s)", "distinct values(%s)", "duplicate values(%s)", "union(%s)"])
def test_numbers_with_equal_hashes_cost_no_more_than_other_numbers(call: str) -> None:
    numbers = "for i in 1..20000 return i * 2305843009213693951"

    evaluate_within_the_time(compile_expression(call % numbers))


def test_an_evaluation_ends_when_its_time_is_over() -> None:
    expression = compile_expression("for i in 1..1000 return i")

    with pytest.raises(TooLong, match=r"the expression takes more than 0 s; loop over fewer items"):
        expression.evaluate_within({}, Budget(NOW, time_s=0.0))


def test_everyday_lists_and_texts_are_far_from_the_bounds() -> None:
    assert value_of("count(for i in 1..50000 return i * 2)") == 50_000
    assert value_of("sum(for i in 1..20000 return i / 7) > 0") is True
    assert value_of('string length(string join(for i in 1..10000 return "order"))') == 50_000
    assert LIST_ITEMS_MAX == 100_000
    assert TEXT_CHARS_MAX == 1_048_576


def test_a_cached_pattern_gives_the_same_result() -> None:
    expression = compile_expression('for i in 1..100 return matches("ab12", "^[a-z]+" + string(i) + "$")')

    for _ in range(3):
        assert expression.evaluate({}, now=NOW, steps_max=3_000).count(True) == 1  # type: ignore[attr-defined]


def test_a_failed_assertion_ends_the_evaluation_with_its_sentence() -> None:
    assert value_of("assert(x, x > 0)", x=1) == 1
    with pytest.raises(AssertionFailed, match="The amount must be positive"):
        value_of('assert(x, x > 0, "The amount must be positive")', x=-1)
