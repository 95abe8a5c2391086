"""The total cost of one element's expressions is limited, because a step can't be interrupted within an element."""

from __future__ import annotations

import time
from unittest.mock import Mock

import pytest

from shardclock_server.bpmn.step.signals import ActivityCompleted, Retried, VariablesSet
from shardclock_server.feel import Json
from tests.support.bpmn import Played, definition

TOGETHER = "the expressions of the element take together more than 1,000,000 steps; map less"
RETURNED = "the expressions of the element return together more than 4,194,304 characters of text; map less"
LARGE: Json = list(range(40_000))  # to read this list costs 10,000 steps


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


def test_outputs_share_a_budget_and_a_retry_starts_a_new_one() -> None:
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
    # Given three scripts in a row that together cost more than one element may
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
