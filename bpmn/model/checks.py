"""Find the nodes of a definition that the engine can't execute, with a reason for each node.

source:  BPMN 2.0.2; where BPMN leaves a choice, the engine follows Camunda 8, and refuses each model that Camunda 8
         refuses
"""

from collections.abc import Callable, Collection, Iterator

from shardclock_server.bpmn.model.definition import (
    SCOPES,
    Definition,
    ErrorTrigger,
    EscalationTrigger,
    FlowNode,
    MessageTrigger,
    NodeKind,
    SignalTrigger,
    TerminateTrigger,
    TimerKind,
    TimerTrigger,
    Trigger,
)
from shardclock_server.bpmn.model.expressions import written
from shardclock_server.bpmn.model.paths import FLOWS_JOINED_MAX
from shardclock_server.bpmn.model.refusal import ModelProblem
from shardclock_server.timers.refusal import shortened

ACTIVITIES = frozenset({
    NodeKind.PASS, NodeKind.SCRIPT, NodeKind.SERVICE, NodeKind.USER, NodeKind.RECEIVE, NodeKind.SUBPROCESS,
    NodeKind.CALL,
})  # fmt: skip
WITHOUT_CONDITIONS = frozenset({NodeKind.PARALLEL, NodeKind.EVENT_BASED, NodeKind.START})
MAPS_IN = "a token enters this event only after it has occurred, so input mappings have no effect"

Check = Callable[[FlowNode, Definition], Iterator[str]]


def problems_of(definition: Definition, *, unread: Collection[str] = ()) -> list[ModelProblem]:
    """Find all faults of a definition, in the document's order.

    For the nodes in `unread`, the reader has already reported a fault. For these nodes and their boundary events, only
    the flows and the events of the scope are checked.
    """
    return [
        ModelProblem(node.node_id, sentence)
        for node in definition.nodes.values()
        for check in (
            _check_flows,
            _check_caught,
            *(() if node.node_id in unread or node.attached_to in unread else CHECKS.get(node.kind, ())),
        )
        for sentence in check(node, definition)
    ]


def _check_flows(node: FlowNode, definition: Definition) -> Iterator[str]:
    for flow in node.outgoing:
        target = definition.nodes.get(flow.target)
        if target is None:
            continue  # the reader has reported the missing target
        if target.scope_id != node.scope_id:
            yield f"the flow {flow.flow_id} leaves the sub-process; a flow must begin and end in the same sub-process"
        if target.kind in {NodeKind.START, NodeKind.BOUNDARY, NodeKind.EVENT_SUBPROCESS}:
            yield f"the flow {flow.flow_id} leads to a {target.tag}, which only an event can start"
        if flow.condition and node.kind in WITHOUT_CONDITIONS:
            yield f"the flow {flow.flow_id} has a condition; the flows of a {node.tag} have no conditions"
    if node.default_flow:
        yield from _check_default(node, node.default_flow)
    if node.loop and (node.kind not in ACTIVITIES or node.tag.endswith("Event")):
        yield "the element has a loop; only tasks, sub-processes and call activities may have a loop"
    if node.tag == "endEvent" and node.outgoing:
        yield "the end event has an outgoing flow; remove the flow"


def _check_default(node: FlowNode, default_flow: str) -> Iterator[str]:
    flow = next((flow for flow in node.outgoing if flow.flow_id == default_flow), None)
    if flow is None:
        yield f"the default flow {shortened(default_flow)} does not begin at this element; choose an outgoing flow"
    if node.kind in WITHOUT_CONDITIONS:
        yield (
            f"the element has a default flow, and the flows of a {node.tag} have no conditions; remove the default flow"
        )
    elif flow and flow.condition:
        yield f"the default flow {flow.flow_id} has a condition, which is never evaluated; remove the condition"


def _check_caught(node: FlowNode, definition: Definition) -> Iterator[str]:
    """Check that no two events at one activity, or inside one scope, catch the same trigger."""
    inside = {start: each for each in node.event_subprocesses for start in definition.nodes[each].starts}
    for called, events in (
        ("start events", {start: start for start in node.starts if node.kind == NodeKind.PROCESS}),
        ("boundary events", {each: each for each in node.boundaries}),
        ("event sub-processes", inside),
    ):
        first: dict[tuple[str, str], str] = {}
        for event, catcher in events.items():
            caught = _caught_by(definition.nodes[event])
            if caught and first.setdefault(caught, catcher) != catcher:
                kind, value = caught
                what = f"the {kind} {shortened(value)}" if value else f"every {kind}"
                yield f"the {called} {first[caught]} and {catcher} both catch {what}; remove one of the two"


def _caught_by(node: FlowNode) -> tuple[str, str] | None:
    """Return the kind of an event's trigger, and the trigger's code or name; "" stands for every code.

    Return None for a timer.
    """
    match node.trigger:
        case ErrorTrigger(code):
            return "error", code or ""
        case EscalationTrigger(code):
            return "escalation", code or ""
        case MessageTrigger(name):
            return "message", written(name)
        case SignalTrigger(name):
            return "signal", written(name)
        case _:
            return None


def _check_process(node: FlowNode, definition: Definition) -> Iterator[str]:
    plain = [start for start in _starts_in(node, definition) if start.trigger is None]
    joined = sum(join.kind == NodeKind.INCLUSIVE for join in definition.joins.values())
    if joined > FLOWS_JOINED_MAX:
        yield (
            f"the process has {joined:,} flows into joining inclusive gateways; at most {FLOWS_JOINED_MAX:,}"
            " are allowed"
        )
    if len(plain) > 1:
        yield f"the process has {len(plain)} start events without a trigger; at most one is allowed"
    if not plain and not definition.starts:
        yield "the process has no start event; add a start event"


def _check_subprocess(node: FlowNode, definition: Definition) -> Iterator[str]:
    starts = _starts_in(node, definition)
    if any(start.trigger for start in starts):
        yield "a start event with a trigger is allowed only in an event sub-process, not in a sub-process"
    if len(starts) != 1:
        yield f"the sub-process has {len(starts) or 'no'} start events; a sub-process must have exactly one start event"


def _check_event_subprocess(node: FlowNode, definition: Definition) -> Iterator[str]:
    starts = _starts_in(node, definition)
    if len(starts) != 1 or starts[0].trigger is None:
        yield "an event sub-process must have exactly one start event, and its start event must have a trigger"
    if node.incoming or node.outgoing:
        yield "the event sub-process has a sequence flow; remove the flow"


def _check_begun_by_event(node: FlowNode, _: Definition) -> Iterator[str]:
    if node.inputs and (node.kind == NodeKind.BOUNDARY or node.trigger):
        yield f"{MAPS_IN}; use output mappings"


def _check_start(node: FlowNode, definition: Definition) -> Iterator[str]:
    scope = definition.nodes[node.scope_id]
    match node.trigger, scope.kind:
        case TimerTrigger(kind=TimerKind.DURATION), NodeKind.PROCESS:
            yield "a process can't start after a timeDuration; use a timeDate or a timeCycle"
        case ((ErrorTrigger() | EscalationTrigger() | TerminateTrigger()), NodeKind.PROCESS):
            yield "an error or an escalation can't start a process; use the event in an event sub-process"
        case trigger, NodeKind.EVENT_SUBPROCESS:
            yield from _check_waiting(node, trigger)
        case _:
            pass


def _check_catch(node: FlowNode, _: Definition) -> Iterator[str]:
    match node.trigger:
        case TimerTrigger(kind=TimerKind.CYCLE):
            yield "the event occurs once, so its timer can't be a timeCycle; use a timeDuration or a timeDate"
        case TimerTrigger() | SignalTrigger():
            pass
        case MessageTrigger() as message:
            yield from _check_correlation(message)
        case _:
            yield "the event has no trigger to catch; add a timer, a message or a signal"


def _check_boundary(node: FlowNode, definition: Definition) -> Iterator[str]:
    attached = definition.nodes.get(node.attached_to or "")
    if attached is None or attached.kind not in ACTIVITIES or attached.tag.endswith("Event"):
        yield (
            f"the event is attached to {shortened(node.attached_to or '')}, which is not a task, sub-process"
            " or call activity"
        )
    elif attached.scope_id != node.scope_id:
        yield "the event is attached to an activity in another sub-process"
    if node.incoming:
        yield "the boundary event has an incoming flow; remove the flow"
    yield from _check_waiting(node, node.trigger)


def _check_waiting(node: FlowNode, trigger: Trigger | None) -> Iterator[str]:
    """Check the trigger of a boundary event, or of the start of an event sub-process."""
    match trigger:
        case TimerTrigger(kind=TimerKind.CYCLE) if node.is_interrupting:
            yield (
                "an interrupting event occurs once, so its timer can't be a timeCycle; use a timeDuration or a timeDate"
            )
        case ErrorTrigger() if not node.is_interrupting:
            yield "an error event always interrupts; remove the attribute that makes the event non-interrupting"
        case MessageTrigger() as message:
            yield from _check_correlation(message)
        case TimerTrigger() | SignalTrigger() | ErrorTrigger() | EscalationTrigger():
            pass
        case _:
            yield "the event has no trigger; add a timer, a message, a signal, an error or an escalation"


def _check_receive(node: FlowNode, _: Definition) -> Iterator[str]:
    if isinstance(node.trigger, MessageTrigger):
        yield from _check_correlation(node.trigger)


def _check_correlation(message: MessageTrigger) -> Iterator[str]:
    if message.correlation is None:
        yield "the message has no correlation key; write the key in the message's zeebe:subscription"


def _check_end(node: FlowNode, _: Definition) -> Iterator[str]:
    if isinstance(node.trigger, ErrorTrigger) and node.outputs:
        yield "the event throws an error, so output mappings have no effect; remove the output mappings"
    match node.trigger:
        case ErrorTrigger(code=None):
            yield "the event throws an error without a code; choose an error with a code"
        case TimerTrigger():
            yield "an end event can't wait for a timer; move the timer to an intermediate event before the end event"
        case _:
            pass


def _check_throw(node: FlowNode, _: Definition) -> Iterator[str]:
    match node.trigger:
        case SignalTrigger():
            pass
        case EscalationTrigger(code):
            if code is None:
                yield "the event throws an escalation without a code; choose an escalation with a code"
        case _:
            yield "the event has nothing to throw; add a message, a signal or an escalation"


def _check_choice(node: FlowNode, _: Definition) -> Iterator[str]:
    if len(node.outgoing) > 1:
        for flow in node.outgoing:
            if flow.condition is None and flow.flow_id != node.default_flow:
                yield f"the flow {flow.flow_id} has no condition; add a condition, or make the flow the default flow"


def _check_event_based(node: FlowNode, definition: Definition) -> Iterator[str]:
    if len(node.outgoing) < 2:
        yield "the event-based gateway has fewer than two outgoing flows; add a flow for each event"
    for flow in node.outgoing:
        target = definition.nodes.get(flow.target)
        if target is None:
            continue
        if target.kind not in {NodeKind.CATCH, NodeKind.RECEIVE}:
            yield (
                f"the flow {flow.flow_id} leads to a {target.tag}; it must lead to a receiveTask or to a catching event"
            )
        elif len(target.incoming) > 1:
            yield f"{target.node_id} follows the event-based gateway, and must not have another incoming flow"
        elif target.inputs:
            yield f"{target.node_id} follows the event-based gateway: {MAPS_IN}; use output mappings"
        elif target.boundaries or target.loop:
            yield f"{target.node_id} follows the event-based gateway, and must not have boundary events or a loop"


def _starts_in(node: FlowNode, definition: Definition) -> list[FlowNode]:
    return [definition.nodes[start] for start in node.starts]


CHECKS: dict[NodeKind, tuple[Check, ...]] = {
    NodeKind.PROCESS: (_check_process,),
    NodeKind.SUBPROCESS: (_check_subprocess,),
    NodeKind.EVENT_SUBPROCESS: (_check_event_subprocess,),
    NodeKind.START: (_check_start, _check_begun_by_event),
    NodeKind.CATCH: (_check_catch,),
    NodeKind.BOUNDARY: (_check_boundary, _check_begun_by_event),
    NodeKind.RECEIVE: (_check_receive,),
    NodeKind.END: (_check_end,),
    NodeKind.THROW: (_check_throw,),
    NodeKind.EXCLUSIVE: (_check_choice,),
    NodeKind.INCLUSIVE: (_check_choice,),
    NodeKind.EVENT_BASED: (_check_event_based,),
}
assert CHECKS.keys() >= SCOPES
