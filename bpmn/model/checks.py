"""Find the nodes that the engine can't run in a definition, and the reason for each node.

source:  BPMN 2.0.2; where BPMN leaves a choice, Camunda 8's choice applies: a model that Camunda 8 refuses is refused
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
MAPS_IN = "it is entered when its event has happened, and no inputs are mapped then"

Check = Callable[[FlowNode, Definition], Iterator[str]]


def problems_of(definition: Definition, *, unread: Collection[str] = ()) -> list[ModelProblem]:
    """Find all faults of a definition, in the document's order.

    An `unread` node already has a fault in the list. For this node, and for events attached to it, only the flows and
    the surrounding events are checked.
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
            yield f"its flow {flow.flow_id} leaves its sub-process; flows stay within one"
        if target.kind in {NodeKind.START, NodeKind.BOUNDARY, NodeKind.EVENT_SUBPROCESS}:
            yield f"its flow {flow.flow_id} leads to a {target.tag}, which only an event can begin"
        if flow.condition and node.kind in WITHOUT_CONDITIONS:
            yield f"its flow {flow.flow_id} has a condition; a {node.tag}'s flows have none"
    if node.default_flow:
        yield from _check_default(node, node.default_flow)
    if node.loop and (node.kind not in ACTIVITIES or node.tag.endswith("Event")):
        yield "it has a loop; only tasks, sub-processes and call activities may have one"
    if node.tag == "endEvent" and node.outgoing:
        yield "it is an end event with an outgoing flow; leave the flow out"


def _check_default(node: FlowNode, default_flow: str) -> Iterator[str]:
    flow = next((flow for flow in node.outgoing if flow.flow_id == default_flow), None)
    if flow is None:
        yield f"its default flow {shortened(default_flow)} does not leave it; choose one that does"
    if node.kind in WITHOUT_CONDITIONS:
        yield f"it has a default flow, and a {node.tag}'s flows have no conditions; leave it out"
    elif flow and flow.condition:
        yield f"its default flow {flow.flow_id} has a condition, which nothing evaluates; leave it out"


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
                yield f"its {called} {first[caught]} and {catcher} both catch {what}; leave one of them out"


def _caught_by(node: FlowNode) -> tuple[str, str] | None:
    """Return the kind and the code or name of an event's trigger: "" stands for every code; None for a timer."""
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
        yield f"it has {joined:,} flows into inclusive gateways that join; it may have {FLOWS_JOINED_MAX:,}"
    if len(plain) > 1:
        yield f"it has {len(plain)} start events without a trigger; it may have one"
    if not plain and not definition.starts:
        yield "it has no start event; add one"


def _check_subprocess(node: FlowNode, definition: Definition) -> Iterator[str]:
    starts = _starts_in(node, definition)
    if any(start.trigger for start in starts):
        yield "a start event in a sub-process has no trigger; only an event sub-process begins with one"
    if len(starts) != 1:
        yield f"it has {len(starts) or 'no'} start events; a sub-process has exactly one"


def _check_event_subprocess(node: FlowNode, definition: Definition) -> Iterator[str]:
    starts = _starts_in(node, definition)
    if len(starts) != 1 or starts[0].trigger is None:
        yield "an event sub-process has exactly one start event, with a trigger"
    if node.incoming or node.outgoing:
        yield "it is an event sub-process with a sequence flow; only its event begins it"


def _check_begun_by_event(node: FlowNode, _: Definition) -> Iterator[str]:
    if node.inputs and (node.kind == NodeKind.BOUNDARY or node.trigger):
        yield f"{MAPS_IN}; leave its inputs out, and map its outputs"


def _check_start(node: FlowNode, definition: Definition) -> Iterator[str]:
    scope = definition.nodes[node.scope_id]
    match node.trigger, scope.kind:
        case TimerTrigger(kind=TimerKind.DURATION), NodeKind.PROCESS:
            yield "a process starts at a timeDate or in a timeCycle, not after a timeDuration"
        case ((ErrorTrigger() | EscalationTrigger() | TerminateTrigger()), NodeKind.PROCESS):
            yield "a process isn't started by an error or an escalation; begin an event sub-process with it"
        case trigger, NodeKind.EVENT_SUBPROCESS:
            yield from _check_waiting(node, trigger)
        case _:
            pass


def _check_catch(node: FlowNode, _: Definition) -> Iterator[str]:
    match node.trigger:
        case TimerTrigger(kind=TimerKind.CYCLE):
            yield "it waits once, so its timer is a timeDuration or a timeDate, not a timeCycle"
        case TimerTrigger() | SignalTrigger():
            pass
        case MessageTrigger() as message:
            yield from _check_correlation(message)
        case _:
            yield "it catches nothing; give it a timer, a message or a signal"


def _check_boundary(node: FlowNode, definition: Definition) -> Iterator[str]:
    attached = definition.nodes.get(node.attached_to or "")
    if attached is None or attached.kind not in ACTIVITIES or attached.tag.endswith("Event"):
        yield f"it is attached to {shortened(node.attached_to or '')}, which is no task, sub-process or call activity"
    elif attached.scope_id != node.scope_id:
        yield "it is attached to an activity of another sub-process"
    if node.incoming:
        yield "it has an incoming flow; only its event begins it"
    yield from _check_waiting(node, node.trigger)


def _check_waiting(node: FlowNode, trigger: Trigger | None) -> Iterator[str]:
    """Check the trigger of a boundary event, or of the start of an event sub-process."""
    match trigger:
        case TimerTrigger(kind=TimerKind.CYCLE) if node.is_interrupting:
            yield "it interrupts, so it happens once: its timer is a timeDuration or a timeDate, not a timeCycle"
        case ErrorTrigger() if not node.is_interrupting:
            yield "an error always interrupts; leave out what says that it doesn't"
        case MessageTrigger() as message:
            yield from _check_correlation(message)
        case TimerTrigger() | SignalTrigger() | ErrorTrigger() | EscalationTrigger():
            pass
        case _:
            yield "it waits for nothing; give it a timer, a message, a signal, an error or an escalation"


def _check_receive(node: FlowNode, _: Definition) -> Iterator[str]:
    if isinstance(node.trigger, MessageTrigger):
        yield from _check_correlation(node.trigger)


def _check_correlation(message: MessageTrigger) -> Iterator[str]:
    if message.correlation is None:
        yield "its message has no correlation key; name one in the message's zeebe:subscription"


def _check_end(node: FlowNode, _: Definition) -> Iterator[str]:
    if isinstance(node.trigger, ErrorTrigger) and node.outputs:
        yield "it throws an error, and no outputs are mapped then; leave them out"
    match node.trigger:
        case ErrorTrigger(code=None):
            yield "it throws an error without a code; choose an error that has one"
        case TimerTrigger():
            yield "an end event waits for nothing; put the timer into an intermediate event before it"
        case _:
            pass


def _check_throw(node: FlowNode, _: Definition) -> Iterator[str]:
    match node.trigger:
        case SignalTrigger():
            pass
        case EscalationTrigger(code):
            if code is None:
                yield "it throws an escalation without a code; choose an escalation that has one"
        case _:
            yield "it throws nothing that can be thrown; give it a message, a signal or an escalation"


def _check_choice(node: FlowNode, _: Definition) -> Iterator[str]:
    if len(node.outgoing) > 1:
        for flow in node.outgoing:
            if flow.condition is None and flow.flow_id != node.default_flow:
                yield f"its flow {flow.flow_id} has no condition; write one, or make it the default flow"


def _check_event_based(node: FlowNode, definition: Definition) -> Iterator[str]:
    if len(node.outgoing) < 2:
        yield "it has fewer than two outgoing flows; it chooses between events"
    for flow in node.outgoing:
        target = definition.nodes.get(flow.target)
        if target is None:
            continue
        if target.kind not in {NodeKind.CATCH, NodeKind.RECEIVE}:
            yield f"its flow {flow.flow_id} leads to a {target.tag}, not to a receiveTask or an event that waits"
        elif len(target.incoming) > 1:
            yield f"{target.node_id} comes after it, and has another incoming flow; it must not have one"
        elif target.inputs:
            yield f"{target.node_id} comes after it: {MAPS_IN}; leave its inputs out, and map its outputs"
        elif target.boundaries or target.loop:
            yield f"{target.node_id} comes after it, and has boundary events or a loop; remove them"


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
