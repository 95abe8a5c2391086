"""Input and output mappings are read; at elements that do not evaluate mappings, they are refused."""

import pytest

from shardclock_server.bpmn.model import InvalidModel, read_model
from shardclock_server.bpmn.model.definition import CallWork, FlowNode, ScriptWork, ServiceWork, UserWork
from shardclock_server.bpmn.step.effects import TaskOpened
from shardclock_server.feel import Expression, from_json, to_json
from tests.support.bpmn import NOW, Played, definition, job, model
from tests.support.bpmn_parts import CAUGHT, CYCLE, EVENT, SHARED, START, TEN_MINUTES, boundary, catch, started, sub

FLOWABLE = 'xmlns:flowable="http://flowable.org/bpmn"'

INPUTS = (
    '<zeebe:ioMapping><zeebe:input source="=1" target="x"/></zeebe:ioMapping>',
    '<camunda:inputOutput><camunda:inputParameter name="x">1</camunda:inputParameter></camunda:inputOutput>',
)
OUTPUTS = '<zeebe:ioMapping><zeebe:output source="=1" target="x"/></zeebe:ioMapping>'
GATE = START + '<eventBasedGateway id="g"/>' + catch(TEN_MINUTES)
# Nodes that an event starts: each case has the elements, their flows, and the faulty element.
BEGUN_BY_EVENTS = [
    *((START + job("a") + boundary("{}" + event), "s>a", "b") for event, _ in CAUGHT if "m2" not in event),
    (START + job("a") + boundary("{}" + TEN_MINUTES, attributes='cancelActivity="false"'), "s>a", "b"),
    *((START + sub(started("{}" + event), EVENT), "", "i") for event, _ in CAUGHT if "m2" not in event),
    ('<startEvent id="s">{}<messageEventDefinition messageRef="m"/></startEvent>', "", "s"),
    ('<startEvent id="s">{}' + CYCLE + "</startEvent>", "", "s"),
    (GATE + '<receiveTask id="r" messageRef="m1">{}</receiveTask>', "s>g g>t g>r", "g"),
    (GATE + '<intermediateCatchEvent id="r">{}' + TEN_MINUTES + "</intermediateCatchEvent>", "s>g g>t g>r", "g"),
]


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize(("elements", "connected", "at"), BEGUN_BY_EVENTS)
def test_inputs_of_a_node_that_its_event_begins_are_refused(
    inputs: str, elements: str, connected: str, at: str
) -> None:
    def written(mappings: str) -> bytes:
        inside = f"<extensionElements>{mappings}</extensionElements>" if mappings else ""
        return model(elements.replace("{}", inside), connected=connected, beside=SHARED)

    with pytest.raises(InvalidModel) as refused:
        read_model(written(inputs))
    (problem,) = refused.value.problems
    assert problem.element_id == at
    assert "so input mappings have no effect; use output mappings" in problem.sentence
    assert read_model(written(OUTPUTS))
    assert read_model(written(""))


def test_outputs_of_an_event_that_throws_an_error_are_refused() -> None:
    event = f'<endEvent id="e"><extensionElements>{OUTPUTS}</extensionElements>{{}}</endEvent>'
    error = event.format('<errorEventDefinition errorRef="e1"/>')
    with pytest.raises(InvalidModel, match="e: the event throws an error, so output mappings have no effect"):
        read_model(model(START + error, connected="s>e", beside=SHARED))
    assert read_model(model(START + event.format(""), connected="s>e"))


def node_of(element: str) -> FlowNode:
    text = model(START + element, connected="s>a").replace(b"<definitions", f"<definitions {FLOWABLE}".encode(), 1)
    return read_model(text)[0].nodes["a"]


def sentence_of(element: str) -> str:
    with pytest.raises(InvalidModel) as refused:
        node_of(element)
    (problem,) = refused.value.problems
    return str(problem)


def with_extensions(tag: str, inside: str, attributes: str = "", rest: str = "") -> str:
    return f'<{tag} id="a" {attributes}><extensionElements>{inside}</extensionElements>{rest}</{tag}>'


def test_a_user_task_may_mix_the_words_of_both_vendors() -> None:
    zeebe = '<zeebe:assignmentDefinition assignee="ada"/><zeebe:taskSchedule followUpDate="=x"/><zeebe:formDefinition/>'
    other = 'camunda:assignee="bob" camunda:candidateGroups="sales" flowable:candidateUsers="cyd"'
    due = 'camunda:dueDate="2031-01-31T08:00:00Z" camunda:formKey="f"'
    work = node_of(with_extensions("userTask", zeebe, f"{other} {due}")).work
    assert work == UserWork("ada", "sales", "cyd", "2031-01-31T08:00:00Z", "f")


def test_a_form_has_one_reference() -> None:
    sentence = sentence_of(with_extensions("userTask", '<zeebe:formDefinition formId="f" externalReference="g"/>'))
    assert sentence == ("a: the formDefinition has more than one of formKey, formId, externalReference; keep one")


def test_mappings_of_both_vendors_are_merged_by_variable() -> None:
    zeebe = '<zeebe:ioMapping><zeebe:input source="=1" target="x.y"/></zeebe:ioMapping>'
    other = (
        '<camunda:inputOutput><camunda:inputParameter name="x">2</camunda:inputParameter><camunda:inputParameter'
        ' name="y">3</camunda:inputParameter><camunda:outputParameter name="z">4</camunda:outputParameter>'
        "</camunda:inputOutput>"
    )
    node = node_of(with_extensions("task", zeebe + other))
    assert [each.target for each in node.inputs] == [("x", "y"), ("y",)]
    assert [each.target for each in node.outputs] == [("z",)]


CALLED = '<zeebe:calledElement processId="c" {}/>'


def test_a_call_may_mix_the_words_of_both_vendors() -> None:
    passed = '<camunda:in source="order-id" target="id"/><camunda:out sourceExpression="${x}" target="y"/>'
    node = node_of(with_extensions("callActivity", CALLED.format('propagateAllChildVariables="false"') + passed))
    assert node.work == CallWork("c", passes_all_in=True, passes_all_out=False)
    assert [each.target for each in (*node.inputs, *node.outputs)] == [("id",), ("y",)]


@pytest.mark.parametrize(
    ("propagates", "attributes", "passed"),
    [
        ('propagateAllParentVariables="false"', "", '<camunda:in variables="all"/>'),
        ('propagateAllChildVariables="0"', "", '<flowable:out variables="all"/>'),
        ('propagateAllParentVariables="false"', 'flowable:inheritVariables="true"', ""),
    ],
)
def test_a_call_with_contradictory_words_about_passing_all_variables_is_refused(
    propagates: str, attributes: str, passed: str
) -> None:
    sentence = sentence_of(with_extensions("callActivity", CALLED.format(propagates) + passed, attributes))
    assert sentence.startswith("a: zeebe:calledElement passes some variables")


def test_a_binding_of_camunda_7_and_a_call_of_camunda_8_are_refused_together() -> None:
    attributes = 'camunda:calledElementBinding="deployment"'
    assert "'deployment'" in sentence_of(with_extensions("callActivity", CALLED.format(""), attributes))


def test_a_script_or_headers_of_one_vendor_may_have_the_result_or_the_topic_of_the_other_vendor() -> None:
    script = node_of(with_extensions("scriptTask", '<zeebe:script expression="=1"/>', 'camunda:resultVariable="r"'))
    assert isinstance(script.work, ScriptWork)
    assert script.work.result_name == "r"
    headers = '<zeebe:taskHeaders><zeebe:header key="k" value="v"/></zeebe:taskHeaders>'
    assert node_of(with_extensions("serviceTask", headers, 'camunda:topic="t"')).work == ServiceWork(
        "t", headers=(("k", "v"),)
    )
    both = '<zeebe:script expression="=1"/>' + headers
    assert sentence_of(with_extensions("scriptTask", both)).startswith("a: the engine runs the script itself")
    job_script = with_extensions("scriptTask", '<zeebe:taskDefinition type="t"/>', 'camunda:resultVariable="r"')
    assert sentence_of(job_script).startswith("a: the element has a taskDefinition, so a resultVariable has no effect")


def many(attributes: str, inside: str = "") -> str:
    loop = f"<multiInstanceLoopCharacteristics {attributes}>{inside}</multiInstanceLoopCharacteristics>"
    return f'<task id="a">{loop}</task>'


def test_a_loop_may_mix_the_words_of_both_vendors() -> None:
    zeebe = '<extensionElements><zeebe:loopCharacteristics inputCollection="=items"/></extensionElements>'
    loop = node_of(many('camunda:collection="others" camunda:elementVariable="item"', zeebe)).loop
    assert loop is not None
    assert loop.item_name == "item"
    assert loop.items is not None
    assert loop.items.text == "items"


@pytest.mark.parametrize(
    ("element", "names"),
    [
        ('<userTask id="a" camunda:assignee="x" flowable:assignee="y"/>', "assignee"),
        (many('camunda:collection="x" flowable:collection="y"'), "collection"),
        ('<serviceTask id="a" flowable:topic="x" camunda:topic="y"/>', "topic"),
    ],
)
def test_different_values_of_two_forks_of_camunda_7_are_refused(element: str, names: str) -> None:
    sentence = sentence_of(element)
    assert f":{names} and " in sentence
    assert "have different values; remove one of the two" in sentence
    assert node_of(element.replace('"y"', '"x"')).node_id == "a"


@pytest.mark.parametrize("name", ["order-id", "5", "order.total", "if", "a b", "true"])
def test_a_variable_of_camunda_7_is_read_by_its_name(name: str) -> None:
    node = node_of(with_extensions("callActivity", f'<camunda:in source="{name}" target="x-y"/>', 'calledElement="c"'))
    (assignment,) = node.inputs
    assert assignment.target == ("x-y",)
    loop = node_of(many(f'camunda:collection="{name}"')).loop
    assert loop is not None
    for expression in (assignment.source, loop.items):
        assert isinstance(expression, Expression)
        assert expression.names == {name}
        assert to_json(expression.evaluate({name: from_json([1])}, now=NOW)) == [1]


@pytest.mark.parametrize(
    "element",
    [
        with_extensions("callActivity", '<camunda:in source="${x}" target="y"/>', 'calledElement="c"'),
        with_extensions("callActivity", '<camunda:in source="=x" target="y"/>', 'calledElement="c"'),
        with_extensions("callActivity", '<camunda:out source="x" target="${y}"/>', 'calledElement="c"'),
        many('camunda:collection="x" camunda:elementVariable="${v}"'),
        many(
            "",
            '<extensionElements><zeebe:loopCharacteristics inputElement="=v" inputCollection="=x"/>'
            "</extensionElements>",
        ),
        many(
            "",
            '<extensionElements><zeebe:loopCharacteristics inputCollection="=x" outputElement="=v"'
            ' outputCollection="=o"/></extensionElements>',
        ),
        with_extensions("scriptTask", '<zeebe:script expression="=1" resultVariable="=r"/>'),
        with_extensions("scriptTask", '<zeebe:script expression="=1"/>', 'camunda:resultVariable="${r}"'),
        with_extensions("task", '<zeebe:ioMapping><zeebe:input source="=1" target="=x"/></zeebe:ioMapping>'),
        with_extensions(
            "task",
            '<camunda:inputOutput><camunda:inputParameter name="#{x}">1</camunda:inputParameter></camunda:inputOutput>',
        ),
    ],
)
def test_an_expression_instead_of_a_name_is_refused(element: str) -> None:
    assert "an expression; write the name of a variable" in sentence_of(element)


def test_a_source_and_a_source_expression_are_refused_together() -> None:
    both = '<camunda:in source="x" sourceExpression="${y}" target="z"/>'
    sentence = sentence_of(with_extensions("callActivity", both, 'calledElement="c"'))
    assert sentence == "a: in has a source and a sourceExpression; remove one of the two"


def test_a_parameter_without_a_value_is_null() -> None:
    empty = '<camunda:inputOutput><camunda:inputParameter name="x"/></camunda:inputOutput>'
    (assignment,) = node_of(with_extensions("task", empty)).inputs
    assert isinstance(assignment.source, Expression)
    assert assignment.source.evaluate({}, now=NOW) is None


@pytest.mark.parametrize(
    ("element", "says"),
    [
        ('<userTask id="a" camunda:dueDate="P5D"/>', "a: the task's due date: 'P5D'"),
        (with_extensions("userTask", '<zeebe:taskSchedule dueDate="tomorrow"/>'), "a: the task's due date: 'tomorrow'"),
        (many("", "<loopCardinality>many</loopCardinality>"), "a: the cardinality is 'many', not a number from 0 to"),
        (many("", "<loopCardinality>-1</loopCardinality>"), "a: the cardinality is '-1', not a number from 0 to"),
        (many("", "<loopCardinality>5001</loopCardinality>"), "a: the cardinality is '5001', not a number from 0 to"),
    ],
)
def test_an_invalid_literal_value_is_refused_at_the_deployment(element: str, says: str) -> None:
    assert sentence_of(element).startswith(says)


@pytest.mark.parametrize("key", ["${x}", "=x"])
def test_a_forms_key_may_be_an_expression(key: str) -> None:
    for task in (
        f'<userTask id="a" camunda:formKey="{key}"/>',
        with_extensions("userTask", f'<zeebe:formDefinition formId="{key}"/>'),
    ):
        played = Played(definition(START + task, connected="s>a"), {"x": "form-1"})
        opened = played.open[played.token("a"), "a"]
        assert isinstance(opened, TaskOpened)
        assert opened.form_key == "form-1"
