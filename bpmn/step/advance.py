"""Advance an instance by one signal, until nothing can go on without another one."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from shardclock_server.bpmn.model.definition import SCOPES, Call, Definition, Error, Escalation, Kind
from shardclock_server.bpmn.step.behaviours import begin_node, enter, number_execution, throw_error, throw_escalation
from shardclock_server.bpmn.step.effects import Effect, Ended, Outcome
from shardclock_server.bpmn.step.events import happen
from shardclock_server.bpmn.step.joins import join
from shardclock_server.bpmn.step.leaving import finish, leave
from shardclock_server.bpmn.step.loops import go_on_with_loop
from shardclock_server.bpmn.step.moves import move
from shardclock_server.bpmn.step.signals import (
    CancelAsked,
    Completed,
    Continued,
    ErrorThrown,
    Escalated,
    Failed,
    Happened,
    Moved,
    Retried,
    Signal,
    VariablesSet,
)
from shardclock_server.bpmn.step.state import NO_CATCHES, ROOT, Catches, Instance, Phase, Token
from shardclock_server.bpmn.step.stepping import CALLS_DEPTH_MAX, Stepping
from shardclock_server.bpmn.step.variables import spread
from shardclock_server.feel import Json

# More entries into nodes in one step are a circle of nodes that wait for nothing.
ENTRIES_MAX = 10_000
ANSWERED = frozenset({Kind.SERVICE, Kind.USER, Kind.CALL})
# Asked before each node that a token enters, but for the first: may the step go on, or is the rest for the next one? It
# is told how many characters the step has made so far.
GoesOn = Callable[[int], bool]


def always(_chars: int) -> bool:
    """Let a step go on until all tokens wait."""
    return True


class Step(NamedTuple):
    """What follows from a signal; it is stale if nobody waited for it, and then nothing follows.

    The instance's `rest` is what the step had no time for: `Continued`, and each other signal, goes on with it.

    shape:   `chars` counts characters that were made, of values and of what is sent
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
    goes_on: GoesOn = always,
    calls_depth_max: int = CALLS_DEPTH_MAX,
) -> tuple[Instance, Step]:
    """Start an instance, at the start event without a trigger or at the one that is named.

    shape:   `depth` is how many call activities wait above it, and `catches` what they catch
    errors:  ValueError  the process has no such start event
    """
    instance = Instance(depth=depth, start=start, catches=catches)
    step = Stepping(definition, instance, now, calls_depth_max=calls_depth_max)
    first = definition.root.start if start is None else start
    if first not in definition.root.starts:
        raise ValueError(f"{definition.process_id} has no start event {start or 'without a trigger'}")
    root = step.add(definition.process_id, 0)
    # An output mapping of the event that begins the process says what of its variables the process gets.
    is_limited = start is not None and bool(definition.nodes[start].outputs)
    root.variables = {} if is_limited else dict(variables)
    begin_node(step, root, variables if is_limited else None)
    _run(step, goes_on)
    return instance, Step(tuple(step.effects), chars=step.spending.chars)


def begin_stopped(
    definition: Definition,
    variables: Mapping[str, Json],
    sentence: str,
    *,
    now: datetime,
    start: str | None = None,
) -> tuple[Instance, Step]:
    """Start an instance that stops with an incident before its start event; a resolved incident begins it again."""
    instance = Instance(start=start)
    step = Stepping(definition, instance, now)
    root = step.add(definition.process_id, 0)
    root.variables = dict(variables)
    step.raise_incident(root, sentence)
    return instance, Step(tuple(step.effects))


def advance(
    definition: Definition,
    instance: Instance,
    signal: Signal,
    *,
    now: datetime,
    goes_on: GoesOn = always,
    calls_depth_max: int = CALLS_DEPTH_MAX,
) -> Step:
    """Advance an instance by one signal. The instance is changed in place."""
    step = Stepping(definition, instance, now, calls_depth_max=calls_depth_max)
    if not _take(step, signal):
        return Step((), is_stale=True)
    _run(step, goes_on)
    return Step(tuple(step.effects), chars=step.spending.chars)


def _take(step: Stepping, signal: Signal) -> bool:
    """Let a signal act; False: it is stale."""
    match signal:
        case CancelAsked():
            return _cancel(step)
        case Moved():
            return move(step, signal)
        case Continued():
            return step.instance.rest is not None
        case _:
            token = step.alive(signal.token)
            return token is not None and _take_for(step, token, signal)


def _take_for(
    step: Stepping,
    token: Token,
    signal: Happened | Completed | Failed | ErrorThrown | Escalated | Retried | VariablesSet,
) -> bool:
    match signal:
        case Happened(_, node_id, variables):
            return happen(step, token, node_id, variables)
        case VariablesSet(_, variables):
            token.variables.update(variables)
            return True
        case Retried():
            return _retry(step, token)
        case _:
            return _answer(step, token, signal)


def _answer(step: Stepping, token: Token, signal: Completed | Failed | ErrorThrown | Escalated) -> bool:
    node = step.node_of(token)
    if node.kind not in ANSWERED or token.phase != Phase.WAITS or token.loop or token.has_incident:
        return False
    match signal:
        case Completed(_, variables):
            is_kept = not isinstance(node.work, Call) or node.work.passes_all_out or bool(node.outputs)
            finish(step, token, variables if is_kept else {})
        case Failed(_, reason):
            step.raise_incident(token, reason)
        case ErrorThrown(_, code, reason, variables):
            throw_error(step, token, Error(code), variables, reason)
        case Escalated(_, code):
            throw_escalation(step, token, Escalation(code))
    return True


def _cancel(step: Stepping) -> bool:
    root = step.alive(ROOT)
    if root is None:
        return False
    step.terminate(root)
    step.emit(Ended(Outcome.CANCELED, root.variables))
    return True


def _retry(step: Stepping, token: Token) -> bool:
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


def _run(step: Stepping, goes_on: GoesOn) -> None:
    """Go on until nothing is planned, and no scope is left in which something has changed; or for long enough."""
    before = step.entered
    while step.entries or step.touched:
        if step.entries and step.entered > before and not goes_on(step.spending.chars):
            break
        step.spending.begin_element()
        if not step.entries:
            key = next(iter(step.touched))
            del step.touched[key]
            if scope := step.alive(key):
                _settle(step, scope)
        elif step.entered < ENTRIES_MAX:
            step.entered += 1
            enter(step, step.entries.popleft())
        else:
            _stop(step)
    step.leave_rest()


def _settle(step: Stepping, scope: Token) -> None:
    """Look what follows inside a scope in which a token has ended or has come to a join."""
    if scope.phase != Phase.WAITS:
        return
    if scope.loop:
        if not scope.has_incident:
            go_on_with_loop(step, scope)
        return
    has_joined = bool(scope.arrived) and join(step, scope)
    if has_joined or not scope.arrived:
        step.resolve_incident(scope)  # of a join that has waited for what could not come
    if has_joined or step.instance.children(scope.key):
        return
    if not scope.arrived:
        finish(step, scope)
    elif not scope.has_incident:
        waiting = ", ".join(sorted({step.definition.joins[flow_id].node_id for flow_id in scope.arrived}))
        step.raise_incident(
            scope,
            f"{waiting} waits for a token that can't come; move one to a node before {waiting}, to join when it"
            f" comes, or to {waiting} itself, to go on without it",
        )


def _stop(step: Stepping) -> None:
    """Let each token that would go on wait for somebody who looks at the model."""
    while step.entries:
        entry = step.entries.popleft()
        if scope := step.alive(entry.scope):
            token = step.add(entry.node_id, entry.scope)
            number_execution(token, scope, step.node_of(token), entry.number)
            if entry.results is not None:
                spread(entry.results, step.instance, token)
                token.phase = Phase.ENTERED if step.node_of(token).kind == Kind.EVENT_SUBPROCESS else Phase.IS_DONE
            step.raise_incident(
                token,
                f"the instance entered {ENTRIES_MAX:,} nodes without waiting; resolve this to go on as many again",
            )
