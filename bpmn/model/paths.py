"""Find the joining gateways, and the nodes from which a token can reach an inclusive join."""

from collections.abc import Mapping, Sequence

from shardclock_server.bpmn.model.definition import FlowNode, NodeKind

# The limit of flows into inclusive joins. The limit is needed because the definition stores the upstream nodes of each
# such flow.
FLOWS_JOINED_MAX = 1_000
JOINS = frozenset({NodeKind.PARALLEL, NodeKind.INCLUSIVE})


def joins_of(nodes: Mapping[str, FlowNode]) -> dict[str, FlowNode]:
    """Map the id of each flow into a join to the join, which is a gateway that waits for tokens of several flows."""
    joins = (node for node in nodes.values() if node.kind in JOINS and len(node.incoming) > 1)
    return {flow_id: node for node in joins for flow_id in node.incoming}


def upstream_of(nodes: Mapping[str, FlowNode]) -> dict[str, dict[str, int]]:
    """For each inclusive join, find the nodes from which a token can reach the join, separately for each incoming flow.

    An inclusive join waits while another token can still arrive through a flow that no token has used. A token moves
    along flows, or leaves an activity through a boundary event. A path through the join itself does not count.

    shape:   each node has a bit mask; bit 0 stands for the first flow in the join's `incoming`
    """
    joins = [node for node in nodes.values() if node.kind == NodeKind.INCLUSIVE and len(node.incoming) > 1]
    if sum(len(join.incoming) for join in joins) > FLOWS_JOINED_MAX:
        return {}  # The checks refuse a model over the limit.
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
