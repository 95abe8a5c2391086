"""A model with the names of Camunda 7 and of Camunda 8 has one value for each, or is refused: none is dropped."""

import pytest

from shardclock_server.bpmn.model import InvalidModel, read_model
from tests.support.bpmn import model

START = '<startEvent id="s"/>'
COLLECTION = '<zeebe:loopCharacteristics inputCollection="=list" inputElement="i"/>'
# The element, its attributes, and its extension elements: {} is the value of Camunda 7.
PLACES = {
    "task type": ("serviceTask", 'camunda:type="external" camunda:topic="{}"', '<zeebe:taskDefinition type="x"/>', "x"),
    "assignee": ("userTask", 'camunda:assignee="{}"', '<zeebe:assignmentDefinition assignee="ada"/>', "ada"),
    "candidateGroups": (
        "userTask",
        'camunda:candidateGroups="{}"',
        '<zeebe:assignmentDefinition candidateGroups="clerks"/>',
        "clerks",
    ),
    "dueDate": (
        "userTask",
        'camunda:dueDate="{}"',
        '<zeebe:taskSchedule dueDate="2031-01-31T08:00:00Z"/>',
        "2031-01-31T08:00:00Z",
    ),
    "form": ("userTask", 'camunda:formKey="{}"', '<zeebe:formDefinition formId="f"/>', "f"),
    "resultVariable": (
        "scriptTask",
        'camunda:resultVariable="{}"',
        '<zeebe:script expression="=1" resultVariable="r"/>',
        "r",
    ),
    "called process": ("callActivity", 'calledElement="{}"', '<zeebe:calledElement processId="c"/>', "c"),
}
OTHER = "2032-01-31T08:00:00Z"


def refusals(elements: str) -> list[str]:
    """Return the messages that refuse a model; none: the model is accepted."""
    try:
        read_model(model(START + elements, connected="s>a"))
    except InvalidModel as refused:
        return [str(problem) for problem in refused.problems]
    return []


@pytest.mark.parametrize("subject", PLACES)
def test_two_values_for_one_thing_are_refused_with_both(subject: str) -> None:
    tag, attribute, extension, value = PLACES[subject]
    element = f'<{tag} id="a" {attribute}><extensionElements>{extension}</extensionElements></{tag}>'

    (sentence,) = refusals(element.format(OTHER))

    assert sentence == f"a: its {subject} is '{value}' in one place and '{OTHER}' in another; leave one of them out"
    assert refusals(element.format(value)) == [], "the same value twice is clear"


def test_a_script_has_one_text() -> None:
    script = '<extensionElements><zeebe:script expression="=1"/></extensionElements><script>{}</script>'
    (sentence,) = refusals(f'<scriptTask id="a">{script.format("=2")}</scriptTask>')
    assert sentence == "a: its script is '=1' in one place and '=2' in another; leave one of them out"
    assert refusals(f'<scriptTask id="a">{script.format("=1")}</scriptTask>') == []


@pytest.mark.parametrize(
    ("name", "subject"), [("collection", "collection"), ("elementVariable", "variable of its items")]
)
def test_a_loop_has_one_list_and_one_name_of_its_items(name: str, subject: str) -> None:
    task = "<extensionElements><zeebe:taskDefinition type='x'/></extensionElements>"
    loop = f'<multiInstanceLoopCharacteristics camunda:{name}="other"><extensionElements>{COLLECTION}'
    (sentence,) = refusals(
        f'<serviceTask id="a">{task}{loop}</extensionElements></multiInstanceLoopCharacteristics></serviceTask>'
    )
    assert sentence.startswith(f"a: its {subject} is ")
    assert sentence.endswith(" in one place and 'other' in another; leave one of them out")
