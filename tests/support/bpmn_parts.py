"""Parts of models for tests of the reader: shared elements, and a model's refusal."""

from __future__ import annotations

import pytest

from shardclock_server.bpmn.model import InvalidModel, read_model
from tests.support.bpmn import model, timer

SHARED = (
    '<message id="m" name="paid"/><error id="x"/><escalation id="c"/><signal id="g"/>'
    '<error id="e1" errorCode="E1"/><escalation id="c1" escalationCode="C1"/><signal id="g1" name="stop"/>'
    '<message id="m1" name="moved"><extensionElements><zeebe:subscription correlationKey="=k"/></extensionElements>'
    '</message><message id="m2" name="=name"><extensionElements><zeebe:subscription correlationKey="=k"/>'
    "</extensionElements></message>"
    '<error id="xx" errorCode="=code"/><escalation id="cc" escalationCode="${code}"/>'
)
CALLED = (
    '<callActivity id="a"><extensionElements><zeebe:calledElement processId="x" {}/></extensionElements></callActivity>'
)
START = '<startEvent id="s"/>'
TWICE = "<multiInstanceLoopCharacteristics><loopCardinality>2</loopCardinality></multiInstanceLoopCharacteristics>"
TEN_MINUTES = timer("timeDuration", "PT10M")
CYCLE = timer("timeCycle", "R/PT10M")


def boundary(event: str, attached: str = "a", attributes: str = "") -> str:
    return f'<boundaryEvent id="b" attachedToRef="{attached}" {attributes}>{event}</boundaryEvent>'


def catch(event: str) -> str:
    return f'<intermediateCatchEvent id="t">{event}</intermediateCatchEvent>'


def sub(inside: str, attributes: str = "") -> str:
    return f'<subProcess id="u" {attributes}>{inside}</subProcess>'


def mapping(inside: str) -> str:
    return f'<task id="a"><extensionElements><zeebe:ioMapping>{inside}</zeebe:ioMapping></extensionElements></task>'


def started(event: str) -> str:
    return f'<startEvent id="i">{event}</startEvent>'


EVENT = 'triggeredByEvent="true"'
CAUGHT = [
    ('<errorEventDefinition errorRef="e1"/>', "the error 'E1'"),
    ("<errorEventDefinition/>", "every error"),
    ('<escalationEventDefinition escalationRef="c1"/>', "the escalation 'C1'"),
    ("<escalationEventDefinition/>", "every escalation"),
    ('<messageEventDefinition messageRef="m1"/>', "the message 'moved'"),
    ('<messageEventDefinition messageRef="m2"/>', "the message '=name'"),
    ('<signalEventDefinition signalRef="g1"/>', "the signal 'stop'"),
]
CHOICE = START + '<exclusiveGateway id="g" default="g-b"/><task id="a"/><task id="b"/>'


def refusal(text: bytes) -> list[str]:
    with pytest.raises(InvalidModel) as refused:
        read_model(text)
    return [str(problem) for problem in refused.value.problems]


def choosing(condition: str) -> bytes:
    flow = f'<sequenceFlow id="f" sourceRef="g" targetRef="a">{condition}</sequenceFlow>'
    return model(CHOICE + flow, connected="s>g g>b")
