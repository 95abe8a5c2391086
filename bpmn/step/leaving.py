"""Let a token go on from a node whose work is done: outputs, the choice of flows, the way to the next nodes."""

from collections.abc import Mapping, Sequence

from shardclock_server.bpmn.model.definition import Error, Flow, Kind, Node
from shardclock_server.bpmn.step.effects import Ended, Outcome
from shardclock_server.bpmn.step.state import Phase, Token
from shardclock_server.bpmn.step.stepping import Stepping
from shardclock_server.bpmn.step.variables import Unanswerable, is_true, lookups, mapped, spread
from shardclock_server.feel import Json


def finish(step: Stepping, token: Token, results: Mapping[str, Json] | None = None) -> None:
    """Let a token go on, with the results of its node's work."""
    if results:
        if step.is_body(token):
            spread(results, step.instance, step.instance.tokens[token.scope])
        elif _keeps_results(step.node_of(token)):
            token.variables.update(results)
        else:
            spread(results, step.instance, token)
    token.phase = Phase.IS_DONE
    leave(step, token)


def _keeps_results(node: Node) -> bool:
    """Say whether results are a node's own: output mappings alone let out some, and all that a caught error brings."""
    return bool(node.outputs) or (node.kind == Kind.BOUNDARY and isinstance(node.trigger, Error))


def leave(step: Stepping, token: Token) -> None:
    """Take a token out of its node; what an incident stopped goes on where it was."""
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
    except Unanswerable as error:
        step.raise_incident(token, str(error))
        return
    step.end(token)
    if node.kind == Kind.PROCESS:
        step.emit(Ended(Outcome.COMPLETED, token.variables))
    for flow in flows:
        arrive(step, flow, token.scope)


def arrive(step: Stepping, flow: Flow, scope_key: int) -> None:
    """Bring a token to the end of a flow: into the node, or to a join that waits for others."""
    scope = step.alive(scope_key)
    if scope is not None and flow.flow_id in step.definition.joins:
        scope.arrived.append(flow.flow_id)
        step.touched[scope_key] = None
    else:
        step.plan(flow.target, scope_key)


def _map_outputs(step: Stepping, token: Token, node: Node) -> None:
    """Write the outputs where they are known around the task; one execution of many asks its own variables first."""
    scope = step.alive(token.scope)
    if scope is not None:
        written = mapped(node.outputs, step.instance, token, step.spending)
        spread(written, step.instance, token if step.is_inner(token) else scope)


def _collect(step: Stepping, token: Token, node: Node) -> None:
    """Keep the result of one execution of a multi-instance activity, and look whether that is enough."""
    body = step.alive(token.scope)
    if body is None or body.loop is None or node.loop is None:
        return
    if node.loop.output_item:
        body.loop.outputs[token.number - 1] = step.value(node.loop.output_item, token, levels=1)
    if node.loop.completion:
        # Those that are about to begin have no tokens yet.
        coming = sum(entry.scope == body.key for entry in step.entries)
        running = len(step.instance.children(body.key)) - 1 + coming
        body.variables |= {
            "numberOfInstances": len(body.loop.items),
            "numberOfActiveInstances": running,
            "numberOfCompletedInstances": body.loop.next - running,
            "numberOfTerminatedInstances": 0,
        }
        body.loop.is_enough = is_true(
            node.loop.completion, step.instance, token, step.spending, meant="its completion condition"
        )


def _chosen(step: Stepping, token: Token, node: Node) -> Sequence[Flow]:
    """Choose the flows that are taken: of an exclusive gateway the first, of others all whose conditions hold.

    errors:  Unanswerable  a gateway has no flow to take
    """
    if len(node.outgoing) == 1 and node.outgoing[0].condition is None:
        return node.outgoing
    chosen = []
    for flow in node.outgoing:
        if flow.flow_id == node.default_flow:
            continue
        if flow.condition is None or is_true(
            flow.condition, step.instance, token, step.spending, meant=f"the condition of the flow to {flow.target}"
        ):
            chosen.append(flow)
            if node.kind == Kind.EXCLUSIVE:
                break
    if chosen or not node.outgoing:
        return chosen
    default = [flow for flow in node.outgoing if flow.flow_id == node.default_flow]
    if not default:
        raise Unanswerable(
            "no condition of its outgoing flows is true, and it has no default flow"
            f"{lookups(step.instance, token, *(flow.condition for flow in node.outgoing))};"
            " correct the variables and resolve this, or move the token"
        )
    return default
