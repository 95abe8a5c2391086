"""An incident names the variables of its expression; the total cost of the expressions of one element is limited."""

from __future__ import annotations

import time
from unittest.mock import Mock

import pytest

from shardclock_server.bpmn.step.signals import ActivityCompleted, Retried, VariablesSet
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


def test_an_incident_also_names_an_unusable_text_or_number() -> None:
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


def test_an_incident_of_an_expression_without_variables_names_no_variable() -> None:
    assert "variable '" not in sentence_of(extended("serviceTask", '<zeebe:taskDefinition type="=null"/>'))


def test_setting_the_named_variable_in_the_named_scope_lets_the_token_continue() -> None:
    played = Played(definition(START + CASES["type"][0], connected="s>t"), {})
    assert MISSING in next(iter(played.incidents.values())).sentence
    played.send(VariablesSet(1, {"x": "pack"}))
    assert played.retry()
    assert played.waits == ["t"]


TOGETHER = "the expressions of the element take together more than 1,000,000 steps; map less"
RETURNED = "the expressions of the element return together more than 4,194,304 characters of text; map less"
LARGE: Json = list(range(40_000))  # reading this list costs an expression 10,000 steps


def puts(way: str, count: int, source: str, target: str = "x{n}") -> str:
    written = "".join(f'<zeebe:{way}put source="{source}" target="{target.format(n=n)}"/>' for n in range(count))
    return f"<zeebe:ioMapping>{written}</zeebe:ioMapping>"


def play(*mappings: str, **variables: Json) -> Played:
    tasks = "".join(
        f'<serviceTask id="t{n}"><extensionElements><zeebe:taskDefinition type="t"/>{each}</extensionElements>'
        "</serviceTask>"
        for n, each in enumerate(mappings)
    )
    between = " ".join(f"t{n}>t{n + 1}" for n in range(len(mappings) - 1))
    return Played(definition(f'<startEvent id="s"/>{tasks}', connected=f"s>t0 {between}"), variables)


def sentences(played: Played) -> list[str]:
    return [raised.sentence for raised in played.incidents.values()]


@pytest.mark.parametrize(
    ("count", "source", "sentence"),
    [
        pytest.param(90, "=count(large)", None, id="some that read much"),
        pytest.param(120, "=count(large)", TOGETHER, id="more that read much"),
        pytest.param(12, "=text", None, id="some that return much"),
        pytest.param(14, "=text", RETURNED, id="more that return much"),
        pytest.param(14, "=large", RETURNED, id="more that return many numbers"),
        pytest.param(120, "=count(for i in 1..9000 return i + i)", TOGETHER, id="more that do much"),
        pytest.param(9_000, "=1", None, id="many that do nothing"),
    ],
)
def test_the_mappings_of_one_task_share_a_budget(count: int, source: str, sentence: str | None) -> None:
    # The last mappings overwrite all values, so that the state itself stays small.
    forgotten = "".join(f'<zeebe:input source="=1" target="x{n}"/>' for n in range(count))
    mappings = puts("in", count, source).replace("</zeebe:ioMapping>", f"{forgotten}</zeebe:ioMapping>")

    played = play(mappings, large=LARGE, text="x" * 340_000)

    assert [said.startswith(sentence or "none") for said in sentences(played)] == [True] * (sentence is not None)


@pytest.mark.parametrize(("mappings", "readings"), [(0, 0), (1, 2), (10, 11)])
def test_an_element_without_an_expression_does_not_read_the_clock(
    mappings: int, readings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Mock(wraps=time.thread_time)
    monkeypatch.setattr("shardclock_server.feel.budget.time.thread_time", clock)

    play(puts("in", mappings, "=null"))

    assert clock.call_count == readings


def test_filling_a_context_part_by_part_costs_its_copies() -> None:
    played = play(puts("in", 12_000, "=1", "x.y{n}"))

    assert [said.startswith(TOGETHER) for said in sentences(played)] == [True]


def test_outputs_share_a_budget_and_a_retry_has_a_new_budget() -> None:
    # Given a task with results that cost too much to map
    played = play(puts("out", 120, "=count(large)"))
    ((token, _),) = played.open
    assert played.send(ActivityCompleted(token, {"large": LARGE}))
    assert [said.startswith(TOGETHER) for said in sentences(played)] == [True]

    # When the variable is made smaller, and the incident is resolved
    assert played.send(VariablesSet(token, {"large": [1]}))
    assert played.send(Retried(token))

    # Then the task ends
    assert played.result.variables["x119"] == 1


def test_each_element_of_a_step_has_its_own_budget() -> None:
    # Given three scripts in a row; together they cost more than the limit of one element
    script = f'<zeebe:script expression="=1" resultVariable="r"/>{puts("in", 60, "=count(large)")}'
    scripts = "".join(
        f'<scriptTask id="x{n}"><extensionElements>{script}</extensionElements></scriptTask>' for n in range(3)
    )

    played = Played(definition(f'<startEvent id="s"/>{scripts}', connected="s>x0 x0>x1 x1>x2"), {"large": LARGE})

    assert sentences(played) == []
    assert played.result.variables == {"large": LARGE, "r": 1}


def test_the_conditions_of_one_gateway_share_a_budget() -> None:
    ends = "".join(f'<endEvent id="e{n}"/>' for n in range(120))
    flows = "".join(
        f'<sequenceFlow id="f{n}" sourceRef="g" targetRef="e{n}"><conditionExpression>=count(large) = {n}'
        "</conditionExpression></sequenceFlow>"
        for n in range(120)
    )
    gateway = f'<startEvent id="s"/><exclusiveGateway id="g"/>{ends}{flows}'
    played = Played(definition(gateway, connected="s>g"), {"large": LARGE})

    assert [said.startswith(TOGETHER) for said in sentences(played)] == [True]
