"""Let a token leave a node: write outputs, choose flows, and plan the entries into the next nodes."""

from collections.abc import Mapping, Sequence

from shardclock_server.bpmn.model.definition import ErrorTrigger, Flow, FlowNode, NodeKind
from shardclock_server.bpmn.step.effects import InstanceEnded, Outcome
from shardclock_server.bpmn.step.state import Phase, Token
from shardclock_server.bpmn.step.tokens import StepContext
from shardclock_server.bpmn.step.variables import (
    EvaluationFailed,
    describe_lookups,
    evaluate_outputs,
    is_true,
    propagate,
)
from shardclock_server.feel import Json


def finish(step: StepContext, token: Token, results: Mapping[str, Json] | None = None) -> None:
    """Let a token leave its node with the results of the node's work."""
    if results:
        if step.is_body(token):
            propagate(results, step.instance, step.instance.tokens[token.scope])
        elif _keeps_results(step.node_of(token)):
            token.variables.update(results)
        else:
            propagate(results, step.instance, token)
    token.phase = Phase.IS_DONE
    leave(step, token)


def _keeps_results(node: FlowNode) -> bool:
    """Return whether results are written only to the token's own variables.

    This is true if the node has output mappings, or if it is a boundary event that caught an error.
    """
    return bool(node.outputs) or (node.kind == NodeKind.BOUNDARY and isinstance(node.trigger, ErrorTrigger))


def leave(step: StepContext, token: Token) -> None:
    """Let a token leave its node; after an incident, start with the failed phase."""
    node = step.node_of(token)
    is_inner = step.is_inner(token)
    try:
        if token.phase == Phase.IS_DONE:
            if node.outputs and not step.is_body(token):
                _map_outputs(step, token, node)
            token.phase = Phase.LEAVES
        if is_inner:
            _collect(step, token, node)
        flows = () if is_inner else _chosen(step, token, node)
    except EvaluationFailed as error:
        step.raise_incident(token, str(error))
        return
    step.end(token)
    if node.kind == NodeKind.PROCESS:
        step.emit(InstanceEnded(Outcome.COMPLETED, token.variables))
    for flow in flows:
        arrive(step, flow, token.scope)


def arrive(step: StepContext, flow: Flow, scope_key: int) -> None:
    """Move a token along a flow to the next node; at a join, the token waits for other tokens."""
    scope = step.alive(scope_key)
    if scope is not None and flow.flow_id in step.definition.joins:
        scope.arrived.append(flow.flow_id)
        step.touched[scope_key] = None
    else:
        step.plan(flow.target, scope_key)


def _map_outputs(step: StepContext, token: Token, node: FlowNode) -> None:
    """Evaluate the output mappings, and write the values into the scopes around the task."""
    scope = step.alive(token.scope)
    if scope is not None:
        written = evaluate_outputs(node.outputs, step.instance, token, step.budget)
        propagate(written, step.instance, token if step.is_inner(token) else scope)


def _collect(step: StepContext, token: Token, node: FlowNode) -> None:
    """Store the result of one execution of a multi-instance activity, and evaluate the completion condition."""
    body = step.alive(token.scope)
    if body is None or body.loop is None or node.loop is None:
        return
    if node.loop.output_item:
        body.loop.outputs[token.number - 1] = step.value(node.loop.output_item, token, levels=1)
    if node.loop.completion:
        # A planned execution has no token yet, so it is counted separately.
        planned = sum(entry.scope == body.key for entry in step.entries)
        running = len(step.instance.children(body.key)) - 1 + planned
        body.variables |= {
            "numberOfInstances": len(body.loop.items),
            "numberOfActiveInstances": running,
            "numberOfCompletedInstances": body.loop.next - running,
            "numberOfTerminatedInstances": 0,
        }
        body.loop.is_enough = is_true(
            node.loop.completion, step.instance, token, step.budget, subject="the completion condition"
        )


def _chosen(step: StepContext, token: Token, node: FlowNode) -> Sequence[Flow]:
    """Choose the outgoing flows.

    An exclusive gateway takes the first flow with a true condition; other nodes take all flows with a true condition.

    errors:  EvaluationFailed  a gateway has neither a flow with a true condition nor a default flow
    """
    if len(node.outgoing) == 1 and node.outgoing[0].condition is None:
        return node.outgoing
    chosen = []
    for flow in node.outgoing:
        if flow.flow_id == node.default_flow:
            continue
        if flow.condition is None or is_true(
            flow.condition, step.instance, token, step.budget, subject=f"the condition of the flow to {flow.target}"
        ):
            chosen.append(flow)
            if node.kind == NodeKind.EXCLUSIVE:
                break
    if chosen or not node.outgoing:
        return chosen
    default = [flow for flow in node.outgoing if flow.flow_id == node.default_flow]
    if not default:
        raise EvaluationFailed(
            "no condition of its outgoing flows is true, and it has no default flow"
            f"{describe_lookups(step.instance, token, *(flow.condition for flow in node.outgoing))};"
            " correct the variables and resolve the incident, or move the token"
        )
    return default
