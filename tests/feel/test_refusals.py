"""Test that a refusal names the place in the text, the rule and the remedy."""

import pytest

from shardclock_server.bpmn.model.expressions import InvalidValue, read_expression
from shardclock_server.feel import NotFeel, compile_expression
from shardclock_server.feel.functions.unsupported import UNSUPPORTED
from tests.support.feel import json_of

REFUSED = [
    # the text, the column, and the rule in the refusal
    ("1 +", 4, "the text ends where a value is expected; write a value"),
    ("", 1, "the text ends where a value is expected"),
    ("1 + * 2", 5, "'*' stands where a value is expected; write a value before it, or leave it out"),
    ("a b", 3, "'b' stands where an operator or the end is expected; write a name with spaces in backquotes"),
    ("1)", 2, "')' stands where an operator or the end is expected; leave it out"),
    ("(1", 3, "')' is missing here, after what ( begins"),
    ("[1, 2", 6, "']' is missing here, after the items of a list"),
    ("f[1", 4, "']' is missing here, after a filter"),
    ("[1..3", 6, "this range is not closed; write [1..10]"),
    ("{a: 1", 6, "'}' is missing here, after the entries of a context"),
    ("{n: foo bar(1)}", 9, "'bar' stands where an operator or '}' is expected; write a name with spaces in backquotes"),
    ("[foo bar]", 6, "'bar' stands where an operator or ']' is expected; write a name with spaces in backquotes"),
    ("sum(foo bar)", 9, "'bar' stands where an operator or ')' is expected; write a name with spaces in backquotes"),
    ("if foo bar then 1 else 2", 8, "'bar' stands where an operator or 'then' is expected; write a name with spaces"),
    ("{a 1}", 5, "':' is missing here, between a key and its value; write {key: value}"),
    ("{1: 1}", 2, "'1' stands where a name is expected; begin it with a letter"),
    ("{a: 1, a: 2}", 8, "the key 'a' is there twice; leave one out"),
    ("if a then b", 12, "'else' is missing here, since each if has one; write else null for nothing"),
    ("if a else b", 6, "'then' is missing here, after the condition of if"),
    ("for x [1] return x", 7, "'in' is missing here, after the variable of for; write for x in list"),
    ("for x in [1]", 13, "'return' is missing here, after the lists of for"),
    ("some x in [1] return x", 15, "'satisfies' is missing here, after the lists of some"),
    ("1 between 2", 12, "'and' is missing here, between the two ends of between"),
    ("1 instance 2", 12, "'of' is missing here, after instance; write x instance of number"),
    ("1 instance of int", 15, "'int' stands where a type is expected; the types are Any, Null, boolean, number"),
    ('@"2026-13-01"', 2, "'2026-13-01' after @ is not a date, time or duration; write @\"2026-01-31\""),
    ('"abc', 1, 'a string begins here and does not end; write a " after it'),
    ("1 /* abc", 3, "a comment begins here and does not end; write */ after it"),
    ("`abc", 1, "a name begins here and does not end; write a ` after it"),
    (r'"\uD800"', 1, "the escape is half of a surrogate pair; write \\U and six digits for the character"),
    ("a && b", 3, "there is no operator &; write and, or, modulo(…) or **"),
    ("a % b", 3, "there is no operator %; write and, or, modulo(…) or **"),
    ("a == b", 4, "there is no operator ==; write one = for equal"),
    ("!a", 1, "there is no operator !; write != for unequal, and not(…) for negation"),
    ("a ; b", 3, "';' has no meaning in FEEL; remove it, or put it in quotes"),
    ("? > 5", 1, "? for the tested value is not supported"),
    ("1 in not(2)", 6, "not(…) to the right of in is not supported; write not(x in …)"),
    ("a.1", 2, "'.1' stands where an operator or the end is expected"),
    ("a.+", 3, "'+' stands after a point; write the name of an entry, as in order.total"),
    ("and", 1, "'and' stands where a value is expected"),
    ("1e6145", 1, "'1e6145' is too large; numbers have exponents up to 6,144"),
    ("foo(1)", 1, "there is no function 'foo'; the page on FEEL lists all functions"),
    ("1 + summ(1)", 5, "there is no function 'summ'; did you mean sum?"),
    ("sum(1, list: 2)", 8, "some arguments have names and some have none; name all of them or none"),
    ("function(x) external {}", 13, "functions in other languages are not supported; write the function in FEEL"),
    ("{" + ",".join(f"a{i}: {i}" for i in range(1_001)) + "}", 9793, "a context has more than 1,000 entries here"),
    ("function(" + ",".join(f"a{i}" for i in range(51)) + ") 1", 203, "a function has more than 50 parameters"),
    ("for " + ",".join(f"a{i} in x" for i in range(11)) + " return 1", 94, "more than 10 lists stand in one for"),
    ("(" * 41 + "1" + ")" * 41, 41, "more than 40 expressions are nested; split it"),
    ("1" + " + 1" * 200, 1, "the expression joins more than 120 operations in a chain; split the expression"),
    ("1 instance of " + "list<" * 41 + "Any" + ">" * 41, 210, "more than 40 types are nested"),
]


@pytest.mark.parametrize(("text", "column", "rule"), REFUSED, ids=lambda part: str(part)[:30])
def test_a_refusal_names_the_place_and_the_way_out(text: str, column: int, rule: str) -> None:
    with pytest.raises(NotFeel) as refused:
        compile_expression(text)

    assert f"at column {column}: " in str(refused.value)
    assert rule in str(refused.value)
    assert str(refused.value).endswith(refused.value.rule)
    assert refused.value.position == column - 1
    assert "\n" not in str(refused.value)


def test_the_position_in_a_text_of_several_lines_includes_the_line() -> None:
    with pytest.raises(NotFeel, match="at line 3, column 5: 'b' stands where an operator or the end is expected"):
        compile_expression("1 +\n\n  a b")


def test_a_text_that_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(NotFeel, match="it has 40,000 characters; write at most 32,768"):
        compile_expression("1" * 40_000)


def test_a_long_text_is_shortened_in_its_refusal() -> None:
    with pytest.raises(NotFeel) as refused:
        compile_expression("a b" * 1_000)

    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
@pytest.mark.parametrize(
    "around",
    [
        "{}", "{{n: {}}}", "{{n: 1, m: {{k: {}}}}}", "[1, {}]", "[1][{}]", "1 + {} * 2", "-{}", "if {} then 1 else 2",
        "if a then {} else 2", "for i in 1..{} return i", "for i in [1] return {}", "some i in [1] satisfies {} > i",
        "sum(1, {})", "append(list: [], item: {})", "function(x) {}", "({})", "a in (1, {})", "[1..{}]", "a = {}",
        "a between {} and 5", "{{f: function(x) x + {}}}.f(1)", "a and {}", "{}.b",
    ],
)  # fmt: skip
def test_a_call_of_an_unsupported_function_is_refused_in_each_form(name: str, around: str) -> None:
    text = around.format(f"{name}(1)")
    with pytest.raises(NotFeel) as refused:
        compile_expression(text)
    assert refused.value.rule == UNSUPPORTED[name]
    assert refused.value.position == text.index(name)


@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
def test_a_text_may_define_a_function_with_an_unsupported_name(name: str) -> None:
    assert json_of(f"{{{name}: function(x) x + 1, r: {name}(1)}}.r") == 2
    assert json_of(f"{{{name}: 5, r: {name} + 1}}.r") == 6


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("abs(1, 2)", "abs does not take 2 arguments; write abs(n)"),
        ("1 + now(1)", "now does not take 1 argument; write now()"),
        ('if true then 1 else split("a")', "split does not take 1 argument; write split(string, delimiter)"),
        ("substring()", "write substring(string, start position) or substring(string, start position, length)"),
        ("median()", "median does not take 0 arguments; write median(list) or median(list, …)"),
        ("abs(number: 1)", "abs does not take the arguments 'number'; write abs(n)"),
        (
            "[1][round up(scale: 1)]",
            "round up does not take the arguments 'scale'; write round up(n) or round up(n, scale)",
        ),
    ],
)
def test_a_call_that_fits_no_declaration_is_refused_in_a_model(text: str, rule: str) -> None:
    expression = compile_expression(text)
    mismatch = expression.mismatch
    assert mismatch is not None
    assert mismatch.rule.endswith(rule)
    with pytest.raises(InvalidValue) as refused:
        read_expression(text)
    assert str(refused.value) == str(mismatch)


@pytest.mark.parametrize(
    "text", ["abs(1)", "sum(1, 2)", "sum([])", "{abs: function(x, y) x, r: abs(1, 2)}.r", "date(2031, 1, 31)"]
)
def test_a_call_that_may_fit_is_not_refused(text: str) -> None:
    assert compile_expression(text).mismatch is None
    assert read_expression(text).text == text


def test_the_first_of_several_unfit_calls_is_named() -> None:
    mismatch = compile_expression("[abs(), log()]").mismatch
    assert mismatch is not None
    assert mismatch.position == 1
