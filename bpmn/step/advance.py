"""Advance an instance by one signal, until all its tokens wait."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from shardclock_server.bpmn.model.definition import (
    SCOPES,
    CallWork,
    Definition,
    ErrorTrigger,
    EscalationTrigger,
    NodeKind,
)
from shardclock_server.bpmn.step.behaviours import begin_node, enter, number_execution, throw_error, throw_escalation
from shardclock_server.bpmn.step.effects import Effect, InstanceEnded, Outcome
from shardclock_server.bpmn.step.events import apply_event
from shardclock_server.bpmn.step.joins import join
from shardclock_server.bpmn.step.loops import go_on_with_loop
from shardclock_server.bpmn.step.moves import move
from shardclock_server.bpmn.step.node_exit import finish, leave
from shardclock_server.bpmn.step.signals import (
    ActivityCompleted,
    ActivityFailed,
    CancelAsked,
    Continued,
    ErrorThrown,
    Escalated,
    EventOccurred,
    Moved,
    Retried,
    Signal,
    VariablesSet,
)
from shardclock_server.bpmn.step.state import NO_CATCHES, ROOT, Catches, Instance, Phase, Token
from shardclock_server.bpmn.step.tokens import CALLS_DEPTH_MAX, StepContext
from shardclock_server.bpmn.step.variables import propagate
from shardclock_server.feel import Json

# The limit of entries into nodes in one step. A step with more entries probably has an endless cycle of nodes that do
# not wait.
ENTRIES_MAX = 10_000
ANSWERED = frozenset({NodeKind.SERVICE, NodeKind.USER, NodeKind.CALL})
# A step calls this function before each entry into a node, except the first entry. The argument is the number of
# characters that the step has produced. False ends the step; the next step executes the remaining work.
MayContinue = Callable[[int], bool]


def always(_chars: int) -> bool:
    """Always return true, so that a step continues until all tokens wait."""
    return True


class StepResult(NamedTuple):
    """The effects of a signal. A signal is stale if no token waits for it; a stale signal has no effects.

    If `may_continue` ended the step early, the instance's `continuation` holds the remaining work. The next signal
    executes the continuation; the signal `Continued` has no other effect.

    shape:   `chars` is the number of characters in computed values and sent variables
    """

    effects: tuple[Effect, ...]
    is_stale: bool = False
    chars: int = 0


def begin(
    definition: Definition,
    variables: Mapping[str, Json],
    *,
    now: datetime,
    start: str | None = None,
    depth: int = 0,
    catches: Catches = NO_CATCHES,
    may_continue: MayContinue = always,
    calls_depth_max: int = CALLS_DEPTH_MAX,
) -> tuple[Instance, StepResult]:
    """Start an instance at the start event without a trigger, or at the start event `start`.

    shape:   `depth` is the number of call activities that lead to the instance; `catches` are the errors and
             escalations that these activities catch
    errors:  ValueError  the process has no such start event
    """
    instance = Instance(depth=depth, start=start, catches=catches)
    step = StepContext(definition, instance, now, calls_depth_max=calls_depth_max)
    first = definition.root.start if start is None else start
    if first not in definition.root.starts:
        raise ValueError(f"{definition.process_id} has no start event {start or 'without a trigger'}")
    root = step.add(definition.process_id, 0)
    # If the start event has output mappings, the process gets only the mapped variables.
    is_limited = start is not None and bool(definition.nodes[start].outputs)
    root.variables = {} if is_limited else dict(variables)
    begin_node(step, root, variables if is_limited else None)
    _run(step, may_continue)
    return instance, StepResult(tuple(step.effects), chars=step.budget.chars)


def begin_stopped(
    definition: Definition,
    variables: Mapping[str, Json],
    sentence: str,
    *,
    now: datetime,
    start: str | None = None,
) -> tuple[Instance, StepResult]:
    """Create an instance with an incident before its start event. When the incident is resolved, the process starts."""
    instance = Instance(start=start)
    step = StepContext(definition, instance, now)
    root = step.add(definition.process_id, 0)
    root.variables = dict(variables)
    step.raise_incident(root, sentence)
    return instance, StepResult(tuple(step.effects))


def advance(
    definition: Definition,
    instance: Instance,
    signal: Signal,
    *,
    now: datetime,
    may_continue: MayContinue = always,
    calls_depth_max: int = CALLS_DEPTH_MAX,
) -> StepResult:
    """Advance an instance by one signal, and change the instance in place."""
    step = StepContext(definition, instance, now, calls_depth_max=calls_depth_max)
    if not _take(step, signal):
        return StepResult((), is_stale=True)
    _run(step, may_continue)
    return StepResult(tuple(step.effects), chars=step.budget.chars)


def _take(step: StepContext, signal: Signal) -> bool:
    """Apply a signal to the instance; return False if the signal is stale."""
    match signal:
        case CancelAsked():
            return _cancel(step)
        case Moved():
            return move(step, signal)
        case Continued():
            return step.instance.continuation is not None
        case _:
            token = step.alive(signal.token)
            return token is not None and _take_for(step, token, signal)


def _take_for(
    step: StepContext,
    token: Token,
    signal: EventOccurred | ActivityCompleted | ActivityFailed | ErrorThrown | Escalated | Retried | VariablesSet,
) -> bool:
    match signal:
        case EventOccurred(_, node_id, variables):
            return apply_event(step, token, node_id, variables)
        case VariablesSet(_, variables):
            token.variables.update(variables)
            return True
        case Retried():
            return _retry(step, token)
        case _:
            return _answer(step, token, signal)


def _answer(
    step: StepContext, token: Token, signal: ActivityCompleted | ActivityFailed | ErrorThrown | Escalated
) -> bool:
    node = step.node_of(token)
    if node.kind not in ANSWERED or token.phase != Phase.WAITS or token.loop or token.has_incident:
        return False
    match signal:
        case ActivityCompleted(_, variables):
            is_kept = not isinstance(node.work, CallWork) or node.work.passes_all_out or bool(node.outputs)
            finish(step, token, variables if is_kept else {})
        case ActivityFailed(_, reason):
            step.raise_incident(token, reason)
        case ErrorThrown(_, code, reason, variables):
            throw_error(step, token, ErrorTrigger(code), variables, reason)
        case Escalated(_, code):
            throw_escalation(step, token, EscalationTrigger(code))
    return True


def _cancel(step: StepContext) -> bool:
    root = step.alive(ROOT)
    if root is None:
        return False
    step.terminate(root)
    step.emit(InstanceEnded(Outcome.CANCELED, root.variables))
    return True


def _retry(step: StepContext, token: Token) -> bool:
    if not token.has_incident:
        return False
    step.resolve_incident(token)
    if token.phase >= Phase.IS_DONE:
        leave(step, token)
    elif token.phase == Phase.WAITS and (token.loop or step.node_of(token).kind in SCOPES):
        step.touched[token.key] = None
    else:
        token.phase = min(token.phase, Phase.IS_WATCHED)
        begin_node(step, token)
    return True


def _run(step: StepContext, may_continue: MayContinue) -> None:
    """Execute planned entries and advance changed scopes, until none is left or `may_continue` ends the step."""
    before = step.entered
    while step.entries or step.touched:
        if step.entries and step.entered > before and not may_continue(step.budget.chars):
            break
        step.budget.begin_element()
        if not step.entries:
            key = next(iter(step.touched))
            del step.touched[key]
            if scope := step.alive(key):
                _advance_scope(step, scope)
        elif step.entered < ENTRIES_MAX:
            step.entered += 1
            enter(step, step.entries.popleft())
        else:
            _stop_cycle(step)
    step.store_continuation()


def _advance_scope(step: StepContext, scope: Token) -> None:
    """Advance a scope after a token inside it has ended or has arrived at a join."""
    if scope.phase != Phase.WAITS:
        return
    if scope.loop:
        if not scope.has_incident:
            go_on_with_loop(step, scope)
        return
    has_joined = bool(scope.arrived) and join(step, scope)
    if has_joined or not scope.arrived:
        step.resolve_incident(scope)  # Remove the incident of a join that waited for a missing token.
    if has_joined or step.instance.children(scope.key):
        return
    if not scope.arrived:
        finish(step, scope)
    elif not scope.has_incident:
        waiting = ", ".join(sorted({step.definition.joins[flow_id].node_id for flow_id in scope.arrived}))
        step.raise_incident(
            scope,
            f"{waiting} waits for a token that can't come; move a token to a node before {waiting}, or to"
            f" {waiting} itself to continue without the missing token",
        )


def _stop_cycle(step: StepContext) -> None:
    """Raise an incident at each planned entry into a node, because the model probably has an endless cycle."""
    while step.entries:
        entry = step.entries.popleft()
        if scope := step.alive(entry.scope):
            token = step.add(entry.node_id, entry.scope)
            number_execution(token, scope, step.node_of(token), entry.number)
            if entry.results is not None:
                propagate(entry.results, step.instance, token)
                token.phase = Phase.ENTERED if step.node_of(token).kind == NodeKind.EVENT_SUBPROCESS else Phase.IS_DONE
            step.raise_incident(
                token,
                f"the instance entered {ENTRIES_MAX:,} nodes without waiting; resolve the incident to allow as"
                " many again",
            )
