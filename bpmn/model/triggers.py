"""Read what an event waits for or throws: exactly one timer, message, signal, error, escalation or termination."""

import re
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from shardclock_server.bpmn.model.definition import (
    Error,
    Escalation,
    Kind,
    Message,
    Signal,
    Terminate,
    Timer,
    TimerKind,
    Trigger,
)
from shardclock_server.bpmn.model.expressions import Text, Unreadable, read_expression, read_text
from shardclock_server.bpmn.model.names import bpmn, camunda_attribute, local_name, text_of, zeebe_child
from shardclock_server.bpmn.model.times import time_text
from shardclock_server.timers.refusal import shortened

WITHOUT_END = re.compile(r"R[0-9]*/P[^/]*")
SUFFIX = "EventDefinition"
TIMES = {"timeDate": TimerKind.DATE, "timeDuration": TimerKind.DURATION, "timeCycle": TimerKind.CYCLE}


@dataclass(frozen=True, slots=True)
class Shared:
    """What a model's processes share, by ids: messages, signals, errors and escalations."""

    by_id: dict[str, Element] = field(default_factory=dict)

    def named(self, reference: str | None, tag: str) -> Element:
        """Find what an event refers to.

        errors:  Unreadable  it refers to nothing, or to what isn't there
        """
        if not reference:
            raise Unreadable(f"it refers to no {tag}; choose one")
        # A modeler may write a prefix before the id.
        element = self.by_id.get(reference, self.by_id.get(reference.rpartition(":")[2]))
        if element is None or local_name(element) != tag:
            raise Unreadable(f"it refers to the {tag} {shortened(reference)}, which the model doesn't have; add it")
        return element


def has_trigger(element: Element) -> bool:
    """Say whether an element has an event definition of any kind."""
    return bool(_definitions_in(element))


def _definitions_in(element: Element) -> list[Element]:
    definitions = [child for child in element if local_name(child).endswith(SUFFIX)]
    return definitions + element.findall(bpmn("eventDefinitionRef"))


def kind_with(kind: Kind, trigger: Trigger | None, element: Element) -> Kind:
    """Return the kind of a node, which depends on its trigger and on its job.

    errors:  Unreadable  its job would never be given to a handler
    """
    has_job = zeebe_child(element, "taskDefinition") is not None
    match kind, trigger:
        case ((Kind.END | Kind.THROW), Message()):
            return Kind.SERVICE
        case Kind.SCRIPT, _ if has_job:
            if zeebe_child(element, "script") is not None or element.find(bpmn("script")) is not None:
                raise Unreadable("it has a taskDefinition and a script; leave one of them out")
            return Kind.SERVICE
        case ((Kind.END | Kind.THROW), _) if has_job or zeebe_child(element, "taskHeaders") is not None:
            raise Unreadable("it has a taskDefinition or taskHeaders, and no message; add a messageEventDefinition")
        case ((Kind.END | Kind.THROW), (Signal() | Escalation())):
            return Kind.THROW
        case Kind.THROW, None:
            return Kind.PASS
    return kind


def read_thrown(element: Element, shared: Shared) -> Trigger | None:
    """Read the trigger of a throwing event. A thrown message is a job: it needs no name and no element of its own.

    errors:  Unreadable  as of `read_trigger`
    """
    match _definitions_in(element):
        case [definition] if local_name(definition) == f"message{SUFFIX}":
            if reference := definition.get("messageRef"):
                shared.named(reference, "message")
            return Message("")
    return read_trigger(element, shared)


def read_trigger(element: Element, shared: Shared) -> Trigger | None:
    """Read an event's trigger; None: it has none.

    errors:  Unreadable  more than one, one that we don't run, or one that is written wrongly
    """
    if not (definitions := _definitions_in(element)):
        return None
    if len(definitions) > 1:
        raise Unreadable(f"it has {len(definitions)} event definitions; an event has exactly one")
    return _read(definitions[0], shared)


def _read(definition: Element, shared: Shared) -> Trigger:
    match local_name(definition).removesuffix(SUFFIX):
        case "timer":
            return _timer(definition)
        case "message":
            if camunda_attribute(definition, "topic") is not None:
                raise Unreadable("its message has a topic, and it waits for the message; leave the topic out")
            return read_message(shared.named(definition.get("messageRef"), "message"))
        case "signal":
            return Signal(_name(shared.named(definition.get("signalRef"), "signal")))
        case "error":
            return Error(_code(definition, "error", shared))
        case "escalation":
            return Escalation(_code(definition, "escalation", shared))
        case "terminate":
            return Terminate()
        case other:
            raise Unreadable(f"{other} events aren't run here; use a timer, message, signal, error or escalation")


def read_message(message: Element) -> Message:
    """Read a message's name, and the expression that finds its correlation key."""
    subscription = zeebe_child(message, "subscription")
    key = subscription.get("correlationKey", "") if subscription is not None else ""
    return Message(_name(message), read_expression(key) if key else None)


def _name(element: Element) -> Text:
    if name := element.get("name", "").strip():
        return read_text(name)
    raise Unreadable(f"the {local_name(element)} {shortened(element.get('id', ''))} has no name; give it one")


def _code(definition: Element, tag: str, shared: Shared) -> str | None:
    if not (reference := definition.get(f"{tag}Ref")):
        return None
    code = shared.named(reference, tag).get(f"{tag}Code") or None
    if code and not isinstance(read_text(code), str):
        raise Unreadable(f"its {tag}'s code {shortened(code)} is an expression; write the code itself")
    return code


def _timer(definition: Element) -> Timer:
    times = [child for child in definition if local_name(child) in TIMES]
    if len(times) != 1:
        raise Unreadable(
            f"its timer has {len(times) or 'none'} of timeDate, timeDuration and timeCycle; write exactly one"
        )
    kind = TIMES[local_name(times[0])]
    text = read_text(text_of(times[0]))
    if (end := camunda_attribute(times[0], "endDate")) is not None:
        text = _with_end(text, end)
    if isinstance(text, str):
        text = time_text(kind, text)
    return Timer(kind, text)


def _with_end(cycle: Text, end: str) -> Text:
    """Join a cycle and Flowable's date of its end, as in R10/PT2S/2031-01-31T08:00:00Z.

    errors:  Unreadable  one of them is an expression, or the cycle has another form
    """
    joined = read_text(end)
    if isinstance(cycle, str) and isinstance(joined, str) and WITHOUT_END.fullmatch(cycle):
        return f"{cycle}/{joined}"
    raise Unreadable(
        f"its endDate {shortened(end)} can't be joined to the cycle; write the end into the cycle, as in"
        " R/PT1H/2031-01-31T08:00:00Z"
    )
