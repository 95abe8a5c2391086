"""Open the waits of a node for timers, messages and signals. `wait_closing` closes them."""

from collections.abc import Iterator
from datetime import datetime

from shardclock_server.bpmn.model.definition import (
    Definition,
    FlowNode,
    MessageTrigger,
    NodeKind,
    SignalTrigger,
    TimerKind,
    TimerTrigger,
)
from shardclock_server.bpmn.model.expressions import InvalidValue, Text
from shardclock_server.bpmn.model.times import check_occurs, is_negative, time_text
from shardclock_server.bpmn.step.effects import Effect, MessageOpened, SignalOpened, TimerOpened
from shardclock_server.bpmn.step.state import Instance, Token
from shardclock_server.bpmn.step.tokens import StepContext
from shardclock_server.bpmn.step.variables import EvaluationFailed, describe_lookups, evaluate_text
from shardclock_server.timers.duration import add_duration, parse_duration
from shardclock_server.timers.zone import UTC_ZONE

AT_ONCE = "PT0S"  # The replacement for a computed duration below zero, as in Camunda 8.
# The length limit for a time, a name or a key; the name and the key are columns of an index on subscriptions.
WAITED_CHARS_MAX = 200


def watch(step: StepContext, token: Token, node: FlowNode) -> None:
    """Open the waits of a node's boundary events and of the event sub-processes inside the node.

    errors:  EvaluationFailed  an expression gives an invalid time, name or key; no wait was opened
    """
    watched: list[str] = []
    if not step.is_inner(token):
        watched += node.boundaries
    if node.event_subprocesses and (node.loop is None or step.is_inner(token)):
        watched += event_subprocess_starts(step, node)
    wait_for(step, token, watched)


def wait_for(step: StepContext, token: Token, node_ids: list[str]) -> None:
    """Open the waits of some nodes for a token; if one of the waits is invalid, open none.

    errors:  EvaluationFailed
    """
    opened = [effect for node_id in node_ids for effect in _opened(step, token, step.definition.nodes[node_id])]
    step.effects += opened


def opened_at_deployment(definition: Definition, *, now: datetime) -> tuple[Effect, ...]:
    """Return the waits of a process's start events. The expressions are evaluated now, without variables.

    shape:   TimerOpened, MessageOpened and SignalOpened, with token 0
    errors:  EvaluationFailed  an expression gives an invalid time, name or key
    """
    step = StepContext(definition, Instance(), now)
    wait_for(step, Token(0, definition.process_id, 0), list(definition.starts))
    return tuple(step.effects)


def _opened(step: StepContext, token: Token, node: FlowNode) -> Iterator[Effect]:
    def text(written: Text, subject: str, seen_by: Token = token) -> str:
        value = evaluate_text(written, step.instance, seen_by, step.budget, subject=f"{subject} of {node.node_id}")
        if len(value) > WAITED_CHARS_MAX:
            raise EvaluationFailed(
                f"{subject} of {node.node_id} has {len(value):,} characters; the limit is {WAITED_CHARS_MAX};"
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
            # The start event of a process has no key. The key of a boundary event is evaluated in the scope around the
            # activity.
            around = step.instance.tokens.get(token.scope, token) if node.kind == NodeKind.BOUNDARY else token
            key = text(correlation, "the correlation key", around) if correlation and token.key else ""
            yield MessageOpened(token.key, node.node_id, text(name, "the message's name"), key)
        case SignalTrigger(name):
            yield SignalOpened(token.key, node.node_id, text(name, "the signal's name"))
        case _:
            pass  # Errors and escalations need no wait, because they come from the instance itself.


def _readable(kind: TimerKind, text: str, *, now: datetime, is_computed: bool) -> str:
    if kind == TimerKind.DURATION and is_computed and is_negative(text):
        return AT_ONCE
    try:
        spelled = time_text(kind, text)
        if kind == TimerKind.DURATION:
            add_duration(now, parse_duration(spelled), UTC_ZONE)
        if kind == TimerKind.CYCLE and is_computed:  # The deployment has checked the literal cycles.
            check_occurs(spelled)
    except InvalidValue as error:
        raise EvaluationFailed(str(error)) from None
    except OverflowError:
        raise EvaluationFailed(f"{text!r} from now is after the year 9999; give a shorter time") from None
    return spelled


def event_subprocess_starts(step: StepContext, node: FlowNode) -> list[str]:
    """Return the start events of the event sub-processes inside a node."""
    found = (step.definition.nodes[inner].start for inner in node.event_subprocesses)
    return [start for start in found if start]
