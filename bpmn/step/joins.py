"""Say when a gateway that joins goes on."""

from shardclock_server.bpmn.model.definition import Kind, Node
from shardclock_server.bpmn.step.state import Token
from shardclock_server.bpmn.step.stepping import Stepping


def join(step: Stepping, scope: Token) -> bool:
    """Let the joins of a scope go on that have all they wait for.

    shape:   whether one did
    """
    joins = {step.definition.joins[flow_id].node_id: step.definition.joins[flow_id] for flow_id in scope.arrived}
    ready = [node for node in joins.values() if _is_ready(step, scope, node)]
    for node in ready:
        let_go(scope, node)
        step.plan(node.node_id, scope.key)
    return bool(ready)


def let_go(scope: Token, node: Node) -> None:
    """Take away what waits at a node to be joined, if anything does: it goes on as one token."""
    # Of each flow one token goes on; a second one of the same flow waits for the next time.
    for flow_id in set(node.incoming) & set(scope.arrived):
        scope.arrived.remove(flow_id)


def _is_ready(step: Stepping, scope: Token, node: Node) -> bool:
    taken = set(scope.arrived)
    if taken.issuperset(node.incoming):
        return True
    if node.kind == Kind.PARALLEL:
        return False
    # Who can come by flows that were taken alone is no reason to wait: that token is for the next time.
    missing = sum(1 << number for number, flow_id in enumerate(node.incoming) if flow_id not in taken)
    at_joins = {step.definition.joins[flow_id].node_id for flow_id in taken}
    may_come = at_joins | {child.node_id for child in step.instance.children(scope.key)}
    upstream = step.definition.upstream[node.node_id]
    return not any(upstream.get(node_id, 0) & missing for node_id in may_come)
