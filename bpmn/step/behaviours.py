"""Say what a node does when a token comes to it."""

from collections.abc import Callable, Mapping
from datetime import datetime

from shardclock_server.bpmn.model.definition import (
    Call,
    Error,
    Escalation,
    Kind,
    Node,
    Script,
    ServiceWork,
    Signal,
    Terminate,
    UserWork,
)
from shardclock_server.bpmn.model.expressions import Text, Unreadable
from shardclock_server.bpmn.model.extensions import check_retries
from shardclock_server.bpmn.model.times import moment_of
from shardclock_server.bpmn.step.effects import (
    ChildOpened,
    Ended,
    EscalationThrown,
    Outcome,
    ServiceTaskOpened,
    SignalThrown,
    TaskOpened,
)
from shardclock_server.bpmn.step.events import catch, caught_around, wait_for, watch
from shardclock_server.bpmn.step.leaving import finish
from shardclock_server.bpmn.step.loops import begin_loop, variables_of_execution
from shardclock_server.bpmn.step.state import ROOT, Entry, Phase, Token
from shardclock_server.bpmn.step.stepping import Stepping
from shardclock_server.bpmn.step.variables import Unanswerable, assigned, lookups, text_for, visible
from shardclock_server.feel import Json
from shardclock_server.timers.refusal import InvalidTimer, shortened

TYPE_CHARS_MAX = 200


def enter(step: Stepping, entry: Entry) -> None:
    """Let a token enter a node, unless its scope has ended meanwhile."""
    scope = step.alive(entry.scope)
    if scope is None or (scope.loop and scope.loop.is_enough):
        return
    node = step.definition.nodes[entry.node_id]
    token = step.add(entry.node_id, entry.scope)
    number_execution(token, scope, node, entry.number)
    if entry.results is None or node.kind == Kind.EVENT_SUBPROCESS:
        begin_node(step, token, entry.results)
    else:
        finish(step, token, entry.results)


def number_execution(token: Token, scope: Token, node: Node, number: int) -> None:
    """Give one execution of a multi-instance activity its number and its item."""
    if number:
        assert node.loop, "only executions of a multi-instance activity have numbers"
        token.number, token.variables = number, variables_of_execution(scope, node.loop, number)


def begin_node(step: Stepping, token: Token, results: Mapping[str, Json] | None = None) -> None:
    """Do what a token has to do at its node; what an incident stopped goes on where it was."""
    node = step.node_of(token)
    is_body = step.is_body(token)
    try:
        if token.phase == Phase.ENTERED:
            if node.inputs and not is_body:
                token.variables = assigned(node.inputs, step.instance, token, step.spending)
            token.phase = Phase.HAS_INPUTS
        if token.phase == Phase.HAS_INPUTS:
            if node.boundaries or node.event_subprocesses:
                watch(step, token, node)
            token.phase = Phase.IS_WATCHED
        if is_body and node.loop:
            begin_loop(step, token, node.loop)
        else:
            _behave(step, token, node, results)
    except Unanswerable as error:
        token.phase = min(token.phase, Phase.IS_WATCHED)
        token.variables.update(results or {})  # so that what an event has begun has them when it goes on
        step.raise_incident(token, str(error))


def _behave(step: Stepping, token: Token, node: Node, results: Mapping[str, Json] | None) -> None:
    token.phase = Phase.WAITS
    if node.kind == Kind.EVENT_SUBPROCESS:
        assert node.start, "an event sub-process has a start event"
        step.plan(node.start, token.key, results or {})
    elif node.kind == Kind.PROCESS and step.instance.start:
        step.plan(step.instance.start, token.key, results or {})
    else:
        BEHAVIOURS[node.kind](step, token, node)


def _begin_scope(step: Stepping, token: Token, node: Node) -> None:
    if node.start:
        step.plan(node.start, token.key)


def _go_on(step: Stepping, token: Token, _: Node) -> None:
    finish(step, token)


def _run_script(step: Stepping, token: Token, node: Node) -> None:
    assert isinstance(node.work, Script), "a script task has a script"
    value = step.value(node.work.expression, token)
    finish(step, token, {node.work.result_name: value} if node.work.result_name else None)


def _wait_here(step: Stepping, token: Token, node: Node) -> None:
    wait_for(step, token, [node.node_id])


def _wait_for_one(step: Stepping, token: Token, node: Node) -> None:
    wait_for(step, token, [flow.target for flow in node.outgoing])


def _open_service_task(step: Stepping, token: Token, node: Node) -> None:
    assert isinstance(node.work, ServiceWork), "a task that somebody else does says who"
    work = node.work
    retries = _retries(step, token, work.retries) if work.retries else None
    task_type = _text(step, token, work.task_type, "the task's type")
    if len(task_type) > TYPE_CHARS_MAX or task_type == "log" or task_type.startswith(("job:", "process:")):
        raise Unanswerable(
            f"the task's type {shortened(task_type)} is no handler's; name one, in at most {TYPE_CHARS_MAX} characters"
        )
    step.emit(
        ServiceTaskOpened(token.key, node.node_id, task_type, retries, work.headers, visible(step.instance, token))
    )


def _open_task(step: Stepping, token: Token, node: Node) -> None:
    assert isinstance(node.work, UserWork), "a user task says who may do it"
    work = node.work
    task = TaskOpened(
        token.key,
        node.node_id,
        assignee=_text(step, token, work.assignee, "the assignee") if work.assignee else None,
        candidate_groups=_names(step, token, work.candidate_groups),
        candidate_users=_names(step, token, work.candidate_users),
        due_date=_moment(step, token, work.due_date),
        form_key=_text(step, token, work.form_key, "the form's key") if work.form_key else None,
    )
    step.emit(task)


def _open_child(step: Stepping, token: Token, node: Node) -> None:
    assert isinstance(node.work, Call), "a call activity says which process it calls"
    process_id = _text(step, token, node.work.process_id, "the called process")
    if step.instance.depth >= step.calls_depth_max:
        raise Unanswerable(
            f"the process {shortened(process_id)} would be the {step.calls_depth_max + 1}th that calls another in a"
            f" row, and there may be {step.calls_depth_max}; let a process not call itself for ever"
        )
    variables = visible(step.instance, token) if node.work.passes_all_in else dict(token.variables)
    catches = caught_around(step, token)
    step.emit(ChildOpened(token.key, node.node_id, process_id, variables, step.instance.depth + 1, catches))


def _throw(step: Stepping, token: Token, node: Node) -> None:
    match node.trigger:
        case Signal(name):
            thrown = _text(step, token, name, "the signal's name")
            # Its own variables alone, those of its input mappings: whoever gets the signal has variables of its own.
            step.emit(SignalThrown(thrown, dict(token.variables)))
        case Escalation() as escalation:
            if throw_escalation(step, token, escalation):
                return
        case _:
            raise AssertionError("the checks let nothing else be thrown")
    if step.alive(token.key):
        finish(step, token)


def _end(step: Stepping, token: Token, node: Node) -> None:
    match node.trigger:
        case Error() as error:
            throw_error(step, token, error, {})
        case Terminate():
            finish(step, token)
            if scope := step.alive(token.scope):
                step.terminate_inside(scope)
        case _:
            finish(step, token)


def throw_error(step: Stepping, token: Token, error: Error, payload: Mapping[str, Json], reason: str = "") -> None:
    """Let an error go up until somebody catches it: inside the instance, or a caller of a child.

    If nobody does, its thrower has an incident, and nothing has ended.
    """
    if catch(step, token, error, payload):
        return
    instance = step.instance
    if instance.is_child and instance.catches.has_error(error.code):
        root = instance.tokens[ROOT]
        step.terminate(root)
        step.emit(Ended(Outcome.ERROR, root.variables, error.code, thrown=payload))
        return
    because = f": {reason}" if reason else ""
    step.raise_incident(
        token,
        f"nobody catches the error {shortened(error.code)}{because}; resolve this to do it again, or move the token",
    )


def throw_escalation(step: Stepping, token: Token, escalation: Escalation) -> bool:
    """Let an escalation go up until somebody catches it; if nobody does, its thrower goes on all the same.

    shape:   True: a caller that catches it ends this child, so nothing goes on here
    """
    instance = step.instance
    if catch(step, token, escalation, {}) or not instance.is_child:
        return False
    assert escalation.code, "what is thrown has a code"
    step.emit(EscalationThrown(escalation.code))
    return instance.catches.ends_at(escalation.code)


def _text(step: Stepping, token: Token, text: Text, meant: str) -> str:
    return text_for(text, step.instance, token, step.spending, meant=meant)


def _retries(step: Stepping, token: Token, text: Text) -> int:
    try:
        return check_retries(step.value(text, token))
    except Unreadable as error:
        raise Unanswerable(f"{error}{lookups(step.instance, token, text)}") from None


def _names(step: Stepping, token: Token, text: Text | None) -> tuple[str, ...]:
    """Read names as Camunda has them: a list, or a text with commas."""
    value = step.value(text, token) if text else None
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    if value is None:
        return ()
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return tuple(str(name) for name in value)
    raise Unanswerable(
        f"the candidates are {shortened(value)}, not a list of names{lookups(step.instance, token, text)}"
    )


def _moment(step: Stepping, token: Token, text: Text | None) -> datetime | None:
    if text is None or (value := step.value(text, token)) is None:
        return None
    try:
        return moment_of(str(value))
    except InvalidTimer as error:
        raise Unanswerable(f"the task's due date: {error}{lookups(step.instance, token, text)}") from None


BEHAVIOURS: dict[Kind, Callable[[Stepping, Token, Node], None]] = {
    Kind.PROCESS: _begin_scope,
    Kind.SUBPROCESS: _begin_scope,
    Kind.START: _go_on,
    Kind.PASS: _go_on,
    Kind.END: _end,
    Kind.SCRIPT: _run_script,
    Kind.SERVICE: _open_service_task,
    Kind.USER: _open_task,
    Kind.CALL: _open_child,
    Kind.RECEIVE: _wait_here,
    Kind.CATCH: _wait_here,
    Kind.THROW: _throw,
    Kind.BOUNDARY: _go_on,
    Kind.EXCLUSIVE: _go_on,
    Kind.PARALLEL: _go_on,
    Kind.INCLUSIVE: _go_on,
    Kind.EVENT_BASED: _wait_for_one,
}
