"""Mappings of variables are read, or refused where they would not be evaluated."""

import pytest

from bpmn.model import InvalidModel, read_model
from tests.bpmn.model.test_checks import CAUGHT, CYCLE, EVENT, SHARED, START, TEN_MINUTES, boundary, catch, started, sub
from tests.support.bpmn import job, model

INPUTS = (
    '<zeebe:ioMapping><zeebe:input source="=1" target="x"/></zeebe:ioMapping>',
    '<camunda:inputOutput><camunda:inputParameter name="x">1</camunda:inputParameter></camunda:inputOutput>',
)
OUTPUTS = '<zeebe:ioMapping><zeebe:output source="=1" target="x"/></zeebe:ioMapping>'
GATE = START + '<eventBasedGateway id="g"/>' + catch(TEN_MINUTES)
# Where an event begins a node: the elements, their flows, and the element at fault.
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
    assert "no inputs are mapped then; leave its inputs out, and map its outputs" in problem.sentence
    assert read_model(written(OUTPUTS))
    assert read_model(written(""))


def test_outputs_of_an_event_that_throws_an_error_are_refused() -> None:
    event = f'<endEvent id="e"><extensionElements>{OUTPUTS}</extensionElements>{{}}</endEvent>'
    error = event.format('<errorEventDefinition errorRef="e1"/>')
    with pytest.raises(InvalidModel, match="e: it throws an error, and no outputs are mapped then"):
        read_model(model(START + error, connected="s>e", beside=SHARED))
    assert read_model(model(START + event.format(""), connected="s>e"))
