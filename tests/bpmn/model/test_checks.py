"""A model that the engine can't run is refused, with a sentence for each faulty element."""

import pytest

from shardclock_server.bpmn.model import InvalidModel, read_model
from shardclock_server.bpmn.model.reading import ID_CHARS_MAX
from tests.support.bpmn import job, model, timer
from tests.support.bpmn_parts import (
    CALLED,
    CAUGHT,
    CYCLE,
    EVENT,
    SHARED,
    START,
    TEN_MINUTES,
    TWICE,
    boundary,
    catch,
    mapping,
    started,
    sub,
)

REFUSED = [
    # Elements that the engine can't run.
    (START + '<transaction id="t"/>', "s>t", "t: transaction is not supported"),
    (START + '<complexGateway id="t"/>', "s>t", "t: complexGateway is not supported"),
    (START + '<sorcery id="t"/>', "s>t", "t: sorcery is not an element of a process"),
    (START + "<task/>", "", "a task has no id; add an id"),
    (START + '<task id="s"/>', "", "the id 's' occurs twice"),
    # Starts.
    ("", "", "p: the process has no start event; add a start event"),
    (START + '<startEvent id="r"/>', "", "p: the process has 2 start events without a trigger; at most one is allowed"),
    (f'<startEvent id="s">{TEN_MINUTES}</startEvent>', "", "s: a process can't start after a timeDuration"),
    (
        '<startEvent id="s"><errorEventDefinition/></startEvent>',
        "",
        "s: an error or an escalation can't start a process",
    ),
    (START + sub(""), "s>u", "u: the sub-process has no start events; a sub-process must have exactly one start event"),
    (
        START + sub(f'<startEvent id="i">{CYCLE}</startEvent>'),
        "s>u",
        "only in an event sub-process, not in a sub-process",
    ),
    (
        START + sub(START.replace('"s"', '"i"'), 'triggeredByEvent="true"'),
        "",
        "its start event must have a trigger",
    ),
    # Flows.
    (START, "s>t", "s-t: the flow leads to or from 't', which does not exist"),
    (START + '<task id="a"/>', "s>a a>s", "a: the flow a-s leads to a startEvent, which only an event can start"),
    (START + sub('<startEvent id="i"/>') + '<task id="a"/>', "s>u i>a", "i: the flow i-a leaves the sub-process"),
    (START + '<endEvent id="e"/><task id="a"/>', "s>e e>a", "e: the end event has an outgoing flow"),
    (START + '<parallelGateway id="g"/><task id="a"/>', "s>g g>a[x]", "g: the flow g-a has a condition"),
    (
        START + '<exclusiveGateway id="g"/><task id="a"/><task id="b"/>',
        "s>g g>a[x] g>b",
        "g: the flow g-b has no condition",
    ),
    (
        START + '<exclusiveGateway id="g" default="no"/>',
        "s>g",
        "g: the default flow 'no' does not begin at this element",
    ),
    (
        START + '<exclusiveGateway id="g" default="g-a"/><task id="a"/><task id="b"/>',
        "s>g g>a[x] g>b[y]",
        "g: the default flow g-a has a condition, which is never evaluated; remove the condition",
    ),
    (
        START + '<userTask id="g" default="g-a"/><task id="a"/><task id="b"/>',
        "s>g g>a[x] g>b[y]",
        "g: the default flow g-a has a condition",
    ),
    # Events.
    (
        START + catch(CYCLE),
        "s>t",
        "t: the event occurs once, so its timer can't be a timeCycle; use a timeDuration or a timeDate",
    ),
    (START + catch(""), "s>t", "t: the event has no trigger to catch; add a timer, a message or a signal"),
    (START + catch("<timerEventDefinition/>"), "s>t", "t: the timer has none of timeDate, timeDuration and timeCycle"),
    (
        START + catch(TEN_MINUTES.replace("</timer", "<timeCycle>R/PT1H</timeCycle></timer")),
        "s>t",
        "t: the timer has 2 of timeDate, timeDuration and timeCycle; write exactly one",
    ),
    (
        START + catch(TEN_MINUTES + TEN_MINUTES),
        "s>t",
        "t: the event has 2 event definitions; an event must have exactly one",
    ),
    (START + catch(timer("timeDuration", "2s")), "s>t", "t: '2s' is not an ISO 8601 duration"),
    (START + catch(timer("timeDate", "2026-01-31")), "s>t", "t: '2026-01-31' is not an ISO 8601 date-time"),
    (START + catch('<messageEventDefinition messageRef="m"/>'), "s>t", "t: the message has no correlation key"),
    (
        START + catch('<messageEventDefinition messageRef="no"/>'),
        "s>t",
        "t: the element refers to the message 'no', which the model",
    ),
    (START + catch("<messageEventDefinition/>"), "s>t", "t: the element refers to no message; choose one"),
    (START + catch('<signalEventDefinition signalRef="g"/>'), "s>t", "t: the signal 'g' has no name; add a name"),
    (START + catch("<conditionalEventDefinition/>"), "s>t", "t: conditional events are not supported"),
    (START + job("a") + boundary(CYCLE), "s>a", "b: an interrupting event occurs once"),
    (START + job("a") + boundary(""), "s>a", "b: the event has no trigger"),
    (START + job("a") + boundary(TEN_MINUTES, "no"), "s>a", "b: the event is attached to 'no', which is not a task"),
    (START + job("a") + boundary(TEN_MINUTES), "s>a a>b", "a: the flow a-b leads to a boundaryEvent"),
    (
        START + job("a") + boundary("<errorEventDefinition/>", "a", 'cancelActivity="false"'),
        "s>a",
        "b: an error event always interrupts",
    ),
    (
        START + '<endEvent id="e"><errorEventDefinition errorRef="x"/></endEvent>',
        "s>e",
        "e: the event throws an error without a code",
    ),
    (START + f'<endEvent id="e">{TEN_MINUTES}</endEvent>', "s>e", "e: an end event can't wait for a timer"),
    (
        START + f'<intermediateThrowEvent id="e">{TEN_MINUTES}</intermediateThrowEvent>',
        "s>e",
        "e: the event has nothing to throw",
    ),
    # Two events that catch the same trigger.
    *(
        (
            START + job("a") + boundary(event) + boundary(event).replace('"b"', '"b2"'),
            "s>a",
            f"a: the boundary events b and b2 both catch {what}; remove",
        )
        for event, what in CAUGHT
    ),
    *(
        (
            START
            + sub(started(event), EVENT)
            + sub(started(event), EVENT).replace('"u"', '"u2"').replace('"i"', '"i2"'),
            "",
            f"p: the event sub-processes u and u2 both catch {what}; remove",
        )
        for event, what in CAUGHT
    ),
    *(
        (
            f'<startEvent id="s">{event}</startEvent><startEvent id="r">{event}</startEvent>',
            "",
            f"p: the start events s and r both catch {what}; remove",
        )
        for event, what in CAUGHT
        if what.startswith(("the message", "the signal"))
    ),
    (
        START + '<eventBasedGateway id="g"/><task id="a"/>',
        "s>g g>a",
        "g: the event-based gateway has fewer than two outgoing flows",
    ),
    (
        START + '<eventBasedGateway id="g"/><task id="a"/>',
        "s>g g>a",
        "g: the flow g-a leads to a task; it must lead to",
    ),
    (
        START + '<parallelGateway id="g" default="g-a"/><task id="a"/>',
        "s>g g>a",
        "g: the element has a default flow, and the flows of a parallel",
    ),
    (
        '<startEvent id="s"><terminateEventDefinition/></startEvent>',
        "",
        "s: an error or an escalation can't start a process",
    ),
    (START.replace("/>", f">{TWICE}</startEvent>"), "", "s: the element has a loop"),
    (START + '<userTask id="b" camunda:assignee="' + "${" * 6_000 + '"/>', "", "b: a text has 12,000 characters"),
    # Tasks that lack a required part, or have an invalid one.
    (START + '<serviceTask id="a"/>', "s>a", "a: the task names no handler; set the type"),
    (START + job("a", retries="many"), "s>a", "a: the task's retries are 'many', not a number from 0 to 1,000"),
    *(
        (
            START
            + job("a").replace(
                "</extensionElements>", f"<zeebe:taskHeaders>{headers}</zeebe:taskHeaders></extensionElements>"
            ),
            "s>a",
            says,
        )
        for headers, says in (
            (2 * '<zeebe:header key="k" value="v"/>', "a: the header 'k' occurs twice; keep one"),
            ('<zeebe:header value="v"/>', "a: header has no key; write one"),
        )
    ),
    (START + '<serviceTask id="a" camunda:class="org.acme.Pay"/>', "s>a", "a: camunda:class='org.acme.Pay' is Java"),
    (
        START + '<scriptTask id="a" scriptFormat="groovy"><script>1</script></scriptTask>',
        "s>a",
        "a: the script's language is 'groovy'",
    ),
    (START + '<callActivity id="a"/>', "s>a", "a: the call activity names no process"),
    (START + '<userTask id="a" camunda:assignee="${service.find(1)}"/>', "s>a", "which only Camunda 7 supports"),
    (START + '<userTask id="a" camunda:assignee="${items[0]}"/>', "s>a", "has '[', which only Camunda 7 supports"),
    (
        START + CALLED.format('bindingType="versionTag" versionTag="v1"'),
        "s>a",
        "a: the binding is 'versionTag', and a call",
    ),
    (START + CALLED.format('bindingType="deployment"'), "s>a", "a: the binding is 'deployment', and a call"),
    (
        START + '<callActivity id="a" calledElement="x" camunda:calledElementBinding="version"/>',
        "s>a",
        "activity always calls the newest version; remove the binding",
    ),
    (START + mapping('<zeebe:output target="y"/>'), "s>a", "a: output has no source; write one"),
    (START + mapping('<zeebe:input source="=x"/>'), "s>a", "a: input has no target; write one"),
    (
        START + '<endEvent id="e"><errorEventDefinition errorRef="xx"/></endEvent>',
        "s>e",
        "e: the error's code '=code' is an expression; write the code itself",
    ),
    (
        START + '<endEvent id="e"><escalationEventDefinition escalationRef="cc"/></endEvent>',
        "s>e",
        "e: the escalation's code '${code}' is an expression; write the code itself",
    ),
    (START + '<userTask id="a" camunda:assignee="Mr ${name}"/>', "s>a", "a: 'Mr ${name}' mixes text and an expression"),
    (
        START + job("a", "<standardLoopCharacteristics/>"),
        "s>a",
        "a: a standard loop is not supported",
    ),
    (
        START + job("a", "<multiInstanceLoopCharacteristics/>"),
        "s>a",
        "a: a multi-instance loop must have either a collection or a cardinality",
    ),
]


@pytest.mark.parametrize(("elements", "connected", "says"), REFUSED)
def test_a_model_that_can_t_be_run_is_refused(elements: str, connected: str, says: str) -> None:
    with pytest.raises(InvalidModel) as refused:
        read_model(model(elements, connected=connected, beside=SHARED))
    assert says in str(refused.value)


def test_a_code_and_a_catch_all_may_be_caught_together_and_one_code_at_several_activities() -> None:
    any_error, error = "<errorEventDefinition/>", '<errorEventDefinition errorRef="e1"/>'
    again = boundary(error, "a").replace('"b"', '"b2"') + boundary(error, "u").replace('"b"', '"b3"')
    inside = sub(started(error), EVENT).replace('"u"', '"n"')
    around = sub('<startEvent id="k"/>' + inside) + boundary(any_error, "a") + again
    late = boundary(TEN_MINUTES, "a").replace('"b"', '"b4"') + boundary(TEN_MINUTES, "a").replace('"b"', '"b5"')
    assert read_model(model(START + job("a") + around + late, connected="s>a a>u", beside=SHARED))


def test_all_faults_are_reported_in_one_refusal() -> None:
    with pytest.raises(InvalidModel) as refused:
        read_model(model(START + "".join(f'<serviceTask id="a{n}"/>' for n in range(30))))
    assert len(refused.value.problems) == 30
    assert str(refused.value).endswith("and 10 more")


def test_an_invalid_expression_is_refused_at_its_element() -> None:
    with pytest.raises(InvalidModel) as refused:
        read_model(model(START + '<exclusiveGateway id="g"/><task id="a"/>', connected="s>g g>a[1 +]"))
    assert refused.value.problems[0].element_id == "g-a"


def test_a_duplicate_id_of_a_flow_is_refused() -> None:
    flow = '<sequenceFlow id="f" sourceRef="s" targetRef="a"/>'
    with pytest.raises(InvalidModel, match="the id 'f' occurs twice"):
        read_model(model(START + '<task id="a"/>' + flow + flow))


@pytest.mark.parametrize("tag", ["message", "signal", "error", "escalation", "process"])
def test_a_duplicate_id_of_an_element_outside_the_processes_is_refused(tag: str) -> None:
    twice = f'<{tag} id="twice" name="one"/><{tag} id="twice" name="two"/>'
    with pytest.raises(
        InvalidModel, match="twice: the id 'twice' occurs twice; give each element its own id"
    ) as refused:
        read_model(model(START, beside=twice))
    assert len(refused.value.problems) == 1


def test_two_processes_with_one_id_are_refused() -> None:
    one = model(START)
    with pytest.raises(InvalidModel, match="p: the id 'p' occurs twice; give each element its own id"):
        read_model(one.replace(b"</definitions>", one[one.index(b"<process") :]))


def test_too_many_flows_into_inclusive_joins_are_refused() -> None:
    gates = "".join(f'<inclusiveGateway id="g{number}"/>' for number in range(502))
    condition = "<conditionExpression>=true</conditionExpression>"
    links = "".join(
        f'<sequenceFlow id="{side}{number}" sourceRef="g{number}" targetRef="g{number + 1}">{condition}</sequenceFlow>'
        for number in range(501)
        for side in "ab"
    )
    with pytest.raises(InvalidModel, match="1,002 flows into joining inclusive gateways; at most 1,000 are allowed"):
        read_model(model(START + gates + links, connected="s>g0"))


@pytest.mark.parametrize("tag", ["process", "userTask", "sequenceFlow"])
def test_an_id_that_is_too_long_is_refused_before_all_else_and_the_longest_allowed_id_is_read(tag: str) -> None:
    def written(length: int) -> bytes:
        ids = {"process": "p", "userTask": "u", "sequenceFlow": "f"} | {tag: "x" * length}
        flow = f'<sequenceFlow id="{ids["sequenceFlow"]}" sourceRef="s" targetRef="{ids["userTask"]}"/>'
        task = f'<userTask id="{ids["userTask"]}"/>'
        return model(START + task + flow, process_id=ids["process"])

    assert read_model(written(ID_CHARS_MAX))
    with pytest.raises(InvalidModel) as refused:
        read_model(written(5_000).replace(b"<startEvent", b"<sorcery"))
    assert "of a " + tag + " has 5,000 characters; at most 200 are allowed" in str(refused.value)
    assert len(str(refused.value)) < 200
