"""An incident of an expression names the expression's variables, and the scopes with and without these variables."""

from __future__ import annotations

import pytest

from shardclock_server.bpmn.step.signals import ActivityCompleted, VariablesSet
from shardclock_server.feel import Json
from tests.support.bpmn import Played, definition

START = '<startEvent id="s"/>'
MISSING = "(no variable 'x' in t or the process p)"
ASSERTION = "assert(x, x != null, &quot;it is needed&quot;)"
TIMER = """
<intermediateCatchEvent id="t"><timerEventDefinition><timeDuration>=x</timeDuration></timerEventDefinition>
</intermediateCatchEvent>
"""
LOOP = """
<multiInstanceLoopCharacteristics><extensionElements>
<zeebe:loopCharacteristics inputCollection="={items}" inputElement="item"/></extensionElements>{inside}
</multiInstanceLoopCharacteristics>
"""


def sentence_of(elements: str, connected: str = "s>t", **variables: Json) -> str:
    (incident,) = Played(definition(START + elements, connected=connected), variables).incidents.values()
    return incident.sentence


def extended(kind: str, inside: str, rest: str = "") -> str:
    return f'<{kind} id="t"><extensionElements>{inside}</extensionElements>{rest}</{kind}>'


CASES = {
    "condition": ('<exclusiveGateway id="t"/><endEvent id="a"/><endEvent id="b"/>', "s>t t>a[x > 1] t>b[x > 2]"),
    "no flow": ('<exclusiveGateway id="t"/><endEvent id="a"/><endEvent id="b"/>', "s>t t>a[x = 1] t>b[x = 2]"),
    "type": (extended("serviceTask", '<zeebe:taskDefinition type="=x"/>'), "s>t"),
    "retries": (extended("serviceTask", '<zeebe:taskDefinition type="t" retries="=x"/>'), "s>t"),
    "assignee": (extended("userTask", '<zeebe:assignmentDefinition assignee="=x"/>'), "s>t"),
    "called process": (extended("callActivity", '<zeebe:calledElement processId="=x"/>'), "s>t"),
    "collection": (extended("userTask", "", LOOP.format(items="x", inside="")), "s>t"),
    "time": (TIMER, "s>t"),
    "assertion": (extended("serviceTask", f'<zeebe:taskDefinition type="={ASSERTION}"/>'), "s>t"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_variable_that_no_scope_has_is_named_with_the_scopes_that_were_searched(case: str) -> None:
    assert MISSING in sentence_of(*CASES[case])


@pytest.mark.parametrize(
    ("value", "kind"),
    [(None, "null"), ([1], "a list"), ({"a": 1}, "a context"), (True, "true or false")],
)
@pytest.mark.parametrize("case", ["type", "retries", "assignee", "time", "called process"])
def test_a_variable_of_a_wrong_type_is_named_with_its_scope(case: str, value: Json, kind: str) -> None:
    assert f"(the variable 'x' of the process p is {kind})" in sentence_of(*CASES[case], x=value)


def test_an_unusable_text_or_number_is_named_too() -> None:
    assert "(the variable 'x' of the process p is a text)" in sentence_of(*CASES["time"], x="soon")
    assert "(the variable 'x' of the process p is a number)" in sentence_of(*CASES["collection"], x=3)
    assert "(the variable 'x' of the process p is a text)" in sentence_of(*CASES["condition"], x="3")


def test_the_nearest_scope_that_has_the_variable_is_named() -> None:
    mapping = '<zeebe:ioMapping><zeebe:input source="=[x]" target="x"/></zeebe:ioMapping>'
    own = extended("serviceTask", f'<zeebe:taskDefinition type="=x"/>{mapping}')
    assert "(the variable 'x' of t is a list)" in sentence_of(own, x="y")
    inner = extended("serviceTask", '<zeebe:taskDefinition type="=x"/>')
    inside = f'<startEvent id="i"/>{inner}<sequenceFlow id="f" sourceRef="i" targetRef="t"/>'
    sub = f'<subProcess id="sub"><extensionElements>{{}}</extensionElements>{inside}</subProcess>'
    assert "(the variable 'x' of sub is a list)" in sentence_of(sub.format(mapping), "s>sub", x="y")
    assert "(no variable 'x' in t, sub or the process p)" in sentence_of(sub.format(""), "s>sub")


def test_an_execution_of_a_loop_is_named_by_its_number() -> None:
    loop = LOOP.format(items="[1, 2]", inside="<completionCondition>=item + x</completionCondition>")
    played = Played(
        definition(START + extended("serviceTask", '<zeebe:taskDefinition type="t"/>', loop), connected="s>t"), {}
    )
    token, _ = list(played.open)[1]
    played.send(ActivityCompleted(token, {}))
    (incident,) = played.incidents.values()
    assert "no variable 'x' in execution 2 of t, t or the process p" in incident.sentence
    assert "the variable 'item' of execution 2 of t is a number" in incident.sentence


def test_missing_and_null_variables_are_named_first() -> None:
    task = extended("serviceTask", '<zeebe:taskDefinition type="=[a, b, c, x, y]"/>')
    told = "(no variable 'x' in t or the process p, the variable 'c' of the process p is null, the variable 'a' of the"
    assert f"{told} process p is a number, and 2 more)" in sentence_of(task, a=1, b=1, c=None, y=1)


def test_an_expression_without_variables_names_none() -> None:
    assert "variable '" not in sentence_of(extended("serviceTask", '<zeebe:taskDefinition type="=null"/>'))


def test_setting_the_named_variable_in_the_named_scope_lets_the_token_continue() -> None:
    played = Played(definition(START + CASES["type"][0], connected="s>t"), {})
    assert MISSING in next(iter(played.incidents.values())).sentence
    played.send(VariablesSet(1, {"x": "pack"}))
    assert played.retry()
    assert played.waits == ["t"]
