"""Test that each text is either refused or evaluated, within a short time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from shardclock_server.feel import AssertionFailed, NotFeel, TooLong, compile_expression
from shardclock_server.feel.budget import TIME_S
from shardclock_server.feel.functions import FUNCTION_NAMES
from tests.support.feel import evaluate_within_the_time

VARIABLES = {"x": 5, "s": "paid", "l": [1, 2, None, "a"], "c": {"a": 1, "x": [True]}, "n": None}
PIECES = [
    "1", "0", "2.5", "1e6000", "-", "+", "*", "/", "**", "=", "!=", "<", "<=", ">", ">=", "(", ")", "[", "]", "{",
    "}", "..", ",", ":", ".", "@", '"a"', '"P1D"', '@"P1Y"', '@"PT1H"', '@"2026-01-31"', '@"08:00:00@Europe/Paris"',
    '@"2026-01-31T08:00:00Z"', "true", "false", "null", "if", "then", "else", "for", "in", "return", "some", "every",
    "satisfies", "and", "or", "between", "instance", "of", "number", "function", "x", "s", "l", "c", "n", "item",
    "partial", "not", *sorted(FUNCTION_NAMES),
]  # fmt: skip
OPERATORS = ["+", "-", "*", "/", "**", "=", "!=", "<", ">=", "and", "or", "in >"]
FORMS = [
    *(f"({{0}}) {operator} ({{1}})" for operator in OPERATORS),
    "-({0})", "if {0} then {1} else {2}", "[{0}, {1}, {2}]", "[({0})..({1})]", "(({0})..({1}))", "(>= ({0}))",
    "({0}) in [{1}, {2}]", "({0}) in (({1}), ({2}))", "({0}) between ({1}) and ({2})", "({0})[{1}]", "({0}).a",
    "{{a: {0}, b: {1}}}", "for i in {0} return {1}", "for i in ({0})..({1}) return {2}",
    "some i in {0} satisfies {1}", "({0}) instance of list<number>", "(function(x, y) {0})({1}, {2})",
    *(f"{name}({', '.join(['{0}', '{1}', '{2}'][:count])})" for name in sorted(FUNCTION_NAMES) for count in (1, 2, 3)),
]  # fmt: skip
LEAVES = [
    "1", "0", "-3", "2.5", "1e6000", "1e-6000", '"a"', '""', '"2026-01-31"', '"(a+)+"', '@"P1Y"', '@"-PT1H"',
    '@"2026-01-31"', '@"-0001-01-01"', '@"999999999-12-31T23:59:59"', '@"08:00:00@Europe/Paris"', '@"24:00:00Z"',
    '@"2026-03-29T02:30:00@Europe/Paris"', "true", "null", "x", "s", "l", "c", "n", "item", "partial", "i", "abs",
    "[]", "{}", "[1..3]", "(> 5)", "(!= 1)", "function(a) a", "now()",
]  # fmt: skip


def expressions() -> st.SearchStrategy[str]:
    """Draw expressions with nested forms and functions of all kinds."""
    return st.recursive(
        st.sampled_from(LEAVES),
        lambda inner: st.builds(lambda form, *parts: form.format(*parts), st.sampled_from(FORMS), inner, inner, inner),
        max_leaves=8,
    )


def refusal_of(text: str) -> NotFeel | None:
    """Compile and evaluate a text; return the refusal, or None if the text is evaluated."""
    try:
        expression = compile_expression(text)
    except NotFeel as refusal:
        return refusal
    try:
        evaluate_within_the_time(expression, VARIABLES)
    except (TooLong, AssertionFailed) as ended:
        assert f"more than {TIME_S:g} s" not in str(ended)  # noqa: PT017 - either outcome is right
    return None


def check(text: str) -> None:
    """Check that a text is evaluated, or refused in one line with a position in the text."""
    if refusal := refusal_of(text):
        assert 0 <= refusal.position <= len(text)
        assert "\n" not in str(refusal)


@given(st.text(max_size=60))
def test_any_text_is_refused_or_evaluated(text: str) -> None:
    check(text)


@given(st.lists(st.sampled_from(PIECES), max_size=25).map(" ".join))
@settings(max_examples=300)
def test_any_sequence_of_words_is_refused_or_evaluated(text: str) -> None:
    check(text)


@given(expressions())
@settings(max_examples=500)
def test_any_expression_is_evaluated(text: str) -> None:
    assert refusal_of(text) is None
