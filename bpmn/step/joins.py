"""Let tokens pass a join."""

from shardclock_server.bpmn.model.definition import FlowNode, NodeKind
from shardclock_server.bpmn.step.state import Token
from shardclock_server.bpmn.step.tokens import StepContext


def join(step: StepContext, scope: Token) -> bool:
    """Let one token pass each join in a scope if all tokens that the join expects have arrived.

    shape:   true if a token passed a join
    """
    joins = {step.definition.joins[flow_id].node_id: step.definition.joins[flow_id] for flow_id in scope.arrived}
    ready = [node for node in joins.values() if _is_ready(step, scope, node)]
    for node in ready:
        remove_joined(scope, node)
        step.plan(node.node_id, scope.key)
    return bool(ready)


def remove_joined(scope: Token, node: FlowNode) -> None:
    """Remove the tokens that a join replaces by one token."""
    # The join takes one token of each flow. A second token of the same flow waits for the next execution of the join.
    for flow_id in set(node.incoming) & set(scope.arrived):
        scope.arrived.remove(flow_id)


def _is_ready(step: StepContext, scope: Token, node: FlowNode) -> bool:
    taken = set(scope.arrived)
    if taken.issuperset(node.incoming):
        return True
    if node.kind == NodeKind.PARALLEL:
        return False
    # Ignore tokens that can arrive only through flows with a waiting token, because these tokens belong to the next
    # execution of the join.
    missing = sum(1 << number for number, flow_id in enumerate(node.incoming) if flow_id not in taken)
    at_joins = {step.definition.joins[flow_id].node_id for flow_id in taken}
    may_come = at_joins | {child.node_id for child in step.instance.children(scope.key)}
    upstream = step.definition.upstream[node.node_id]
    return not any(upstream.get(node_id, 0) & missing for node_id in may_come)
