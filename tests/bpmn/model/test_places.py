"""A name of BPMN is read only at the elements that BPMN allows; names without effect are ignored."""

import pytest

from shardclock_server.bpmn.model import InvalidModel, read_model
from shardclock_server.bpmn.model.support import Support, standard
from tests.support.bpmn import boundary, job, model, timer

START = '<startEvent id="s"/>'
TIMER = timer("timeDuration", "PT1S")
TASK = '<userTask id="a" {}>{}</userTask>'
FLOWABLE = 'xmlns:flowable="http://flowable.org/bpmn"'


def refusal(elements: str, *, connected: str = "", beside: str = "") -> str:
    with pytest.raises(InvalidModel) as refused:
        read_model(model(elements, connected=connected, beside=beside))
    (problem,) = refused.value.problems
    return str(problem)


@pytest.mark.parametrize(
    ("inside", "name"),
    [
        (TIMER, "timerEventDefinition"),
        ("<messageEventDefinition/>", "messageEventDefinition"),
        ("<signalEventDefinition/>", "signalEventDefinition"),
        ("<errorEventDefinition/>", "errorEventDefinition"),
        ("<escalationEventDefinition/>", "escalationEventDefinition"),
        ("<terminateEventDefinition/>", "terminateEventDefinition"),
        ("<conditionalEventDefinition/>", "conditionalEventDefinition"),
        ("<linkEventDefinition/>", "linkEventDefinition"),
        ("<compensateEventDefinition/>", "compensateEventDefinition"),
        ("<eventDefinitionRef>x</eventDefinitionRef>", "eventDefinitionRef"),
        ("<conditionExpression>=x</conditionExpression>", "conditionExpression"),
        ("<completionCondition>=x</completionCondition>", "completionCondition"),
        ("<loopCardinality>2</loopCardinality>", "loopCardinality"),
        ("<script>1</script>", "script"),
        ("<timeDuration>PT1S</timeDuration>", "timeDuration"),
        ("<timeDate>2031-01-31T08:00:00Z</timeDate>", "timeDate"),
        ('<serviceTask id="b"/>', "serviceTask"),
        ('<sequenceFlow id="f" sourceRef="s" targetRef="a"/>', "sequenceFlow"),
        ('<message id="m" name="x"/>', "message"),
        ("<transaction/>", "transaction"),
        ("<condition>x</condition>", "condition"),
    ],
)
@pytest.mark.parametrize("tag", ["userTask", "exclusiveGateway", "callActivity"])
def test_an_element_of_bpmn_is_refused_inside_a_wrong_element(tag: str, inside: str, name: str) -> None:
    called = 'calledElement="c"' if tag == "callActivity" else ""
    sentence = refusal(START + f'<{tag} id="a" {called}>{inside}</{tag}>', connected="s>a")
    assert (
        sentence == f"a: {name} is not supported at {tag}; move it to an element where BPMN 2.0 allows it, or remove it"
    )


@pytest.mark.parametrize("inside", [TIMER, "<signalEventDefinition/>", "<conditionalEventDefinition/>"])
@pytest.mark.parametrize("attributes", ["", 'triggeredByEvent="true"'])
def test_an_event_definition_directly_in_a_sub_process_is_refused(inside: str, attributes: str) -> None:
    inner = f'<startEvent id="i">{TIMER if attributes else ""}</startEvent>'
    sentence = refusal(START + f'<subProcess id="a" {attributes}>{inner}{inside}</subProcess>')
    assert sentence.startswith("a: ")
    assert "EventDefinition is not supported at subProcess" in sentence


@pytest.mark.parametrize("inside", ["<timeDuration>PT1S</timeDuration>", "<script>1</script>"])
def test_a_name_next_to_an_event_definition_or_in_a_wrong_definition_is_refused(inside: str) -> None:
    beside = '<message id="m" name="x"><extensionElements><zeebe:subscription correlationKey="=k"/></extensionElements>'
    for event in (
        f'<messageEventDefinition messageRef="m"/>{inside}',
        f'<messageEventDefinition messageRef="m">{inside}</messageEventDefinition>',
    ):
        catch = f'<intermediateCatchEvent id="a">{event}</intermediateCatchEvent>'
        assert "is not supported at" in refusal(START + catch, connected="s>a", beside=f"{beside}</message>")


@pytest.mark.parametrize(
    ("element", "name"),
    [
        *(
            (TASK.format(f'{name}="{value}"', ""), name)
            for name, value in {
                "scriptFormat": "feel", "messageRef": "m", "calledElement": "c", "triggeredByEvent": "true",
                "attachedToRef": "s", "cancelActivity": "false", "isInterrupting": "false", "signalRef": "g",
                "errorRef": "x", "escalationRef": "c", "errorCode": "E", "escalationCode": "C", "sourceRef": "s",
                "targetRef": "s", "isSequential": "true", "isExecutable": "true", "language": "groovy",
            }.items()
        ),
        (f'<intermediateCatchEvent id="a" attachedToRef="s">{TIMER}</intermediateCatchEvent>', "attachedToRef"),
        (f'<intermediateCatchEvent id="a" cancelActivity="false">{TIMER}</intermediateCatchEvent>', "cancelActivity"),
        (job("b") + boundary("a", "b", TIMER).replace("cancelActivity", "isInterrupting"), "isInterrupting"),
        (
            ('<subProcess id="u" triggeredByEvent="true">'
            f'<startEvent id="a" cancelActivity="false">{TIMER}</startEvent></subProcess>'),
            "cancelActivity",
        ),
        ('<sequenceFlow id="a" sourceRef="s" targetRef="s" default="x"/>', "default"),
    ],
)  # fmt: skip
def test_an_attribute_of_bpmn_is_refused_at_a_wrong_element(element: str, name: str) -> None:
    with pytest.raises(InvalidModel) as refused:
        read_model(model(START + element))
    told = [str(problem) for problem in refused.value.problems]
    assert any(sentence.startswith(f"a: {name} is not supported at ") for sentence in told), told


@pytest.mark.parametrize("name", ["isForCompensation", "startQuantity", "id2"])
def test_an_attribute_of_bpmn_with_a_prefix_is_refused(name: str) -> None:
    task = TASK.format(f'xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" bpmn:{name}="true"', "")
    assert refusal(START + task) == (f"a: {name} has a prefix; write BPMN's own attributes without a prefix")


def test_each_element_that_is_read_declares_its_hosts() -> None:
    anywhere = {
        name
        for name, rules in standard.ELEMENTS.items()
        for rule in rules
        if rule.support == Support.READ and not rule.hosts
    }
    assert anywhere == {"extensionElements"}


@pytest.mark.parametrize("value", ["true", "false", "0", "1"])
def test_the_attribute_is_immediate_of_a_flow_is_ignored(value: str) -> None:
    flow = f'<sequenceFlow id="f" sourceRef="s" targetRef="a" isImmediate="{value}"/>'
    assert read_model(model(START + TASK.format("", "") + flow))[0].nodes["s"].outgoing


@pytest.mark.parametrize(
    ("attributes", "extensions"),
    [
        ("", "<flowable:task-candidates-type>all</flowable:task-candidates-type>"),
        ("", "<flowable:work-form-field-validation>false</flowable:work-form-field-validation>"),
        ("", '<flowable:localization locale="en" name="x"><flowable:name>d</flowable:name></flowable:localization>'),
        ("", '<flowable:translation lang="en">x</flowable:translation>'),
        ("", "<flowable:element-name>x</flowable:element-name>"),
        ("", "<flowable:historyLevel>none</flowable:historyLevel>"),
        ("", "<flowable:includeInHistory>true</flowable:includeInHistory>"),
        ("", "<flowable:jobCategory>x</flowable:jobCategory>"),
        ('flowable:asyncLeaveExclusive="true"', ""),
        ('flowable:noWaitStatesAsyncLeave="true"', ""),
        ("", "<zeebe:executionListeners/>"),
        ("", "<zeebe:taskListeners></zeebe:taskListeners>"),
        ("", "<zeebe:linkedResources/>"),
        ("", "</extensionElements><extensionElements><zeebe:properties/>"),
    ],
)  # fmt: skip
def test_a_name_without_any_effect_is_ignored(attributes: str, extensions: str) -> None:
    inside = f"<extensionElements>{extensions}</extensionElements>"
    plain = read_model(model(START + TASK.format("", "")))
    assert read_model(model(START + TASK.format(f"{FLOWABLE} {attributes}", inside))) == plain


def test_mappings_of_two_blocks_of_extensions_are_read() -> None:
    mapping = '<extensionElements><zeebe:ioMapping><zeebe:output source="=1" target="x"/></zeebe:ioMapping>'
    second = f"{mapping}</extensionElements>"
    assert read_model(model(START + job("a", second)))[0].nodes["a"].outputs
    twice = second + second
    assert "the element has 2 ioMapping elements; keep one" in refusal(START + job("a", twice))


def test_a_boundary_event_may_name_its_activity_with_a_prefix() -> None:
    event = boundary("b", "tns:a", TIMER)
    (definition,) = read_model(model(START + TASK.format("", "") + event))
    assert definition.nodes["a"].boundaries == ("b",)
    assert "b: the event is attached to 'tns:x', which is not a task" in refusal(
        START + event.replace("tns:a", "tns:x")
    )
