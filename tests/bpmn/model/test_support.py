"""No attribute or element is dropped silently: each name is read, ignored for a reason, or refused."""

import tomllib
from pathlib import Path

import pytest

from shardclock_server.bpmn.model import Definition, InvalidModel, read_model
from shardclock_server.bpmn.model.names import CAMUNDA_7, ZEEBE
from shardclock_server.bpmn.model.support import Support, camunda_7, camunda_8, standard
from shardclock_server.bpmn.model.support.element_check import PREFIXES
from shardclock_server.bpmn.model.support.rules import SupportRule, SupportTable
from tests.support.bpmn import HEAD, job, model, timer

SCHEMAS = tomllib.loads((Path(__file__).parent / "schemas.toml").read_text())
TABLES = {
    "zeebe": camunda_8,
    "camunda": camunda_7,
    "flowable": camunda_7,
    "activiti": camunda_7,
    "bpmn": standard,
}
SPACES = " ".join(f'xmlns:{prefix}="{space}"' for space, prefix in PREFIXES.items())
START = '<startEvent id="s"/>'


def read(elements: str, *, connected: str = "", beside: str = "") -> Definition:
    """Read a model; its root declares the prefixes of all namespaces."""
    text = model(elements, connected=connected, beside=beside).decode()
    return read_model(text.replace(HEAD, f'<definitions xmlns="{standard_space()}" {SPACES}>').encode())[0]


def standard_space() -> str:
    return HEAD.partition('xmlns="')[2].partition('"')[0]


def refusal(elements: str, *, connected: str = "", beside: str = "") -> list[str]:
    with pytest.raises(InvalidModel) as refused:
        read(elements, connected=connected, beside=beside)
    return [str(problem) for problem in refused.value.problems]


@pytest.mark.parametrize("schema", TABLES)
def test_each_name_in_the_schemas_of_other_engines_has_a_rule(schema: str) -> None:
    names, table = SCHEMAS[schema], TABLES[schema]
    assert set(names["attributes"]) - table.ATTRIBUTES.keys() == set()
    assert set(names["elements"]) - table.ELEMENTS.keys() == set()


@pytest.mark.parametrize("schema", ["zeebe", "camunda"])
def test_each_attribute_of_an_element_that_is_read_has_a_rule(schema: str) -> None:
    table = TABLES[schema]
    for element, attributes in SCHEMAS[schema]["own"].items():
        if any(rule.support == Support.READ for rule in table.ELEMENTS[element]):
            assert set(attributes) - table.OWN[element].keys() == set(), element


@pytest.mark.parametrize("table", [standard, camunda_7, camunda_8])
def test_each_name_that_is_not_read_has_its_reason(table: object) -> None:
    rules_by_name: SupportTable = {**table.ATTRIBUTES, **table.ELEMENTS}  # type: ignore[attr-defined]
    for name, rules in rules_by_name.items():
        assert rules, name
        assert all(rule.reason for rule in rules if rule.support != Support.READ or rule.values), name


PROCESS_ELEMENT = {
    "callActivity": '<callActivity id="a" calledElement="x" {}>{}</callActivity>',
    "userTask": '<userTask id="a" {}>{}</userTask>',
    "scriptTask": '<scriptTask id="a" scriptFormat="feel" {}>{}<script>1</script></scriptTask>',
    "serviceTask": '<serviceTask id="a" camunda:topic="x" {}>{}</serviceTask>',
}
REFUSED_ATTRIBUTES = sorted(
    name for name, rules in camunda_7.ATTRIBUTES.items() if any(rule.support == Support.REFUSED for rule in rules)
)
LIMITED = sorted(
    (name, rule) for name, rules in camunda_7.ATTRIBUTES.items() for rule in rules if rule.values and not rule.hosts
)


@pytest.mark.parametrize("prefix", [PREFIXES[space] for space in CAMUNDA_7])
@pytest.mark.parametrize("name", REFUSED_ATTRIBUTES)
def test_an_attribute_that_would_change_the_run_is_refused_by_its_name(prefix: str, name: str) -> None:
    for element in ("callActivity", "userTask", "serviceTask"):
        (sentence,) = refusal(START + PROCESS_ELEMENT[element].format(f'{prefix}:{name}="x.Y"', ""))
        assert sentence.startswith(f"a: {prefix}:{name}='x.Y' ")


@pytest.mark.parametrize(("name", "rule"), LIMITED)
def test_an_attribute_is_refused_with_the_values_that_would_change_the_run(name: str, rule: SupportRule) -> None:
    for value in rule.values:
        assert "a" in read(START + PROCESS_ELEMENT["userTask"].format(f'flowable:{name}="{value}"', "")).nodes
    (sentence,) = refusal(START + PROCESS_ELEMENT["userTask"].format(f'flowable:{name}="other"', ""))
    assert sentence == f"a: flowable:{name}='other' {rule.reason}"


IGNORED = sorted(
    (prefix, name)
    for prefix, table in (("zeebe", camunda_8), ("camunda", camunda_7), ("flowable", camunda_7))
    for name, rules in table.ATTRIBUTES.items()
    if any(rule.support == Support.IGNORED and not rule.hosts for rule in rules)
)


@pytest.mark.parametrize(("prefix", "name"), IGNORED)
def test_an_ignored_attribute_changes_nothing(prefix: str, name: str) -> None:
    plain = PROCESS_ELEMENT["serviceTask"]
    assert read(START + plain.format(f'{prefix}:{name}="5"', "")) == read(START + plain.format("", ""))


ELEMENTS = [
    (prefix, name, rule)
    for prefix, table in (("zeebe", camunda_8), ("camunda", camunda_7), ("activiti", camunda_7))
    for name, rules in table.ELEMENTS.items()
    for rule in rules
    if rule.support != Support.READ and not rule.hosts
]


@pytest.mark.parametrize(("prefix", "name", "rule"), ELEMENTS)
def test_an_element_among_the_extensions_is_ignored_or_refused_by_its_name(
    prefix: str, name: str, rule: SupportRule
) -> None:
    inside = f'<extensionElements><{prefix}:{name} any="x"><{prefix}:a/></{prefix}:{name}></extensionElements>'
    plain = START + PROCESS_ELEMENT["serviceTask"]
    if rule.support == Support.IGNORED:
        assert read(plain.format("", inside)) == read(plain.format("", ""))
    else:
        assert refusal(plain.format("", inside)) == [f"a: {name} {rule.reason}"]


@pytest.mark.parametrize("prefix", PREFIXES.values())
def test_an_unknown_name_is_refused(prefix: str) -> None:
    task = PROCESS_ELEMENT["serviceTask"]
    (attribute,) = refusal(START + task.format(f'{prefix}:retrys="3"', ""))
    assert attribute == f"a: {prefix}:retrys is unknown; remove it, or correct its name"
    inside = f"<extensionElements><{prefix}:sorcery/></extensionElements>"
    (element,) = refusal(START + task.format("", inside))
    assert element == f"a: {prefix}:sorcery is unknown; remove it, or correct its name"
    (outside,) = refusal(START + task.format("", f"<{prefix}:properties/>"))
    assert outside == f"a: {prefix}:properties is outside of extensionElements; move it into extensionElements"


@pytest.mark.parametrize(
    ("elements", "says"),
    [
        (
            '<userTask id="a" camunda:topic="x"/>',
            "a: camunda:topic is not supported at userTask; move it to businessRuleTask or ",
        ),
        ('<userTask id="a" flowable:collection="x"/>', "a: flowable:collection is not supported at userTask"),
        (
            '<userTask id="a"><extensionElements><zeebe:taskDefinition type="x"/></extensionElements></userTask>',
            "a: zeebe:taskDefinition is not supported at userTask",
        ),
        (
            (
                '<parallelGateway id="a"><extensionElements><zeebe:script expression="=1"/></extensionElements>'
                "</parallelGateway>"
            ),
            "a: zeebe:script is not supported at parallelGateway; move it to scriptTask, or remove it",
        ),
        (
            job("a").replace("type=", 'retrys="3" type='),
            "a: zeebe:taskDefinition retrys is unknown; remove it, or correct its name",
        ),
        ('<endEvent id="a" retries="3"/>', "a: retries is not an attribute of BPMN 2.0; leave it out, or write its"),
        ('<userTask id="a"><sorcery/></userTask>', "a: sorcery is not an element of a process"),
        ('<serviceTask id="a" camunda:type="mail"/>', "a: camunda:type='mail' is a task type of another engine"),
        (
            (
                '<callActivity id="a" calledElement="c"><extensionElements><camunda:in businessKey="=k"/>'
                "</extensionElements></callActivity>"
            ),
            "a: camunda:in businessKey='=k' is not supported, because called processes have no business key",
        ),
        (
            (
                '<callActivity id="a" calledElement="c"><extensionElements><flowable:out source="x" target="y"'
                ' transient="true"/></extensionElements></callActivity>'
            ),
            "a: flowable:out transient='true' is not supported",
        ),
        (
            '<endEvent id="a"><terminateEventDefinition flowable:terminateAll="true"/></endEvent>',
            "a: flowable:terminateAll='true' ends other scopes, too",
        ),
        (
            '<dataObject id="d"><extensionElements><flowable:value>1</flowable:value></extensionElements></dataObject>',
            "d: value is the value of a data object, which is not supported",
        ),
        ('<userTask id="a"><potentialOwner/></userTask>', "a: potentialOwner is not supported; use a"),
        (
            '<userTask id="a"><dataInputAssociation><assignment/></dataInputAssociation></userTask>',
            "a: assignment is not supported; write a zeebe:ioMapping in FEEL",
        ),
        ('<userTask id="a" isForCompensation="true"/>', "a: isForCompensation='true' is not supported"),
        ('<userTask id="a" startQuantity="2"/>', "a: startQuantity='2' is not supported"),
        ('<userTask id="a" completionQuantity="2"/>', "a: completionQuantity='2' is not supported"),
        ('<receiveTask id="a" instantiate="true"/>', "a: instantiate='true' starts a process"),
        ('<eventBasedGateway id="a" eventGatewayType="Parallel"/>', "a: eventGatewayType='Parallel' waits for all"),
        (
            (
                f'<intermediateCatchEvent id="a" parallelMultiple="true">{timer("timeDuration", "PT1S")}'
                "</intermediateCatchEvent>"
            ),
            "a: parallelMultiple='true' waits for all events",
        ),
        (
            '<userTask id="a"><multiInstanceLoopCharacteristics behavior="One"/></userTask>',
            "a: behavior='One' is not supported",
        ),
        (
            (
                '<userTask id="a"><multiInstanceLoopCharacteristics><loopDataInputRef>x</loopDataInputRef>'
                "</multiInstanceLoopCharacteristics></userTask>"
            ),
            "a: loopDataInputRef is not supported; name the list in the inputCollection",
        ),
        ('<correlationSubscription id="c"/>', "c: correlationSubscription is not supported"),
        (
            '<endEvent id="a"><extensionElements><zeebe:taskDefinition type="x"/></extensionElements></endEvent>',
            "a: the event has a taskDefinition or taskHeaders, and no message; add a messageEventDefinition",
        ),
    ],
)
def test_a_name_without_a_meaning_at_its_element_is_refused(elements: str, says: str) -> None:
    (sentence,) = refusal(START + elements)
    assert sentence.startswith(says)


@pytest.mark.parametrize(
    "elements",
    [
        '<userTask id="a" isForCompensation="false" startQuantity="1" completionQuantity="1" implementation="##x"/>',
        (
            '<userTask id="a"><ioSpecification><dataInput id="i"/><inputSet><dataInputRefs>i</dataInputRefs></inputSet>'
            '</ioSpecification><property id="p1"/><dataInputAssociation id="da"><sourceRef>o</sourceRef>'
            "<targetRef>p1</targetRef></dataInputAssociation></userTask>"
        ),
        '<laneSet id="l"><lane id="l1"><flowNodeRef>s</flowNodeRef></lane></laneSet><dataObject id="o"/>',
        '<userTask id="a"><documentation>any <b xmlns="x">text</b></documentation></userTask>',
        (
            '<userTask id="a" zeebe:modelerTemplate="t"><extensionElements><zeebe:userTask/><zeebe:properties>'
            '<zeebe:property name="a" value="b"/></zeebe:properties>'
            '<x:other xmlns:x="x" y="z"/></extensionElements></userTask>'
        ),
        '<userTask id="a" xmlns:x="urn:x" x:colour="red"/>',
    ],
)
def test_names_without_effect_are_ignored(elements: str) -> None:
    assert "s" in read(START + elements).nodes


@pytest.mark.parametrize(
    ("beside", "says"),
    [
        ('<message id="m" name="x" flowable:sorcery="y"/>', "m: flowable:sorcery is unknown"),
        (
            '<signal id="g" name="x" flowable:scope="processInstance"/>',
            "g: flowable:scope='processInstance' is not supported",
        ),
        ('<extension mustUnderstand="true"/>', "mustUnderstand='true' requires an unknown extension"),
        (
            (
                '<message id="m"><extensionElements><zeebe:subscription correlationKey="=k" ttl="1"/>'
                "</extensionElements></message>"
            ),
            "m: zeebe:subscription ttl is unknown",
        ),
    ],
)
def test_names_outside_of_processes_are_also_checked(beside: str, says: str) -> None:
    (sentence,) = refusal(START, beside=beside)
    assert sentence.startswith(says)


def test_the_checked_namespaces_are_those_of_zeebe_and_camunda_7() -> None:
    assert PREFIXES.keys() == {ZEEBE, *CAMUNDA_7}
