"""Apply an event, such as a due timer, a message, a signal or a thrown error, to the waiting token."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from shardclock_server.bpmn.model.definition import ErrorTrigger, EscalationTrigger, FlowNode, NodeKind
from shardclock_server.bpmn.step.node_exit import finish
from shardclock_server.bpmn.step.state import Catches, Phase, Token
from shardclock_server.bpmn.step.tokens import StepContext
from shardclock_server.bpmn.step.wait_closing import closed_by_interrupt
from shardclock_server.bpmn.step.wait_opening import event_subprocess_starts
from shardclock_server.feel import Json

Payload = Mapping[str, Json]


def apply_event(step: StepContext, token: Token, node_id: str, payload: Payload) -> bool:
    """Apply an event to the token that waits for the event.

    shape:   false if the token no longer waits for the event
    """
    node, waiting = step.definition.nodes.get(node_id), step.node_of(token)
    if node is None or token.phase < Phase.IS_WATCHED:
        return False
    if node_id == token.node_id:
        return _apply_at_node(step, token, node, payload)
    if (
        waiting.kind == NodeKind.EVENT_BASED
        and token.phase == Phase.WAITS
        and any(flow.target == node_id for flow in waiting.outgoing)
    ):
        step.end(token)
        step.plan(node_id, token.scope, payload)
        return True
    if node_id in waiting.boundaries and not step.is_inner(token):
        _leave_by(step, token, node, payload)
        return True
    if node.scope_id in waiting.event_subprocesses and _begins_inside(step, token):
        _begin_event_subprocess(step, token, node, payload)
        return True
    return False


def _apply_at_node(step: StepContext, token: Token, node: FlowNode, payload: Payload) -> bool:
    if node.kind not in {NodeKind.CATCH, NodeKind.RECEIVE} or token.phase != Phase.WAITS or token.loop:
        return False
    finish(step, token, payload)
    return True


def catch(step: StepContext, thrower: Token, thrown: ErrorTrigger | EscalationTrigger, payload: Payload) -> bool:
    """Let the nearest boundary event or event sub-process around a token catch its thrown error or escalation.

    shape:   false if no event catches the error or escalation
    """
    for at, node_ids in _around(step, thrower):
        if catcher := next(_catching(step, thrown, node_ids), None):
            begin = _leave_by if catcher.kind == NodeKind.BOUNDARY else _begin_event_subprocess
            begin(step, at, catcher, payload)
            return True
    return False


def caught_around(step: StepContext, caller: Token) -> Catches:
    """Return the errors and escalations of a child that the instance or its callers catch."""
    around = list(_around(step, caller))
    above = step.instance.catches

    def caught(kind: type[ErrorTrigger | EscalationTrigger]) -> tuple[tuple[str | None, bool], ...]:
        nodes = (node for _, node_ids in around for node in _catching(step, kind(None), node_ids, any_code=True))
        return tuple((_code_of(node), node.is_interrupting) for node in nodes)

    return Catches(caught(ErrorTrigger) + above.errors, caught(EscalationTrigger) + above.escalations)


def _around(step: StepContext, thrower: Token) -> Iterator[tuple[Token, Sequence[str]]]:
    """Yield the event nodes that can catch an error or escalation of a token, the nearest first.

    shape:   pairs of a token and the event nodes at this token: the starts of event sub-processes inside it, then its
             boundary events. The events at one token are equally near, so an event with the code takes precedence over
             a catch-all event
    """
    at: Token | None = thrower
    while at is not None:
        node = step.node_of(at)
        inside = event_subprocess_starts(step, node) if at is not thrower and _begins_inside(step, at) else ()
        yield at, (*inside, *(() if step.is_inner(at) else node.boundaries))
        at = step.alive(at.scope)


def _begins_inside(step: StepContext, scope: Token) -> bool:
    """Return whether an event sub-process inside a scope may still start."""
    return scope.phase == Phase.WAITS and not scope.is_interrupted and not step.is_body(scope)


def _catching(
    step: StepContext, thrown: ErrorTrigger | EscalationTrigger, node_ids: Iterable[str], *, any_code: bool = False
) -> Iterator[FlowNode]:
    """Yield the nodes that catch a code; the nodes with this code come before the catch-all nodes."""
    nodes = [node for node in map(step.definition.nodes.__getitem__, node_ids) if type(node.trigger) is type(thrown)]
    yield from (node for node in nodes if (code := _code_of(node)) and (any_code or code == thrown.code))
    yield from (node for node in nodes if _code_of(node) is None)


def _code_of(node: FlowNode) -> str | None:
    assert isinstance(node.trigger, ErrorTrigger | EscalationTrigger), "only these have codes"
    return node.trigger.code


def _leave_by(step: StepContext, token: Token, boundary: FlowNode, payload: Payload) -> None:
    if boundary.is_interrupting:
        step.terminate(token)
    step.plan(boundary.node_id, token.scope, payload)


def _begin_event_subprocess(step: StepContext, scope: Token, start: FlowNode, payload: Payload) -> None:
    if start.is_interrupting:
        step.terminate_inside(scope)
        scope.is_interrupted = True
        step.effects += closed_by_interrupt(scope, event_subprocess_starts(step, step.node_of(scope)))
    step.plan(start.scope_id, scope.key, payload)
