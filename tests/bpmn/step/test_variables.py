"""As in Camunda 8, an expression reads the variable of the nearest scope, and a result is written to this variable."""

from __future__ import annotations

import pytest

from shardclock_server.bpmn.step.signals import ActivityCompleted, VariablesSet
from shardclock_server.feel import Json
from tests.support.bpmn import Played, definition

START = '<startEvent id="s"/>'
SUM = '<zeebe:script expression="={expression}" resultVariable="{result}"/>'


def evaluate_outputs(*mappings: str) -> str:
    written = ""
    for mapping in mappings:
        way, target, source = mapping.replace("=", " ", 1).split(" ", 2)
        written += f'<zeebe:{way}put source="={source}" target="{target}"/>'
    return f"<zeebe:ioMapping>{written}</zeebe:ioMapping>"


def task(*mappings: str, loop: str = "") -> str:
    inside = f'<zeebe:taskDefinition type="t"/>{evaluate_outputs(*mappings)}'
    return f'<serviceTask id="t"><extensionElements>{inside}</extensionElements>{loop}</serviceTask>'


def looped(attributes: str = "", more: str = "", inside: str = "") -> str:
    return (
        f"<multiInstanceLoopCharacteristics {attributes}><extensionElements>"
        f'<zeebe:loopCharacteristics inputCollection="=items" inputElement="item" {more}/></extensionElements>'
        f"{inside}</multiInstanceLoopCharacteristics>"
    )


def play(elements: str, connected: str = "s>t", **variables: Json) -> Played:
    """Run a process up to its task."""
    return Played(definition(START + elements, connected=connected), variables)


def complete_all(played: Played, *results: dict[str, Json]) -> None:
    for result in results:
        token, _ = next(iter(played.open))
        assert played.send(ActivityCompleted(token, result))


def test_a_result_with_the_name_of_an_input_is_visible_only_within_its_task() -> None:
    played = play(task("in x=x + 1"), x=1)
    assert played.complete("t", x=5, y=6)
    assert played.result.variables == {"x": 1, "y": 6}


def test_the_result_of_a_script_with_the_name_of_an_input_stays_within_the_script() -> None:
    inside = SUM.format(expression="x * 10", result="x") + evaluate_outputs("in x=x + 1")
    played = play(f'<scriptTask id="t"><extensionElements>{inside}</extensionElements></scriptTask>', x=1)
    assert played.result.variables == {"x": 1}


def test_the_input_of_a_child_is_not_returned() -> None:
    inside = f'<zeebe:calledElement processId="child"/>{evaluate_outputs("in z=1")}'
    played = play(f'<callActivity id="t"><extensionElements>{inside}</extensionElements></callActivity>')
    assert played.complete("t", z=2, y=3)
    assert played.result.variables == {"y": 3}


def test_either_all_input_mappings_are_applied_or_none() -> None:
    failing = "in ok=assert(order, order.total &gt; 0)"
    played = play(task("in n=n + 1", "in order=order", failing), n=1, order={"total": 0})
    token = next(iter(played.incidents))
    assert played.instance.tokens[token].variables == {}
    assert played.send(VariablesSet(1, {"order": {"total": 5}}))
    assert played.retry()
    assert played.instance.tokens[token].variables == {"n": 2, "order": {"total": 5}, "ok": {"total": 5}}


def test_an_input_mapping_can_read_the_results_of_earlier_mappings() -> None:
    played = play(task("in a=x + 1", "in o.b=a + 1", "in c=o.b + 1"), x=1)
    assert played.instance.tokens[played.token("t")].variables == {"a": 2, "o": {"b": 3}, "c": 4}


def test_an_input_mapping_without_a_source_is_null() -> None:
    played = play(task("in y=x").replace('source="=x" ', ""), x=1)
    assert played.instance.tokens[played.token("t")].variables == {"y": None}


def test_either_all_output_mappings_are_applied_or_none() -> None:
    played = play(task("out n=n + 1", "out ok=assert(r, r &gt; 0)"), n=1)
    assert played.complete("t", r=0)
    assert played.instance.tokens[1].variables == {"n": 1}
    assert played.send(VariablesSet(next(iter(played.incidents)), {"r": 5}))
    assert played.retry()
    assert played.result.variables == {"n": 2, "ok": 5}


def test_an_output_mapping_can_read_the_results_of_earlier_mappings() -> None:
    played = play(task("out a=r", "out b=a + 1"))
    assert played.complete("t", r=5)
    assert played.result.variables == {"a": 5, "b": 6}


def test_an_output_mapping_of_a_path_can_read_the_results_of_the_previous_mapping() -> None:
    played = play(task("out o.b=r", "out o.c=o.a + o.b"), o={"a": 1})
    assert played.complete("t", r=5)
    assert played.result.variables == {"o": {"a": 1, "b": 5, "c": 6}}


def test_an_output_mapping_of_a_path_does_not_hide_the_task_s_own_variable() -> None:
    played = play(task("in o={a: 7}", "out o.b=o.a"), o={"a": 1})
    assert played.complete("t")
    assert played.result.variables == {"o": {"a": 1, "b": 7}}


BY_SIGNAL = '<startEvent id="g">{}<signalEventDefinition signalRef="z"/></startEvent>'
NAMED = '<signal id="z" name="go"/>'


@pytest.mark.parametrize(
    ("mappings", "result"), [((), {"a": 1, "b": 2}), (("out sum=a + b", "out first=a"), {"sum": 3, "first": 1})]
)
def test_an_output_mapping_of_a_start_event_selects_from_the_event_s_variables(
    mappings: tuple[str, ...], result: dict[str, Json]
) -> None:
    extensions = f"<extensionElements>{evaluate_outputs(*mappings)}</extensionElements>" if mappings else ""
    begun = definition(BY_SIGNAL.format(extensions), beside=NAMED)
    assert Played(begun, {"a": 1, "b": 2}, start="g").result.variables == result
    assert Played(begun, {"a": 1, "b": 2}, start="g", by_node=True).result.variables == result


def test_a_start_event_s_variables_are_kept_during_an_incident_at_the_start() -> None:
    mapping = f"<extensionElements>{evaluate_outputs('out sum=assert(a, a = x) + 1')}</extensionElements>"
    played = Played(definition(BY_SIGNAL.format(mapping), beside=NAMED), {"a": 1, "b": 2}, start="g")
    assert played.send(VariablesSet(1, {"x": 1}))
    assert played.retry()
    assert played.result.variables == {"x": 1, "sum": 2}


def test_results_of_executions_are_written_to_the_process() -> None:
    played = play(task(loop=looped('isSequential="true"')), items=[1, 2])
    complete_all(played, {"approved": False}, {"approved": True})
    assert played.result.variables == {"items": [1, 2], "approved": True}


def test_a_script_sums_up_over_its_executions() -> None:
    inside = SUM.format(expression="total + item", result="total")
    loop = looped('isSequential="true"')
    script = f'<scriptTask id="t"><extensionElements>{inside}</extensionElements>{loop}</scriptTask>'
    assert play(script, items=[1, 2, 3], total=0).result.variables["total"] == 6


def test_each_execution_has_its_own_result_variable() -> None:
    loop = looped(more='outputCollection="all" outputElement="=r"')
    played = play(task(loop=loop), items=[1, 2], r=77)
    complete_all(played, {"r": 1}, {})
    assert played.result.variables == {"items": [1, 2], "r": 77, "all": [1, None]}


def test_an_execution_can_not_read_the_mappings_of_other_executions() -> None:
    loop = looped('isSequential="true"', 'outputCollection="all" outputElement="=acc"')
    played = play(task("in acc=before", "out acc=acc + item", loop=loop), items=[1, 2], before=10)
    complete_all(played, {}, {})
    assert played.result.variables["all"] == [11, 12]


@pytest.mark.parametrize("condition", ["=ok", "=ok = true", "=item = 2", "=numberOfCompletedInstances = 2"])
@pytest.mark.parametrize("sequential", ["true", "false"])
def test_a_completion_condition_can_read_the_results_of_the_just_completed_execution(
    sequential: str, condition: str
) -> None:
    inside = f"<completionCondition>{condition}</completionCondition>"
    loop = looped(f'isSequential="{sequential}"', 'outputCollection="all" outputElement="=ok"', inside)
    played = play(task(loop=loop), items=[1, 2, 3, 4])
    complete_all(played, {"ok": False}, {"ok": True})
    assert played.result.variables["all"] == [False, True, None, None]


@pytest.mark.parametrize(
    "condition", ["${nrOfCompletedInstances/nrOfInstances &gt;= 0.5}", "${nrOfActiveInstances == 2}"]
)
def test_the_completion_conditions_of_camunda_7_are_evaluated_correctly(condition: str) -> None:
    loop = looped(inside=f"<completionCondition>{condition}</completionCondition>")
    played = play(task(loop=loop), items=[1, 2, 3, 4])
    complete_all(played, {}, {})
    assert played.ended


def test_a_completion_condition_that_is_null_is_an_incident_of_its_execution() -> None:
    loop = looped(inside="<completionCondition>=enough</completionCondition>")
    played = play(task(loop=loop), items=[1, 2])
    complete_all(played, {})
    (incident,) = played.incidents.values()
    assert incident.sentence.startswith("the completion condition, 'enough', is null, and neither true nor false")


def test_after_the_completion_condition_no_execution_begins() -> None:
    inside = SUM.format(expression="total + 1", result="total")
    loop = looped(inside="<completionCondition>=total = 2</completionCondition>")
    script = f'<scriptTask id="t"><extensionElements>{inside}</extensionElements>{loop}</scriptTask>'
    played = play(script, items=[1, 2, 3, 4], total=0)
    assert played.result.variables["total"] == 2
