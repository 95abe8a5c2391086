"""Read an event's trigger: exactly one timer, message, signal, error, escalation or termination."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from shardclock_server.bpmn.model.definition import (
    ErrorTrigger,
    EscalationTrigger,
    MessageTrigger,
    NodeKind,
    SignalTrigger,
    TerminateTrigger,
    TimerKind,
    TimerTrigger,
    Trigger,
)
from shardclock_server.bpmn.model.expressions import InvalidValue, Text, read_expression, read_text
from shardclock_server.bpmn.model.names import bpmn, camunda_attribute, local_name, text_of, zeebe_child
from shardclock_server.bpmn.model.refusal import ModelProblem
from shardclock_server.bpmn.model.times import time_text
from shardclock_server.timers.refusal import shortened

WITHOUT_END = re.compile(r"R[0-9]*/P[^/]*")
SUFFIX = "EventDefinition"
UNIQUE = frozenset(map(bpmn, ("process", "message", "signal", "error", "escalation")))
TIMES = {"timeDate": TimerKind.DATE, "timeDuration": TimerKind.DURATION, "timeCycle": TimerKind.CYCLE}


@dataclass(frozen=True, slots=True)
class SharedElements:
    """The messages, signals, errors and escalations of a model by id.

    All processes of the model share these elements.
    """

    by_id: dict[str, Element] = field(default_factory=dict)

    def named(self, reference: str | None, tag: str) -> Element:
        """Return the element that an event refers to.

        errors:  InvalidValue  the reference is missing, or no such element exists
        """
        if not reference:
            raise InvalidValue(f"the element refers to no {tag}; choose one")
        # Some modelers write a prefix before the id.
        element = self.by_id.get(reference, self.by_id.get(reference.rpartition(":")[2]))
        if element is None or local_name(element) != tag:
            raise InvalidValue(
                f"the element refers to the {tag} {shortened(reference)}, which the model does not have; add the {tag}"
            )
        return element


def repeated_ids(root: Element) -> Iterator[ModelProblem]:
    """Find processes and shared elements with a repeated id, because a reference to this id is ambiguous."""
    seen: set[str] = set()
    for element in (child for child in root if child.tag in UNIQUE and child.get("id")):
        element_id = element.get("id", "")
        if element_id in seen:
            yield ModelProblem(element_id, f"the id {shortened(element_id)} occurs twice; give each element its own id")
        seen.add(element_id)


def has_trigger(element: Element) -> bool:
    """Return whether an element has an event definition of any kind."""
    return bool(_definitions_in(element))


def _definitions_in(element: Element) -> list[Element]:
    definitions = [child for child in element if local_name(child).endswith(SUFFIX)]
    return definitions + element.findall(bpmn("eventDefinitionRef"))


def kind_with(kind: NodeKind, trigger: Trigger | None, element: Element) -> NodeKind:
    """Return the kind of a node with this trigger; a `taskDefinition` in the element may change the kind.

    errors:  InvalidValue  the element has a `taskDefinition` that no handler would execute
    """
    has_job = zeebe_child(element, "taskDefinition") is not None
    match kind, trigger:
        case ((NodeKind.END | NodeKind.THROW), MessageTrigger()):
            return NodeKind.SERVICE
        case NodeKind.SCRIPT, _ if has_job:
            if zeebe_child(element, "script") is not None or element.find(bpmn("script")) is not None:
                raise InvalidValue("the element has a taskDefinition and a script; remove one of the two")
            return NodeKind.SERVICE
        case ((NodeKind.END | NodeKind.THROW), _) if has_job or zeebe_child(element, "taskHeaders") is not None:
            raise InvalidValue(
                "the event has a taskDefinition or taskHeaders, and no message; add a messageEventDefinition"
            )
        case ((NodeKind.END | NodeKind.THROW), (SignalTrigger() | EscalationTrigger())):
            return NodeKind.THROW
        case NodeKind.THROW, None:
            return NodeKind.PASS
    return kind


def read_thrown(element: Element, shared: SharedElements) -> Trigger | None:
    """Read the trigger of a throwing event.

    The engine executes a thrown message as a service task, so the event needs neither a message element nor a name.

    errors:  InvalidValue  the trigger is unsupported or invalid
    """
    match _definitions_in(element):
        case [definition] if local_name(definition) == f"message{SUFFIX}":
            if reference := definition.get("messageRef"):
                shared.named(reference, "message")
            return MessageTrigger("")
    return read_trigger(element, shared)


def read_trigger(element: Element, shared: SharedElements) -> Trigger | None:
    """Read an event's trigger; None if the event has no trigger.

    errors:  InvalidValue  the event has more than one trigger, or its trigger is unsupported or invalid
    """
    if not (definitions := _definitions_in(element)):
        return None
    if len(definitions) > 1:
        raise InvalidValue(f"the event has {len(definitions)} event definitions; an event must have exactly one")
    return _read(definitions[0], shared)


def _read(definition: Element, shared: SharedElements) -> Trigger:
    match local_name(definition).removesuffix(SUFFIX):
        case "timer":
            return _timer(definition)
        case "message":
            if camunda_attribute(definition, "topic") is not None:
                raise InvalidValue("a topic is set at an event that receives the message; remove the topic")
            return read_message(shared.named(definition.get("messageRef"), "message"))
        case "signal":
            return SignalTrigger(_name(shared.named(definition.get("signalRef"), "signal")))
        case "error":
            return ErrorTrigger(_code(definition, "error", shared))
        case "escalation":
            return EscalationTrigger(_code(definition, "escalation", shared))
        case "terminate":
            return TerminateTrigger()
        case other:
            raise InvalidValue(f"{other} events are not supported; use a timer, message, signal, error or escalation")


def read_message(message: Element) -> MessageTrigger:
    """Read a message's name and the expression of its correlation key."""
    subscription = zeebe_child(message, "subscription")
    key = subscription.get("correlationKey", "") if subscription is not None else ""
    return MessageTrigger(_name(message), read_expression(key) if key else None)


def _name(element: Element) -> Text:
    if name := element.get("name", "").strip():
        return read_text(name)
    raise InvalidValue(f"the {local_name(element)} {shortened(element.get('id', ''))} has no name; add a name")


def _code(definition: Element, tag: str, shared: SharedElements) -> str | None:
    if not (reference := definition.get(f"{tag}Ref")):
        return None
    code = shared.named(reference, tag).get(f"{tag}Code") or None
    if code and not isinstance(read_text(code), str):
        raise InvalidValue(f"the {tag}'s code {shortened(code)} is an expression; write the code itself")
    return code


def _timer(definition: Element) -> TimerTrigger:
    times = [child for child in definition if local_name(child) in TIMES]
    if len(times) != 1:
        raise InvalidValue(
            f"the timer has {len(times) or 'none'} of timeDate, timeDuration and timeCycle; write exactly one"
        )
    kind = TIMES[local_name(times[0])]
    text = read_text(text_of(times[0]))
    if (end := camunda_attribute(times[0], "endDate")) is not None:
        text = _with_end(text, end)
    if isinstance(text, str):
        text = time_text(kind, text)
    return TimerTrigger(kind, text)


def _with_end(cycle: Text, end: str) -> Text:
    """Append Flowable's end date to a cycle, as in R10/PT2S/2031-01-31T08:00:00Z.

    errors:  InvalidValue  the cycle or the end date is an expression, or the cycle is not R/PERIOD or Rn/PERIOD
    """
    joined = read_text(end)
    if isinstance(cycle, str) and isinstance(joined, str) and WITHOUT_END.fullmatch(cycle):
        return f"{cycle}/{joined}"
    raise InvalidValue(
        f"the endDate {shortened(end)} can't be appended to the cycle; write the end as part of the cycle, as in"
        " R/PT1H/2031-01-31T08:00:00Z"
    )
