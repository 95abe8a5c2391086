"""Each attribute and element of a model takes effect, or is refused with a message that gives the reason."""

import pytest

from shardclock_server.bpmn.model import NodeKind, read_model
from shardclock_server.bpmn.model.definition import CallWork, ServiceWork, TimerKind, TimerTrigger, UserWork
from tests.support.bpmn import job, model, timer
from tests.support.bpmn_parts import CHOICE, START, choosing, refusal

FLOWABLE = 'xmlns:flowable="http://flowable.org/bpmn"'


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        (
            '<conditionExpression language="groovy" camunda:resource="check.groovy"/>',
            "f: the language of conditionExpression is 'groovy'; write the text in FEEL, after an =",
        ),
        ('<conditionExpression camunda:resource="x.feel"/>', "f: camunda:resource='x.feel' names a script file"),
        (
            '<conditionExpression language="javascript">a == 1</conditionExpression>',
            "conditionExpression is 'javascript'",
        ),
        (
            '<conditionExpression language="http://www.java.com/java">return true;</conditionExpression>',
            "conditionExpression is 'http://www.java.com/java'",
        ),
        ('<conditionExpression language="feel">${a}</conditionExpression>', "conditionExpression is 'feel'"),
        ('<conditionExpression language="juel">a</conditionExpression>', "conditionExpression is 'juel'"),
        ("<conditionExpression/>", "f: the condition is empty; write a condition, or remove the conditionExpression"),
        ("<conditionExpression> </conditionExpression>", "f: the condition is empty"),
        (
            '<extensionElements><camunda:executionListener event="take"/></extensionElements>',
            "f: executionListener is not supported",
        ),
    ],
)
def test_a_condition_in_another_language_or_file_is_refused_with_the_right_reason(condition: str, says: str) -> None:
    (sentence,) = refusal(choosing(condition))
    assert says in sentence


@pytest.mark.parametrize(
    "condition",
    [
        '<conditionExpression language="feel">=a &gt; 1</conditionExpression>',
        '<conditionExpression language="https://www.omg.org/spec/DMN/20230324/FEEL/">a = 1</conditionExpression>',
        '<conditionExpression language="juel">${a == 1}</conditionExpression>',
        "<conditionExpression>${a == 1}</conditionExpression>",
    ],
)
def test_a_condition_in_feel_or_juel_is_read(condition: str) -> None:
    (definition,) = read_model(choosing(condition))
    assert definition.nodes["g"].outgoing[0].condition is not None


def test_a_completion_condition_of_another_language_is_refused() -> None:
    loop = (
        "<multiInstanceLoopCharacteristics><loopCardinality>2</loopCardinality>"
        '<completionCondition language="groovy">done</completionCondition></multiInstanceLoopCharacteristics>'
    )
    (sentence,) = refusal(model(START + job("a", loop), connected="s>a"))
    assert sentence == "a: the language of completionCondition is 'groovy'; write the text in FEEL, after an ="


@pytest.mark.parametrize("name", ["variableMappingClass", "variableMappingDelegateExpression"])
def test_a_mapping_of_variables_in_java_is_refused(name: str) -> None:
    (sentence,) = refusal(model(START + f'<callActivity id="a" calledElement="c" camunda:{name}="x.Y"/>'))
    assert sentence == f"a: camunda:{name}='x.Y' is Java code, which is not supported; use camunda:in and camunda:out"


@pytest.mark.parametrize("tag", ["serviceTask", "userTask", "sendTask", "receiveTask", "task", "subProcess"])
def test_a_skip_expression_is_refused(tag: str) -> None:
    inside = START.replace('"s"', '"i"') if tag == "subProcess" else ""
    (sentence,) = refusal(
        model(START + f'<{tag} id="a" {FLOWABLE} flowable:skipExpression="${{true}}">{inside}</{tag}>')
    )
    rule = "is not supported; put an exclusiveGateway before the element"
    assert sentence == f"a: flowable:skipExpression='${{true}}' {rule}"


def cycle(text: str, end: str) -> bytes:
    """Write a process with a start event that has a cycle and Flowable's end date."""
    event = timer("timeCycle", text).replace("<timeCycle>", f'<timeCycle {FLOWABLE} flowable:endDate="{end}">')
    return model(f'<startEvent id="s">{event}</startEvent>')


def test_flowables_end_date_becomes_the_end_of_the_cycle() -> None:
    trigger = read_model(cycle("R10/PT2S", "2026-01-01T00:00:00Z"))[0].nodes["s"].trigger
    assert trigger == TimerTrigger(TimerKind.CYCLE, "R10/PT2S/2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("R10/2025-01-01T00:00:00Z/PT2S", "2026-01-01T00:00:00Z"),
        ("R10/PT2S/2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("0 0 9 * * ?", "2026-01-01T00:00:00Z"),
        ("R10/PT2S", "${end}"),
        ("=cycle(2)", "2026-01-01T00:00:00Z"),
    ],
)
def test_an_end_date_that_can_t_be_joined_to_the_cycle_is_refused(text: str, end: str) -> None:
    (sentence,) = refusal(cycle(text.replace("cycle(2)", "cycle(@&quot;P1D&quot;)"), end))
    assert sentence.startswith(f"s: the endDate {end!r} can't be appended to the cycle")


def test_an_invalid_end_date_is_refused() -> None:
    (sentence,) = refusal(cycle("R10/PT2S", "soon"))
    assert "'soon' is not an ISO 8601 date-time" in sentence


MESSAGES = [
    "<messageEventDefinition/>",
    '<messageEventDefinition id="d"/>',
    '<messageEventDefinition messageRef="m"/>',
    '<messageEventDefinition messageRef="nameless"/>',
]


@pytest.mark.parametrize("tag", ["endEvent", "intermediateThrowEvent"])
@pytest.mark.parametrize("event", MESSAGES)
def test_a_thrown_message_is_a_job_with_or_without_a_message_element(tag: str, event: str) -> None:
    beside = '<message id="m" name="paid"/><message id="nameless"/>'
    (definition,) = read_model(model(START + job("e", event, tag=tag), connected="s>e", beside=beside))
    node = definition.nodes["e"]
    assert (node.kind, node.work) == (NodeKind.SERVICE, ServiceWork("e"))


@pytest.mark.parametrize("tag", ["endEvent", "intermediateThrowEvent"])
def test_a_thrown_message_with_a_topic_is_also_a_job(tag: str) -> None:
    event = f'<{tag} id="e"><messageEventDefinition camunda:type="external" camunda:topic="tell"/></{tag}>'
    assert read_model(model(START + event, connected="s>e"))[0].nodes["e"].work == ServiceWork("tell")


@pytest.mark.parametrize("tag", ["endEvent", "intermediateThrowEvent"])
def test_a_thrown_message_without_a_job_or_with_a_missing_message_element_is_refused(tag: str) -> None:
    plain = f'<{tag} id="e"><messageEventDefinition/></{tag}>'
    (unnamed,) = refusal(model(START + plain, connected="s>e"))
    assert unnamed.startswith("e: the task names no handler; set the type")
    missing = job("e", '<messageEventDefinition messageRef="no"/>', tag=tag)
    (absent,) = refusal(model(START + missing, connected="s>e"))
    assert absent.startswith("e: the element refers to the message 'no', which the model does not have")


def test_a_script_task_with_a_type_is_a_job() -> None:
    (definition,) = read_model(model(START + job("a", tag="scriptTask"), connected="s>a"))
    assert definition.nodes["a"].kind == NodeKind.SERVICE


@pytest.mark.parametrize(
    ("elements", "says"),
    [
        (
            job("a", "<script>1</script>", tag="scriptTask"),
            "a: the element has a taskDefinition and a script; remove one",
        ),
        (
            '<endEvent id="a"><extensionElements><zeebe:taskHeaders/></extensionElements></endEvent>',
            "a: the event has a taskDefinition or taskHeaders, and no message",
        ),
        (
            (
                '<callActivity id="a" calledElement="c"><extensionElements><camunda:in target="x"/></extensionElements>'
                "</callActivity>"
            ),
            "a: in has no source; add a source, or write variables=all",
        ),
        (
            job(
                "a",
                "<multiInstanceLoopCharacteristics><extensionElements><zeebe:loopCharacteristics inputCollection='=x'"
                " outputElement='=y'/></extensionElements></multiInstanceLoopCharacteristics>",
            ),
            "a: a multi-instance loop has only one of outputCollection and outputElement; set both",
        ),
        (
            job(
                "a",
                "<multiInstanceLoopCharacteristics camunda:elementVariable='x'><loopCardinality>2</loopCardinality>"
                "</multiInstanceLoopCharacteristics>",
            ),
            "a: a multi-instance loop has an item variable and no collection; set both, or remove the variable",
        ),
        (
            job(
                "a",
                "<multiInstanceLoopCharacteristics><loopCardinality>2</loopCardinality><completionCondition/>"
                "</multiInstanceLoopCharacteristics>",
            ),
            "a: the completionCondition is empty; write a condition, or remove the element",
        ),
        (
            job("a").replace("<zeebe:taskDefinition", '<zeebe:taskDefinition type="x"/><zeebe:taskDefinition'),
            "a: the element has 2 taskDefinition elements; keep one",
        ),
        (
            job("a", '<extensionElements><zeebe:taskDefinition type="x"/></extensionElements>'),
            "a: the element has 2 taskDefinition elements; keep one",
        ),
        (
            (
                '<intermediateCatchEvent id="a"><messageEventDefinition messageRef="m" camunda:topic="t"/>'
                "</intermediateCatchEvent>"
            ),
            "a: a topic is set at an event that receives the message; remove the topic",
        ),
        ('<subProcess id="a" triggeredByEvent="yes"/>', "a: triggeredByEvent='yes' is neither true nor false"),
    ],
)
def test_an_incomplete_or_contradictory_element_is_refused(elements: str, says: str) -> None:
    (sentence,) = refusal(model(START + elements))
    assert sentence.startswith(says)


def test_a_flow_without_an_id_is_named_by_its_ends() -> None:
    flow = '<sequenceFlow sourceRef="g" targetRef="a"><conditionExpression language="x"/></sequenceFlow>'
    (sentence,) = refusal(model(CHOICE + flow, connected="s>g g>b"))
    assert sentence == "(g to a): the language of conditionExpression is 'x'; write the text in FEEL, after an ="


def test_flows_without_ids_are_read() -> None:
    flow = '<sequenceFlow sourceRef="{}" targetRef="{}"/>'
    wait = '<intermediateCatchEvent id="{}">' + timer("timeDuration", "PT1S") + "</intermediateCatchEvent>"
    pairs = [("s", "g"), ("g", "a"), ("g", "b"), ("a", "e"), ("b", "e"), ("a", "e")]
    elements = START + '<eventBasedGateway id="g"/>' + wait.format("a") + wait.format("b") + '<endEvent id="e"/>'
    (definition,) = read_model(model(elements + "".join(flow.format(*pair) for pair in pairs)))
    assert [each.target for each in definition.nodes["g"].outgoing] == ["a", "b"]
    assert definition.nodes["e"].incoming == ("(a to e)", "(b to e)", "(a to e) 2")
    assert read_model(model(elements + "".join(flow.format(*pair) for pair in pairs)))[0] == definition


@pytest.mark.parametrize(
    "time", ["<timeDuration>2s</timeDuration>", "<timeDuration/>", "", "<timeDate>soon</timeDate>", "<sorcery/>"]
)
@pytest.mark.parametrize("event", ['triggeredByEvent="true"', ""])
def test_an_event_that_can_t_be_read_is_reported_once(time: str, event: str) -> None:
    start = f'<startEvent id="i"><timerEventDefinition>{time}</timerEventDefinition></startEvent>'
    sentences = refusal(model(START + f'<subProcess id="u" {event}>{start}</subProcess>'))
    assert [sentence[:3] for sentence in sentences if "only in an event" not in sentence] == ["i: "]


def test_an_event_at_an_unsupported_element_is_not_reported() -> None:
    event = f'<boundaryEvent id="b" attachedToRef="x">{timer("timeDuration", "PT1S")}</boundaryEvent>'
    (sentence,) = refusal(model(START + f'<transaction id="x"/>{event}', connected="s>x"))
    assert sentence.startswith("x: transaction is not supported")


def test_an_unreadable_start_event_does_not_count_as_a_start_event_without_a_trigger() -> None:
    sentences = refusal(model(START + f'<startEvent id="r">{timer("timeDate", "soon")}</startEvent>'))
    assert [sentence[:3] for sentence in sentences] == ["r: "]


@pytest.mark.parametrize("flow", ["g>a[1 +]", "g>a[${x.y()}]"])
def test_a_flow_that_can_t_be_read_is_reported_once(flow: str) -> None:
    (sentence,) = refusal(model(CHOICE, connected=f"s>g {flow} g>b"))
    assert sentence.startswith("g-a: ")
    (default,) = refusal(model(CHOICE.replace("g-b", "g-a"), connected=f"s>g {flow} g>b[x]"))
    assert default.startswith("g-a: ")


@pytest.mark.parametrize(
    ("inside", "attributes", "named"),
    [
        ('<zeebe:calledDecision decisionId="d" resultVariable="r"/>', "", "calledDecision belongs to a decision"),
        ("", 'camunda:decisionRef="d"', "camunda:decisionRef='d' belongs to a decision"),
        ("", 'camunda:decisionRef="d" camunda:topic="x"', "camunda:decisionRef='d' belongs to a decision"),
        (
            "",
            'camunda:mapDecisionResult="singleEntry"',
            "camunda:mapDecisionResult='singleEntry' belongs to a decision",
        ),
    ],
)
def test_a_decision_in_a_business_rule_task_is_refused(inside: str, attributes: str, named: str) -> None:
    task = f'<businessRuleTask id="a" {attributes}><extensionElements>{inside}</extensionElements></businessRuleTask>'
    (sentence,) = refusal(model(START + task, connected="s>a"))
    rule = "which is not supported; evaluate the decision in a handler, and set the type of a zeebe:taskDefinition"
    assert sentence == f"a: {named}, {rule}"


def test_other_spellings_of_forms_and_inherited_variables_are_read() -> None:
    tasks = (
        '<userTask id="a" camunda:formRef="f"/><userTask id="b"><extensionElements>'
        '<zeebe:formDefinition externalReference="x"/></extensionElements></userTask>'
        f'<callActivity id="c" calledElement="q" {FLOWABLE} flowable:inheritVariables="true"/>'
    )
    nodes = read_model(model(START + tasks))[0].nodes
    forms = [work.form_key for node_id in "ab" if isinstance(work := nodes[node_id].work, UserWork)]
    assert forms == ["f", "x"]
    assert isinstance(called := nodes["c"].work, CallWork)
    assert called.passes_all_in
