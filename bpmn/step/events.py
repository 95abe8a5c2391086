"""Open what a node waits for, and let what happened act on the tokens around it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from shardclock_server.bpmn.model.definition import (
    Definition,
    Error,
    Escalation,
    Kind,
    Message,
    Node,
    Signal,
    Timer,
    TimerKind,
)
from shardclock_server.bpmn.model.expressions import Text, Unreadable
from shardclock_server.bpmn.model.times import check_occurs, is_negative, time_text
from shardclock_server.bpmn.step.effects import Effect, MessageOpened, SignalOpened, TimerOpened, WaitClosed
from shardclock_server.bpmn.step.leaving import finish
from shardclock_server.bpmn.step.state import Catches, Instance, Phase, Token
from shardclock_server.bpmn.step.stepping import Stepping
from shardclock_server.bpmn.step.variables import Unanswerable, lookups, text_for
from shardclock_server.feel import Json
from shardclock_server.timers.duration import later, parse_duration
from shardclock_server.timers.zone import UTC_ZONE

Payload = Mapping[str, Json]
AT_ONCE = "PT0S"  # the delay of a duration back that FEEL computes, as in Camunda 8
WAITED_CHARS_MAX = 200  # of a time, a name or a key: those that wait for messages are found by both in one index


def watch(step: Stepping, token: Token, node: Node) -> None:
    """Open what can happen to a token while it is at a node: its boundary events, the event sub-processes inside it.

    errors:  Unanswerable  an expression has no value that can be waited for; nothing was opened then
    """
    watched: list[str] = []
    if not step.is_inner(token):
        watched += node.boundaries
    if node.event_subprocesses and (node.loop is None or step.is_inner(token)):
        watched += _starts(step, node)
    wait_for(step, token, watched)


def wait_for(step: Stepping, token: Token, node_ids: list[str]) -> None:
    """Open the waits of nodes, for a token: all, or none.

    errors:  Unanswerable
    """
    opened = [effect for node_id in node_ids for effect in _opened(step, token, step.definition.nodes[node_id])]
    step.effects += opened


def opened_at_deployment(definition: Definition, *, now: datetime) -> tuple[Effect, ...]:
    """Tell what the start events of a process wait for; expressions are evaluated now, and see no variables.

    shape:   TimerOpened, MessageOpened and SignalOpened, for no token
    errors:  Unanswerable  an expression has no value that can be waited for
    """
    step = Stepping(definition, Instance(), now)
    wait_for(step, Token(0, definition.process_id, 0), list(definition.starts))
    return tuple(step.effects)


def _opened(step: Stepping, token: Token, node: Node) -> Iterator[Effect]:
    def text(written: Text, meant: str, seen_by: Token = token) -> str:
        value = text_for(written, step.instance, seen_by, step.spending, meant=f"{meant} of {node.node_id}")
        if len(value) > WAITED_CHARS_MAX:
            raise Unanswerable(
                f"{meant} of {node.node_id} has {len(value):,} characters, and may have {WAITED_CHARS_MAX}; shorten it"
            )
        return value

    match node.trigger:
        case Timer(kind, written):
            is_computed = not isinstance(written, str)
            spelled = text(written, "the time")
            try:
                time = _readable(kind, spelled, now=step.now, is_computed=is_computed)
            except Unanswerable as error:
                raise Unanswerable(f"{error}{lookups(step.instance, token, written)}") from None
            yield TimerOpened(token.key, node.node_id, kind, time)
        case Message(name, correlation):
            # A process begins by the message alone, whatever its key is. A boundary event's key is of the scope around.
            around = step.instance.tokens.get(token.scope, token) if node.kind == Kind.BOUNDARY else token
            key = text(correlation, "the correlation key", around) if correlation and token.key else ""
            yield MessageOpened(token.key, node.node_id, text(name, "the message's name"), key)
        case Signal(name):
            yield SignalOpened(token.key, node.node_id, text(name, "the signal's name"))
        case _:
            pass  # errors and escalations come from inside


def _readable(kind: TimerKind, text: str, *, now: datetime, is_computed: bool) -> str:
    if kind == TimerKind.DURATION and is_computed and is_negative(text):
        return AT_ONCE
    try:
        spelled = time_text(kind, text)
        if kind == TimerKind.DURATION:
            later(now, parse_duration(spelled), UTC_ZONE)
        if kind == TimerKind.CYCLE and is_computed:  # one that is written was checked at the deployment
            check_occurs(spelled)
    except Unreadable as error:
        raise Unanswerable(str(error)) from None
    except OverflowError:
        raise Unanswerable(f"{text!r} from now is after the year 9999; give a shorter time") from None
    return spelled


def happen(step: Stepping, token: Token, node_id: str, payload: Payload) -> bool:
    """Let what a node has waited for happen.

    shape:   False: nobody waits for it any more
    """
    node, waiting = step.definition.nodes.get(node_id), step.node_of(token)
    if node is None or token.phase < Phase.IS_WATCHED:
        return False
    if node_id == token.node_id:
        return _happen_here(step, token, node, payload)
    if (
        waiting.kind == Kind.EVENT_BASED
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


def _happen_here(step: Stepping, token: Token, node: Node, payload: Payload) -> bool:
    if node.kind not in {Kind.CATCH, Kind.RECEIVE} or token.phase != Phase.WAITS or token.loop:
        return False
    finish(step, token, payload)
    return True


def catch(step: Stepping, thrower: Token, thrown: Error | Escalation, payload: Payload) -> bool:
    """Find who catches an error or an escalation: the nearest boundary event or event sub-process around its thrower.

    shape:   False: nobody does
    """
    for at, node_ids in _around(step, thrower):
        if catcher := next(_catching(step, thrown, node_ids), None):
            begin = _leave_by if catcher.kind == Kind.BOUNDARY else _begin_event_subprocess
            begin(step, at, catcher, payload)
            return True
    return False


def caught_around(step: Stepping, caller: Token) -> Catches:
    """Tell what would be caught of what a child throws: by the instance, or by its own callers."""
    around = list(_around(step, caller))
    above = step.instance.catches

    def caught(kind: type[Error | Escalation]) -> tuple[tuple[str | None, bool], ...]:
        nodes = (node for _, node_ids in around for node in _catching(step, kind(None), node_ids, any_code=True))
        return tuple((_code_of(node), node.is_interrupting) for node in nodes)

    return Catches(caught(Error) + above.errors, caught(Escalation) + above.escalations)


def _around(step: Stepping, thrower: Token) -> Iterator[tuple[Token, Sequence[str]]]:
    """Give the events around a token, the nearest first.

    shape:   the token at which they are, and the events: the starts of event sub-processes inside it, then its
             boundary events. They are equally near, so a code goes before a catch-all among them
    """
    at: Token | None = thrower
    while at is not None:
        inside = _starts_of(step, at) if at is not thrower and _begins_inside(step, at) else ()
        yield at, (*inside, *(() if step.is_inner(at) else step.node_of(at).boundaries))
        at = step.alive(at.scope)


def _begins_inside(step: Stepping, scope: Token) -> bool:
    """Say whether an event may still begin an event sub-process inside a scope."""
    return scope.phase == Phase.WAITS and not scope.is_interrupted and not step.is_body(scope)


def _catching(
    step: Stepping, thrown: Error | Escalation, node_ids: Iterable[str], *, any_code: bool = False
) -> Iterator[Node]:
    """Find the nodes that catch a code, or any; those that name their code come before those that catch all."""
    nodes = [node for node in map(step.definition.nodes.__getitem__, node_ids) if type(node.trigger) is type(thrown)]
    yield from (node for node in nodes if (code := _code_of(node)) and (any_code or code == thrown.code))
    yield from (node for node in nodes if _code_of(node) is None)


def _code_of(node: Node) -> str | None:
    assert isinstance(node.trigger, Error | Escalation), "only these have codes"
    return node.trigger.code


def _leave_by(step: Stepping, token: Token, boundary: Node, payload: Payload) -> None:
    if boundary.is_interrupting:
        step.terminate(token)
    step.plan(boundary.node_id, token.scope, payload)


def _begin_event_subprocess(step: Stepping, scope: Token, start: Node, payload: Payload) -> None:
    if start.is_interrupting:
        step.terminate_inside(scope)
        scope.is_interrupted = True
        for node_id in _starts_of(step, scope):
            step.emit(WaitClosed(scope.key, node_id))
    step.plan(start.scope_id, scope.key, payload)


def _starts_of(step: Stepping, scope: Token) -> list[str]:
    return _starts(step, step.node_of(scope))


def _starts(step: Stepping, node: Node) -> list[str]:
    found = (step.definition.nodes[inner].start for inner in node.event_subprocesses)
    return [start for start in found if start]
