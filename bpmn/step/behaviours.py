"""Execute a node when a token enters it, by the node's kind."""

from collections.abc import Callable, Mapping
from datetime import datetime

from shardclock_server.bpmn.model.definition import (
    CallWork,
    ErrorTrigger,
    EscalationTrigger,
    FlowNode,
    NodeKind,
    ScriptWork,
    ServiceWork,
    SignalTrigger,
    TerminateTrigger,
    UserWork,
)
from shardclock_server.bpmn.model.expressions import InvalidValue, Text
from shardclock_server.bpmn.model.extensions import check_retries
from shardclock_server.bpmn.model.times import moment_of
from shardclock_server.bpmn.step.effects import (
    ChildOpened,
    EscalationThrown,
    InstanceEnded,
    Outcome,
    ServiceTaskOpened,
    SignalThrown,
    TaskOpened,
)
from shardclock_server.bpmn.step.events import catch, caught_around
from shardclock_server.bpmn.step.loops import begin_loop, variables_of_execution
from shardclock_server.bpmn.step.node_exit import finish
from shardclock_server.bpmn.step.state import ROOT, Phase, PlannedEntry, Token
from shardclock_server.bpmn.step.tokens import StepContext
from shardclock_server.bpmn.step.variables import (
    EvaluationFailed,
    describe_lookups,
    evaluate_inputs,
    evaluate_text,
    visible_variables,
)
from shardclock_server.bpmn.step.wait_opening import wait_for, watch
from shardclock_server.feel import Json
from shardclock_server.timers.refusal import InvalidTimer, shortened

TYPE_CHARS_MAX = 200
ASSIGNEE_CHARS_MAX = 200  # The assignee is a column of an index on tasks.


def enter(step: StepContext, entry: PlannedEntry) -> None:
    """Create a token at a node, unless the scope has ended since the entry was planned."""
    scope = step.alive(entry.scope)
    if scope is None or (scope.loop and scope.loop.is_enough):
        return
    node = step.definition.nodes[entry.node_id]
    token = step.add(entry.node_id, entry.scope)
    number_execution(token, scope, node, entry.number)
    if entry.results is None or node.kind == NodeKind.EVENT_SUBPROCESS:
        begin_node(step, token, entry.results)
    else:
        finish(step, token, entry.results)


def number_execution(token: Token, scope: Token, node: FlowNode, number: int) -> None:
    """Set the number and the item of a token that executes a multi-instance activity."""
    if number:
        assert node.loop, "only executions of a multi-instance activity have numbers"
        token.number, token.variables = number, variables_of_execution(scope, node.loop, number)


def begin_node(step: StepContext, token: Token, results: Mapping[str, Json] | None = None) -> None:
    """Run the token's phases at its node; after an incident, start with the failed phase."""
    node = step.node_of(token)
    is_body = step.is_body(token)
    try:
        if token.phase == Phase.ENTERED:
            if node.inputs and not is_body:
                token.variables = evaluate_inputs(node.inputs, step.instance, token, step.budget)
            token.phase = Phase.HAS_INPUTS
        if token.phase == Phase.HAS_INPUTS:
            if node.boundaries or node.event_subprocesses:
                watch(step, token, node)
            token.phase = Phase.IS_WATCHED
        if is_body and node.loop:
            begin_loop(step, token, node.loop)
        else:
            _behave(step, token, node, results)
    except EvaluationFailed as error:
        token.phase = min(token.phase, Phase.IS_WATCHED)
        token.variables.update(results or {})  # The node needs the event's results after the incident is resolved.
        step.raise_incident(token, str(error))


def _behave(step: StepContext, token: Token, node: FlowNode, results: Mapping[str, Json] | None) -> None:
    token.phase = Phase.WAITS
    if node.kind == NodeKind.EVENT_SUBPROCESS:
        assert node.start, "an event sub-process has a start event"
        step.plan(node.start, token.key, results or {})
    elif node.kind == NodeKind.PROCESS and step.instance.start:
        step.plan(step.instance.start, token.key, results or {})
    else:
        BEHAVIOURS[node.kind](step, token, node)


def _begin_scope(step: StepContext, token: Token, node: FlowNode) -> None:
    if node.start:
        step.plan(node.start, token.key)


def _go_on(step: StepContext, token: Token, _: FlowNode) -> None:
    finish(step, token)


def _run_script(step: StepContext, token: Token, node: FlowNode) -> None:
    assert isinstance(node.work, ScriptWork), "a script task has a script"
    value = step.value(node.work.expression, token)
    finish(step, token, {node.work.result_name: value} if node.work.result_name else None)


def _wait_here(step: StepContext, token: Token, node: FlowNode) -> None:
    wait_for(step, token, [node.node_id])


def _wait_for_one(step: StepContext, token: Token, node: FlowNode) -> None:
    wait_for(step, token, [flow.target for flow in node.outgoing])


def _open_service_task(step: StepContext, token: Token, node: FlowNode) -> None:
    assert isinstance(node.work, ServiceWork), "a service task names its job type"
    work = node.work
    retries = _retries(step, token, work.retries) if work.retries else None
    task_type = _text(step, token, work.task_type, "the task's type")
    if len(task_type) > TYPE_CHARS_MAX or task_type == "log" or task_type.startswith(("job:", "process:")):
        raise EvaluationFailed(
            f"the task's type {shortened(task_type)} names no handler; write a handler's name of at most"
            f" {TYPE_CHARS_MAX} characters"
        )
    step.emit(
        ServiceTaskOpened(
            token.key, node.node_id, task_type, retries, work.headers, visible_variables(step.instance, token)
        )
    )


def _open_task(step: StepContext, token: Token, node: FlowNode) -> None:
    assert isinstance(node.work, UserWork), "a user task has a form and candidates"
    work = node.work
    task = TaskOpened(
        token.key,
        node.node_id,
        assignee=_assignee(step, token, work.assignee) if work.assignee else None,
        candidate_groups=_names(step, token, work.candidate_groups),
        candidate_users=_names(step, token, work.candidate_users),
        due_date=_moment(step, token, work.due_date),
        form_key=_text(step, token, work.form_key, "the form's key") if work.form_key else None,
    )
    step.emit(task)


def _assignee(step: StepContext, token: Token, written: Text) -> str:
    assignee = _text(step, token, written, "the assignee")
    if len(assignee) > ASSIGNEE_CHARS_MAX:
        raise EvaluationFailed(
            f"the assignee {shortened(assignee)} has {len(assignee):,} characters; at most {ASSIGNEE_CHARS_MAX}"
            " are allowed; shorten it"
        )
    return assignee


def _open_child(step: StepContext, token: Token, node: FlowNode) -> None:
    assert isinstance(node.work, CallWork), "the reader refuses a call activity that names no process"
    process_id = _text(step, token, node.work.process_id, "the called process")
    if step.instance.depth >= step.calls_depth_max:
        raise EvaluationFailed(
            f"the process {shortened(process_id)} would be number {step.calls_depth_max + 1} in a chain of calls; at"
            f" most {step.calls_depth_max} are allowed; remove the endless recursion"
        )
    variables = visible_variables(step.instance, token) if node.work.passes_all_in else dict(token.variables)
    catches = caught_around(step, token)
    step.emit(ChildOpened(token.key, node.node_id, process_id, variables, step.instance.depth + 1, catches))


def _throw(step: StepContext, token: Token, node: FlowNode) -> None:
    match node.trigger:
        case SignalTrigger(name):
            thrown = _text(step, token, name, "the signal's name")
            # Send only the variables from the token's input mappings; the receiver has its own variables.
            step.emit(SignalThrown(thrown, dict(token.variables)))
        case EscalationTrigger() as escalation:
            if throw_escalation(step, token, escalation):
                return
        case _:
            raise AssertionError("the checks allow only signals and escalations here")
    if step.alive(token.key):
        finish(step, token)


def _end(step: StepContext, token: Token, node: FlowNode) -> None:
    match node.trigger:
        case ErrorTrigger() as error:
            throw_error(step, token, error, {})
        case TerminateTrigger():
            finish(step, token)
            if scope := step.alive(token.scope):
                step.terminate_inside(scope)
        case _:
            finish(step, token)


def throw_error(
    step: StepContext, token: Token, error: ErrorTrigger, payload: Mapping[str, Json], reason: str = ""
) -> None:
    """Propagate an error to the nearest catching event of the instance, or else to the calling instance.

    If no event catches the error, the throwing token gets an incident, and no scope ends.
    """
    if catch(step, token, error, payload):
        return
    instance = step.instance
    if instance.is_child and instance.catches.has_error(error.code):
        root = instance.tokens[ROOT]
        step.terminate(root)
        step.emit(InstanceEnded(Outcome.ERROR, root.variables, error.code, thrown=payload))
        return
    because = f": {reason}" if reason else ""
    step.raise_incident(
        token,
        f"no event catches the error {shortened(error.code)}{because}; resolve the incident to repeat the node, or move"
        " the token",
    )


def throw_escalation(step: StepContext, token: Token, escalation: EscalationTrigger) -> bool:
    """Propagate an escalation to the nearest catching event; if no event catches it, the throwing token continues.

    shape:   true if a caller catches the escalation and ends this child, so that the child must not continue
    """
    instance = step.instance
    if catch(step, token, escalation, {}) or not instance.is_child:
        return False
    assert escalation.code, "an escalation has a code"
    step.emit(EscalationThrown(escalation.code))
    return instance.catches.ends_at(escalation.code)


def _text(step: StepContext, token: Token, text: Text, subject: str) -> str:
    return evaluate_text(text, step.instance, token, step.budget, subject=subject)


def _retries(step: StepContext, token: Token, text: Text) -> int:
    try:
        return check_retries(step.value(text, token))
    except InvalidValue as error:
        raise EvaluationFailed(f"{error}{describe_lookups(step.instance, token, text)}") from None


def _names(step: StepContext, token: Token, text: Text | None) -> tuple[str, ...]:
    """Read names from a list, or from a text with commas, as Camunda does."""
    value = step.value(text, token) if text else None
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    if value is None:
        return ()
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return tuple(str(name) for name in value)
    raise EvaluationFailed(
        f"the candidates are {shortened(value)}, not a list of names{describe_lookups(step.instance, token, text)}"
    )


def _moment(step: StepContext, token: Token, text: Text | None) -> datetime | None:
    if text is None or (value := step.value(text, token)) is None:
        return None
    try:
        return moment_of(str(value))
    except InvalidTimer as error:
        raise EvaluationFailed(f"the task's due date: {error}{describe_lookups(step.instance, token, text)}") from None


BEHAVIOURS: dict[NodeKind, Callable[[StepContext, Token, FlowNode], None]] = {
    NodeKind.PROCESS: _begin_scope,
    NodeKind.SUBPROCESS: _begin_scope,
    NodeKind.START: _go_on,
    NodeKind.PASS: _go_on,
    NodeKind.END: _end,
    NodeKind.SCRIPT: _run_script,
    NodeKind.SERVICE: _open_service_task,
    NodeKind.USER: _open_task,
    NodeKind.CALL: _open_child,
    NodeKind.RECEIVE: _wait_here,
    NodeKind.CATCH: _wait_here,
    NodeKind.THROW: _throw,
    NodeKind.BOUNDARY: _go_on,
    NodeKind.EXCLUSIVE: _go_on,
    NodeKind.PARALLEL: _go_on,
    NodeKind.INCLUSIVE: _go_on,
    NodeKind.EVENT_BASED: _wait_for_one,
}
