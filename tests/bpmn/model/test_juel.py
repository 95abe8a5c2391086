"""Expressions of Camunda 7 follow EL 3.0; the refusal of an expression names its unsupported operator."""

from datetime import UTC, datetime

import pytest

from shardclock_server.bpmn.model.expressions import InvalidValue, read_text
from shardclock_server.feel import AssertionFailed, Json, from_json, to_json

NOW = datetime(2031, 1, 31, 8, tzinfo=UTC)
VARIABLES: dict[str, Json] = {
    "yes": True, "no": False, "nil": None, "one": 1, "five": 5, "text": "abc", "blank": "", "true_text": "True",
    "false_text": "off", "list": [1], "none": [], "map": {"in": 7, "and": 8, "x": {"y": "z"}}, "void": {}, "x": 3,
    "y": 4, "five_text": "5", "float_text": "2.5", "number": 7, "string": "9", "assert": 1, "zero": 0, "loopCounter": 1,
    "numberOfInstances": 4, "numberOfCompletedInstances": 3,
}  # fmt: skip


def value(text: str) -> Json:
    expression = read_text(text)
    assert not isinstance(expression, str)
    return to_json(expression.evaluate({key: from_json(it) for key, it in VARIABLES.items()}, now=NOW))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${yes and (no or yes)}", True),
        ("${yes and (no or nil)}", False),
        ("${yes && (no || yes)}", True),
        ("#{no or yes and no}", False),
        ("${(no or yes) and yes}", True),
        ("${no and yes or yes}", True),
        ("${yes or yes and no}", True),
        ("${!yes && yes}", False),
        ("${!no && yes}", True),
        ("${not no and yes}", True),
        ("${!(yes and no)}", True),
        ("${!!yes}", True),
        ("${not not no}", False),
        ("${!yes == no}", True),
        # Null, and a missing variable, are false.
        ("${nil or yes}", True),
        ("${nil and yes}", False),
        ("${!nil}", True),
        ("${!missing && yes}", True),
        ("${missing or missing.part}", False),
        # A text is true if it is "true".
        ("${true_text and yes}", True),
        ("${!false_text}", True),
        ("${text or no}", False),
        ("${'true' and true}", True),
        # A comparison with null is false if it is an operand of `and`, `or` or `not`.
        ("${nil > 1 or no}", False),
        ("${!(nil > 1)}", True),
        ("${nil <= nil and yes}", True),
        ("${nil <= 1 or no}", False),
        ("${one < five && five <= 5}", True),
        ("${one lt five and five ge 5 and one ne five and one eq 1}", True),
        ("${one == 1 or nil.part}", True),
        ("${five > 2 and x == 3 and y == 4}", True),
        ("${x < y and y > x}", True),
        # The operator `empty`.
        ("${empty nil}", True),
        ("${empty missing}", True),
        ("${empty blank}", True),
        ("${empty none}", True),
        ("${empty void}", True),
        ("${empty text}", False),
        ("${empty list}", False),
        ("${empty map}", False),
        ("${empty five}", False),
        ("${empty no}", False),
        ("${not empty list and !empty text}", True),
        ("${!empty missing or yes}", True),
        ("${empty none == true}", True),
        # Paths, literals, arithmetic.
        ("${map.x.y == 'z'}", True),
        ("${map.in == 7 && map.and == 8}", True),
        ("${'it\\'s' == \"it's\"}", True),
        ("${'a\"b\\\\' == 'a\"b\\\\'}", True),
        ("${text == 'abc' and text != \"x\"}", True),
        ("${null == nil}", True),
        ("${1 + 2 * 3 - -1}", 8),
        ("${(1 + 2) * 3}", 9),
        ("${7 div 2}", 3.5),
        ("${5 - 2 - 1}", 2),
        ("${-five + 1 < 0 and yes}", True),
        ("${1e2 + .5}", 100.5),
        ("${nrOfCompletedInstances/nrOfInstances >= 0.5}", True),
        ("${text}", "abc"),
        ("${ list }", [1]),
        # Outside of logic a comparison with null is null, as in FEEL.
        ("${nil > 1}", None),
        ("${text > 1}", None),
        ("${text > 1 and yes}", None),
        ("${five and yes}", None),
    ],
)
def test_logic_follows_el(text: str, expected: Json) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Null, a missing variable and an empty text are 0; any other text counts as the number that it contains.
        ("${nil + 1 == 1}", True),
        ("${nil + 1 != 1}", False),
        ("${!(nil + 1 == 1)}", False),
        ("${nil * 2 == 0 || no}", True),
        ("${-nil == 0}", True),
        ("${nil - nil == 0}", True),
        ("${missing + 1 == 1}", True),
        ("${map.missing.part + 1}", 1),
        ("${blank + 1 == 1}", True),
        ("${nil / 5 == 0}", True),
        ("${five_text + 1 == 6}", True),
        ("${five_text + 1 != 6}", False),
        ("${five_text - five_text == 0}", True),
        ("${five_text * float_text == 12.5 and yes}", True),
        ("${!(five_text + 1 != 6)}", True),
        ("${five_text + five_text}", 10),
        ("${-five_text}", -5),
        ("${- -five_text - nil}", 5),
        ("${five_text / 2 > 2}", True),
        ("${'5' + '6'}", 11),
        ("${(five_text + 1) * (nil + 2)}", 12),
        ("${5 - (2 - 1)}", 4),
        ("${10 / 2 / 5}", 1),
        ("${2 * (1 + 1) / 4}", 1),
        ("${number + string + assert}", 17),
        ("${x - y + five_text}", 4),
        ("${1. + 1.e1}", 11),
        ("${1.}", 1),
        # The first execution of a multi-instance activity has the number 0.
        ("${loopCounter == 0}", True),
        ("${loopCounter + 1}", 1),
        ("${loopCounter}", 0),
    ],
)
def test_arithmetic_follows_el(text: str, expected: Json) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ("${text + 1 == 1}", "abc"),
        ("${text + 1 != 1}", "abc"),
        ("${!(1 - text == 1)}", "abc"),
        ("${no or -text == 1}", "abc"),
        ("${yes + 1 == 2}", "true"),
        ("${list * 2 == 2}", "[1]"),
        ("${(x < y) + 1 == 2}", "true"),
    ],
)
def test_an_operand_that_is_not_a_number_is_reported(text: str, operand: str) -> None:
    with pytest.raises(AssertionFailed) as told:
        value(text)
    assert str(told.value) == (
        f"arithmetic has the operand {operand}, which is no number; correct the variable or the model"
    )


@pytest.mark.parametrize("text", ["${five / 0 == 1}", "${five / zero != 1}", "${five / nil > 1 or no}", "${0 / 0}"])
def test_a_division_by_zero_is_reported(text: str) -> None:
    with pytest.raises(AssertionFailed, match="divides by 0"):
        value(text)


@pytest.mark.parametrize("text", ["${text > 1}", "#{five and yes}", "${ loopCounter + 1 }"])
def test_an_incident_quotes_an_expression_as_the_model_writes_it(text: str) -> None:
    expression = read_text(text)
    assert not isinstance(expression, str)
    assert expression.shown == text


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("${a ? b : c}", "'?'"),
        ("${s.find(1)}", "'s.find('"),
        ("${find()}", "'find('"),
        ("${a[0]}", "'['"),
        ("${a % 2}", "'%'"),
        ("${a mod 2}", "'%'"),
        ("${a += b}", "'+='"),
        ("${a = b}", "'='"),
        ("${a; b}", "';'"),
        ("${a -> b}", "'->'"),
        ("${a b}", "'b'"),
        ("${}", "'its end'"),
        ("${a and}", "'its end'"),
        ("${(a}", "'its end'"),
        ("${a)}", "')'"),
        ("${empty}", "'its end'"),
        ("${'abc}", '"\'"'),
        ("${" + "!" * 40 + "a}", "'more than 12 operators within each other'"),
        ("${" + "(" * 40 + "a" + ")" * 40 + "}", "'more than 12 operators within each other'"),
    ],
)
def test_an_operator_that_feel_does_not_have_is_refused_by_its_name(text: str, operator: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        read_text(text)
    assert f" has {operator}, which only Camunda 7 supports; write the expression in FEEL, after an =" in str(
        refused.value
    )


def test_the_deepest_allowed_expression_is_compiled() -> None:
    assert value("${" + "(no or !" * 5 + "yes" + ")" * 5 + "}") is False
    assert value("${" + " and ".join(["yes"] * 100) + "}") is True
