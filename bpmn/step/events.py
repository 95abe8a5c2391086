"""Make a node wait for its events (timers, messages, signals), and apply an event to the tokens around it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from shardclock_server.bpmn.model.definition import (
    Definition,
    ErrorTrigger,
    EscalationTrigger,
    FlowNode,
    MessageTrigger,
    NodeKind,
    SignalTrigger,
    TimerKind,
    TimerTrigger,
)
from shardclock_server.bpmn.model.expressions import InvalidValue, Text
from shardclock_server.bpmn.model.times import check_occurs, is_negative, time_text
from shardclock_server.bpmn.step.effects import Effect, MessageOpened, SignalOpened, TimerOpened, WaitClosed
from shardclock_server.bpmn.step.node_exit import finish
from shardclock_server.bpmn.step.state import Catches, Instance, Phase, Token
from shardclock_server.bpmn.step.tokens import StepContext
from shardclock_server.bpmn.step.variables import EvaluationFailed, describe_lookups, evaluate_text
from shardclock_server.feel import Json
from shardclock_server.timers.duration import add_duration, parse_duration
from shardclock_server.timers.zone import UTC_ZONE

Payload = Mapping[str, Json]
AT_ONCE = "PT0S"  # replaces a computed duration below zero, as in Camunda 8
WAITED_CHARS_MAX = 200  # the length of a time, a name or a key: one index of subscriptions has both name and key


def watch(step: StepContext, token: Token, node: FlowNode) -> None:
    """Open the waits around a token at a node: its boundary events, and the event sub-processes inside it.

    errors:  EvaluationFailed  an expression's value can't be waited for; no wait was opened
    """
    watched: list[str] = []
    if not step.is_inner(token):
        watched += node.boundaries
    if node.event_subprocesses and (node.loop is None or step.is_inner(token)):
        watched += _starts(step, node)
    wait_for(step, token, watched)


def wait_for(step: StepContext, token: Token, node_ids: list[str]) -> None:
    """Open the waits of some nodes for a token, all or none.

    errors:  EvaluationFailed
    """
    opened = [effect for node_id in node_ids for effect in _opened(step, token, step.definition.nodes[node_id])]
    step.effects += opened


def opened_at_deployment(definition: Definition, *, now: datetime) -> tuple[Effect, ...]:
    """Return the waits of a process's start events. Expressions are evaluated now, and see no variables.

    shape:   TimerOpened, MessageOpened and SignalOpened, with token 0
    errors:  EvaluationFailed  an expression's value can't be waited for
    """
    step = StepContext(definition, Instance(), now)
    wait_for(step, Token(0, definition.process_id, 0), list(definition.starts))
    return tuple(step.effects)


def _opened(step: StepContext, token: Token, node: FlowNode) -> Iterator[Effect]:
    def text(written: Text, subject: str, seen_by: Token = token) -> str:
        value = evaluate_text(written, step.instance, seen_by, step.budget, subject=f"{subject} of {node.node_id}")
        if len(value) > WAITED_CHARS_MAX:
            raise EvaluationFailed(
                f"{subject} of {node.node_id} has {len(value):,} characters, and may have {WAITED_CHARS_MAX};"
                " shorten it"
            )
        return value

    match node.trigger:
        case TimerTrigger(kind, written):
            is_computed = not isinstance(written, str)
            spelled = text(written, "the time")
            try:
                time = _readable(kind, spelled, now=step.now, is_computed=is_computed)
            except EvaluationFailed as error:
                raise EvaluationFailed(f"{error}{describe_lookups(step.instance, token, written)}") from None
            yield TimerOpened(token.key, node.node_id, kind, time)
        case MessageTrigger(name, correlation):
            # The start event of a process ignores the key. A boundary event's key is evaluated in the scope around the
            # activity.
            around = step.instance.tokens.get(token.scope, token) if node.kind == NodeKind.BOUNDARY else token
            key = text(correlation, "the correlation key", around) if correlation and token.key else ""
            yield MessageOpened(token.key, node.node_id, text(name, "the message's name"), key)
        case SignalTrigger(name):
            yield SignalOpened(token.key, node.node_id, text(name, "the signal's name"))
        case _:
            pass  # errors and escalations come from inside the instance


def _readable(kind: TimerKind, text: str, *, now: datetime, is_computed: bool) -> str:
    if kind == TimerKind.DURATION and is_computed and is_negative(text):
        return AT_ONCE
    try:
        spelled = time_text(kind, text)
        if kind == TimerKind.DURATION:
            add_duration(now, parse_duration(spelled), UTC_ZONE)
        if kind == TimerKind.CYCLE and is_computed:  # a literal cycle was checked at the deployment
            check_occurs(spelled)
    except InvalidValue as error:
        raise EvaluationFailed(str(error)) from None
    except OverflowError:
        raise EvaluationFailed(f"{text!r} from now is after the year 9999; give a shorter time") from None
    return spelled


def apply_event(step: StepContext, token: Token, node_id: str, payload: Payload) -> bool:
    """Apply an event to the token that waits for the event.

    shape:   False: the token no longer waits for the event
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
    """Find the nearest boundary event or event sub-process around a thrower that catches an error or escalation.

    shape:   False: no event catches the error or escalation
    """
    for at, node_ids in _around(step, thrower):
        if catcher := next(_catching(step, thrown, node_ids), None):
            begin = _leave_by if catcher.kind == NodeKind.BOUNDARY else _begin_event_subprocess
            begin(step, at, catcher, payload)
            return True
    return False


def caught_around(step: StepContext, caller: Token) -> Catches:
    """Return the errors and escalations that the instance or its callers catch when a child throws them."""
    around = list(_around(step, caller))
    above = step.instance.catches

    def caught(kind: type[ErrorTrigger | EscalationTrigger]) -> tuple[tuple[str | None, bool], ...]:
        nodes = (node for _, node_ids in around for node in _catching(step, kind(None), node_ids, any_code=True))
        return tuple((_code_of(node), node.is_interrupting) for node in nodes)

    return Catches(caught(ErrorTrigger) + above.errors, caught(EscalationTrigger) + above.escalations)


def _around(step: StepContext, thrower: Token) -> Iterator[tuple[Token, Sequence[str]]]:
    """Yield the events around a token, the nearest first.

    shape:   a token, and its events: the starts of event sub-processes inside the token, then its boundary events. The
             events of one token are equally near, so an event with the code takes precedence over a catch-all event
    """
    at: Token | None = thrower
    while at is not None:
        inside = _starts_of(step, at) if at is not thrower and _begins_inside(step, at) else ()
        yield at, (*inside, *(() if step.is_inner(at) else step.node_of(at).boundaries))
        at = step.alive(at.scope)


def _begins_inside(step: StepContext, scope: Token) -> bool:
    """Return whether an event may still start an event sub-process inside a scope."""
    return scope.phase == Phase.WAITS and not scope.is_interrupted and not step.is_body(scope)


def _catching(
    step: StepContext, thrown: ErrorTrigger | EscalationTrigger, node_ids: Iterable[str], *, any_code: bool = False
) -> Iterator[FlowNode]:
    """Yield the nodes that catch a code, or any code; nodes with a code come before catch-all nodes."""
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
        for node_id in _starts_of(step, scope):
            step.emit(WaitClosed(scope.key, node_id))
    step.plan(start.scope_id, scope.key, payload)


def _starts_of(step: StepContext, scope: Token) -> list[str]:
    return _starts(step, step.node_of(scope))


def _starts(step: StepContext, node: FlowNode) -> list[str]:
    found = (step.definition.nodes[inner].start for inner in node.event_subprocesses)
    return [start for start in found if start]
