"""Find the gateways that join, and the nodes from which a token can reach an inclusive join."""

from collections.abc import Mapping, Sequence

from shardclock_server.bpmn.model.definition import FlowNode, NodeKind

FLOWS_JOINED_MAX = 1_000  # flows that enter inclusive joins; a list of the nodes before it is stored for each flow
JOINS = frozenset({NodeKind.PARALLEL, NodeKind.INCLUSIVE})


def joins_of(nodes: Mapping[str, FlowNode]) -> dict[str, FlowNode]:
    """Map the id of each flow that enters a join to the join. A join is a gateway that waits for more than one flow."""
    joins = (node for node in nodes.values() if node.kind in JOINS and len(node.incoming) > 1)
    return {flow_id: node for node in joins for flow_id in node.incoming}


def upstream_of(nodes: Mapping[str, FlowNode]) -> dict[str, dict[str, int]]:
    """Find, for each inclusive join, the nodes from which a token may come, and the flows by which it would arrive.

    An inclusive join waits for tokens that can still come through an unused flow. A token moves along flows, or leaves
    an activity through a boundary event. Paths through the join itself don't count.

    shape:   one bit per flow of the join's `incoming`, the first flow's the lowest
    """
    joins = [node for node in nodes.values() if node.kind == NodeKind.INCLUSIVE and len(node.incoming) > 1]
    if sum(len(join.incoming) for join in joins) > FLOWS_JOINED_MAX:
        return {}  # over the limit: the checks refuse the model
    before = _predecessors(nodes)
    sources = {flow.flow_id: node.node_id for node in nodes.values() for flow in node.outgoing}
    return {
        join.node_id: _reaching(join, [sources.get(flow_id) for flow_id in join.incoming], before) for join in joins
    }


def _predecessors(nodes: Mapping[str, FlowNode]) -> dict[str, list[str]]:
    before: dict[str, list[str]] = {node_id: [] for node_id in nodes}
    for node in nodes.values():
        for after in (*(flow.target for flow in node.outgoing), *node.boundaries):
            if after in before:
                before[after].append(node.node_id)
    return before


def _reaching(join: FlowNode, sources: Sequence[str | None], before: Mapping[str, Sequence[str]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, source in enumerate(sources):
        bit = 1 << number
        open_ends = [source]
        while open_ends:
            node_id = open_ends.pop()
            if node_id and node_id != join.node_id and not (by := found.get(node_id, 0)) & bit:
                found[node_id] = by | bit
                open_ends.extend(before[node_id])
    return found
